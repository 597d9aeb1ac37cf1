//! Replicas: a directory that many read is copied to other ranks, which answer for it too (the paper's
//! section 4.4; docs/adr/0029-replicas.md). Nothing of it changes until they have given it back.
//!
//! ```text
//! authority                                record            another rank
//!   Load     all entries
//!   Settle   clients give up what not
//!            all may have
//!   Durable  the journal expires
//!   Record ─────────────────────────────►  may have replicas
//!   Given    entries, files ─────────────────────────────►  keeps them, answers
//!            answers name these ranks               ◄─────  kept
//!   (an operation needs to change something)
//!   Recall   ────────────────────────────────────────────►  clients give up all bits
//!                                                    ◄────  returned, with what they have open
//!            taken ──────────────────────────────────────►  EXPORT to clients
//!   Forget ─────────────────────────────►  gone
//! ```

use super::Rank;
use crate::authority::Auth;
use crate::cache::SlotLink;
use crate::cap::STRONG;
use crate::io::{IoWhy, ObjOp};
use crate::rank::effect::Effect;
use crate::rank::env::Due;
use crate::rank::migration::{BUSY, FENCED, Giving, GivingStep as Step, RankStatus, Said, TRIMS, Write, own};
use crate::types::{ClientId, Need, OpId, RankPeer};
use fsfmt::{DirFrag, Ino, InodeKey, Link, names, replica_key};
use maps::MdsRank;
use node::Level;
use peer::{FragId, HandedEntry, MdsReplica, MdsReplicaRecall, MdsReplicaReturned, MdsReplicaTaken};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use stdx::Instant;
use wire::{DecodeError, Errno, Reader, Writer};

/// The entries that a directory has at most of which there are replicas.
const MOST_ENTRIES: u64 = 4096;
/// A directory of which a client does not give up what others need for this time gets no replicas.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time after which a replica is offered again.
const OFFERED_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Time after which it is asked for again.
const ASKED_AGAIN_AFTER: Duration = Duration::from_millis(20);

impl Rank {
    /// Has the other ranks answer for a directory too.
    pub fn replicate_dir(&mut self, path: &str) -> Result<(), (Errno, String)> {
        let Some(dir) = self.cache.find(path.as_bytes()).ok().flatten() else {
            return Err((Errno::ENOENT, format!("{path} is not cached, or does not exist")));
        };
        self.start_replicas(dir.ino).map_err(|why| (Errno::EINVAL, format!("{path}: {why}")))
    }

    /// Begins to give other ranks replicas of a directory. Returns the reason if that can't be.
    pub(in crate::rank) fn start_replicas(&mut self, dir: Ino) -> Result<(), &'static str> {
        let Self { env, cache, migration, .. } = self;
        let Some(inode) = cache.inodes.get(&dir.head()) else { return Err("it is not cached") };
        if cache.authority(dir) != Ok(Auth::Here) {
            return Err("this rank has no authority over it");
        }
        if !inode.is_named_dir() || inode.data.is_sharded || cache.subtrees.is_sharded(dir) {
            return Err("only whole directories with a name have replicas, and not the root");
        }
        if inode.data.dirstat.entries() > MOST_ENTRIES {
            return Err("it has too many entries");
        }
        if cache.replicas.is_given(dir) {
            return Err("there are replicas of it, or about to be");
        }
        if cache.is_trimming() {
            return Err(TRIMS);
        }
        if migration.is_fencing(cache) {
            return Err(FENCED);
        }
        if !migration.is_idle(cache) || !self.fragments.is_idle() {
            return Err(BUSY);
        }
        let others = migration.ranks.iter().filter(|(rank, _)| migration.takes_subtrees(**rank));
        let ranks: BTreeMap<_, _> =
            others.map(|(rank, at)| (*rank, (at.incarnation, Said::Nothing))).collect();
        if ranks.is_empty() {
            return Err("there is no other active rank");
        }
        let now = env.now();
        migration.replicas.insert(dir, Giving { step: Step::Load, since: now, next: now, ranks, asked: 0 });
        migration.look_at = now;
        cache.replicas.give(dir);
        Ok(())
    }

    /// An operation needs a directory of this rank to have no replicas.
    pub(in crate::rank) fn recall_replicas(&mut self, dir: Ino) {
        // After a restart others are asked for them anyhow.
        let Some(giving) = self.migration.replicas.get_mut(&dir) else { return };
        match giving.step {
            Step::Load | Step::Settle | Step::Durable(_) => self.end_replicas(dir),
            Step::Record => giving.ranks.clear(),
            Step::Given => {
                giving.recall(self.env.now());
                self.migration.look_at = self.env.now();
            }
            // It is under way: who asks again and again is not to keep the rank busy.
            Step::Recall | Step::Forget => {}
        }
    }

    /// Goes on with replicas; true if operations may run that waited for them.
    pub(super) fn advance_replicas(&mut self) -> bool {
        self.resume_replicas();
        let before = self.migration.replicas.len();
        for dir in self.migration.replicas.keys().copied().collect::<Vec<_>>() {
            self.advance_replicas_of(dir);
        }
        let kept = self.cache.replicas.all_kept().filter(|(_, kept)| kept.is_returning);
        for dir in kept.map(|(dir, _)| dir).collect::<Vec<_>>() {
            self.give_up_replica(dir);
        }
        self.migration.replicas.len() < before
    }

    /// After a restart: all ranks may have replicas of what the partition names.
    fn resume_replicas(&mut self) {
        if !self.migration.knows_ranks {
            return;
        }
        let Self { env, cache, migration, .. } = self;
        let now = env.now();
        let forgotten = cache.replicas.given().filter(|dir| !migration.replicas.contains_key(dir));
        for dir in forgotten.collect::<Vec<_>>() {
            let ranks =
                migration.ranks.iter().map(|(rank, at)| (*rank, (at.incarnation, Said::Keeps))).collect();
            let mut giving = Giving { step: Step::Recall, since: now, next: now, ranks, asked: 0 };
            giving.recall(now);
            migration.replicas.insert(dir, giving);
        }
    }

    fn advance_replicas_of(&mut self, dir: Ino) {
        let now = self.env.now();
        let giving = &self.migration.replicas[&dir];
        let step = giving.step;
        let is_early = matches!(step, Step::Load | Step::Settle | Step::Durable(_));
        if is_early && (now.since(giving.since) > PATIENCE || !self.may_be_given(dir)) {
            self.env.log(Level::Info, "replicas_given_up", format!("of {dir}: clients change it"));
            return self.end_replicas(dir);
        }
        match step {
            Step::Load if self.has_all_entries(dir) => {
                self.set_giving(dir, Step::Settle);
                self.evaluate_files(dir);
            }
            Step::Load => {}
            Step::Settle if self.is_ready(dir) => {
                let last = self.env.journal().last();
                self.set_giving(dir, Step::Durable(last));
            }
            Step::Settle => {}
            Step::Durable(last) if self.write_back.has_expired(&mut self.env, last) && self.is_ready(dir) => {
                self.set_giving(dir, Step::Record);
                self.write_replica_record(dir, true);
            }
            Step::Durable(_) | Step::Record | Step::Forget => {}
            Step::Given => self.offer_replicas(dir),
            Step::Recall => self.ask_for_replicas(dir),
        }
    }

    fn set_giving(&mut self, dir: Ino, step: Step) {
        let giving = self.migration.replicas.get_mut(&dir).expect("under way");
        (giving.step, giving.next) = (step, self.env.now());
    }

    /// True as long as a directory that is about to have replicas is whole, and this rank's.
    fn may_be_given(&self, dir: Ino) -> bool {
        let inode = self.cache.inodes.get(&dir.head());
        let is_whole = inode.is_some_and(|inode| inode.is_named_dir() && !inode.data.is_sharded);
        is_whole && self.cache.authority(dir) == Ok(Auth::Here) && self.migration.exports.is_empty()
    }

    /// True if all entries of a directory are cached; otherwise more of them are loaded.
    fn has_all_entries(&mut self, dir: Ino) -> bool {
        let Some(inode) = self.cache.inodes.get(&dir.head()) else { return false };
        let mut is_complete = true;
        for frag in inode.data.fragtree.leaves() {
            let frag = DirFrag { ino: dir, frag };
            let known = self.cache.dirs.get(&frag);
            if known.is_none_or(|d| !d.complete) {
                is_complete = false;
                let last = known.and_then(|d| d.known_to.as_ref());
                let after = last.map(fsfmt::DentryKey::to_omap).unwrap_or_default();
                self.env.due(Due::Load(Need::Page(frag, after), None));
            }
        }
        is_complete
    }

    /// Revokes what clients may not have of files in a directory.
    pub(super) fn evaluate_files(&mut self, dir: Ino) {
        for ino in self.cache.with_files(dir) {
            let Self { env, cache, sessions, caps, .. } = self;
            caps.eval(env, cache, sessions, ino, None);
        }
    }

    /// True if clients have no more of a directory and its files than all may have, and all of their data are
    /// stored.
    fn is_ready(&mut self, dir: Ino) -> bool {
        if self.has_absent_clients() || !self.has_all_entries(dir) {
            return false;
        }
        let files = self.cache.with_files(dir);
        let is_unready = |ino: &InodeKey| {
            let Some(withheld) = self.cache.inodes.get(ino).and_then(|i| self.cache.replicas.withheld(i))
            else {
                return false;
            };
            let inode = &self.cache.inodes[ino];
            let is_file = !inode.data.is_dir();
            let is_too_much = inode.held_by_others(None) & withheld != 0;
            let changes = is_file && inode.caps.values().any(|cap| cap.wanted & STRONG != 0);
            let is_recorded = is_file && !inode.data.ranges.is_empty();
            is_too_much || changes || is_recorded || self.cache.unannounced.contains_key(ino)
        };
        let is_unready = files.iter().any(is_unready);
        let waits = files.into_iter().filter(|ino| self.wait_for(*ino).is_some()).count();
        !is_unready && waits == 0
    }

    fn write_replica_record(&mut self, dir: Ino, is_new: bool) {
        let key = replica_key(dir);
        let change = match is_new {
            true => ObjOp::OmapSet(BTreeMap::from([(key, Writer::encode(&own(&self.env)))])),
            false => ObjOp::OmapRemove(vec![key]),
        };
        let ops = vec![ObjOp::Create, change];
        let id = self.env.start_metadata_io(names::partition(), ops, IoWhy::Partition);
        let why = if is_new { Write::Replicas } else { Write::NoReplicas };
        self.migration.writes.insert(id, (dir, why));
    }

    /// The partition says that other ranks may have replicas.
    pub(super) fn replicas_recorded(&mut self, dir: Ino) {
        self.set_giving(dir, Step::Given);
        self.tell_replicas(dir);
        if self.migration.replicas[&dir].ranks.is_empty() {
            let now = self.env.now();
            return self.migration.replicas.get_mut(&dir).expect("under way").recall(now);
        }
        self.env.log(Level::Info, "replicas_given", format!("of {dir}"));
        self.offer_replicas(dir);
    }

    /// The partition says that nobody has one.
    pub(super) fn replicas_forgotten(&mut self, dir: Ino) {
        self.env.log(Level::Info, "replicas_returned", format!("of {dir}"));
        self.end_replicas(dir);
    }

    /// Notes which ranks answer for a directory, so that clients are told.
    fn tell_replicas(&mut self, dir: Ino) {
        let giving = &self.migration.replicas[&dir];
        let kept = giving.ranks.iter().filter(|(_, (_, said))| *said == Said::Keeps).map(|(rank, _)| *rank);
        let mut ranks: BTreeSet<MdsRank> = kept.collect();
        if !ranks.is_empty() && giving.step == Step::Given {
            ranks.insert(own(&self.env));
        } else {
            ranks.clear();
        }
        self.cache.replicas.set_ranks(dir, ranks);
    }

    /// Sends replicas to ranks that have not answered. One that was restarted has lost its replica, and what
    /// its clients had by it they claim: all have to give theirs back.
    fn offer_replicas(&mut self, dir: Ino) {
        let now = self.env.now();
        let Self { migration, .. } = self;
        let giving = migration.replicas.get_mut(&dir).expect("under way");
        let before = giving.ranks.len();
        giving.ranks.retain(|rank, _| migration.ranks.contains_key(rank));
        let has_stopped = giving.ranks.len() < before;
        if giving.ranks.is_empty() || !giving.is_up_to_date(&migration.ranks) {
            return self.recall_replicas(dir);
        }
        if has_stopped {
            return self.tell_replicas(dir);
        }
        if now < giving.next {
            return;
        }
        giving.next = now + OFFERED_AGAIN_AFTER;
        let others: Vec<MdsRank> = giving
            .ranks
            .iter()
            .filter(|(_, (_, said))| *said == Said::Nothing)
            .map(|(rank, _)| *rank)
            .collect();
        if others.is_empty() {
            return;
        }
        let ranks = giving.ranks.keys().copied().chain([own(&self.env)]).map(|rank| rank.0 as u32).collect();
        let Some(m) = self.replica_of(dir, ranks) else { return };
        for rank in others {
            self.env.effect(Effect::SendRank(rank, m.clone().into()));
        }
    }

    fn replica_of(&self, dir: Ino, ranks: Vec<u32>) -> Option<MdsReplica> {
        let Self { cache, env, .. } = self;
        let record = cache.new_record(dir, own(env), own(env))?;
        let inode = &cache.inodes.get(&dir.head())?.data;
        let mut entries = Vec::new();
        for (frag, d) in cache.dirs.range(DirFrag::all_of(dir)) {
            for (key, slot) in d.slots.iter().filter(|(key, _)| key.is_head()) {
                let link = match slot.link(key) {
                    SlotLink::Null => continue,
                    SlotLink::Primary(ino) => Link::Primary(Box::new(cache.inodes.get(&ino)?.data.clone())),
                    SlotLink::Remote { ino, dtype } => Link::Remote { ino, dtype },
                };
                let entry = Writer::encode(&*cache.dentry(&(*frag, key.clone()), link));
                let dir = FragId { ino: frag.ino.0, frag: frag.frag.raw() };
                entries.push(HandedEntry { dir, name: key.name.to_vec(), entry });
            }
        }
        Some(MdsReplica {
            dir: dir.0,
            record: Writer::encode(&record),
            inode: Writer::encode(inode),
            entries,
            ranks,
            snap_table: cache.snaps.stored_version(),
        })
    }

    /// Another rank keeps a replica.
    pub(super) fn replica_kept(&mut self, from: RankPeer, dir: Ino) {
        let Some(giving) = self.migration.replicas.get_mut(&dir) else { return };
        match giving.ranks.get_mut(&from.rank) {
            Some((incarnation, said)) if *incarnation == from.incarnation => *said = Said::Keeps,
            Some(_) => {}
            // It was believed to have none.
            None => drop(giving.ranks.insert(from.rank, (from.incarnation, Said::Keeps))),
        }
        if giving.step == Step::Given {
            self.tell_replicas(dir);
        }
    }

    /// Asks all that may have one to give it back; once all have, the record goes.
    fn ask_for_replicas(&mut self, dir: Ino) {
        self.tell_replicas(dir);
        let now = self.env.now();
        let Self { env, migration, .. } = self;
        let giving = migration.replicas.get_mut(&dir).expect("under way");
        giving.ranks.retain(|rank, _| migration.ranks.contains_key(rank));
        if giving.ranks.is_empty() {
            giving.step = Step::Forget;
            return self.write_replica_record(dir, false);
        }
        if now >= giving.next {
            giving.next = now + ASKED_AGAIN_AFTER;
            let m = MdsReplicaRecall { dir: dir.0, asked: giving.asked };
            giving.ranks.keys().for_each(|rank| env.effect(Effect::SendRank(*rank, m.clone().into())));
        }
    }

    /// Another rank has none, and hands over what its clients have open. Only the answer to the present
    /// question says that for good.
    pub(super) fn replica_returned(&mut self, from: RankPeer, m: &MdsReplicaReturned) {
        let dir = Ino(m.dir);
        if !m.caps.is_empty() && !self.take_what_is_open(from.rank, m) {
            return;
        }
        self.migration.look_at = self.env.now();
        let Some(giving) = self.migration.replicas.get_mut(&dir) else { return };
        match (giving.step, giving.ranks.get_mut(&from.rank)) {
            (Step::Recall, Some(_)) if m.asked == giving.asked => drop(giving.ranks.remove(&from.rank)),
            (Step::Given, Some((_, said))) if m.asked == 0 => {
                *said = Said::Refuses;
                self.tell_replicas(dir);
            }
            _ => {}
        }
    }

    /// Takes over what clients of another rank have open. False if that has to be sent again.
    fn take_what_is_open(&mut self, from: MdsRank, m: &MdsReplicaReturned) -> bool {
        let records = m.sessions.iter().map(|(client, r)| Ok((ClientId(*client), Reader::new(r).get()?)));
        let records = match records.collect::<Result<Vec<_>, DecodeError>>() {
            Ok(records) => records,
            Err(e) => {
                self.report_bad_offer(from, Ino(m.dir), &e);
                return false;
            }
        };
        let missing: Vec<Need> =
            m.caps.iter().filter_map(|cap| self.cache.inode(Ino(cap.ino).head()).err()).collect();
        if !missing.is_empty() {
            missing.into_iter().for_each(|need| self.env.due(Due::Load(need, None)));
            return false;
        }
        let caps = self.take_handed(from, records, &m.caps);
        self.env.effect(Effect::SendRank(from, MdsReplicaTaken { dir: m.dir, caps }.into()));
        true
    }

    /// Everything about a directory may change again.
    fn end_replicas(&mut self, dir: Ino) {
        self.migration.replicas.remove(&dir);
        self.cache.replicas.take_back(dir);
        self.balance.keep_unshared(self.env.now(), dir);
        self.end_withholding(dir);
        self.partition_changed(false);
    }

    pub(super) fn end_withholding(&mut self, dir: Ino) {
        for ino in self.cache.with_files(dir) {
            let Some(inode) = self.cache.inodes.get_mut(&ino) else { continue };
            if inode.under_way.revocations.contains_key(&OpId::REPLICA) {
                inode.under_way.edit(|at| at.revocations.remove(&OpId::REPLICA));
            }
            self.env.due(Due::CapsChanged(ino));
        }
    }
}

impl Giving {
    /// True if something is to be done about it.
    pub(in crate::rank) fn is_busy(&self) -> bool {
        self.step != Step::Given || self.ranks.values().any(|(_, said)| *said == Said::Nothing)
    }

    /// True if all ranks that may have a replica are those to which it was given.
    pub(in crate::rank) fn is_up_to_date(&self, ranks: &BTreeMap<MdsRank, RankStatus>) -> bool {
        let is_same = |rank: &MdsRank, incarnation: i32| {
            ranks.get(rank).is_some_and(|at| at.incarnation == incarnation)
        };
        self.ranks.iter().all(|(rank, (incarnation, _))| is_same(rank, *incarnation))
    }

    /// Begins to ask for the replicas.
    fn recall(&mut self, now: Instant) {
        (self.step, self.next, self.asked) = (Step::Recall, now, now.0.max(1));
    }
}
