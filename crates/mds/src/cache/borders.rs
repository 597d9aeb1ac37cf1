//! What the directories above subtrees count of these.
//!
//! A subtree changes in one rank, and the directory above it in another. So that directory's rank notes,
//! with the event that changes its statistics, which part of them is the subtree's. It is told again and
//! again, and counts what has changed since. When the subtree becomes part of the one around it, this is what
//! its root has been counted with.

use crate::authority::decode_by_root;
use crate::dirty::DirtyIndex;
use crate::types::{Lsn, Origin, Segment};
use fsfmt::{Counted, Ino, border_key, parse_border_key};
use std::collections::BTreeMap;
use wire::{DecodeError, Writer};

/// What is counted of a subtree.
#[derive(Clone, PartialEq, Debug)]
struct Border {
    counted: Counted,
    /// The event that counted it.
    lsn: Lsn,
}

/// What is counted of subtrees, by root. Of one that is not here, its root's inode tells (`accounted`): that
/// has not changed since it left the rank of the directory above.
///
/// Invariant: what was changed is dirty or in a write-back until it is stored.
#[derive(Default)]
pub struct Borders {
    borders: BTreeMap<Ino, Border>,
    dirty: DirtyIndex<Ino>,
    committing: DirtyIndex<Ino>,
}

impl Borders {
    /// What is counted of a subtree.
    pub fn counted(&self, root: Ino) -> Option<&Counted> {
        self.borders.get(&root).map(|border| &border.counted)
    }

    /// The event by which the directory above a subtree counts it as it does now.
    pub fn event(&self, root: Ino) -> Lsn {
        self.borders.get(&root).map_or(0, |border| border.lsn)
    }

    /// Applies an event, live or at replay.
    pub(super) fn apply(&mut self, root: Ino, counted: Counted, origin: Origin) {
        self.borders.insert(root, Border { counted, lsn: origin.lsn });
        self.dirty.mark(root, origin.segment);
    }

    /// Takes in what is stored.
    pub fn load(&mut self, entries: &BTreeMap<Vec<u8>, Vec<u8>>) -> Result<(), DecodeError> {
        for (root, counted) in decode_borders(entries)? {
            self.borders.insert(root, Border { counted, lsn: 0 });
        }
        Ok(())
    }

    /// Takes in what another rank has stored of subtrees in directories that come from it.
    pub fn renew(&mut self, stored: BTreeMap<Ino, Option<Counted>>) {
        for (root, counted) in stored {
            self.remove(root);
            self.borders.extend(counted.map(|counted| (root, Border { counted, lsn: 0 })));
        }
    }

    /// A subtree is part of the one around it, or has just left it: its root's inode tells.
    pub fn remove(&mut self, root: Ino) {
        self.borders.remove(&root);
        self.dirty.remove(&root);
    }

    /// The oldest segment with a change that is not stored.
    pub fn first_needed(&self) -> Option<Segment> {
        self.dirty.oldest().into_iter().chain(self.committing.oldest()).min()
    }

    /// Somebody else has stored what segments before `segment` changed.
    pub fn note_stored(&mut self, segment: Segment) {
        self.dirty.raise(segment);
    }

    /// Begins the write-back of all changes.
    pub fn begin_commit(&mut self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        assert!(self.committing.is_empty(), "one write-back of what is counted at a time");
        self.committing = std::mem::take(&mut self.dirty);
        let known = self.committing.keys().filter_map(|root| Some((root, self.borders.get(root)?)));
        known.map(|(root, border)| (border_key(*root), Writer::encode(&border.counted))).collect()
    }

    /// Ends a write-back.
    pub fn end_commit(&mut self) {
        self.committing.clear();
    }
}

/// What stored entries of the partition say.
pub fn decode_borders(entries: &BTreeMap<Vec<u8>, Vec<u8>>) -> Result<BTreeMap<Ino, Counted>, DecodeError> {
    decode_by_root(entries, parse_border_key)
}
