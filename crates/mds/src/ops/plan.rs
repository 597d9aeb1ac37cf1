//! What an operation has decided: its changes, and its answer.

use crate::locks::Ask;
use crate::types::Place;
use fsfmt::{Frag, Ino, InodeKey, Update};
use maps::SnapId;
use std::sync::Arc;

/// The changes and the answer of an operation.
#[derive(Default, Debug)]
pub struct Plan {
    /// This rank's changes, journaled as one event.
    pub local: Vec<Update>,
    /// The inode that it creates, or 0.
    pub created: Ino,
    /// The client's answer.
    pub reply: Reply,
    /// Inodes whose caps must be evaluated again.
    pub touched: Vec<InodeKey>,
    /// A file lock to set or free.
    pub lock: Option<Ask>,
    /// A change of snapshot realms, of which clients are told before the answer.
    pub realm: Option<RealmChange>,
}

/// A change of the snapshots that cover inodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RealmChange {
    /// The snapshots of a realm are others now.
    Updated(Ino),
    /// What is in a realm now was in another one before.
    Split(Ino),
}

/// The content of an answer.
#[derive(Default, Debug)]
pub struct Reply {
    /// 0, or a negative errno that comes with a trace.
    pub result: i32,
    /// Directory and name that the client learns of.
    pub dentry: Option<Place>,
    /// Inode that it learns of.
    pub target: Option<InodeKey>,
    /// Cap bits of the target that it wants from now on.
    pub want: u32,
    /// True if it has made the target asynchronously, and assumes to have a capability on it.
    pub is_assumed: bool,
    /// What is shown of a snapshot instead of the above.
    pub view: Option<View>,
    /// Further content that depends on the operation.
    pub extra: Extra,
}

/// A name and its inode.
pub type Listed = (Arc<[u8]>, InodeKey);
/// A name, its state, and the snapshot that has it.
pub type Snapped = (Vec<u8>, InodeKey, SnapId);

/// States of a snapshot, which nobody changes and nobody holds capabilities on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct View {
    /// The snapshot.
    pub snap: SnapId,
    /// The directory's state, and the name in it.
    pub dentry: Option<(InodeKey, Vec<u8>)>,
    /// The state that it leads to; none if the snapshot has no such name.
    pub target: Option<InodeKey>,
}

/// The part of an answer that depends on the operation.
#[derive(Default, Debug)]
pub enum Extra {
    /// No further content.
    #[default]
    None,
    /// The created inode.
    Created(Ino),
    /// Content that is already encoded.
    Bytes(Vec<u8>),
    /// Entries of a directory.
    Listing {
        /// The listed fragment.
        frag: Frag,
        /// Names and inodes.
        entries: Vec<Listed>,
        /// Bits of `readdir_flag`.
        flags: u16,
        /// Bytes that the answer may have.
        max_bytes: usize,
    },
    /// Entries of a directory as of snapshots, or its snapshots.
    Snapped {
        /// The listed fragment.
        frag: Frag,
        /// Names, states, and the snapshot of each.
        entries: Vec<Snapped>,
        /// Bits of `readdir_flag`.
        flags: u16,
        /// Bytes that the answer may have.
        max_bytes: usize,
    },
}
