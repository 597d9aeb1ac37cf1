//! Snapshots: taken, removed, gone back to.

use super::args::BlockArgs;
use super::one::World;
use crate::block::ImageSpec;
use anyhow::Result;
use block::{Operation, Reply};

fn maintain(args: &BlockArgs, snap: &ImageSpec, operation: impl Fn(String) -> Operation) -> Result<Reply> {
    let world = World::connect(args)?;
    let name = snap.need_snap()?.to_owned();
    let reply = world.maintain(&ImageSpec { snap: None, ..snap.clone() }, operation(name))?;
    world.shut_down()?;
    Ok(reply)
}

pub(super) fn create(args: &BlockArgs, snap: &ImageSpec) -> Result<()> {
    maintain(args, snap, |name| Operation::SnapCreate { name }).map(drop)
}

pub(super) fn remove(args: &BlockArgs, snap: &ImageSpec) -> Result<()> {
    if let Reply::KeptForClones(clones) = maintain(args, snap, |name| Operation::SnapRemove { name })? {
        say!("{snap} has {clones} clones: it is out of sight, and will be removed with the last of them");
    }
    Ok(())
}

pub(super) fn rollback(args: &BlockArgs, snap: &ImageSpec) -> Result<()> {
    maintain(args, snap, |name| Operation::Rollback { name }).map(drop)
}
