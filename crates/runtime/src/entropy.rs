//! The operating system's entropy: the key of each node's random stream, and the nonce of each start.

use stdx::Rng;

/// A random stream keyed by the operating system.
pub fn rng() -> Rng {
    let mut key = [0u8; 32];
    let mut filled = 0;
    while filled < key.len() {
        // SAFETY: the pointer and length describe the unfilled rest of `key`.
        let n = unsafe { libc::getrandom(key[filled..].as_mut_ptr().cast(), key.len() - filled, 0) };
        if n < 0 {
            let error = std::io::Error::last_os_error();
            assert_eq!(error.kind(), std::io::ErrorKind::Interrupted, "getrandom: {error}");
            continue;
        }
        filled += n as usize;
    }
    Rng::from_key(key)
}

/// The nonce of a process, drawn at each start; never 0, which means "any".
pub fn nonce() -> u32 {
    rng().u32().max(1)
}
