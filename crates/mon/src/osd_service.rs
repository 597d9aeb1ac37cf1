//! What OSDs tell the monitor: boots, failures, statistics; and the clocks that run over them.

use crate::commands::osd_state::flags_of;
use crate::crush_edit;
use crate::mon::{Mon, Out};
use crate::publish::osdmaps_since;
use crate::session::Session;
use crate::soft::Soft;
use crate::storage::Storage;
use crate::syslog::LogLevel;
use maps::{OsdId, OsdMap, osd_flags, osd_state};
use node::{ConnId, Event, Level, Output};
use peer::pg_state;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use stdx::{Instant, Now};
use wire::{AddrVec, EntityType};

/// OSDs repeat a failure report each second. One that was not repeated for so long holds no more: its withdrawal may have been lost, and
/// with the report of another OSD much later it would say what nobody has seen.
const REPORT_HOLDS: Duration = Duration::from_secs(5);

impl<S: Storage> Mon<S> {
    /// Whether this session is the OSD that it says, or an administrator.
    fn is_osd(&self, conn: ConnId, osd: OsdId) -> bool {
        self.sessions.get(conn).is_some_and(|s| {
            s.is(EntityType::OSD) && s.name().id.parse() == Ok(osd.0) && s.caps.allows("osd", auth::Perm::X)
        })
    }

    /// As [`Self::is_osd`]; a report that is dropped is told.
    fn may_report(&self, conn: ConnId, osd: OsdId, what: &str, out: &mut Vec<Out>) -> bool {
        let may = self.is_osd(conn, osd);
        if !may {
            let text =
                format!("{what} of osd.{osd} from {}: not its key, or without `x` on osd", self.who(conn));
            out.push(Output::Event(Event::refusal("report_refused", text)));
        }
        may
    }

    /// An OSD asks to be marked up.
    pub(crate) fn osd_boot(&mut self, now: Now, conn: ConnId, m: Box<peer::OsdBoot>, out: &mut Vec<Out>) {
        let refuse = |why: String, out: &mut Vec<Out>| {
            out.push(Output::Event(Event::new(Level::Warn, "osd_boot_refused", why)));
        };
        if !self.is_osd(conn, m.osd) {
            return refuse(format!("osd.{} from {}: not its key", m.osd, self.who(conn)), out);
        }
        let map = self.log.tail().osdmap().clone();
        if m.fsid != map.fsid {
            return refuse(format!("osd.{} is of cluster {}", m.osd, m.fsid), out);
        }
        if let Some(known) = map.osd(m.osd).filter(|o| o.uuid != m.uuid && o.uuid != wire::Uuid::default()) {
            let why = format!(
                "osd.{} has the store {}, the map says {}: another OSD has this number; run `ceph osd purge {}` if that one is gone",
                m.osd, m.uuid, known.uuid, m.osd
            );
            self.say_seldom(now, LogLevel::Error, &why);
            return refuse(why, out);
        }
        if let Some(why) = crate::features::refusal(self.log.tail(), m.osd, m.feature_level) {
            self.say_seldom(now, LogLevel::Error, &why);
            return refuse(why, out);
        }
        let up_as_asked = map.osd(m.osd).is_some_and(|o| o.is_up() && o.client_addrs == m.addrs);
        if up_as_asked {
            // Asked again before it saw the map: send what it lacks.
            let bodies = osdmaps_since(self.log.state(), m.epoch.next());
            out.extend(bodies.into_iter().map(|b| Self::send(conn, 0, b)));
            return;
        }
        self.soft.osd_seen.insert(m.osd, now.mono);
        self.soft.boots.add(now.mono, m);
    }

    /// A primary needs to be known alive in a newer epoch before its PGs go active.
    pub(crate) fn osd_alive(&mut self, now: Now, conn: ConnId, m: &peer::OsdAlive, out: &mut Vec<Out>) {
        let map = self.log.tail().osdmap();
        if !self.may_report(conn, m.osd, "sign of life", out) || map.is_down(m.osd) || m.want > map.epoch {
            return;
        }
        self.soft.osd_seen.insert(m.osd, now.mono);
        let want = self.soft.wanted.up_thru.entry(m.osd).or_default();
        *want = m.want.max(*want);
    }

    /// An OSD reports another one.
    pub(crate) fn osd_failure(&mut self, now: Now, conn: ConnId, m: &peer::OsdFailure, out: &mut Vec<Out>) {
        if !self.may_report(conn, m.reporter, "failure report", out) || m.reporter == m.target {
            return;
        }
        let map = self.log.tail().osdmap().clone();
        let meant = map.osd(m.target).is_some_and(|o| o.is_up() && same_incarnation(o, &m.target_addrs));
        if !meant || map.is_down(m.reporter) {
            return;
        }
        if m.alive_again {
            if let Some(reports) = self.soft.failures.get_mut(&m.target) {
                reports.remove(&m.reporter);
            }
            return;
        }
        if m.refused {
            self.soft.refused.insert(m.target);
            let known = self.soft.wanted.down.insert(m.target, m.target_addrs.clone());
            if known.is_none() {
                let text = format!("osd.{} refuses connections (reported by osd.{})", m.target, m.reporter);
                self.say(now, LogLevel::Info, text);
            }
            return;
        }
        let reports = self.soft.failures.entry(m.target).or_default();
        reports.insert(m.reporter, now.mono);
        reports.retain(|_, at| now.mono.since(*at) < REPORT_HOLDS);
        let wanted: u64 = self.option("mon_osd_min_down_reporters");
        let others = map.existing().filter(|(id, o)| o.is_up() && *id != m.target);
        let needed = (others.take(usize::try_from(wanted).unwrap_or(usize::MAX)).count() as u64).max(1);
        let reporters = self.soft.failures.get(&m.target).map_or(0, |r| r.len() as u64);
        if reporters >= needed && !is_kept_up(&map, m.target) {
            let known = self.soft.wanted.down.insert(m.target, m.target_addrs.clone());
            if known.is_none() {
                self.say(now, LogLevel::Info, format!("osd.{} failed ({reporters} reporters)", m.target));
            }
        }
    }

    /// A sign of life.
    pub(crate) fn osd_beacon(&mut self, now: Now, conn: ConnId, m: &peer::OsdBeacon, out: &mut Vec<Out>) {
        if self.may_report(conn, m.osd, "beacon", out) {
            self.soft.osd_seen.insert(m.osd, now.mono);
            self.soft.pgs.beacon(m.osd, m.store.clone());
        }
    }

    /// Statistics.
    pub(crate) fn pg_stats(&mut self, now: Now, conn: ConnId, m: peer::PgStats, out: &mut Vec<Out>) {
        if self.may_report(conn, m.osd, "statistics", out) {
            self.soft.osd_seen.insert(m.osd, now.mono);
            let states = m.pgs.iter().map(|pg| pg.state);
            let ready =
                states.filter(|state| state & pg_state::PREMERGE != 0).fold(0, |all, state| all | state);
            self.soft.pgs.report(now.mono, m);
            self.merge_if_ready(now, ready);
        }
    }

    /// A primary asks for temporary acting sets.
    pub(crate) fn osd_pg_temp(&mut self, conn: ConnId, m: peer::OsdPgTemp, out: &mut Vec<Out>) {
        if self.may_report(conn, m.osd, "acting sets", out) && self.log.tail().osdmap().is_up(m.osd) {
            self.soft.wanted.pg_temp.extend(m.pg_temp);
        }
    }

    /// The monitor has just started: nobody is late yet.
    pub(crate) fn start_soft(&mut self, now: Instant) {
        let map = self.log.state().osdmap().clone();
        for (osd, entry) in map.existing() {
            match entry.is_up() {
                true => self.soft.osd_seen.insert(osd, now),
                false => self.soft.osd_down.insert(osd, now),
            };
        }
        // Sessions of before are gone: whoever is alive comes back soon.
        self.soft.osd_gone = map.existing().filter(|(_, o)| o.is_up()).map(|(id, _)| (id, now)).collect();
        self.start_mds_soft(now);
    }

    /// Keeps the clocks in step with a new map.
    pub(crate) fn follow_osdmap(&mut self, now: Instant, map: &OsdMap) {
        let Soft { osd_seen, osd_down, osd_gone, failures, refused, lost_at, lost_when, .. } = &mut self.soft;
        for (osd, entry) in map.existing() {
            if entry.is_up() {
                osd_seen.entry(osd).or_insert(now);
                osd_down.remove(&osd);
            } else {
                if osd_seen.remove(&osd).is_some() {
                    (*lost_at, *lost_when) = (map.epoch, Some(now));
                }
                osd_gone.remove(&osd);
                failures.remove(&osd);
                refused.remove(&osd);
                osd_down.entry(osd).or_insert(now);
            }
        }
        osd_down.retain(|osd, _| map.exists(*osd));
        for reports in failures.values_mut() {
            reports.retain(|reporter, _| map.is_up(*reporter));
        }
        failures.retain(|_, reports| !reports.is_empty());
    }

    pub(crate) fn osd_session_closed(&mut self, now: Instant, session: &Session) {
        let osd = session.name().id.parse().ok().map(OsdId).filter(|_| session.is(EntityType::OSD));
        let Some(osd) = osd.filter(|osd| self.log.state().osdmap().is_up(*osd)) else { return };
        if !self.sessions.iter().any(|other| other.name() == session.name()) {
            self.soft.osd_gone.entry(osd).or_insert(now);
        }
    }

    /// Marks silent OSDs down and long-absent ones out.
    pub(crate) fn tick_osds(&mut self, now: Now) {
        let map = self.log.tail().osdmap().clone();
        let alive: BTreeSet<OsdId> = self
            .sessions
            .iter()
            .filter(|s| s.is(EntityType::OSD))
            .filter_map(|s| s.name().id.parse().ok().map(OsdId))
            .collect();
        self.soft.osd_gone.retain(|osd, _| !alive.contains(osd));
        let timeout: Duration = self.option("mon_osd_report_timeout");
        let grace = self.option::<Duration>("osd_heartbeat_grace");
        let up = map.existing().filter(|(_, o)| o.is_up()).count();
        let mut silent = Vec::new();
        for (osd, entry) in map.existing().filter(|(_, o)| o.is_up()) {
            let seen = self.soft.osd_seen.get(&osd).copied().unwrap_or(now.mono);
            // Where no other OSD is left to report it, the end of its session with us has to do.
            let gone = self.soft.osd_gone.get(&osd).is_some_and(|at| now.mono.since(*at) > grace);
            let others_gone = self.soft.osd_gone.len() >= up;
            if now.mono.since(seen) > timeout || gone && (up == 1 || others_gone) {
                silent.push((osd, entry.client_addrs.clone()));
            }
        }
        silent.retain(|(osd, _)| !is_kept_up(&map, *osd));
        for (osd, addrs) in silent {
            if self.soft.wanted.down.insert(osd, addrs).is_none() {
                self.say(now, LogLevel::Info, format!("osd.{osd} is silent"));
            }
        }
        self.mark_out(now, &map);
    }

    /// Whether an OSD is down with all of a part of the cluster that is at least as large as
    /// `mon_osd_down_out_subtree_limit`: that comes back, or wants a person's decision, rather than that all of it is copied.
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

    fn mark_out(&mut self, now: Now, map: &OsdMap) {
        let after: Duration = self.option("mon_osd_down_out_interval");
        let min_in: f64 = self.option("mon_osd_min_in_ratio");
        if after.is_zero() || map.has_flag(osd_flags::NOOUT) {
            return;
        }
        let total = map.existing().count();
        let mut still_in = map.existing().filter(|(_, o)| o.is_in()).count();
        let mut late = Vec::new();
        let mut known = BTreeMap::new();
        let down = self.soft.osd_down.iter().filter(|(_, since)| now.mono.since(**since) >= after);
        for osd in down.map(|(osd, _)| *osd).collect::<Vec<_>>() {
            let kept_in = flags_of(map, osd) & osd_state::NOOUT != 0;
            if kept_in || !map.is_in(osd) || !map.is_down(osd) {
                continue;
            }
            if self.is_down_with_its_subtree(map, osd, &mut known) {
                // Looked at again after as long a time.
                self.soft.osd_down.insert(osd, now.mono);
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
                crate::osd_wishes::mark_out(edit, osd, true);
                edit.notes.push(format!("marking osd.{osd} out (it has been down for {secs} s)"));
            }
        });
    }
}

impl<S: Storage> Mon<S> {
    /// OSDs whose full bits do not say how full they are, with the bits to turn over.
    pub(crate) fn osd_fullness_changes(&self, map: &OsdMap) -> Vec<(OsdId, u32)> {
        const BITS: u32 = osd_state::FULL | osd_state::BACKFILLFULL | osd_state::NEARFULL;
        let levels = [
            (osd_state::FULL, map.full_ratio),
            (osd_state::BACKFILLFULL, map.backfillfull_ratio),
            (osd_state::NEARFULL, map.nearfull_ratio),
        ];
        let wanted = |osd: OsdId| {
            let used = crate::health::fullness(&self.soft.pgs, osd);
            levels
                .iter()
                .find(|(_, ratio)| *ratio > 0.0 && used >= f64::from(*ratio))
                .map_or(0, |(bit, _)| *bit)
        };
        let reported = map.existing().filter(|(id, _)| self.soft.pgs.osd(*id).is_some());
        reported.map(|(id, o)| (id, (o.state & BITS) ^ wanted(id))).filter(|(_, flip)| *flip != 0).collect()
    }
}

/// Whether flags forbid to mark an OSD down.
fn is_kept_up(map: &OsdMap, osd: OsdId) -> bool {
    map.has_flag(osd_flags::NODOWN) || flags_of(map, osd) & osd_state::NODOWN != 0
}

/// Whether `addrs` is the run of the process that the map means: the same nonce at any of its addresses.
pub(crate) fn same_incarnation(entry: &maps::OsdEntry, addrs: &AddrVec) -> bool {
    let known = [&entry.client_addrs, &entry.cluster_addrs, &entry.hb_back_addrs, &entry.hb_front_addrs];
    addrs.0.iter().any(|a| known.iter().any(|k| k.0.contains(a)))
}
