//! File locks: setting what was decided, interrupting who waits, and taking over what clients claim after a restart of ours.

use super::Rank;
use crate::filelock::{FileLocks, Owner};
use crate::ops::LockChange;
use crate::types::ClientId;
use fsfmt::InodeKey;
use msgs::{ClientRequest, FileLock, FileLockArgs, MdsOp};
use wire::{Errno, Reader};

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

    /// Whether a request interrupts one that waits for a lock; that one is answered with EINTR.
    pub(super) fn interrupt_lock(&mut self, client: ClientId, request: &ClientRequest) -> bool {
        const INTERRUPT: u8 = 2;
        let asked: FileLockArgs = request.args.get();
        if !(1 + INTERRUPT..=2 + INTERRUPT).contains(&asked.rule) {
            return false;
        }
        let waits = |op: &super::run::Op| {
            let args: FileLockArgs = op.request.args.get();
            op.client == client
                && op.request.op == MdsOp::SETFILELOCK
                && args.rule + INTERRUPT == asked.rule
                && (args.owner, args.pid, args.start, args.length)
                    == (asked.owner, asked.pid, asked.start, asked.length)
        };
        let found = self.ops.iter().find(|(_, op)| waits(op)).map(|(id, op)| (*id, op.tid));
        if let Some((id, tid)) = found {
            self.drop_op(id);
            self.fail(client, tid, MdsOp::SETFILELOCK, Errno::EINTR, 0);
        }
        true
    }

    /// A client claims locks; what does not decode is not claimed.
    pub(super) fn claim_locks(&mut self, client: ClientId, ino: InodeKey, bytes: &[u8]) {
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
    pub(super) fn drop_locks(&mut self, client: ClientId, ino: InodeKey) {
        let Some(inode) = self.cache.inodes.get_mut(&ino) else { return };
        if let Some(locks) = &mut inode.locks {
            locks.drop_client(client);
            if locks.is_empty() {
                inode.locks = None;
            }
        }
    }
}
