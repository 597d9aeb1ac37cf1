//! Migration of subtrees from one rank to another (the paper's section 4.3). The authority moves by one
//! write: that of the subtree's record in the partition, which every rank reads when it starts. Before that,
//! everything in the subtree is stored where the other rank finds it, and the journal has none of it any
//! more; after it, what clients hold there is handed over (docs/adr/0021-authority-moves-by-one-write.md).
//!
//! ```text
//! from                                     record            to
//!   Ahead    files of a large one ────────────────────────►
//!   Store    a long journal expires
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

mod ahead;
mod balance;
mod borders;
mod content;
mod export;
mod fence;
mod heartbeat;
mod held;
mod import;
mod kept;
mod pace;
mod parts;
mod replicas;
mod seek;
mod shards;
mod stop;
mod table;
mod tell;
mod together;

pub(super) use content::{Ahead, Content, Sent};
pub(super) use pace::Pace;

use super::Rank;
use super::effect::Stage;
use super::env::Due;
use super::migration::{RankStatus, Read, Waiting, Write};
use crate::authority::{Records, decode_records};
use crate::cache::decode_borders;
use crate::io::{IoResult, IoWhy, ObjOp, ObjReply};
use crate::types::{IoId, Need, RankPeer};
use fsfmt::{Counted, Ino, InodeKey, border_key, names, subtree_key};
use maps::MdsRank;
use node::Level;
use pace::LOOK_INTERVAL;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use stdx::{Instant, Now};
use wire::{DecodeError, Reader};

/// Time after which another rank is asked again.
const ASKED_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// The time for which a subtree stays that operations needed here, whatever its pin says.
const STAY: Duration = Duration::from_secs(5);

impl Rank {
    /// The directory of strays that this rank needs, whoever holds it.
    fn own_strays(&self) -> Ino {
        Ino::stray(self.env.cfg().rank)
    }

    /// True if clients may hold, or be promised, what this rank does not know yet.
    fn has_absent_clients(&self) -> bool {
        self.reconnect.has_absent() || self.client_replay.has_clients()
    }

    /// Notes which other ranks there are.
    pub fn set_ranks(&mut self, now: Now, ranks: BTreeMap<MdsRank, RankStatus>) {
        self.env.set_now(now);
        let is_first = !std::mem::replace(&mut self.migration.knows_ranks, true);
        if is_first && self.env.stage() != Stage::Creating {
            self.migration.unconfirmed = ranks.keys().copied().collect();
        }
        // A rank that has stopped hands nothing over.
        self.migration.unconfirmed.retain(|rank| ranks.contains_key(rank));
        self.cache.subtrees.set_others(ranks.keys().copied().collect());
        let gone: Vec<MdsRank> =
            self.migration.ranks.keys().copied().filter(|rank| !ranks.contains_key(rank)).collect();
        gone.into_iter().for_each(|rank| self.ask_about(rank, &[]));
        if self.migration.ranks != ranks {
            self.migration.ranks = ranks;
            self.migration.look_at = now.mono;
        }
    }

    /// Time of the next look at migrations.
    pub(in crate::rank) fn migration_deadline(&self) -> Option<Instant> {
        let gives_more = || self.balance.has_chosen().then_some(self.migration.look_at);
        self.migration.deadline(&self.cache).or_else(gives_more)
    }

    /// Goes on with migrations; true if some operations may run that waited for that.
    pub(super) fn advance_migration(&mut self) -> bool {
        if self.migration_deadline().is_none_or(|at| self.env.now() < at) || !self.is_active() {
            return false;
        }
        let late = self.env.now().since(self.migration.look_at);
        let tells = self.migration.pace.tells(late, self.env.cfg().options.handover_part);
        self.migration.look_at = self.env.now() + LOOK_INTERVAL;
        self.repeat_recalls();
        self.tell_stored();
        if tells {
            self.tell_exported();
            self.announce_more();
        }
        let is_found = self.repeat_seeks();
        let exported = self.advance_exports();
        let imported = self.advance_imports();
        let merged = self.advance_merges();
        let is_up = self.advance_fence();
        let is_alone = self.advance_replicas();
        self.advance_stop();
        self.advance_parts();
        self.give_away_more();
        if self.migration.has_more_pinned && self.migration.exports.is_empty() {
            self.migrate_pinned();
        }
        is_found || exported || imported || merged || is_up || is_alone
    }

    /// Loads what is missing for a subtree on its way.
    fn load_for(&mut self, root: Ino, missing: BTreeSet<InodeKey>, why: Waiting) {
        missing.iter().for_each(|ino| self.env.due(Due::Load(Need::Inode(*ino), None)));
        self.migration.waiting.insert(root, (missing, why));
    }

    /// An inode was loaded, or is not found: what waited for this one only goes on.
    pub(in crate::rank) fn loaded_for_migration(&mut self, ino: InodeKey) {
        let ended = self.migration.waiting.extract_if(.., |_, (missing, _)| {
            missing.remove(&ino);
            missing.is_empty()
        });
        for (root, (_, waiting)) in ended.collect::<Vec<_>>() {
            match waiting {
                Waiting::Offer(offer, record) => self.checked(offer, record.as_ref()),
                Waiting::Export => self.send_content(root),
            }
        }
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
            Write::Stay => self.taken_back(root),
            Write::Replicas => self.replicas_recorded(root),
            Write::NoReplicas => self.replicas_forgotten(root),
        }
        self.run();
    }

    /// Reads the records of some subtrees.
    fn read_records(&mut self, roots: impl IntoIterator<Item = Ino>, why: Read) {
        let mut keys: Vec<Vec<u8>> = roots.into_iter().map(subtree_key).collect();
        if let Read::Check(offer) = &why {
            keys.extend(offer.borders.keys().copied().map(border_key));
        }
        let ops = vec![ObjOp::OmapGet(keys)];
        let id = self.env.start_metadata_io(names::partition(), ops, IoWhy::PartitionRead);
        self.migration.reads.insert(id, why);
    }

    /// Records were read. If that failed, what they were read for is repeated.
    pub(super) fn partition_read(&mut self, id: IoId, result: IoResult) {
        let Some(read) = self.migration.reads.remove(&id).filter(|_| self.is_active()) else { return };
        let reply = result.ok().and_then(|replies| replies.into_iter().next());
        if let Read::Root(root, ino) = read {
            let data = match &reply {
                Some(ObjReply::Data(bytes)) => Reader::new(bytes).get().ok(),
                _ => None,
            };
            return self.foreign_root_read(root, ino, data);
        }
        let Some(ObjReply::Omap(mut entries, has_more)) = reply else { return };
        if let Read::Snaps(why, known) = read {
            entries.extend(known);
            self.table_read(why, entries, has_more);
            self.run();
            return;
        }
        match (decode_partition(&entries), read) {
            (Ok((records, _)), Read::News(asked)) => self.learn(asked, records),
            (Ok((records, borders)), Read::Check(mut offer)) => {
                offer.borders.extend(borders.into_iter().map(|(root, counted)| (root, Some(counted))));
                let record = records.get(&offer.root);
                self.checked(offer, record);
            }
            (Ok(_), Read::Root(..) | Read::Snaps(..)) => {}
            (Err(e), _) => {
                let text = format!("the partition (mds_partition) can't be read: {}", e.of_stored());
                self.env.log(Level::Warn, "damaged_partition_seen", text);
            }
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
        self.ops.note_rank();
        match body {
            peer::Body::MdsHandOver(m) => self.take_subtree(from, &m),
            peer::Body::MdsHandAhead(m) => self.take_ahead(from, &m),
            peer::Body::MdsTaken(m) => self.subtree_taken(from.rank, &m),
            peer::Body::MdsRecall(m) => self.recalled(from.rank, Ino(m.root)),
            peer::Body::MdsStats(m) => self.count_stats(from, &m),
            peer::Body::MdsCounted(m) => self.stats_counted(&m),
            peer::Body::MdsStore(m) => self.stored(from.rank, &m),
            peer::Body::MdsHeartbeat(m) => self.heard(from.rank, &m),
            peer::Body::MdsFence(m) => self.fence_asked(from, &m),
            peer::Body::MdsFenced(m) => self.fenced(from, &m),
            peer::Body::MdsFenceDown(m) => self.fence_down(from, &m),
            peer::Body::MdsReplica(m) => self.take_replica(from, &m),
            peer::Body::MdsReplicaKept(m) => self.replica_kept(from, Ino(m.dir)),
            peer::Body::MdsReplicaRecall(m) => self.replica_recalled(from.rank, &m),
            peer::Body::MdsReplicaReturned(m) => self.replica_returned(from, &m),
            peer::Body::MdsReplicaTaken(m) => self.replica_taken(from.rank, &m),
            peer::Body::MdsAuthority(m) => self.learn_authority(from.rank, &m),
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

/// The records of subtrees, and what is counted of subtrees.
fn decode_partition(
    entries: &BTreeMap<Vec<u8>, Vec<u8>>,
) -> Result<(Records, BTreeMap<Ino, Counted>), DecodeError> {
    Ok((decode_records(entries)?, decode_borders(entries)?))
}
