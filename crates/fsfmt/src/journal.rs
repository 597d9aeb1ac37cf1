//! The journal: numbered objects, each a row of framed events. An object number is never used twice; each
//! object is filled from its start by writes of which only one is in flight, so that the journal ends where
//! the frames do.
//!
//! ```text
//! frame:  u32 magic | u32 length of the event | u64 seq | u32 crc32c of length, seq and event | event
//! ```

use crate::Event;
use wire::{DecodeError, Reader, Writer, crc32c};

/// First word of each frame ("nacj").
pub const MAGIC: u32 = 0x6a63_616e;
/// Bytes before the event.
pub const FRAME: usize = 20;

wire::wire_structs! {
    /// Object 0 of the journal.
    pub struct JournalHeader[v 1/1] {
        /// The first object whose events are still needed.
        pub first: u64,
        /// The sequence number of its first event, if it has one.
        pub first_seq: u64,
        /// Bytes after which an object is full.
        pub object_size: u64,
        /// Features that a reader has to know, by bit: one that does not know all of them refuses to start,
        /// since it would drop what they have stored.
        pub needs: u64,
    }
}

/// Features that this version knows. Each later one that stores what older ones would drop adds a bit.
pub const KNOWN_FEATURES: u64 = 0;

fn crc(len: u32, seq: u64, body: &[u8]) -> u32 {
    let head = [&len.to_le_bytes()[..], &seq.to_le_bytes()[..]].concat();
    crc32c::update(crc32c::update(!0, &head), body)
}

/// Appends one framed event.
pub fn put_frame(w: &mut Writer, seq: u64, event: &Event) {
    let body = Writer::encode(event);
    let len = u32::try_from(body.len()).expect("an event of less than 4 GiB");
    w.put(&MAGIC);
    w.put(&len);
    w.put(&seq);
    w.put(&crc(len, seq, &body));
    w.raw(&body);
}

/// Reads one frame: its sequence number, and the bytes of its event.
pub(crate) fn read_frame<'a>(r: &mut Reader<'a>) -> Result<(u64, &'a [u8]), DecodeError> {
    let (magic, len, seq, sum): (u32, u32, u64, u32) = (r.get()?, r.get()?, r.get()?, r.get()?);
    if magic != MAGIC {
        return Err(r.error(format!("{magic:08x} where a frame should begin")));
    }
    let body = r.take(len as usize)?;
    if crc(len, seq, body) != sum {
        return Err(r.error(format!("event {seq} has a wrong checksum")));
    }
    Ok((seq, body))
}

/// The events of one object's bytes, which must begin with `seq` and end with a whole frame.
pub fn read_frames(bytes: &[u8], mut seq: u64) -> Result<Vec<(u64, Event)>, DecodeError> {
    let mut r = Reader::new(bytes);
    let mut events = Vec::new();
    while r.remaining() >= FRAME {
        let (at, body) = read_frame(&mut r)?;
        if at != seq {
            return Err(r.error(format!("event {at} where event {seq} was expected")));
        }
        events.push((seq, Reader::new(body).get()?));
        seq += 1;
    }
    r.finish()?;
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::Rng;
    use wire::Sample;

    #[test]
    fn frames_come_back_and_damage_is_seen() {
        let mut rng = Rng::from_seed(7);
        let events: Vec<Event> = (0..40).map(|_| Event::sample(&mut rng)).collect();
        let mut w = Writer::new();
        for (seq, event) in (5..).zip(&events) {
            put_frame(&mut w, seq, event);
        }
        let bytes = w.into_vec();
        let read = read_frames(&bytes, 5).expect("what was written");
        assert!(read.iter().map(|(_, e)| e).eq(&events));
        assert_eq!(read.last().map(|(s, _)| *s), Some(44));
        assert!(read_frames(&bytes, 6).is_err(), "a gap is an error");
        for _ in 0..200 {
            let mut bad = bytes.clone();
            let at = rng.below(bad.len() as u64) as usize;
            bad[at] ^= 1 << rng.below(8);
            assert!(read_frames(&bad, 5).is_err(), "flipped bit in byte {at}");
        }
    }
}
