//! Keys of both types and bytes that must not be shown.

use crate::krb5;
use crate::usage::Usage;
use crate::{AuthError, KeyType};
use aes::Aes128;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockDecryptMut as _, BlockEncryptMut as _, KeyIvInit as _};
use hmac::{Hmac, Mac as _};
use std::fmt;
use stdx::{Rng, Wall};
use wire::{Decode, DecodeError, Encode, Reader, Sample, Utime, Writer};

/// The only initialisation vector of type 1.
const IV: [u8; 16] = *b"cephsageyudagreg";
const AES_LEN: usize = 16;

/// A `CryptoKey`: type, creation stamp and secret. The default is "no key" (type 0).
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Key {
    created: Utime,
    material: Material,
}

#[derive(Clone, PartialEq, Eq, Default)]
enum Material {
    #[default]
    None,
    /// AES-128-CBC with PKCS#7 padding.
    Aes([u8; AES_LEN]),
    /// AES256-CTS-HMAC-SHA384-192.
    Aes256k([u8; krb5::KEY_LEN]),
}

impl Key {
    /// A new random key of type 1, which clients of every release can read.
    pub fn generate(now: Wall, rng: &mut Rng) -> Self {
        Self::generate_as(KeyType::Aes, now, rng)
    }

    /// A new random key.
    pub fn generate_as(kind: KeyType, now: Wall, rng: &mut Rng) -> Self {
        let material = match kind {
            KeyType::Aes => Material::Aes(random(rng)),
            KeyType::Aes256k => Material::Aes256k(random(rng)),
        };
        Self { created: now.into(), material }
    }

    /// A new session key for the holder of this one: of a type that it can read, and no weaker.
    pub(crate) fn session_key(&self, now: Wall, rng: &mut Rng) -> Self {
        Self::generate_as(self.kind(), now, rng)
    }

    /// The type; "no key" counts as type 1.
    pub fn kind(&self) -> KeyType {
        match self.material {
            Material::None | Material::Aes(_) => KeyType::Aes,
            Material::Aes256k(_) => KeyType::Aes256k,
        }
    }

    /// True for "no key".
    pub fn is_none(&self) -> bool {
        self.material == Material::None
    }

    fn secret(&self) -> &[u8] {
        match &self.material {
            Material::None => &[],
            Material::Aes(secret) => secret,
            Material::Aes256k(secret) => secret,
        }
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

    /// The ciphertext of `plain`. Type 1 knows no usages and draws nothing from `rng`.
    pub(crate) fn encrypt(&self, usage: Usage, plain: &[u8], rng: &mut Rng) -> Vec<u8> {
        match &self.material {
            Material::Aes256k(secret) => krb5::encrypt(secret, usage, random(rng), plain),
            Material::None | Material::Aes(_) => self.encrypt_aes(plain),
        }
    }

    /// The ciphertext under a key of type 1.
    pub(crate) fn encrypt_aes(&self, plain: &[u8]) -> Vec<u8> {
        let Material::Aes(secret) = &self.material else { panic!("encryption needs a key of type 1") };
        cbc::Encryptor::<Aes128>::new(secret.into(), &IV.into()).encrypt_padded_vec_mut::<Pkcs7>(plain)
    }

    /// The inverse of [`Self::encrypt`].
    pub(crate) fn decrypt(&self, usage: Usage, cipher: &[u8]) -> Result<Vec<u8>, AuthError> {
        match &self.material {
            Material::None => Err(AuthError::WrongKey),
            Material::Aes(secret) => cbc::Decryptor::<Aes128>::new(secret.into(), &IV.into())
                .decrypt_padded_vec_mut::<Pkcs7>(cipher)
                .map_err(|_| AuthError::WrongKey),
            Material::Aes256k(secret) => krb5::decrypt(secret, usage, cipher),
        }
    }

    /// HMAC-SHA256 of `bytes`; 32 zeros without a key, as AUTH_SIGNATURE has it (docs/protocol.md 1.3).
    pub fn sign(&self, bytes: &[u8]) -> [u8; 32] {
        if self.is_none() {
            return [0; 32];
        }
        let mut mac =
            Hmac::<sha2::Sha256>::new_from_slice(self.secret()).expect("HMAC takes a key of any length");
        mac.update(bytes);
        mac.finalize().into_bytes().into()
    }
}

fn random<const N: usize>(rng: &mut Rng) -> [u8; N] {
    let mut out = [0; N];
    rng.fill(&mut out);
    out
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_none() { "Key(none)" } else { "Key(***)" })
    }
}

impl Encode for Key {
    fn encode(&self, w: &mut Writer) {
        w.put(&if self.is_none() { 0u16 } else { self.kind() as u16 });
        w.put(&self.created);
        w.put(&u16::try_from(self.secret().len()).expect("a key is short"));
        w.raw(self.secret());
    }
}

impl Decode for Key {
    const MIN_SIZE: usize = 12;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (kind, created, len): (u16, Utime, u16) = (r.get()?, r.get()?, r.get()?);
        let secret = r.take(usize::from(len))?;
        let material = match (KeyType::of_number(kind), kind) {
            (None, 0) if len == 0 => Some(Material::None),
            (Some(KeyType::Aes), _) => secret.try_into().ok().map(Material::Aes),
            (Some(KeyType::Aes256k), _) => secret.try_into().ok().map(Material::Aes256k),
            (None, _) => None,
        };
        let material = material.ok_or_else(|| {
            r.error(format!(
                "a key of type {kind} with {len} bytes; known are type 1 (aes) with {AES_LEN} and type 2 \
                 (aes256k) with {}",
                krb5::KEY_LEN
            ))
        })?;
        Ok(Self { created, material })
    }
}

impl Sample for Key {
    fn sample(rng: &mut Rng) -> Self {
        let kind = if rng.below(2) == 0 { KeyType::Aes } else { KeyType::Aes256k };
        Self::generate_as(kind, Wall(rng.below(1 << 60)), rng)
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
        for (kind, start) in [(KeyType::Aes, "AQ"), (KeyType::Aes256k, "AgA")] {
            let key = Key::generate_as(kind, Wall(5), &mut Rng::from_seed(1));
            assert_eq!(Key::from_base64(&key.to_base64()), Ok(key.clone()));
            assert!(key.to_base64().starts_with(start));
            assert_eq!((key.kind(), &*format!("{key:?}")), (kind, "Key(***)"));
        }
    }

    #[test]
    fn refuses_keys_that_it_cannot_use() {
        for text in
            ["", "!", "AQ==", &BASE64.encode([2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0]), "AAAAAAAAAAAAAAAA"]
        {
            assert!(matches!(Key::from_base64(text), Err(AuthError::BadKey(_))), "{text}");
        }
        for (kind, len) in [(0, 16), (1, 15), (1, 32), (2, 16), (2, 33), (3, 32)] {
            let key = [&[kind, 0, 0, 0, 0, 0, 0, 0, 0, 0, len, 0][..], &vec![5; usize::from(len)]].concat();
            let Err(AuthError::BadKey(what)) = Key::from_base64(&BASE64.encode(key)) else {
                panic!("type {kind} with {len} bytes was taken");
            };
            assert!(what.contains(&format!("a key of type {kind} with {len} bytes")), "{what}");
        }
    }

    #[test]
    fn decrypts_only_with_the_same_key() {
        const USAGE: Usage = Usage::Authorize;
        for kind in [KeyType::Aes, KeyType::Aes256k] {
            let mut rng = Rng::from_seed(2);
            let (a, b) = (a_key(kind, &mut rng), a_key(kind, &mut rng));
            for len in [0, 1, 15, 16, 17, 100] {
                let cipher = a.encrypt(USAGE, &vec![7; len], &mut rng);
                let expected = if kind == KeyType::Aes { (len / 16 + 1) * 16 } else { 16 + len + 24 };
                assert_eq!(cipher.len(), expected);
                assert_eq!(a.decrypt(USAGE, &cipher), Ok(vec![7; len]));
                assert_ne!(b.decrypt(USAGE, &cipher), Ok(vec![7; len]));
            }
            assert_eq!(a.decrypt(USAGE, &[1; 15]), Err(AuthError::WrongKey));
            assert_eq!(Key::default().decrypt(USAGE, &[1; 16]), Err(AuthError::WrongKey));
        }
    }

    fn a_key(kind: KeyType, rng: &mut Rng) -> Key {
        Key::generate_as(kind, Wall(0), rng)
    }
}
