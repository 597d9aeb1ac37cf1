//! The whole state, part by part, for a monitor that needs what is not in the log any more.

use crate::consensus::{Position, VoterId};
use crate::log::{LogEvent, Rows};
use crate::mon::{Mon, Out};
use crate::storage::Storage;
use node::{ConnId, Event, Level, Output};
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::{Instant, Now};

/// Bytes of one part.
const PART: usize = 1 << 20;
/// A receiver that asks for nothing for so long is given up; it begins anew when it is heard again.
const PATIENCE: Duration = Duration::from_secs(10);

/// Snapshots on their way.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    sending: BTreeMap<VoterId, Sending>,
    receiving: Option<Receiving>,
}

#[derive(Debug)]
struct Sending {
    base: Position,
    parts: Vec<Rows>,
    at: Instant,
}

#[derive(Debug)]
struct Receiving {
    from: VoterId,
    base: Position,
    next: u32,
    rows: Rows,
}

impl Snapshots {
    /// A receiver is gone.
    pub fn forget(&mut self, to: VoterId) {
        self.sending.remove(&to);
    }
}

impl<S: Storage> Mon<S> {
    /// Consensus wants somebody to have all.
    pub(crate) fn begin_snapshot(&mut self, now: Now, to: VoterId, out: &mut Vec<Out>) {
        if self.links.name_of(to).is_none_or(|name| self.links.conn_to(name).is_none()) {
            // Not now: consensus asks again when it next has something to say to it.
            self.log.steer(|raft| raft.lost(to));
            return;
        }
        let (base, rows) = self.log.snapshot();
        let mut parts = vec![Rows::new()];
        let mut bytes = 0;
        for (key, value) in rows {
            bytes += key.len() + value.len();
            parts.last_mut().expect("one is there").insert(key, value);
            if bytes >= PART {
                bytes = 0;
                parts.push(Rows::new());
            }
        }
        self.snapshots.sending.insert(to, Sending { base, parts, at: now.mono });
        self.send_part(now, to, 0, out);
    }

    fn send_part(&mut self, now: Now, to: VoterId, part: u32, out: &mut Vec<Out>) {
        let term = self.log.raft().map_or(0, |r| r.term());
        let from = self.own_store().0;
        let Some(sending) = self.snapshots.sending.get_mut(&to) else { return };
        let Some(rows) = sending.parts.get(part as usize) else { return };
        sending.at = now.mono;
        let body = peer::MonSnapshot {
            from,
            to: to.0,
            term,
            index: sending.base.index,
            index_term: sending.base.term,
            part,
            last: part as usize + 1 == sending.parts.len(),
            rows: rows.clone(),
        };
        if let Some(name) = self.links.name_of(to).map(str::to_owned) {
            self.tell_mon(now.mono, &name, body, out);
        }
    }

    /// The receiver wants the next part, or has all.
    pub(crate) fn snapshot_asked(
        &mut self,
        now: Now,
        conn: ConnId,
        m: &peer::MonSnapshotAck,
        out: &mut Vec<Out>,
    ) {
        self.heard(conn);
        let to = VoterId(m.from);
        let Some(sending) = self.snapshots.sending.get(&to).filter(|s| s.base.index == m.index) else {
            return;
        };
        if (m.next as usize) < sending.parts.len() {
            return self.send_part(now, to, m.next, out);
        }
        self.snapshots.sending.remove(&to);
        self.log.steer(|raft| raft.lost(to));
    }

    /// Gives up on receivers that do not ask.
    pub(crate) fn tend_snapshots(&mut self, now: Instant) {
        let late = self.snapshots.sending.iter().filter(|(_, s)| now.since(s.at) > PATIENCE);
        for to in late.map(|(to, _)| *to).collect::<Vec<_>>() {
            self.snapshots.sending.remove(&to);
            self.log.steer(|raft| raft.lost(to));
        }
    }

    /// A part has come.
    pub(crate) fn snapshot_part(
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
        if m.part == 0 {
            self.snapshots.receiving = Some(Receiving { from, base, next: 0, rows: Rows::new() });
        }
        let Some(receiving) = &mut self.snapshots.receiving else { return };
        if (receiving.from, receiving.base, receiving.next) != (from, base, m.part) {
            return;
        }
        receiving.next += 1;
        receiving.rows.extend(m.rows);
        let next = receiving.next;
        if m.last {
            let rows = self.snapshots.receiving.take().expect("was there").rows;
            if let Err(error) = self.log.install(base, rows, events) {
                let text = format!("{}: {error}", self.who(conn));
                return out.push(Output::Event(Event::new(Level::Warn, "mon_snapshot_undecodable", text)));
            }
        }
        let ack = peer::MonSnapshotAck { from: self.own_store().0, to: m.from, index: m.index, next };
        if let Some(name) = self.links.speaker(conn).map(|h| h.name.clone()) {
            self.tell_mon(now.mono, &name, ack, out);
        }
    }
}
