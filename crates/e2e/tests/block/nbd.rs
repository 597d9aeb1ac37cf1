//! A client of NBD that waits for each answer.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

const OPTION: &[u8; 8] = b"IHAVEOPT";
const GO: u32 = 7;
const ACKNOWLEDGED: u32 = 1;
const FIXED_NO_ZEROES: u32 = 3;
const REQUEST: u32 = 0x2560_9513;
const REPLY: u32 = 0x6744_6698;

/// A connection in which requests are made.
pub(super) struct Nbd {
    stream: UnixStream,
}

impl Nbd {
    /// Connects to an export by the URL that `nacre block map` prints.
    pub(super) fn connect(url: &str, export: &str) -> Self {
        let path = url.split_once("socket=").expect("a unix socket").1;
        let stream = UnixStream::connect(path).expect("it listens");
        let mut nbd = Self { stream };
        let hello: [u8; 18] = nbd.take();
        assert_eq!((&hello[..8], &hello[8..16]), (&b"NBDMAGIC"[..], &OPTION[..]));
        nbd.send(&FIXED_NO_ZEROES.to_be_bytes());
        let len = export.len() as u32;
        let head = [&OPTION[..], &GO.to_be_bytes(), &(len + 6).to_be_bytes(), &len.to_be_bytes()].concat();
        nbd.send(&[&head, export.as_bytes(), &[0, 0]].concat());
        loop {
            let [_, _, _, kind, len] = [nbd.number(), nbd.number(), nbd.number(), nbd.number(), nbd.number()];
            nbd.bytes(len as usize);
            assert!(kind & 1 << 31 == 0, "the server refuses {export}: {kind:#x}");
            if kind == ACKNOWLEDGED {
                return nbd;
            }
        }
    }

    pub(super) fn read(&mut self, offset: u64, len: u32) -> Vec<u8> {
        self.request(0, offset, len, &[]);
        self.bytes(len as usize)
    }

    pub(super) fn write(&mut self, offset: u64, data: &[u8]) {
        self.request(1, offset, data.len() as u32, data);
    }

    pub(super) fn flush(&mut self) {
        self.request(3, 0, 0, &[]);
    }

    /// Trims a range, which then reads as zeros.
    pub(super) fn trim(&mut self, offset: u64, len: u32) {
        self.request(4, offset, len, &[]);
    }

    fn request(&mut self, kind: u16, offset: u64, len: u32, data: &[u8]) {
        let head = [&REQUEST.to_be_bytes()[..], &[0, 0], &kind.to_be_bytes(), &[0; 8]].concat();
        self.send(&[&head, &offset.to_be_bytes()[..], &len.to_be_bytes(), data].concat());
        let (magic, error) = (self.number(), self.number());
        self.bytes(8);
        assert_eq!((magic, error), (REPLY, 0), "request {kind} of {len} bytes at {offset}");
    }

    fn send(&mut self, data: &[u8]) {
        self.stream.write_all(data).expect("it is connected");
    }

    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut data = [0; N];
        self.stream.read_exact(&mut data).expect("the server answers");
        data
    }

    fn number(&mut self) -> u32 {
        u32::from_be_bytes(self.take())
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut data = vec![0; len];
        self.stream.read_exact(&mut data).expect("the server answers");
        data
    }
}
