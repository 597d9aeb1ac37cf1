//! Closing files, and file locks, which an owner loses with its first close.

use crate::api::{Answer, FileLock, FsRequest};
use crate::cache::Cache;
use crate::handles::{FileHandle, Handles};
use crate::key::InodeKey;
use crate::op::{Attempt, Stage, Step, done, fail};
use crate::sessions::Sessions;
use msgs::{ClientReply, ClientRequest, FileLockArgs, FilePath, MdsOp};
use wire::{Errno, Reader};

const F_RDLCK: u32 = 0;
const F_WRLCK: u32 = 1;
const F_UNLCK: u32 = 2;
/// The protocol's kinds of locks.
const WIRE_SHARED: u8 = 1;
const WIRE_EXCLUSIVE: u8 = 2;
const WIRE_UNLOCK: u8 = 4;
/// The protocol's rules: POSIX locks and BSD locks.
const RULE_FCNTL: u8 = 1;
const RULE_FLOCK: u8 = 2;

/// The owners that closing and locking need.
pub(crate) struct Locks<'a> {
    pub(crate) cache: &'a mut Cache,
    pub(crate) handles: &'a mut Handles,
    pub(crate) sessions: &'a mut Sessions,
}

impl Locks<'_> {
    /// Attempts an operation.
    pub(crate) fn step(&mut self, attempt: &mut Attempt<'_>, request: &FsRequest) -> Step {
        if let Stage::Answered(reply) = attempt.take_stage() {
            return answer(request, &reply);
        }
        let (fh, owner) = match request {
            FsRequest::Flush { fh, lock_owner } | FsRequest::Release { fh, lock_owner } => (*fh, *lock_owner),
            FsRequest::Getlk { fh, owner, .. } | FsRequest::Setlk { fh, owner, .. } => (*fh, *owner),
            _ => return fail(Errno::EIO),
        };
        match self.handles.file(fh) {
            Ok(file) => self.step_on(attempt, request, fh, file, owner),
            Err(errno) => fail(errno),
        }
    }

    fn step_on(
        &mut self,
        attempt: &mut Attempt<'_>,
        request: &FsRequest,
        fh: u64,
        file: FileHandle,
        owner: u64,
    ) -> Step {
        let key = file.key();
        if let Some(step) = lock_in_snapshot(key, request) {
            return step;
        }
        let all = FileLock { start: 0, end: u64::MAX, kind: F_UNLCK, pid: attempt.caller().pid };
        let ask = match request {
            FsRequest::Getlk { lock, .. } => Some((MdsOp::GETFILELOCK, lock_args(owner, lock, false, false))),
            FsRequest::Setlk { lock, wait, flock, .. } => {
                self.handles.note_lock(key, owner);
                Some((MdsOp::SETFILELOCK, lock_args(owner, lock, *wait, *flock)))
            }
            // The owner's POSIX locks go with its first close.
            _ => {
                let has_locks = self.handles.forget_locks(key, owner);
                has_locks.then(|| (MdsOp::SETFILELOCK, lock_args(owner, &all, false, false)))
            }
        };
        let is_release = matches!(request, FsRequest::Release { .. });
        if is_release {
            self.release(fh);
        }
        if let Some((op, args)) = ask {
            let path = FilePath { ino: key.ino(), path: Vec::new() };
            let message = ClientRequest { op, path, args: args.into(), ..ClientRequest::default() };
            return self.sessions.ask(attempt, self.cache, message);
        }
        let error = if is_release { None } else { self.cache.open_inode(key).take_error() };
        error.map_or_else(|| done(Answer::Done), fail)
    }

    fn release(&mut self, fh: u64) {
        if let Some(file) = self.handles.close_file(fh) {
            self.cache.open_inode(file.key()).closed(file.access());
            self.cache.inode_changed(file.key());
        }
    }
}

/// Files in snapshots are opened for reading only, so no two of their locks conflict: the MDS is not asked.
fn lock_in_snapshot(key: InodeKey, request: &FsRequest) -> Option<Step> {
    match request {
        _ if key.is_head() => None,
        FsRequest::Getlk { lock, .. } => Some(done(Answer::Lock(FileLock { kind: F_UNLCK, ..*lock }))),
        FsRequest::Setlk { lock, .. } if lock.kind == F_WRLCK => Some(fail(Errno::EROFS)),
        FsRequest::Setlk { .. } => Some(done(Answer::Done)),
        _ => None,
    }
}

fn lock_args(owner: u64, lock: &FileLock, wait: bool, flock: bool) -> FileLockArgs {
    let to_end = lock.end >= i64::MAX as u64;
    FileLockArgs {
        rule: if flock { RULE_FLOCK } else { RULE_FCNTL },
        kind: match lock.kind {
            F_UNLCK => WIRE_UNLOCK,
            F_WRLCK => WIRE_EXCLUSIVE,
            _ => WIRE_SHARED,
        },
        owner,
        pid: lock.pid.into(),
        start: lock.start,
        length: if to_end { 0 } else { lock.end - lock.start + 1 },
        wait: u8::from(wait),
    }
}

fn answer(request: &FsRequest, reply: &ClientReply) -> Step {
    if let Some(errno) = Errno::from_result_code(reply.result) {
        return fail(errno);
    }
    if !matches!(request, FsRequest::Getlk { .. }) {
        return done(Answer::Done);
    }
    let Ok(found) = Reader::new(&reply.extra).get::<msgs::FileLock>() else { return fail(Errno::EIO) };
    let end = if found.length == 0 { u64::MAX } else { found.start + found.length - 1 };
    let kind = match found.kind {
        WIRE_SHARED => F_RDLCK,
        WIRE_EXCLUSIVE => F_WRLCK,
        _ => F_UNLCK,
    };
    done(Answer::Lock(FileLock { start: found.start, end, kind, pid: found.pid as u32 }))
}
