//! Authority over the name space (the paper's section 4.2): which rank may change a directory and answers for
//! it. Every read of an operation asks.
//!
//! A *subtree* is a directory with everything below it, down to the next subtree: its inode, all its
//! fragments and what is in them belong to one rank. What is in no other subtree belongs to rank 0
//! (docs/adr/0021-authority-moves-by-one-write.md).

use crate::types::Need;
use fsfmt::{DirFrag, Ino, SubtreeRecord, parse_subtree_key};
use maps::{MdsRank, ceph_str_hash_rjenkins};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use wire::{Decode, DecodeError, Reader};

/// The authority over a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Auth {
    /// This rank has the authority.
    Here,
    /// Another rank has it.
    Rank(MdsRank),
    /// No rank at present: the subtree of this root is being handed over.
    Frozen(Ino),
}

/// What this rank has to do with a subtree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hold {
    /// It has the authority.
    Own,
    /// It has the authority, and is about to hand it over: operations wait, what clients hold changes still.
    Settling,
    /// What clients hold here is being handed over: nothing changes any more.
    Leaving,
    /// The record gives it the authority, but what clients hold has not come yet.
    Arriving,
    /// Another rank has the authority.
    Foreign(MdsRank),
}

/// Records of the partition, by root.
pub type Records = BTreeMap<Ino, SubtreeRecord>;

/// Records of the partition as they are stored.
pub fn decode_records(entries: &BTreeMap<Vec<u8>, Vec<u8>>) -> Result<Records, DecodeError> {
    decode_by_root(entries, parse_subtree_key)
}

/// The values of the keys that `parse` knows, by the root of the subtree that they are about.
pub fn decode_by_root<T: Decode>(
    entries: &BTreeMap<Vec<u8>, Vec<u8>>,
    parse: fn(&[u8]) -> Option<Ino>,
) -> Result<BTreeMap<Ino, T>, DecodeError> {
    let known = entries.iter().filter_map(|(key, value)| Some((parse(key)?, value)));
    known.map(|(root, value)| Ok((root, Reader::new(value).get()?))).collect()
}

/// A subtree with an authority of its own.
#[derive(Clone, Debug)]
struct Root {
    hold: Hold,
    /// The stored record; none while a part of a subtree of ours is about to become one.
    record: Option<Box<SubtreeRecord>>,
}

/// Names on the way to subtrees: the inode that a name in a directory leads to, and how many records say so.
#[derive(Default, Debug)]
struct Ways(BTreeMap<(Ino, Vec<u8>), BTreeMap<Ino, u32>>);

impl Ways {
    fn get(&self, dir: Ino, name: &[u8]) -> Option<Ino> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(&(dir, name.to_vec()))?.keys().next_back().copied()
    }

    fn add(&mut self, root: Ino, record: &SubtreeRecord) {
        for (key, ino) in ways(root, record) {
            *self.0.entry(key).or_default().entry(ino).or_default() += 1;
        }
    }

    fn remove(&mut self, root: Ino, record: &SubtreeRecord) {
        for (key, ino) in ways(root, record) {
            let Entry::Occupied(mut to) = self.0.entry(key) else { continue };
            if let Entry::Occupied(mut count) = to.get_mut().entry(ino) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
            if to.get().is_empty() {
                to.remove();
            }
        }
    }
}

/// The names that lead from the root of the file system to a subtree.
fn ways(root: Ino, record: &SubtreeRecord) -> impl Iterator<Item = ((Ino, Vec<u8>), Ino)> {
    let above = record.prefix.iter().filter_map(|entry| Some((entry.dir?, &entry.name, entry.inode.ino)));
    let all = above.chain([(record.dir, &record.name, root)]);
    all.map(|(dir, name, ino)| ((dir.ino, name.clone()), ino))
}

/// The partition of the name space as far as this rank knows it.
///
/// Invariant: `prefix` has the names that lead from the root of the file system to the subtrees that are this
/// rank's own, or are on their way to or from it, and `beyond` those that lead to others, as their records
/// say.
#[derive(Debug)]
pub struct SubtreeMap {
    own: MdsRank,
    /// Other ranks, which have directories of their own at least.
    others: BTreeSet<MdsRank>,
    roots: BTreeMap<Ino, Root>,
    /// The roots of shards that are about to begin.
    next_shards: BTreeSet<Ino>,
    prefix: Ways,
    beyond: Ways,
}

impl SubtreeMap {
    /// The partition as seen by a rank that knows of no subtrees.
    pub fn new(own: MdsRank) -> Self {
        Self {
            own,
            others: BTreeSet::new(),
            roots: BTreeMap::new(),
            next_shards: BTreeSet::new(),
            prefix: Ways::default(),
            beyond: Ways::default(),
        }
    }

    /// This rank.
    pub fn own(&self) -> MdsRank {
        self.own
    }

    /// The number of subtrees whose authority this rank has.
    pub fn count_own(&self) -> usize {
        self.roots.values().filter(|root| !matches!(root.hold, Hold::Foreign(_) | Hold::Arriving)).count()
    }

    /// Notes which other ranks there are.
    pub fn set_others(&mut self, others: BTreeSet<MdsRank>) {
        self.others = others;
    }

    /// True if there are no other ranks.
    pub fn has_no_others(&self) -> bool {
        self.others.is_empty()
    }

    /// True if everything belongs to this rank.
    pub fn is_sole(&self) -> bool {
        self.own == MdsRank(0) && self.roots.is_empty() && self.others.is_empty()
    }

    /// Takes in a stored record: what this rank has to do with the subtree follows from it.
    pub fn load(&mut self, root: Ino, record: SubtreeRecord) {
        let hold = match (record.rank == self.own, record.from) {
            (true, None) => Hold::Own,
            (true, Some(_)) if stdx::mutants::is_active("mds_serves_what_has_not_come") => Hold::Own,
            (true, Some(_)) => Hold::Arriving,
            (false, Some(from)) if from == self.own => Hold::Leaving,
            (false, _) => Hold::Foreign(record.rank),
        };
        self.set_with(root, hold, Some(record));
    }

    /// Sets what this rank has to do with a subtree; its record stays.
    pub fn set(&mut self, root: Ino, hold: Hold) {
        let record = self.take(root).and_then(|known| known.record);
        self.set_with(root, hold, record.map(|record| *record));
    }

    /// Sets both.
    pub fn set_with(&mut self, root: Ino, hold: Hold, record: Option<SubtreeRecord>) {
        self.take(root);
        if let Some(record) = &record {
            self.ways_for(hold).add(root, record);
        }
        self.roots.insert(root, Root { hold, record: record.map(Box::new) });
    }

    /// A subtree is part of the one around it again.
    pub fn remove(&mut self, root: Ino) {
        self.take(root);
    }

    fn take(&mut self, root: Ino) -> Option<Root> {
        let known = self.roots.remove(&root)?;
        if let Some(record) = &known.record {
            self.ways_for(known.hold).remove(root, record);
        }
        Some(known)
    }

    fn ways_for(&mut self, hold: Hold) -> &mut Ways {
        match hold {
            Hold::Foreign(_) => &mut self.beyond,
            _ => &mut self.prefix,
        }
    }

    /// What this rank has to do with the subtree that has this root; none if it is no root.
    pub fn hold(&self, root: Ino) -> Option<Hold> {
        self.roots.get(&root).map(|known| known.hold)
    }

    /// The root of the shard that holds names of a hash in a directory; none if the directory itself does.
    pub fn shard(&self, dir: Ino, hash: u32) -> Option<Ino> {
        self.shards_of(dir).find(|root| root.as_shard().is_some_and(|shard| shard.frag.contains(hash)))
    }

    /// The roots of a directory's shards.
    pub fn shards_of(&self, dir: Ino) -> impl Iterator<Item = Ino> {
        self.roots.range(Ino::shards_of(dir)).map(|(root, _)| *root)
    }

    /// True if fragments of a directory are shards, or one is about to become one.
    pub fn is_sharded(&self, dir: Ino) -> bool {
        let all = Ino::shards_of(dir);
        let begins = self.next_shards.range(all.clone()).next().is_some();
        begins || self.roots.range(all).next().is_some()
    }

    /// True if there are shards of any directory.
    pub fn has_shards(&self) -> bool {
        self.roots.range(Ino::FIRST_SHARD..).next().is_some()
    }

    /// Notes that a shard is about to begin.
    pub fn note_next_shard(&mut self, root: Ino) {
        self.next_shards.insert(root);
    }

    /// A shard has begun, or does not begin.
    pub fn forget_next_shard(&mut self, root: Ino) {
        self.next_shards.remove(&root);
    }

    /// What this rank has to do with the nearest subtree around another one, within the one of `root`; none
    /// if that is the nearest.
    pub fn nearest_within(&self, root: Ino, record: &SubtreeRecord) -> Option<Hold> {
        let own = Some((record.dir.ino, &record.name));
        let above = record.prefix.iter().rev().filter_map(|entry| Some((entry.dir?.ino, &entry.name)));
        let around = own.into_iter().chain(above).flat_map(|(dir, name)| {
            // A shard has no name.
            let keeper = if name.is_empty() { dir } else { self.keeper_of_name(dir, name) };
            [keeper, dir].into_iter().skip(usize::from(keeper == dir))
        });
        let top = root.as_shard().map(|shard| shard.ino);
        let mut within = around.take_while(|at| *at != root && Some(*at) != top);
        within.find_map(|at| self.hold(at))
    }

    /// The inode that counts what is in a fragment, and whose authority it is under: the root of the shard
    /// that it is, or else its directory.
    pub fn keeper(&self, dir: DirFrag) -> Ino {
        Ino::shard(dir).filter(|root| self.roots.contains_key(root)).unwrap_or(dir.ino)
    }

    /// The same for a name, of which the fragment may have changed since this was noted.
    pub fn keeper_of_name(&self, dir: Ino, name: &[u8]) -> Ino {
        self.shard(dir, ceph_str_hash_rjenkins(name)).unwrap_or(dir)
    }

    /// The inode that is around the root of a subtree: the keeper of its name, or the directory that it is a
    /// shard of.
    pub fn around(&self, root: Ino, record: &SubtreeRecord) -> Ino {
        match root.as_shard() {
            Some(shard) => shard.ino,
            None => self.keeper_of_name(record.dir.ino, &record.name),
        }
    }

    /// The record of a subtree.
    pub fn record(&self, root: Ino) -> Option<&SubtreeRecord> {
        self.roots.get(&root)?.record.as_deref()
    }

    /// True if this rank stores the inode alone, because it is the root of a subtree of its own.
    pub fn is_alone(&self, ino: Ino) -> bool {
        match self.roots.get(&ino) {
            Some(Root { hold: Hold::Own | Hold::Settling, record }) => record.is_some(),
            Some(Root { hold: Hold::Leaving, record }) => record.as_ref().is_some_and(|r| r.was_alone),
            _ => false,
        }
    }

    /// The root of a subtree that is about to come.
    pub fn arriving(&self) -> Option<Ino> {
        self.roots.iter().find(|(_, known)| known.hold == Hold::Arriving).map(|(root, _)| *root)
    }

    /// True if what is cached of an inode is a copy of what another rank has.
    pub fn is_foreign_root(&self, ino: Ino) -> bool {
        matches!(self.roots.get(&ino), Some(Root { hold: Hold::Foreign(_) | Hold::Arriving, .. }))
    }

    /// The inode that a name on the way to a subtree of this rank leads to. It stays so while the subtree is
    /// this rank's.
    pub fn prefix(&self, dir: Ino, name: &[u8]) -> Option<Ino> {
        self.prefix.get(dir, name)
    }

    /// The rank that has what a path leads to, or knows better, as far as records say: the names may lead
    /// elsewhere since. None if no other rank's subtree is on the way.
    pub fn rank_of_path<'a>(&self, base: Ino, names: impl Iterator<Item = &'a [u8]>) -> Option<MdsRank> {
        let (mut at, mut rank) = (base, None);
        for name in names {
            let Some(next) = self.beyond.get(at, name).or_else(|| self.prefix.get(at, name)) else { break };
            at = next;
            if let Some(Hold::Foreign(other)) = self.hold(at) {
                rank = Some(other);
            }
        }
        rank
    }

    /// All subtrees, with what this rank has to do with each.
    pub fn iter(&self) -> impl Iterator<Item = (Ino, Hold, Option<&SubtreeRecord>)> {
        self.roots.iter().map(|(root, known)| (*root, known.hold, known.record.as_deref()))
    }

    /// The root of the nearest subtree around an inode, itself included; the root of the file system, or a
    /// directory of a rank's own, if there is no other. `above` returns the directory that an inode has its
    /// entry in, if it has one; it may need inodes that are not cached.
    pub fn root_of(&self, ino: Ino, above: impl Fn(Ino) -> Result<Option<Ino>, Need>) -> Result<Ino, Need> {
        let mut at = ino;
        while !at.is_base() && !self.roots.contains_key(&at) {
            match above(at)? {
                Some(parent) => at = parent,
                None => return Ok(Ino::mdsdir(self.own.0 as u32)),
            }
        }
        Ok(at)
    }

    /// The authority over an inode, and over what is in it if it is a directory.
    pub fn of(&self, ino: Ino, above: impl Fn(Ino) -> Result<Option<Ino>, Need>) -> Result<Auth, Need> {
        if self.is_sole() {
            return Ok(Auth::Here);
        }
        let root = self.root_of(ino, above)?;
        Ok(match self.hold(root) {
            Some(Hold::Own) => Auth::Here,
            Some(Hold::Foreign(rank)) => Auth::Rank(rank),
            Some(Hold::Settling | Hold::Leaving | Hold::Arriving) => Auth::Frozen(root),
            None if root.owner() == self.own.0 as u32 => Auth::Here,
            None => Auth::Rank(MdsRank(root.owner() as i32)),
        })
    }

    /// The ranks that have something to do with subtrees below the directory `dir`, `dir` excluded, with the
    /// roots.
    pub fn below(&self, dir: Ino) -> impl Iterator<Item = (Ino, Hold)> {
        self.roots
            .iter()
            .filter(move |(_, known)| known.record.as_deref().is_some_and(|record| record.is_below(dir)))
            .map(|(root, known)| (*root, known.hold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsfmt::{DirFrag, InodeData, PrefixEntry};
    use maps::SnapId;

    const FAR: Ino = Ino(Ino::FIRST_USER + 1);
    const BELOW: Ino = Ino(Ino::FIRST_USER + 2);

    /// Knows that one is below the other.
    fn above(ino: Ino) -> Result<Option<Ino>, Need> {
        match ino {
            BELOW => Ok(Some(FAR)),
            FAR => Ok(Some(Ino::ROOT)),
            other => Err(Need::Inode(other.head())),
        }
    }

    fn record(rank: i32, from: Option<i32>) -> SubtreeRecord {
        let top = InodeData { ino: Ino::ROOT, ..InodeData::default() };
        SubtreeRecord {
            rank: MdsRank(rank),
            from: from.map(MdsRank),
            dir: DirFrag::whole(Ino::ROOT),
            name: b"far".to_vec(),
            prefix: vec![PrefixEntry { dir: None, name: Vec::new(), inode: top, first: SnapId(0) }],
            ..SubtreeRecord::default()
        }
    }

    /// What several records say is so until the last of them is gone.
    #[test]
    fn names_lead_to_subtrees_as_long_as_a_record_says_so() {
        let mut map = SubtreeMap::new(MdsRank(1));
        let top = PrefixEntry {
            dir: Some(DirFrag::whole(Ino::ROOT)),
            name: b"far".to_vec(),
            inode: InodeData { ino: FAR, ..InodeData::default() },
            first: SnapId(0),
        };
        for (root, name) in [(BELOW, b"a"), (Ino(BELOW.0 + 1), b"b")] {
            let way = SubtreeRecord {
                dir: DirFrag::whole(FAR),
                name: name.to_vec(),
                prefix: vec![top.clone()],
                ..record(1, None)
            };
            map.load(root, way);
        }
        map.set(BELOW, Hold::Settling);
        map.remove(BELOW);
        assert_eq!((map.prefix(Ino::ROOT, b"far"), map.prefix(FAR, b"a")), (Some(FAR), None));
        map.set(Ino(BELOW.0 + 1), Hold::Foreign(MdsRank(0)));
        assert_eq!((map.prefix(Ino::ROOT, b"far"), map.prefix(FAR, b"b")), (None, None));
        let path = [b"far".as_slice(), b"b"];
        assert_eq!(map.rank_of_path(Ino::ROOT, path.into_iter()), Some(MdsRank(0)));
        map.remove(Ino(BELOW.0 + 1));
        assert!(map.prefix.0.is_empty() && map.beyond.0.is_empty());
    }

    #[test]
    fn one_rank_has_the_authority_over_everything() {
        let map = SubtreeMap::new(MdsRank(0));
        assert!(map.is_sole());
        assert_eq!(
            map.of(Ino(Ino::FIRST_USER), above),
            Ok(Auth::Here),
            "nothing needs to be cached for that"
        );
    }

    #[test]
    fn what_is_in_no_subtree_belongs_to_rank_0_and_each_rank_has_its_own_directories() {
        let map = SubtreeMap::new(MdsRank(1));
        assert_eq!(map.of(BELOW, above), Ok(Auth::Rank(MdsRank(0))));
        assert_eq!(map.of(Ino::stray(1), above), Ok(Auth::Here));
        assert_eq!(map.of(Ino::mdsdir(2), above), Ok(Auth::Rank(MdsRank(2))));
        let unknown = Ino(Ino::FIRST_USER + 9);
        assert_eq!(map.of(unknown, above), Err(Need::Inode(unknown.head())));
    }

    #[test]
    fn a_record_says_what_each_rank_has_to_do_with_a_subtree() {
        let cases = [
            (record(1, None), [Auth::Rank(MdsRank(1)), Auth::Here, Auth::Rank(MdsRank(1))]),
            (record(1, Some(0)), [Auth::Frozen(FAR), Auth::Frozen(FAR), Auth::Rank(MdsRank(1))]),
        ];
        for (record, expected) in cases {
            for (own, auth) in (0..3).zip(expected) {
                let mut map = SubtreeMap::new(MdsRank(own));
                map.load(FAR, record.clone());
                assert_eq!(map.of(BELOW, above), Ok(auth), "rank {own}");
                assert_eq!(map.is_alone(FAR), own == 1 && record.from.is_none(), "rank {own}");
                let is_on_the_way = map.prefix(Ino::ROOT, b"far") == Some(FAR);
                assert_eq!(is_on_the_way, own == 1 || own == 0 && record.from.is_some(), "rank {own}");
                let beyond = map.rank_of_path(Ino::ROOT, [b"far".as_slice(), b"below"].into_iter());
                assert_eq!(beyond, (!is_on_the_way).then_some(MdsRank(1)), "rank {own}");
                assert_eq!(map.below(Ino::ROOT).map(|(root, _)| root).collect::<Vec<_>>(), [FAR]);
            }
        }
    }
}
