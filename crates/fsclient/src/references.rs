//! References that local callers hold to inodes that are not here any more, and what is still to be known of
//! these.

use crate::api::Ino;
use crate::inode::Inode;
use crate::key::InodeKey;
use std::collections::BTreeMap;

/// References to inodes that are not here: the kernel keeps a million after it has listed a million names. A
/// tree of counts takes some 27 bytes for each. A hash table with room for a parent in each entry takes 65 to
/// 130, and the larger and the smaller table together while it grows.
///
/// Invariants: each inode is referred to at least once; only of those something is known.
#[derive(Debug, Default)]
pub(crate) struct References {
    counts: BTreeMap<Ino, u64>,
    /// The directories and names where directories were last seen, which tell the former as `..`.
    parents: BTreeMap<Ino, (InodeKey, Vec<u8>)>,
}

impl References {
    /// An inode is dropped.
    pub(crate) fn dropped(&mut self, inode: &Inode) {
        let (count, attrs) = (inode.usage().lookups(), inode.attrs());
        if count > 0 {
            self.counts.insert(inode.number(), count);
            if let Some(parent) = inode.parent().filter(|_| attrs.is_dir()) {
                self.parents.insert(inode.number(), parent.clone());
            }
        }
    }

    /// An inode is here again: it counts its references, and knows where it was seen.
    pub(crate) fn give_back(&mut self, inode: &mut Inode) {
        let Some(count) = self.counts.remove(&inode.number()) else { return };
        inode.add_lookups(count);
        if let Some((dir, name)) = self.parents.remove(&inode.number()) {
            inode.set_parent(dir, &name);
        }
    }

    /// A caller gives references to an inode back that is not here.
    pub(crate) fn forget(&mut self, ino: Ino, count: u64) {
        let Some(left) = self.counts.get_mut(&ino) else { return };
        *left = left.saturating_sub(count);
        if *left == 0 {
            self.counts.remove(&ino);
            self.parents.remove(&ino);
        }
    }

    /// The directory in which a directory was last seen.
    pub(crate) fn parent(&self, ino: Ino) -> Option<InodeKey> {
        self.parents.get(&ino).map(|(dir, _)| *dir)
    }
}
