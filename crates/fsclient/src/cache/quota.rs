//! Quotas in the cache: an inode is in the trees of those directories with quotas at which a realm around it
//! begins.

use super::Cache;
use crate::api::Ino;
use crate::inode::Inode;
use crate::key::InodeKey;
use msgs::ClientQuota;

impl Cache {
    /// Takes what an MDS tells of a tree with a quota.
    pub(crate) fn take_quota(&mut self, msg: &ClientQuota) {
        let key = InodeKey::head(msg.ino);
        if let Some(inode) = self.inodes.get_mut(&key) {
            inode.take_quota(msg);
            self.has_quotas |= inode.attrs().quota().is_enabled();
            self.inode_changed(key);
        }
    }

    /// From now on no quota limits what is done here.
    pub(crate) fn ignore_quotas(&mut self) {
        self.ignores_quotas = true;
    }

    /// The directories whose quotas concern an inode, the nearest first.
    fn trees_of(&self, key: InodeKey) -> impl Iterator<Item = &Inode> {
        let limits = self.has_quotas && !self.ignores_quotas;
        let realms = if limits { self.realms_around(key) } else { Vec::new() };
        let inodes = realms.into_iter().filter_map(|ino| self.inodes.get(&InodeKey::head(ino)));
        inodes.filter(|inode| inode.attrs().quota().is_enabled())
    }

    /// The directories at which the realms around an inode begin, the nearest first. Those with quotas are
    /// among them.
    pub(crate) fn realms_around(&self, key: InodeKey) -> Vec<Ino> {
        self.realms.around(self.realm_of(key))
    }

    /// The realm of an inode; without a capability, that of the directory where it was last seen.
    fn realm_of(&self, key: InodeKey) -> u64 {
        let mut at = key;
        // The way up may be out of date: one that is a circle ends.
        for _ in 0..=self.inodes.len() {
            let Some(inode) = self.inodes.get(&at) else { break };
            if let Some(cap) = inode.caps().cap() {
                return cap.realm();
            }
            let Some((dir, _)) = inode.parent() else { break };
            at = *dir;
        }
        InodeKey::ROOT.ino()
    }

    /// True if it is not known which quotas concern an inode, because that is not here.
    pub(crate) fn lacks_quotas_of(&self, key: InodeKey) -> bool {
        self.has_quotas && !self.ignores_quotas && !self.inodes.contains_key(&key)
    }

    /// The nearest directory whose quota concerns an inode.
    pub(crate) fn quota_root(&self, key: InodeKey) -> Option<InodeKey> {
        self.trees_of(key).next().map(Inode::key)
    }

    /// True if a file may not grow to `size` bytes. What was written here and not told yet counts.
    pub(crate) fn exceeds_bytes(&self, key: InodeKey, size: u64) -> bool {
        let told = self.inodes.get(&key).map_or(0, |inode| inode.attrs().told_size());
        let grows = size.saturating_sub(told);
        self.trees_of(key).map(Inode::attrs).any(|attrs| {
            let most = attrs.quota().max_bytes;
            most > 0 && attrs.rbytes().saturating_add(grows) > most
        })
    }

    /// True if a directory may not have one more entry.
    pub(crate) fn exceeds_files(&self, dir: InodeKey) -> bool {
        self.trees_of(dir).map(Inode::attrs).any(|attrs| {
            let most = attrs.quota().max_files;
            most > 0 && attrs.recursive_entries() >= most
        })
    }
}
