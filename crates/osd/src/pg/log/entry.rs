//! Entries of a log, as they are stored and sent.

use crate::object::at_snap;
use maps::{EVersion, ReqId, SnapId};
use store::ObjectKey;
use wire::{Utime, wire_structs};

/// Kinds of entries.
pub mod entry_kind {
    /// The object was written.
    pub const MODIFY: u8 = 1;
    /// The object was removed.
    pub const DELETE: u8 = 2;
    /// A request failed; recorded so that its repetition fails the same way.
    pub const ERROR: u8 = 3;
}

wire_structs! {
    /// The answer that a request got.
    pub struct Answer[v 1/1] {
        /// The vector's result.
        pub result: i32,
        /// Of each operation: rval, and output where the client asked for it.
        pub ops: Vec<(i32, Vec<u8>)>,
        /// Version that the client was told.
        pub user_version: u64,
    }

    /// A clone that an update of its head made or removed with it.
    pub struct CloneChange[plain] {
        /// Id of the clone.
        pub id: SnapId,
        /// The version of the clone before; 0 where the update made it.
        pub prior: EVersion,
    }

    /// An entry of the log: one update.
    pub struct Entry[v 3/1] {
        /// Version of the update.
        pub version: EVersion,
        /// The version of the object before it; 0 where it did not exist.
        pub prior: EVersion,
        /// One of [`entry_kind`].
        pub kind: u8,
        /// The object that changed.
        pub object: ObjectKey,
        /// The client's request.
        pub reqid: ReqId,
        /// The answer that it got.
        pub answer: Answer,
        /// Time of the update.
        pub mtime: Utime,
        /// Clones of the object that came or went with it, in the same transaction.
        pub clones: Vec<CloneChange> = since 2,
        /// It takes the object back to before this entry: what was asked for with that one and later ones of
        /// the object is to be asked for again. 0 for none.
        pub undoes: EVersion = since 3,
    }

    /// Remainder of an update whose entry was trimmed.
    pub struct Dup[v 2/1] {
        /// Version of the update.
        pub version: EVersion,
        /// The client's request.
        pub reqid: ReqId,
        /// The answer that it got.
        pub answer: Answer,
        /// The hash of its object, by which it goes with one side of a split.
        pub hash: u32 = since 2,
    }
}

/// Change of one key by an update.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyChange {
    /// The head, or a clone.
    pub key: ObjectKey,
    /// True if the key is gone afterwards.
    pub removed: bool,
    /// Version before; 0 if there was none.
    pub prior: EVersion,
}

impl Entry {
    /// All keys that the update changed, clones before their head; none where it failed.
    pub fn changes(&self) -> Vec<KeyChange> {
        if self.kind == entry_kind::ERROR {
            return Vec::new();
        }
        let clone = |c: &CloneChange| KeyChange {
            key: at_snap(&self.object, c.id.0),
            removed: c.prior != EVersion::default(),
            prior: c.prior,
        };
        let removed = self.kind == entry_kind::DELETE;
        let head = KeyChange { key: self.object.clone(), removed, prior: self.prior };
        self.clones.iter().map(clone).chain([head]).collect()
    }
}
