//! Reads a journal object by object, and returns its events in order.
//!
//! The reader holds one object back. A late write of a predecessor may land in an object after its successor
//! has read that object and gone on in the next one; events that the next object numbers again never
//! happened. The events of an object are therefore returned when the next one has been read, or is found
//! missing. At the end of the journal a reader can continue: it reads its last object again and returns only
//! the new events.

use crate::types::{Lsn, Segment};
use fsfmt::Event;
use fsfmt::journal::{JournalHeader, read_frames};
use std::collections::BTreeMap;
use wire::{DecodeError, Reader};

/// An object of the journal with its events.
#[derive(Debug)]
struct Object {
    segment: Segment,
    events: Vec<(Lsn, Event)>,
}

/// Events of one segment, in order.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub segment: Segment,
    pub events: Vec<(Lsn, Event)>,
}

/// Errors of a journal.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Damage {
    /// An object does not decode.
    Decode(DecodeError),
    /// Events are missing between two objects.
    Gap { segment: Segment, first: Lsn, expected: Lsn },
    /// An object of the journal is missing, although a later one is there.
    Missing { segment: Segment, later: Segment },
    /// An object is missing that every rank has which has trimmed its journal.
    Lost { object: String },
    /// A later version stored data that this one would drop.
    Newer { features: u64 },
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Decode(e) => f.write_str(&e.of_stored()),
            Self::Gap { segment, first, expected } => {
                write!(f, "journal object {segment} begins with event {first} instead of {expected}")
            }
            Self::Missing { segment, later } => write!(
                f,
                "journal object {segment} is missing, although object {later} is there; `nacre inspect \
                 journal` shows the events that are left"
            ),
            Self::Lost { object } => write!(
                f,
                "the object {object} is missing in the metadata pool, and without it inode numbers of \
                 existing files would be given out again; bring an OSD back that has a copy of it"
            ),
            Self::Newer { features } => write!(
                f,
                "a later version of nacre has written it (features {features:#x}), and this one would drop \
                 what that stored; start that version or a later one"
            ),
        }
    }
}

/// A position in a journal.
///
/// Invariants: events are returned once and in order; at most the events of one object are held.
#[derive(Debug)]
pub(super) struct JournalReader {
    /// The object that is read next.
    next: Segment,
    /// The last event given out.
    last: Lsn,
    held: Option<Object>,
    /// Objects that were read: bytes and first event.
    segments: BTreeMap<Segment, (u64, Lsn)>,
    /// Events given out.
    count: u64,
}

impl JournalReader {
    /// Starts at the first needed event according to a header.
    pub fn new(header: &JournalHeader) -> Self {
        let last = header.first_seq.saturating_sub(1);
        Self { next: header.first, last, held: None, segments: BTreeMap::new(), count: 0 }
    }

    /// The object to read now.
    pub fn next(&self) -> Segment {
        self.next
    }

    /// The last event given out.
    pub fn last(&self) -> Lsn {
        self.last
    }

    /// Number of events returned so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Takes the bytes of the next object; returns the events of the previous one.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Batch, Damage> {
        let object = self.decode(bytes)?;
        let superseded_from = object.events.first().map(|(seq, _)| *seq);
        let before = self.give_out(superseded_from)?;
        let first = object.events.first().map_or(self.last + 1, |(seq, _)| *seq);
        self.segments.insert(object.segment, (bytes.len() as u64, first));
        self.held = Some(object);
        self.next += 1;
        Ok(before)
    }

    /// Handles a missing next object; returns the events of the last one.
    pub fn take_end(&mut self) -> Result<Batch, Damage> {
        self.give_out(None)
    }

    /// Continues from the end: reads the last object again, and then later ones.
    pub fn follow(&mut self) {
        if let Some(last) = self.segments.keys().next_back() {
            self.next = *last;
        }
    }

    /// Goes back to the object before `segment`: it had more events than it had when it was read.
    pub fn go_back(&mut self, segment: Segment) {
        self.held = None;
        self.segments.split_off(&segment);
        self.next = segment.saturating_sub(1);
    }

    /// Forgets segments below `first`, which have expired. Returns false if events may be among them that
    /// were not read.
    pub fn forget_before(&mut self, first: Segment) -> bool {
        self.segments = self.segments.split_off(&first);
        first <= self.next
    }

    /// The objects that were read, as segments of the journal that continues after them.
    pub fn into_segments(mut self) -> BTreeMap<Segment, (u64, Lsn)> {
        if self.segments.is_empty() {
            self.segments.insert(self.next.saturating_sub(1), (0, self.last + 1));
        }
        self.segments
    }

    fn decode(&self, bytes: &[u8]) -> Result<Object, Damage> {
        // The number of the first event is in the first frame.
        let seq = Reader::new(bytes.get(8..16).unwrap_or(&[])).get::<u64>().map_err(Damage::Decode)?;
        let events = read_frames(bytes, seq).map_err(Damage::Decode)?;
        Ok(Object { segment: self.next, events })
    }

    /// Returns the events of the held object that are new and below `end`.
    fn give_out(&mut self, end: Option<Lsn>) -> Result<Batch, Damage> {
        let Some(Object { segment, mut events }) = self.held.take() else { return Ok(Batch::default()) };
        events.retain(|(seq, _)| *seq > self.last && end.is_none_or(|end| *seq < end));
        let first = events.first().map_or(self.last + 1, |(seq, _)| *seq);
        if first != self.last + 1 {
            return Err(Damage::Gap { segment, first, expected: self.last + 1 });
        }
        self.last = events.last().map_or(self.last, |(seq, _)| *seq);
        self.count += events.len() as u64;
        Ok(Batch { segment, events })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsfmt::journal::put_frame;
    use wire::Writer;

    fn object(seqs: std::ops::RangeInclusive<Lsn>) -> Vec<u8> {
        let mut w = Writer::new();
        seqs.for_each(|seq| put_frame(&mut w, seq, &Event { what: format!("e{seq}"), ..Event::default() }));
        w.into_vec()
    }

    fn reader() -> JournalReader {
        JournalReader::new(&JournalHeader { first: 3, first_seq: 10, ..JournalHeader::default() })
    }

    fn seqs(batch: Result<Batch, Damage>) -> Vec<Lsn> {
        batch.expect("whole objects").events.iter().map(|(seq, _)| *seq).collect()
    }

    #[test]
    fn events_that_the_next_object_numbers_again_never_happened() {
        let mut r = reader();
        assert_eq!(seqs(r.take(&object(10..=14))), [0; 0]);
        assert_eq!(r.next(), 4);
        assert_eq!(seqs(r.take(&object(13..=15))), [10, 11, 12]);
        assert_eq!(seqs(r.take_end()), [13, 14, 15]);
        assert_eq!((r.last(), r.count()), (15, 6));
        let segments = r.into_segments();
        assert_eq!(segments.keys().copied().collect::<Vec<_>>(), [3, 4]);
        assert_eq!(segments[&4].1, 13);
    }

    #[test]
    fn a_gap_between_objects_is_damage() {
        let mut r = reader();
        r.take(&object(10..=12)).expect("the first object");
        r.take(&object(14..=15)).expect("the gap shows when its events are due");
        let gap = Damage::Gap { segment: 4, first: 14, expected: 13 };
        assert_eq!(r.take_end().expect_err("event 13 is missing"), gap);
        assert!(matches!(reader().take(&object(10..=12)[..30]), Err(Damage::Decode(_))));
    }

    #[test]
    fn a_reader_at_the_end_goes_on_when_the_journal_has_grown() {
        let mut r = reader();
        r.take(&object(10..=11)).expect("the first object");
        assert_eq!(seqs(r.take_end()), [10, 11]);
        r.follow();
        assert_eq!(r.next(), 3);
        assert_eq!(seqs(r.take(&object(10..=13))), [0; 0]);
        assert_eq!(seqs(r.take(&object(14..=14))), [12, 13]);
        assert_eq!(seqs(r.take_end()), [14]);
        r.follow();
        assert_eq!(seqs(r.take(&object(14..=14))), [0; 0]);
        assert_eq!(seqs(r.take_end()), [0; 0], "nothing is given out twice");
    }

    #[test]
    fn an_object_that_grew_after_it_was_read_is_read_again() {
        let mut r = reader();
        r.take(&object(10..=11)).expect("the first object");
        assert_eq!(seqs(r.take(&object(14..=15))), [10, 11]);
        let gap = Damage::Gap { segment: 4, first: 14, expected: 12 };
        assert_eq!(r.take_end().expect_err("12 and 13 came later"), gap);
        r.go_back(4);
        r.follow();
        assert_eq!(r.next(), 3);
        assert_eq!(seqs(r.take(&object(10..=13))), [0; 0]);
        assert_eq!(seqs(r.take(&object(14..=15))), [12, 13]);
        assert_eq!(seqs(r.take_end()), [14, 15]);
    }

    #[test]
    fn expired_objects_are_forgotten_and_those_that_were_not_read_are_missed() {
        let mut r = reader();
        r.take(&object(10..=11)).expect("the first object");
        r.take(&object(12..=12)).expect("the second one");
        r.take_end().expect("the end");
        r.follow();
        assert!(r.forget_before(4), "the last one that was read is there");
        assert!(!r.forget_before(5), "it may have had more events");
        assert_eq!(r.into_segments().keys().copied().collect::<Vec<_>>(), [3]);
    }

    #[test]
    fn an_empty_journal_has_the_segment_before_its_first() {
        let mut r = reader();
        assert_eq!(seqs(r.take_end()), [0; 0]);
        assert_eq!(r.last(), 9);
        assert_eq!(r.into_segments(), BTreeMap::from([(2, (0, 10))]));
    }
}
