//! The envelope of encrypted values: {u8 1, u64 magic, value} under a key.

use crate::{AuthError, Key};
use wire::{Decode, Encode, Reader, Writer};

const MAGIC: u64 = 0xff00_9cad_8826_aa55;

/// The bare ciphertext of an enveloped value.
pub(crate) fn seal<T: Encode + ?Sized>(key: &Key, value: &T) -> Vec<u8> {
    let mut w = Writer::new();
    w.put(&1u8);
    w.put(&MAGIC);
    w.put(value);
    key.encrypt(w.as_slice())
}

/// Opens a bare ciphertext; whatever follows the value is ignored, as a later version may add fields.
pub(crate) fn open<T: Decode>(key: &Key, cipher: &[u8]) -> Result<T, AuthError> {
    let plain = key.decrypt(cipher)?;
    let mut r = Reader::new(&plain);
    // With a wrong key even the padding may look right; the magic then does not.
    if r.get::<u8>().is_err() || r.get::<u64>() != Ok(MAGIC) {
        return Err(AuthError::WrongKey);
    }
    Ok(r.get()?)
}

/// Length of what [`seal_signed`] puts behind the ciphertext.
const TAG: usize = 32;

/// A ciphertext and its HMAC, for the holders of `key` only. With the cipher alone, a peer that knows the
/// plaintext could flip bits of it, at the cost of the 16 bytes before: a client could give its ticket other
/// capabilities or a longer validity.
pub(crate) fn seal_signed<T: Encode + ?Sized>(key: &Key, value: &T) -> Vec<u8> {
    let mut cipher = seal(key, value);
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
    open(key, cipher)
}

/// Appends a u32 length and the ciphertext.
pub(crate) fn put_sealed<T: Encode + ?Sized>(w: &mut Writer, key: &Key, value: &T) {
    w.blob(&seal(key, value));
}

/// Reads a u32 length and opens the ciphertext.
pub(crate) fn get_sealed<T: Decode>(r: &mut Reader<'_>, key: &Key) -> Result<T, AuthError> {
    open(key, r.blob()?)
}
