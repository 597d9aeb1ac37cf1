//! A growing buffer of encoded values. It knows lengths and versions; how a value is encoded,
//! [`crate::Encode`] says.

/// The encoder's output.
#[derive(Clone, Default, Debug)]
pub struct Writer {
    bytes: Vec<u8>,
}

/// Most structures fit; growing to it by doubling takes longer than encoding them.
const FIRST_ROOM: usize = 64;

impl Writer {
    /// An empty buffer.
    pub fn new() -> Self {
        Self::with_room(FIRST_ROOM)
    }

    /// An empty buffer with capacity for this many bytes.
    pub fn with_room(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes) }
    }

    /// The bytes written.
    pub fn into_vec(self) -> Vec<u8> {
        self.bytes
    }

    /// The bytes written so far.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes written so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// True if nothing was written.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Appends raw bytes, without a length.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends a length of a container. Panics beyond 4 GiB, which no bounded buffer reaches.
    pub fn count(&mut self, n: usize) {
        let n = u32::try_from(n).expect("a container of at most 4 Gi elements");
        self.raw(&n.to_le_bytes());
    }

    /// Appends a u32 length and the bytes.
    pub fn blob(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.raw(bytes);
    }

    /// Appends a u32 length and what `body` writes.
    pub fn sized(&mut self, body: impl FnOnce(&mut Self)) {
        let at = self.bytes.len();
        self.raw(&[0; 4]);
        body(self);
        let len = u32::try_from(self.bytes.len() - at - 4).expect("a structure of at most 4 GiB");
        self.bytes[at..at + 4].copy_from_slice(&len.to_le_bytes());
    }

    /// Appends a structure with the header {u8 version, u8 compat, u32 length}.
    pub fn versioned(&mut self, version: u8, compat: u8, body: impl FnOnce(&mut Self)) {
        self.raw(&[version, compat]);
        self.sized(body);
    }
}
