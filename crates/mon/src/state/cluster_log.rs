//! The cluster log: the last lines from daemons and monitors for administrators. Lines are numbered from 1
//! and stored in segments of fixed size, so that a new line costs one row of the checkpoint and not the whole
//! log.

use msgs::LogEntry;
use std::collections::BTreeMap;
use std::sync::Arc;
use wire::{Decode, DecodeError, Reader, Writer};

/// Lines of one segment. Stored logs depend on it.
const SEGMENT: u64 = 64;

/// The last lines, in order.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ClusterLog {
    /// Segments by number. All but the last one are full.
    segments: BTreeMap<u64, Arc<Segment>>,
}

#[derive(Clone, PartialEq, Debug, Default)]
struct Segment {
    lines: Vec<LogEntry>,
    /// Stored size of the lines.
    bytes: usize,
}

impl Segment {
    fn push(&mut self, line: LogEntry) {
        self.bytes += Writer::encode(&line).len();
        self.lines.push(line);
    }
}

impl ClusterLog {
    /// Number of lines ever appended, which is also the number of the last line.
    pub fn total(&self) -> u64 {
        self.segments.last_key_value().map_or(0, |(n, s)| n * SEGMENT + s.lines.len() as u64)
    }

    /// Appends a line and returns the number of its segment.
    pub fn push(&mut self, line: LogEntry) -> u64 {
        let segment = self.total() / SEGMENT;
        Arc::make_mut(self.segments.entry(segment).or_default()).push(line);
        segment
    }

    /// The number of the oldest line to keep if at most `lines` and `bytes` are kept. Whole segments are
    /// dropped, never the last one.
    pub fn keep_from(&self, lines: u64, bytes: usize) -> u64 {
        let (total, mut sum) = (self.total(), 0);
        let mut first = total + 1;
        for (n, segment) in self.segments.iter().rev() {
            sum += segment.bytes;
            if first <= total && (sum > bytes || total - n * SEGMENT > lines.saturating_add(SEGMENT)) {
                break;
            }
            first = n * SEGMENT + 1;
        }
        first
    }

    /// Drops segments whose lines all precede number `first`, except the last one. Returns their numbers.
    pub fn trim(&mut self, first: u64) -> Vec<u64> {
        let last = self.segments.keys().next_back().copied().unwrap_or(0);
        let end = (first.saturating_sub(1) / SEGMENT).min(last);
        let dropped: Vec<u64> = self.segments.range(..end).map(|(n, _)| *n).collect();
        dropped.iter().for_each(|n| drop(self.segments.remove(n)));
        dropped
    }

    /// All lines, the newest first.
    pub fn newest(&self) -> impl Iterator<Item = &LogEntry> {
        self.segments.values().rev().flat_map(|s| s.lines.iter().rev())
    }

    /// The lines from number `first` on with at least level `prio`, as far as they are kept.
    pub fn since(&self, first: u64, prio: u16) -> Vec<LogEntry> {
        let first = first.max(1);
        let segments = self.segments.range((first - 1) / SEGMENT..);
        let numbered = segments.flat_map(|(n, s)| (n * SEGMENT + 1..).zip(&s.lines));
        numbered.filter(|(n, l)| *n >= first && l.prio >= prio).map(|(_, l)| l.clone()).collect()
    }

    /// The last `n` lines of a channel (`*` for all) with at least level `prio`.
    pub fn last(&self, n: usize, prio: u16, channel: &str) -> Vec<&LogEntry> {
        let wanted = |l: &&LogEntry| l.prio >= prio && (channel == "*" || l.channel == channel);
        let mut out: Vec<_> = self.newest().filter(wanted).take(n).collect();
        out.reverse();
        out
    }

    /// The numbers of all segments.
    pub fn segments(&self) -> impl Iterator<Item = u64> {
        self.segments.keys().copied()
    }

    /// A segment as it is stored.
    pub fn segment(&self, n: u64) -> Option<Vec<u8>> {
        Some(Writer::encode(&self.segments.get(&n)?.lines))
    }

    /// Loads a stored segment. [`Self::check`] checks all of them together.
    pub fn load(&mut self, n: u64, value: &[u8]) -> Result<(), DecodeError> {
        let lines: Vec<LogEntry> = Decode::decode(&mut Reader::new(value))?;
        let mut segment = Segment::default();
        lines.into_iter().for_each(|line| segment.push(line));
        self.segments.insert(n, Arc::new(segment));
        Ok(())
    }

    /// Checks that stored segments form a log: they are contiguous, and all but the last are full.
    pub fn check(&self) -> Result<(), DecodeError> {
        let last = self.segments.keys().next_back().copied().unwrap_or(0);
        let mut next = self.segments.keys().next().copied();
        for (n, segment) in &self.segments {
            let full = segment.lines.len() as u64 == SEGMENT;
            let sound = full || *n == last && (1..SEGMENT).contains(&(segment.lines.len() as u64));
            if next != Some(*n) || !sound || *n > u64::MAX / SEGMENT - 1 {
                let what = format!("segment {n} of the cluster log has {} lines", segment.lines.len());
                return Err(DecodeError::of_all(what));
            }
            next = Some(n + 1);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(n: u64) -> LogEntry {
        LogEntry { seq: n, prio: 1 + (n % 2) as u16 * 2, msg: format!("line {n}"), ..LogEntry::default() }
    }

    fn log(lines: u64) -> ClusterLog {
        let mut log = ClusterLog::default();
        for n in 1..=lines {
            log.push(line(n));
        }
        log
    }

    fn seqs<'a>(lines: impl IntoIterator<Item = &'a LogEntry>) -> Vec<u64> {
        lines.into_iter().map(|l| l.seq).collect()
    }

    #[test]
    fn lines_have_numbers_and_are_found_by_them() {
        let log = log(200);
        assert_eq!(log.total(), 200);
        for (first, count) in [(0, 200), (1, 200), (64, 137), (65, 136), (200, 1), (201, 0), (u64::MAX, 0)] {
            assert_eq!(log.since(first, 0).len(), count, "from {first}");
        }
        assert_eq!(seqs(&log.since(197, 2)), [197, 199], "loud ones alone");
        assert_eq!(seqs(log.last(2, 3, "*")), [197, 199]);
        assert!(log.last(5, 0, "audit").is_empty());
    }

    #[test]
    fn old_lines_go_in_whole_segments_and_numbers_stay() {
        let mut log = log(1000);
        let keep = log.keep_from(300, usize::MAX);
        assert!(1000 - 300 - 2 * SEGMENT < keep && keep <= 701, "{keep}");
        let dropped = log.trim(keep);
        assert_eq!(dropped, (0..(keep - 1) / SEGMENT).collect::<Vec<_>>());
        assert_eq!((log.total(), log.since(0, 0).len() as u64), (1000, 1001 - keep));
        assert_eq!(log.keep_from(300, usize::MAX), keep, "nothing more to do");
        let bytes = Writer::encode(&line(1)).len() + 8;
        let keep = log.keep_from(u64::MAX, 150 * bytes);
        log.trim(keep);
        let left = log.since(0, 0).len();
        assert!((64..=150).contains(&left), "{left}");
        log.trim(u64::MAX);
        assert_eq!((log.total(), seqs(log.last(1, 0, "*"))), (1000, vec![1000]), "the last segment stays");
        assert!(ClusterLog::default().trim(u64::MAX).is_empty());
        assert_eq!(ClusterLog::default().keep_from(0, 0), 1);
    }

    #[test]
    fn a_stored_log_is_the_same_and_a_wrong_one_is_refused() {
        let mut log = log(150);
        log.trim(65);
        let mut again = ClusterLog::default();
        for n in log.segments() {
            again.load(n, &log.segment(n).expect("is there")).expect("own encoding");
        }
        assert_eq!((again.check().is_ok(), &again), (true, &log));
        let mut gap = again.clone();
        gap.segments.insert(5, gap.segments[&1].clone());
        assert!(gap.check().is_err());
        let mut short = again.clone();
        short.segments.insert(1, short.segments[&2].clone());
        assert!(short.check().is_err());
        let mut empty = ClusterLog::default();
        empty.load(3, &Writer::encode(&Vec::<LogEntry>::new())).expect("decodes");
        assert!(empty.check().is_err());
        let mut far = ClusterLog::default();
        far.segments.insert(u64::MAX, again.segments[&1].clone());
        assert!(far.check().is_err(), "numbers have room");
    }
}
