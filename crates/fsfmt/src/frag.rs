//! Directory fragments: a directory's entries are divided by the lower 24 bits of their names' hashes, and
//! the inode's fragment tree tells how. Clients compute the same, so the numbers are Ceph's.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use stdx::{ConstDefault, Rng};
use wire::{Decode, DecodeError, Encode, Reader, Sample, Writer};

/// A fragment: all hashes of 24 bits that begin with a prefix. Encoded as length of the prefix << 24 |
/// prefix, which stands at the top of the lower 24 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Frag(u32);

impl Frag {
    /// The whole directory.
    pub const WHOLE: Self = Self(0);
    /// The greatest number that a fragment has.
    pub const MAX: Self = Self(0x18ff_ffff);
    /// Bits of a hash that choose the fragment.
    pub(crate) const HASH_BITS: u32 = 24;

    /// The fragment of an encoding; `None` if the prefix is too long, or has bits behind its length.
    pub fn from_raw(raw: u32) -> Option<Self> {
        let frag = Self(raw);
        (frag.bits() <= Self::HASH_BITS && frag.value() & !frag.mask() == 0).then_some(frag)
    }

    /// Its encoding.
    pub fn raw(self) -> u32 {
        self.0
    }

    /// Length of the prefix.
    pub fn bits(self) -> u32 {
        self.0 >> Self::HASH_BITS
    }

    /// The prefix, followed by zeros: the smallest hash that it contains.
    pub fn value(self) -> u32 {
        self.0 & 0xff_ffff
    }

    /// Its prefix in hex, followed by zeros, and the prefix's length: `c00000/2`, as Ceph shows it to people.
    pub fn text(self) -> String {
        format!("{:x}/{}", self.value(), self.bits())
    }

    fn mask(self) -> u32 {
        (0xff_ffff << (Self::HASH_BITS - self.bits())) & 0xff_ffff
    }

    /// True if names of this hash are in it.
    pub fn contains(self, hash: u32) -> bool {
        hash & self.mask() == self.value()
    }

    /// True if parts with `bits` more are no smaller than a fragment can be.
    pub fn can_split(self, bits: u32) -> bool {
        self.bits() + bits <= Self::HASH_BITS
    }

    /// The one of its 2^`bits` parts that contains `hash`.
    pub(crate) fn part_of(self, hash: u32, bits: u32) -> Self {
        let part = Self((self.bits() + bits) << Self::HASH_BITS);
        Self(part.0 | hash & part.mask())
    }

    /// Its 2^`bits` parts, in the order of hashes.
    pub fn parts(self, bits: u32) -> impl Iterator<Item = Self> {
        let shift = Self::HASH_BITS - (self.bits() + bits).min(Self::HASH_BITS);
        (0..1u32 << bits).map(move |i| self.part_of(self.value() | i << shift, bits))
    }
}

impl FromStr for Frag {
    type Err = ();

    /// Reads what administrators write, as [`Frag::text`] shows it.
    fn from_str(text: &str) -> Result<Self, ()> {
        let (value, bits) = text.split_once('/').ok_or(())?;
        let value = u32::from_str_radix(value, 16).map_err(drop)?;
        let bits = bits.parse::<u32>().ok().filter(|bits| *bits <= Self::HASH_BITS).ok_or(())?;
        let is_hash = value <= 0xff_ffff;
        Self::from_raw(bits << Self::HASH_BITS | value).filter(|_| is_hash).ok_or(())
    }
}

impl fmt::Display for Frag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

impl fmt::Debug for Frag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Encode for Frag {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.0);
    }
}

impl Decode for Frag {
    const MIN_SIZE: usize = 4;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let raw = r.get()?;
        Self::from_raw(raw).ok_or_else(|| r.error(format!("{raw:08x} is no fragment")))
    }
}

impl Sample for Frag {
    fn sample(rng: &mut Rng) -> Self {
        let bits = rng.below(u64::from(Self::HASH_BITS) + 1) as u32;
        Self::WHOLE.part_of(rng.u64() as u32, bits)
    }
}

/// The fragments of a directory: which are split, and into how many. Empty for a directory of one fragment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FragTree {
    splits: BTreeMap<Frag, u32>,
}

impl FragTree {
    /// The fragment that holds names of this hash.
    pub fn frag_of(&self, hash: u32) -> Frag {
        let mut frag = Frag::WHOLE;
        while let Some(bits) = self.splits.get(&frag) {
            frag = frag.part_of(hash, *bits);
        }
        frag
    }

    /// All fragments that hold names, in the order of hashes.
    pub fn leaves(&self) -> Vec<Frag> {
        let (mut leaves, mut left) = (Vec::new(), vec![Frag::WHOLE]);
        while let Some(frag) = left.pop() {
            match self.splits.get(&frag) {
                Some(bits) => {
                    let behind = left.len();
                    left.extend(frag.parts(*bits));
                    left[behind..].reverse();
                }
                None => leaves.push(frag),
            }
        }
        leaves
    }

    /// The first of the leaves with the shortest prefix: as names are spread evenly, none has more.
    pub fn largest(&self) -> Frag {
        let shortest = self.leaves().into_iter().min_by_key(|frag| frag.bits());
        shortest.unwrap_or(Frag::WHOLE)
    }

    /// Splits a leaf into 2^`bits`; false, and nothing happens, if it is no leaf or would become too small.
    pub fn split(&mut self, frag: Frag, bits: u32) -> bool {
        let is_leaf = !self.splits.contains_key(&frag) && self.frag_of(frag.value()) == frag;
        let fits = (1..=8).contains(&bits) && frag.can_split(bits);
        if is_leaf && fits {
            self.splits.insert(frag, bits);
        }
        is_leaf && fits
    }

    /// Joins the 2^`bits` parts of a fragment; false, and nothing happens, if they are no leaves.
    pub fn join(&mut self, frag: Frag, bits: u32) -> bool {
        let can_join = self.splits.get(&frag) == Some(&bits) && self.has_leaves(frag, bits);
        if can_join {
            self.splits.remove(&frag);
        }
        can_join
    }

    /// The longest prefix of a fragment that is split; `None` for a directory of one fragment.
    pub fn depth(&self) -> Option<u32> {
        self.splits.last_key_value().map(|(frag, _)| frag.bits())
    }

    /// The fragments whose parts are leaves, with the bits that these have more, the longest prefix first.
    pub fn joinable(&self) -> impl Iterator<Item = (Frag, u32)> {
        let splits = self.splits.iter().rev().map(|(frag, bits)| (*frag, *bits));
        splits.filter(|(frag, bits)| self.has_leaves(*frag, *bits))
    }

    fn has_leaves(&self, frag: Frag, bits: u32) -> bool {
        frag.parts(bits).all(|part| !self.splits.contains_key(&part))
    }

    /// The fragments that are split, each with the bits that its parts have more.
    pub fn splits(&self) -> impl Iterator<Item = (Frag, u32)> {
        self.splits.iter().map(|(frag, bits)| (*frag, *bits))
    }
}

impl ConstDefault for FragTree {
    fn const_default() -> &'static Self {
        const { &Self { splits: BTreeMap::new() } }
    }
}

impl Encode for FragTree {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.splits);
    }
}

impl Decode for FragTree {
    const MIN_SIZE: usize = 4;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut splits: Vec<(Frag, u32)> = r.get::<BTreeMap<Frag, u32>>()?.into_iter().collect();
        // Parents have fewer bits than their parts.
        splits.sort_by_key(|(frag, _)| (frag.bits(), frag.value()));
        let mut tree = Self::default();
        for (frag, bits) in splits {
            if !tree.split(frag, bits) {
                return Err(r.error(format!("a split of fragment {frag} by {bits} bits")));
            }
        }
        Ok(tree)
    }
}

impl Sample for FragTree {
    fn sample(rng: &mut Rng) -> Self {
        let mut tree = Self::default();
        for _ in 0..rng.below(4) {
            let frag = tree.frag_of(rng.u64() as u32);
            tree.split(frag, 1 + rng.below(4) as u32);
        }
        tree
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_have_the_numbers_that_clients_compute() {
        let parts: Vec<u32> = Frag::WHOLE.parts(1).map(Frag::raw).collect();
        assert_eq!(parts, [0x0100_0000, 0x0180_0000]);
        let upper = Frag::from_raw(0x0180_0000).expect("a fragment");
        let parts: Vec<u32> = upper.parts(2).map(Frag::raw).collect();
        assert_eq!(parts, [0x0380_0000, 0x03a0_0000, 0x03c0_0000, 0x03e0_0000]);
        assert!(upper.contains(0xff80_0000 | 0x80_0000) && !upper.contains(0x7f_ffff));
        assert_eq!(Frag::from_raw(0x0140_0000), None, "a bit behind the prefix");
        assert_eq!(Frag::from_raw(0x1900_0000), None, "a prefix of 25 bits");
    }

    #[test]
    fn every_hash_is_in_exactly_the_leaf_that_the_tree_names() {
        let mut rng = Rng::from_seed(3);
        for _ in 0..200 {
            let tree = FragTree::sample(&mut rng);
            let leaves = tree.leaves();
            assert!(leaves.is_sorted_by_key(|f| f.value()), "{leaves:?}");
            for _ in 0..50 {
                let hash = rng.u64() as u32;
                let there: Vec<Frag> = leaves.iter().copied().filter(|f| f.contains(hash)).collect();
                assert_eq!(there, [tree.frag_of(hash)], "{tree:?}");
            }
            let bytes = Writer::encode(&tree);
            assert_eq!(Reader::new(&bytes).get::<FragTree>().expect("own encoding"), tree);
        }
    }

    #[test]
    fn only_leaves_are_joined_and_the_deepest_are_found_first() {
        let mut tree = FragTree::default();
        assert_eq!((tree.depth(), tree.joinable().next()), (None, None));
        assert!(tree.split(Frag::WHOLE, 3));
        let part = tree.frag_of(0xff_ffff);
        assert!(tree.split(part, 2));
        assert_eq!((tree.depth(), tree.joinable().collect::<Vec<_>>()), (Some(3), vec![(part, 2)]));
        let whole = tree.clone();
        assert!(!tree.join(Frag::WHOLE, 3), "a part of it is split");
        assert!(!tree.join(part, 3), "it was split by fewer bits");
        assert_eq!(tree, whole);
        assert!(tree.join(part, 2) && tree.join(Frag::WHOLE, 3));
        assert_eq!(tree, FragTree::default());
    }

    #[test]
    fn people_write_fragments_as_they_are_shown() {
        let mut rng = Rng::from_seed(4);
        for _ in 0..200 {
            let frag = Frag::sample(&mut rng);
            assert_eq!(frag.text().parse(), Ok(frag));
        }
        assert_eq!(Frag::WHOLE.text(), "0/0");
        for text in ["", "0", "/", "0/25", "400000/1", "1000000/0", "1/0", "x/3", "0/-1", "-0/0"] {
            assert_eq!(text.parse::<Frag>(), Err(()), "{text}");
        }
    }

    #[test]
    fn a_tree_that_splits_what_is_no_leaf_is_refused() {
        for splits in
            [vec![(0u32, 0u32)], vec![(0, 9)], vec![(0x0180_0000, 1)], vec![(0, 1), (0x0200_0000, 1)]]
        {
            let bytes = Writer::encode(&splits);
            assert!(Reader::new(&bytes).get::<FragTree>().is_err(), "{splits:x?}");
        }
    }
}
