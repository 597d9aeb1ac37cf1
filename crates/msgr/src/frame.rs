//! Frames: tags, preamble, epilogue and their checksums (docs/protocol.md 1.2).

use crate::Reason;
use stdx::crc32c;

/// Frame tags.
pub(crate) mod tag {
    pub const HELLO: u8 = 1;
    pub const AUTH_REQUEST: u8 = 2;
    pub const AUTH_BAD_METHOD: u8 = 3;
    pub const AUTH_REPLY_MORE: u8 = 4;
    pub const AUTH_REQUEST_MORE: u8 = 5;
    pub const AUTH_DONE: u8 = 6;
    pub const AUTH_SIGNATURE: u8 = 7;
    pub const CLIENT_IDENT: u8 = 8;
    pub const SERVER_IDENT: u8 = 9;
    pub const IDENT_MISSING_FEATURES: u8 = 10;
    pub const SESSION_RECONNECT: u8 = 11;
    pub const SESSION_RESET: u8 = 12;
    pub const SESSION_RETRY: u8 = 13;
    pub const SESSION_RETRY_GLOBAL: u8 = 14;
    pub const SESSION_RECONNECT_OK: u8 = 15;
    pub const WAIT: u8 = 16;
    pub const MESSAGE: u8 = 17;
    pub const KEEPALIVE2: u8 = 18;
    pub const KEEPALIVE2_ACK: u8 = 19;
    pub const ACK: u8 = 20;
}

pub(crate) const PREAMBLE: usize = 32;
/// Bytes of the preamble that its checksum covers.
const PREAMBLE_SUMMED: usize = 28;
/// late_status and three checksums.
pub(crate) const EPILOGUE: usize = 13;
pub(crate) const MAX_SEGMENTS: usize = 4;
/// Alignment that peers announce for the four segments; memory need not follow it.
const ALIGN: [u16; MAX_SEGMENTS] = [8, 8, 8, 4096];

/// Low nibble of late_status: the frame is whole.
pub(crate) const LATE_COMPLETE: u8 = 0xe;
/// Low nibble of late_status: the sender gave up half way, ignore the frame.
pub(crate) const LATE_ABORTED: u8 = 0x1;

/// The longest control payload: tickets with long capability strings.
const MAX_CONTROL: u32 = 64 << 10;
/// Kernels refuse more.
const MAX_FRONT: u32 = 16 << 20;
/// Ceph's OSDs take writes up to 90 MB.
const MAX_DATA: u32 = 96 << 20;

/// The start of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Preamble {
    pub tag: u8,
    pub segments: usize,
    pub lens: [u32; MAX_SEGMENTS],
}

impl Preamble {
    /// For segments of these lengths; empty ones at the end are not counted.
    pub fn new(tag: u8, lens: [usize; MAX_SEGMENTS]) -> Self {
        let segments = lens.iter().rposition(|l| *l > 0).map_or(1, |last| last + 1);
        Self { tag, segments, lens: lens.map(|l| u32::try_from(l).expect("a segment of at most 4 GiB")) }
    }

    pub fn encode(&self) -> [u8; PREAMBLE] {
        let mut out = [0; PREAMBLE];
        out[0] = self.tag;
        out[1] = self.segments as u8;
        for i in 0..self.segments {
            out[2 + 6 * i..6 + 6 * i].copy_from_slice(&self.lens[i].to_le_bytes());
            out[6 + 6 * i..8 + 6 * i].copy_from_slice(&ALIGN[i].to_le_bytes());
        }
        let crc = crc32c::update(0, &out[..PREAMBLE_SUMMED]);
        out[PREAMBLE_SUMMED..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Parses and checks all that can be checked before anything is allocated.
    pub fn parse(bytes: &[u8; PREAMBLE]) -> Result<Self, Reason> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if word(PREAMBLE_SUMMED) != crc32c::update(0, &bytes[..PREAMBLE_SUMMED]) {
            return Err(Reason::Crc("preamble"));
        }
        let (tag, segments, flags) = (bytes[0], usize::from(bytes[1]), bytes[26]);
        if !(tag::HELLO..=tag::ACK).contains(&tag) {
            return Err(Reason::Unexpected(tag));
        }
        if flags != 0 {
            return Err(Reason::Frame("flags that were not negotiated"));
        }
        let lens: [u32; MAX_SEGMENTS] = std::array::from_fn(|i| word(2 + 6 * i));
        let limits = match tag {
            tag::MESSAGE => [MAX_CONTROL, MAX_FRONT, MAX_FRONT, MAX_DATA],
            _ => [MAX_CONTROL, 0, 0, 0],
        };
        let most = if tag == tag::MESSAGE { MAX_SEGMENTS } else { 1 };
        if !(1..=most).contains(&segments) || lens[segments..].iter().any(|l| *l != 0) {
            return Err(Reason::Frame("number of segments"));
        }
        if let Some((len, _)) = lens.iter().zip(limits).find(|(len, max)| *len > max) {
            return Err(Reason::Oversize(*len));
        }
        if lens[0] == 0 && tag != tag::WAIT {
            return Err(Reason::Frame("an empty control segment"));
        }
        Ok(Self { tag, segments, lens })
    }

    /// Length of segment `i`.
    pub fn len(&self, i: usize) -> usize {
        self.lens[i] as usize
    }

    /// Length of the segments after the first.
    pub fn payload(&self) -> u64 {
        self.lens[1..].iter().map(|l| u64::from(*l)).sum()
    }

    /// The offset of segment `i` (1..=3) in a decrypted tail, and for 4 that of its epilogue.
    pub fn padded_offset(&self, i: usize) -> usize {
        (1..i.min(self.segments)).map(|s| padded(self.len(s))).sum()
    }
}

/// Rounded up to AES blocks.
pub(crate) fn padded(len: usize) -> usize {
    len.next_multiple_of(16)
}

/// The epilogue of crc mode. A segment that is not counted has checksum 0, an empty one that of no bytes.
pub(crate) fn epilogue(segments: usize, crcs: [u32; 3]) -> [u8; EPILOGUE] {
    let mut out = [0; EPILOGUE];
    out[0] = LATE_COMPLETE;
    for (i, crc) in crcs.iter().enumerate().take(segments - 1) {
        out[1 + 4 * i..5 + 4 * i].copy_from_slice(&crc.to_le_bytes());
    }
    out
}

/// True if late_status says that the frame is complete, false if its sender gave it up.
pub(crate) fn is_complete(late_status: u8) -> Result<bool, Reason> {
    match late_status & 0xf {
        LATE_COMPLETE => Ok(true),
        LATE_ABORTED => Ok(false),
        _ => Err(Reason::Frame("late status")),
    }
}
