//! The inode that a command is about, and whether the journal counts.

use clap::Args;
use fsfmt::Ino;

/// An inode, by number or path.
#[derive(Args)]
pub(super) struct TargetArgs {
    /// A path from the root, or an inode number: decimal, or hexadecimal with 0x.
    #[arg(value_parser = parse)]
    pub target: Target,
    #[command(flatten)]
    pub source: SourceArgs,
}

/// Where metadata is taken from.
#[derive(Args, Default)]
pub(super) struct SourceArgs {
    /// Only what the objects hold, without what the journal changes of it.
    #[arg(long)]
    pub stored: bool,
}

impl SourceArgs {
    /// The rank whose journal is laid over, if one is.
    pub fn journal_of(&self, rank: u32) -> Option<u32> {
        (!self.stored).then_some(rank)
    }
}

/// An inode, by number or path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Target {
    /// Its number.
    Ino(Ino),
    /// Its path from the root.
    Path(String),
}

/// Reads a path or a number.
pub(super) fn parse(text: &str) -> Result<Target, String> {
    if text.starts_with('/') {
        return Ok(Target::Path(text.to_owned()));
    }
    let number = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    let advice = "give a path that begins with /, or an inode number such as 1099511627776 or 0x10000000000";
    number.map(|number| Target::Ino(Ino(number))).map_err(|_| format!("`{text}` is neither: {advice}"))
}
