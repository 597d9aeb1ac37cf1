//! What an operation has decided: its changes, and its answer.

use crate::types::Place;
use fsfmt::{Frag, Ino, InodeKey, Update};
use maps::MdsRank;
use std::collections::BTreeMap;

/// What an operation will do.
#[derive(Default, Debug)]
pub struct Plan {
    /// This rank's changes, journaled as one event.
    pub local: Vec<Update>,
    /// Changes of what other ranks have the authority over. With some, the operation becomes a transaction of
    /// all of them; with one rank there are none.
    pub remote: BTreeMap<MdsRank, Vec<Update>>,
    /// The inode that it makes, or 0.
    pub created: Ino,
    /// The answer.
    pub reply: Reply,
    /// Inodes whose caps are to be looked at again.
    pub touched: Vec<InodeKey>,
    /// A file lock to set.
    pub lock: Option<LockChange>,
}

/// What to answer.
#[derive(Default, Debug)]
pub struct Reply {
    /// 0, or a negative errno that comes with a trace.
    pub result: i32,
    /// Directory and name that the client learns of.
    pub dentry: Option<Place>,
    /// Inode that it learns of.
    pub target: Option<InodeKey>,
    /// Cap bits that it wants of the target from now on.
    pub want: u32,
    /// The rest.
    pub extra: Extra,
}

/// The part of an answer that depends on the operation.
#[derive(Default, Debug)]
pub enum Extra {
    /// Nothing.
    #[default]
    None,
    /// The inode that was made.
    Created(Ino),
    /// Encoded already.
    Bytes(Vec<u8>),
    /// Entries of a directory.
    Listing {
        /// The fragment.
        frag: Frag,
        /// Names and inodes.
        entries: Vec<(Vec<u8>, InodeKey)>,
        /// Bits of `readdir_flag`.
        flags: u16,
        /// Bytes that the answer may have.
        max_bytes: usize,
    },
}

/// A file lock that is set or freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockChange {
    /// On which file.
    pub ino: InodeKey,
    /// fcntl rather than flock.
    pub posix: bool,
    /// Shared, exclusive or free.
    pub kind: u8,
    /// Within the client.
    pub owner: u64,
    /// Process.
    pub pid: u64,
    /// First byte.
    pub start: u64,
    /// Bytes; 0 to the end.
    pub length: u64,
}
