//! A directory that has too much to do alone is spread: some of its fragments go to other ranks as shards
//! (docs/adr/0023-shards.md). One with few fragments is split first.

use crate::authority::Auth;
use crate::cache::Cache;
use crate::rank::popularity::Loads;
use fsfmt::{DirFrag, Frag, Ino};
use msgs::cap;

/// The fragments that a directory has at least, before some of them are given away, if there are fewer ranks.
const PARTS: usize = 8;
/// Fragments that are given away at once.
const MOST: usize = 4;
/// The part of what is done in a directory that has to change something. Who only reads is served best by a
/// directory that it may rely on.
const CHANGES: f64 = 0.5;
/// The part of it that may change something if others are to have replicas, which are given back for that.
const FEW_CHANGES: f64 = 0.01;

/// What is done about a directory that is too busy.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Spread {
    /// These fragments are to be split.
    Split(Vec<DirFrag>),
    /// These are given away, each with this load.
    Give(Vec<Ino>, f64),
}

/// The directory with the most to do in it, if it can be spread over so many ranks so that a load of about
/// `wanted` leaves, beside what is leaving already.
pub(super) fn spread(
    cache: &Cache,
    loads: &Loads,
    (ranks, wanted): (usize, f64),
    may_be_spread: impl Fn(Ino) -> bool,
    is_leaving: impl Fn(Ino) -> bool,
) -> Option<Spread> {
    let is_large = |(_, load): &(&Ino, &f64)| **load > wanted / 2.0;
    let is_changed =
        |dir: &Ino, load: f64| loads.changes.get(dir).is_some_and(|part| *part >= load * CHANGES);
    let busy = loads.alone.iter().filter(is_large).filter(|(dir, load)| is_changed(dir, **load));
    let busy = busy.filter(|(dir, _)| !dir.is_shard() && is_shared(cache, **dir) && may_be_spread(**dir));
    let (dir, load) = busy.max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(a.0)))?;
    let tree = &cache.inodes.get(&dir.head())?.data.fragtree;
    let root_of = |frag: Frag| Ino::shard(DirFrag { ino: *dir, frag });
    let mut here = tree.leaves();
    let is_enough = here.len() >= PARTS.max(ranks);
    here.retain(|frag| root_of(*frag).is_none_or(|root| cache.subtrees.hold(root).is_none()));
    let each = load / here.len().max(1) as f64;
    here.retain(|frag| root_of(*frag).is_none_or(|root| !is_leaving(root)));
    let shortest = here.iter().map(|frag| frag.bits()).min();
    if !is_enough && shortest.is_some() {
        let large = here.into_iter().filter(|frag| Some(frag.bits()) == shortest);
        return Some(Spread::Split(large.map(|frag| DirFrag { ino: *dir, frag }).collect()));
    }
    let here: Vec<Ino> = here.into_iter().filter_map(root_of).collect();
    // Names are spread evenly over hashes. One part stays.
    let count = ((wanted / each) as usize).min(MOST).min(here.len().saturating_sub(1));
    let given: Vec<Ino> = here.into_iter().rev().take(count).collect();
    (!given.is_empty()).then_some(Spread::Give(given, each))
}

/// The directory with the most to do in it, if that is more than each rank has in the mean, so that no rank
/// could take it over, and next to nothing of it changes something: other ranks can answer for it too.
/// `least` is that mean, or the number of requests a second that an administrator has set.
pub(super) fn replicate(
    cache: &Cache,
    loads: &Loads,
    least: f64,
    may_have_replicas: impl Fn(Ino) -> bool,
) -> Option<Ino> {
    let is_read = |(dir, load): &(&Ino, &f64)| {
        let changes = loads.changes.get(dir).copied().unwrap_or_default();
        **load > least && changes <= **load * FEW_CHANGES
    };
    let is_whole = |dir: Ino| !dir.is_shard() && !cache.subtrees.is_sharded(dir);
    let is_here = |dir: Ino| matches!(cache.authority(dir), Ok(Auth::Here));
    let may_have = |dir: Ino| is_whole(dir) && is_here(dir) && may_have_replicas(dir);
    let busy = loads.alone.iter().filter(is_read).filter(|(dir, _)| may_have(**dir));
    busy.max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(a.0))).map(|(dir, _)| *dir)
}

/// True if no client works in a directory alone, which is faster than what several ranks can do for it.
fn is_shared(cache: &Cache, dir: Ino) -> bool {
    let inode = cache.inodes.get(&dir.head());
    inode.is_some_and(|inode| inode.held_by_others(None) & cap::FILE_EXCL == 0)
        && matches!(cache.authority(dir), Ok(Auth::Here))
}
