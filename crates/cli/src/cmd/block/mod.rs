//! `nacre block`: block-device images.

mod args;
mod images;
mod map;
mod one;
mod show;
mod snaps;
mod unmap;

pub(crate) use args::BlockArgs;

use anyhow::Result;
use args::{BlockCommand, SnapCommand};
use block::Access;

/// Runs a command.
pub(crate) fn run(args: &BlockArgs) -> Result<()> {
    match &args.command {
        BlockCommand::Create(create) => images::create(args, create),
        BlockCommand::Ls { pool: Some(pool), .. } => show::list(args, pool),
        BlockCommand::Ls { .. } => unmap::list(args),
        BlockCommand::Info { image } => show::info(args, image),
        BlockCommand::Map(map) => map::run(args, map),
        BlockCommand::Unmap { what } => unmap::run(args, what),
        BlockCommand::Snap { command } => match command {
            SnapCommand::Create { snap } => snaps::create(args, snap),
            SnapCommand::Ls { image } => show::snaps(args, image),
            SnapCommand::Rm { snap } => snaps::remove(args, snap),
            SnapCommand::Rollback { snap } => snaps::rollback(args, snap),
        },
        BlockCommand::Clone(clone) => images::clone(args, clone),
        BlockCommand::Resize { image, size, allow_shrink } => {
            images::resize(args, image, *size, *allow_shrink)
        }
        BlockCommand::Flatten { image, parent_is_gone } => {
            images::flatten(args, image, if *parent_is_gone { Access::FlattenOrphan } else { Access::Write })
        }
        BlockCommand::Rm { image } => images::remove(args, image),
    }
}
