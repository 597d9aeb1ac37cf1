//! A message as the messenger carries it: header fields and undecoded parts.

use stdx::Bufs;

/// The parts of a MESSAGE frame (docs/protocol.md 1.2) that have a meaning above the messenger; sequence
/// numbers and acknowledgements stay below.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RawMsg {
    /// Message type number.
    pub kind: u16,
    /// Version of the encoding of `front`.
    pub version: u16,
    /// Oldest version that a reader must know.
    pub compat: u16,
    /// Transaction id of the sender; a reply carries that of its request.
    pub tid: u64,
    /// 63 is the default; higher goes first.
    pub priority: u16,
    /// The encoded body.
    pub front: Vec<u8>,
    /// Rarely used: xattrs in cap messages.
    pub middle: Vec<u8>,
    /// Bulk data.
    pub data: Bufs,
}
