//! States of snapshots and directories of snapshots in the cache: their numbers, the paths by which an MDS
//! finds them, and what removes the belief in them.

use super::Cache;
use crate::api::Ino;
use crate::inode::Inode;
use crate::key::InodeKey;
use maps::SnapId;
use msgs::{Caps, FilePath, SnapRealmInfo};

/// The deepest path through a snapshot. A path of so many names fits no message.
const MAX_DEPTH: usize = 4096;

impl Cache {
    /// The inode that a local caller's number stands for.
    pub(crate) fn key(&self, number: Ino) -> InodeKey {
        self.numbers.key(number)
    }

    /// True for the number of a live inode, and for that of a state that is here.
    pub(crate) fn is_number_known(&self, number: Ino) -> bool {
        self.numbers.is_known(number)
    }

    /// The number by which local callers know an inode.
    pub(crate) fn number(&self, key: InodeKey) -> Ino {
        self.inodes.get(&key).map_or_else(|| self.numbers.of(key), Inode::number)
    }

    /// An inode as requests name it. A live one is named by its number; of a snapshot, the MDS finds only
    /// what a path from a live directory leads to, in which an empty name stands for the directory of
    /// snapshots. `None` if the way to the live directory is not known any more.
    pub(crate) fn path(&self, key: InodeKey) -> Option<FilePath> {
        let mut names: Vec<&[u8]> = Vec::new();
        let mut at = key;
        while !at.is_head() && !at.is_snapdir() {
            let (dir, name) = self.inodes.get(&at)?.parent()?;
            names.push(name);
            at = *dir;
            if names.len() > MAX_DEPTH {
                return None;
            }
        }
        if at.is_snapdir() {
            names.push(b"");
        }
        names.reverse();
        Some(FilePath { ino: at.ino(), path: names.join(&b'/') })
    }

    /// The path of a name in a directory; that of a snapshot, if it is a directory of snapshots.
    pub(crate) fn path_in(&self, dir: InodeKey, name: &[u8]) -> Option<FilePath> {
        let FilePath { ino, mut path } = self.path(dir)?;
        if !dir.is_head() {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        Some(FilePath { ino, path })
    }

    /// The directory of the snapshots of a live directory, which is known, as that is now. `name` is its name
    /// in there.
    pub(crate) fn open_snapdir(&mut self, dir: InodeKey, name: &[u8]) -> Option<InodeKey> {
        let key = InodeKey::snapdir(dir.ino());
        let attrs = self.inodes.get(&dir).map(|inode| inode.attrs().clone())?;
        let Self { inodes, numbers, .. } = self;
        let snapdir = inodes.get_or_insert_with(key, || Inode::new(key, numbers.give(key)));
        snapdir.follow_dir(&attrs);
        snapdir.set_parent(dir, name);
        self.inode_changed(key);
        Some(key)
    }

    /// Takes what a message says of realms.
    pub(super) fn learn_realms(&mut self, trace: &[SnapRealmInfo]) {
        for snap in self.realms.learn(trace) {
            self.forget_snapshot(snap);
        }
    }

    /// A snapshot is removed, or may be: nothing of it is believed any more.
    pub(crate) fn forget_snapshot(&mut self, snap: SnapId) {
        let of_snapshot: Vec<InodeKey> =
            self.inodes.values().map(Inode::key).filter(|k| k.snap() == snap).collect();
        for key in of_snapshot {
            if let Some(inode) = self.inodes.get_mut(&key) {
                inode.take_bits_of_snapshot(Caps::NONE);
            }
            self.inode_changed(key);
        }
    }
}
