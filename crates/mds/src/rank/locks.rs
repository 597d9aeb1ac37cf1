//! File locks: setting what was decided, and taking over what clients claim after a restart of ours.

use super::Rank;
use crate::filelock::{FileLocks, Owner};
use crate::ops::LockChange;
use crate::types::ClientId;
use fsfmt::Ino;
use msgs::FileLock;
use wire::Reader;

impl Rank {
    /// Sets or frees a lock that stands in nobody's way.
    pub(super) fn set_lock(&mut self, client: ClientId, change: LockChange) {
        let Some(inode) = self.cache.inodes.get_mut(&change.ino) else { return };
        let locks = inode.locks.get_or_insert_with(Box::default);
        let set = if change.posix { &mut locks.posix } else { &mut locks.flock };
        let owner = Owner { client, owner: change.owner, pid: change.pid };
        set.set(owner, change.kind, change.start, change.length);
        if locks.is_empty() {
            inode.locks = None;
        }
        self.wake_waiters(change.ino);
    }

    /// A client claims locks; what does not decode is not claimed.
    pub(super) fn claim_locks(&mut self, client: ClientId, ino: Ino, bytes: &[u8]) {
        let mut r = Reader::new(bytes);
        let (Ok(posix), Ok(flock)) = (r.get::<Vec<FileLock>>(), r.get::<Vec<FileLock>>()) else { return };
        if posix.is_empty() && flock.is_empty() {
            return;
        }
        let Some(inode) = self.cache.inodes.get_mut(&ino) else { return };
        let locks = inode.locks.get_or_insert_with(|| Box::new(FileLocks::default()));
        locks.posix.claim(client, &posix);
        locks.flock.claim(client, &flock);
    }

    /// Frees what a client holds of a file.
    pub(super) fn drop_locks(&mut self, client: ClientId, ino: Ino) {
        let Some(inode) = self.cache.inodes.get_mut(&ino) else { return };
        if let Some(locks) = &mut inode.locks {
            locks.drop_client(client);
            if locks.is_empty() {
                inode.locks = None;
            }
        }
    }
}
