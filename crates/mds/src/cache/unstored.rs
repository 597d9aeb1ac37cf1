//! Small files whose data are in the journal only (docs/adr/0020-small-files-in-the-journal.md).

use fsfmt::{InodeData, InodeKey};
use std::collections::BTreeMap;

/// The most files. Each is one object operation of 4 KiB or so, so that all of them are stored in a second
/// once no client asks for anything.
const MAX_FILES: usize = 4096;
/// The same as a part of the entries that fit the cache, since they stay there.
const MAX_OF_CACHE: usize = 16;
/// The most bytes of their data, a quarter of the journal.
const MAX_BYTES: u64 = 16 << 20;

/// Files whose data are in the journal only. Their entries are not written back, so that the journal has them
/// until they are stored.
///
/// Invariant: `bytes` is the sum over `files`, which are the cached inodes with packed data.
#[derive(Default, Debug)]
pub struct Unstored {
    files: BTreeMap<InodeKey, u64>,
    bytes: u64,
}

impl Unstored {
    /// True if the data of another file fit, beside a cache of at most `entries`.
    pub fn has_room(&self, bytes: u64, entries: usize) -> bool {
        self.files.len() < MAX_FILES.min(entries / MAX_OF_CACHE) && self.bytes + bytes <= MAX_BYTES
    }

    /// The files.
    pub fn files(&self) -> impl Iterator<Item = InodeKey> {
        self.files.keys().copied()
    }

    /// True if a file's data are in the journal only.
    pub fn contains(&self, ino: InodeKey) -> bool {
        self.files.contains_key(&ino)
    }

    /// How full it is, in parts of `whole`, beside a cache of at most `entries`.
    pub fn fill_level(&self, whole: usize, entries: usize) -> usize {
        let of_files = self.files.len() * whole / MAX_FILES.min(entries / MAX_OF_CACHE).max(1);
        let of_bytes = self.bytes * whole as u64 / MAX_BYTES;
        of_files.max(of_bytes as usize).min(whole)
    }

    /// The number of files.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// True if there is no such file.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Notes an inode as it is now.
    pub(super) fn note(&mut self, ino: InodeKey, data: &InodeData) {
        self.remove(ino);
        if let Some(packed) = &data.packed {
            let bytes = packed.inline.len() as u64;
            self.files.insert(ino, bytes);
            self.bytes += bytes;
        }
    }

    /// Notes that an inode is gone.
    pub(super) fn remove(&mut self, ino: InodeKey) {
        self.bytes -= self.files.remove(&ino).unwrap_or(0);
    }

    /// Asserts the invariant; `bytes` are those of all cached inodes.
    pub(super) fn check(&self, bytes: u64) {
        assert_eq!(
            (self.bytes, self.files.values().sum::<u64>()),
            (bytes, bytes),
            "data in the journal only"
        );
    }
}
