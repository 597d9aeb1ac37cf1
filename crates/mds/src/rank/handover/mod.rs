//! Migration of subtrees from one rank to another (the paper's section 4.3). The authority moves by one
//! write: that of the subtree's record in the partition, which every rank reads when it starts. Before that,
//! everything in the subtree is stored where the other rank finds it, and the journal has none of it any
//! more; after it, what clients hold there is handed over (docs/adr/0021-authority-moves-by-one-write.md).
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
use super::migration::{RankStatus, Write};
use crate::types::{IoId, RankPeer};
use fsfmt::Ino;
use maps::MdsRank;
use node::Level;
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::Now;

/// Time between two looks at what a migration waits for.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
/// The time for which a subtree stays that operations needed here, whatever its pin says.
const STAY: Duration = Duration::from_secs(5);

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
    pub fn peer_message(&mut self, now: Now, from: RankPeer, body: peer::Body) {
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
