//! Numbers of NBD, which are big-endian.

fn bytes<const N: usize>(from: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    // The caller has as many bytes as its phase wants.
    out.copy_from_slice(&from[at..at + N]);
    out
}

pub(super) fn be16(from: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(bytes(from, at))
}

pub(super) fn be32(from: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes(from, at))
}

pub(super) fn be64(from: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes(from, at))
}
