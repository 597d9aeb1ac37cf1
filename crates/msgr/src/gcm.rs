//! AES-128-GCM of secure mode: one operation, one nonce (docs/protocol.md 1.2).

use crate::Reason;
use auth::Secret;
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

pub(crate) const TAG: usize = 16;
/// The part of the first segment that travels in the block of the preamble.
pub(crate) const INLINE: usize = 48;

/// One direction.
pub(crate) struct Gcm {
    key: LessSafeKey,
    fixed: [u8; 4],
    counter: u64,
}

impl std::fmt::Debug for Gcm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Gcm(***)")
    }
}

impl Gcm {
    /// The keys of both directions, server to client first. `None` if the secret is too short.
    pub fn pair(secret: &Secret) -> Option<(Self, Self)> {
        let bytes = secret.0.get(..Secret::SECURE_LEN)?;
        let (key, rest) = bytes.split_at(16);
        Some((Self::new(key, &rest[..12]), Self::new(key, &rest[12..24])))
    }

    fn new(key: &[u8], nonce: &[u8]) -> Self {
        let key = UnboundKey::new(&AES_128_GCM, key).expect("a key of 16 bytes");
        let (fixed, counter) = nonce.split_at(4);
        Self {
            key: LessSafeKey::new(key),
            fixed: fixed.try_into().expect("4 bytes"),
            counter: u64::from_le_bytes(counter.try_into().expect("8 bytes")),
        }
    }

    fn next_nonce(&mut self) -> Nonce {
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&self.fixed);
        bytes[4..].copy_from_slice(&self.counter.to_le_bytes());
        self.counter = self.counter.wrapping_add(1);
        Nonce::assume_unique_for_key(bytes)
    }

    /// Encrypts all but the last [`TAG`] bytes in place and writes the tag there.
    pub fn seal(&mut self, bytes: &mut [u8]) {
        let (plain, tag) = bytes.split_at_mut(bytes.len() - TAG);
        let nonce = self.next_nonce();
        let made = self
            .key
            .seal_in_place_separate_tag(nonce, Aad::empty(), plain)
            .expect("a frame is not that long");
        tag.copy_from_slice(made.as_ref());
    }

    /// Decrypts in place, checking the tag in the last [`TAG`] bytes.
    pub fn open(&mut self, bytes: &mut [u8]) -> Result<(), Reason> {
        let nonce = self.next_nonce();
        self.key.open_in_place(nonce, Aad::empty(), bytes).map(drop).map_err(|_| Reason::Decrypt)
    }
}
