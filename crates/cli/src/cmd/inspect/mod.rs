//! `nacre inspect`: what is stored, on the device of a daemon and in the metadata pool of a file system. It
//! never writes. What it shows of a file system needs no metadata server, and damage does not end it: each
//! damaged item becomes a line that says where it is.

mod dir;
mod findings;
mod inode;
mod journal;
mod json;
#[cfg(test)]
mod memory;
mod pool;
mod printer;
mod sessions;
mod show;
mod stored;
mod tables;
mod target;
#[cfg(test)]
mod tests;
mod text;
mod view;
mod walk;

use super::store;
use anyhow::Result;
use clap::{Args, Subcommand};
use findings::Findings;
use pool::{FsArgs, MetadataPool};
use printer::Printer;
use show::Show;
use std::io::Write;

#[derive(Args)]
pub(crate) struct InspectArgs {
    #[command(subcommand)]
    command: InspectCommand,
}

#[derive(Subcommand)]
enum InspectCommand {
    /// Show superblocks, index, space and log of a store, even a damaged one.
    Store(store::TargetArgs),
    /// List the events of a metadata server's journal, and where it is damaged.
    Journal(Of<journal::JournalArgs>),
    /// List the stored entries of a directory, snapshots included.
    Dir(Of<target::TargetArgs>),
    /// Show an inode and how it is found: inode index, ancestors, entry.
    Inode(Of<target::TargetArgs>),
    /// List the stored sessions of a metadata server.
    Sessions(Of<target::SourceArgs>),
    /// Show inode numbers, snapshots, strays and the other tables.
    Tables(Of<target::SourceArgs>),
}

/// The arguments of a command about a file system.
#[derive(Args)]
struct Of<T: Args> {
    #[command(flatten)]
    fs: FsArgs,
    #[command(flatten)]
    more: T,
}

pub(crate) fn run(args: &InspectArgs) -> Result<()> {
    match &args.command {
        InspectCommand::Store(target) => store::inspect(target),
        InspectCommand::Journal(args) => args.show(|show| journal::show(show, &args.more)),
        InspectCommand::Dir(args) => args.show(|show| dir::show(show, &args.more)),
        InspectCommand::Inode(args) => args.show(|show| inode::show(show, &args.more)),
        InspectCommand::Sessions(args) => args.show(|show| sessions::show(show, &args.more)),
        InspectCommand::Tables(args) => args.show(|show| tables::show(show, &args.more)),
    }
}

impl<T: Args> Of<T> {
    /// Connects, and prints what `show` finds; fails if that is damaged.
    fn show(&self, show: impl FnOnce(Show<'_>) -> Result<Findings>) -> Result<()> {
        let pool = MetadataPool::open(&self.fs)?;
        let mut out = std::io::BufWriter::new(std::io::stdout().lock());
        let printer = Printer::new(&mut out, self.fs.format);
        let findings = show(Show { objects: &pool, rank: self.fs.rank, printer });
        let findings = findings.and_then(|findings| Ok(out.flush().map(|()| findings)?));
        pool.close()?;
        match findings {
            // Who reads only the beginning (`| head`) has seen enough.
            Err(error) if is_closed(&error) => Ok(()),
            findings => findings?.into_result(),
        }
    }
}

/// True if the reader of the output is gone.
fn is_closed(error: &anyhow::Error) -> bool {
    error.downcast_ref().is_some_and(|e: &std::io::Error| e.kind() == std::io::ErrorKind::BrokenPipe)
}
