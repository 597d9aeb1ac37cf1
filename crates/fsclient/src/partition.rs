//! The partition of the name space over ranks, as replies tell it (section 4.2 of the paper): clients send a
//! request to the rank that they last heard of, and learn better by being forwarded. Of a directory whose
//! parts have just gone to many ranks, what becomes of its files tells more than the first answers do.

use crate::key::InodeKey;
use maps::{MdsRank, ceph_str_hash_rjenkins};
use msgs::DirStat;
use std::collections::{BTreeMap, BTreeSet};

/// A directory fragment: the names whose hash begins with some bits. Encoded as (number of bits << 24 | first
/// hash).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Frag(u32);

/// The bits of a name's hash that decide its fragment.
const HASH_MASK: u32 = 0xff_ffff;

impl Frag {
    /// The bits of the hash that this fragment fixes.
    fn mask(self) -> u32 {
        HASH_MASK & !(HASH_MASK.checked_shr(self.0 >> 24).unwrap_or(0))
    }

    fn contains(self, hash: u32) -> bool {
        (hash ^ self.0) & self.mask() == 0
    }

    fn overlaps(self, other: Self) -> bool {
        (self.0 ^ other.0) & self.mask() & other.mask() == 0
    }
}

/// The authority of each directory fragment of which a reply has told one, and the ranks that answer what
/// only reads of directories that many read (section 4.4 of the paper).
///
/// Invariant: fragments of one directory do not overlap. A fragment that is absent belongs to its directory's
/// authority.
#[derive(Debug, Default)]
pub(crate) struct Partition {
    authorities: BTreeMap<InodeKey, BTreeMap<Frag, MdsRank>>,
    replicas: BTreeMap<InodeKey, BTreeSet<i32>>,
}

impl Partition {
    /// Takes what a reply says of a fragment of `dir`.
    pub(crate) fn learn(&mut self, dir: InodeKey, stat: &DirStat) {
        let frag = Frag(stat.frag);
        let frags = self.authorities.entry(dir).or_default();
        frags.retain(|known, _| !known.overlaps(frag));
        // A negative rank: the authority is that of the directory's inode.
        if stat.auth >= 0 {
            frags.insert(frag, MdsRank(stat.auth));
        }
        if frags.is_empty() {
            self.authorities.remove(&dir);
        }
        if stat.dist.is_empty() {
            self.replicas.remove(&dir);
        } else if self.replicas.get(&dir) != Some(&stat.dist) {
            self.replicas.insert(dir, stat.dist.clone());
        }
    }

    /// The capability on the inode of a name has come from this rank: so has the fragment of the name, of
    /// which replies have not told yet. It is as large as others of the directory, which are split evenly; if
    /// not, the rank forwards what it gets.
    pub(crate) fn infer(&mut self, dir: InodeKey, name: &[u8], rank: MdsRank) {
        let Some(frags) = self.authorities.get_mut(&dir) else { return };
        let bits = frags.keys().map(|frag| frag.0 >> 24).max().unwrap_or(0);
        let whole = Frag(bits << 24);
        let frag = Frag(whole.0 | ceph_str_hash_rjenkins(name) & whole.mask());
        if bits > 0 && (frags.contains_key(&frag) || !frags.keys().any(|known| known.overlaps(frag))) {
            frags.insert(frag, rank);
        }
    }

    /// The rank to look a name up at, if several answer for the directory: always the same one, so that the
    /// capability on the file is that rank's.
    pub(crate) fn replica_for_name(&self, dir: InodeKey, name: &[u8]) -> Option<MdsRank> {
        let ranks = self.replicas.get(&dir)?;
        let choice = ceph_str_hash_rjenkins(name) as usize % ranks.len().max(1);
        ranks.iter().nth(choice).map(|rank| MdsRank(*rank))
    }

    /// The rank that has the fragment of a name, if a reply told one.
    pub(crate) fn rank_of_name(&self, dir: InodeKey, name: &[u8]) -> Option<MdsRank> {
        let hash = ceph_str_hash_rjenkins(name) & HASH_MASK;
        self.find(dir, |frag| frag.contains(hash))
    }

    /// The rank that has a fragment, if a reply told one.
    pub(crate) fn rank_of_frag(&self, dir: InodeKey, frag: u32) -> Option<MdsRank> {
        self.find(dir, |known| known.overlaps(Frag(frag)))
    }

    fn find(&self, dir: InodeKey, is_it: impl Fn(Frag) -> bool) -> Option<MdsRank> {
        self.authorities.get(&dir)?.iter().find(|(frag, _)| is_it(**frag)).map(|(_, rank)| *rank)
    }

    /// Forgets a directory.
    pub(crate) fn forget(&mut self, dir: InodeKey) {
        self.authorities.remove(&dir);
        self.replicas.remove(&dir);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIR: InodeKey = InodeKey::head(0x100);

    fn told(frag: u32, auth: i32) -> DirStat {
        DirStat { frag, auth, ..DirStat::default() }
    }

    #[test]
    fn each_fragment_has_the_rank_that_was_told_last() {
        let mut partition = Partition::default();
        assert_eq!(partition.rank_of_frag(DIR, 0), None);
        partition.learn(DIR, &told(0, 1));
        assert_eq!(partition.rank_of_name(DIR, b"any"), Some(MdsRank(1)));
        let (low, high) = (1 << 24, 1 << 24 | 0x80_0000);
        partition.learn(DIR, &told(low, 2));
        assert_eq!(partition.rank_of_frag(DIR, high), None, "the whole directory was split since");
        partition.learn(DIR, &told(high, 3));
        let by_name = |name: &[u8]| ceph_str_hash_rjenkins(name) & 0x80_0000 != 0;
        for name in [b"a".as_slice(), b"b", b"c", b"d"] {
            let expected = if by_name(name) { MdsRank(3) } else { MdsRank(2) };
            assert_eq!(partition.rank_of_name(DIR, name), Some(expected));
        }
    }

    #[test]
    fn a_fragment_without_an_own_authority_is_its_directorys() {
        let mut partition = Partition::default();
        partition.learn(DIR, &told(0, 1));
        partition.learn(DIR, &told(0, -1));
        assert_eq!(partition.rank_of_name(DIR, b"a"), None);
        assert!(partition.authorities.is_empty());
    }

    /// Each name has one of the ranks, and all of them have some.
    #[test]
    fn lookups_in_a_directory_with_replicas_are_spread_until_a_reply_names_none() {
        let mut partition = Partition::default();
        let all = BTreeSet::from([0, 2, 3]);
        partition.learn(DIR, &DirStat { dist: all.clone(), ..told(0, -1) });
        let names: Vec<String> = (0..100).map(|n| format!("header{n}.h")).collect();
        let of = |name: &String| partition.replica_for_name(DIR, name.as_bytes()).map(|rank| rank.0);
        let chosen: Vec<Option<i32>> = names.iter().map(of).collect();
        assert_eq!(chosen.iter().flatten().copied().collect::<BTreeSet<_>>(), all);
        assert_eq!(names.iter().map(of).collect::<Vec<_>>(), chosen);
        assert_eq!(partition.rank_of_name(DIR, b"header1.h"), None, "the authority is who it was");
        partition.learn(DIR, &told(0, -1));
        assert_eq!(partition.replica_for_name(DIR, b"header1.h"), None);
    }

    #[test]
    fn a_file_that_has_moved_tells_where_its_fragment_is() {
        let mut partition = Partition::default();
        partition.infer(DIR, b"a", MdsRank(4));
        assert_eq!(partition.rank_of_name(DIR, b"a"), None, "the directory may be whole");
        let half = |name: &[u8]| 1 << 24 | ceph_str_hash_rjenkins(name) & 0x80_0000;
        let mut names = [&b"a"[..], b"b", b"c", b"d", b"e", b"f"].into_iter();
        let one = names.next().expect("a name");
        let other = names.find(|name| half(name) != half(one)).expect("a name of the other half");
        partition.learn(DIR, &told(half(one), 1));
        partition.infer(DIR, other, MdsRank(4));
        let ranks = |partition: &Partition| [one, other].map(|name| partition.rank_of_name(DIR, name));
        assert_eq!(ranks(&partition), [Some(MdsRank(1)), Some(MdsRank(4))]);
        partition.infer(DIR, one, MdsRank(5));
        assert_eq!(ranks(&partition)[0], Some(MdsRank(5)), "it has moved again");
        partition.learn(DIR, &told(2 << 24 | half(other) & 0x80_0000, 6));
        partition.infer(DIR, one, MdsRank(7));
        assert_eq!(ranks(&partition)[0], Some(MdsRank(5)), "what replies have told is not broken up");
    }

    #[test]
    fn a_fragment_of_too_many_bits_is_harmless() {
        let frag = Frag(0xff00_0000 | 5);
        assert!(frag.contains(5) && !frag.contains(4));
    }
}
