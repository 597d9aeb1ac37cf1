//! Inode numbers for local callers.
//!
//! A live inode has its own number. A state of a snapshot and a directory of snapshots have numbers of their
//! own: the highest bit, which no live inode's number has, and 63 bits that follow from inode and snapshot.
//! Thus a state has the same number in every mount and after every remount.

use crate::api::Ino;
use crate::key::InodeKey;
use maps::SnapId;
use stdx::FastMap;

/// The bit of numbers that are not live inodes'.
const SNAPPED: Ino = 1 << 63;
/// The inverses of the factors of [`spread`], the last one first.
const INVERSES: [u64; 2] = [0xcfee_444d_8b59_a89b, 0xf1de_83e1_9937_733d];

/// The inodes behind numbers that are not live inodes'.
///
/// Invariant: a number stands for one inode as long as that is here.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    keys: FastMap<Ino, InodeKey>,
}

impl Numbers {
    /// The number of an inode: that which follows from its key, or if another inode has it, the next free
    /// one. (Among a million states of snapshots this happens once in about 20 million times.)
    pub(crate) fn of(&self, key: InodeKey) -> Ino {
        if key.is_head() {
            return key.ino();
        }
        let mut number = preferred(key);
        while self.keys.get(&number).is_some_and(|other| *other != key) {
            number = SNAPPED | number.wrapping_add(1);
        }
        number
    }

    /// Notes the number of an inode that is here now.
    pub(crate) fn give(&mut self, key: InodeKey) -> Ino {
        let number = self.of(key);
        if !key.is_head() {
            self.keys.insert(number, key);
        }
        number
    }

    /// The inode is gone.
    pub(crate) fn take_back(&mut self, number: Ino) {
        self.keys.remove(&number);
    }

    /// True if it is known what a number stands for.
    pub(crate) fn is_known(&self, number: Ino) -> bool {
        number & SNAPPED == 0 || self.keys.contains_key(&number)
    }

    /// The inode of a number; a number that was not given is a live inode's.
    pub(crate) fn key(&self, number: Ino) -> InodeKey {
        let snapped = if number & SNAPPED == 0 { None } else { self.keys.get(&number) };
        snapped.copied().unwrap_or(InodeKey::head(number))
    }
}

/// The number by which callers know an inode's state in a snapshot, unless another state has taken it.
pub fn number_in_snapshot(ino: Ino, snap: SnapId) -> Ino {
    preferred(InodeKey::new(ino, snap))
}

/// The inode of which a number stands for the state in a snapshot: what [`number_in_snapshot`] was given.
pub fn inode_in_snapshot(number: Ino, snap: SnapId) -> Ino {
    // The highest bit is not known. Inode numbers are far below 2^63, so the other candidate is none.
    let candidate = |number| gather(gather(number) ^ snap.0);
    candidate(number | SNAPPED).min(candidate(number & !SNAPPED))
}

fn preferred(key: InodeKey) -> Ino {
    SNAPPED | spread(spread(key.ino()) ^ key.snap().0)
}

/// A permutation under which neighbouring numbers lie far apart.
fn spread(n: u64) -> u64 {
    let n = (n ^ n >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ n >> 29).wrapping_mul(0xd6e8_feb8_6659_fd93);
    n ^ n >> 32
}

/// The inverse of [`spread`]: the factors are the inverses of its factors.
fn gather(n: u64) -> u64 {
    let n = (n ^ n >> 32).wrapping_mul(INVERSES[0]);
    let n = (n ^ n >> 29 ^ n >> 58).wrapping_mul(INVERSES[1]);
    n ^ n >> 31 ^ n >> 62
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn states_have_numbers_of_their_own_that_do_not_depend_on_what_else_is_here() {
        let mut numbers = Numbers::default();
        let mut seen = BTreeSet::new();
        for ino in (1..100).chain((1 << 40)..(1 << 40) + 100) {
            assert_eq!(numbers.give(InodeKey::head(ino)), ino);
            for snap in [SnapId::DIR, SnapId(2), SnapId(3), SnapId(4)] {
                let key = InodeKey::new(ino, snap);
                let number = numbers.give(key);
                assert!(seen.insert(number) && number & SNAPPED != 0);
                assert_eq!((numbers.key(number), Numbers::default().of(key)), (key, number));
            }
        }
        assert_eq!(numbers.key(7), InodeKey::head(7));
    }

    #[test]
    fn the_inode_follows_from_the_number_of_a_state() {
        for ino in (1..100).chain((1 << 40)..(1 << 40) + 100) {
            for snap in [SnapId(2), SnapId(3), SnapId(1000)] {
                assert_eq!(inode_in_snapshot(number_in_snapshot(ino, snap), snap), ino);
            }
        }
    }

    #[test]
    fn a_number_that_is_taken_is_not_given_twice() {
        let (first, second) = (InodeKey::new(5, SnapId(2)), InodeKey::new(6, SnapId(2)));
        let mut numbers = Numbers::default();
        numbers.keys.insert(preferred(second), first);
        let number = numbers.give(second);
        assert_ne!(number, preferred(second));
        assert_eq!((numbers.key(number), numbers.give(second)), (second, number));
        numbers.take_back(number);
        assert_eq!(numbers.key(number), InodeKey::head(number), "nobody's");
        assert!(!numbers.is_known(number) && numbers.is_known(5));
    }
}
