//! Changes of a directory's fragments: one is split into parts, or its parts are joined.

use crate::{DirFrag, Update};
use std::fmt;

/// Most bits by which a fragment is split, or its parts are joined, at once.
const MAX_BITS: u32 = 8;

/// A fragment that is split into parts, or whose parts are joined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refragment {
    whole: DirFrag,
    bits: u32,
    is_join: bool,
}

impl Refragment {
    /// The split of a fragment into 2^`bits` parts; `None` for fewer than two, more than 256, or parts that
    /// are smaller than a fragment can be.
    pub fn split(whole: DirFrag, bits: u32) -> Option<Self> {
        Self::new(whole, bits, false)
    }

    /// The join of the 2^`bits` parts of a fragment, with the same limits.
    pub fn join(whole: DirFrag, bits: u32) -> Option<Self> {
        Self::new(whole, bits, true)
    }

    fn new(whole: DirFrag, bits: u32, is_join: bool) -> Option<Self> {
        let is_possible = (1..=MAX_BITS).contains(&bits) && whole.frag.can_split(bits);
        is_possible.then_some(Self { whole, bits, is_join })
    }

    /// The change of which an [`Update::Refragment`] tells; `bits` is negative for a join.
    pub fn of_update(dir: DirFrag, bits: i8) -> Option<Self> {
        Self::new(dir, u32::from(bits.unsigned_abs()), bits < 0)
    }

    /// The update that says that the change begins, or is done.
    pub fn update(self, is_done: bool) -> Update {
        let bits = self.bits as i8;
        Update::Refragment { dir: self.whole, bits: if self.is_join { -bits } else { bits }, is_done }
    }

    /// The fragment that is split, or into which its parts are joined.
    pub fn whole(self) -> DirFrag {
        self.whole
    }

    /// Bits that the parts have more than the whole fragment.
    pub fn bits(self) -> u32 {
        self.bits
    }

    /// True if parts are joined.
    pub fn is_join(self) -> bool {
        self.is_join
    }

    /// The fragments that are replaced, in the order of hashes.
    pub fn old(self) -> Vec<DirFrag> {
        if self.is_join { self.whole.parts(self.bits).collect() } else { vec![self.whole] }
    }

    /// The fragments that take their place, in the order of hashes.
    pub fn new_ones(self) -> Vec<DirFrag> {
        if self.is_join { vec![self.whole] } else { self.whole.parts(self.bits).collect() }
    }

    /// True if a fragment is one of those that are replaced.
    pub fn replaces(self, dir: DirFrag) -> bool {
        match self.is_join {
            true => self.whole.frag.contains(dir.frag.value()) && self.place_among_parts(dir) == dir,
            false => dir == self.whole,
        }
    }

    fn place_among_parts(self, dir: DirFrag) -> DirFrag {
        self.whole.part_of(dir.frag.value(), self.bits)
    }

    /// The one of the new fragments that holds names of a hash.
    pub fn place_of(self, hash: u32) -> DirFrag {
        if self.is_join { self.whole } else { self.whole.part_of(hash, self.bits) }
    }
}

impl fmt::Display for Refragment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, parts) = (self.whole, 1u32 << self.bits);
        match self.is_join {
            true => write!(f, "the {parts} parts of {whole} into one"),
            false => write!(f, "{whole} into {parts} parts"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Frag, Ino};

    const DIR: DirFrag = DirFrag { ino: Ino(1), frag: Frag::WHOLE };

    #[test]
    fn a_join_undoes_a_split() {
        let high = DIR.parts(3).last().expect("eight parts");
        let split = Refragment::split(high, 2).expect("possible");
        let join = Refragment::join(high, 2).expect("possible");
        assert_eq!((split.old(), split.new_ones()), (join.new_ones(), join.old()));
        for dir in [DIR, high].into_iter().chain(high.parts(2)).chain(DIR.parts(5)).chain(high.parts(1)) {
            assert_eq!(split.replaces(dir), split.old().contains(&dir), "{dir}");
            assert_eq!(join.replaces(dir), join.old().contains(&dir), "{dir}");
        }
        for change in [split, join] {
            let Update::Refragment { dir, bits, is_done: false } = change.update(false) else {
                panic!("an update of fragments")
            };
            assert_eq!(Refragment::of_update(dir, bits), Some(change));
        }
    }

    #[test]
    fn what_no_tree_has_is_refused() {
        for bits in [0, 9, -9, i8::MIN, i8::MAX] {
            assert_eq!(Refragment::of_update(DIR, bits), None, "{bits}");
        }
        let smallest = DIR.parts(8).next().and_then(|dir| dir.parts(8).next()).expect("parts");
        assert!(Refragment::split(smallest, 8).is_some() && Refragment::split(smallest, 9).is_none());
        let smallest = smallest.parts(8).next().expect("parts");
        assert_eq!(Refragment::join(smallest, 1), None);
    }
}
