//! Which fragments are split or joined. How many entries a fragment has is not known: names are spread
//! evenly, so the directory's count tells.

use super::refusals::Refusals;
use crate::cache::{Cache, Inode};
use crate::config::MdsOptions;
use crate::rank::env::Env;
use fsfmt::{DirFrag, Ino, InodeData, Refragment};
use std::collections::BTreeSet;

/// Bits that the parts of a fragment have more: eight parts, as Ceph's.
const BITS: u32 = 3;

/// What is known when a change is chosen.
pub(super) struct Choice<'a> {
    pub env: &'a Env,
    pub refusals: &'a Refusals,
    pub kept: &'a BTreeSet<DirFrag>,
}

impl Choice<'_> {
    /// True if it is worth a look whether a change is due. Not every change of a directory is looked at.
    pub fn may_be_due(env: &Env, inode: &Inode) -> bool {
        let (data, options) = (&inode.data, &env.cfg().options);
        if data.ino.is_shard() {
            // It counts what has changed.
            return false;
        }
        let (count, size) = (count(data), options.split_size);
        let may_split = count > size && count.is_multiple_of((size / 16).max(1));
        may_split || data.fragtree.depth().is_some_and(|bits| is_few(count >> bits, options))
    }

    /// The change that a directory's fragments need, unless it was tried in vain a short while ago.
    pub fn of(&self, inode: &Inode) -> Option<Refragment> {
        let data = &inode.data;
        if !data.is_dir() || data.ino.is_shard() || data.ino.is_base() && data.ino != Ino::ROOT {
            return None;
        }
        self.split(data).or_else(|| self.join(data))
    }

    fn is_refused(&self, dir: DirFrag) -> bool {
        self.refusals.is_refused(dir, self.env.now())
    }

    fn split(&self, data: &InodeData) -> Option<Refragment> {
        let dir = DirFrag { ino: data.ino, frag: data.fragtree.largest() };
        let is_large = count(data) >> dir.frag.bits() > self.env.cfg().options.split_size;
        Refragment::split(dir, BITS).filter(|_| is_large && !self.is_refused(dir))
    }

    fn join(&self, data: &InodeData) -> Option<Refragment> {
        let count = count(data);
        let few = data.fragtree.joinable();
        let few = few.take_while(|(frag, _)| is_few(count >> frag.bits(), &self.env.cfg().options));
        let mut dirs = few.map(|(frag, bits)| (DirFrag { ino: data.ino, frag }, bits));
        let (dir, bits) = dirs.find(|(dir, _)| {
            let is_kept = count > 0 && self.kept.contains(dir);
            !is_kept && !self.is_refused(*dir)
        })?;
        Refragment::join(dir, bits)
    }
}

fn count(data: &InodeData) -> u64 {
    data.dirstat.entries()
}

/// True if a fragment of so many entries need not be split. One that was just joined is not split again by a
/// few new names, whatever the options say.
fn is_few(entries: u64, options: &MdsOptions) -> bool {
    entries < options.merge_size.min(options.split_size / 2)
}

/// The inode of a directory after a change; `None` if its fragments are not as the change expects them, or if
/// it is not cached or has no name any more.
pub(super) fn changed(cache: &Cache, change: Refragment) -> Option<InodeData> {
    let inode = cache.inodes.get(&change.whole().inode())?;
    let is_named = inode.place.as_ref().is_none_or(|(above, _)| !above.ino.is_stray());
    let mut data = Some(&inode.data).filter(|data| is_named && data.nlink > 0)?.clone();
    let (frag, bits) = (change.whole().frag, change.bits());
    let is_possible = data.fragtree.edit(|tree| match change.is_join() {
        true => tree.join(frag, bits),
        false => tree.split(frag, bits),
    });
    is_possible.then_some(data)
}
