//! A large subtree leaves in parts: directories in it leave first, as subtrees of their own, and become part
//! of it again where it comes. Operations in a part wait for as long as that part takes, and the others go
//! on. If not all of it leaves, what has left is a subtree like others.

use super::Rank;
use super::export::TOGETHER;
use crate::authority::Auth;
use crate::cache::Cache;
use crate::rank::migration::{InParts, passes};
use fsfmt::Ino;
use maps::MdsRank;
use std::time::Duration;

/// A directory with fewer inodes than this fraction of a part does not leave on its own: that takes two
/// writes.
const LEAST_SHARE: usize = 16;
/// The time after which the rest stays if no part could begin to leave.
const PATIENCE: Duration = Duration::from_secs(10);

impl Rank {
    /// Begins to hand over a directory with what is below it, in parts if that is much. Returns the reason if
    /// that can't be.
    pub(super) fn start_export_in_parts(&mut self, root: Ino, to: MdsRank) -> Result<(), &'static str> {
        self.may_export(root, to)?;
        let now = self.env.now();
        let most = self.env.cfg().options.handover_most;
        let parts = parts_of(&self.cache, root, most, |part| self.migration.stays(part, now));
        let mut has_begun = false;
        for part in parts {
            has_begun |= self.start_export(part, to).is_ok();
        }
        if !has_begun {
            self.migration.in_parts.remove(&root);
            return self.start_export(root, to);
        }
        self.migration.in_parts.insert(root, InParts { to, until: now + PATIENCE });
        Ok(())
    }

    /// Goes on with subtrees that leave in parts, once the parts before have left.
    pub(super) fn advance_parts(&mut self) {
        if !self.migration.exports.is_empty() || self.migration.is_telling(&self.cache) {
            return;
        }
        let Some((root, InParts { to, until })) = self.migration.in_parts.pop_first() else { return };
        let is_here = self.cache.authority(root) == Ok(Auth::Here);
        if !is_here || !self.migration.takes(to, root) || self.env.now() > until {
            return;
        }
        if self.start_export_in_parts(root, to).is_err_and(passes) {
            self.migration.in_parts.insert(root, InParts { to, until });
        }
    }
}

/// Directories of a large subtree that are to leave before the rest: about `most` inodes. None if the subtree
/// is not so large, or has no directory that is large enough to leave on its own.
fn parts_of(cache: &Cache, root: Ino, most: usize, stays: impl Fn(Ino) -> bool) -> Vec<Ino> {
    let is_large = |dir| cache.subtree_up_to(dir, most + 1).len() > most;
    if root.is_shard() || root.is_stray() || !is_large(root) {
        return Vec::new();
    }
    let (mut parts, mut inodes, mut around) = (Vec::new(), 0, root);
    loop {
        let mut large = None;
        for dir in cache.dirs_in(around).filter(|dir| !stays(*dir)) {
            let size = cache.subtree_up_to(dir, most + 1).len();
            if size > most {
                large = large.or(Some(dir));
            } else if size * LEAST_SHARE >= most {
                parts.push(dir);
                inodes += size;
            }
            if inodes >= most || parts.len() == TOGETHER {
                return parts;
            }
        }
        match large {
            Some(dir) if parts.is_empty() => around = dir,
            // A large one without such directories leaves as it is.
            None if parts.is_empty() && around != root => return vec![around],
            _ => return parts,
        }
    }
}
