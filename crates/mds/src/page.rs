//! A part of a directory fragment as seen by one run of an operation.

use fsfmt::{DentryKey, DirFrag};

/// A part of a directory fragment that is in the cache without gaps, as of an operation's run.
#[derive(Clone, Debug)]
pub struct Page {
    /// The directory fragment.
    pub dir: DirFrag,
    /// Its start: after this omap key …
    pub after: Vec<u8>,
    /// … and its end: this entry, or the end of the fragment.
    pub last: Option<DentryKey>,
    /// The run since which it is cached.
    pub since: u64,
}
