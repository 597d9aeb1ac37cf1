//! Keys of type 1 (AES-128) and bytes that must not be shown.

use crate::AuthError;
use aes::Aes128;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockDecryptMut as _, BlockEncryptMut as _, KeyIvInit as _};
use hmac::{Hmac, Mac as _};
use std::fmt;
use stdx::{Rng, Wall};
use wire::{Decode, DecodeError, Encode, Reader, Sample, Utime, Writer};

/// The only initialisation vector of cephx.
const IV: [u8; 16] = *b"cephsageyudagreg";
/// AES-128. Ceph 20 has a second type (AES-256), which 16.2 cannot read: not created and not accepted here.
const TYPE_AES: u16 = 1;
const AES_LEN: usize = 16;

/// A `CryptoKey`: type, creation stamp and secret. The default is "no key" (type 0).
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Key {
    created: Utime,
    /// Empty or [`AES_LEN`] bytes.
    secret: Vec<u8>,
}

impl Key {
    /// A new random key.
    pub fn generate(now: Wall, rng: &mut Rng) -> Self {
        let mut secret = vec![0; AES_LEN];
        rng.fill(&mut secret);
        Self { created: now.into(), secret }
    }

    /// True for "no key".
    pub fn is_none(&self) -> bool {
        self.secret.is_empty()
    }

    /// The form of keyrings and of `ceph auth get-key`.
    pub fn to_base64(&self) -> String {
        BASE64.encode(Writer::encode(self))
    }

    /// Parses the base64 form.
    pub fn from_base64(text: &str) -> Result<Self, AuthError> {
        let bytes = BASE64.decode(text.trim()).map_err(|e| AuthError::BadKey(format!("not base64: {e}")))?;
        let mut r = Reader::new(&bytes);
        let key: Self = r.get().map_err(|e| AuthError::BadKey(e.what))?;
        if key.is_none() {
            return Err(AuthError::BadKey("an empty key".into()));
        }
        r.finish().map_err(|e| AuthError::BadKey(e.what))?;
        Ok(key)
    }

    /// AES-128-CBC with PKCS#7 padding.
    pub fn encrypt(&self, plain: &[u8]) -> Vec<u8> {
        assert!(!self.is_none(), "encryption needs a key");
        cbc::Encryptor::<Aes128>::new(self.secret[..].into(), &IV.into())
            .encrypt_padded_vec_mut::<Pkcs7>(plain)
    }

    /// The inverse of [`Self::encrypt`].
    pub fn decrypt(&self, cipher: &[u8]) -> Result<Vec<u8>, AuthError> {
        if self.is_none() {
            return Err(AuthError::WrongKey);
        }
        cbc::Decryptor::<Aes128>::new(self.secret[..].into(), &IV.into())
            .decrypt_padded_vec_mut::<Pkcs7>(cipher)
            .map_err(|_| AuthError::WrongKey)
    }

    /// HMAC-SHA256 of `bytes`; 32 zeros without a key, as AUTH_SIGNATURE has it (docs/protocol.md 1.3).
    pub fn sign(&self, bytes: &[u8]) -> [u8; 32] {
        if self.is_none() {
            return [0; 32];
        }
        let mut mac =
            Hmac::<sha2::Sha256>::new_from_slice(&self.secret).expect("HMAC takes a key of any length");
        mac.update(bytes);
        mac.finalize().into_bytes().into()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_none() { "Key(none)" } else { "Key(***)" })
    }
}

impl Encode for Key {
    fn encode(&self, w: &mut Writer) {
        w.put(&if self.is_none() { 0u16 } else { TYPE_AES });
        w.put(&self.created);
        w.put(&u16::try_from(self.secret.len()).expect("a key is short"));
        w.raw(&self.secret);
    }
}

impl Decode for Key {
    const MIN_SIZE: usize = 12;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (kind, created, len): (u16, Utime, u16) = (r.get()?, r.get()?, r.get()?);
        match (kind, usize::from(len)) {
            (0, 0) | (TYPE_AES, AES_LEN) => Ok(Self { created, secret: r.take(usize::from(len))?.to_vec() }),
            (kind, len) => {
                Err(r.error(format!("a key of type {kind} with {len} bytes; only type 1 with 16 is known")))
            }
        }
    }
}

impl Sample for Key {
    fn sample(rng: &mut Rng) -> Self {
        Self::generate(Wall(rng.below(1 << 60)), rng)
    }
}

/// Bytes that are never printed: the connection secret.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret(pub Vec<u8>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({} bytes)", self.0.len())
    }
}

impl Encode for Secret {
    fn encode(&self, w: &mut Writer) {
        w.blob(&self.0);
    }
}

impl Decode for Secret {
    const MIN_SIZE: usize = 4;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.blob().map(|b| Self(b.to_vec()))
    }
}

impl Sample for Secret {
    fn sample(rng: &mut Rng) -> Self {
        Self(Sample::sample(rng))
    }
}

impl Secret {
    /// The size that secure mode needs: 16 B key, two nonces of 12 B, the rest unused.
    pub const SECURE_LEN: usize = 64;

    /// A random secret for secure mode, an empty one for crc mode.
    pub(crate) fn generate(secure: bool, rng: &mut Rng) -> Self {
        let mut bytes = vec![0; if secure { Self::SECURE_LEN } else { 0 }];
        rng.fill(&mut bytes);
        Self(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_round_trips_and_debug_hides_the_secret() {
        let key = Key::generate(Wall(5), &mut Rng::from_seed(1));
        assert_eq!(Key::from_base64(&key.to_base64()), Ok(key.clone()));
        assert!(key.to_base64().starts_with("AQ"));
        assert_eq!(format!("{key:?}"), "Key(***)");
    }

    #[test]
    fn refuses_keys_that_it_cannot_use() {
        for text in
            ["", "!", "AQ==", &BASE64.encode([2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0]), "AAAAAAAAAAAAAAAA"]
        {
            assert!(matches!(Key::from_base64(text), Err(AuthError::BadKey(_))), "{text}");
        }
    }

    #[test]
    fn decrypts_only_with_the_same_key() {
        let mut rng = Rng::from_seed(2);
        let (a, b) = (Key::generate(Wall(0), &mut rng), Key::generate(Wall(0), &mut rng));
        for len in [0, 1, 15, 16, 17, 100] {
            let cipher = a.encrypt(&vec![7; len]);
            assert_eq!(cipher.len(), (len / 16 + 1) * 16);
            assert_eq!(a.decrypt(&cipher), Ok(vec![7; len]));
            assert_ne!(b.decrypt(&cipher), Ok(vec![7; len]));
        }
        assert_eq!(a.decrypt(&[1; 15]), Err(AuthError::WrongKey));
        assert_eq!(Key::default().decrypt(&[1; 16]), Err(AuthError::WrongKey));
    }
}
