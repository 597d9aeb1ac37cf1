//! File locks in cached inodes: sets locks of operations, and restores those that clients claim after our
//! restart.

use super::env::{Due, Env};
use crate::cache::Cache;
use crate::filelock::{FileLocks, Owner};
use crate::ops::LockChange;
use crate::types::ClientId;
use fsfmt::InodeKey;
use msgs::FileLock;
use wire::Reader;

/// Sets or frees a lock that conflicts with no other.
pub(super) fn set(env: &mut Env, cache: &mut Cache, client: ClientId, change: LockChange) {
    let Some(inode) = cache.inodes.get_mut(&change.ino) else { return };
    let locks = inode.locks.get_or_insert_with(Box::default);
    let set = if change.posix { &mut locks.posix } else { &mut locks.flock };
    let owner = Owner { client, owner: change.owner, pid: change.pid };
    set.set(owner, change.kind, change.start, change.length);
    if locks.is_empty() {
        inode.locks = None;
    }
    env.due(Due::Wake(change.ino));
}

/// Restores locks that a client claims; undecodable ones count as unclaimed.
pub(super) fn claim(cache: &mut Cache, client: ClientId, ino: InodeKey, bytes: &[u8]) {
    let mut r = Reader::new(bytes);
    let (Ok(posix), Ok(flock)) = (r.get::<Vec<FileLock>>(), r.get::<Vec<FileLock>>()) else { return };
    if posix.is_empty() && flock.is_empty() {
        return;
    }
    let Some(inode) = cache.inodes.get_mut(&ino) else { return };
    let locks = inode.locks.get_or_insert_with(|| Box::new(FileLocks::default()));
    locks.posix.claim(client, &posix);
    locks.flock.claim(client, &flock);
}

/// Frees a client's locks on a file.
pub(super) fn release_all(cache: &mut Cache, client: ClientId, ino: InodeKey) {
    let Some(inode) = cache.inodes.get_mut(&ino) else { return };
    if let Some(locks) = &mut inode.locks {
        locks.drop_client(client);
        if locks.is_empty() {
            inode.locks = None;
        }
    }
}
