//! The error of decoding untrusted bytes.

use std::fmt;

/// A decode error, with the byte of the outermost buffer at which it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DecodeError {
    /// Offset in bytes from the start of the outermost buffer.
    pub offset: usize,
    /// The expected and the found value.
    pub what: String,
    /// True if the bytes are of a version, or have a kind of element, that comes later than this reader.
    pub is_newer: bool,
}

impl DecodeError {
    /// An error about bytes as a whole.
    pub fn of_all(what: impl Into<String>) -> Self {
        Self { offset: 0, what: what.into(), is_newer: false }
    }

    /// The error as it is told of stored bytes: what a later version has stored is not damaged, and that
    /// version can read it.
    pub fn of_stored(&self) -> String {
        match self.is_newer {
            true => format!("{self}: {NEWER}"),
            false => self.to_string(),
        }
    }
}

/// What to do about stored bytes that only a later version can read. Nothing was changed.
pub const NEWER: &str = "a later version of nacre has written it; start that version or a later one";

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: {}", self.offset, self.what)
    }
}

impl std::error::Error for DecodeError {}
