//! Decodes frames in either mode, and chooses the destination of the next bytes, so that bulk data is
//! received in place.

use crate::Reason;
use crate::control::{BANNER, REVISION_1};
use crate::frame::{EPILOGUE, MAX_SEGMENTS, PREAMBLE, Preamble, is_complete, padded, tag};
use crate::gcm::{Gcm, INLINE, TAG};
use stdx::{BLOCK, Buf, BufMut, Reservation, crc32c};

/// Read ahead of headers at most this far; what is beyond goes straight to its destination.
const READ_AHEAD: usize = 16 << 10;
/// A rest shorter than this is read through the staging memory: one read then also brings the next header.
const DIRECT: usize = 4 << 10;
/// The longest handshake before AUTH_DONE.
const MAX_RECORD: usize = 256 << 10;

/// A received item.
#[derive(Debug)]
pub(crate) enum Item {
    /// The banner; a revision is in common.
    Banner,
    /// A frame, its checksums in order.
    Frame(Frame),
}

/// A whole frame.
#[derive(Debug, Default)]
pub(crate) struct Frame {
    pub tag: u8,
    pub control: Vec<u8>,
    pub front: Vec<u8>,
    pub middle: Vec<u8>,
    pub data: Buf,
    pub hold: Option<Reservation>,
}

/// The receiving direction.
#[derive(Debug)]
pub(crate) struct Rx {
    staging: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes that the present phase needs in `staging`.
    need: usize,
    phase: Phase,
    /// True if the last memory handed out was the destination itself.
    direct: bool,
    gcm: Option<Gcm>,
    /// All bytes received, until the handshake's signature is checked with them.
    record: Option<Vec<u8>>,
    /// True if MESSAGE frames are allowed: only after the handshake, so that a stranger's length field
    /// allocates nothing.
    pub messages: bool,
}

#[derive(Debug)]
enum Phase {
    BannerHead,
    BannerBody(usize),
    Preamble,
    /// The first segment, what came in the preamble's block already in `Frame::control`.
    Control(Preamble, Frame),
    /// Waits for [`Rx::grant`].
    Budget(Preamble, Frame),
    Fill {
        preamble: Preamble,
        frame: Frame,
        into: Into,
        at: usize,
    },
    Epilogue(Preamble, Frame),
    Failed,
}

#[derive(Debug)]
enum Into {
    Front(Vec<u8>),
    Middle(Vec<u8>),
    Data(BufMut),
    /// Segments 1 to 3, epilogue and tag of a secure frame, placed so that segment 3 is aligned.
    Tail(BufMut),
}

impl Into {
    fn memory(&mut self) -> &mut [u8] {
        match self {
            Self::Front(v) | Self::Middle(v) => v,
            Self::Data(b) | Self::Tail(b) => b.as_mut_slice(),
        }
    }
}

impl Rx {
    pub fn new() -> Self {
        Self {
            staging: Vec::new(),
            start: 0,
            end: 0,
            need: 10,
            phase: Phase::BannerHead,
            direct: false,
            gcm: None,
            record: Some(Vec::new()),
            messages: false,
        }
    }

    /// Ends the record.
    pub fn take_record(&mut self) -> Vec<u8> {
        self.record.take().unwrap_or_default()
    }

    /// All further frames are encrypted. Called between two frames.
    pub fn decrypt(&mut self, gcm: Gcm) {
        assert!(matches!(self.phase, Phase::Preamble), "between two frames");
        self.gcm = Some(gcm);
    }

    /// The length of the message that waits for [`Self::grant`].
    pub fn budget(&self) -> Option<u64> {
        match &self.phase {
            Phase::Budget(preamble, _) => Some(preamble.payload()),
            _ => None,
        }
    }

    /// Memory for the next bytes; never empty. Not to be called while there is a budget to grant.
    pub fn space(&mut self) -> &mut [u8] {
        if let Phase::Fill { into, at, .. } = &mut self.phase {
            let rest = into.memory().len() - *at;
            if rest >= DIRECT {
                self.direct = true;
                return &mut into.memory()[*at..];
            }
        }
        self.direct = false;
        self.staging.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        let size = self.need.max(READ_AHEAD);
        if self.staging.len() != size && self.end <= size {
            self.staging.resize(size, 0);
            self.staging.shrink_to(2 * READ_AHEAD.max(size));
        }
        &mut self.staging[self.end..]
    }

    /// `n` bytes were written to the memory that [`Self::space`] gave.
    pub fn filled(&mut self, n: usize) {
        match &mut self.phase {
            Phase::Fill { into, at, .. } if self.direct => {
                assert!(n <= into.memory().len() - *at, "filled beyond the memory");
                *at += n;
            }
            _ => {
                assert!(n <= self.staging.len() - self.end, "filled beyond the memory");
                self.end += n;
            }
        }
    }

    /// Lets the message come, carrying `hold`.
    pub fn grant(&mut self, hold: Option<Reservation>) {
        match std::mem::replace(&mut self.phase, Phase::Failed) {
            Phase::Budget(preamble, mut frame) => {
                frame.hold = hold;
                self.phase = match self.gcm {
                    Some(_) => fill_tail(preamble, frame),
                    None => fill_segment(preamble, frame, 1),
                };
            }
            other => self.phase = other,
        }
    }

    /// The next thing, if it came in whole. After an error nothing more comes.
    pub fn next(&mut self) -> Result<Option<Item>, Reason> {
        loop {
            match self.step() {
                Ok(Step::More) => {}
                Ok(Step::Wait) => return Ok(None),
                Ok(Step::Item(item)) => return Ok(Some(item)),
                Err(reason) => {
                    self.phase = Phase::Failed;
                    return Err(reason);
                }
            }
        }
    }

    fn step(&mut self) -> Result<Step, Reason> {
        match std::mem::replace(&mut self.phase, Phase::Failed) {
            Phase::BannerHead => self.banner_head(),
            Phase::BannerBody(len) => self.banner_body(len),
            Phase::Preamble => self.preamble(),
            Phase::Control(preamble, frame) => self.control(preamble, frame),
            Phase::Fill { preamble, frame, into, at } => self.fill(preamble, frame, into, at),
            Phase::Epilogue(preamble, frame) => self.epilogue(&preamble, frame),
            waiting @ (Phase::Budget(..) | Phase::Failed) => {
                self.phase = waiting;
                Ok(Step::Wait)
            }
        }
    }

    /// The next `n` bytes of the staging memory, or else back to `phase` until they are there.
    fn take(&mut self, n: usize, phase: impl FnOnce() -> Phase) -> Option<std::ops::Range<usize>> {
        if self.end - self.start < n {
            self.need = n;
            self.phase = phase();
            return None;
        }
        let range = self.start..self.start + n;
        self.start += n;
        if let Some(record) = &mut self.record {
            record.extend_from_slice(&self.staging[range.clone()]);
        }
        Some(range)
    }

    fn banner_head(&mut self) -> Result<Step, Reason> {
        // A wrong first byte is refused at once: a peer with another protocol would wait for ever.
        let have = (self.end - self.start).min(BANNER.len());
        if self.staging[self.start..self.start + have] != BANNER[..have] {
            return Err(Reason::Banner("another protocol"));
        }
        let Some(range) = self.take(10, || Phase::BannerHead) else { return Ok(Step::Wait) };
        let len =
            usize::from(u16::from_le_bytes([self.staging[range.start + 8], self.staging[range.start + 9]]));
        if len < 16 {
            return Err(Reason::Banner("too short"));
        }
        self.phase = Phase::BannerBody(len);
        Ok(Step::More)
    }

    fn banner_body(&mut self, len: usize) -> Result<Step, Reason> {
        let Some(range) = self.take(len, || Phase::BannerBody(len)) else { return Ok(Step::Wait) };
        let mut r = wire::Reader::new(&self.staging[range]);
        let (supported, required): (u64, u64) = (r.get()?, r.get()?);
        if supported & REVISION_1 == 0 || required & !REVISION_1 != 0 {
            return Err(Reason::Banner("no common revision"));
        }
        self.phase = Phase::Preamble;
        Ok(Step::Item(Item::Banner))
    }

    fn preamble(&mut self) -> Result<Step, Reason> {
        if self.record.as_ref().is_some_and(|r| r.len() > MAX_RECORD) {
            return Err(Reason::Frame("the handshake is too long"));
        }
        let block = if self.gcm.is_some() { PREAMBLE + INLINE + TAG } else { PREAMBLE };
        let Some(range) = self.take(block, || Phase::Preamble) else { return Ok(Step::Wait) };
        let bytes = &mut self.staging[range];
        if let Some(gcm) = &mut self.gcm {
            gcm.open(bytes)?;
        }
        let preamble = Preamble::parse(bytes[..PREAMBLE].try_into().expect("32 bytes"))?;
        if preamble.tag == tag::MESSAGE && !self.messages {
            return Err(Reason::Unexpected(tag::MESSAGE));
        }
        let inline = if self.gcm.is_some() { preamble.len(0).min(INLINE) } else { 0 };
        let control = bytes[PREAMBLE..PREAMBLE + inline].to_vec();
        self.phase = Phase::Control(preamble, Frame { tag: preamble.tag, control, ..Frame::default() });
        Ok(Step::More)
    }

    fn control(&mut self, preamble: Preamble, mut frame: Frame) -> Result<Step, Reason> {
        let rest = preamble.len(0) - frame.control.len();
        let on_wire = match (&self.gcm, rest) {
            (None, _) => rest + 4,
            (Some(_), 0) => 0,
            (Some(_), _) => padded(rest) + TAG,
        };
        if self.end - self.start < on_wire {
            self.need = on_wire;
            self.phase = Phase::Control(preamble, frame);
            return Ok(Step::Wait);
        }
        let range = self.take(on_wire, || Phase::Failed).expect("as much is there");
        let bytes = &mut self.staging[range];
        match &mut self.gcm {
            None => {
                frame.control.extend_from_slice(&bytes[..rest]);
                if crc32c::update(!0, &frame.control).to_le_bytes() != bytes[rest..] {
                    return Err(Reason::Crc("control segment"));
                }
            }
            Some(gcm) if rest > 0 => {
                gcm.open(bytes)?;
                frame.control.extend_from_slice(&bytes[..rest]);
            }
            Some(_) => {}
        }
        if preamble.segments == 1 {
            return Ok(self.complete(frame));
        }
        self.phase = Phase::Budget(preamble, frame);
        Ok(Step::Wait)
    }

    fn fill(
        &mut self,
        preamble: Preamble,
        mut frame: Frame,
        mut into: Into,
        mut at: usize,
    ) -> Result<Step, Reason> {
        let memory = into.memory();
        let n = (memory.len() - at).min(self.end - self.start);
        memory[at..at + n].copy_from_slice(&self.staging[self.start..self.start + n]);
        self.start += n;
        at += n;
        if at < memory.len() {
            self.need = 1;
            self.phase = Phase::Fill { preamble, frame, into, at };
            return Ok(Step::Wait);
        }
        let done = match into {
            Into::Front(v) => {
                frame.front = v;
                1
            }
            Into::Middle(v) => {
                frame.middle = v;
                2
            }
            Into::Data(mut b) => {
                if let Some(hold) = frame.hold.take() {
                    b.set_reservation(hold);
                }
                frame.data = b.freeze();
                3
            }
            Into::Tail(b) => return self.tail(&preamble, frame, b),
        };
        self.phase = fill_segment(preamble, frame, done + 1);
        Ok(Step::More)
    }

    /// Decrypts a tail in place; the data stays where it is.
    fn tail(&mut self, preamble: &Preamble, mut frame: Frame, mut tail: BufMut) -> Result<Step, Reason> {
        let lead = lead(preamble);
        let bytes = &mut tail.as_mut_slice()[lead..];
        let gcm = self.gcm.as_mut().expect("a tail comes in secure mode only");
        gcm.open(bytes)?;
        let segment = |i: usize| preamble.padded_offset(i)..preamble.padded_offset(i) + preamble.len(i);
        frame.front = bytes[segment(1)].to_vec();
        frame.middle = bytes[segment(2)].to_vec();
        let complete = is_complete(bytes[preamble.padded_offset(MAX_SEGMENTS)])?;
        let data = segment(3);
        if !data.is_empty() {
            tail.truncate(lead + data.end);
            if let Some(hold) = frame.hold.take() {
                tail.set_reservation(hold);
            }
            frame.data = tail.freeze().slice(lead + data.start..lead + data.end);
        }
        Ok(if complete { self.complete(frame) } else { self.skip() })
    }

    fn epilogue(&mut self, preamble: &Preamble, frame: Frame) -> Result<Step, Reason> {
        if self.end - self.start < EPILOGUE {
            self.need = EPILOGUE;
            self.phase = Phase::Epilogue(*preamble, frame);
            return Ok(Step::Wait);
        }
        let range = self.take(EPILOGUE, || Phase::Failed).expect("as much is there");
        let bytes = &self.staging[range];
        let crcs =
            [crc32c::update(!0, &frame.front), crc32c::update(!0, &frame.middle), frame.data.crc32c(!0)];
        let complete = is_complete(bytes[0])?;
        let expected = crate::frame::epilogue(preamble.segments, crcs);
        if !complete {
            return Ok(self.skip());
        }
        let names = ["front", "middle", "data"];
        match (0..3).find(|i| bytes[1 + 4 * i..5 + 4 * i] != expected[1 + 4 * i..5 + 4 * i]) {
            Some(wrong) => Err(Reason::Crc(names[wrong])),
            None => Ok(self.complete(frame)),
        }
    }

    fn complete(&mut self, frame: Frame) -> Step {
        self.phase = Phase::Preamble;
        Step::Item(Item::Frame(frame))
    }

    fn skip(&mut self) -> Step {
        self.phase = Phase::Preamble;
        Step::More
    }
}

enum Step {
    More,
    Wait,
    Item(Item),
}

/// The next segment of crc mode that has bytes, from `segment` on; then the epilogue.
fn fill_segment(preamble: Preamble, frame: Frame, segment: usize) -> Phase {
    let Some(segment) = (segment..MAX_SEGMENTS).find(|i| preamble.len(*i) > 0) else {
        return Phase::Epilogue(preamble, frame);
    };
    let len = preamble.len(segment);
    let into = match segment {
        1 => Into::Front(vec![0; len]),
        2 => Into::Middle(vec![0; len]),
        _ => Into::Data(BufMut::uncleared(len)),
    };
    Phase::Fill { preamble, frame, into, at: 0 }
}

/// Bytes before the tail that make its third segment aligned.
fn lead(preamble: &Preamble) -> usize {
    if preamble.len(3) == 0 {
        0
    } else {
        preamble.padded_offset(3).next_multiple_of(BLOCK) - preamble.padded_offset(3)
    }
}

fn fill_tail(preamble: Preamble, frame: Frame) -> Phase {
    let lead = lead(&preamble);
    let len = lead + preamble.padded_offset(MAX_SEGMENTS) + 16 + TAG;
    Phase::Fill { preamble, frame, into: Into::Tail(BufMut::uncleared(len)), at: lead }
}
