//! Another daemon of the same name. The monitors know one daemon of a name, the one that came last: if the
//! one before came back at once, the two would replace each other without end. So it stands aside for as
//! long as the other one lives.

use super::aside::Aside;
use super::{Mds, MdsMap, Out, Output};
use maps::{MdsInfo, MdsState};
use node::{Event, Level};
use std::time::Duration;
use stdx::{Instant, Now};
use wire::Utime;

/// The longest wait for the map that tells why the OSDs refuse this daemon.
const MAP_WAIT: Duration = Duration::from_secs(5);

impl Mds {
    /// The daemon of our name that a map shows, unless it is this one or silent.
    fn namesake<'a>(&self, map: &'a MdsMap) -> Option<&'a MdsInfo> {
        let is_other = |info: &&MdsInfo| info.name == self.config.name && info.gid != self.gid();
        map.mds_info.values().find(|info| is_other(info) && info.laggy_since == Utime::default())
    }

    /// The OSDs refuse this daemon: the map says whether another one of its name is the reason.
    pub(super) fn refused_by_osds(&mut self, now: Now, out: &mut Out) {
        if self.aside.is_none() {
            self.give_up_rank(Aside::Refused(now.mono + MAP_WAIT), out);
        }
    }

    /// The map does not have this daemon any more.
    pub(super) fn removed_from_map(&mut self, map: &MdsMap, out: &mut Out) {
        if self.state == MdsState::STOPPED {
            return self.begin_anew("the rank has stopped", out);
        }
        let Some(other) = self.namesake(map) else {
            return self.begin_anew("the monitors have given our place to another metadata server", out);
        };
        let text = format!(
            "another daemon of the name mds.{} has taken over, at {}; this one does nothing until that has \
             gone: give one of them another name, or stop it",
            self.config.name, other.addrs
        );
        out.push(Output::Event(Event::new(Level::Error, "replaced_by_namesake", text)));
        self.give_up_rank(Aside::Replaced, out);
    }

    /// A map has come while it stands aside.
    pub(super) fn look_again(&mut self, map: &MdsMap, out: &mut Out) {
        let is_in = map.mds_info.contains_key(&self.gid());
        match self.aside {
            Some(Aside::Refused(_)) if !is_in => self.removed_from_map(map, out),
            Some(Aside::Replaced) if self.namesake(map).is_none() => {
                self.begin_anew("the other daemon of the same name has gone", out);
            }
            _ => {}
        }
    }

    /// Ends the wait for a map that does not come.
    pub(super) fn end_wait(&mut self, now: Now, out: &mut Out) {
        if self.aside_until().is_some_and(|until| until <= now.mono) {
            self.begin_anew("the OSDs refuse us: the monitors have put us on the blocklist", out);
        }
    }

    pub(super) fn aside_until(&self) -> Option<Instant> {
        match self.aside {
            Some(Aside::Refused(until)) => Some(until),
            _ => None,
        }
    }

    /// The rank is another's: nothing of it may be used or told from now on.
    fn give_up_rank(&mut self, why: Aside, out: &mut Out) {
        self.aside = Some(why);
        self.rank = None;
        self.announced &= why != Aside::Replaced;
        let conns = std::mem::take(&mut self.conns).into_keys();
        let peers = std::mem::take(&mut self.peers).into_keys();
        out.extend(conns.chain(peers).map(|conn| Output::Close { conn }));
        self.clients.clear();
        self.administrators.clear();
        self.evictions.clear();
        self.snap_requests.clear();
        self.waiting_peers.clear();
        self.early.clear();
    }
}
