//! The fence around changes of the table of snapshots. Rank 0 changes it, and has all that is below the
//! directory. But of files with several names all snapshots count, wherever they are: before rank 0 makes or
//! removes one, the other ranks take back what lets clients change such files, and let nobody at them until
//! they have read the new table.
//!
//! ```text
//! rank 0   Asked     twice, until all wait: a subtree that was on its way may have brought something to a
//!                    rank that had answered before
//!          Up        snapshots are made and removed, for a moment
//!          Storing   the table is being stored; then the others read it, and the fence is down
//! ```
//!
//! Who starts anew waits until rank 0 says how new the table is. No subtree begins to leave meanwhile.

use super::{ASKED_AGAIN_AFTER, Rank};
use crate::cache::Cache;
use crate::cap::STRONG;
use crate::rank::effect::Effect;
use crate::rank::migration::{FencePhase as Phase, ForTable, own};
use crate::rank::snaps;
use crate::types::{Need, OpId, RankPeer};
use fsfmt::InodeKey;
use maps::MdsRank;
use peer::{MdsFence, MdsFenceDown, MdsFenced};
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::Instant;

/// The time for which snapshots are made once all wait: one that was asked for meanwhile may need a moment.
const UP_FOR: Duration = Duration::from_millis(20);
/// The same while operations are about to make or remove one: clients give something back first.
const UP_AT_MOST: Duration = Duration::from_secs(1);
/// The time after which nobody waits any more because some rank can't: a client of its is absent, say.
const PATIENCE: Duration = Duration::from_secs(5);
/// The least time between two fences, in which subtrees may move.
const PAUSE: Duration = Duration::from_millis(50);
/// Time after which a rank that waits says so again.
const SAID_AGAIN_AFTER: Duration = Duration::from_secs(1);

impl Rank {
    /// Another rank that becomes active waits for word of the table of snapshots.
    pub(in crate::rank) fn begin_fenced(&mut self) {
        let is_first = own(&self.env) == MdsRank(0);
        self.cache.snaps.set_fenced(!is_first);
        self.migration.fence.version = self.cache.snaps.version();
        self.migration.look_at = self.env.now();
        if !is_first {
            // Clients that have come back are given nothing before that.
            self.close_files();
        }
    }

    /// An operation here is to change the table of snapshots.
    pub(in crate::rank) fn want_fence(&mut self) {
        self.migration.fence.is_wanted = true;
        self.migration.look_at = self.migration.look_at.min(self.env.now());
    }

    /// Goes on with the fence; true if operations may run that waited for it.
    pub(super) fn advance_fence(&mut self) -> bool {
        if own(&self.env) != MdsRank(0) {
            self.wait_in_fence();
            return false;
        }
        let now = self.env.now();
        let Self { env, cache, migration, ops, write_back, .. } = self;
        let is_served = migration.ranks.values().all(|rank| rank.is_active);
        let all_wait = migration.not_waiting().next().is_none() && migration.exports.is_empty();
        let fence = &mut migration.fence;
        match fence.phase {
            Phase::Down if fence.is_wanted && is_served && now >= fence.next => fence.ask(now, 1),
            Phase::Down => return false,
            // Nobody is to wait for a rank that is being replaced.
            Phase::Asked(_) if !is_served || now.since(fence.began) > PATIENCE => {
                fence.phase = Phase::Storing(env.journal().last());
            }
            Phase::Asked(1) if all_wait => fence.ask(now, 2),
            // One has started again since the first time.
            Phase::Asked(_) if all_wait && fence.waiting != fence.waited => fence.ask(now, 1),
            Phase::Asked(_) if all_wait => {
                (fence.phase, fence.is_wanted) = (Phase::Up(now), false);
                cache.snaps.set_others_wait(true);
                ops.wake_for(&Need::Fence);
                return true;
            }
            Phase::Asked(_) => {}
            Phase::Up(since) if now.since(since) < UP_AT_MOST && ops.change_snapshots() => {}
            Phase::Up(since) if now.since(since) >= UP_FOR => {
                cache.snaps.set_others_wait(false);
                fence.phase = Phase::Storing(env.journal().last());
            }
            Phase::Up(_) => {}
            Phase::Storing(last) if write_back.has_expired(env, last) => return self.take_fence_down(),
            Phase::Storing(_) => {}
        }
        self.ask_to_wait(now);
        false
    }

    /// Asks the ranks that do not wait yet.
    fn ask_to_wait(&mut self, now: Instant) {
        let fence = &mut self.migration.fence;
        if !matches!(fence.phase, Phase::Asked(_)) || now < fence.next {
            return;
        }
        fence.next = now + ASKED_AGAIN_AFTER;
        let m = MdsFence { round: fence.round };
        for rank in self.migration.not_waiting() {
            self.env.effect(Effect::SendRank(rank, m.clone().into()));
        }
    }

    fn take_fence_down(&mut self) -> bool {
        let now = self.env.now();
        self.migration.fence.phase = Phase::Down;
        self.migration.fence.next = now + PAUSE;
        self.migration.recalls.values_mut().for_each(|recall| recall.next = now);
        for rank in self.migration.ranks.keys().copied().collect::<Vec<_>>() {
            self.tell_fence_down(rank);
        }
        // Subtrees may move again.
        self.partition_changed(false);
        true
    }

    fn tell_fence_down(&mut self, rank: MdsRank) {
        let (round, version) = (self.migration.fence.round, self.cache.snaps.stored_version());
        self.env.effect(Effect::SendRank(rank, MdsFenceDown { round, version }.into()));
    }

    /// A rank waits, or asks whether it has to.
    pub(super) fn fenced(&mut self, from: RankPeer, m: &MdsFenced) {
        let known = self.migration.ranks.get(&from.rank).map(|status| status.incarnation);
        if own(&self.env) != MdsRank(0) || known != Some(from.incarnation) {
            // It repeats that. Until then it waits: rank 0 would not ask it.
            return;
        }
        let fence = &mut self.migration.fence;
        match fence.phase {
            Phase::Asked(_) if m.round == fence.round => {
                fence.waiting.insert(from.rank, from.incarnation);
            }
            Phase::Asked(_) | Phase::Up(_) | Phase::Storing(_) => {}
            Phase::Down if self.cache.snaps.first_needed().is_none() => self.tell_fence_down(from.rank),
            Phase::Down => fence.phase = Phase::Storing(self.env.journal().last()),
        }
        self.migration.look_at = self.env.now();
    }

    /// Rank 0 is about to change the table.
    pub(super) fn fence_asked(&mut self, from: RankPeer, m: &MdsFence) {
        if from.rank != MdsRank(0) || own(&self.env) == MdsRank(0) {
            return;
        }
        let fence = &mut self.migration.fence;
        let asked = (from.incarnation, m.round);
        if asked < fence.asked {
            return;
        }
        if !self.cache.snaps.is_fenced() || asked != fence.asked {
            // Subtrees may have come since it waits.
            fence.is_closed = false;
        }
        if !self.cache.snaps.is_fenced() {
            self.cache.snaps.set_fenced(true);
            fence.version = self.cache.snaps.version();
        }
        (fence.asked, fence.is_known) = (asked, true);
        fence.next = self.env.now();
        self.migration.look_at = self.env.now();
    }

    /// Takes from clients what lets them change files with several names, and says so when that is done.
    /// What clients claim after it would be missed: nobody is absent any more then.
    fn wait_in_fence(&mut self) {
        let now = self.env.now();
        if !self.cache.snaps.is_fenced() || now < self.migration.fence.next {
            return;
        }
        let is_still = self.migration.exports.is_empty() && self.migration.imports.is_empty();
        let is_closed = is_still && !self.has_absent_clients() && self.close_files();
        // What was changed before must not be lost and then repeated after the snapshot.
        let is_ready = is_closed && self.env.journal().durable() >= self.migration.fence.closed_at;
        let fence = &mut self.migration.fence;
        if !is_ready && now < fence.said + SAID_AGAIN_AFTER {
            fence.next = now + super::LOOK_INTERVAL;
            return;
        }
        // One that can't say that it waits asks whether it still has to.
        let round = if is_ready { fence.asked.1 } else { 0 };
        (fence.said, fence.next) =
            (now, now + if is_ready { SAID_AGAIN_AFTER } else { super::LOOK_INTERVAL });
        self.env.effect(Effect::SendRank(MdsRank(0), MdsFenced { round }.into()));
    }

    /// True once nobody can change a file with several names, and their data are where snapshots find them.
    /// Looks at all of them are rare: what the first one found has to become ready before the next.
    fn close_files(&mut self) -> bool {
        if self.migration.fence.is_closed {
            return true;
        }
        let Self { env, cache, sessions, caps, migration, strays, .. } = self;
        let fence = &mut migration.fence;
        fence.open.retain(|ino| is_open(cache, *ino));
        if !fence.open.is_empty() {
            return false;
        }
        let meant: Vec<InodeKey> = cache.global.iter().copied().filter(|ino| !cache.is_fixed(*ino)).collect();
        fence.open = meant.iter().copied().filter(|ino| is_open(cache, *ino)).collect();
        fence.is_closed = fence.open.is_empty();
        for ino in meant {
            caps.eval(env, cache, sessions, ino, None);
            if cache.unstored.contains(ino) {
                strays.hurry(ino, &cache.inodes[&ino].data);
            }
        }
        if fence.is_closed {
            fence.closed_at = env.journal().last();
            env.want_durable(fence.closed_at);
        }
        fence.is_closed
    }

    /// The table does not change any more.
    pub(super) fn fence_down(&mut self, from: RankPeer, m: &MdsFenceDown) {
        let is_late = (from.incarnation, m.round) < self.migration.fence.asked;
        if from.rank != MdsRank(0) || !self.cache.snaps.is_fenced() || is_late {
            return;
        }
        // The first time it may have changed while it was read.
        let is_first = !self.migration.fence.is_known && m.version > 0;
        match is_first || m.version > self.cache.snaps.version() {
            true => {
                let (version, asked) = (m.version, self.migration.fence.asked);
                self.read_table(ForTable::Fence { version, asked }, BTreeMap::new());
            }
            false => self.leave_fence(),
        }
    }

    /// Files with several names may be changed again, once clients know which snapshots count.
    pub(super) fn leave_fence(&mut self) {
        let Self { env, cache, sessions, caps, migration, .. } = self;
        cache.snaps.set_fenced(false);
        migration.fence.is_known = true;
        if migration.fence.version != cache.snaps.version() {
            snaps::tell_of_all(env, cache, sessions);
        }
        migration.fence.open.clear();
        let waited = cache.global.clone();
        caps.end_revocations(env, cache, sessions, OpId::FENCE, waited);
        self.partition_changed(false);
    }
}

/// True if a client can change a file, or its data are not where snapshots find them.
fn is_open(cache: &Cache, ino: InodeKey) -> bool {
    let held = cache.inodes.get(&ino).map_or(0, |inode| inode.held_by_others(None));
    cache.unstored.contains(ino) || held & STRONG != 0
}
