//! The cluster log: the last lines that daemons and the monitor itself said to administrators.

use msgs::LogEntry;
use std::collections::VecDeque;
use wire::{AddrVec, EntityId, EntityName, EntityType, Utime};

/// Lines kept.
const KEEP: usize = 2000;

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

/// A ring of lines.
#[derive(Debug, Default)]
pub struct ClusterLog {
    lines: VecDeque<LogEntry>,
    seq: u64,
    /// Lines that were ever appended.
    total: u64,
}

impl ClusterLog {
    /// Appends a line of this monitor's own.
    pub fn say(
        &mut self,
        name: &str,
        rank: usize,
        addrs: AddrVec,
        stamp: Utime,
        level: LogLevel,
        msg: impl Into<String>,
    ) {
        self.seq += 1;
        self.push(LogEntry {
            name: EntityName::new(EntityType::MON, name),
            rank: EntityId::new(EntityType::MON, rank as i64),
            addrs,
            stamp,
            seq: self.seq,
            prio: level as u16,
            msg: msg.into(),
            channel: "cluster".into(),
        });
    }

    /// Appends a line.
    pub fn push(&mut self, line: LogEntry) {
        self.total += 1;
        self.lines.push_back(line);
        if self.lines.len() > KEEP {
            self.lines.pop_front();
        }
    }

    /// How many lines were ever appended: the number of the last one, counted from 1.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The lines from number `first` on that are at least as loud as `prio`, as far as they are kept.
    pub fn since(&self, first: u64, prio: u16) -> Vec<LogEntry> {
        let oldest = self.total - self.lines.len() as u64 + 1;
        let skip = first.saturating_sub(oldest) as usize;
        self.lines.iter().skip(skip).filter(|l| l.prio >= prio).cloned().collect()
    }

    /// The last `n` lines of a channel (`*` for all) that are at least as loud as `prio`.
    pub fn last(&self, n: usize, prio: u16, channel: &str) -> Vec<&LogEntry> {
        let wanted = |l: &&LogEntry| l.prio >= prio && (channel == "*" || l.channel == channel);
        let mut out: Vec<_> = self.lines.iter().rev().filter(wanted).take(n).collect();
        out.reverse();
        out
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_last_lines_and_filters() {
        let mut log = ClusterLog::default();
        for i in 0..KEEP + 5 {
            let level = if i % 2 == 0 { LogLevel::Info } else { LogLevel::Warn };
            log.say("a", 0, AddrVec::default(), Utime { sec: i as u32, nsec: 0 }, level, format!("line {i}"));
        }
        let last = log.last(2, LogLevel::Warn as u16, "*");
        assert_eq!(last.iter().map(|l| &*l.msg).collect::<Vec<_>>(), ["line 2001", "line 2003"]);
        assert_eq!(log.last(10_000, 0, "*").len(), KEEP);
        assert!(log.last(5, 0, "audit").is_empty());
        assert_eq!(log.total(), KEEP as u64 + 5);
        assert_eq!(log.since(log.total(), 0).len(), 1);
        assert_eq!(log.since(log.total() + 1, 0).len(), 0);
        assert_eq!(log.since(0, 0).len(), KEEP, "what is no longer kept is not sent");
        let text = format_line(last[1]);
        assert_eq!(text, "1970-01-01T00:33:23.000000+0000 mon.a (mon.0) 2004 : cluster [WRN] line 2003");
    }
}
