//! What goes into a connection, and what comes out of it.

use stdx::Bufs;
use wire::Errno;

/// The most bytes of one read or write.
pub const MAX_PAYLOAD: u32 = 32 << 20;
/// What is offered to clients, under one name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Export {
    /// The name; clients may also give none.
    pub name: String,
    /// Size in bytes.
    pub size: u64,
    /// Nothing can be written.
    pub read_only: bool,
    /// The size of requests that suits best, a power of two.
    pub preferred_block: u32,
}

/// Whether a connection has to be encrypted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tls {
    /// It can't be.
    Off,
    /// Nothing is told to a client before it has begun TLS.
    Demanded,
    /// It is.
    On,
}

/// Something that a client wants done.
#[derive(Clone, PartialEq, Debug)]
pub struct Command {
    /// The client's number for it, for the answer.
    pub cookie: u64,
    /// What.
    pub what: What,
}

/// A request for data, or for a change of them.
#[derive(Clone, PartialEq, Debug)]
pub enum What {
    /// Reads bytes.
    Read {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u32,
    },
    /// Writes bytes.
    Write {
        /// First byte.
        offset: u64,
        /// Bytes.
        data: Bufs,
    },
    /// Makes bytes zeros that may give back their room; also what trims ask for.
    Zero {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u32,
    },
    /// Waits until what was answered is durable.
    Flush,
}

/// What is to be done for a connection.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// Bytes for the client.
    Send(Bufs),
    /// A request, to be answered with [`Form::answer`](super::Form::answer).
    Command(Command),
    /// All that follows, in both directions, is in TLS. Nothing comes before the handshake: the client waits
    /// for what was sent.
    StartTls,
    /// The client has left: once its requests are answered the connection ends.
    Left,
}

/// The reason that a connection is ended.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Violation(pub String);

/// The outcome of a command.
#[derive(Clone, PartialEq, Debug)]
pub enum Answer {
    /// Data that were read from this offset.
    Data {
        /// First byte.
        offset: u64,
        /// Bytes.
        data: Bufs,
    },
    /// A read has failed.
    ReadFailed(Errno),
    /// Anything else has ended.
    Done(Result<(), Errno>),
}
