//! Reading a journal for people, even a damaged one: every event that can be read, and where the rest is.
//! Replay stops at the first damage instead (`crates/mds/src/rank/replay/reader.rs`).

use crate::Event;
use crate::journal::{FRAME, MAGIC, read_frame};
use wire::Reader;

/// An event, or damage, at a place of the journal.
#[derive(Clone, PartialEq, Debug)]
pub struct Scanned {
    /// Number of the journal's object.
    pub object: u64,
    /// Byte offset in it.
    pub offset: u64,
    /// Length in bytes, the frame's head included; 0 for a gap between two events.
    pub len: u64,
    /// The event, or what is wrong.
    pub what: Result<ScannedEvent, String>,
}

/// An event that can be read.
#[derive(Clone, PartialEq, Debug)]
pub struct ScannedEvent {
    /// Its sequence number.
    pub seq: u64,
    /// False if it never happened: a later object numbers it again, or an earlier one has it.
    pub is_replayed: bool,
    /// The event.
    pub event: Event,
}

/// A walk over a journal's objects in their order.
///
/// One object is held back, since the next one tells which of its events are numbered again.
#[derive(Debug)]
pub struct JournalScan {
    /// The next number of an event; unknown after objects that were left out.
    expected: Option<u64>,
    held: Vec<Scanned>,
}

impl JournalScan {
    /// A walk that begins with the event `first_seq`.
    pub fn new(first_seq: u64) -> Self {
        Self { expected: Some(first_seq), held: Vec::new() }
    }

    /// Takes the bytes of the next object; returns what the one before it holds.
    pub fn take(&mut self, object: u64, bytes: &[u8]) -> Vec<Scanned> {
        let scanned = scan_object(object, bytes);
        let first = scanned.iter().find_map(|found| found.what.as_ref().ok().map(|event| event.seq));
        let before = self.give_out(first);
        self.held = scanned;
        before
    }

    /// Returns what the last object holds.
    pub fn end(&mut self) -> Vec<Scanned> {
        self.give_out(None)
    }

    /// False if events are missing between the object that was taken last and the next one, of these bytes.
    /// While a metadata server writes, it may have appended them after the former was read.
    pub fn is_followed_by(&self, bytes: &[u8]) -> bool {
        let seq = |found: &Scanned| found.what.as_ref().ok().map(|event| event.seq);
        let last = self.held.iter().rev().find_map(seq);
        let first = read_frame(&mut Reader::new(bytes)).ok().map(|(seq, _)| seq);
        last.zip(first).is_none_or(|(last, first)| first <= last + 1)
    }

    /// Takes the bytes of the object that was taken last once more.
    pub fn take_again(&mut self, object: u64, bytes: &[u8]) {
        self.held = scan_object(object, bytes);
    }

    /// Objects were left out: the next event may have any number.
    pub fn skip(&mut self) {
        self.expected = None;
    }

    /// The number after the last event that is replayed, if there was any.
    pub fn next_seq(&self) -> Option<u64> {
        self.expected
    }

    fn give_out(&mut self, end: Option<u64>) -> Vec<Scanned> {
        let mut out: Vec<Scanned> = Vec::with_capacity(self.held.len());
        for mut found in std::mem::take(&mut self.held) {
            if let Ok(event) = &mut found.what {
                let expected = self.expected.unwrap_or(event.seq);
                event.is_replayed = event.seq >= expected && end.is_none_or(|end| event.seq < end);
                if event.is_replayed {
                    self.expected = Some(event.seq + 1);
                    if event.seq > expected {
                        note_gap(&mut out, &found, expected);
                    }
                }
            }
            out.push(found);
        }
        out
    }
}

/// Notes that events from `expected` on are missing before `found`: they were in the damaged bytes before
/// it, or there is only a gap.
fn note_gap(out: &mut Vec<Scanned>, found: &Scanned, expected: u64) {
    let Ok(event) = &found.what else { return };
    let missing = match event.seq - 1 {
        last if last == expected => format!("event {expected} is missing"),
        last => format!("events {expected} to {last} are missing"),
    };
    match out.last_mut() {
        Some(Scanned { what: Err(why), .. }) => *why = format!("{why}; {missing}"),
        _ => out.push(Scanned { len: 0, what: Err(missing), ..found.clone() }),
    }
}

/// What the bytes of an object hold, in their order. Nothing is judged of numbers.
fn scan_object(object: u64, bytes: &[u8]) -> Vec<Scanned> {
    let (mut at, mut out) = (0, Vec::new());
    while at < bytes.len() {
        let mut r = Reader::new(&bytes[at..]);
        let (what, len) = match read_frame(&mut r) {
            Ok((seq, body)) => match Reader::new(body).get::<Event>() {
                Ok(event) => (Ok(ScannedEvent { seq, is_replayed: true, event }), r.position()),
                Err(e) => (Err(format!("event {seq} does not decode: {}", e.what)), r.position()),
            },
            Err(e) => (Err(e.what), next_frame(bytes, at + 1) - at),
        };
        out.push(Scanned { object, offset: at as u64, len: len as u64, what });
        at += len;
    }
    out
}

/// The offset of the first whole frame from `from` on, or the end.
fn next_frame(bytes: &[u8], from: usize) -> usize {
    let magic = MAGIC.to_le_bytes();
    let begins =
        |at: &usize| bytes[*at..].starts_with(&magic) && read_frame(&mut Reader::new(&bytes[*at..])).is_ok();
    (from..bytes.len().saturating_sub(FRAME - 1)).find(begins).unwrap_or(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::put_frame;
    use wire::Writer;

    fn frame(seq: u64) -> Vec<u8> {
        let mut w = Writer::new();
        put_frame(&mut w, seq, &Event { what: format!("e{seq}"), ..Event::default() });
        w.into_vec()
    }

    fn object(seqs: std::ops::RangeInclusive<u64>) -> Vec<u8> {
        seqs.flat_map(frame).collect()
    }

    /// What is found, in few words.
    fn brief(found: &[Scanned]) -> Vec<String> {
        let one = |found: &Scanned| match &found.what {
            Ok(event) if event.is_replayed => format!("{} {}", event.seq, event.event.what),
            Ok(event) => format!("{} not replayed", event.seq),
            Err(why) => format!("{}+{}: {why}", found.offset, found.len),
        };
        found.iter().map(one).collect()
    }

    #[test]
    fn a_sound_journal_is_read_to_its_end() {
        let mut scan = JournalScan::new(5);
        assert_eq!(scan.take(1, &object(5..=6)), []);
        assert_eq!(brief(&scan.take(2, &object(7..=7))), ["5 e5", "6 e6"]);
        assert_eq!(brief(&scan.end()), ["7 e7"]);
        assert_eq!(scan.next_seq(), Some(8));
    }

    #[test]
    fn events_that_the_next_object_numbers_again_are_not_replayed() {
        let mut scan = JournalScan::new(5);
        scan.take(1, &object(5..=7));
        assert_eq!(brief(&scan.take(2, &object(6..=6))), ["5 e5", "6 not replayed", "7 not replayed"]);
        assert_eq!(brief(&scan.end()), ["6 e6"]);
    }

    #[test]
    fn a_changed_bit_costs_one_event() {
        let (whole, len) = (object(5..=7), frame(5).len());
        for at in 0..len {
            let mut bytes = whole.clone();
            bytes[len + at] ^= 0x10;
            let mut scan = JournalScan::new(5);
            scan.take(1, &bytes);
            let found = scan.end();
            assert_eq!(found.len(), 3, "byte {at}: {:?}", brief(&found));
            let damage = found[1].what.as_ref().expect_err("the second frame");
            assert!(damage.ends_with("event 6 is missing"), "{damage}");
            assert_eq!((found[1].offset, found[1].len), (len as u64, len as u64));
            assert_eq!(brief(&found)[2], "7 e7");
        }
    }

    #[test]
    fn an_object_that_grew_meanwhile_is_taken_again() {
        let mut scan = JournalScan::new(5);
        scan.take(1, &object(5..=5));
        assert!(!scan.is_followed_by(&object(8..=8)));
        scan.take_again(1, &object(5..=7));
        assert!(scan.is_followed_by(&object(8..=8)));
        assert_eq!(brief(&scan.take(2, &object(8..=8))), ["5 e5", "6 e6", "7 e7"]);
    }

    #[test]
    fn gaps_and_cut_frames_are_damage() {
        let mut scan = JournalScan::new(5);
        scan.take(1, &object(5..=5));
        assert_eq!(brief(&scan.take(2, &object(8..=8))), ["5 e5"]);
        assert_eq!(brief(&scan.end()), ["0+0: events 6 to 7 are missing", "8 e8"]);
        let cut = &object(9..=10)[..frame(9).len() + 30];
        scan.take(3, cut);
        let found = brief(&scan.end());
        assert_eq!(found[0], "9 e9");
        assert!(found[1].contains("bytes, 10 are left"), "{found:?}");
        scan.skip();
        scan.take(9, &object(90..=90));
        assert_eq!(brief(&scan.end()), ["90 e90"]);
    }

    #[test]
    fn bytes_that_are_no_journal_are_one_damage() {
        for bytes in [vec![0; 100], vec![0xff; 3], MAGIC.to_le_bytes().repeat(40)] {
            let mut scan = JournalScan::new(1);
            scan.take(1, &bytes);
            let found = scan.end();
            assert_eq!((found.len(), found[0].len), (1, bytes.len() as u64), "{:?}", brief(&found));
        }
    }
}
