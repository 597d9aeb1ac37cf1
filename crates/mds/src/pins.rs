//! The rank that a directory, with what is below it, is to be served by.
//!
//! A pin of its own (`ceph.dir.pin`) names the rank. *Ephemeral* pins follow from a directory above: its
//! children are distributed over all ranks (`ceph.dir.pin.distributed`), or a part of all directories below
//! it is (`ceph.dir.pin.random`). Which one gets which rank follows from its inode number alone, so that
//! nothing has to be remembered, and few move when a rank comes or goes.

use crate::cache::{Cache, Inode};
use fsfmt::Ino;
use maps::MdsRank;

/// The millionths in one.
const WHOLE: u64 = 1_000_000;

/// How a directory is pinned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pinned {
    /// To this rank, by its own pin.
    To(MdsRank),
    /// To one of all ranks, as every child of the directory above.
    Distributed,
    /// To one of all ranks, as some of the directories below one further up.
    Random,
}

impl Cache {
    /// How a cached directory is pinned.
    pub fn pin_of(&self, dir: Ino) -> Option<Pinned> {
        let inode = self.inodes.get(&dir.head()).filter(|inode| inode.data.is_dir())?;
        if let Some(rank) = inode.data.pin.rank {
            return Some(Pinned::To(rank));
        }
        if !self.may_have_ephemeral_pins {
            return None;
        }
        let mut at = self.parent_of(inode);
        if at.is_some_and(|above| above.data.pin.is_distributed) {
            return Some(Pinned::Distributed);
        }
        while let Some(above) = at {
            if above.data.pin.random_ppm > 0 {
                let is_drawn = mix(dir.0) % WHOLE < u64::from(above.data.pin.random_ppm);
                return is_drawn.then_some(Pinned::Random);
            }
            at = self.parent_of(above);
        }
        None
    }

    /// The rank that a cached directory is pinned to. `ranks` are those over which directories are
    /// distributed.
    pub fn pinned_to(&self, dir: Ino, ranks: &[MdsRank]) -> Option<MdsRank> {
        match self.pin_of(dir)? {
            Pinned::To(rank) => Some(rank),
            Pinned::Distributed | Pinned::Random => rank_for(dir, ranks),
        }
    }

    fn parent_of(&self, inode: &Inode) -> Option<&Inode> {
        let (dir, _) = inode.place.as_ref()?;
        self.inodes.get(&dir.inode()).map(|inode| &**inode)
    }
}

/// The rank that gets a directory: the one whose number mixes with the directory's to the highest value.
fn rank_for(dir: Ino, ranks: &[MdsRank]) -> Option<MdsRank> {
    ranks.iter().copied().max_by_key(|rank| mix(dir.0 ^ mix(rank.0 as u64)))
}

/// Spreads the bits of a number: the last steps of SplitMix64 (Steele, Lea and Flood 2014).
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn directories_are_spread_evenly_and_few_move_with_a_rank() {
        let dirs = || (0..3000).map(|i| Ino(Ino::FIRST_USER + i));
        let ranks: Vec<MdsRank> = (0..4).map(MdsRank).collect();
        let mut counts = BTreeMap::new();
        dirs().for_each(|dir| *counts.entry(rank_for(dir, &ranks[..3])).or_insert(0) += 1);
        assert!(counts.values().all(|count| (900..1100).contains(count)), "{counts:?}");
        let moved = dirs().filter(|dir| rank_for(*dir, &ranks) != rank_for(*dir, &ranks[..3]));
        let moved: Vec<Ino> = moved.collect();
        assert!((650..850).contains(&moved.len()), "a quarter of them: {}", moved.len());
        assert!(moved.iter().all(|dir| rank_for(*dir, &ranks) == Some(ranks[3])), "to the new one only");
    }
}
