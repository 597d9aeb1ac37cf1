//! References that local callers hold to inodes that are not here any more, and what is still to be known of
//! these.

use crate::api::Ino;
use crate::inode::Inode;
use crate::key::InodeKey;
use stdx::FastMap;

/// What is left of an inode that was dropped while callers refer to it.
#[derive(Debug)]
struct Left {
    count: u64,
    /// The directory and name where it was last seen; of directories only, which tell it as `..`.
    parent: Option<(InodeKey, Vec<u8>)>,
}

/// References to inodes that are not here. Invariant: each is referred to at least once.
#[derive(Debug, Default)]
pub(crate) struct References {
    left: FastMap<Ino, Left>,
}

impl References {
    /// An inode is dropped.
    pub(crate) fn dropped(&mut self, inode: &Inode) {
        let (count, attrs) = (inode.usage().lookups(), inode.attrs());
        if count > 0 {
            let parent = inode.parent().filter(|_| attrs.is_dir()).cloned();
            self.left.insert(inode.number(), Left { count, parent });
        }
    }

    /// An inode is here again: it counts its references, and knows where it was seen.
    pub(crate) fn give_back(&mut self, inode: &mut Inode) {
        let Some(left) = self.left.remove(&inode.number()) else { return };
        inode.add_lookups(left.count);
        if let Some((dir, name)) = left.parent {
            inode.set_parent(dir, &name);
        }
    }

    /// A caller gives references to an inode back that is not here.
    pub(crate) fn forget(&mut self, ino: Ino, count: u64) {
        let Some(left) = self.left.get_mut(&ino) else { return };
        left.count = left.count.saturating_sub(count);
        if left.count == 0 {
            self.left.remove(&ino);
        }
    }

    /// The directory in which a directory was last seen.
    pub(crate) fn parent(&self, ino: Ino) -> Option<InodeKey> {
        self.left.get(&ino)?.parent.as_ref().map(|(dir, _)| *dir)
    }
}
