//! AES256-CTS-HMAC-SHA384-192 of RFC 8009, the cipher of keys of type 2. Unlike type 1 it notices every
//! change of the ciphertext, and hides that two plaintexts are equal.

use crate::{AuthError, usage::Usage};
use aes::Aes256;
use cbc::cipher::block_padding::NoPadding;
use cbc::cipher::{
    BlockDecrypt as _, BlockDecryptMut as _, BlockEncryptMut as _, KeyInit as _, KeyIvInit as _,
};
use hmac::{Hmac, Mac as _};
use sha2::Sha384;

/// Length of the base key.
pub(crate) const KEY_LEN: usize = 32;
/// Length of the random block that precedes every plaintext.
pub(crate) const CONFOUNDER_LEN: usize = 16;
const BLOCK: usize = 16;
/// HMAC-SHA-384, the first 192 bits.
const TAG: usize = 24;
/// The initialisation vector; the authenticated bytes begin with it.
const IV: [u8; BLOCK] = [0; BLOCK];
/// Last byte of the label of the key that encrypts.
const ENCRYPTS: u8 = 0xaa;
/// Last byte of the label of the key that authenticates.
const AUTHENTICATES: u8 = 0x55;

/// KDF-HMAC-SHA2 of section 3 with SHA-384, the first `N` bytes.
fn derive<const N: usize>(base: &[u8; KEY_LEN], usage: u32, kind: u8) -> [u8; N] {
    let mut mac = hmac(base);
    mac.update(&1u32.to_be_bytes());
    mac.update(&usage.to_be_bytes());
    mac.update(&[kind, 0]);
    mac.update(&(N as u32 * 8).to_be_bytes());
    let mut out = [0; N];
    out.copy_from_slice(&mac.finalize().into_bytes()[..N]);
    out
}

fn hmac(key: &[u8]) -> Hmac<Sha384> {
    <Hmac<Sha384> as hmac::Mac>::new_from_slice(key).expect("HMAC takes a key of any length")
}

/// The HMAC over a ciphertext, not yet shortened.
fn tag(base: &[u8; KEY_LEN], usage: u32, cipher: &[u8]) -> Hmac<Sha384> {
    let mut mac = hmac(&derive::<TAG>(base, usage, AUTHENTICATES));
    mac.update(&IV);
    mac.update(cipher);
    mac
}

/// The ciphertext of `confounder | plain` and its tag.
pub(crate) fn encrypt(
    base: &[u8; KEY_LEN],
    usage: Usage,
    confounder: [u8; CONFOUNDER_LEN],
    plain: &[u8],
) -> Vec<u8> {
    encrypt_for(base, usage as u32, confounder, plain)
}

fn encrypt_for(base: &[u8; KEY_LEN], usage: u32, confounder: [u8; CONFOUNDER_LEN], plain: &[u8]) -> Vec<u8> {
    let key = derive::<KEY_LEN>(base, usage, ENCRYPTS);
    let mut out = cts_encrypt(&key, [&confounder[..], plain].concat());
    let mac = tag(base, usage, &out).finalize().into_bytes();
    out.extend_from_slice(&mac[..TAG]);
    out
}

/// The inverse of [`encrypt`], without the confounder.
pub(crate) fn decrypt(base: &[u8; KEY_LEN], usage: Usage, sealed: &[u8]) -> Result<Vec<u8>, AuthError> {
    decrypt_for(base, usage as u32, sealed)
}

fn decrypt_for(base: &[u8; KEY_LEN], usage: u32, sealed: &[u8]) -> Result<Vec<u8>, AuthError> {
    let (cipher, mac) = sealed.split_last_chunk::<TAG>().ok_or(AuthError::WrongKey)?;
    if cipher.len() < CONFOUNDER_LEN {
        return Err(AuthError::WrongKey);
    }
    tag(base, usage, cipher).verify_truncated_left(mac).map_err(|_| AuthError::WrongKey)?;
    let mut plain = cts_decrypt(&derive::<KEY_LEN>(base, usage, ENCRYPTS), cipher);
    plain.drain(..CONFOUNDER_LEN);
    Ok(plain)
}

/// CBC with ciphertext stealing, of at least one block (RFC 3962 section 5): the last two blocks are swapped
/// and the very last one is as short as the plaintext's.
fn cts_encrypt(key: &[u8; KEY_LEN], mut plain: Vec<u8>) -> Vec<u8> {
    let len = plain.len();
    plain.resize(len.next_multiple_of(BLOCK), 0);
    let mut out =
        cbc::Encryptor::<Aes256>::new(key.into(), &IV.into()).encrypt_padded_vec_mut::<NoPadding>(&plain);
    if let Some(first) = out.len().checked_sub(2 * BLOCK) {
        let (last_but_one, last) = out[first..].split_at_mut(BLOCK);
        last_but_one.swap_with_slice(last);
        out.truncate(len);
    }
    out
}

/// The inverse of [`cts_encrypt`], of at least one block.
fn cts_decrypt(key: &[u8; KEY_LEN], cipher: &[u8]) -> Vec<u8> {
    let cbc = cbc::Decryptor::<Aes256>::new(key.into(), &IV.into());
    let whole = |blocks: &[u8]| {
        cbc.decrypt_padded_vec_mut::<NoPadding>(blocks).expect("whole blocks, and no padding to check")
    };
    // The short block is the last one, also where it is a whole block long.
    let first = (cipher.len() - 1) / BLOCK * BLOCK;
    let Some(swapped) = first.checked_sub(BLOCK) else { return whole(cipher) };
    let short = &cipher[first..];
    // What the last block was before CBC: its end is the end that was cut off the block before.
    let mut last = aes::Block::clone_from_slice(&cipher[swapped..first]);
    Aes256::new(key.into()).decrypt_block(&mut last);
    let blocks = [&cipher[..swapped], short, &last[short.len()..]].concat();
    let mut plain = whole(&blocks);
    plain.extend(last.iter().zip(short).map(|(a, b)| a ^ b));
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8009, appendix A, for the usage 2.
    const BASE: &str = "6d404d37faf79f9df0d33568d320669800eb4836472ea8a026d16b7182460c52";
    const ENCRYPTS_2: &str = "56ab22bee63d82d7bc5227f6773f8ea7a5eb1c825160c38312980c442e5c7e49";
    const AUTHENTICATES_2: &str = "69b16514e3cd8e56b82010d5c73012b622c4d00ffc23ed1f";
    const SEALED: [(&str, usize, &str); 4] = [
        (
            "f764e9fa15c276478b2c7d0c4e5f58e4",
            0,
            "41f53fa5bfe7026d91faf9be959195a058707273a96a40f0a01960621ac612748b9bbfbe7eb4ce3c",
        ),
        (
            "b80d3251c1f6471494256ffe712d0b9a",
            6,
            "4ed7b37c2bcac8f74f23c1cf07e62bc7b75fb3f637b9f559c7f664f69eab7b6092237526ea0d1f61cb20d69d10f2",
        ),
        (
            "53bf8a0d105265d4e276428624ce5e63",
            16,
            "bc47ffec7998eb91e8115cf8d19dac4bbbe2e163e87dd37f49beca92027764f68cf51f14d798c2273f35df574d1f932e\
             40c4ff255b36a266",
        ),
        (
            "763e65367e864f02f55153c7e3b58af1",
            21,
            "40013e2df58e8751957d2878bcd2d6fe101ccfd556cb1eae79db3c3ee86429f2b2a602ac86fef6ecb647d6295fae077a\
             1feb517508d2c16b4192e01f62",
        ),
    ];

    fn hex<const N: usize>(text: &str) -> [u8; N] {
        bytes(text).try_into().expect("the length")
    }

    fn bytes(text: &str) -> Vec<u8> {
        (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).expect("hex")).collect()
    }

    #[test]
    fn derives_and_seals_as_the_rfc_does() {
        let base = hex(BASE);
        assert_eq!(derive(&base, 2, ENCRYPTS), hex::<32>(ENCRYPTS_2));
        assert_eq!(derive(&base, 2, AUTHENTICATES), hex::<24>(AUTHENTICATES_2));
        for (confounder, len, sealed) in SEALED {
            let plain: Vec<u8> = (0..len).map(|i| i as u8).collect();
            assert_eq!(encrypt_for(&base, 2, hex(confounder), &plain), bytes(sealed), "{len} bytes");
            assert_eq!(decrypt_for(&base, 2, &bytes(sealed)), Ok(plain), "{len} bytes");
        }
    }

    #[test]
    fn all_lengths_open_again_and_nothing_else_opens() {
        let base = hex(BASE);
        for len in 0..70 {
            let plain = vec![len; usize::from(len)];
            let sealed = encrypt(&base, Usage::Authorize, [len; 16], &plain);
            assert_eq!(sealed.len(), CONFOUNDER_LEN + plain.len() + TAG);
            assert_eq!(decrypt(&base, Usage::Authorize, &sealed), Ok(plain));
            assert_eq!(decrypt(&base, Usage::AuthorizeReply, &sealed), Err(AuthError::WrongKey));
            assert_eq!(decrypt(&[7; 32], Usage::Authorize, &sealed), Err(AuthError::WrongKey));
            for at in 0..sealed.len() {
                let mut other = sealed.clone();
                other[at] ^= 0x80;
                assert_eq!(decrypt(&base, Usage::Authorize, &other), Err(AuthError::WrongKey), "{at}");
                assert_eq!(decrypt(&base, Usage::Authorize, &sealed[..at]), Err(AuthError::WrongKey));
            }
        }
        // A tag that is right over less than a confounder.
        let mut short = vec![1; 15];
        let mac = tag(&base, Usage::Authorize as u32, &short).finalize().into_bytes();
        short.extend_from_slice(&mac[..TAG]);
        assert_eq!(decrypt(&base, Usage::Authorize, &short), Err(AuthError::WrongKey));
    }
}
