//! How much is done in which directories: counts that decay, of which the balancer makes the load of subtrees
//! and of the rank (the paper's sections 4.2 and 4.3).

use crate::authority::Auth;
use crate::cache::Cache;
use fsfmt::Ino;
use std::collections::{BTreeMap, BTreeSet};

/// The weight of a request that changes nothing.
pub(super) const READ: u32 = 1;
/// The weight of a change, which costs an event in the journal, and later a write to the directory.
pub(super) const CHANGE: u32 = 4;
/// The part of a count that is left after a second: half of it after five, as in Ceph
/// (`mds_decay_halflife`).
const LEFT: f64 = 0.870_550_563_296_124_1;
/// The count of one request a second, after a decay.
const OF_ONE_A_SECOND: f64 = LEFT / (1.0 - LEFT);
/// A count below which a directory is forgotten.
const LEAST: f64 = 0.05;
/// Parts of a unit in which counts are handed over.
const PARTS: f64 = 16.0;

/// Counts of what was done directly in each directory of this rank.
#[derive(Default)]
pub(super) struct Popularity {
    dirs: BTreeMap<Ino, f64>,
    /// The part of it that changed something.
    changes: BTreeMap<Ino, f64>,
}

impl Popularity {
    /// Something was done to an inode, or in it if it is a directory.
    pub fn note(&mut self, cache: &Cache, ino: Ino, weight: u32) {
        let Some(inode) = cache.inodes.get(&ino.head()) else { return };
        let above = inode.place.as_ref().map(|(dir, _)| cache.subtrees.keeper(*dir));
        let dir = above.filter(|_| !inode.data.is_dir()).unwrap_or(ino);
        *self.dirs.entry(dir).or_default() += f64::from(weight);
        if weight == CHANGE {
            *self.changes.entry(dir).or_default() += f64::from(weight);
        }
    }

    /// A second has passed.
    pub fn decay(&mut self) {
        for counts in [&mut self.dirs, &mut self.changes] {
            counts.retain(|_, count| {
                *count *= LEFT;
                *count >= LEAST
            });
        }
    }

    /// Forgets directories that another rank has now.
    pub fn forget(&mut self, dirs: impl IntoIterator<Item = Ino>) {
        for dir in dirs {
            self.dirs.remove(&dir);
            self.changes.remove(&dir);
        }
    }

    /// The counts of some directories, for the rank that gets them, in sixteenths.
    pub fn of(&self, dirs: impl IntoIterator<Item = Ino>) -> BTreeMap<u64, u64> {
        let counts = dirs.into_iter().filter_map(|dir| Some((dir.0, (self.dirs.get(&dir)? * PARTS) as u64)));
        counts.collect()
    }

    /// Takes counts over from the rank that had these directories.
    pub fn take(&mut self, counts: &BTreeMap<u64, u64>) {
        for (dir, count) in counts {
            *self.dirs.entry(Ino(*dir)).or_default() += *count as f64 / PARTS;
        }
    }

    /// True if something was done in a directory a short while ago.
    pub fn has(&self, dir: Ino) -> bool {
        self.dirs.contains_key(&dir)
    }

    /// The load of the rank: weighted requests a second.
    pub fn total(&self) -> f64 {
        self.dirs.values().sum::<f64>() / OF_ONE_A_SECOND
    }

    /// The loads of this rank's directories, each with what is below it in the same subtree.
    pub fn loads(&self, cache: &Cache) -> Loads {
        let mut loads = Loads::of(cache, self.dirs.iter().map(|(dir, count)| (*dir, *count)));
        loads.changes = self.changes.iter().map(|(dir, count)| (*dir, count / OF_ONE_A_SECOND)).collect();
        loads
    }

    /// The same, made of the busiest directories only, if there are more than `most`; without what changes
    /// something.
    pub fn loads_of_busiest(&self, cache: &Cache, most: usize) -> Loads {
        let mut dirs: Vec<(Ino, f64)> = self.dirs.iter().map(|(dir, count)| (*dir, *count)).collect();
        if dirs.len() > most {
            dirs.select_nth_unstable_by(most, |(_, a), (_, b)| b.total_cmp(a));
            dirs.truncate(most);
        }
        Loads::of(cache, dirs)
    }
}

/// The loads of directories, in weighted requests a second.
#[derive(Default)]
pub(super) struct Loads {
    /// What is done directly in each.
    pub alone: BTreeMap<Ino, f64>,
    /// The part of that which changes something.
    pub changes: BTreeMap<Ino, f64>,
    /// With all that is below it in the same subtree.
    pub nested: BTreeMap<Ino, f64>,
    /// The directories in each of which something is done there or below.
    pub children: BTreeMap<Ino, BTreeSet<Ino>>,
    /// The directory above each that is not the root of its subtree.
    above: BTreeMap<Ino, Ino>,
    /// The roots of subtrees.
    pub roots: BTreeSet<Ino>,
}

impl Loads {
    /// The loads that these counts of directories make.
    fn of(cache: &Cache, counts: impl IntoIterator<Item = (Ino, f64)>) -> Self {
        let mut loads = Self::default();
        for (dir, count) in counts {
            let is_one = !dir.is_shard() || cache.subtrees.hold(dir).is_some();
            if is_one && matches!(cache.authority(dir), Ok(Auth::Here)) {
                loads.add(cache, dir, count / OF_ONE_A_SECOND);
            }
        }
        loads
    }

    fn add(&mut self, cache: &Cache, dir: Ino, load: f64) {
        *self.alone.entry(dir).or_default() += load;
        let mut at = dir;
        loop {
            *self.nested.entry(at).or_default() += load;
            let above = cache.inodes.get(&at.head()).and_then(|inode| inode.place.as_ref());
            let Some((above, _)) = above.filter(|_| cache.subtrees.hold(at).is_none()) else { break };
            let above = cache.subtrees.keeper(*above);
            self.children.entry(above).or_default().insert(at);
            self.above.insert(at, above);
            at = above;
        }
        self.roots.insert(at);
    }

    /// Takes a directory out with all that is below it.
    pub fn remove(&mut self, dir: Ino) {
        let load = self.nested.remove(&dir).unwrap_or_default();
        self.roots.remove(&dir);
        let mut above = self.above.get(&dir).copied();
        if let Some(children) = above.and_then(|above| self.children.get_mut(&above)) {
            children.remove(&dir);
        }
        while let Some(at) = above {
            *self.nested.entry(at).or_default() -= load;
            above = self.above.get(&at).copied();
        }
    }
}
