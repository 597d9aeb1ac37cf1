//! What the monitor of [`Cluster`] does where a pool gets more or fewer PGs.

use super::*;

/// Names of so many objects.
pub fn names(n: u32) -> Vec<String> {
    (0..n).map(|i| format!("o{i}")).collect()
}

impl Cluster {
    /// The monitor changes the number of PGs, and that of their places.
    pub fn set_pg_num(&mut self, pg_num: u32, pgp_num: u32) {
        self.change(|map, _| {
            if let Some(pool) = map.pools.get_mut(&POOL) {
                (pool.pg_num, pool.pg_num_pending, pool.pgp_num) = (pg_num, pg_num, pgp_num);
            }
        });
    }

    /// The last PG, and the one that it is to become a part of.
    pub fn merging(&self) -> [PgId; 2] {
        let left = self.pg_num() - 1;
        let target = maps::stable_mod(left, left, maps::stable_mod_mask(left));
        [PgId::new(POOL, left), PgId::new(POOL, target)]
    }

    /// The monitor has the last two PGs that belong together take no requests, or takes that back.
    pub fn set_pending(&mut self, pending: u32) {
        self.change(|map, _| {
            let epoch = map.epoch;
            if let Some(pool) = map.pools.get_mut(&POOL) {
                (pool.pg_num_pending, pool.last_change) = (pending, epoch);
            }
        });
    }

    /// What is to be said of a merge that has begun, once both PGs have said that they are ready.
    pub fn merge_meta(&self) -> Option<maps::MergeMeta> {
        let pool = &self.map.pools[&POOL];
        let pair = self.merging();
        let ready = pair.map(|pg| {
            let stat = self.stats.get(&pg)?;
            let bits = peer::pg_state::PREMERGE | peer::pg_state::CLEAN | peer::pg_state::PEERED;
            let acting = self.map.pg_up_acting(pg).acting;
            let up = acting.iter().all(|o| self.map.osds[o.0 as usize].info.up_from <= stat.reported_epoch);
            let is_ready = stat.state & bits == bits && stat.reported_epoch >= pool.last_change;
            (is_ready && up && stat.acting == acting).then_some(stat)
        });
        let [Some(source), Some(target)] = ready else { return None };
        let both = source.reported_epoch.min(target.reported_epoch);
        Some(maps::MergeMeta {
            source_pgid: pair[0],
            ready_epoch: source.reported_epoch.max(target.reported_epoch),
            last_epoch_started: both,
            last_epoch_clean: both,
            source_version: source.version,
            target_version: target.version,
        })
    }

    /// The monitor says that the last PG is a part of another one.
    pub fn merge(&mut self, meta: maps::MergeMeta) {
        self.change(|map, _| {
            map.pg_temp.remove(&meta.source_pgid);
            map.pg_upmap.remove(&meta.source_pgid);
            let epoch = map.epoch;
            if let Some(pool) = map.pools.get_mut(&POOL) {
                let left = meta.source_pgid.seed;
                (pool.pg_num, pool.pg_num_pending, pool.last_change) = (left, left, epoch);
                pool.last_pg_merge_meta = meta;
            }
        });
    }

    /// The last two PGs that belong together are about to be merged: both are ready.
    pub fn ready_to_merge(&mut self) -> maps::MergeMeta {
        self.set_pending(self.pg_num() - 1);
        self.run_until("PGs ready to be merged", |c| c.merge_meta().is_some());
        self.merge_meta().expect("looked at")
    }

    /// The last PG becomes a part of another one.
    pub fn merge_last(&mut self) {
        let meta = self.ready_to_merge();
        self.merge(meta);
    }

    /// What the monitor does about a merge that has begun, by what it was told.
    pub(super) fn tend_merge(&mut self) {
        let pool = &self.map.pools[&POOL];
        let (pending, pg_num, size) = (pool.pg_num_pending, pool.pg_num, usize::from(pool.size));
        if pending >= pg_num {
            return;
        }
        let [source, target] = self.merging().map(|pg| self.map.pg_up_acting(pg));
        if source != target || source.up != source.acting || source.acting.len() < size {
            self.set_pending(pg_num);
        } else if let Some(meta) = self.merge_meta() {
            self.merge(meta);
        }
    }

    /// The last two PGs that belong together are to be merged, if they can be.
    pub fn try_merge(&mut self) {
        let pool = &self.map.pools[&POOL];
        let [source, target] = self.merging().map(|pg| self.map.pg_up_acting(pg));
        let whole = source.up == source.acting && source.acting.len() == usize::from(pool.size);
        if pool.pg_num_pending == pool.pg_num && source == target && whole {
            self.set_pending(self.pg_num() - 1);
        }
    }

    /// How many PGs there are.
    pub fn pg_num(&self) -> u32 {
        self.map.pools[&POOL].pg_num
    }

    /// Objects of all PGs together, by what their primaries say.
    pub fn objects_counted(&self) -> i64 {
        let all =
            self.alive().0.into_iter().flat_map(|osd| self.osd(osd).pgs.values().map(move |pg| (osd, pg)));
        let led = all.filter(|(osd, pg)| pg.primary() == Some(member(*osd)));
        led.map(|(_, pg)| pg.info().stats.objects).sum()
    }
}
