//! OSD maps: received in order, stored, processed by all PGs before the next input, passed on to those that
//! lack them.

mod steps;

use crate::map_sharing::AwaitedMap;
use crate::pg::membership::Members;
use crate::superblock::Superblock;
use maps::{Epoch, PgId};
use std::collections::BTreeMap;
use store::TxnOp;

/// A PG to which nobody can have written yet: in none of its intervals did a primary become active.
#[derive(Clone, Debug)]
struct Untouched {
    created: Epoch,
    members: Members,
}

/// State of the map log beside the newest map.
#[derive(Debug, Default)]
pub struct MapLog {
    /// The superblock as stored.
    superblock: Superblock,
    /// The newest epoch that the monitor has mentioned.
    newest_known: Epoch,
    awaited: AwaitedMap,
    /// Steps that store the maps received with this input.
    unsaved: Vec<TxnOp>,
    /// Total size of those maps in bytes.
    unsaved_len: usize,
    untouched: BTreeMap<PgId, Untouched>,
}

impl MapLog {
    /// Takes the superblock that was stored.
    pub fn load(&mut self, superblock: Superblock) {
        self.superblock = superblock;
    }

    /// The superblock, as it is stored with the newest map.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// The newest epoch that anybody has mentioned.
    pub fn newest_known(&self) -> Epoch {
        self.newest_known
    }
}
