//! The leader's periodic work on pools, placement groups and devices.

use crate::domain::autoscale::{Scale, rests, scales};
use crate::domain::devices::{device_of, noted};
use crate::domain::osd_marks::mark_out;
use crate::domain::pg_num::{
    Step, displaced, drop_exceptions, merge, moved, next_step, set_pending, split, spread, take_back,
};
use crate::domain::pool::ON;
use crate::domain::upmaps::change_upmaps;
use crate::domain::{autoscale, balancer, devices, features, pg_num, pool, snaps, usage};
use crate::entry::Change;
use crate::mon::{Mon, Volatile};
use crate::storage::Storage;
use maps::{OsdId, OsdMap, osd_flags, osd_state, pool_flags};
use peer::pg_state;
use stdx::Now;

impl<S: Storage> Mon<S> {
    /// Marks the OSD of a failing device out.
    pub(super) fn tick_disks(&mut self, now: Now) {
        if !self.volatile.devices.begin_look(now.mono) {
            return;
        }
        let map = self.log.tail().osdmap().clone();
        self.forget_disks(now, &map);
        let found = self.volatile.devices.look(now.mono, &map, self.volatile.pgs.osds());
        let kept = |osd: OsdId| {
            map.has_flag(osd_flags::NOOUT)
                || crate::domain::osd_flags::flags_of(&map, osd) & osd_state::NOOUT != 0
        };
        let Some((osd, why)) = found.into_iter().find(|(osd, _)| !kept(*osd)) else { return };
        if !self.volatile.devices.may_mark_out(now.mono)
            || !devices::can_spare_one(&map, &self.volatile.pgs, self.option("mon_osd_min_in_ratio"))
        {
            return;
        }
        self.volatile.devices.marked_out(now.mono);
        let device = device_of(self.log.tail(), osd);
        self.edit(now, |edit| {
            // It stays out until a person has looked at it, also over a restart.
            mark_out(edit, osd, false);
            let text = format!("osd.{osd} ({device}): {why}");
            edit.push(Change::Kv(devices::key(osd), Some(text.clone().into_bytes())));
            edit.notes.push(format!("marking osd.{osd} out: its device {device} is half dead: {why}"));
        });
    }

    /// Drops the records of OSDs that are in again or gone.
    fn forget_disks(&mut self, now: Now, map: &OsdMap) {
        let noted: Vec<OsdId> = noted(self.log.tail()).into_keys().collect();
        let over: Vec<OsdId> =
            noted.into_iter().filter(|osd| map.osd(*osd).is_none_or(|o| !o.exists() || o.is_in())).collect();
        if !over.is_empty() {
            self.edit(now, |edit| {
                over.iter().for_each(|osd| edit.push(Change::Kv(devices::key(*osd), None)));
            });
        }
    }

    /// Removes snapshots from the queue that all PGs have trimmed.
    pub(super) fn tick_snaps(&mut self, now: Now) {
        let map = self.log.tail().osdmap().clone();
        let purged = snaps::purged_everywhere(&map, &self.volatile.pgs);
        if purged.is_empty() {
            return;
        }
        self.edit(now, |edit| {
            for (pool, snaps) in purged {
                edit.nacre().purged_snaps.entry(pool).or_default().union_of(&snaps);
                edit.osd().new_purged_snaps.insert(pool, snaps);
            }
        });
    }

    /// Sets the recommended number of PGs of pools whose mode is `on`; leader only.
    pub(super) fn tick_autoscale(&mut self, now: Now) {
        let settings = autoscale::Settings::of(&self.view(now));
        let is_early = now.mono.since(self.volatile.since) < settings.period;
        let is_due = self.volatile.autoscale.is_due(now.mono, settings.period) && !is_early;
        if settings.off || self.log.is_proposing() || !is_due {
            return;
        }
        self.volatile.autoscale.done(now.mono);
        let map = self.log.tail().osdmap().clone();
        if map.pools.values().all(|pool| pool.pg_autoscale_mode != ON) {
            return;
        }
        let due = |scale: &Scale| {
            let pool = &map.pools[&scale.id];
            let may = pool.pg_autoscale_mode == ON && !pool.has_flag(pool_flags::NOPGCHANGE);
            scale.differs && may && rests(pool)
        };
        let all: Vec<Scale> = scales(&self.view(now)).into_iter().filter(due).collect();
        for scale in all {
            let size = u64::from(map.pools[&scale.id].size);
            self.edit(now, |edit| {
                let fits = pool::check_pg_num(edit, scale.ideal.into(), size, Some(scale.id)).is_ok();
                let may = scale.ideal > scale.pg_num || features::require(edit, peer::level::MERGES).is_ok();
                if !fits || !may {
                    // Shown by `autoscale-status`, and as a refusal to whom tries it.
                    return edit.discard();
                }
                let pool = edit.pool(scale.id);
                (pool.pg_num_target, pool.pgp_num_target) = (scale.ideal, scale.ideal);
                let (name, percent) = (map.pool_name(scale.id), 100.0 * scale.ratio);
                edit.notes.push(format!(
                    "pool '{name}': pg_num {} is to be {}, with {percent:.2}% of its OSDs' space in use or expected",
                    scale.pg_num, scale.ideal
                ));
            });
        }
    }

    /// Advances pools towards their target numbers of PGs; leader only.
    pub(super) fn tick_pg_num(&mut self, now: Now) {
        if self.log.is_proposing() || !self.volatile.pg_num.is_due(now.mono, pg_num::PERIOD) {
            return;
        }
        self.volatile.pg_num.done(now.mono);
        let map = self.log.tail().osdmap().clone();
        let settings = self.view(now).balancer_settings();
        self.volatile.merges.follow(&map);
        for (id, pool) in &map.pools {
            let waited = self.volatile.merges.waited(now.mono, *id, pool);
            let Some(step) = next_step(&map, (*id, pool), &self.volatile.pgs, &settings, waited) else {
                continue;
            };
            match step {
                Step::Prepare if !self.volatile.merges.may_begin(now.mono, *id) => continue,
                Step::Prepare => self.edit(now, |edit| match features::require(edit, peer::level::MERGES) {
                    Ok(()) => set_pending(edit, *id, pool.pg_num - 1),
                    Err(_) => edit.discard(),
                }),
                Step::TakeBack => {
                    self.volatile.merges.put_off(now.mono, *id);
                    self.edit(now, |edit| take_back(edit, (*id, pool)))
                }
                Step::Merge(meta) => self.edit(now, |edit| merge(edit, *id, *meta)),
                Step::Gather(pair) => {
                    if self.volatile.balancer.unrest(&map, &self.volatile.pgs, &settings).is_some() {
                        continue;
                    }
                    self.volatile.balancer.note_moves(pair.to_vec(), map.epoch.next());
                    self.edit(now, |edit| drop_exceptions(edit, &pair))
                }
                Step::Split(pg_num) => self.edit(now, |edit| split(edit, (*id, pool), pg_num)),
                Step::Spread(pgp_num) => {
                    let (unrest, moved) = (
                        self.volatile.balancer.unrest(&map, &self.volatile.pgs, &settings),
                        moved(*id, pool, pgp_num),
                    );
                    if unrest.is_some() {
                        continue;
                    }
                    let elsewhere = displaced(&map, *id, pgp_num, &moved);
                    self.volatile.balancer.note_moves(elsewhere, map.epoch.next());
                    self.edit(now, |edit| spread(edit, (*id, pool), pgp_num, &moved))
                }
            };
            // One pool at a time: its moves count for the next.
            return;
        }
    }

    /// Handles reported states: clients of PGs that are ready to merge should not wait for the next tick.
    pub(super) fn merge_if_ready(&mut self, now: Now, reported: u64) {
        if reported & pg_state::PREMERGE != 0 && reported & pg_state::CLEAN != 0 && self.log.leads() {
            self.volatile.pg_num.hurry();
            self.tick_pg_num(now);
        }
    }

    /// Advances the balancer by one step; leader only.
    pub(super) fn tick_balancer(&mut self, now: Now) {
        // A proposal in progress would change the balancer's input.
        if self.log.is_proposing() {
            return;
        }
        let settings = self.view(now).balancer_settings();
        let map = self.log.tail().osdmap().clone();
        let balancer = &mut self.volatile.balancer;
        balancer.follow(&map, &settings);
        match balancer.think(now, &map, &settings) {
            balancer::Step::Nothing => {}
            balancer::Step::Clean(changes) => {
                let text = format!("{} exceptions to CRUSH that lead nowhere are removed", changes.len());
                self.edit(now, |edit| change_upmaps(edit, changes, text));
            }
            balancer::Step::Ready => {
                let Volatile { balancer, pgs, .. } = &mut self.volatile;
                let Some(changes) = balancer.take_plan_when_quiet(now, &map, pgs, &settings) else { return };
                let text = format!("balancer: {} placement groups get other OSDs", changes.len());
                self.edit(now, |edit| change_upmaps(edit, changes, text));
            }
        }
    }

    /// Sets and clears the full flags, of pools by their quotas and of OSDs by the usage of their devices;
    /// removes expired entries from the blocklist.
    pub(super) fn tick_pools(&mut self, now: stdx::Now) {
        let map = self.log.tail().osdmap().clone();
        let mut changed = Vec::new();
        for (id, pool) in &map.pools {
            let stats = self.volatile.pgs.pool(*id).stats;
            let over = |limit: u64, n: i64| limit > 0 && n.max(0) as u64 >= limit;
            let full = over(pool.quota_max_bytes, stats.num_bytes)
                || over(pool.quota_max_objects, stats.num_objects);
            if full != pool.has_flag(pool_flags::FULL_QUOTA) {
                changed.push((*id, full));
            }
        }
        let osds = usage::fullness_changes(&map, &self.volatile.pgs);
        let stamp: wire::Utime = now.wall.into();
        let expired: Vec<_> =
            map.blocklist.iter().filter(|(_, until)| **until < stamp).map(|(a, _)| *a).collect();
        if changed.is_empty() && osds.is_empty() && expired.is_empty() {
            return;
        }
        self.edit(now, |edit| {
            for (id, full) in changed {
                let name = edit.osdmap().pool_name(id).to_owned();
                let pool = edit.pool(id);
                let bits = pool_flags::FULL | pool_flags::FULL_QUOTA;
                pool.flags = if full { pool.flags | bits } else { pool.flags & !bits };
                edit.notes.push(format!(
                    "pool '{name}' {} its quota",
                    if full { "has reached" } else { "is below" }
                ));
            }
            if !expired.is_empty() {
                edit.osd().old_blocklist = expired;
            }
            for (osd, flip) in osds {
                *edit.osd().new_state.entry(osd).or_default() ^= flip;
            }
        });
    }
}
