//! What is said to the cluster log: by monitors, and by daemons and clients (`MLog`). Lines are replicated state
//! ([`crate::state::ClusterLog`]); here each is cut to a size and each sender held to a rate, because every line is written by every
//! monitor.

use crate::entry::Change;
use crate::mon::{Mon, Out};
use crate::storage::Storage;
use auth::Perm;
use msgs::{LogAck, LogEntry};
use node::{ConnId, Event, Output};
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::{Instant, Now};
use wire::{EntityId, EntityName, EntityType};

/// Longest text of a line, and longest name of a channel.
const MAX_TEXT: usize = 1024;
const MAX_CHANNEL: usize = 32;
/// Bytes of the whole log, however many lines `mon_log_max` allows.
const MAX_BYTES: usize = 4 << 20;
/// Lines of daemons wait so long for others: one entry serves many.
const GATHER: Duration = Duration::from_millis(100);
/// Lines that one sender may say at once and each second, …
const SENDER: Limit = Limit { burst: 200, per_second: 10 };
/// … and all together.
const ALL: Limit = Limit { burst: 2000, per_second: 100 };
/// Senders that are counted; beyond it the ones longest silent are forgotten.
const SENDERS: usize = 1024;
/// Between two lines about lines that were left out, for each sender.
const TELL_DROPPED: Duration = Duration::from_secs(10);
/// A line about what somebody does again and again is said once in this time.
const SELDOM: Duration = Duration::from_secs(600);
/// How far back a line is looked for that comes again because its sender heard nothing.
const AGAIN: usize = 2000;

/// How loud a line is, by Ceph's numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogLevel {
    /// 1.
    Info = 1,
    /// 3.
    Warn = 3,
    /// 4.
    Error = 4,
}

impl LogLevel {
    /// As `log last` takes it.
    pub fn parse(text: &str) -> Option<u16> {
        ["debug", "info", "sec", "warn", "error"].iter().position(|l| *l == text).map(|i| i as u16)
    }
}

/// As a line shows it.
fn tag(prio: u16) -> &'static str {
    ["[DBG]", "[INF]", "[SEC]", "[WRN]", "[ERR]"].get(usize::from(prio)).copied().unwrap_or("[UNKNOWN]")
}

/// One line, as `ceph log last` prints it.
pub fn format_line(l: &LogEntry) -> String {
    format!(
        "{} {} ({}) {} : {} {} {}",
        l.stamp.iso8601(),
        l.name,
        l.rank,
        l.seq,
        l.channel,
        tag(l.prio),
        l.msg
    )
}

/// How many lines may be said.
#[derive(Clone, Copy, Debug)]
struct Limit {
    burst: u64,
    per_second: u64,
}

/// A bucket that fills with time, in billionths of a line.
#[derive(Clone, Copy, Debug)]
struct Rate {
    left: u64,
    at: Instant,
    dropped: u64,
    /// When it was last told of lines left out.
    told: Option<Instant>,
}

const LINE: u64 = 1_000_000_000;

impl Rate {
    fn full(limit: Limit, now: Instant) -> Self {
        Self { left: limit.burst * LINE, at: now, dropped: 0, told: None }
    }

    fn take(&mut self, limit: Limit, now: Instant) -> bool {
        let passed = u64::try_from(now.since(self.at).as_nanos()).unwrap_or(u64::MAX);
        let filled = self.left.saturating_add(passed.saturating_mul(limit.per_second));
        (self.left, self.at) = (filled.min(limit.burst * LINE), now);
        let may = self.left >= LINE;
        self.left -= if may { LINE } else { 0 };
        may
    }
}

/// Lines that are not proposed yet, and how much everybody has said.
#[derive(Debug, Default)]
pub struct Said {
    lines: Vec<LogEntry>,
    /// To be sent once they are committed.
    acks: Vec<(ConnId, u64, LogAck)>,
    due: Option<Instant>,
    seq: u64,
    /// When a monitor's own line was said that comes again and again.
    seldom: BTreeMap<String, Instant>,
    senders: BTreeMap<EntityName, Rate>,
    all: Option<Rate>,
}

impl Said {
    /// When [`Mon::write_lines`] has something to do.
    pub fn deadline(&self) -> Option<Instant> {
        self.due
    }

    fn hurry(&mut self, at: Instant) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// Whether this sender may say one more line.
    fn may_say(&mut self, name: &EntityName, now: Instant) -> bool {
        if !self.senders.contains_key(name) && self.senders.len() >= SENDERS {
            let oldest = self.senders.iter().min_by_key(|(_, rate)| rate.at).map(|(name, _)| name.clone());
            oldest.map(|name| self.senders.remove(&name));
        }
        let rate = self.senders.entry(name.clone()).or_insert_with(|| Rate::full(SENDER, now));
        let all = self.all.get_or_insert_with(|| Rate::full(ALL, now));
        let may = rate.take(SENDER, now) && all.take(ALL, now);
        rate.dropped += u64::from(!may);
        may
    }

    /// Who said too much, and how many lines of it were left out.
    fn take_dropped(&mut self, now: Instant) -> Vec<(EntityName, u64)> {
        let due = |rate: &Rate| rate.dropped > 0 && rate.told.is_none_or(|at| now.since(at) >= TELL_DROPPED);
        let told = self.senders.iter_mut().filter(|(_, rate)| due(rate));
        told.map(|(name, rate)| {
            rate.told = Some(now);
            (name.clone(), std::mem::take(&mut rate.dropped))
        })
        .collect()
    }
}

/// A text of at most `max` bytes.
pub(crate) fn cut(mut text: String, max: usize) -> String {
    if text.len() > max {
        let end = (0..=max).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
    }
    text
}

impl<S: Storage> Mon<S> {
    /// A line in the cluster log, by this monitor. Only a leader says anything.
    pub(crate) fn say(&mut self, now: Now, level: LogLevel, text: impl Into<String>) {
        let line = self.own_line(now, level, text.into());
        self.soft.said.lines.push(line);
        self.soft.said.hurry(now.mono);
    }

    /// The same, of what comes again and again.
    pub(crate) fn say_seldom(&mut self, now: Now, level: LogLevel, text: &str) {
        self.soft.said.seldom.retain(|_, at| now.mono.since(*at) < SELDOM);
        if self.soft.said.seldom.len() < SENDERS && !self.soft.said.seldom.contains_key(text) {
            self.soft.said.seldom.insert(text.to_owned(), now.mono);
            self.say(now, level, text);
        }
    }

    /// Such a line.
    fn own_line(&mut self, now: Now, level: LogLevel, text: String) -> LogEntry {
        let own = self.log.state().monmap.mons.get(&self.config.name);
        self.soft.said.seq += 1;
        LogEntry {
            name: EntityName::new(EntityType::MON, &self.config.name),
            rank: EntityId::new(EntityType::MON, self.rank() as i64),
            addrs: own.map(|info| info.addrs.clone()).unwrap_or_default(),
            stamp: now.wall.into(),
            seq: self.soft.said.seq,
            prio: level as u16,
            msg: cut(text, MAX_TEXT),
            channel: "cluster".into(),
        }
    }

    /// Notes of a decision, as a change that is proposed with it.
    pub(crate) fn log_notes(&mut self, now: Now, notes: Vec<String>) -> Option<Change> {
        let lines: Vec<LogEntry> =
            notes.into_iter().map(|note| self.own_line(now, LogLevel::Info, note)).collect();
        (!lines.is_empty()).then(|| self.log_change(lines))
    }

    fn log_change(&self, lines: Vec<LogEntry>) -> Change {
        let most = self.option::<u64>("mon_log_max");
        Change::Log { first: self.log.tail().log.keep_from(most, MAX_BYTES), lines }
    }

    /// `ceph log`: a line of whoever runs it.
    pub(crate) fn log_of(&mut self, now: Now, conn: ConnId, text: String) -> Option<Change> {
        let peer = &self.sessions.get(conn)?.peer;
        let line = LogEntry {
            name: peer.name.clone(),
            rank: peer.id,
            addrs: peer.addrs.clone(),
            stamp: now.wall.into(),
            seq: 0,
            prio: LogLevel::Info as u16,
            msg: cut(text, MAX_TEXT),
            channel: "cluster".into(),
        };
        Some(self.log_change(vec![line]))
    }

    /// `MLog`. It is acknowledged when its lines are committed, or were before; until then its sender sends them again.
    pub(crate) fn log_lines(&mut self, now: Now, conn: ConnId, tid: u64, m: msgs::Log, out: &mut Vec<Out>) {
        let Some(session) = self.sessions.get(conn) else { return };
        let Some(last) = m.entries.last() else { return };
        let ack = LogAck { fsid: m.fsid, last: last.seq, channel: cut(last.channel.clone(), MAX_CHANNEL) };
        if !session.caps.allows("log", Perm::W) {
            // An answer all the same: it would never stop.
            let text =
                format!("lines for the cluster log by {}: its key does not allow them", self.who(conn));
            out.push(Output::Event(Event::refusal("request_denied", text)));
            return out.push(Self::send(conn, tid, msgs::Body::from(ack)));
        }
        let (name, id, addrs) = (session.peer.name.clone(), session.peer.id, session.peer.addrs.clone());
        let (before, Said { lines, .. }) = (&self.log.tail().log, &self.soft.said);
        let known = |line: &LogEntry| {
            let same = |l: &LogEntry| l.seq == line.seq && l.stamp == line.stamp && l.name == name;
            before.newest().take(AGAIN).chain(lines).any(same)
        };
        let count = m.entries.len() as u64;
        let looked: Vec<LogEntry> = m.entries.into_iter().take(SENDER.burst as usize).collect();
        let left_out = count - looked.len() as u64;
        let fresh: Vec<LogEntry> = looked.into_iter().filter(|line| !known(line)).collect();
        for line in fresh {
            if !self.soft.said.may_say(&name, now.mono) {
                continue;
            }
            // Nobody speaks for another.
            let rank = if line.rank.ty == name.ty { line.rank } else { id };
            self.soft.said.lines.push(LogEntry {
                name: name.clone(),
                rank,
                addrs: addrs.clone(),
                prio: line.prio.min(LogLevel::Error as u16),
                msg: cut(line.msg, MAX_TEXT),
                channel: cut(line.channel, MAX_CHANNEL),
                ..line
            });
        }
        if let Some(rate) = self.soft.said.senders.get_mut(&name) {
            rate.dropped += left_out;
        }
        self.soft.said.acks.push((conn, tid, ack));
        self.soft.said.hurry(now.mono + GATHER);
    }

    /// Proposes the lines that have come together.
    pub(crate) fn write_lines(&mut self, now: Now, out: &mut Vec<Out>) {
        if self.soft.said.due.is_none_or(|at| at > now.mono) {
            return;
        }
        self.soft.said.due = None;
        let lines = std::mem::take(&mut self.soft.said.lines);
        let acks = std::mem::take(&mut self.soft.said.acks);
        if !lines.is_empty() {
            let change = self.log_change(lines);
            self.log.propose(now.wall, vec![change]);
        }
        for (conn, tid, ack) in acks {
            self.after(self.log.proposed(), Self::send(conn, tid, msgs::Body::from(ack)), out);
        }
    }

    /// Says whose lines were left out.
    pub(crate) fn tell_dropped(&mut self, now: Now) {
        for (name, count) in self.soft.said.take_dropped(now.mono) {
            let text = format!(
                "{count} lines of {name} were left out: it says more than {} a second",
                SENDER.per_second
            );
            self.say(now, LogLevel::Warn, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Utime;

    #[test]
    fn a_line_looks_as_ceph_prints_it() {
        let line = LogEntry {
            name: EntityName::new(EntityType::MON, "a"),
            rank: EntityId::new(EntityType::MON, 0),
            stamp: Utime { sec: 2003, nsec: 0 },
            seq: 2004,
            prio: LogLevel::Warn as u16,
            msg: "line 2003".into(),
            channel: "cluster".into(),
            ..LogEntry::default()
        };
        assert_eq!(
            format_line(&line),
            "1970-01-01T00:33:23.000000+0000 mon.a (mon.0) 2004 : cluster [WRN] line 2003"
        );
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(cut("abc".into(), 3), "abc");
        assert_eq!(cut("aäb".into(), 2), "a");
    }

    #[test]
    fn a_chatty_sender_is_held_to_its_rate_and_others_are_not() {
        let mut said = Said::default();
        let (osd, mds) = (EntityName::new(EntityType::OSD, "1"), EntityName::new(EntityType::MDS, "a"));
        let s = |n: u64| Instant(n * LINE);
        let spoken = (0..1000).filter(|_| said.may_say(&osd, s(1))).count() as u64;
        assert_eq!(spoken, SENDER.burst);
        assert!(said.may_say(&mds, s(1)));
        assert_eq!(said.take_dropped(s(1)), [(osd.clone(), 1000 - SENDER.burst)]);
        let spoken = (0..1000).filter(|_| said.may_say(&osd, s(3))).count() as u64;
        assert_eq!(spoken, 2 * SENDER.per_second);
        assert_eq!(said.take_dropped(s(4)), [], "not again at once");
        assert_eq!(said.take_dropped(s(11)), [(osd, 1000 - 2 * SENDER.per_second)]);
        for n in 0..5000 {
            said.may_say(&EntityName::new(EntityType::CLIENT, n.to_string()), s(20 + n));
        }
        assert_eq!(said.senders.len(), SENDERS);
    }

    #[test]
    fn all_together_are_held_to_a_rate() {
        let mut said = Said::default();
        let names: Vec<_> = (0..100).map(|n| EntityName::new(EntityType::CLIENT, n.to_string())).collect();
        let spoken = (0..10_000).filter(|n| said.may_say(&names[n % 100], Instant(0))).count() as u64;
        assert_eq!(spoken, ALL.burst);
    }
}
