//! The table of inodes.

use crate::inode::Inode;
use crate::key::InodeKey;
use stdx::FastMap;

/// Inodes by key. Each has its own memory: a table that grows moves what is in it, and half of it may be
/// empty.
#[derive(Debug, Default)]
pub(super) struct Inodes {
    map: FastMap<InodeKey, Box<Inode>>,
}

impl Inodes {
    /// Number of inodes.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// An inode.
    pub fn get(&self, key: &InodeKey) -> Option<&Inode> {
        self.map.get(key).map(|inode| &**inode)
    }

    /// An inode, to change it.
    pub fn get_mut(&mut self, key: &InodeKey) -> Option<&mut Inode> {
        self.map.get_mut(key).map(|inode| &mut **inode)
    }

    /// True if an inode is here.
    pub fn contains_key(&self, key: &InodeKey) -> bool {
        self.map.contains_key(key)
    }

    /// An inode; `new` makes it if it is not here.
    pub fn get_or_insert_with(&mut self, key: InodeKey, new: impl FnOnce() -> Inode) -> &mut Inode {
        self.map.entry(key).or_insert_with(|| Box::new(new()))
    }

    /// Takes an inode out.
    pub fn remove(&mut self, key: &InodeKey) -> Option<Inode> {
        self.map.remove(key).map(|inode| *inode)
    }

    /// All inodes.
    pub fn values(&self) -> impl Iterator<Item = &Inode> {
        self.map.values().map(|inode| &**inode)
    }

    /// All inodes, to change them.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Inode> {
        self.map.values_mut().map(|inode| &mut **inode)
    }
}
