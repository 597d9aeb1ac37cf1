//! xxHash of 32 and 64 bits (<https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md>), which
//! CHECKSUM offers.

const P32: [u32; 5] = [0x9e37_79b1, 0x85eb_ca77, 0xc2b2_ae3d, 0x27d4_eb2f, 0x1656_67b1];
const P64: [u64; 5] = [
    0x9e37_79b1_85eb_ca87,
    0xc2b2_ae3d_27d4_eb4f,
    0x1656_67b1_9e37_79f9,
    0x85eb_ca77_c2b2_ae63,
    0x27d4_eb2f_1656_67c5,
];

fn le32(b: &[u8]) -> u32 {
    u32::from_le_bytes([b[0], b[1], b[2], b[3]])
}

fn le64(b: &[u8]) -> u64 {
    u64::from(le32(b)) | u64::from(le32(&b[4..])) << 32
}

fn round32(acc: u32, lane: u32) -> u32 {
    acc.wrapping_add(lane.wrapping_mul(P32[1])).rotate_left(13).wrapping_mul(P32[0])
}

/// Computes XXH32.
pub fn xxh32(seed: u32, data: &[u8]) -> u32 {
    let stripes = data.chunks_exact(16);
    let mut rest = stripes.remainder();
    let mut h = if data.len() >= 16 {
        let mut acc = [
            seed.wrapping_add(P32[0]).wrapping_add(P32[1]),
            seed.wrapping_add(P32[1]),
            seed,
            seed.wrapping_sub(P32[0]),
        ];
        for stripe in stripes {
            for (i, a) in acc.iter_mut().enumerate() {
                *a = round32(*a, le32(&stripe[4 * i..]));
            }
        }
        [1, 7, 12, 18].iter().zip(acc).fold(0u32, |h, (r, a)| h.wrapping_add(a.rotate_left(*r)))
    } else {
        seed.wrapping_add(P32[4])
    };
    h = h.wrapping_add(data.len() as u32);
    while rest.len() >= 4 {
        h = h.wrapping_add(le32(rest).wrapping_mul(P32[2])).rotate_left(17).wrapping_mul(P32[3]);
        rest = &rest[4..];
    }
    for byte in rest {
        h = h.wrapping_add(u32::from(*byte).wrapping_mul(P32[4])).rotate_left(11).wrapping_mul(P32[0]);
    }
    h = (h ^ h >> 15).wrapping_mul(P32[1]);
    h = (h ^ h >> 13).wrapping_mul(P32[2]);
    h ^ h >> 16
}

fn round64(acc: u64, lane: u64) -> u64 {
    acc.wrapping_add(lane.wrapping_mul(P64[1])).rotate_left(31).wrapping_mul(P64[0])
}

/// Computes XXH64.
pub fn xxh64(seed: u64, data: &[u8]) -> u64 {
    let stripes = data.chunks_exact(32);
    let mut rest = stripes.remainder();
    let mut h = if data.len() >= 32 {
        let mut acc = [
            seed.wrapping_add(P64[0]).wrapping_add(P64[1]),
            seed.wrapping_add(P64[1]),
            seed,
            seed.wrapping_sub(P64[0]),
        ];
        for stripe in stripes {
            for (i, a) in acc.iter_mut().enumerate() {
                *a = round64(*a, le64(&stripe[8 * i..]));
            }
        }
        let h = [1, 7, 12, 18].iter().zip(acc).fold(0u64, |h, (r, a)| h.wrapping_add(a.rotate_left(*r)));
        acc.into_iter().fold(h, |h, a| (h ^ round64(0, a)).wrapping_mul(P64[0]).wrapping_add(P64[3]))
    } else {
        seed.wrapping_add(P64[4])
    };
    h = h.wrapping_add(data.len() as u64);
    while rest.len() >= 8 {
        h = (h ^ round64(0, le64(rest))).rotate_left(27).wrapping_mul(P64[0]).wrapping_add(P64[3]);
        rest = &rest[8..];
    }
    if rest.len() >= 4 {
        h = (h ^ u64::from(le32(rest)).wrapping_mul(P64[0]))
            .rotate_left(23)
            .wrapping_mul(P64[1])
            .wrapping_add(P64[2]);
        rest = &rest[4..];
    }
    for byte in rest {
        h = (h ^ u64::from(*byte).wrapping_mul(P64[4])).rotate_left(11).wrapping_mul(P64[0]);
    }
    h = (h ^ h >> 33).wrapping_mul(P64[1]);
    h = (h ^ h >> 29).wrapping_mul(P64[2]);
    h ^ h >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        assert_eq!(xxh32(0, b""), 0x02cc_5d05);
        assert_eq!(xxh32(0, b"abc"), 0x32d1_53ff);
        assert_eq!(xxh64(0, b""), 0xef46_db37_51d8_e999);
        assert_eq!(xxh64(0, b"abc"), 0x44bc_2cf5_ad77_0999);
    }
}
