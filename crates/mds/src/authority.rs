//! Authority over directory fragments: the rank that may change an entry and answers for it (the paper's
//! section 4.2). Every read of an operation asks for it; with one rank the answer is always [`Auth::Here`].

use crate::types::Need;
use fsfmt::{DirFrag, Subtree};
use maps::MdsRank;
use std::collections::BTreeMap;

/// The authority over a fragment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Auth {
    /// This rank has the authority.
    Here,
    /// Another rank has it.
    Rank(MdsRank),
    /// No rank at present: a migration is undecided.
    Frozen,
}

/// The partition of the name space as far as this rank knows it: the roots of subtrees, each with its rank. A
/// fragment belongs to the nearest root above it.
#[derive(Debug)]
pub struct SubtreeMap {
    own: MdsRank,
    /// Roots by fragment. None of them is foreign or frozen as long as `is_sole`.
    roots: BTreeMap<DirFrag, Subtree>,
    is_sole: bool,
}

impl SubtreeMap {
    /// The partition as seen by a rank that knows no others.
    pub fn new(own: MdsRank) -> Self {
        Self { own, roots: BTreeMap::new(), is_sole: true }
    }

    /// Sets the journal's subtrees. A subtree of another rank is an error: no version serves several ranks
    /// yet.
    pub fn set(&mut self, subtrees: Vec<Subtree>) -> Result<(), String> {
        let is_own = |s: &Subtree| s.rank == self.own && s.other.is_none();
        if let Some(foreign) = subtrees.iter().find(|s| !is_own(s)) {
            return Err(format!("the journal gives subtree {} to rank {}", foreign.dir, foreign.rank));
        }
        self.roots = subtrees.into_iter().map(|s| (s.dir, s)).collect();
        self.is_sole = self.roots.values().all(is_own);
        Ok(())
    }

    /// The authority over a fragment. `above` names the fragment in which a fragment's directory has its
    /// entry, if it has one; it may need inodes that are not cached.
    pub fn of(
        &self,
        dir: DirFrag,
        above: impl Fn(DirFrag) -> Result<Option<DirFrag>, Need>,
    ) -> Result<Auth, Need> {
        if self.is_sole {
            return Ok(Auth::Here);
        }
        let mut at = dir;
        loop {
            if let Some(root) = self.roots.get(&at) {
                return Ok(match root {
                    Subtree { other: Some(_), .. } => Auth::Frozen,
                    Subtree { rank, .. } if *rank == self.own => Auth::Here,
                    Subtree { rank, .. } => Auth::Rank(*rank),
                });
            }
            match above(at)? {
                Some(parent) => at = parent,
                // A base directory that is no root belongs to the rank that has it.
                None => return Ok(Auth::Here),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsfmt::Ino;

    fn root(ino: Ino, rank: i32) -> Subtree {
        Subtree { dir: DirFrag::whole(ino), rank: MdsRank(rank), other: None }
    }

    /// Knows no inode.
    fn above(dir: DirFrag) -> Result<Option<DirFrag>, Need> {
        Err(Need::Inode(dir.inode()))
    }

    #[test]
    fn one_rank_has_the_authority_over_everything() {
        let mut map = SubtreeMap::new(MdsRank(0));
        assert_eq!(map.set(vec![root(Ino::ROOT, 0), root(Ino::mdsdir(0), 0)]), Ok(()));
        assert_eq!(map.of(DirFrag::whole(Ino(Ino::FIRST_USER)), above), Ok(Auth::Here));
    }

    #[test]
    fn a_journal_that_names_another_rank_is_refused() {
        let mut map = SubtreeMap::new(MdsRank(0));
        assert!(map.set(vec![root(Ino::ROOT, 1)]).is_err());
        assert!(map.set(vec![Subtree { other: Some(MdsRank(1)), ..root(Ino::ROOT, 0) }]).is_err());
        assert_eq!(map.of(DirFrag::whole(Ino::ROOT), above), Ok(Auth::Here));
    }

    #[test]
    fn fragments_belong_to_the_nearest_root() {
        let (far, frozen) = (Ino(Ino::FIRST_USER + 1), Ino(Ino::FIRST_USER + 2));
        let frozen = Subtree { other: Some(MdsRank(1)), ..root(frozen, 0) };
        let roots = [root(Ino::ROOT, 0), root(far, 1), frozen];
        let map = SubtreeMap { own: MdsRank(0), roots: roots.map(|s| (s.dir, s)).into(), is_sole: false };
        assert_eq!(map.of(DirFrag::whole(far), above), Ok(Auth::Rank(MdsRank(1))));
        assert_eq!(map.of(frozen.dir, above), Ok(Auth::Frozen));
        let below = Ino(Ino::FIRST_USER + 3);
        assert_eq!(map.of(DirFrag::whole(below), above), Err(Need::Inode(below.head())));
    }
}
