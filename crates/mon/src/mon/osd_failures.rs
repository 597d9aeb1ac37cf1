//! Failure detection: failure reports of OSDs about one another, OSDs that fall silent, and how long-absent
//! OSDs are marked out.

use crate::cluster_log::LogLevel;
use crate::crush_edit;
use crate::domain::osd_flags::{flags_of, is_kept_up};
use crate::domain::osd_marks::same_incarnation;
use crate::mon::{Mon, Out};
use crate::storage::Storage;
use maps::{OsdId, OsdMap, osd_flags, osd_state};
use node::ConnId;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use stdx::Now;
use wire::EntityType;

impl<S: Storage> Mon<S> {
    /// Handles a failure report.
    pub(super) fn osd_failure(&mut self, now: Now, conn: ConnId, m: &peer::OsdFailure, out: &mut Vec<Out>) {
        if !self.may_report(conn, m.reporter, "failure report", out) || m.reporter == m.target {
            return;
        }
        let map = self.log.tail().osdmap().clone();
        let meant = map.osd(m.target).is_some_and(|o| o.is_up() && same_incarnation(o, &m.target_addrs));
        if !meant || map.is_down(m.reporter) {
            return;
        }
        if m.alive_again {
            return self.volatile.failures.withdraw(m.target, m.reporter);
        }
        if m.refused {
            self.volatile.failures.note_refused(m.target);
            if self.volatile.pending.want_down(m.target, m.target_addrs.clone()) {
                let text = format!("osd.{} refuses connections (reported by osd.{})", m.target, m.reporter);
                self.say(now, LogLevel::Info, text);
            }
            return;
        }
        let reporters = self.volatile.failures.add(now.mono, m.target, m.reporter) as u64;
        let wanted: u64 = self.option("mon_osd_min_down_reporters");
        let others = map.existing().filter(|(id, o)| o.is_up() && *id != m.target);
        let needed = (others.take(usize::try_from(wanted).unwrap_or(usize::MAX)).count() as u64).max(1);
        let is_failed = reporters >= needed && !is_kept_up(&map, m.target);
        if is_failed && self.volatile.pending.want_down(m.target, m.target_addrs.clone()) {
            self.say(now, LogLevel::Info, format!("osd.{} failed ({reporters} reporters)", m.target));
        }
    }

    /// Marks silent OSDs down and long-absent ones out.
    pub(super) fn tick_osds(&mut self, now: Now) {
        let map = self.log.tail().osdmap().clone();
        let connected: BTreeSet<OsdId> = self
            .sessions
            .iter()
            .filter(|s| s.is(EntityType::OSD))
            .filter_map(|s| s.name().id.parse().ok().map(OsdId))
            .collect();
        self.volatile.osds.note_sessions(&connected);
        let timeout: Duration = self.option("mon_osd_report_timeout");
        let grace = self.option::<Duration>("osd_heartbeat_grace");
        let up = map.existing().filter(|(_, o)| o.is_up()).count();
        let mut silent = Vec::new();
        for (osd, entry) in map.existing().filter(|(_, o)| o.is_up()) {
            let silence = self.volatile.osds.silence(now.mono, osd);
            // If no other OSD exists to report it, the end of its session here counts.
            let is_gone = self.volatile.osds.without_session(now.mono, osd).is_some_and(|for_| for_ > grace);
            let no_other = up == 1 || self.volatile.osds.sessions_lost() >= up;
            if silence > timeout || is_gone && no_other {
                silent.push((osd, entry.client_addrs.clone()));
            }
        }
        silent.retain(|(osd, _)| !is_kept_up(&map, *osd));
        for (osd, addrs) in silent {
            if self.volatile.pending.want_down(osd, addrs) {
                self.say(now, LogLevel::Info, format!("osd.{osd} is silent"));
            }
        }
        self.mark_absent_out(now, &map);
    }

    /// True if an OSD is down together with a whole CRUSH subtree of at least type
    /// `mon_osd_down_out_subtree_limit`. Such a subtree will come back or needs a person's decision;
    /// re-replicating all of it would be wrong.
    fn is_down_with_its_subtree(&self, map: &OsdMap, osd: OsdId, known: &mut BTreeMap<i32, bool>) -> bool {
        let limit: String = self.option("mon_osd_down_out_subtree_limit");
        let Some(limit) = map.crush.type_of(&limit).filter(|ty| *ty > 0) else { return false };
        let mut at = osd.0;
        while let Some(parent) = map.crush.parent_of(at) {
            let all_down = *known.entry(parent).or_insert_with(|| {
                crush_edit::devices(&map.crush, parent).into_iter().all(|osd| map.is_down(OsdId(osd)))
            });
            let ty = map.crush.bucket(parent).map_or(0, |bucket| i32::from(bucket.ty));
            if !all_down || ty >= limit {
                return all_down;
            }
            at = parent;
        }
        false
    }

    fn mark_absent_out(&mut self, now: Now, map: &OsdMap) {
        let after: Duration = self.option("mon_osd_down_out_interval");
        let min_in: f64 = self.option("mon_osd_min_in_ratio");
        if after.is_zero() || map.has_flag(osd_flags::NOOUT) {
            return;
        }
        let total = map.existing().count();
        let mut still_in = map.existing().filter(|(_, o)| o.is_in()).count();
        let mut late = Vec::new();
        let mut known = BTreeMap::new();
        for osd in self.volatile.osds.down_for(now.mono, after) {
            let kept_in = flags_of(map, osd) & osd_state::NOOUT != 0;
            if kept_in || !map.is_in(osd) || !map.is_down(osd) {
                continue;
            }
            if self.is_down_with_its_subtree(map, osd, &mut known) {
                // Checked again after the same interval.
                self.volatile.osds.restart_down_clock(now.mono, osd);
            } else if (still_in.saturating_sub(1)) as f64 / total.max(1) as f64 >= min_in {
                still_in -= 1;
                late.push(osd);
            }
        }
        if late.is_empty() {
            return;
        }
        let secs = after.as_secs();
        self.edit(now, |edit| {
            for osd in late {
                crate::domain::osd_marks::mark_out(edit, osd, true);
                edit.notes.push(format!("marking osd.{osd} out (it has been down for {secs} s)"));
            }
        });
    }
}
