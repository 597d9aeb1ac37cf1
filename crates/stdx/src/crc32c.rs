//! crc32c as Ceph uses it: seeded and **not** inverted at the end (docs/protocol.md 7.1).
//!
//! `update(seed, data)` is the bare register after `data`; the usual CRC-32C is `!update(!0, data)`.

use crc_fast::CrcAlgorithm::Crc32Iscsi;

/// The register that starts at `seed` after shifting in `data`.
pub fn update(seed: u32, data: &[u8]) -> u32 {
    let mut digest = crc_fast::Digest::new_with_init_state(Crc32Iscsi, u64::from(seed));
    digest.update(data);
    !(digest.finalize() as u32)
}

/// The register that starts at `seed` after `len` zero bytes; a few lookups for a block of 4096, O(log len)
/// otherwise.
pub fn zeros(seed: u32, len: u64) -> u32 {
    if len == 4096 {
        let [a, b, c, d] = seed.to_le_bytes();
        let table = |i: usize, byte: u8| BLOCK[i][usize::from(byte)];
        return table(0, a) ^ table(1, b) ^ table(2, c) ^ table(3, d);
    }
    (0..64).filter(|power| len >> power & 1 == 1).fold(seed, |crc, power| apply(&SHIFTS[power], crc))
}

/// The register over `a ‖ b`, from the register `a` over the first part (any seed) and the register
/// `b` over the second part **with seed 0**, which is `b_len` bytes long.
pub fn append(a: u32, b: u32, b_len: u64) -> u32 {
    zeros(a, b_len) ^ b
}

/// Castagnoli's polynomial, reflected.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// The effect of a number of zero bytes on the register, which is linear: the image of each bit determines
/// it.
type Shift = [u32; 32];

const fn apply(shift: &Shift, mut crc: u32) -> u32 {
    let (mut out, mut bit) = (0, 0);
    while crc != 0 {
        if crc & 1 == 1 {
            out ^= shift[bit];
        }
        crc >>= 1;
        bit += 1;
    }
    out
}

const fn one_byte() -> Shift {
    let mut out = [0; 32];
    let mut bit = 0;
    while bit < 32 {
        let mut crc = 1u32 << bit;
        let mut step = 0;
        while step < 8 {
            crc = (crc >> 1) ^ if crc & 1 == 1 { POLYNOMIAL } else { 0 };
            step += 1;
        }
        out[bit] = crc;
        bit += 1;
    }
    out
}

/// By power of two: that many zero bytes.
static SHIFTS: [Shift; 64] = {
    let mut out = [one_byte(); 64];
    let mut power = 1;
    while power < 64 {
        let mut bit = 0;
        while bit < 32 {
            out[power][bit] = apply(&out[power - 1], out[power - 1][bit]);
            bit += 1;
        }
        power += 1;
    }
    out
};

/// 4096 zero bytes, by each byte of the register. The checksums of a message are combined block by block;
/// done bit by bit, that dominated the cost of a large message.
static BLOCK: [[u32; 256]; 4] = {
    let mut out = [[0; 256]; 4];
    let mut byte = 0;
    while byte < 4 {
        let mut value = 0;
        while value < 256 {
            out[byte][value] = apply(&SHIFTS[12], (value as u32) << (8 * byte));
            value += 1;
        }
        byte += 1;
    }
    out
};

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
