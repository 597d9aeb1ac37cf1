//! A bounded cursor over untrusted bytes. It knows lengths and versions; what values there are,
//! [`crate::Decode`] says.

use crate::DecodeError;

/// Reads forward; every length is checked against what is left.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Offset of `bytes[0]` in the outermost buffer, for error messages.
    base: usize,
}

impl<'a> Reader<'a> {
    /// A reader over all of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, base: 0 }
    }

    /// Bytes not yet read.
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// True if all bytes are read.
    pub fn is_empty(&self) -> bool {
        self.remaining() == 0
    }

    /// Bytes read so far.
    pub fn position(&self) -> usize {
        self.at
    }

    /// An error at the current position.
    pub fn error(&self, what: impl Into<String>) -> DecodeError {
        DecodeError { offset: self.base + self.at, what: what.into(), is_newer: false }
    }

    /// The same about something that only a later version can have written.
    pub fn newer(&self, what: impl Into<String>) -> DecodeError {
        DecodeError { is_newer: true, ..self.error(what) }
    }

    /// The next `n` bytes.
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], DecodeError> {
        if n > self.remaining() {
            return Err(self.error(format!("need {n} bytes, {} are left", self.remaining())));
        }
        let out = &self.bytes[self.at..self.at + n];
        self.at += n;
        Ok(out)
    }

    /// The next `N` bytes as an array.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    /// Everything that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        let out = &self.bytes[self.at..];
        self.at = self.bytes.len();
        out
    }

    /// A u32 that announces bytes or elements; nobody has compared it with what is left.
    fn announced(&mut self) -> Result<usize, DecodeError> {
        self.array().map(|bytes| u32::from_le_bytes(bytes) as usize)
    }

    /// A u32 length and that many bytes, unread.
    pub fn blob(&mut self) -> Result<&'a [u8], DecodeError> {
        let len = self.announced()?;
        self.take(len)
    }

    /// A u32 length and a reader over that many bytes.
    pub fn sub(&mut self) -> Result<Self, DecodeError> {
        let len = self.announced()?;
        let base = self.base + self.at;
        Ok(Self { bytes: self.take(len)?, at: 0, base })
    }

    /// A count of elements that each take at least `min_size` bytes; refuses a count that the bytes left
    /// cannot hold, so that nothing is allocated for it.
    pub fn count(&mut self, min_size: usize) -> Result<usize, DecodeError> {
        let n = self.announced()?;
        if n.saturating_mul(min_size.max(1)) > self.remaining() {
            return Err(self.error(format!("{n} elements announced, {} bytes are left", self.remaining())));
        }
        Ok(n)
    }

    /// Reads a structure with the header {u8 version, u8 compat, u32 length}. Fails if `compat` is newer than
    /// `known`; otherwise passes its version and a reader bounded to it to `body`, and skips the bytes that
    /// `body` left.
    pub fn versioned<T>(
        &mut self,
        known: u8,
        body: impl FnOnce(u8, &mut Self) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        let [version] = self.array()?;
        let [compat] = self.array()?;
        if compat > known {
            return Err(
                self.newer(format!("version {version} needs a reader of {compat}, this one knows {known}"))
            );
        }
        let mut inner = self.sub()?;
        body(version, &mut inner)
    }

    /// Fails if bytes are left.
    pub fn finish(&self) -> Result<(), DecodeError> {
        if self.is_empty() { Ok(()) } else { Err(self.error(format!("{} bytes too many", self.remaining()))) }
    }
}
