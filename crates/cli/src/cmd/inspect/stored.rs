//! Reading objects of a metadata pool. Tests keep theirs in memory.

use anyhow::Result;
use std::collections::BTreeMap;
use wire::Errno;

/// Entries of an omap.
pub(super) type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

/// The answer to a read.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Stored<T> {
    /// The object is there.
    Here(T),
    /// There is no such object.
    Absent,
    /// OSDs answer with this error: no copy of the object can be read.
    Unreadable(Errno),
}

/// The objects of a metadata pool. An `Err` says that the cluster can't be asked.
pub(super) trait Objects {
    /// The pool's name.
    fn pool(&self) -> &str;

    /// All data of an object.
    fn data(&self, object: &str) -> Result<Stored<Vec<u8>>>;

    /// The header of its omap.
    fn header(&self, object: &str) -> Result<Stored<Vec<u8>>>;

    /// Entries of its omap with keys behind `after`, and whether more follow.
    fn page(&self, object: &str, after: &[u8]) -> Result<Stored<(Entries, bool)>>;

    /// The value of a key of its omap.
    fn value(&self, object: &str, key: &[u8]) -> Result<Stored<Option<Vec<u8>>>>;

    /// The names of all objects that begin so: slow in a large pool.
    fn names(&self, prefix: &str) -> Result<Vec<String>>;
}
