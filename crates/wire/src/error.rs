//! The error of decoding untrusted bytes.

use std::fmt;

/// A decode error, with the byte of the outermost buffer at which it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DecodeError {
    /// Offset in bytes from the start of the outermost buffer.
    pub offset: usize,
    /// The expected and the found value.
    pub what: String,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: {}", self.offset, self.what)
    }
}

impl std::error::Error for DecodeError {}
