//! A part of a directory fragment as one run of an operation saw it.

use fsfmt::{DentryKey, DirFrag};

/// A part of a directory fragment that is in the cache without gaps, as of an operation's run.
#[derive(Clone, Debug)]
pub struct Page {
    /// The directory fragment.
    pub dir: DirFrag,
    /// It begins behind this omap key …
    pub after: Vec<u8>,
    /// … and ends with this entry, or with the fragment.
    pub last: Option<DentryKey>,
    /// The run from which on it is cached.
    pub since: u64,
}
