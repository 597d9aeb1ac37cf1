//! The memory that the cache takes, and the number of entries that fit its limit.
//!
//! The sum is an estimate in the sizes of blocks that mimalloc hands out; `cargo bench -p mds --bench memory`
//! prints it beside what was handed out. It counts neither changes that are not written back, which
//! `mds_journal_limit` bounds, nor operations under way.

use crate::config::MdsOptions;
use fsfmt::{BackPointer, DentryKey, InodeData, OldInode, PackedData, Realm};

/// An entry with a name of up to [`SHORT_NAME`] bytes: its part of a tree node, which is two thirds full, its
/// name, and its item of the queue.
const ENTRY_BYTES: u64 = 245;
/// An inode: its block, and its part of the table, which is between half full and full.
const INODE_BYTES: u64 = 490;
/// A capability: at its inode, and in its client's session.
const CAP_BYTES: u64 = 92;
/// An entry of its own inode, which a client holds.
const USUAL_BYTES: u64 = ENTRY_BYTES + INODE_BYTES + CAP_BYTES;
/// A fragment of a directory.
const DIR_BYTES: u64 = 320;
/// A tree of byte strings that has an entry: a node for eleven; and each string's overhead.
const TREE_BYTES: u64 = 640;
const STRING_BYTES: u64 = 16;
/// A client that may write.
const RANGE_BYTES: u64 = 32;
/// The longest name that [`ENTRY_BYTES`] contains.
const SHORT_NAME: usize = 16;

/// Sizes of what is cached.
///
/// Invariant: `extra` is the sum of [`extra_of_inode`] and [`extra_of_name`] over all that is cached.
#[derive(Default, Debug)]
pub(super) struct Size {
    /// Bytes beyond those of usual entries and inodes.
    extra: u64,
    /// Capabilities of all clients, as of the last look.
    held: usize,
    /// Entries that fit, as of the last look.
    most: usize,
    /// Those of them that clients may pin.
    most_held: usize,
}

/// Numbers of cached things.
#[derive(Clone, Copy)]
pub(super) struct Counts {
    pub entries: usize,
    pub inodes: usize,
    pub dirs: usize,
}

impl Size {
    /// Notes that something was added.
    pub fn add(&mut self, extra: u64) {
        self.extra += extra;
    }

    /// Notes that something was removed.
    pub fn remove(&mut self, extra: u64) {
        self.extra -= extra;
    }

    /// Bytes of all.
    pub fn bytes(&self, counts: Counts) -> u64 {
        counts.entries as u64 * ENTRY_BYTES
            + counts.inodes as u64 * INODE_BYTES
            + counts.dirs as u64 * DIR_BYTES
            + self.held as u64 * CAP_BYTES
            + self.extra
    }

    /// Looks how many entries fit the limits, with `held` capabilities in all. As long as there is room,
    /// further ones are supposed to be of usual size; if there is none, those here take what they take.
    pub fn look(&mut self, options: &MdsOptions, counts: Counts, held: usize) {
        self.held = held;
        let limit = options.cache_bytes.saturating_add(options.spare_bytes);
        let (bytes, entries) = (self.bytes(counts), counts.entries as u64);
        let fit = match limit.checked_sub(bytes) {
            Some(room) => entries + room / USUAL_BYTES,
            None => (u128::from(entries) * u128::from(limit) / u128::from(bytes)) as u64,
        };
        self.most = usize::try_from(fit).unwrap_or(usize::MAX).min(options.cache_inodes).max(1);
        self.most_held = match options.spare_bytes {
            0 => self.most,
            _ => self.most.min((options.cache_bytes / USUAL_BYTES) as usize),
        };
    }

    /// Capabilities of all clients.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Number of entries that fit.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Number of entries that clients may pin together.
    pub fn most_held(&self) -> usize {
        self.most_held
    }

    /// Asserts that bytes beyond the usual are those of a walk.
    pub fn check(&self, extra: u64) {
        assert_eq!(self.extra, extra, "bytes of long names and large inodes are counted");
    }
}

/// Bytes of a name beyond those of a short one.
pub(super) fn extra_of_name(key: &DentryKey) -> u64 {
    key.name.len().saturating_sub(SHORT_NAME) as u64
}

/// Bytes of an inode beyond those that every inode has.
pub(super) fn extra_of_inode(data: &InodeData) -> u64 {
    let string = |bytes: &[u8]| bytes.len() as u64 + STRING_BYTES;
    let xattrs: u64 = data.xattrs.iter().map(|(name, value)| string(name) + string(value)).sum();
    let tree = if data.xattrs.is_empty() { 0 } else { TREE_BYTES };
    let symlink = if data.symlink.is_empty() { 0 } else { string(&data.symlink) };
    let ranges = data.ranges.len() as u64 * RANGE_BYTES;
    let states = data.old_inodes.len() * size_of::<OldInode>();
    let realm = data.own_realm.as_ref().map_or(0, |own| {
        size_of::<Realm>() + own.snaps.len() * size_of::<fsfmt::SnapInfo>() + 8 * own.past_parent_snaps.len()
    });
    let links = data.links.len() * size_of::<BackPointer>();
    let packed = data.packed.as_ref().map_or(0, |packed| size_of::<PackedData>() + packed.inline.len());
    xattrs + tree + symlink + ranges + (packed + states + realm + links) as u64
}
