//! The envelope of encrypted values: {u8 1, u64 magic, value} under a key, for one usage.

use crate::usage::Usage;
use crate::{AuthError, Key, KeyType};
use stdx::Rng;
use wire::{Decode, Encode, Reader, Writer};

const MAGIC: u64 = 0xff00_9cad_8826_aa55;

fn envelope<T: Encode + ?Sized>(value: &T) -> Vec<u8> {
    let mut w = Writer::new();
    w.put(&1u8);
    w.put(&MAGIC);
    w.put(value);
    w.into_vec()
}

/// The bare ciphertext of an enveloped value.
pub(crate) fn seal<T: Encode + ?Sized>(key: &Key, usage: Usage, value: &T, rng: &mut Rng) -> Vec<u8> {
    key.encrypt(usage, &envelope(value), rng)
}

/// Opens a bare ciphertext; whatever follows the value is ignored, as a later version may add fields.
pub(crate) fn open<T: Decode>(key: &Key, usage: Usage, cipher: &[u8]) -> Result<T, AuthError> {
    let plain = key.decrypt(usage, cipher)?;
    let mut r = Reader::new(&plain);
    // With a wrong key of type 1 even the padding may look right; the magic then does not.
    if r.get::<u8>().is_err() || r.get::<u64>() != Ok(MAGIC) {
        return Err(AuthError::WrongKey);
    }
    Ok(r.get()?)
}

/// Bytes that both holders of `key` compute from `value`, and nobody else: of type 1 the encoded ciphertext,
/// with its length; of type 2, where no two ciphertexts are equal, the bare value's HMAC.
pub(crate) fn proof<T: Encode + ?Sized>(key: &Key, value: &T) -> Vec<u8> {
    match key.kind() {
        KeyType::Aes => {
            let mut w = Writer::new();
            w.blob(&key.encrypt_aes(&envelope(value)));
            w.into_vec()
        }
        KeyType::Aes256k => key.sign(&Writer::encode(value)).to_vec(),
    }
}

/// Length of what [`seal_signed`] puts behind the ciphertext.
const TAG: usize = 32;

/// A ticket's ciphertext and its HMAC, for the holders of `key` only. With the cipher of type 1 alone, a peer
/// that knows the plaintext could flip bits of it, at the cost of the 16 bytes before: a client could give
/// its ticket other capabilities or a longer validity.
pub(crate) fn seal_signed<T: Encode + ?Sized>(key: &Key, value: &T, rng: &mut Rng) -> Vec<u8> {
    let mut cipher = seal(key, Usage::TicketInfo, value, rng);
    let tag = key.sign(&cipher);
    cipher.extend_from_slice(&tag);
    cipher
}

/// The inverse of [`seal_signed`].
pub(crate) fn open_signed<T: Decode>(key: &Key, signed: &[u8]) -> Result<T, AuthError> {
    let (cipher, tag) = signed.split_last_chunk::<TAG>().ok_or(AuthError::WrongKey)?;
    let differ = key.sign(cipher).iter().zip(tag).fold(0, |d, (a, b)| d | (a ^ b));
    if differ != 0 {
        return Err(AuthError::WrongKey);
    }
    open(key, Usage::TicketInfo, cipher)
}

/// Appends a u32 length and the ciphertext.
pub(crate) fn put_sealed<T: Encode + ?Sized>(
    w: &mut Writer,
    key: &Key,
    usage: Usage,
    value: &T,
    rng: &mut Rng,
) {
    w.blob(&seal(key, usage, value, rng));
}

/// Reads a u32 length and opens the ciphertext.
pub(crate) fn get_sealed<T: Decode>(r: &mut Reader<'_>, key: &Key, usage: Usage) -> Result<T, AuthError> {
    open(key, usage, r.blob()?)
}
