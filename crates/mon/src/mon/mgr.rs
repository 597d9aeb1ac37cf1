//! Managers: their beacons, and the replacement of one that is silent.

use crate::domain::managers::{self, Managers};
use crate::mon::{Mon, Out};
use crate::storage::Storage;
use node::{ConnId, Event, Level, Output};
use stdx::Now;
use wire::EntityType;

impl<S: Storage> Mon<S> {
    pub(super) fn mgr_beacon(&mut self, now: Now, conn: ConnId, m: &peer::MgrBeacon, out: &mut Vec<Out>) {
        let is_mgr = self.sessions.get(conn).is_some_and(|s| {
            let may = ["mgr", "mds"].iter().any(|service| s.caps.allows(service, auth::Perm::X));
            s.is(EntityType::MGR) && s.name().id == m.name && may
        });
        if !is_mgr || m.fsid != self.log.state().monmap.fsid {
            let text = format!("beacon of mgr.{} from {}", m.name, self.who(conn));
            out.push(Output::Event(Event::new(Level::Warn, "mgr_beacon_refused", text)));
            return;
        }
        let grace = self.option("mon_mgr_beacon_grace");
        self.volatile.mgrs.heard(now.mono, m.gid, conn, grace);
        self.edit(now, |edit| managers::beacon(edit, m));
    }

    /// Replaces managers that are lost.
    pub(super) fn tick_managers(&mut self, now: Now) {
        let all = Managers::of(&self.log.tail().kv);
        let mut lost = self.volatile.mgrs.lost(now.mono);
        lost.retain(|gid| all.has(*gid));
        if !lost.is_empty() {
            self.edit(now, |edit| managers::remove(edit, &lost));
        }
    }
}
