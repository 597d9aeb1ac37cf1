//! Replicas that this rank keeps of others' directories (`replicas.rs` has the other side).

use super::Rank;
use super::content::{caps_of, placed};
use super::export::{by_holder, let_go};
use crate::authority::Auth;
use crate::cache::Kept;
use crate::rank::effect::Effect;
use crate::rank::env::Due;
use crate::types::{ClientId, Need, RankPeer};
use fsfmt::{Ino, InodeData, InodeKey, SubtreeRecord};
use maps::MdsRank;
use peer::{MdsReplica, MdsReplicaKept, MdsReplicaRecall, MdsReplicaReturned, MdsReplicaTaken};
use std::time::Duration;
use stdx::Instant;
use stdx::mutants::is_active;
use wire::{DecodeError, Reader, Writer};

/// The part of its cache that a rank has for replicas.
const PART_OF_CACHE: usize = 4;
/// Time after which what clients have open is handed over again.
const HANDED_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// What a rank does with replicas of others' directories.
impl Rank {
    /// Another rank offers a replica. If it can't be kept now, it is offered again.
    pub(super) fn take_replica(&mut self, from: RankPeer, m: &MdsReplica) {
        let dir = Ino(m.dir);
        let (record, inode, entries, kept) = match decode(m, from.rank) {
            Ok(decoded) => decoded,
            Err(e) => return self.report_bad_offer(from.rank, dir, &e),
        };
        if let Some(known) = self.cache.replicas.kept_mut(dir) {
            if known.from == from.rank && !known.is_returning {
                known.ranks = kept.ranks;
                self.env.effect(Effect::SendRank(from.rank, MdsReplicaKept { dir: dir.0 }.into()));
            }
            return;
        }
        let is_certain = self.migration.is_idle(&self.cache) && !self.passes_on();
        let is_fencing = self.migration.is_fencing(&self.cache);
        if !is_certain || is_fencing || self.has_absent_clients() {
            return;
        }
        let is_too_much =
            self.cache.entries_of_replicas() + entries.len() > self.cache.most_entries() / PART_OF_CACHE;
        let is_unknown = m.snap_table > self.cache.snaps.version();
        if is_too_much || is_unknown || self.migration.stopping.is_some() {
            return self.answer_returned(from.rank, dir, 0);
        }
        if let Some(missing) = self.cache.missing_above(&record) {
            return self.env.due(Due::Load(Need::Inode(missing), None));
        }
        if self.cache.put_replica(inode, &record, entries, kept) {
            self.env.effect(Effect::SendRank(from.rank, MdsReplicaKept { dir: dir.0 }.into()));
        }
    }

    /// Another rank wants its replica back.
    pub(super) fn replica_recalled(&mut self, from: MdsRank, m: &MdsReplicaRecall) {
        let dir = Ino(m.dir);
        let Some(kept) = self.cache.replicas.kept_mut(dir) else {
            return self.answer_returned(from, dir, m.asked);
        };
        if is_active("mds_keeps_replicas") {
            let m = MdsReplicaReturned { dir: dir.0, asked: m.asked, ..Default::default() };
            return self.env.effect(Effect::SendRank(from, m.into()));
        }
        kept.asked = m.asked;
        if !kept.is_returning {
            self.return_replica(dir);
        }
    }

    fn return_replica(&mut self, dir: Ino) {
        let now = self.env.now();
        if let Some(kept) = self.cache.replicas.kept_mut(dir) {
            (kept.is_returning, kept.next) = (true, now);
        }
        self.evaluate_files(dir);
        self.migration.look_at = now;
    }

    /// Gives all replicas back; true if there is none any more.
    pub(super) fn return_replicas(&mut self) -> bool {
        let kept = self.cache.replicas.all_kept().filter(|(_, kept)| !kept.is_returning);
        kept.map(|(dir, _)| dir).collect::<Vec<_>>().into_iter().for_each(|dir| self.return_replica(dir));
        self.cache.replicas.keeps_none()
    }

    /// Once clients have given up all bits: gives a replica back, and hands over what they have open.
    pub(super) fn give_up_replica(&mut self, dir: Ino) {
        let files = self.cache.with_files(dir);
        let is_held = |ino: &InodeKey| {
            let inode = self.cache.inodes.get(ino).filter(|inode| self.cache.is_replica(inode));
            inode.is_some_and(|inode| inode.held_by_others(None) & !msgs::cap::PIN != 0)
        };
        let Some(kept) = self.cache.replicas.kept(dir).cloned() else { return };
        if files.iter().any(is_held) || self.env.now() < kept.next || self.has_absent_clients() {
            return;
        }
        let Self { cache, sessions, .. } = self;
        let mut m = MdsReplicaReturned { dir: dir.0, asked: kept.asked, ..Default::default() };
        for inode in
            files.iter().filter_map(|ino| cache.inodes.get(ino)).filter(|inode| cache.is_replica(inode))
        {
            for cap in caps_of(inode) {
                if let Some(session) = sessions.get(ClientId(cap.client)) {
                    m.sessions.entry(cap.client).or_insert_with(|| Writer::encode(session.record()));
                }
                m.caps.push(cap);
            }
        }
        let is_open = !m.caps.is_empty();
        self.env.effect(Effect::SendRank(kept.from, m.into()));
        match self.cache.replicas.kept_mut(dir).filter(|_| is_open) {
            Some(kept) => kept.next = self.env.now() + HANDED_AGAIN_AFTER,
            None => self.drop_replica(dir),
        }
    }

    /// The authority has what clients have open: they hear of it.
    pub(super) fn replica_taken(&mut self, from: MdsRank, m: &MdsReplicaTaken) {
        let dir = Ino(m.dir);
        let is_awaited = |kept: &Kept| kept.is_returning && kept.from == from;
        if !self.cache.replicas.kept(dir).is_some_and(is_awaited) {
            return;
        }
        let files = self.cache.with_files(dir);
        let Self { cache, sessions, migration, .. } = self;
        let taken = by_holder(&m.caps);
        for ino in files {
            let Some(inode) = cache.inodes.get_mut(&ino) else { continue };
            migration.exported.extend(let_go(inode, sessions, from, &taken));
        }
        self.tell_exported();
        self.drop_replica(dir);
    }

    fn drop_replica(&mut self, dir: Ino) {
        self.cache.replicas.drop(dir);
        self.end_withholding(dir);
        self.cache.forget_replica(dir);
        self.partition_changed(false);
    }

    /// Tells a rank that there is no replica of its directory here. After a restart its clients may claim
    /// what they had by one: first they have to know that this is the other rank's. Until then that asks
    /// again.
    fn answer_returned(&mut self, to: MdsRank, dir: Ino, asked: u64) {
        if self.has_absent_clients() {
            return;
        }
        let is_elsewhere = matches!(self.cache.authority(dir), Ok(Auth::Rank(_)));
        let files = self.cache.with_files(dir).into_iter().filter(|_| is_elsewhere);
        let held = files.filter(|ino| self.cache.inodes.get(ino).is_some_and(|i| !i.caps.is_empty()));
        let held: Vec<InodeKey> = held.collect();
        if !held.is_empty() {
            return held.into_iter().for_each(|ino| self.pass_on(ino));
        }
        let passes_on = self.migration.exports.values().any(|export| export.is_handing() && export.to == to);
        if !passes_on {
            let m = MdsReplicaReturned { dir: dir.0, asked, ..Default::default() };
            self.env.effect(Effect::SendRank(to, m.into()));
        }
    }
}

type Decoded = (SubtreeRecord, InodeData, Vec<super::content::Placed>, Kept);

fn decode(m: &MdsReplica, from: MdsRank) -> Result<Decoded, DecodeError> {
    let entries = m.entries.iter().map(placed).collect::<Result<_, _>>()?;
    let ranks = m.ranks.iter().map(|rank| MdsRank(*rank as i32)).collect();
    let kept = Kept { from, ranks, is_returning: false, asked: 0, next: Instant(0) };
    Ok((Reader::new(&m.record).get()?, Reader::new(&m.inode).get()?, entries, kept))
}
