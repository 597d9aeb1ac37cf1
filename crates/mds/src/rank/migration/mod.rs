//! Migration of subtrees from one rank to another (the paper's section 4.3). The authority moves by one write:
//! that of the subtree's record in the partition, which every rank reads when it starts. Before that, everything
//! in the subtree is stored where the other rank finds it, and the journal has none of it any more; after it, what
//! clients hold there is handed over (docs/adr/0021-authority-moves-by-one-write.md).
//!
//! ```text
//! from                                     record            to
//!   Quiet    nobody works alone in it
//!   Settle   operations wait; revocations
//!            end; all is stored; journal
//!   Record   expires ──────────────────►  to, from
//!   Hand     capabilities, locks ────────────────────────►  sessions journaled, root stored
//!                                         to           ◄──  record
//!   ends     ◄───────────────────────────────────────────  taken
//!            EXPORT to clients                               IMPORT to clients
//! ```
//!
//! Whoever of the two is restarted goes on from the record. While it names both, neither serves the subtree.

mod export;
mod import;
mod together;

use super::Rank;
use super::env::Env;
use crate::cache::{Cache, Inode};
use crate::types::{IoId, Lsn, RankPeer};
use export::Export;
use fsfmt::{Ino, InodeKey};
use import::Import;
use maps::MdsRank;
use node::Level;
use peer::MdsHead;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use stdx::{Instant, Now};
use together::Recall;

/// Time between two looks at what a migration waits for.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
/// Time after which a message without an answer is repeated.
const REPEAT_AFTER: Duration = Duration::from_secs(1);

/// Another rank of the file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RankStatus {
    /// Number of servers that have held it.
    pub incarnation: i32,
    /// It serves clients.
    pub is_active: bool,
}

/// The write that a migration waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Write {
    /// The record that names both ranks.
    Leave,
    /// The root's inode.
    Root,
    /// The record that names the new rank only, or its removal.
    Arrive,
    /// The removal of the record of a subtree that is this rank's anyhow.
    Merge,
}

/// Migrations, and what makes them.
///
/// Invariants: a subtree leaves, arrives or is merged, one of them at a time; each write under way belongs to
/// such a subtree.
#[derive(Default)]
pub(super) struct Migration {
    ranks: BTreeMap<MdsRank, RankStatus>,
    exports: BTreeMap<Ino, Export>,
    imports: BTreeMap<Ino, Import>,
    /// Subtrees of this rank that become part of the one around them again, with the event that must be
    /// durable before, until it is.
    merges: BTreeMap<Ino, Option<Lsn>>,
    recalls: BTreeMap<Ino, Recall>,
    writes: BTreeMap<IoId, (Ino, Write)>,
    /// Cached directories with a pin.
    pinned: BTreeSet<Ino>,
    /// Subtrees that operations needed here: until this instant they stay.
    stay: BTreeMap<Ino, Instant>,
    /// Capabilities as they were taken, in case that the answer was lost.
    taken: BTreeMap<Ino, Vec<peer::TakenCap>>,
    look_at: Instant,
    last_tid: u64,
}

impl Migration {
    /// True if no subtree is on its way.
    pub fn is_idle(&self) -> bool {
        self.exports.is_empty() && self.imports.is_empty() && self.merges.is_empty()
    }

    /// Time of the next look.
    pub fn deadline(&self) -> Option<Instant> {
        (!self.is_idle() || !self.recalls.is_empty()).then_some(self.look_at)
    }

    /// True while nobody is given a directory alone, because it may be about to leave.
    pub fn withholds_directories(&self) -> bool {
        self.exports.values().any(Export::is_quieting)
    }

    /// Notes a directory that was changed or loaded.
    pub fn note(&mut self, ino: InodeKey, inode: &Inode) {
        if inode.data.pin.rank.is_some() {
            self.pinned.insert(ino.ino);
        }
    }

    /// Notes that the last event has changed an inode.
    pub fn note_change(&mut self, env: &Env, cache: &Cache, ino: InodeKey) {
        if self.exports.is_empty() {
            return;
        }
        if let Ok(root) = cache.root_of(ino.ino)
            && let Some(export) = self.exports.get_mut(&root)
        {
            export.touched(env.journal().last());
        }
    }

    /// True if a rank serves clients.
    fn is_active(&self, rank: MdsRank) -> bool {
        self.ranks.get(&rank).is_some_and(|status| status.is_active)
    }

    fn head(&mut self, env: &Env) -> MdsHead {
        self.last_tid += 1;
        MdsHead { from: own(env), epoch: env.cfg().map_epoch, tid: self.last_tid }
    }
}

/// This rank.
fn own(env: &Env) -> MdsRank {
    MdsRank(env.cfg().rank as i32)
}

impl Rank {
    /// Notes which other ranks there are.
    pub fn set_ranks(&mut self, now: Now, ranks: BTreeMap<MdsRank, RankStatus>) {
        self.env.set_now(now);
        if self.migration.ranks != ranks {
            self.migration.ranks = ranks;
            self.migration.look_at = now.mono;
        }
    }

    /// Goes on with migrations; true if some operations may run that waited for that.
    pub(super) fn advance_migration(&mut self) -> bool {
        if self.migration.deadline().is_none_or(|at| self.env.now() < at) || !self.is_active() {
            return false;
        }
        self.migration.look_at = self.env.now() + LOOK_INTERVAL;
        self.repeat_recalls();
        let exported = self.advance_exports();
        let imported = self.advance_imports();
        let merged = self.advance_merges();
        exported || imported || merged
    }

    /// A write of the partition is stored.
    pub(super) fn partition_written(&mut self, id: IoId) {
        let Some((root, write)) = self.migration.writes.remove(&id) else { return };
        self.migration.look_at = self.env.now();
        match write {
            Write::Leave => self.recorded(root),
            Write::Root => self.root_stored(root),
            Write::Arrive => self.arrived(root),
            Write::Merge => self.merged(root),
        }
        self.run();
    }

    /// Handles a message of another rank.
    pub(crate) fn peer_message(&mut self, now: Now, from: RankPeer, body: peer::Body) {
        self.env.set_now(now);
        if !self.is_active() {
            // It is repeated.
            return;
        }
        match body {
            peer::Body::MdsHandOver(m) => self.take_subtree(from.rank, &m),
            peer::Body::MdsTaken(m) => self.subtree_taken(from.rank, &m),
            peer::Body::MdsRecall(m) => self.recalled(from.rank, Ino(m.root)),
            peer::Body::MdsAuthority(m) => self.learn_authority(&m),
            other => {
                let RankPeer { rank, incarnation } = from;
                let detail = format!("rank {rank} (incarnation {incarnation}) sends {}", other.name());
                self.env.log(Level::Debug, "unexpected_message_seen", detail);
            }
        }
        self.run();
    }

    /// The partition has changed: operations look again.
    fn partition_changed(&mut self, all: bool) {
        self.loader.partition_changed();
        self.ops.partition_changed(all);
    }
}
