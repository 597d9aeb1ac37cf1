//! Replicas of directories (the paper's section 4.4, traffic control). A directory that many read is copied
//! to other ranks with all of its entries and files; these answer what only reads, and give clients bits that
//! all may share. As long as there is a replica nothing of the directory changes, and nobody has other bits
//! of its files.

use super::Inode;
use crate::cap;
use fsfmt::{Ino, Realm, parse_replica_key};
use maps::MdsRank;
use std::collections::{BTreeMap, BTreeSet};
use stdx::Instant;
use wire::{DecodeError, Reader};

/// The ranks that an answer names at most: Linux keeps no more (`MAX_DIRFRAG_REP`).
const MOST_TOLD: usize = 4;

/// A replica that this rank keeps of another's directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kept {
    /// The rank that has the authority.
    pub from: MdsRank,
    /// The ranks that answer for it.
    pub ranks: BTreeSet<MdsRank>,
    /// It is being given back: clients give up what they hold of it.
    pub is_returning: bool,
    /// The number under which it was asked for, or 0.
    pub asked: u64,
    /// Then: the time of the next message.
    pub next: Instant,
}

/// Replicas of this rank's directories, and those that it keeps of others'.
///
/// Invariant: of the files in a directory that is in `given` or `kept`, nobody is given other bits than those
/// that all may share.
#[derive(Default, Debug)]
pub struct Replicas {
    /// Directories of this rank that nobody changes, with the ranks that answer for them: none yet, or none
    /// any more, while these keep nothing or give it back.
    given: BTreeMap<Ino, BTreeSet<MdsRank>>,
    kept: BTreeMap<Ino, Kept>,
}

impl Replicas {
    /// Nobody is to change this directory any more.
    pub fn give(&mut self, dir: Ino) {
        self.given.entry(dir).or_default();
    }

    /// These ranks answer for a directory of this one.
    pub fn set_ranks(&mut self, dir: Ino, ranks: BTreeSet<MdsRank>) {
        self.given.insert(dir, ranks);
    }

    /// Nobody has a replica of this directory any more.
    pub fn take_back(&mut self, dir: Ino) {
        self.given.remove(&dir);
    }

    /// Directories of this rank that nobody changes because of replicas.
    pub fn given(&self) -> impl Iterator<Item = Ino> {
        self.given.keys().copied()
    }

    /// The ranks that answer for a directory of this one, itself included; none if there are no replicas.
    pub fn ranks_of(&self, dir: &Ino) -> impl Iterator<Item = i32> {
        self.given.get(dir).into_iter().flatten().map(|rank| rank.0)
    }

    /// True for a directory of this rank that nobody changes.
    pub fn is_given(&self, dir: Ino) -> bool {
        self.given.contains_key(&dir)
    }

    /// Keeps a replica.
    pub fn keep(&mut self, dir: Ino, kept: Kept) {
        self.kept.insert(dir, kept);
    }

    /// Keeps it no more.
    pub fn drop(&mut self, dir: Ino) {
        self.kept.remove(&dir);
    }

    /// The replica of a directory.
    pub fn kept(&self, dir: Ino) -> Option<&Kept> {
        self.kept.get(&dir)
    }

    /// All replicas.
    pub fn all_kept(&self) -> impl Iterator<Item = (Ino, &Kept)> {
        self.kept.iter().map(|(dir, kept)| (*dir, kept))
    }

    /// The replica of a directory, to change what is known of it.
    pub fn kept_mut(&mut self, dir: Ino) -> Option<&mut Kept> {
        self.kept.get_mut(&dir)
    }

    /// True if this rank keeps a replica of a directory.
    pub fn keeps(&self, dir: Ino) -> bool {
        self.kept.contains_key(&dir)
    }

    /// True if it keeps none.
    pub fn keeps_none(&self) -> bool {
        self.kept.is_empty()
    }

    /// True if nobody has a replica, here or of anything here.
    pub(super) fn is_empty(&self) -> bool {
        self.given.is_empty() && self.kept.is_empty()
    }

    /// The bits that nobody may have of an inode because of replicas.
    pub fn withheld(&self, inode: &Inode) -> Option<u32> {
        if self.given.contains_key(&inode.data.ino) {
            return Some(!cap::DIRECTORY);
        }
        let dir = file_of(inode)?;
        if let Some(kept) = self.kept.get(&dir) {
            return Some(if kept.is_returning { !msgs::cap::PIN } else { !cap::SHARED });
        }
        self.given.contains_key(&dir).then_some(!cap::SHARED)
    }

    /// The ranks that a client may ask about names in a directory: each client is told some of them.
    pub fn told(&self, dir: Ino, client: u64) -> BTreeSet<i32> {
        let kept = self.kept.get(&dir).filter(|kept| !kept.is_returning).map(|kept| &kept.ranks);
        let Some(ranks) = self.given.get(&dir).or(kept) else { return BTreeSet::new() };
        let first = (client as usize).wrapping_mul(MOST_TOLD);
        let chosen = (0..MOST_TOLD.min(ranks.len())).map(|n| first.wrapping_add(n) % ranks.len());
        chosen.filter_map(|n| Some(ranks.iter().nth(n)?.0)).collect()
    }

    /// Takes in what the partition says of directories of which others may have replicas.
    pub fn load(&mut self, own: MdsRank, entries: &BTreeMap<Vec<u8>, Vec<u8>>) -> Result<(), DecodeError> {
        for (key, value) in entries {
            if let Some(dir) = parse_replica_key(key)
                && Reader::new(value).get::<MdsRank>()? == own
            {
                self.give(dir);
            }
        }
        Ok(())
    }
}

/// The directory that a file has its only name in.
pub(super) fn file_of(inode: &Inode) -> Option<Ino> {
    let is_simple = !inode.data.is_dir() && inode.data.nlink == 1 && inode.data.realm != Realm::GLOBAL;
    inode.place.as_ref().filter(|(_, key)| is_simple && key.is_head()).map(|(dir, _)| dir.ino)
}
