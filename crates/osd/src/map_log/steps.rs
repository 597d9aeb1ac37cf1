//! The steps from one map to the next.

use super::Untouched;
use crate::completion::CommitFor;
use crate::osd::Osd;
use crate::pg::Pg;
use crate::pg::member::Member;
use crate::pg::membership::Members;
use crate::pg::meta::Stored;
use crate::pg::recovery::suspended::flags;
use crate::pg::trim::forget_snaps;
use crate::superblock::{map_key, superblock_op};
use maps::{Epoch, OsdId, OsdMap, OsdMapIncremental, PgId, Spg, split_off, stable_mod, stable_mod_mask};
use node::{ConnId, Level};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use stdx::Instant;
use store::{Transaction, TxnOp};
use wire::{Reader, Writer};

/// Maps are stored once they reach this part of the device, or a MiB, before more are processed: a store
/// takes only a quarter of its log in one transaction, and its log is a 32nd of the device or less.
const SAVE_AT: (u64, usize) = (512, 1 << 20);
/// Longer maps do not go through the store's log.
const LOGGED: usize = 64 << 10;
/// Wait for a map that a message names, before a monitor is asked. An OSD sends the map ahead of its message;
/// for a client's message another OSD brings it soon.
const MAP_PATIENCE: Duration = Duration::from_millis(100);
/// Wait for a map that only a heartbeat has named: it comes with the next heartbeats, which are sent to all
/// peers each second.
const HEARTBEAT_PATIENCE: Duration = Duration::from_millis(1500);
/// Number of peers to which a new map is announced at once, by heartbeats; their answers show if they lack
/// it.
const TOLD_AT_ONCE: usize = 3;

impl Osd {
    /// Handles maps from the monitor.
    pub(crate) fn take_maps(&mut self, msg: &msgs::OsdMap) {
        if msg.fsid != self.core.config().fsid {
            let text =
                format!("the monitors are of cluster {}, this OSD of {}", msg.fsid, self.core.config().fsid);
            return self.stop(text);
        }
        if !self.apply_maps(msg) && self.maps.newest_known > self.core.epoch() {
            // The received maps do not follow ours.
            self.ask_monitor_for_maps();
        }
    }

    /// Applies all maps of a message that follow ours; `true` if there were any.
    fn apply_maps(&mut self, msg: &msgs::OsdMap) -> bool {
        self.maps.newest_known = self.maps.newest_known.max(msg.newest);
        let ours = self.core.epoch();
        let mut before = self.core.map().clone();
        let mut began = Vec::new();
        loop {
            let part = usize::try_from(self.core.usage().total / SAVE_AT.0).unwrap_or(usize::MAX);
            if self.maps.unsaved_len >= part.clamp(1, SAVE_AT.1) {
                self.acted_on(&before, std::mem::take(&mut began));
                before = self.core.map().clone();
            }
            match self.next_in(msg) {
                Ok(Some(map)) => self.next_map(map, &mut before, &mut began),
                Ok(None) => break,
                Err(why) => {
                    self.event(Level::Error, "map_undecodable", why);
                    break;
                }
            }
        }
        if self.core.epoch() > before.epoch {
            self.acted_on(&before, began);
            return true;
        }
        self.core.epoch() > ours
    }

    /// The map of a message that follows ours: by the next incremental, or else the newest in full.
    fn next_in(&mut self, msg: &msgs::OsdMap) -> Result<Option<OsdMap>, String> {
        let next = self.core.epoch().next();
        let (epoch, map) = if let Some(bytes) = msg.incrementals.get(&next) {
            let mut map = OsdMap::clone(self.core.map());
            let applied = Reader::new(bytes).get::<OsdMapIncremental>().map(|inc| map.apply(&inc));
            if !matches!(applied, Ok(Ok(_))) {
                return Err(format!("incremental {next}: {applied:?}"));
            }
            self.core.keep_incremental(next, bytes.clone());
            (next, map)
        } else if let Some((epoch, bytes)) = msg.fulls.range(next..).next_back() {
            (*epoch, Reader::new(bytes).get::<OsdMap>().map_err(|error| format!("full {epoch}: {error}"))?)
        } else {
            return Ok(None);
        };
        if map.epoch != epoch {
            return Err(format!("map {epoch} says that it is {}", map.epoch));
        }
        Ok(Some(map))
    }

    /// Handles maps from another OSD, which has noticed that we lack them.
    pub(crate) fn take_shared_maps(&mut self, msg: &msgs::OsdMap) {
        let is_news = msg.fsid == self.core.config().fsid && msg.newest > self.core.epoch();
        if !is_news || !self.boot.is_running() {
            return self.core.count("maps_ignored", 1);
        }
        self.core.count("maps_from_peers", 1);
        self.apply_maps(msg);
        if self.maps.newest_known > self.core.epoch() {
            self.await_map(self.maps.newest_known);
        }
    }

    /// Notes that a waiting message names a newer map.
    pub(crate) fn await_map(&mut self, epoch: Epoch) {
        let (ours, now) = (self.core.epoch(), self.core.now().mono);
        self.maps.awaited.heard_of(epoch, ours, MAP_PATIENCE, now);
    }

    /// Notes the map that a heartbeat names.
    pub(crate) fn heard_of_map(&mut self, osd: OsdId, epoch: Epoch) {
        let (ours, now) = (self.core.epoch(), self.core.now().mono);
        self.core.heard_epoch(osd, epoch);
        self.maps.awaited.heard_of(epoch, ours, HEARTBEAT_PATIENCE, now);
    }

    /// Asks the monitor for a map that others have and that has not come.
    pub(crate) fn awaited_map_due(&mut self) {
        if self.maps.awaited.is_due(HEARTBEAT_PATIENCE, self.core.now().mono) {
            self.core.count("maps_asked_for", 1);
            self.ask_monitor_for_maps();
        }
    }

    /// Time at which [`Self::awaited_map_due`] has something to do.
    pub(crate) fn awaited_map_deadline(&self) -> Option<Instant> {
        self.maps.awaited.deadline()
    }

    /// Asks the monitor for all maps after ours.
    fn ask_monitor_for_maps(&mut self) {
        self.mon.ask_for_maps(self.core.epoch());
        self.expect_map();
    }

    /// Expects a newer map: somebody has it, or a report to the monitor should lead to one.
    pub(crate) fn expect_map(&mut self) {
        self.mon.expect_map(self.core.now());
    }

    /// Processes one map. If PGs split or merge with it, all earlier maps are processed first, and the splits
    /// and merges at once, because the marks of those PGs refer to the newest stored map.
    fn next_map(&mut self, map: OsdMap, before: &mut Arc<OsdMap>, began: &mut Vec<Spg>) {
        let old = self.core.map().clone();
        let changes = |(id, pool): (&i64, &maps::Pool)| {
            old.pools.get(id).is_some_and(|old_pool| old_pool.pg_num != pool.pg_num)
        };
        if !map.pools.iter().any(changes) {
            return self.advance(map, began);
        }
        if old.epoch > before.epoch {
            self.acted_on(before, std::mem::take(began));
        }
        self.advance(map, began);
        self.acted_on(&old, std::mem::take(began));
        *before = self.core.map().clone();
    }

    /// Stores one map and advances every PG's membership. PGs that begin a new interval are added to `began`.
    fn advance(&mut self, map: OsdMap, began: &mut Vec<Spg>) {
        let old = self.core.map().clone();
        let map = Arc::new(map);
        let was_up = self.core.is_up();
        self.core.advance(map.clone());
        if old.epoch != Epoch(0) && map.epoch != old.epoch.next() {
            self.maps_skipped(&old, &map);
        }
        if was_up && !self.core.is_up() {
            self.event(Level::Warn, "marked_down", format!("map {} has us down", map.epoch));
        }
        self.store_map(&map);
        self.follow_untouched(&old, &map);
        forget_snaps(&map, &mut self.maps.unsaved);
        let gone: Vec<Spg> = self.pgs.ids().filter(|p| Members::of(p.pgid, &map).is_none()).collect();
        let (merged, gone): (Vec<Spg>, Vec<Spg>) =
            gone.into_iter().partition(|pgid| map.pools.contains_key(&pgid.pgid.pool));
        gone.into_iter().for_each(|pgid| self.drop_pg(pgid));
        self.end_merged(&old, &map, merged, began);
        for pg in self.pgs.values_mut() {
            if let Some(next) = Members::of(pg.id().pgid, &map)
                && pg.advance(&mut self.core, next, &old)
                && !began.contains(&pg.id())
            {
                began.push(pg.id());
            }
        }
        self.new_pgs(&old, &map, began);
    }

    /// Handles epochs that can no longer be had: other OSDs must tell what happened in them.
    fn maps_skipped(&mut self, old: &OsdMap, new: &OsdMap) {
        self.event(Level::Info, "maps_skipped", format!("{} to {}", old.epoch, new.epoch));
        for pg in self.pgs.values_mut() {
            pg.forget_creation();
        }
        self.maps.untouched.clear();
        self.core.forget_incrementals();
    }

    fn store_map(&mut self, map: &OsdMap) {
        let kept = self.core.options().maps_kept;
        let needed =
            self.pgs.values().map(|pg| pg.info().history.last_epoch_clean).min().unwrap_or(map.epoch);
        let superblock = &mut self.maps.superblock;
        superblock.newest = map.epoch;
        if superblock.oldest == Epoch(0) {
            superblock.oldest = map.epoch;
        }
        if self.core.is_up() {
            superblock.last_up = map.epoch;
        }
        let bytes = Writer::encode(map);
        self.maps.unsaved_len += if bytes.len() < LOGGED { bytes.len() } else { 0 };
        let mut ops = vec![TxnOp::Write(map_key(map.epoch), 0, bytes.into())];
        // As far back as a PG may need them, within a bound.
        let limit =
            Epoch(needed.0.min(map.epoch.0.saturating_sub(kept)).max(map.epoch.0.saturating_sub(4 * kept)));
        while superblock.oldest < limit {
            ops.push(TxnOp::Remove(map_key(superblock.oldest)));
            superblock.oldest = superblock.oldest.next();
        }
        self.maps.unsaved.append(&mut ops);
    }

    /// Tracks the PGs to which nobody can have written: only of those may a member assume that it knows
    /// everything.
    fn follow_untouched(&mut self, old: &OsdMap, map: &OsdMap) {
        let nobody_was_active = map.existing().all(|(_, o)| o.info.up_thru == Epoch(0));
        let all_are_new = old.epoch == Epoch(0) && nobody_was_active;
        let follows = old.epoch != Epoch(0) && map.epoch == old.epoch.next();
        for (id, pool) in &map.pools {
            for seed in old.pools.get(id).map_or(0, |old| old.pg_num).max(1)..pool.pg_num {
                // A child of an untouched PG.
                if let Some(whole) =
                    parent(old, PgId::new(*id, seed)).and_then(|p| self.maps.untouched.get(&p))
                {
                    self.maps.untouched.insert(PgId::new(*id, seed), whole.clone());
                }
            }
        }
        self.maps.untouched.retain(|pgid, pg| {
            let Some(next) = Members::of(*pgid, map) else { return false };
            // A merged PG was active.
            let merged = next.bits() < pg.members.bits();
            !merged && pg.members.advance(next, old).is_none_or(|ended| !ended.maybe_rw)
        });
        for (id, pool) in &map.pools {
            if !(all_are_new || follows && !old.pools.contains_key(id)) {
                continue;
            }
            for pgid in pool.pgs(*id) {
                if let Some(members) = Members::of(pgid, map) {
                    self.maps.untouched.insert(pgid, Untouched { created: map.epoch, members });
                }
            }
        }
    }

    /// Ends PGs of ours that became parts of others when a pool shrank. All remaining PGs of the pool are
    /// reported again, because earlier reports described smaller ones.
    fn end_merged(&mut self, old: &OsdMap, map: &OsdMap, merged: Vec<Spg>, began: &mut Vec<Spg>) {
        for pgid in merged {
            if let Some(pg) = self.pgs.get_mut(&pgid) {
                pg.end(&mut self.core, old);
                began.push(pgid);
            }
        }
        let shrinks = |pool: &i64| {
            let of = |m: &OsdMap| m.pools.get(pool).map(|pool| pool.pg_num);
            of(map) < of(old)
        };
        for pg in self.pgs.values_mut().filter(|pg| shrinks(&pg.id().pgid.pool)) {
            pg.changed(&mut self.core);
        }
    }

    /// Creates PGs of which this OSD is a member without any copy. Children of our own PGs are created when
    /// those split.
    fn new_pgs(&mut self, old: &OsdMap, map: &OsdMap, began: &mut Vec<Spg>) {
        for (id, pool) in &map.pools {
            let lacking = |pgid: &Spg| !self.pgs.contains(pgid);
            for spg in pool.pgs(*id).map(Spg::replicated).filter(lacking).collect::<Vec<_>>() {
                let pgid = spg.pgid;
                let Some(members) = Members::of(pgid, map) else { continue };
                let us = Member { osd: self.core.id(), shard: spg.shard };
                if !members.acting().contains(us) && !members.up().contains(us) || pool.is_erasure() {
                    continue;
                }
                let here = |seed| self.pgs.contains(&spg.of(PgId::new(*id, seed)));
                let was = old.pools.get(id).map_or(0, |old| old.pg_num);
                if parent(old, pgid).is_some_and(|parent| self.pgs.contains(&spg.of(parent)))
                    || split_off(pgid.seed, pool.pg_num, was).any(here)
                {
                    continue;
                }
                let mut pg = Pg::new(spg, pool.pg_num, Stored { members, ..Stored::default() });
                if let Some(known) = self.maps.untouched.get(&pgid) {
                    pg.set_created(known.created);
                }
                self.pgs.add(pg);
                began.push(spg);
            }
        }
    }

    /// Splits PGs that were marked when the newest map was stored, or before the start. Returns the new ones.
    pub(crate) fn split_pgs(&mut self) -> Vec<Spg> {
        let mut children = Vec::new();
        let map = self.core.map().clone();
        let splits = |pg: &Pg| {
            let now = map.pools.get(&pg.id().pgid.pool).map_or(0, |pool| pool.pg_num);
            pg.pg_num_before().is_some_and(|before| before < now)
        };
        for pg in self.pgs.values_mut().filter(|pg| splits(pg)) {
            children.extend(pg.split(&mut self.core));
        }
        let made = children.iter().map(|child| child.id()).collect();
        if !children.is_empty() {
            self.event(
                Level::Info,
                "pgs_split",
                format!("{} new ones, map {}", children.len(), self.core.epoch()),
            );
        }
        children.into_iter().for_each(|child| self.pgs.add(child));
        made
    }

    /// Merges PGs that were marked when the newest map was stored, or before the start. Returns the results.
    pub(crate) fn merge_pgs(&mut self) -> Vec<Spg> {
        let map = self.core.map().clone();
        let mut merges: BTreeMap<Spg, Vec<Spg>> = BTreeMap::new();
        for pgid in self.pgs.values().filter(|pg| pg.pg_num_before().is_some()).map(Pg::id) {
            let Some(pool) = map.pools.get(&pgid.pgid.pool) else { continue };
            let target = pgid.of(pool.raw_pg_to_pg(pgid.pgid));
            merges.entry(target).or_default().extend((target != pgid).then_some(pgid));
        }
        let mut made = Vec::new();
        for (pgid, sources) in merges {
            let target = self.pgs.remove(&pgid);
            let sources = sources.iter().filter_map(|source| self.pgs.remove(source)).collect();
            if let Some(pg) = Pg::merge(&mut self.core, pgid, target, sources) {
                self.pgs.add(pg);
                made.push(pgid);
            }
        }
        if !made.is_empty() {
            self.event(Level::Info, "pgs_merged", format!("{} of them, map {}", made.len(), map.epoch));
        }
        made
    }

    fn drop_pg(&mut self, pgid: Spg) {
        let Some(mut pg) = self.pgs.remove(&pgid) else { return };
        pg.drop_ahead(&mut self.core);
        pg.recovery_reset(&mut self.core);
        pg.trim_reset(&mut self.core);
        pg.scrub_reset(&mut self.core);
        pg.drop_all_ops(&mut self.core);
        if pg.is_stored() {
            self.remove_whole(pgid, pg.range().clone());
        }
    }

    /// Concludes a new map once all PGs have processed it: rounds of peering begin, and messages that waited
    /// for it go on.
    fn acted_on(&mut self, before: &OsdMap, mut began: Vec<Spg>) {
        let map = self.core.map().clone();
        self.mon.got_map(map.epoch);
        self.maps.awaited.have(map.epoch);
        let ended = self.core.links_follow_map();
        self.save_acted_on(&began);
        began.extend(self.split_pgs());
        began.extend(self.merge_pgs());
        self.core.size_logs(self.pgs.len());
        let states = |m: &OsdMap| {
            m.existing().map(|(id, o)| (id, o.is_up(), o.info.up_from, o.info.lost_at)).collect::<Vec<_>>()
        };
        let came_or_went = states(before) != states(&map);
        self.core.forget_old_incarnations(before);
        for pg in self.pgs.values_mut() {
            if !began.contains(&pg.id()) {
                ended.iter().for_each(|osd| pg.on_link_lost(&self.core, *osd));
                pg.on_same_interval(&mut self.core, came_or_went);
                continue;
            }
            pg.begin(&mut self.core);
        }
        if flags(before) != flags(&map) {
            self.pgs.values_mut().for_each(|pg| pg.recover(&mut self.core));
        }
        self.notify_clients_of_down_osds(before, &map);
        if before.blocklist != map.blocklist {
            self.pgs.values_mut().for_each(|pg| pg.end_blocklisted(&mut self.core));
        }
        for conn in self.core.take_uninformed() {
            self.share_maps(conn, Epoch(0));
        }
        self.core.look_for_trims();
        self.announce();
        self.heartbeat_peers_changed();
        self.announce_map();
        self.ask_copies_again();
        self.go_on_waiting();
    }

    /// Stores maps together with their effects on PGs. A restart continues from the newest stored map, and
    /// would never see the effects of earlier ones.
    fn save_acted_on(&mut self, began: &[Spg]) {
        self.maps.unsaved_len = 0;
        let mut ops = std::mem::take(&mut self.maps.unsaved);
        for pg in self.pgs.values_mut() {
            if pg.is_stored() && began.contains(&pg.id()) {
                pg.save_ops(&mut ops);
            }
        }
        ops.push(superblock_op(&self.maps.superblock));
        self.core.submit_own(Transaction { ops }, CommitFor::Nothing);
    }

    /// Keeps the cluster's feature level with the store: a build that can't do it is not to open it.
    pub(crate) fn keep_level(&mut self, level: u32) {
        if level > self.maps.superblock.feature_level {
            self.maps.superblock.feature_level = level;
            let ops = vec![superblock_op(&self.maps.superblock)];
            self.core.submit_own(Transaction { ops }, CommitFor::Nothing);
        }
    }

    /// Sends the map to clients when an OSD is marked down. A client that waits for a silent OSD hears
    /// nothing of it: its connection does not break, and its monitor may be on the same host. Every OSD that
    /// shared PGs with the lost one informs the clients whose epoch it knows.
    fn notify_clients_of_down_osds(&mut self, before: &OsdMap, map: &OsdMap) {
        let beats = &self.heartbeats;
        if before.existing().any(|(id, osd)| osd.is_up() && !map.is_up(id) && beats.knows(id)) {
            self.core.inform_all_clients();
        }
    }

    /// Announces a new map to a few peers at once. All others see it in the next heartbeat.
    fn announce_map(&mut self) {
        let peers = self.heartbeats.peers();
        let first = (self.core.epoch().0 as usize).wrapping_mul(TOLD_AT_ONCE);
        for n in 0..TOLD_AT_ONCE.min(peers.len()) {
            self.ping_one(peers[(first + n) % peers.len()]);
        }
    }

    /// Sends a client the maps that it lacks, on the connection on which it showed an older epoch.
    pub(crate) fn share_maps(&mut self, conn: ConnId, its: Epoch) {
        let Some(has) = self.core.brings_to_ours(conn, its) else { return };
        if has < self.core.epoch() {
            let maps = self.core.maps_since(has, self.maps.superblock.oldest);
            self.core.send(conn, 0, msgs::Body::from(maps));
        }
    }
}

/// The PG of `old` of which a new PG of the same pool is a part.
fn parent(old: &OsdMap, pgid: PgId) -> Option<PgId> {
    let pool = old.pools.get(&pgid.pool).filter(|pool| pgid.seed >= pool.pg_num)?;
    Some(PgId::new(pgid.pool, stable_mod(pgid.seed, pool.pg_num, stable_mod_mask(pool.pg_num))))
}
