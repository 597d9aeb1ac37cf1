//! A directory that has too much to do alone is spread: some of its fragments go to other ranks as shards
//! (docs/adr/0023-shards.md). One with few fragments is split first.

use super::choice::FITS;
use crate::authority::Auth;
use crate::cache::Cache;
use crate::rank::popularity::Loads;
use fsfmt::{DirFrag, Frag, Ino};
use msgs::cap;

/// The fragments that a directory has at least, before some of them are given away.
const PARTS: usize = 8;
/// The fragments that one rank may have of a directory, at most this many times as many as each has in the
/// mean.
const UNEVEN: f64 = 1.2;
/// The most bits by which one split makes fragments smaller.
const MOST_BITS: u32 = 8;
/// Fragments that are given to one rank at once.
const MOST: usize = 8;
/// The part of what is done in a directory that has to change something. Who only reads is served best by a
/// directory that it may rely on.
const CHANGES: f64 = 0.5;
/// The part of it that may change something if others are to have replicas, which are given back for that.
const FEW_CHANGES: f64 = 0.01;

/// What is done about a directory that is too busy.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Spread {
    /// These fragments are to be split, each into this number of parts, as a power of two.
    Split(Vec<(DirFrag, u32)>),
    /// These are given away, with this load.
    Give(Vec<Ino>, f64),
}

/// The directory with the most to do in it, if it can be spread over so many ranks so that a load of about
/// `wanted` leaves, beside what is leaving already; or one fragment with up to `most`, since that is better
/// than none.
pub(super) fn spread(
    cache: &Cache,
    loads: &Loads,
    (ranks, wanted, most): (usize, f64, f64),
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
    let root_of = |frag: &Frag| Ino::shard(DirFrag { ino: *dir, frag: *frag });
    let is_here = |frag: &Frag| root_of(frag).is_none_or(|root| cache.subtrees.hold(root).is_none());
    let here: Vec<Frag> = tree.leaves().into_iter().filter(is_here).collect();
    let bits = bits_for(ranks);
    let large = here.iter().filter(|frag| frag.bits() < bits);
    let splits: Vec<_> =
        large.map(|frag| (DirFrag { ino: *dir, frag: *frag }, (bits - frag.bits()).min(MOST_BITS))).collect();
    if !splits.is_empty() {
        return Some(Spread::Split(splits));
    }
    // Names are spread evenly over hashes.
    let all: f64 = here.iter().map(part_of).sum();
    let load_of = |frag: &Frag| load * part_of(frag) / all;
    let left = here.iter().filter(|frag| root_of(frag).is_none_or(|root| !is_leaving(root)));
    let (mut given, mut room) = (Vec::new(), wanted * FITS);
    // One stays.
    for frag in left.skip(1) {
        let fits = load_of(frag) <= if given.is_empty() { room.max(most) } else { room };
        if let Some(root) = root_of(frag).filter(|_| fits && given.len() < MOST) {
            room -= load_of(frag);
            given.push(root);
        }
    }
    (!given.is_empty()).then_some(Spread::Give(given, wanted * FITS - room))
}

/// The bits of each fragment of a directory that is spread over this number of ranks: the fewest with which
/// no rank has much more of it than others.
fn bits_for(ranks: usize) -> u32 {
    let is_even = |parts: usize| (parts.div_ceil(ranks) * ranks) as f64 <= parts as f64 * UNEVEN;
    (PARTS.ilog2()..).find(|bits| is_even(1 << bits)).expect("four for each rank are enough")
}

/// The part of a directory's names that a fragment has.
fn part_of(frag: &Frag) -> f64 {
    1.0 / f64::from(1 << frag.bits())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_gets_as_few_fragments_as_can_be_spread_evenly() {
        let ranks = [2, 3, 4, 5, 6, 8, 10, 12, 16, 18, 32, 128];
        let parts = [8, 8, 8, 32, 16, 8, 64, 32, 16, 16, 32, 128];
        assert_eq!(ranks.map(|ranks| 1 << bits_for(ranks)), parts);
    }
}
