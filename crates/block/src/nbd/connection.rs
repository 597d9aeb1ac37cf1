//! How far a connection is, and what it wants next.

use super::number::{be32, be64};
use super::types::{Command, Event, Export, Tls, Violation, What};
use stdx::Buf;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// The client's flags follow.
    Flags,
    /// The head of an option follows.
    Option,
    /// The data of an option follow.
    OptionData {
        option: u32,
        len: u32,
    },
    /// The head of a request follows.
    Request,
    /// The data of a write follow.
    Payload {
        cookie: u64,
        offset: u64,
        len: u32,
    },
    Left,
}

/// The server's end of a connection.
#[derive(Debug)]
pub struct Connection {
    pub(super) export: Export,
    pub(super) phase: Phase,
    pub(super) tls: Tls,
    /// The client knows that 124 zeros are not sent.
    pub(super) no_zeroes: bool,
    /// Reads are answered in chunks.
    pub(super) structured: bool,
}

impl Connection {
    /// The number of bytes that [`Self::take`] wants next; 0 once the client has left.
    pub fn wants(&self) -> usize {
        match self.phase {
            Phase::Flags => 4,
            Phase::Option => 16,
            Phase::OptionData { len, .. } | Phase::Payload { len, .. } => len as usize,
            Phase::Request => 28,
            Phase::Left => 0,
        }
    }

    /// Takes the bytes that were wanted.
    pub fn take(&mut self, bytes: Buf) -> Result<Vec<Event>, Violation> {
        assert_eq!(bytes.len(), self.wants(), "as many bytes as were wanted");
        match self.phase {
            Phase::Flags => self.client_flags(be32(&bytes, 0)),
            Phase::Option => self.option_head(be64(&bytes, 0), be32(&bytes, 8), be32(&bytes, 12)),
            Phase::OptionData { option, .. } => self.option(option, &bytes),
            Phase::Request => self.request(&bytes),
            Phase::Payload { cookie, offset, .. } => {
                self.phase = Phase::Request;
                let what = What::Write { offset, data: bytes.into() };
                Ok(vec![Event::Command(Command { cookie, what })])
            }
            Phase::Left => Ok(Vec::new()),
        }
    }
}
