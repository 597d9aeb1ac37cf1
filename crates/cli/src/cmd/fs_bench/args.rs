//! The arguments of `nacre fs`.

use super::super::terminal::{Format, size};
use clap::{Args, Subcommand, ValueEnum, value_parser};
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct FsArgs {
    #[command(subcommand)]
    pub(super) command: FsCommand,
}

#[derive(Subcommand)]
pub(super) enum FsCommand {
    /// Measure a mounted file system, of any kind.
    Bench(BenchArgs),
    /// Show two results of `bench --format json` side by side.
    Compare(CompareArgs),
}

#[derive(Args)]
pub(super) struct BenchArgs {
    /// A directory of the file system. A directory is made in it, and removed in the end.
    pub(super) dir: PathBuf,
    /// The shape of the load; may be given more than once.
    #[arg(long, value_enum, default_value = "all")]
    pub(super) shape: Vec<Shape>,
    /// Workers; each is a thread of one process.
    #[arg(long, default_value_t = 4, value_parser = value_parser!(u64).range(1..=1024))]
    pub(super) threads: u64,
    /// Files and directories of each worker (mdtest).
    #[arg(long, default_value_t = 500, value_parser = value_parser!(u64).range(1..=10_000_000))]
    pub(super) files: u64,
    /// Bytes of each worker's file, at least 4K (fio, ior, iozone).
    #[arg(long, default_value = "64M", value_parser = file_size)]
    pub(super) size: u64,
    /// Random operations of each worker, at most as many as its file has blocks (fio, ior-shared).
    #[arg(long, default_value_t = 1000, value_parser = value_parser!(u64).range(1..=100_000_000))]
    pub(super) ops: u64,
    /// The seed of all that is random: offsets, orders, contents.
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// Times that everything is measured.
    #[arg(long, default_value_t = 5, value_parser = value_parser!(u64).range(1..=1000))]
    pub(super) rounds: u64,
    /// The form of the output.
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: Format,
    /// Draw a bar chart into this file too.
    #[arg(long)]
    pub(super) svg: Option<PathBuf>,
}

#[derive(Args)]
pub(super) struct CompareArgs {
    /// The result that the other one is compared with.
    pub(super) before: PathBuf,
    /// The other one.
    pub(super) after: PathBuf,
    /// The form of the output.
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: Format,
}

/// The shape of a load, by the program that made it known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum)]
pub(super) enum Shape {
    /// Names: create, stat, write, read, rename, unlink, mkdir, rmdir in one directory and in private ones.
    Mdtest,
    /// Sequential and random reads and writes, with and without fsync.
    Fio,
    /// One file that all workers write and read.
    IorShared,
    /// A file for each worker, which another one reads.
    IorEach,
    /// Write, rewrite, read, reread by records of 4 KiB to 1 MiB.
    Iozone,
    /// All of them.
    All,
}

impl Shape {
    /// All but [`Shape::All`].
    pub(super) const EACH: [Self; 5] =
        [Self::Mdtest, Self::Fio, Self::IorShared, Self::IorEach, Self::Iozone];

    /// Its name on the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Mdtest => "mdtest",
            Self::Fio => "fio",
            Self::IorShared => "ior-shared",
            Self::IorEach => "ior-each",
            Self::Iozone => "iozone",
            Self::All => "all",
        }
    }
}

impl BenchArgs {
    /// The shapes to measure, each once.
    pub(super) fn shapes(&self) -> Vec<Shape> {
        let is_wanted = |shape: &Shape| self.shape.contains(shape) || self.shape.contains(&Shape::All);
        Shape::EACH.into_iter().filter(is_wanted).collect()
    }
}

fn file_size(text: &str) -> Result<u64, String> {
    match size(text)? {
        size if size >= 4096 => Ok(size),
        _ => Err("a file is to have at least 4K".into()),
    }
}
