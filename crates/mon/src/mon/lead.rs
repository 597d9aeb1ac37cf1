//! Changes of leader, and the time without one.

use crate::bootstrap::{self, GLOBAL_ID_STEP};
use crate::consensus::VoterId;
use crate::entry::Change;
use crate::mon::{Mon, Out, Phase};
use crate::quorum::info::StoreSpace;
use crate::quorum::proxies::is_proxy;
use crate::storage::Storage;
use auth::GlobalIds;
use node::{ConnId, Event, Level, Output};
use std::time::Duration;
use stdx::{Instant, Now};
use wire::EntityType;

/// A monitor that has answered a leader within this is in quorum.
const IN_QUORUM: Duration = Duration::from_secs(2);

impl<S: Storage> Mon<S> {
    /// Reacts to a change of leader, after each input.
    pub(super) fn follow_standing(&mut self, now: Now, out: &mut Vec<Out>) {
        let Some(raft) = self.log.raft() else { return };
        let leading = raft.is_leader().then(|| raft.term());
        if self.standing.set_leading_term(leading) {
            match leading {
                Some(_) => self.elected(now, out),
                None => self.deposed(now.mono),
            }
        }
        let raft = self.log.raft().expect("was there");
        // Before that the leader does not know the committed state.
        let settled = raft.is_settled() && raft.is_voter();
        let leader = raft.leader().filter(|_| settled).map(|l| (l, raft.term()));
        if self.standing.set_leader(now.mono, leader) {
            self.leader_changed(now, leader, out);
        }
        if leader.is_none() {
            self.be_lonely(now.mono, out);
        }
    }

    /// This monitor was elected, but does not yet know the committed state: its first entry will tell.
    fn elected(&mut self, now: Now, out: &mut Vec<Out>) {
        self.log.lead();
        let own = (self.own_store().0, self.config.name.clone());
        if self.log.tail().is_empty() {
            match bootstrap::changes(&self.config, now, &mut self.rng) {
                Ok(mut changes) => {
                    changes.push(Change::Voters([own].into()));
                    self.log.propose(now.wall, changes);
                }
                Err(why) => return self.stop(why, out),
            }
        } else if self.log.tail().voters.is_empty() {
            self.log.propose(now.wall, vec![Change::Voters([own].into())]);
        }
        self.take_new_daemons(now);
        // Ids from an earlier term may have been given out: only ids committed in this term are used. The
        // same entry is the one that every new leader must make.
        self.global_ids.ask_again();
        self.want_ids(now, out);
    }

    fn deposed(&mut self, now: Instant) {
        // Requests that waited for entries of this term go to the next leader.
        self.answers.clear();
        self.end_proxies(now, None);
    }

    fn leader_changed(&mut self, now: Now, leader: Option<(VoterId, u64)>, out: &mut Vec<Out>) {
        self.requests.put_back_all();
        self.global_ids.ask_again();
        self.volatile.reset(now.mono);
        if leader.is_none() {
            self.refresh_quorum(now.mono);
            return self.publish_keys(now.mono, out);
        };
        self.phase = Phase::Running;
        self.start_volatile(now.mono);
        self.refresh_quorum(now.mono);
        self.publish_keys(now.mono, out);
        self.ask_daemons_anew(out);
        if self.global_ids.is_empty() && !self.log.leads() {
            self.want_ids(now, out);
        }
        self.hand_out_requests(now, out);
        self.note_ready(out);
    }

    /// Asks the daemons connected here to announce themselves and report again once this monitor can reach
    /// the leader: reports made before are lost.
    pub(super) fn ask_daemons_anew(&mut self, out: &mut Vec<Out>) {
        let Some((_, term)) = self.standing.leader() else { return };
        let reachable = self.leader_name().is_none_or(|name| self.links.conn_to(&name).is_some());
        if !reachable {
            return;
        }
        let daemons = self.sessions.conns().into_iter().filter(|conn| {
            let session = self.sessions.get(*conn);
            let kinds = [EntityType::OSD, EntityType::MDS, EntityType::MGR];
            session.is_some_and(|s| kinds.iter().any(|kind| s.is(*kind))) && !is_proxy(*conn)
        });
        for conn in daemons.collect::<Vec<_>>() {
            out.push(Self::send(conn, 0, peer::Body::from(peer::MonLeader { term })));
        }
    }

    /// Reports once that it is ready.
    pub(super) fn note_ready(&mut self, out: &mut Vec<Out>) {
        if self.phase != Phase::Running || std::mem::replace(&mut self.is_ready, true) {
            return;
        }
        let text = format!("mon.{} is ready at version {}", self.config.name, self.log.state().version);
        out.push(Output::Event(Event::new(Level::Info, "mon_ready", text)));
        out.push(Output::Ready);
    }

    /// Sends clients away if there is no leader to serve them.
    fn be_lonely(&mut self, now: Instant, out: &mut Vec<Out>) {
        if !self.standing.give_up_on_leader(now) {
            return;
        }
        for conn in self.sessions.conns() {
            let is_mon = self.sessions.get(conn).is_some_and(|s| s.is(EntityType::MON));
            if !is_mon && !is_proxy(conn) {
                out.push(Output::Close { conn });
                self.closed(now, conn);
                self.forget_requests(now, conn, out);
            }
        }
    }

    /// Recomputes the quorum.
    pub(super) fn refresh_quorum(&mut self, now: Instant) {
        let Some(raft) = self.log.raft() else { return };
        let map = &self.log.state().monmap;
        let leader =
            self.standing.leader().and_then(|(id, _)| raft.voters().get(&id)).cloned().unwrap_or_default();
        let in_quorum = |name: &&String| {
            let heard = |(id, _): (&VoterId, &String)| {
                *id == raft.own() || raft.heard(*id).is_some_and(|at| now.since(at) < IN_QUORUM)
            };
            match raft.is_leader() {
                true => raft.voters().iter().filter(|(_, n)| n == name).any(heard),
                // Other monitors know only of themselves and the leader.
                false => **name == leader || **name == self.config.name,
            }
        };
        let names: Vec<String> = match leader.is_empty() {
            true => Vec::new(),
            false => map.ranks.iter().filter(in_quorum).cloned().collect(),
        };
        let epoch = raft.term() * 2;
        self.volatile.quorum.update(now, names, leader, epoch);
        let used = self.log.space().used_permille();
        self.volatile.quorum.set_space(self.config.name.clone(), StoreSpace { used, left: None });
    }

    /// Gets more global ids for clients, from the leader or from its own log.
    pub(super) fn want_ids(&mut self, now: Now, out: &mut Vec<Out>) {
        if !self.global_ids.ask() {
            return;
        }
        if self.log.raft().is_some_and(|r| r.is_leader()) {
            let (range, index) = self.propose_ids(now);
            self.global_ids.take(range.clone());
            return self.after(index, Output::GlobalIds(range), out);
        }
        let wanted = peer::MonIdsWanted { left: self.global_ids.left() };
        let leader = self.leader_name();
        if !leader.is_some_and(|leader| self.tell_mon(now.mono, &leader, wanted, out)) {
            self.global_ids.ask_again();
        }
    }

    /// Handles another monitor's request for ids.
    pub(super) fn ids_wanted(&mut self, now: Now, conn: ConnId, out: &mut Vec<Out>) {
        self.heard(conn);
        let Some(name) = self.links.speaker(conn).map(|h| h.name.clone()) else { return };
        if !self.log.leads() {
            return;
        }
        let (range, index) = self.propose_ids(now);
        if let Some(conn) = self.links.conn_to(&name) {
            let body = peer::MonIds { first: range.start, end: range.end };
            self.after(index, Self::send(conn, 0, peer::Body::from(body)), out);
        }
    }

    /// Takes ids from the leader.
    pub(super) fn ids_given(&mut self, conn: ConnId, m: &peer::MonIds, out: &mut Vec<Out>) {
        self.heard(conn);
        let sound = m.first >= GlobalIds::FIRST && m.end > m.first && m.end - m.first <= GLOBAL_ID_STEP;
        if sound && self.global_ids.is_before(m.first) {
            self.global_ids.take(m.first..m.end);
            out.push(Output::GlobalIds(m.first..m.end));
        }
    }

    fn propose_ids(&mut self, now: Now) -> (std::ops::Range<u64>, u64) {
        let from = self.log.tail().global_ids.max(GlobalIds::FIRST);
        let from = if stdx::mutants::is_active("mon_reuses_global_ids") { GlobalIds::FIRST } else { from };
        let end = from + GLOBAL_ID_STEP;
        let index = self.log.propose(now.wall, vec![Change::GlobalIds(end)]);
        (from..end, index)
    }
}
