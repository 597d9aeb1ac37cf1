//! Signs of life of managers: their beacons, and the end of their sessions.

use maps::Gid;
use node::ConnId;
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::Instant;

/// Time for which a manager may be without a session: longer than it takes to find another monitor.
const WITHOUT_SESSION: Duration = Duration::from_secs(2);
/// The same when this monitor has just taken the lead.
const UNHEARD: Duration = Duration::from_secs(10);

/// The time at which each manager counts as lost if nothing more is heard of it, and its session.
#[derive(Clone, Debug, Default)]
pub(crate) struct MgrLiveness {
    lost_at: BTreeMap<Gid, (Instant, Option<ConnId>)>,
}

impl MgrLiveness {
    /// Notes a beacon.
    pub fn heard(&mut self, now: Instant, gid: Gid, conn: ConnId, grace: Duration) {
        self.lost_at.insert(gid, (now + grace, Some(conn)));
    }

    /// Notes the end of a session.
    pub fn session_closed(&mut self, now: Instant, conn: ConnId) {
        for (lost_at, session) in self.lost_at.values_mut().filter(|(_, session)| *session == Some(conn)) {
            (*lost_at, *session) = ((*lost_at).min(now + WITHOUT_SESSION), None);
        }
    }

    /// Takes the managers of a new map into account.
    pub fn follow(&mut self, now: Instant, gids: impl Iterator<Item = Gid>) {
        let mut old = std::mem::take(&mut self.lost_at);
        self.lost_at = gids.map(|gid| (gid, old.remove(&gid).unwrap_or((now + UNHEARD, None)))).collect();
        // A beacon may come before the map that it leads to.
        old.retain(|_, (_, session)| session.is_some());
        self.lost_at.append(&mut old);
    }

    /// The managers that are lost.
    pub fn lost(&self, now: Instant) -> Vec<Gid> {
        self.lost_at.iter().filter(|(_, (lost_at, _))| *lost_at <= now).map(|(gid, _)| *gid).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_counts_after_the_grace_and_a_closed_session_sooner() {
        let at = |s: u64| Instant(s * 1_000_000_000);
        let mut all = MgrLiveness::default();
        let grace = Duration::from_secs(30);
        all.heard(at(0), Gid(1), ConnId(1), grace);
        all.heard(at(0), Gid(2), ConnId(2), grace);
        all.follow(at(0), [Gid(1), Gid(2), Gid(3)].into_iter());
        assert_eq!((all.lost(at(9)), all.lost(at(10))), (vec![], vec![Gid(3)]));
        all.session_closed(at(5), ConnId(2));
        assert_eq!((all.lost(at(6)), all.lost(at(7))), (vec![], vec![Gid(2)]));
        all.heard(at(6), Gid(2), ConnId(3), grace);
        assert_eq!((all.lost(at(9)), all.lost(at(30))), (vec![], vec![Gid(1), Gid(3)]));
        all.follow(at(30), [Gid(2)].into_iter());
        all.session_closed(at(31), ConnId(1));
        all.follow(at(32), [Gid(2)].into_iter());
        assert_eq!(all.lost(at(100)), [Gid(2)], "the others are not in the map any more");
    }
}
