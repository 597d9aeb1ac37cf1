//! Passwords of the dashboard's users, stored so that whoever reads the store has to guess each one slowly:
//! PBKDF2 with HMAC-SHA-512, written `$pbkdf2-sha512$i=ROUNDS$SALT$HASH` in base64.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use ring::pbkdf2::{self, PBKDF2_HMAC_SHA512};
use std::num::NonZeroU32;

/// Rounds for new passwords: what OWASP recommends for SHA-512, some 0.1 s of one core.
const ROUNDS: u32 = 210_000;
/// The most rounds that a stored password may ask of whoever checks it.
const MAX_ROUNDS: u32 = 2_000_000;
/// Bytes of a salt.
const SALT: usize = 16;
/// Bytes of a hash.
const HASH: usize = 32;

/// The stored form of a password.
pub fn hash_password(password: &str, rng: &mut stdx::Rng) -> String {
    let mut salt = [0; SALT];
    rng.fill(&mut salt);
    with_rounds(password, &salt, NonZeroU32::new(ROUNDS).unwrap_or(NonZeroU32::MIN))
}

fn with_rounds(password: &str, salt: &[u8], rounds: NonZeroU32) -> String {
    let mut hash = [0; HASH];
    pbkdf2::derive(PBKDF2_HMAC_SHA512, rounds, salt, password.as_bytes(), &mut hash);
    format!("$pbkdf2-sha512$i={rounds}${}${}", BASE64.encode(salt), BASE64.encode(hash))
}

/// True if this is the password that was stored. One that can't be read is nobody's password.
pub fn is_password(stored: &str, password: &str) -> bool {
    let mut parts = stored.split('$');
    let (Some(""), Some("pbkdf2-sha512"), Some(rounds), Some(salt), Some(hash), None) =
        (parts.next(), parts.next(), parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    let rounds = rounds.strip_prefix("i=").and_then(|n| n.parse().ok()).and_then(NonZeroU32::new);
    let (Some(rounds), Ok(salt), Ok(hash)) = (rounds, BASE64.decode(salt), BASE64.decode(hash)) else {
        return false;
    };
    rounds.get() <= MAX_ROUNDS
        && hash.len() == HASH
        && pbkdf2::verify(PBKDF2_HMAC_SHA512, rounds, &salt, password.as_bytes(), &hash).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_password_fits_and_the_stored_form_does_not_show_it() {
        let mut rng = stdx::Rng::from_seed(1);
        let stored = hash_password("correct horse", &mut rng);
        assert!(stored.starts_with("$pbkdf2-sha512$i=210000$") && !stored.contains("correct"));
        assert!(is_password(&stored, "correct horse"));
        assert!(!is_password(&stored, "correct horsf") && !is_password(&stored, ""));
        assert_ne!(stored, hash_password("correct horse", &mut rng), "each has its own salt");
    }

    #[test]
    fn what_is_damaged_is_nobodys_password() {
        let rounds = NonZeroU32::new(10).expect("not zero");
        let good = with_rounds("x", b"salt", rounds);
        assert!(is_password(&good, "x"));
        let cut = &good[..good.len() - 8];
        for bad in ["", "x", "$$$$", "$2b$12$abc", cut, &good.replace("i=10", "i=0")] {
            assert!(!is_password(bad, "x"), "{bad}");
        }
        assert!(!is_password(&good.replace("i=10", "i=4000000000"), "x"), "it would take minutes");
    }

    #[test]
    fn the_hash_is_that_of_the_standard() {
        // Python: hashlib.pbkdf2_hmac('sha512', b'password', b'salt', 1000, 32)
        let stored = with_rounds("password", b"salt", NonZeroU32::new(1000).expect("not zero"));
        let want = "r+bFUweFtsxrHGRTOEcxvV7kMu5Un9QvtmlXea2KHFs";
        assert_eq!(stored, format!("$pbkdf2-sha512$i=1000$c2FsdA${want}"));
    }
}
