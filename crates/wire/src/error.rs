//! The error of decoding untrusted bytes.

use std::fmt;

/// What was wrong, and at which byte of the outermost buffer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DecodeError {
    /// Offset in bytes from the start of the outermost buffer.
    pub offset: usize,
    /// What was expected and what was found.
    pub what: String,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: {}", self.offset, self.what)
    }
}

impl std::error::Error for DecodeError {}
