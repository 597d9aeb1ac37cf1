//! Feature bits of CephFS sessions and maps.

use stdx::Rng;
use wire::{Decode, DecodeError, Encode, Reader, Sample, Writer};

/// `feature_bitset_t`, as far as bits are defined: a count of bytes, then whole little-endian u64 words. Bits
/// from 64 on are dropped.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct FeatureBits(pub u64);

impl FeatureBits {
    /// True if bit `n` is set.
    pub fn has(self, n: u32) -> bool {
        n < 64 && self.0 >> n & 1 == 1
    }

    /// True if all bits of `other` are set.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl std::fmt::Debug for FeatureBits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl Encode for FeatureBits {
    fn encode(&self, w: &mut Writer) {
        match self.0 {
            0 => w.count(0),
            bits => w.blob(&bits.to_le_bytes()),
        }
    }
}

impl Decode for FeatureBits {
    const MIN_SIZE: usize = 4;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let bytes = r.blob()?;
        let mut word = [0; 8];
        let n = bytes.len().min(8);
        word[..n].copy_from_slice(&bytes[..n]);
        Ok(Self(u64::from_le_bytes(word)))
    }
}

impl Sample for FeatureBits {
    fn sample(rng: &mut Rng) -> Self {
        Self(Sample::sample(rng))
    }
}
