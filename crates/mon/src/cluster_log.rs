//! Incoming lines of the cluster log, from monitors, daemons and clients (`MLog`). The lines themselves are
//! replicated state ([`crate::state::ClusterLog`]). This module truncates each line and rate-limits each
//! sender, because every line is written by every monitor.

use msgs::{LogAck, LogEntry};
use node::ConnId;
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::Instant;
use wire::EntityName;

/// Maximum bytes of a line's text and of a channel's name.
pub(crate) const MAX_TEXT_BYTES: usize = 1024;

pub(crate) const MAX_CHANNEL_BYTES: usize = 32;

/// Maximum bytes of the whole log, no matter how many lines `mon_log_max` allows.
pub(crate) const MAX_LOG_BYTES: usize = 4 << 20;

/// Lines of daemons wait this long for more: one log entry then carries many.
const GATHER: Duration = Duration::from_millis(100);

/// Rate limit of each sender.
pub(crate) const SENDER_LIMIT: Limit = Limit { burst: 200, per_second: 10 };

/// Rate limit of all senders together.
const TOTAL_LIMIT: Limit = Limit { burst: 2000, per_second: 100 };

/// Maximum number of senders whose rates are tracked; beyond it, those silent longest are forgotten.
const MAX_SENDERS: usize = 1024;

/// Minimum interval between reports about one sender's suppressed lines.
const TELL_DROPPED: Duration = Duration::from_secs(10);

/// A recurring line is logged at most once in this time.
const REPEAT_AFTER: Duration = Duration::from_secs(600);

/// Number of recent lines searched for a duplicate: a sender that got no answer sends its line again.
pub(crate) const RESENT_WITHIN_LINES: usize = 2000;

/// Severity of a line, with Ceph's numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogLevel {
    /// Ceph's level 1.
    Info = 1,
    /// Ceph's level 3.
    Warn = 3,
    /// Ceph's level 4.
    Error = 4,
}

impl LogLevel {
    /// Parses the level argument of `log last`.
    pub fn parse(text: &str) -> Option<u16> {
        ["debug", "info", "sec", "warn", "error"].iter().position(|l| *l == text).map(|i| i as u16)
    }
}

/// The tag of a level in a printed line.
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

/// A rate limit on log lines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    /// Lines at once.
    pub burst: u64,
    /// Lines a second in the long run.
    pub per_second: u64,
}

/// A bucket that fills with time, in billionths of a line.
#[derive(Clone, Copy, Debug)]
struct Rate {
    left: u64,
    at: Instant,
    dropped: u64,
    /// Time of the last report about suppressed lines.
    told: Option<Instant>,
}

/// What a line costs of what a rate has left, which grows by `per_second` in each nanosecond.
const UNITS_PER_LINE: u64 = 1_000_000_000;

impl Rate {
    fn full(limit: Limit, now: Instant) -> Self {
        Self { left: limit.burst * UNITS_PER_LINE, at: now, dropped: 0, told: None }
    }

    fn take(&mut self, limit: Limit, now: Instant) -> bool {
        let passed = u64::try_from(now.since(self.at).as_nanos()).unwrap_or(u64::MAX);
        let filled = self.left.saturating_add(passed.saturating_mul(limit.per_second));
        (self.left, self.at) = (filled.min(limit.burst * UNITS_PER_LINE), now);
        let may = self.left >= UNITS_PER_LINE;
        self.left -= if may { UNITS_PER_LINE } else { 0 };
        may
    }
}

/// Pending lines, and the rates of their senders.
#[derive(Debug, Default)]
pub(crate) struct PendingLines {
    lines: Vec<LogEntry>,
    /// Acknowledgements to send once the lines are committed.
    acks: Vec<Ack>,
    due: Option<Instant>,
    /// The number of this monitor's last own line.
    seq: u64,
    /// Time at which each rate-limited line of this monitor was last logged, by text.
    rate_limited: BTreeMap<String, Instant>,
    senders: BTreeMap<EntityName, Rate>,
    all: Option<Rate>,
}

/// An acknowledgement: session, transaction id and message.
pub(crate) type Ack = (ConnId, u64, LogAck);

impl PendingLines {
    /// The moment at which [`Self::take_due`] has something.
    pub fn deadline(&self) -> Option<Instant> {
        self.due
    }

    /// The number of this monitor's next own line.
    pub fn next_seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    /// Adds a line of this monitor, to be proposed at once.
    pub fn push_own(&mut self, now: Instant, line: LogEntry) {
        self.lines.push(line);
        self.hurry(now);
    }

    /// True if a line that recurs may be logged again.
    pub fn may_repeat(&mut self, now: Instant, text: &str) -> bool {
        self.rate_limited.retain(|_, at| now.since(*at) < REPEAT_AFTER);
        let may = self.rate_limited.len() < MAX_SENDERS && !self.rate_limited.contains_key(text);
        if may {
            self.rate_limited.insert(text.to_owned(), now);
        }
        may
    }

    /// True if a sender's line is pending already: it was sent again.
    pub fn holds(&self, name: &EntityName, line: &LogEntry) -> bool {
        self.lines.iter().any(|known| is_same_line(known, name, line))
    }

    /// Adds a sender's line, unless the sender or all senders together exceed their rate.
    pub fn push(&mut self, now: Instant, line: LogEntry) {
        if self.may_log(&line.name, now) {
            self.lines.push(line);
        }
    }

    /// Adds the acknowledgement of a sender's message. `left_out` of its lines were discarded unread.
    pub fn acknowledge(&mut self, now: Instant, name: &EntityName, left_out: u64, ack: Ack) {
        if let Some(rate) = self.senders.get_mut(name) {
            rate.dropped += left_out;
        }
        self.acks.push(ack);
        self.hurry(now + GATHER);
    }

    /// Takes the lines and acknowledgements that are due together.
    pub fn take_due(&mut self, now: Instant) -> Option<(Vec<LogEntry>, Vec<Ack>)> {
        self.due.take_if(|at| *at <= now)?;
        Some((std::mem::take(&mut self.lines), std::mem::take(&mut self.acks)))
    }

    /// Takes the senders that exceeded their rate, with the number of lines that were left out.
    pub fn take_dropped(&mut self, now: Instant) -> Vec<(EntityName, u64)> {
        let due = |rate: &Rate| rate.dropped > 0 && rate.told.is_none_or(|at| now.since(at) >= TELL_DROPPED);
        let told = self.senders.iter_mut().filter(|(_, rate)| due(rate));
        told.map(|(name, rate)| {
            rate.told = Some(now);
            (name.clone(), std::mem::take(&mut rate.dropped))
        })
        .collect()
    }

    fn hurry(&mut self, at: Instant) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    fn may_log(&mut self, name: &EntityName, now: Instant) -> bool {
        if !self.senders.contains_key(name) && self.senders.len() >= MAX_SENDERS {
            let oldest = self.senders.iter().min_by_key(|(_, rate)| rate.at).map(|(name, _)| name.clone());
            oldest.map(|name| self.senders.remove(&name));
        }
        let rate = self.senders.entry(name.clone()).or_insert_with(|| Rate::full(SENDER_LIMIT, now));
        let all = self.all.get_or_insert_with(|| Rate::full(TOTAL_LIMIT, now));
        let may = rate.take(SENDER_LIMIT, now) && all.take(TOTAL_LIMIT, now);
        rate.dropped += u64::from(!may);
        may
    }
}

/// True if a line is one that `name` sent before: senders number and stamp their lines.
pub(crate) fn is_same_line(known: &LogEntry, name: &EntityName, line: &LogEntry) -> bool {
    known.seq == line.seq && known.stamp == line.stamp && known.name == *name
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{EntityId, EntityType, Utime};

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
    fn a_chatty_sender_is_held_to_its_rate_and_others_are_not() {
        let mut said = PendingLines::default();
        let (osd, mds) = (EntityName::new(EntityType::OSD, "1"), EntityName::new(EntityType::MDS, "a"));
        let s = |n: u64| Instant(n * 1_000_000_000);
        let spoken = (0..1000).filter(|_| said.may_log(&osd, s(1))).count() as u64;
        assert_eq!(spoken, SENDER_LIMIT.burst);
        assert!(said.may_log(&mds, s(1)));
        assert_eq!(said.take_dropped(s(1)), [(osd.clone(), 1000 - SENDER_LIMIT.burst)]);
        let spoken = (0..1000).filter(|_| said.may_log(&osd, s(3))).count() as u64;
        assert_eq!(spoken, 2 * SENDER_LIMIT.per_second);
        assert_eq!(said.take_dropped(s(4)), [], "not again at once");
        assert_eq!(said.take_dropped(s(11)), [(osd, 1000 - 2 * SENDER_LIMIT.per_second)]);
        for n in 0..5000 {
            said.may_log(&EntityName::new(EntityType::CLIENT, n.to_string()), s(20 + n));
        }
        assert_eq!(said.senders.len(), MAX_SENDERS);
    }

    #[test]
    fn all_together_are_held_to_a_rate() {
        let mut said = PendingLines::default();
        let names: Vec<_> = (0..100).map(|n| EntityName::new(EntityType::CLIENT, n.to_string())).collect();
        let spoken = (0..10_000).filter(|n| said.may_log(&names[n % 100], Instant(0))).count() as u64;
        assert_eq!(spoken, TOTAL_LIMIT.burst);
    }
}
