//! The arguments of `nacre store bench`.

use super::terminal::{Format, size};
use clap::Args;
use runtime::Access;
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct BenchArgs {
    /// A directory, in which a file is made and removed again, or a blank file or device.
    pub(super) target: PathBuf,
    /// The size of a new file.
    #[arg(long, default_value = "8G", value_parser = size)]
    pub(super) size: u64,
    /// The measurement.
    #[arg(long, value_enum, default_value_t)]
    pub(super) mode: Mode,
    /// Seconds for each measurement [default: 5 of `quick`, 10 of `classes`, 600 of `mixed`].
    #[arg(long)]
    pub(super) seconds: Option<u64>,
    /// Percent of the device that `mixed` fills and `ageing` does not exceed.
    #[arg(long, default_value_t = 80, value_parser = clap::value_parser!(u64).range(1..=95))]
    pub(super) full: u64,
    /// Times that `ageing` writes the capacity [default: 20] and `steady` the live data [default: 10].
    #[arg(long)]
    pub(super) turns: Option<u64>,
    /// Live data of `steady` [default: half of the device].
    #[arg(long, value_parser = size)]
    pub(super) live: Option<u64>,
    /// The size of the overwrites of `steady`.
    #[arg(long, default_value = "4K", value_parser = size)]
    pub(super) io_size: u64,
    /// Operations in flight of `mixed`, `ageing`, `steady`, and small ones of `classes`.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub(super) in_flight: u64,
    /// The size of the index cache.
    #[arg(long, default_value = "64M", value_parser = size)]
    pub(super) cache: u64,
    /// The size of the data cache.
    #[arg(long, default_value = "16M", value_parser = size)]
    pub(super) data_cache: u64,
    /// The size of the log [default: by the size of the device].
    #[arg(long, value_parser = size)]
    pub(super) log: Option<u64>,
    /// Number of small objects that are made, listed, and found after a restart.
    #[arg(long, default_value_t = 100_000)]
    pub(super) objects: u64,
    /// The size of a small object, in bytes.
    #[arg(long, default_value = "4K", value_parser = size)]
    pub(super) object_size: u64,
    /// Give no free space back to the device.
    #[arg(long)]
    pub(super) no_discard: bool,
    /// The way to access the device.
    #[arg(long, value_enum, default_value_t)]
    pub(super) access: Way,
    /// Only measurements whose names contain this; may be given more than once.
    #[arg(long, value_name = "PART")]
    pub(super) only: Vec<String>,
    /// The form of the output.
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: Format,
}

#[derive(Clone, Copy, Default, clap::ValueEnum)]
pub(super) enum Mode {
    /// Writes and reads of three sizes, small objects, opening, listing.
    #[default]
    Quick,
    /// Latencies of random reads and writes of 4 KiB to 4 MiB on a store that is nearly full.
    Mixed,
    /// Sequential reads of a store that was overwritten many times, beside those of a fresh one.
    Ageing,
    /// Bytes written to the disk for each byte that is overwritten at random, in the long run.
    Steady,
    /// Small reads and writes beside large ones of other classes.
    Classes,
}

#[derive(Clone, Copy, Default, clap::ValueEnum)]
pub(super) enum Way {
    /// As the daemons do: the best way that the host allows.
    #[default]
    Best,
    /// Direct I/O by threads.
    Threads,
    /// Through the page cache.
    Buffered,
}

impl From<Way> for Access {
    fn from(way: Way) -> Self {
        match way {
            Way::Best => Self::Best,
            Way::Threads => Self::Threads,
            Way::Buffered => Self::Buffered,
        }
    }
}
