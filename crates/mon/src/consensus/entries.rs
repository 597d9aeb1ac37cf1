//! The log in memory: entries since the last checkpoint that is still kept, and the set of voters that each
//! prefix ends with.

use crate::consensus::voter::VoterId;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The voters: their stores, and the names of the monitors that own them.
pub type Voters = BTreeMap<VoterId, String>;

/// A position in the log. Ordered as elections compare logs: by term, then by index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Position {
    /// Term of the leader that created the entry.
    pub term: u64,
    /// Index, from 1 without gaps; 0 is the position before the first entry.
    pub index: u64,
}

/// An entry of the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its position.
    pub at: Position,
    /// The voters from this entry on, if it changes them.
    pub voters: Option<Arc<Voters>>,
    /// The owner's payload, encoded.
    pub data: Arc<Vec<u8>>,
}

/// The entries after a base that is known to be committed.
#[derive(Debug)]
pub(super) struct Entries {
    base: Position,
    entries: VecDeque<Entry>,
    /// Voters by the index from which they apply; the first index is that of the base.
    voters: Vec<(u64, Arc<Voters>)>,
}

impl Entries {
    pub fn new(base: Position, voters: Arc<Voters>) -> Self {
        Self { base, entries: VecDeque::new(), voters: vec![(base.index, voters)] }
    }

    /// Everything up to here is only in snapshots.
    pub fn base(&self) -> Position {
        self.base
    }

    pub fn last(&self) -> Position {
        self.entries.back().map_or(self.base, |e| e.at)
    }

    /// The newest voters, committed or not: they apply as soon as they are in the log.
    pub fn voters(&self) -> &Arc<Voters> {
        &self.voters.last().expect("the base has some").1
    }

    /// The index of the entry that brought [`Self::voters`].
    pub fn voters_since(&self) -> u64 {
        self.voters.last().expect("the base has some").0
    }

    /// The voters that apply after `index`, which is not before the base.
    pub fn voters_at(&self, index: u64) -> &Arc<Voters> {
        let held = self.voters.iter().rev().find(|(from, _)| *from <= index);
        &held.unwrap_or(&self.voters[0]).1
    }

    /// The term of an entry; `None` if the log does not have it.
    pub fn term_at(&self, index: u64) -> Option<u64> {
        if index == self.base.index {
            return Some(self.base.term);
        }
        self.get(index).map(|e| e.at.term)
    }

    pub fn get(&self, index: u64) -> Option<&Entry> {
        let offset = index.checked_sub(self.base.index + 1)?;
        self.entries.get(usize::try_from(offset).ok()?)
    }

    /// Appends the next entry.
    pub fn push(&mut self, entry: Entry) {
        assert_eq!(entry.at.index, self.last().index + 1, "entries have no gaps");
        if let Some(voters) = &entry.voters {
            self.voters.push((entry.at.index, voters.clone()));
        }
        self.entries.push_back(entry);
    }

    /// Removes the entries from `index` on.
    pub fn truncate(&mut self, index: u64) {
        assert!(index > self.base.index, "what is in a snapshot is committed");
        self.entries.truncate((index - self.base.index - 1) as usize);
        self.voters.retain(|(from, _)| *from < index || *from == self.base.index);
    }

    /// Forgets the entries up to `index`, which are in a snapshot.
    pub fn compact(&mut self, index: u64) {
        let Some(term) = self.term_at(index) else { return };
        let voters = self.voters_at(index).clone();
        while self.entries.front().is_some_and(|e| e.at.index <= index) {
            self.entries.pop_front();
        }
        self.base = Position { term, index };
        self.voters.retain(|(from, _)| *from > index);
        self.voters.insert(0, (index, voters));
    }

    /// Copies of the entries from `from` on, limited in number and bytes, but at least one.
    pub fn batch(&self, from: u64, max: usize, max_bytes: usize) -> Vec<Entry> {
        let mut out = Vec::new();
        let mut bytes = 0;
        let mut index = from;
        while let Some(entry) = self.get(index) {
            bytes += entry.data.len();
            if !out.is_empty() && (out.len() == max || bytes > max_bytes) {
                break;
            }
            out.push(entry.clone());
            index += 1;
        }
        out
    }

    /// The last index up to which a log with `term` at `index` can agree with this one: the next place to try
    /// after a leader's claim was wrong.
    pub fn hint(&self, index: u64) -> u64 {
        let last = self.last().index;
        if index > last {
            return last;
        }
        let wrong = self.term_at(index);
        let mut at = index;
        while at > self.base.index && self.term_at(at) == wrong {
            at -= 1;
        }
        at
    }
}
