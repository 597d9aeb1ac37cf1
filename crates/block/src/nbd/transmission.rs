//! Requests and answers.

use super::connection::{Connection, Phase};
use super::number::{be16, be32, be64};
use super::types::{Answer, Command, Event, Export, MAX_PAYLOAD, Violation, What};
use stdx::{Buf, Bufs};
use wire::Errno;

const REQUEST_MAGIC: u32 = 0x2560_9513;
const SIMPLE_MAGIC: u32 = 0x6744_6698;
const CHUNK_MAGIC: u32 = 0x668e_33ef;

/// Flags of an export.
mod flag {
    pub(super) const HAS_FLAGS: u16 = 1;
    pub(super) const READ_ONLY: u16 = 1 << 1;
    pub(super) const SEND_FLUSH: u16 = 1 << 2;
    pub(super) const SEND_FUA: u16 = 1 << 3;
    pub(super) const SEND_TRIM: u16 = 1 << 5;
    pub(super) const SEND_WRITE_ZEROES: u16 = 1 << 6;
    pub(super) const CAN_MULTI_CONN: u16 = 1 << 8;
}

/// Kinds of requests.
mod kind {
    pub(super) const READ: u16 = 0;
    pub(super) const WRITE: u16 = 1;
    pub(super) const DISCONNECT: u16 = 2;
    pub(super) const FLUSH: u16 = 3;
    pub(super) const TRIM: u16 = 4;
    pub(super) const WRITE_ZEROES: u16 = 6;
}

/// A request's flag: zeros are to keep their room.
const NO_HOLE: u16 = 2;
/// A chunk's flag: it is the last one.
const DONE: u16 = 1;

/// Kinds of chunks.
mod chunk {
    pub(super) const OFFSET_DATA: u16 = 1;
    pub(super) const ERROR: u16 = 1 << 15 | 1;
}

/// What clients may do with an export. Several connections see the same data: a write is in the cluster when
/// it is answered, and there is no cache.
pub(super) fn flags(export: &Export) -> u16 {
    let common = flag::HAS_FLAGS | flag::SEND_FLUSH | flag::SEND_FUA | flag::CAN_MULTI_CONN;
    match export.read_only {
        true => common | flag::READ_ONLY,
        false => common | flag::SEND_TRIM | flag::SEND_WRITE_ZEROES,
    }
}

impl Connection {
    /// Takes the head of a request.
    pub(super) fn request(&mut self, head: &[u8]) -> Result<Vec<Event>, Violation> {
        if be32(head, 0) != REQUEST_MAGIC {
            return Err(Violation("a request does not begin with NBD's magic number".into()));
        }
        let (flags, kind) = (be16(head, 4), be16(head, 6));
        let (cookie, offset, len) = (be64(head, 8), be64(head, 16), be32(head, 24));
        self.command(flags, kind, cookie, offset, len)
    }

    /// The form of answers, which does not change after the negotiation.
    pub fn form(&self) -> Form {
        Form { structured: self.structured }
    }

    /// The answer to a command.
    pub fn answer(&self, cookie: u64, what: &Answer) -> Bufs {
        self.form().answer(cookie, what)
    }

    fn command(
        &mut self,
        flags: u16,
        kind: u16,
        cookie: u64,
        offset: u64,
        len: u32,
    ) -> Result<Vec<Event>, Violation> {
        let command = |what| Ok(vec![Event::Command(Command { cookie, what })]);
        let fails = |answer| Ok(vec![Event::Send(self.answer(cookie, &answer))]);
        match kind {
            kind::READ if len > MAX_PAYLOAD => fails(Answer::ReadFailed(Errno::EINVAL)),
            kind::READ => command(What::Read { offset, len }),
            kind::WRITE if len > MAX_PAYLOAD => {
                Err(Violation(format!("a write has {len} bytes, the most is {MAX_PAYLOAD}")))
            }
            kind::WRITE if len == 0 => command(What::Write { offset, data: Bufs::new() }),
            kind::WRITE => {
                self.phase = Phase::Payload { cookie, offset, len };
                Ok(Vec::new())
            }
            kind::DISCONNECT => {
                self.phase = Phase::Left;
                Ok(vec![Event::Left])
            }
            kind::FLUSH => command(What::Flush),
            kind::TRIM => command(What::Zero { offset, len }),
            kind::WRITE_ZEROES if flags & NO_HOLE == 0 => command(What::Zero { offset, len }),
            // Room is kept by writing zeros, of which only a bounded number fits into memory.
            kind::WRITE_ZEROES if len <= MAX_PAYLOAD => {
                command(What::Write { offset, data: Buf::zeros(len as usize).into() })
            }
            _ => fails(Answer::Done(Err(Errno::EINVAL))),
        }
    }
}

/// The form of the answers on a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Form {
    structured: bool,
}

impl Form {
    /// The answer to a command.
    pub fn answer(self, cookie: u64, what: &Answer) -> Bufs {
        answer_bytes(self.structured, cookie, what)
    }
}

/// The number of an error that NBD knows.
fn code(errno: Errno) -> u32 {
    match errno {
        Errno::EPERM | Errno::EROFS => 1,
        Errno::ENOMEM => 12,
        Errno::EINVAL => 22,
        Errno::ENOSPC | Errno::EDQUOT => 28,
        Errno::EOPNOTSUPP => 95,
        Errno::ESHUTDOWN => 108,
        _ => 5,
    }
}

fn simple(cookie: u64, error: u32) -> Bufs {
    let parts = [&SIMPLE_MAGIC.to_be_bytes()[..], &error.to_be_bytes(), &cookie.to_be_bytes()];
    Buf::copy_from(&parts.concat()).into()
}

fn chunk_head(kind: u16, cookie: u64, len: u32) -> Vec<u8> {
    let parts = [
        &CHUNK_MAGIC.to_be_bytes()[..],
        &DONE.to_be_bytes(),
        &kind.to_be_bytes(),
        &cookie.to_be_bytes(),
        &len.to_be_bytes(),
    ];
    parts.concat()
}

/// The answer to a command.
fn answer_bytes(structured: bool, cookie: u64, answer: &Answer) -> Bufs {
    match answer {
        Answer::Done(result) => simple(cookie, result.map_or_else(code, |()| 0)),
        Answer::ReadFailed(errno) if structured => {
            // The number, and a message of no length.
            let mut bytes = chunk_head(chunk::ERROR, cookie, 6);
            bytes.extend(code(*errno).to_be_bytes());
            bytes.extend([0, 0]);
            Buf::copy_from(&bytes).into()
        }
        Answer::ReadFailed(errno) => simple(cookie, code(*errno)),
        Answer::Data { offset, data } => {
            let mut out = if structured {
                let mut bytes = chunk_head(chunk::OFFSET_DATA, cookie, 8 + data.len() as u32);
                bytes.extend(offset.to_be_bytes());
                Bufs::from(Buf::copy_from(&bytes))
            } else {
                simple(cookie, 0)
            };
            out.append(data.clone());
            out
        }
    }
}
