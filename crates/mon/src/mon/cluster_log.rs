//! Lines for the cluster log: of this monitor, of daemons and of clients.

use crate::cluster_log::{
    LogLevel, MAX_CHANNEL_BYTES, MAX_LOG_BYTES, MAX_TEXT_BYTES, RESENT_WITHIN_LINES, SENDER_LIMIT,
    is_same_line,
};
use crate::entry::Change;
use crate::mon::{Mon, Out};
use crate::storage::Storage;
use crate::text::cut;
use auth::Perm;
use msgs::{LogAck, LogEntry};
use node::{ConnId, Event, Output};
use stdx::Now;
use wire::{EntityId, EntityName, EntityType};

impl<S: Storage> Mon<S> {
    /// Logs a line of this monitor. Only a leader logs.
    pub(super) fn say(&mut self, now: Now, level: LogLevel, text: impl Into<String>) {
        let line = self.own_line(now, level, text.into());
        self.volatile.lines.push_own(now.mono, line);
    }

    /// Logs a line that recurs, at most once in ten minutes.
    pub(super) fn log_rate_limited(&mut self, now: Now, level: LogLevel, text: &str) {
        if self.volatile.lines.may_repeat(now.mono, text) {
            self.say(now, level, text);
        }
    }

    /// A line of this monitor.
    fn own_line(&mut self, now: Now, level: LogLevel, text: String) -> LogEntry {
        let own = self.log.state().monmap.mons.get(&self.config.name);
        let seq = self.volatile.lines.next_seq();
        LogEntry {
            name: EntityName::new(EntityType::MON, &self.config.name),
            rank: EntityId::new(EntityType::MON, self.rank() as i64),
            addrs: own.map(|info| info.addrs.clone()).unwrap_or_default(),
            stamp: now.wall.into(),
            seq,
            prio: level as u16,
            msg: cut(text, MAX_TEXT_BYTES),
            channel: "cluster".into(),
        }
    }

    /// Logs the notes of a decision, as part of the same proposal.
    pub(super) fn log_notes(&mut self, now: Now, notes: Vec<String>) -> Option<Change> {
        let lines: Vec<LogEntry> =
            notes.into_iter().map(|note| self.own_line(now, LogLevel::Info, note)).collect();
        (!lines.is_empty()).then(|| self.log_change(lines))
    }

    fn log_change(&self, lines: Vec<LogEntry>) -> Change {
        let most = self.option::<u64>("mon_log_max");
        Change::Log { first: self.log.tail().log.keep_from(most, MAX_LOG_BYTES), lines }
    }

    /// `ceph log`: logs a line for whoever runs it.
    pub(super) fn log_of(&mut self, now: Now, conn: ConnId, text: String) -> Option<Change> {
        let peer = &self.sessions.get(conn)?.peer;
        let line = LogEntry {
            name: peer.name.clone(),
            rank: peer.id,
            addrs: peer.addrs.clone(),
            stamp: now.wall.into(),
            seq: 0,
            prio: LogLevel::Info as u16,
            msg: cut(text, MAX_TEXT_BYTES),
            channel: "cluster".into(),
        };
        Some(self.log_change(vec![line]))
    }

    /// Handles `MLog`. It is acknowledged when its lines are committed, now or earlier; until then its sender
    /// sends them again.
    pub(super) fn log_lines(&mut self, now: Now, conn: ConnId, tid: u64, m: msgs::Log, out: &mut Vec<Out>) {
        let Some(session) = self.sessions.get(conn) else { return };
        let Some(last) = m.entries.last() else { return };
        let ack =
            LogAck { fsid: m.fsid, last: last.seq, channel: cut(last.channel.clone(), MAX_CHANNEL_BYTES) };
        if !session.caps.allows("log", Perm::W) {
            // Answered all the same, or the client would never stop.
            let text =
                format!("lines for the cluster log by {}: its key does not allow them", self.who(conn));
            out.push(Output::Event(Event::refusal("request_denied", text)));
            return out.push(Self::send(conn, tid, msgs::Body::from(ack)));
        }
        let (name, id, addrs) = (session.peer.name.clone(), session.peer.id, session.peer.addrs.clone());
        let before = &self.log.tail().log;
        let is_known = |line: &LogEntry| {
            self.volatile.lines.holds(&name, line)
                || before.newest().take(RESENT_WITHIN_LINES).any(|known| is_same_line(known, &name, line))
        };
        let count = m.entries.len() as u64;
        let looked: Vec<LogEntry> = m.entries.into_iter().take(SENDER_LIMIT.burst as usize).collect();
        let left_out = count - looked.len() as u64;
        let fresh: Vec<LogEntry> = looked.into_iter().filter(|line| !is_known(line)).collect();
        for line in fresh {
            // Nobody speaks for another.
            let rank = if line.rank.ty == name.ty { line.rank } else { id };
            let line = LogEntry {
                name: name.clone(),
                rank,
                addrs: addrs.clone(),
                prio: line.prio.min(LogLevel::Error as u16),
                msg: cut(line.msg, MAX_TEXT_BYTES),
                channel: cut(line.channel, MAX_CHANNEL_BYTES),
                ..line
            };
            self.volatile.lines.push(now.mono, line);
        }
        self.volatile.lines.acknowledge(now.mono, &name, left_out, (conn, tid, ack));
    }

    /// Proposes the pending lines.
    pub(super) fn write_lines(&mut self, now: Now, out: &mut Vec<Out>) {
        let Some((lines, acks)) = self.volatile.lines.take_due(now.mono) else { return };
        if !lines.is_empty() {
            let change = self.log_change(lines);
            self.log.propose(now.wall, vec![change]);
        }
        for (conn, tid, ack) in acks {
            self.after(self.log.proposed(), Self::send(conn, tid, msgs::Body::from(ack)), out);
        }
    }

    /// Logs the senders whose lines were suppressed.
    pub(super) fn tell_dropped(&mut self, now: Now) {
        for (name, count) in self.volatile.lines.take_dropped(now.mono) {
            let text = format!(
                "{count} lines of {name} were left out: it says more than {} a second",
                SENDER_LIMIT.per_second
            );
            self.say(now, LogLevel::Warn, text);
        }
    }
}
