//! Periodic work: rotates keys, marks silent daemons down and long-absent ones out.

use crate::bootstrap::{SERVICES, ttl};
use crate::cluster_log::LogLevel;
use crate::entry::Change;
use crate::mon::{Mon, Out};
use crate::storage::Storage;
use decl::Severity;
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::Now;

/// Between two looks at the health, which visit every PG.
const HEALTH_PERIOD: Duration = Duration::from_secs(2);

/// A new leader has no reports of PGs yet. It waits this long before it calls missing ones unknown.
const FIRST_REPORTS: Duration = Duration::from_secs(5);

impl<S: Storage> Mon<S> {
    pub(super) fn tick(&mut self, now: Now, out: &mut Vec<Out>) {
        if !self.ticker.due(now.mono) {
            return;
        }
        self.refresh_quorum(now.mono);
        if self.global_ids.is_empty() && self.standing.leader().is_some() {
            // The answer was lost.
            self.global_ids.ask_again();
            self.want_ids(now, out);
        }
        self.publish_unasked(now.mono, out);
        // Done without a leader too: agreement may need the very voter that waits for a snapshot.
        self.give_up_late_snapshots(now.mono);
        if !self.log.leads() {
            return;
        }
        self.check_members_later();
        self.rotate_keys(now);
        self.tick_join_keys(now);
        self.tick_osds(now);
        self.tick_disks(now);
        self.tick_mdss(now);
        self.tick_managers(now);
        self.tick_pools(now);
        self.tick_snaps(now);
        self.tick_autoscale(now);
        self.tick_pg_num(now);
        self.tick_balancer(now);
        self.note_health(now);
        self.tell_dropped(now);
    }

    /// Logs to the cluster log which checks were raised or cleared. The last logged state is replicated, so
    /// that a new leader continues from it.
    fn note_health(&mut self, now: Now) {
        if !self.volatile.health_log.is_due(now.mono, HEALTH_PERIOD) {
            return;
        }
        let pools = &self.log.state().osdmap().pools;
        let pgs: usize = pools.values().map(|pool| pool.pg_num as usize).sum();
        if self.volatile.pgs.pgs().len() < pgs && now.mono.since(self.volatile.since) < FIRST_REPORTS {
            return;
        }
        self.volatile.health_log.done(now.mono);
        let health = crate::health::Health::of(&self.view(now));
        self.end_mutes(now, &health);
        let found: BTreeMap<_, _> = health.checks.into_iter().map(|c| (c.code.name(), c)).collect();
        let old = crate::health::mute::raised(&self.log.tail().kv);
        let new: Vec<_> = found.values().filter(|c| !old.contains_key(c.code.name())).collect();
        let gone: Vec<_> = old.iter().filter(|(code, _)| !found.contains_key(code.as_str())).collect();
        if new.is_empty() && gone.is_empty() {
            return;
        }
        self.edit(now, |edit| {
            let key = |code: &str| format!("{}{code}", crate::health::mute::RAISED);
            new.iter().for_each(|c| {
                edit.push(Change::Kv(key(c.code.name()), Some(c.summary.clone().into_bytes())))
            });
            gone.iter().for_each(|(code, _)| edit.push(Change::Kv(key(code), None)));
        });
        for check in &new {
            let level =
                if check.code.severity() == Severity::Error { LogLevel::Error } else { LogLevel::Warn };
            let text = format!("Health check failed: {} ({})", check.summary, check.code.name());
            self.say(now, level, text);
        }
        for (code, summary) in &gone {
            self.say(now, LogLevel::Info, format!("Health check cleared: {code} (was: {summary})"));
        }
        if found.is_empty() {
            self.say(now, LogLevel::Info, "Cluster is now healthy");
        }
    }

    /// Removes mutes that have expired or whose finding is gone.
    fn end_mutes(&mut self, now: Now, health: &crate::health::Health) {
        let ended = health.ended_mutes(now.wall.split().0);
        if ended.is_empty() {
            return;
        }
        self.edit(now, |edit| {
            for (code, why) in ended {
                let key = format!("{}{code}", crate::health::mute::MUTES);
                if edit.base.kv.contains_key(&key) {
                    edit.push(Change::Kv(key, None));
                    edit.notes.push(format!("Health alert {code} is no longer muted: {why}"));
                }
            }
        });
    }

    fn rotate_keys(&mut self, now: Now) {
        let expired = |keys: &auth::RotatingKeys| keys.needs_rotation(now.wall);
        if !self.log.tail().rotating.values().any(expired) {
            return;
        }
        self.edit(now, |edit| {
            for service in SERVICES {
                let keys = edit.base.rotating.get(&service).cloned().unwrap_or_default();
                if expired(&keys) {
                    let next = keys.rotated(now.wall, ttl(edit.config, edit.base, service), edit.rng);
                    edit.push(Change::Rotating(service, next));
                }
            }
        });
    }
}
