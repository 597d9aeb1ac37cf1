//! crc32c as Ceph uses it: seeded and **not** inverted at the end (PROTOCOL.md 7.1).
//!
//! `update(seed, data)` is the bare register after `data`; the usual CRC-32C is `!update(!0, data)`.

use crc_fast::CrcAlgorithm::Crc32Iscsi;

/// The register that starts at `seed` after shifting in `data`.
pub fn update(seed: u32, data: &[u8]) -> u32 {
    let mut digest = crc_fast::Digest::new_with_init_state(Crc32Iscsi, u64::from(seed));
    digest.update(data);
    !(digest.finalize() as u32)
}

/// The register that starts at `seed` after `len` zero bytes; O(log len).
pub fn zeros(seed: u32, len: u64) -> u32 {
    // combine(a, b, len) is shift(a, len) ^ b in the inverted domain: with b the crc of nothing
    // it is the bare shift.
    crc_fast::checksum_combine(Crc32Iscsi, u64::from(seed), 0, len) as u32
}

/// The register over `a ‖ b`, from the register `a` over the first part (any seed) and the register
/// `b` over the second part **with seed 0**, which is `b_len` bytes long.
pub fn append(a: u32, b: u32, b_len: u64) -> u32 {
    zeros(a, b_len) ^ b
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_the_standard_check_value() {
        assert_eq!(!update(!0, b"123456789"), 0xe306_9283);
    }

    #[test]
    fn is_linear_in_its_seed_and_combines() {
        let data: Vec<u8> = (0..10_000u32).map(|i| (i * 7 + i / 251) as u8).collect();
        for seed in [0, 1, !0, 0xdead_beef] {
            assert_eq!(update(seed, &[]), seed);
            for cut in [0, 1, 9, 4096, 9_999, 10_000] {
                let (x, y) = data.split_at(cut);
                let whole = update(seed, &data);
                assert_eq!(update(update(seed, x), y), whole);
                assert_eq!(append(update(seed, x), update(0, y), y.len() as u64), whole);
                assert_eq!(zeros(seed, cut as u64), update(seed, &vec![0; cut]));
            }
        }
    }
}
