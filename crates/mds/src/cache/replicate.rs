//! Replicas in the cache: what is in them, how they come and go, and what changes them.

use super::replicas::{Kept, file_of};
use super::{Cache, Inode, Revocation, SlotLink};
use crate::authority::Auth;
use crate::types::{OpId, Place};
use fsfmt::{Dentry, DentryKey, DirFrag, Ino, InodeData, InodeKey, Link, SubtreeRecord, Update};

impl Cache {
    /// True for a file of which this rank has a replica.
    pub fn is_replica(&self, inode: &Inode) -> bool {
        file_of(inode).is_some_and(|dir| self.replicas.keeps(dir))
    }

    /// The same of an inode by its number, which need not be cached.
    pub fn has_replica(&self, ino: InodeKey) -> bool {
        !self.replicas.keeps_none() && self.inodes.get(&ino).is_some_and(|inode| self.is_replica(inode))
    }

    /// The same, if requests about it are answered here.
    pub fn is_shown_replica(&self, ino: Ino) -> bool {
        let dir = self.inodes.get(&ino.head()).and_then(|inode| file_of(inode));
        dir.and_then(|dir| self.replicas.kept(dir)).is_some_and(|kept| !kept.is_returning)
    }

    /// The directory of this rank that has a file, if nobody may change it because of replicas.
    pub fn given_around(&self, inode: &Inode) -> Option<Ino> {
        file_of(inode).filter(|dir| self.replicas.is_given(*dir))
    }

    /// Withholds from clients what nobody may have of an inode because of replicas.
    pub fn withhold_for_replicas(&mut self, ino: InodeKey) {
        if self.replicas.is_empty() {
            return;
        }
        let Some(inode) = self.inodes.get(&ino) else { return };
        let Some(mask) = self.replicas.withheld(inode) else { return };
        let inode = self.inodes.get_mut(&ino).expect("just found");
        let from_all = vec![Revocation { except: None, mask }];
        if !inode.caps.is_empty() && inode.under_way.revocations.get(&OpId::REPLICA) != Some(&from_all) {
            inode.under_way.edit(|at| at.revocations.insert(OpId::REPLICA, from_all));
        }
    }

    /// A directory's inode and those of the files in it, as far as they are cached.
    pub fn with_files(&self, dir: Ino) -> Vec<InodeKey> {
        let slots = self.dirs.range(DirFrag::all_of(dir)).flat_map(|(_, d)| &d.slots);
        let files = slots.filter_map(|(key, slot)| match slot.link(key) {
            SlotLink::Primary(ino) if ino.is_head() => Some(ino),
            _ => None,
        });
        let is_file = |ino: &InodeKey| self.inodes.get(ino).is_some_and(|inode| !inode.data.is_dir());
        [dir.head()].into_iter().chain(files.filter(is_file)).collect()
    }

    /// The directory that an operation changes by these updates, or a file of which it opens to change or
    /// locks it, although others may have a replica of it.
    pub fn replica_in_the_way(&self, updates: &[Update], files: [Option<InodeKey>; 2]) -> Option<Ino> {
        self.replicas.given().next()?;
        let is_given = |ino: &Ino| self.replicas.is_given(*ino);
        let changed = updates.iter().find_map(|update| match update {
            Update::Dentry { dir, key, value } => {
                let link = value.as_ref().map(|dentry| &dentry.link);
                let directory = match link {
                    Some(Link::Primary(data)) if data.is_dir() => Some(data.ino),
                    _ => None,
                };
                // The inode of a directory in it is no part of the replica.
                let is_its_own = directory.is_some_and(|ino| self.leads_to(&(*dir, key.clone()), ino));
                let own = directory.filter(is_given);
                own.or(Some(dir.ino).filter(|dir| is_given(dir) && !is_its_own))
            }
            Update::Base { inode } => Some(inode.ino).filter(is_given),
            _ => None,
        });
        let mut files = files.into_iter().flatten().filter_map(|ino| self.inodes.get(&ino));
        changed.or_else(|| files.find_map(|inode| self.given_around(inode)))
    }

    fn leads_to(&self, (dir, key): &Place, ino: Ino) -> bool {
        self.slot(*dir, key).is_some_and(|slot| slot.link(key).inode() == Some(ino.head()))
    }

    /// A directory of this rank, at or below this one, of which others may have a replica. One that is not
    /// cached may be anywhere.
    pub fn given_below(&self, dir: Ino) -> Option<Ino> {
        let is_below = |given: &Ino| {
            let inode = self.inodes.get(&given.head());
            inode.is_none_or(|inode| self.upwards(inode).any(|above| above.data.ino == dir))
        };
        self.replicas.given().find(is_below)
    }

    /// Takes in a replica of a directory. Returns false if that can't be: this rank believes that another one
    /// has the authority, or clients hold something of it.
    pub fn put_replica(
        &mut self,
        dir: InodeData,
        record: &SubtreeRecord,
        entries: Vec<(DirFrag, DentryKey, Dentry)>,
        kept: Kept,
    ) -> bool {
        let (ino, leaves) = (dir.ino, dir.fragtree.leaves());
        let is_ours = matches!(self.authority(ino), Ok(Auth::Here | Auth::Frozen(_)));
        // What leads to subtrees of this rank is known better here, and is where it is.
        let own = self.leading_to_own(Ino(0));
        let is_elsewhere = |(frag, key, dentry): &(DirFrag, DentryKey, Dentry)| {
            let Link::Primary(data) = &dentry.link else { return false };
            let Some(inode) = self.inodes.get(&data.key()) else { return false };
            let has_moved = inode.place.as_ref().is_none_or(|(at, name)| (at, name) != (frag, key));
            !inode.caps.is_empty() && !data.is_dir() || own.contains(&data.ino) && has_moved
        };
        if is_ours || entries.iter().any(is_elsewhere) || !self.forget_replica(ino) {
            return false;
        }
        self.put_prefix(record);
        self.put_root(dir, record);
        if self.authority(ino) != Ok(Auth::Rank(kept.from)) {
            return false;
        }
        for (dir, key, dentry) in entries.into_iter().filter(|(.., dentry)| !own.contains(&dentry.link.ino()))
        {
            self.put_entry((dir, key), dentry);
        }
        for frag in leaves {
            self.dirs.entry(DirFrag { ino, frag }).or_default().complete = true;
        }
        self.replicas.keep(ino, kept);
        true
    }

    /// Entries of directories of which this rank has replicas.
    pub fn entries_of_replicas(&self) -> usize {
        let dirs = self.replicas.all_kept().flat_map(|(dir, _)| self.dirs.range(DirFrag::all_of(dir)));
        dirs.map(|(_, d)| d.slots.len()).sum()
    }

    /// Forgets what is cached in a directory of another rank and below, but for what leads to subtrees of
    /// this one. Returns false if clients hold something of it.
    pub fn forget_replica(&mut self, dir: Ino) -> bool {
        let slots = self.dirs.range(DirFrag::all_of(dir)).flat_map(|(_, d)| &d.slots);
        let inside = slots.filter_map(|(key, slot)| match slot.link(key) {
            SlotLink::Primary(ino) if ino.is_head() && self.subtrees.hold(ino.ino).is_none() => Some(ino),
            _ => None,
        });
        let inside: Vec<InodeKey> = inside.collect();
        let all = inside.iter().flat_map(|ino| self.subtree(ino.ino));
        if all.into_iter().any(|ino| self.inodes.get(&ino).is_some_and(|inode| !inode.caps.is_empty())) {
            return false;
        }
        inside.iter().for_each(|ino| self.drop_subtree(ino.ino));
        let kept = self.leading_to_own(Ino(0));
        let frags: Vec<DirFrag> = self.dirs.range(DirFrag::all_of(dir)).map(|(dir, _)| *dir).collect();
        frags.into_iter().for_each(|frag| self.forget_entries(frag, &kept));
        true
    }
}
