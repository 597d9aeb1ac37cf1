//! A directory that has too much to do alone is spread: some of its fragments go to other ranks as shards
//! (docs/adr/0023-shards.md). One with few fragments is split first.

use crate::authority::Auth;
use crate::cache::Cache;
use crate::rank::popularity::Loads;
use fsfmt::{DirFrag, Ino};
use msgs::cap;

/// The fragments that a directory has at least, before some of them are given away.
const PARTS: usize = 8;
/// Fragments that are given away at once.
const MOST: usize = 4;
/// The part of what is done in a directory that has to change something. Who only reads is served best by a
/// directory that it may rely on.
const CHANGES: f64 = 0.5;

/// What is done about a directory that is too busy.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Spread {
    /// This fragment is to be split.
    Split(DirFrag),
    /// These are given away, each with this load.
    Give(Vec<Ino>, f64),
}

/// The directory with the most to do in it, if it can be spread so that a load of about `wanted` leaves.
pub(super) fn spread(
    cache: &Cache,
    loads: &Loads,
    wanted: f64,
    may_be_spread: impl Fn(Ino) -> bool,
) -> Option<Spread> {
    let is_large = |(_, load): &(&Ino, &f64)| **load > wanted / 2.0;
    let is_changed =
        |dir: &Ino, load: f64| loads.changes.get(dir).is_some_and(|part| *part >= load * CHANGES);
    let busy = loads.alone.iter().filter(is_large).filter(|(dir, load)| is_changed(dir, **load));
    let busy = busy.filter(|(dir, _)| !dir.is_shard() && is_shared(cache, **dir) && may_be_spread(**dir));
    let (dir, load) = busy.max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(a.0)))?;
    let tree = &cache.inodes.get(&dir.head())?.data.fragtree;
    let leaves = tree.leaves();
    if leaves.len() < PARTS {
        return Some(Spread::Split(DirFrag { ino: *dir, frag: tree.largest() }));
    }
    let here = leaves.into_iter().map(|frag| DirFrag { ino: *dir, frag });
    let here: Vec<Ino> =
        here.filter_map(Ino::shard).filter(|root| cache.subtrees.hold(*root).is_none()).collect();
    // Names are spread evenly over hashes. One part stays.
    let each = load / here.len() as f64;
    let count = ((wanted / each) as usize).min(MOST).min(here.len().saturating_sub(1));
    let given: Vec<Ino> = here.into_iter().rev().take(count).collect();
    (!given.is_empty()).then_some(Spread::Give(given, each))
}

/// True if no client works in a directory alone, which is faster than what several ranks can do for it.
fn is_shared(cache: &Cache, dir: Ino) -> bool {
    let inode = cache.inodes.get(&dir.head());
    inode.is_some_and(|inode| inode.held_by_others(None) & cap::FILE_EXCL == 0)
        && matches!(cache.authority(dir), Ok(Auth::Here))
}
