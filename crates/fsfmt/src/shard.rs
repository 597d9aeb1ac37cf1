//! Shards: fragments of a directory that are subtrees of their own (docs/adr/0023-shards.md).

use crate::{DirFrag, Frag, Ino};

impl Ino {
    /// The root of a shard: a fragment of a directory that is a subtree of its own. It has a number that says
    /// which one it is, and no name. `None` for a fragment that is too small to be one.
    pub fn shard(of: DirFrag) -> Option<Self> {
        let bits = of.frag.bits();
        let fits = bits <= Self::SHARD_BITS && of.ino.0 >> Self::SHARD_DIR_BITS == 0;
        let part = 1 << bits | u64::from(of.frag.value()) >> (Frag::HASH_BITS - bits);
        fits.then_some(Self(Self::FIRST_SHARD.0 | of.ino.0 << (Self::SHARD_BITS + 1) | part))
    }

    /// The fragment that this is the root of, if it is the root of a shard.
    pub fn as_shard(self) -> Option<DirFrag> {
        if !self.is_shard() {
            return None;
        }
        let part = (self.0 & ((2 << Self::SHARD_BITS) - 1)) as u32;
        let bits = part.checked_ilog2()?;
        let prefix = part & !(1 << bits);
        let frag = Frag::from_raw(bits << Frag::HASH_BITS | prefix << (Frag::HASH_BITS - bits))?;
        Some(DirFrag { ino: Self((self.0 & !Self::FIRST_SHARD.0) >> (Self::SHARD_BITS + 1)), frag })
    }

    /// True for the root of a shard.
    pub fn is_shard(self) -> bool {
        self >= Self::FIRST_SHARD
    }

    /// The roots of all shards that a directory can have.
    pub fn shards_of(dir: Self) -> std::ops::RangeInclusive<Self> {
        let first = Self::FIRST_SHARD.0 | dir.0 << (Self::SHARD_BITS + 1);
        Self(first)..=Self(first | ((2 << Self::SHARD_BITS) - 1))
    }

    /// The smallest number of a shard's root.
    pub const FIRST_SHARD: Self = Self(1 << 63);
    /// Shards are no smaller than this part of a directory: one of 2^14.
    const SHARD_BITS: u32 = 14;
    /// Bits of the number of a directory that can have shards.
    const SHARD_DIR_BITS: u32 = 48;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_of_a_shard_says_which_fragment_it_is() {
        let dir = Ino(3 * Ino::FIRST_USER + 17);
        for (raw, bits) in [(0, 0), (0x0380_0000, 3), (0x03e0_0000, 3), (0x0eff_fc00, 14)] {
            let of = DirFrag { ino: dir, frag: Frag::from_raw(raw).expect("a fragment") };
            let root = Ino::shard(of).expect("large enough");
            assert_eq!((root.as_shard(), of.frag.bits()), (Some(of), bits));
            assert!(Ino::shards_of(dir).contains(&root) && !root.is_base() && !root.is_stray());
            assert!(!Ino::shards_of(Ino(dir.0 + 1)).contains(&root));
        }
        let small = DirFrag { ino: dir, frag: Frag::from_raw(0x0f00_0000).expect("a fragment") };
        assert_eq!((Ino::shard(small), dir.as_shard()), (None, None));
        assert_eq!(Ino::FIRST_SHARD.as_shard(), None, "a number that nothing has");
    }
}
