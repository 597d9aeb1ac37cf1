//! Sends and receives snapshots of the state, for a monitor that needs entries that the log no longer has.

use crate::consensus::{Position, VoterId};
use crate::mon::{Mon, Out};
use crate::quorum::snapshots::{Part, Received};
use crate::raft_log::LogEvent;
use crate::storage::Storage;
use node::{ConnId, Event, Level, Output};
use stdx::{Instant, Now};

impl<S: Storage> Mon<S> {
    /// Consensus wants somebody to have all.
    pub(super) fn begin_snapshot(&mut self, now: Now, to: VoterId, out: &mut Vec<Out>) {
        if self.links.name_of(to).is_none_or(|name| self.links.conn_to(name).is_none()) {
            // Not now: consensus asks again when it next has something to say to it.
            self.log.steer(|raft| raft.lost(to));
            return;
        }
        let (base, rows) = self.log.snapshot();
        self.snapshots.begin(now.mono, to, base, rows);
        self.send_part(now, to, 0, out);
    }

    fn send_part(&mut self, now: Now, to: VoterId, part: u32, out: &mut Vec<Out>) {
        let term = self.log.raft().map_or(0, |r| r.term());
        let from = self.own_store().0;
        let Some(Part { base, is_last, rows }) = self.snapshots.part(now.mono, to, part) else { return };
        let body = peer::MonSnapshot {
            from,
            to: to.0,
            term,
            index: base.index,
            index_term: base.term,
            part,
            last: is_last,
            rows,
        };
        if let Some(name) = self.links.name_of(to).map(str::to_owned) {
            self.tell_mon(now.mono, &name, body, out);
        }
    }

    /// The receiver wants the next part, or has all.
    pub(super) fn snapshot_asked(
        &mut self,
        now: Now,
        conn: ConnId,
        m: &peer::MonSnapshotAck,
        out: &mut Vec<Out>,
    ) {
        self.heard(conn);
        let to = VoterId(m.from);
        match self.snapshots.asked(to, m.index, m.next) {
            Some(true) => drop(self.log.steer(|raft| raft.lost(to))),
            Some(false) => self.send_part(now, to, m.next, out),
            None => {}
        }
    }

    /// Gives up on receivers that do not ask.
    pub(super) fn give_up_late_snapshots(&mut self, now: Instant) {
        for to in self.snapshots.take_late(now) {
            self.log.steer(|raft| raft.lost(to));
        }
    }

    /// A part has come.
    pub(super) fn snapshot_part(
        &mut self,
        now: Now,
        conn: ConnId,
        m: peer::MonSnapshot,
        events: &mut Vec<LogEvent>,
        out: &mut Vec<Out>,
    ) {
        self.heard(conn);
        let from = VoterId(m.from);
        let legitimate = self.log.steer(|raft| raft.hear(now.mono, from, m.term)) == Some(true);
        if m.to != self.own_store().0 || !legitimate {
            return;
        }
        let base = Position { term: m.index_term, index: m.index };
        let next = match self.snapshots.receive(from, base, m.part, m.last, m.rows) {
            None => return,
            Some(Received::More { next }) => next,
            Some(Received::Complete { next, rows }) => {
                if let Err(error) = self.log.install(base, rows, events) {
                    let text = format!("{}: {error}", self.who(conn));
                    return out.push(Output::Event(Event::new(
                        Level::Warn,
                        "mon_snapshot_undecodable",
                        text,
                    )));
                }
                next
            }
        };
        let ack = peer::MonSnapshotAck { from: self.own_store().0, to: m.from, index: m.index, next };
        if let Some(name) = self.links.speaker(conn).map(|h| h.name.clone()) {
            self.tell_mon(now.mono, &name, ack, out);
        }
    }
}
