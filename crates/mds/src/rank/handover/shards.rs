//! Shards: fragments of a directory that are subtrees of their own, so that several ranks serve one directory
//! (the paper's section 4.3; docs/adr/0023-shards.md).
//!
//! A shard has a root like any subtree: an inode that is stored alone and counts what is in the fragment. Its
//! number says which fragment it is ([`Ino::shard`]). It begins with nothing and counts what changes, and the
//! directory counts it as it counts the roots of subtrees. Attributes and capabilities of the directory stay
//! with the directory's rank. While it has shards, no client may rely on what it has listed of the directory
//! (`InodeData::is_sharded`), since names in it come and go elsewhere.

use super::Rank;
use crate::authority::Auth;
use crate::cache::{Cache, Inode};
use crate::ops::count;
use crate::rank::commit::{commit, commit_inode};
use crate::rank::env::Due;
use crate::rank::migration::SHARD_JOINS;
use crate::types::Lsn;
use fsfmt::{DirFrag, Ino, InodeData, InodeKey, Update};
use maps::MdsRank;
use msgs::cap;

/// What the event is called by which nobody may rely on listings of a directory any more.
const BEGINS: &str = "shard begins";

impl Rank {
    /// Begins to hand over a fragment of a directory. Returns the reason if that can't be.
    pub(super) fn start_export_of_shard(&mut self, dir: DirFrag, to: MdsRank) -> Result<(), &'static str> {
        let Some(root) = Ino::shard(dir) else { return Err("the fragment is too small") };
        if self.cache.subtrees.hold(root).is_some() || self.migration.exports.contains_key(&root) {
            return self.start_export(root, to);
        }
        let is_here = matches!(self.cache.authority(dir.ino), Ok(Auth::Here));
        let Some(inode) = self.cache.inodes.get(&dir.inode()).filter(|_| is_here) else {
            return Err("this rank has no authority over it, or it is not cached");
        };
        if !may_have_shards(inode) {
            return Err("only directories with a name have parts that can be handed over");
        }
        if !is_leaf(&self.cache, dir) {
            return Err("the directory has no such fragment");
        }
        let is_sharded = inode.data.is_sharded;
        let data = InodeData { is_sharded: true, ..inode.data.clone() };
        self.cache.put_shard(root);
        if let Err(why) = self.start_export(root, to) {
            self.cache.drop_root(root);
            return Err(why);
        }
        self.cache.subtrees.note_next_shard(root);
        let Self { env, cache, sessions, .. } = self;
        if !is_sharded {
            commit_inode(env, cache, sessions, None, BEGINS, data, Vec::new());
        }
        env.due(Due::CapsChanged(dir.inode()));
        Ok(())
    }

    /// A shard that was about to begin does not.
    pub(super) fn forget_shard(&mut self, root: Ino) {
        if root.is_shard() && self.cache.subtrees.hold(root).is_none() {
            self.cache.subtrees.forget_next_shard(root);
            self.cache.drop_root(root);
        }
    }

    /// Has a directory count all that there is in a shard of it, which is part of it from now on; returns the
    /// event.
    pub(super) fn embed_shard(&mut self, root: Ino, dir: InodeKey) -> Lsn {
        let Self { env, cache, sessions, .. } = self;
        let inode = &cache.inodes[&root.head()];
        let (old, new) = (cache.counted(inode), inode.data.to_count());
        let mut data = cache.inodes[&dir].data.clone();
        count(&mut data, &old, &new);
        data.version += 1;
        data.is_sharded = cache.subtrees.shards_of(dir.ino).any(|other| other != root);
        let updates = vec![cache.update(data), Update::Border { root, counted: new }];
        commit(env, cache, sessions, SHARD_JOINS, updates)
    }
}

/// True if fragments of a directory may become shards.
fn may_have_shards(dir: &Inode) -> bool {
    let is_stray =
        dir.data.ino.is_stray() || dir.place.as_ref().is_some_and(|(above, _)| above.ino.is_stray());
    (dir.is_named_dir() || dir.data.ino == Ino::ROOT) && !is_stray
}

/// True if a directory has a fragment, which no shard has.
pub(super) fn is_leaf(cache: &Cache, dir: DirFrag) -> bool {
    cache.inodes.get(&dir.inode()).is_some_and(|inode| inode.data.frag_of(dir.frag.value()) == dir)
}

/// True if clients may rely on what they know of a directory: none of its fragments can become a shard now.
pub(super) fn is_relied_on(dir: &Inode) -> bool {
    dir.held_by_others(None) & (cap::FILE_SHARED | cap::FILE_EXCL | cap::AUTH_EXCL) != 0
}
