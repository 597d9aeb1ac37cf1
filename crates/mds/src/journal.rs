//! The write side of the journal (the paper's section 4.1): events join a batch, one batch is in flight, and
//! an event is durable with its batch.
//!
//! A batch is written at once if somebody waits for one of its events. Otherwise it gathers events for a
//! while (`journal_delay` of [`MdsOptions`]): a write costs each OSD of three more than many events do.
//!
//! An object of the journal is a segment. A segment expires when everything that its events changed is stored
//! elsewhere; `rank/write_back/expiry.rs` finds the first segment that is still needed and removes those
//! before it.

use crate::config::MdsOptions;
use crate::types::{Lsn, Segment};
use decl::perf::Group;
use fsfmt::Event;
use fsfmt::journal::put_frame;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use stdx::Instant;
use wire::Writer;

/// Bytes after which a batch takes no further event.
const BATCH: usize = 1 << 20;
/// Bytes after which a batch that nobody waits for is written.
const LAZY_BATCH: usize = 128 << 10;

/// A journal that is too long for so long is behind. It is so for moments whenever clients change more than
/// is written back at once.
const BEHIND_AFTER: Duration = Duration::from_secs(10);

/// Bytes to write to one object.
#[derive(Debug)]
pub struct Batch {
    /// The object's number.
    pub segment: Segment,
    /// The offset in it.
    pub offset: u64,
    /// The framed events.
    pub bytes: Vec<u8>,
    /// The last event in it.
    pub last: Lsn,
}

/// The write side.
///
/// Invariants: `durable <= in_flight <= last`; segments are numbered without gaps and the last one is being
/// filled, with less than `object_size`; queued bytes follow those in flight; what is queued has a time by
/// which it is written.
#[derive(Debug)]
pub struct Journal {
    /// Bytes after which a segment is full.
    object_size: u64,
    /// Bytes of live segments from which changes must wait.
    limit: u64,
    /// Bytes of live segments from which it is too long, and since when it is.
    too_long: u64,
    too_long_since: Option<Instant>,
    /// The last event appended.
    last: Lsn,
    /// The last event that is durable.
    durable: Lsn,
    /// Live segments, the last one being filled: bytes and first event.
    segments: BTreeMap<Segment, (u64, Lsn)>,
    queue: VecDeque<(Batch, Writer)>,
    in_flight: Option<Lsn>,
    /// The last event that somebody waits for.
    wanted: Lsn,
    /// Time for which events gather that nobody waits for.
    delay: Duration,
    /// Time by which what is queued must be written.
    due: Option<Instant>,
    /// Events appended since the start.
    appended: u64,
    /// Events of segments removed since the start.
    expired: u64,
}

impl Journal {
    /// A journal whose next event is `last + 1`, in a new segment; `segments` are those still needed.
    pub fn new(options: &MdsOptions, last: Lsn, segments: BTreeMap<Segment, (u64, Lsn)>) -> Self {
        let (limit, delay) = (options.journal_bytes, options.journal_delay);
        let object_size = Self::object_size(limit);
        let mut out = Self {
            object_size,
            limit,
            too_long: Self::kept(limit) * u64::from(options.trim_warn_percent) / 100,
            too_long_since: None,
            last,
            durable: last,
            segments,
            queue: VecDeque::new(),
            in_flight: None,
            wanted: 0,
            delay,
            due: None,
            appended: 0,
            expired: 0,
        };
        let next = out.segments.keys().next_back().map_or(1, |s| s + 1);
        out.segments.insert(next, (0, last + 1));
        out
    }

    /// Size of a segment, chosen so that a full journal has several.
    pub fn object_size(limit: u64) -> u64 {
        (limit / 16).clamp(16 << 10, 4 << 20)
    }

    /// Bytes of segments that stay although nothing needs them.
    fn kept(limit: u64) -> u64 {
        limit / 2
    }

    /// Segments that there are and that should be there at most, if what they changed is not stored in time.
    pub fn behind(&self, now: Instant) -> Option<(u64, u64)> {
        let is_behind = self.too_long_since.is_some_and(|since| now.since(since) >= BEHIND_AFTER);
        let of = |bytes: u64| bytes.div_ceil(self.object_size);
        is_behind.then(|| (of(self.bytes()), of(Self::kept(self.limit))))
    }

    /// The last event appended.
    pub fn last(&self) -> Lsn {
        self.last
    }

    /// The last event that is durable.
    pub fn durable(&self) -> Lsn {
        self.durable
    }

    /// The oldest live segment.
    pub fn oldest(&self) -> Segment {
        *self.segments.keys().next().expect("the segment being filled is live")
    }

    /// The first event of a live segment, or the next event.
    pub fn first_event(&self, segment: Segment) -> Lsn {
        self.segments.get(&segment).map_or(self.last + 1, |(_, first)| *first)
    }

    /// Asserts the invariants.
    pub fn check(&self) {
        assert!(self.durable <= self.last, "nothing is durable that was not appended");
        assert!(self.in_flight.is_none_or(|lsn| self.durable < lsn && lsn <= self.last));
        assert!(
            self.is_idle() || self.in_flight.is_some() || !self.queue.is_empty(),
            "events are on their way"
        );
        assert_eq!(self.queue.is_empty(), self.due.is_none(), "what is queued is written in time");
        assert!(self.segments[&self.current()].0 < self.object_size, "a full segment has ended");
    }

    /// The segment that is being filled.
    pub fn current(&self) -> Segment {
        *self.segments.keys().next_back().expect("there is always one")
    }

    /// Bytes of all live segments.
    pub fn bytes(&self) -> u64 {
        self.segments.values().map(|(bytes, _)| bytes).sum()
    }

    /// Lists its counters.
    pub fn put_perf(&self, group: &mut Group) {
        let live = self.last + 1 - self.first_event(self.oldest());
        group
            .count("evadd", self.appended, "Events appended")
            .count("evtrm", self.expired, "Events whose changes are stored elsewhere")
            .gauge("ev", live, "Events that are still needed")
            .gauge("seg", self.segments.len() as u64, "Segments that are still needed")
            .gauge_bytes("bytes", self.bytes(), "Bytes of segments that are still needed");
    }

    /// True if changes will soon have to wait until segments have expired.
    pub fn is_filling(&self) -> bool {
        self.bytes() * 4 >= self.limit * 3
    }

    /// True if changes must wait until segments have expired.
    pub fn is_full(&self) -> bool {
        self.bytes() >= self.limit
    }

    /// The last of the segments that should expire now: those that exceed half the limit.
    pub fn wants_expired(&self) -> Option<Segment> {
        let mut left = self.bytes();
        let mut last = None;
        for (segment, (bytes, _)) in self.segments.iter().filter(|(s, _)| **s != self.current()) {
            if left <= Self::kept(self.limit) {
                break;
            }
            left -= bytes;
            last = Some(*segment);
        }
        last
    }

    /// Ends the segment that is being filled, if it has an event: returns the last one that has.
    pub fn end_segment(&mut self) -> Segment {
        let current = self.current();
        if self.segments[&current].0 > 0 {
            self.segments.insert(current + 1, (0, self.last + 1));
        }
        self.current() - 1
    }

    /// Appends an event; returns its number and segment.
    pub fn append(&mut self, event: &Event, now: Instant) -> (Lsn, Segment) {
        self.last += 1;
        self.appended += 1;
        let (segment, lsn) = (self.current(), self.last);
        let entry = self.segments.get_mut(&segment).expect("the current segment");
        let joins = self.queue.back().is_some_and(|(b, w)| b.segment == segment && w.len() < BATCH);
        if !joins {
            let batch = Batch { segment, offset: entry.0, bytes: Vec::new(), last: lsn };
            self.queue.push_back((batch, Writer::new()));
        }
        let (batch, writer) = self.queue.back_mut().expect("just made where there was none");
        let before = writer.len();
        put_frame(writer, lsn, event);
        batch.last = lsn;
        entry.0 += (writer.len() - before) as u64;
        // The segment that is being filled can't expire, so it may never be what fills the journal.
        if entry.0 >= self.object_size {
            self.segments.insert(segment + 1, (0, lsn + 1));
        }
        self.due.get_or_insert(now + self.delay);
        if self.bytes() >= self.too_long {
            self.too_long_since.get_or_insert(now);
        }
        (lsn, segment)
    }

    /// Somebody waits for the events up to `lsn`.
    pub fn want(&mut self, lsn: Lsn) {
        self.wanted = self.wanted.max(lsn);
    }

    /// Time of the next write, unless one is in flight, whose end is waited for.
    pub fn deadline(&self) -> Option<Instant> {
        self.due.filter(|_| self.in_flight.is_none())
    }

    /// The next batch to write, if none is in flight and one is due.
    pub fn next_write(&mut self, now: Instant) -> Option<Batch> {
        let (_, writer) = self.queue.front().filter(|_| self.in_flight.is_none())?;
        let is_large = self.queue.len() > 1 || writer.len() >= LAZY_BATCH;
        let is_wanted = self.wanted > self.durable;
        if !is_large && !is_wanted && self.due.is_some_and(|due| now < due) {
            return None;
        }
        let (mut batch, writer) = self.queue.pop_front()?;
        if self.queue.is_empty() {
            self.due = None;
        }
        batch.bytes = writer.into_vec();
        self.in_flight = Some(batch.last);
        Some(batch)
    }

    /// Notes that the batch in flight is durable.
    pub fn written(&mut self) {
        self.durable = self.in_flight.take().expect("a batch in flight");
    }

    /// True if everything appended is durable.
    pub fn is_idle(&self) -> bool {
        self.durable == self.last
    }

    /// Removes segments below `first` and returns them.
    pub fn expire(&mut self, first: Segment) -> Vec<Segment> {
        let first = first.min(self.current());
        self.expired += self.first_event(first).saturating_sub(self.first_event(self.oldest()));
        let kept = self.segments.split_off(&first);
        let gone = std::mem::replace(&mut self.segments, kept).into_keys().collect();
        if self.bytes() < self.too_long {
            self.too_long_since = None;
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsfmt::journal::read_frames;

    const NOW: Instant = Instant(0);

    fn journal(last: Lsn, delay: Duration) -> Journal {
        let options = MdsOptions { journal_bytes: 256 << 10, journal_delay: delay, ..MdsOptions::default() };
        Journal::new(&options, last, BTreeMap::new())
    }

    fn event(n: usize) -> Event {
        Event { what: "x".repeat(n), ..Event::default() }
    }

    #[test]
    fn events_join_while_a_write_is_in_flight_and_segments_roll() {
        let mut j = journal(0, Duration::ZERO);
        let mut objects: BTreeMap<Segment, Vec<u8>> = BTreeMap::new();
        let mut writes = 0;
        for round in 0..40 {
            for _ in 0..10 {
                j.append(&event(200), NOW);
            }
            if round % 2 == 1 {
                while let Some(batch) = j.next_write(NOW) {
                    let object = objects.entry(batch.segment).or_default();
                    assert_eq!(object.len() as u64, batch.offset);
                    object.extend_from_slice(&batch.bytes);
                    assert!(j.next_write(NOW).is_none(), "one in flight");
                    j.written();
                    writes += 1;
                }
            }
        }
        assert!(j.is_idle() && j.durable() == 400);
        assert!(writes < 40, "{writes} writes for 400 events");
        assert!(objects.len() > 3);
        let mut seq = 1;
        for (segment, bytes) in &objects {
            assert_eq!(j.segments[segment], (bytes.len() as u64, seq));
            seq += read_frames(bytes, seq).expect("whole frames").len() as u64;
        }
        assert_eq!(seq, 401);
    }

    #[test]
    fn a_full_journal_asks_for_its_oldest_segments() {
        let mut j = journal(7, Duration::ZERO);
        assert_eq!(j.wants_expired(), None);
        while !j.is_full() {
            j.append(&event(1000), NOW);
        }
        let oldest = j.wants_expired().expect("beyond half");
        assert!(oldest < j.current());
        let gone = j.expire(oldest + 1);
        assert_eq!(gone.len() as u64, oldest);
        assert!(!j.is_full() && j.wants_expired().is_none());
    }

    #[test]
    fn one_event_that_fills_the_journal_expires_like_others() {
        let mut j = journal(7, Duration::ZERO);
        let (lsn, segment) = j.append(&event(300 << 10), NOW);
        assert!(j.is_full());
        assert_eq!(j.wants_expired(), Some(segment));
        j.expire(segment + 1);
        j.check();
        assert_eq!((j.bytes(), j.first_event(j.oldest())), (0, lsn + 1));
    }

    #[test]
    fn a_journal_that_stays_full_is_behind() {
        let mut j = journal(7, Duration::ZERO);
        while !j.is_full() {
            assert_eq!(j.behind(NOW + BEHIND_AFTER), None);
            j.append(&event(1000), NOW);
        }
        assert_eq!(j.behind(NOW + BEHIND_AFTER / 2), None, "that may be for a moment");
        let (have, most) = j.behind(NOW + BEHIND_AFTER).expect("is behind");
        assert!(most == 8 && have >= 2 * most, "{have}/{most}");
        j.expire(j.oldest() + 1);
        assert_eq!(j.behind(NOW + BEHIND_AFTER * 2), None);
    }

    #[test]
    fn events_that_nobody_waits_for_gather() {
        let delay = Duration::from_millis(20);
        let mut j = journal(0, delay);
        for _ in 0..3 {
            j.append(&event(200), NOW);
        }
        assert!(j.next_write(NOW).is_none());
        assert_eq!(j.deadline(), Some(NOW + delay));
        let batch = j.next_write(NOW + delay).expect("is due");
        assert_eq!(batch.last, 3);
        j.append(&event(200), NOW + delay);
        assert!(j.deadline().is_none() && j.next_write(NOW + delay * 2).is_none(), "one in flight");
        j.written();
        j.check();
        assert!(j.next_write(NOW + delay).is_none());
        j.want(3);
        assert!(j.next_write(NOW + delay).is_none(), "event 3 is durable");
        j.want(4);
        assert_eq!(j.next_write(NOW + delay).expect("is wanted").last, 4);
        j.written();
        let mut bytes = 0;
        while j.next_write(NOW).is_none() {
            j.append(&event(1000), NOW);
            bytes += 1000;
        }
        assert!(bytes <= LAZY_BATCH, "a segment has ended, or there is much to write");
    }
}
