//! Encodes frames, in either mode, into as few buffers as possible.

use crate::frame::{MAX_SEGMENTS, Preamble, epilogue, padded};
use crate::gcm::{Gcm, INLINE, TAG};
use stdx::{Buf, BufMut, Bufs, crc32c};
use wire::{Encode, Writer};

/// The sending direction.
#[derive(Debug, Default)]
pub(crate) struct Tx {
    gcm: Option<Gcm>,
    /// All bytes sent, until the handshake's signature is made from them.
    record: Option<Vec<u8>>,
    out: Bufs,
    /// Headers and small parts that follow `out`.
    small: Vec<u8>,
}

impl Tx {
    /// Records from the first byte on.
    pub fn new() -> Self {
        Self { record: Some(Vec::new()), ..Self::default() }
    }

    /// Bytes that wait to be taken.
    pub fn len(&self) -> usize {
        self.out.len() + self.small.len()
    }

    /// Everything encoded so far.
    pub fn take(&mut self) -> Option<Bufs> {
        self.flush_small();
        (!self.out.is_empty()).then(|| std::mem::take(&mut self.out))
    }

    /// Ends the record.
    pub fn take_record(&mut self) -> Vec<u8> {
        self.record.take().unwrap_or_default()
    }

    /// All further frames are encrypted.
    pub fn encrypt(&mut self, gcm: Gcm) {
        self.gcm = Some(gcm);
    }

    /// Bytes outside frames: the banner.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.small.extend_from_slice(bytes);
        if let Some(record) = &mut self.record {
            record.extend_from_slice(bytes);
        }
    }

    /// A frame without bulk.
    pub fn control<T: Encode + ?Sized>(&mut self, tag: u8, payload: &T) {
        self.frame(tag, &Writer::encode(payload), &[], &[], &Bufs::new());
    }

    /// Any frame.
    pub fn frame(&mut self, tag: u8, control: &[u8], front: &[u8], middle: &[u8], data: &Bufs) {
        let preamble = Preamble::new(tag, [control.len(), front.len(), middle.len(), data.len()]);
        match self.gcm.take() {
            None => self.plain(&preamble, control, front, middle, data),
            Some(mut gcm) => {
                self.secure(&mut gcm, &preamble, control, front, middle, data);
                self.gcm = Some(gcm);
            }
        }
    }

    fn plain(&mut self, preamble: &Preamble, control: &[u8], front: &[u8], middle: &[u8], data: &Bufs) {
        self.raw(&preamble.encode());
        self.raw(control);
        self.raw(&crc32c::update(!0, control).to_le_bytes());
        if preamble.segments == 1 {
            return;
        }
        self.raw(front);
        self.raw(middle);
        if !data.is_empty() {
            self.flush_small();
            self.out.append(data.clone());
        }
        // The data's checksum is combined from those that its blocks already have.
        let crcs = [crc32c::update(!0, front), crc32c::update(!0, middle), data.crc32c(!0)];
        self.raw(&epilogue(preamble.segments, crcs));
    }

    fn secure(
        &mut self,
        gcm: &mut Gcm,
        preamble: &Preamble,
        control: &[u8],
        front: &[u8],
        middle: &[u8],
        data: &Bufs,
    ) {
        assert!(self.record.is_none(), "the signature is made before encryption begins");
        let (inline, rest) = control.split_at(control.len().min(INLINE));
        let at = self.small.len();
        self.small.extend_from_slice(&preamble.encode());
        self.small.extend_from_slice(inline);
        self.small.resize(at + crate::frame::PREAMBLE + INLINE + TAG, 0);
        gcm.seal(&mut self.small[at..]);
        if !rest.is_empty() {
            let at = self.small.len();
            self.small.extend_from_slice(rest);
            self.small.resize(at + padded(rest.len()) + TAG, 0);
            gcm.seal(&mut self.small[at..]);
        }
        if preamble.segments > 1 {
            let mut tail = BufMut::zeroed(preamble.padded_offset(MAX_SEGMENTS) + 16 + TAG);
            let bytes = tail.as_mut_slice();
            let mut put = |segment: usize, skip: usize, part: &[u8]| {
                let at = preamble.padded_offset(segment) + skip;
                bytes[at..at + part.len()].copy_from_slice(part);
            };
            put(1, 0, front);
            put(2, 0, middle);
            let mut at = 0;
            for part in data.parts() {
                put(3, at, part);
                at += part.len();
            }
            put(MAX_SEGMENTS, 0, &[crate::frame::LATE_COMPLETE]);
            gcm.seal(tail.as_mut_slice());
            data.parts().iter().for_each(|part| tail.hold_like(part));
            if tail.as_mut_slice().len() <= 4096 {
                self.small.extend_from_slice(tail.as_mut_slice());
            } else {
                self.flush_small();
                self.out.push(tail.freeze());
            }
        }
    }

    fn flush_small(&mut self) {
        if !self.small.is_empty() {
            self.out.push(Buf::from(std::mem::take(&mut self.small)));
        }
    }
}
