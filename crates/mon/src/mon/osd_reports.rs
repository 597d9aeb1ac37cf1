//! Reports of OSDs about themselves: boots, beacons, statistics, and changes that they need in the next map.

use crate::cluster_log::LogLevel;
use crate::domain::osd_changes::apply_pending;
use crate::mon::publish::osdmaps_since;
use crate::mon::{Mon, Out, Volatile};
use crate::session::Session;
use crate::storage::Storage;
use maps::OsdId;
use node::{ConnId, Event, Level, Output};
use peer::pg_state;
use stdx::{Instant, Now};
use wire::EntityType;

impl<S: Storage> Mon<S> {
    /// True if this session belongs to that OSD, or to an administrator.
    fn is_osd(&self, conn: ConnId, osd: OsdId) -> bool {
        self.sessions.get(conn).is_some_and(|s| {
            s.is(EntityType::OSD) && s.name().id.parse() == Ok(osd.0) && s.caps.allows("osd", auth::Perm::X)
        })
    }

    /// Like [`Self::is_osd`], but logs a report that is dropped.
    pub(super) fn may_report(&self, conn: ConnId, osd: OsdId, what: &str, out: &mut Vec<Out>) -> bool {
        let may = self.is_osd(conn, osd);
        if !may {
            let text =
                format!("{what} of osd.{osd} from {}: not its key, or without `x` on osd", self.who(conn));
            out.push(Output::Event(Event::refusal("report_refused", text)));
        }
        may
    }

    /// Handles an OSD's request to be marked up.
    pub(super) fn osd_boot(&mut self, now: Now, conn: ConnId, m: Box<peer::OsdBoot>, out: &mut Vec<Out>) {
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
            self.log_rate_limited(now, LogLevel::Error, &why);
            return refuse(why, out);
        }
        if let Some(why) = crate::domain::features::refusal(
            self.log.tail(),
            &format!("osd.{}", m.osd),
            &m.metadata,
            m.feature_level,
        ) {
            self.log_rate_limited(now, LogLevel::Error, &why);
            return refuse(why, out);
        }
        let up_as_asked = map.osd(m.osd).is_some_and(|o| o.is_up() && o.client_addrs == m.addrs);
        if up_as_asked {
            // It asked again before it saw the map: send what it lacks.
            let bodies = osdmaps_since(self.log.state(), m.epoch.next());
            out.extend(bodies.into_iter().map(|b| Self::send(conn, 0, b)));
            return;
        }
        self.volatile.osds.heard(now.mono, m.osd);
        self.volatile.pending.add_boot(now.mono, m);
    }

    /// Records that a primary is alive in a newer epoch (`up_thru`), without which its PGs do not go active.
    pub(super) fn osd_alive(&mut self, now: Now, conn: ConnId, m: &peer::OsdAlive, out: &mut Vec<Out>) {
        let map = self.log.tail().osdmap();
        if !self.may_report(conn, m.osd, "sign of life", out) || map.is_down(m.osd) || m.want > map.epoch {
            return;
        }
        self.volatile.osds.heard(now.mono, m.osd);
        self.volatile.pending.want_up_thru(m.osd, m.want);
    }

    /// Handles a beacon.
    pub(super) fn osd_beacon(&mut self, now: Now, conn: ConnId, m: &peer::OsdBeacon, out: &mut Vec<Out>) {
        if self.may_report(conn, m.osd, "beacon", out) {
            self.volatile.osds.heard(now.mono, m.osd);
            self.volatile.pgs.beacon(m.osd, m.store.clone());
        }
    }

    /// Handles statistics of PGs and of the OSD.
    pub(super) fn pg_stats(&mut self, now: Now, conn: ConnId, m: peer::PgStats, out: &mut Vec<Out>) {
        if self.may_report(conn, m.osd, "statistics", out) {
            self.volatile.osds.heard(now.mono, m.osd);
            let states = m.pgs.iter().map(|pg| pg.state);
            let ready =
                states.filter(|state| state & pg_state::PREMERGE != 0).fold(0, |all, state| all | state);
            self.volatile.pgs.report(now.mono, m);
            self.merge_if_ready(now, ready);
        }
    }

    /// Handles a primary's request for temporary acting sets.
    pub(super) fn osd_pg_temp(&mut self, conn: ConnId, m: peer::OsdPgTemp, out: &mut Vec<Out>) {
        if self.may_report(conn, m.osd, "acting sets", out) && self.log.tail().osdmap().is_up(m.osd) {
            self.volatile.pending.want_pg_temp(m.pg_temp);
        }
    }

    pub(super) fn osd_session_closed(&mut self, now: Instant, session: &Session) {
        let osd = session.name().id.parse().ok().map(OsdId).filter(|_| session.is(EntityType::OSD));
        let Some(osd) = osd.filter(|osd| self.log.state().osdmap().is_up(*osd)) else { return };
        if !self.sessions.iter().any(|other| other.name() == session.name()) {
            self.volatile.osds.session_closed(now, osd);
        }
    }

    /// Proposes the next OSD map if OSDs wait for one and no proposal is in progress.
    pub(super) fn apply_pending_osd_changes(&mut self, now: Now) {
        // Requests that arrive meanwhile share the next map.
        if self.log.is_proposing() {
            return;
        }
        let Volatile { pending, osds, .. } = &mut self.volatile;
        let Some(changes) = pending.take(now.mono, self.log.state().osdmap(), osds) else { return };
        let refused = self.volatile.failures.take_refused();
        let (later, _) = self.edit(now, |edit| apply_pending(edit, changes, &refused));
        self.volatile.pending.put_off_boots(now.mono, later);
    }
}
