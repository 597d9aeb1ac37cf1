//! Closing files, and file locks, which an owner loses with its first close.

use crate::api::{Answer, FileLock, FsRequest};
use crate::cache::Cache;
use crate::file_locks::{EXCLUSIVE, FREE, Range, SHARED, Style};
use crate::handles::{FileHandle, Handles};
use crate::key::InodeKey;
use crate::mds_request;
use crate::op::{Attempt, Stage, Step, done, fail};
use crate::sessions::Sessions;
use msgs::{ClientReply, ClientRequest, FileLockArgs, FilePath, MdsOp};
use wire::{Errno, Reader};

const F_RDLCK: u32 = 0;
const F_WRLCK: u32 = 1;
const F_UNLCK: u32 = 2;
/// The protocol's rules: POSIX locks and BSD locks.
const RULE_FCNTL: u8 = 1;
const RULE_FLOCK: u8 = 2;
/// An owner with this bit is one by itself; without, only together with the process that asks, which need not
/// be the one that closes the file.
const IS_OWNER: u64 = 1 << 63;

/// The owners that closing and locking need.
pub(crate) struct Locks<'a> {
    pub(crate) cache: &'a mut Cache,
    pub(crate) handles: &'a mut Handles,
    pub(crate) sessions: &'a mut Sessions,
}

impl Locks<'_> {
    /// Attempts an operation.
    pub(crate) fn step(&mut self, attempt: &mut Attempt<'_>, request: &FsRequest) -> Step {
        match attempt.take_stage() {
            Stage::Answered(reply) => self.answered(attempt, request, &reply),
            Stage::AtMds => self.interrupted(attempt),
            _ => match request {
                FsRequest::Flush { fh, lock_owner } => self.close(attempt, *fh, (Style::Posix, *lock_owner)),
                FsRequest::Release { fh, lock_owner } => {
                    self.close(attempt, *fh, (Style::Flock, *lock_owner))
                }
                _ => self.lock(attempt, request),
            },
        }
    }

    /// Sets, frees or tests a lock.
    fn lock(&mut self, attempt: &mut Attempt<'_>, request: &FsRequest) -> Step {
        if attempt.is_interrupted() {
            return fail(Errno::EINTR);
        }
        let (fh, owner, lock) = match request {
            FsRequest::Getlk { fh, owner, lock } | FsRequest::Setlk { fh, owner, lock, .. } => {
                (*fh, *owner | IS_OWNER, lock)
            }
            _ => return fail(Errno::EIO),
        };
        let key = match self.handles.usable(fh) {
            Ok(file) => file.key(),
            Err(errno) => return fail(errno),
        };
        if !key.is_head() {
            return lock_in_snapshot(request);
        }
        // A lock rests on the capability, with which it is claimed.
        if self.cache.open_inode(key).caps().cap().is_none() {
            let again = mds_request::open_again(self.cache, key);
            return self.sessions.ask(attempt, self.cache, again);
        }
        let mut range = range_of(lock);
        let (op, style, wait) = match request {
            FsRequest::Setlk { wait, flock, .. } => (MdsOp::SETFILELOCK, style_of(*flock), *wait),
            _ => (MdsOp::GETFILELOCK, Style::Posix, false),
        };
        if self.converts(key, (style, owner), range) {
            range = Range { pid: range.pid, ..Range::NOTHING };
        }
        self.ask(attempt, key, op, lock_args((style, owner), range, wait))
    }

    /// True if a flock has to be freed before its owner gets one of another kind: two that share a file, and
    /// both want it alone, would wait for each other.
    fn converts(&self, key: InodeKey, owner: (Style, u64), range: Range) -> bool {
        let held = self.handles.locks().kind(key, owner);
        owner.0 == Style::Flock && range.kind != FREE && held.is_some_and(|kind| kind != range.kind)
    }

    /// close(2) of one of the handle's descriptors, or of the last one. The owner's locks of this style are
    /// freed.
    fn close(&mut self, attempt: &mut Attempt<'_>, fh: u64, owner: (Style, u64)) -> Step {
        let is_last = owner.0 == Style::Flock;
        let owner = (owner.0, owner.1 | IS_OWNER);
        let found = if is_last { self.handles.file(fh) } else { self.handles.usable(fh) };
        let file = match found {
            Ok(file) => file,
            Err(errno) => return fail(errno),
        };
        let key = file.key();
        let had_locks = self.handles.locks_mut().free(key, owner);
        if is_last {
            self.release(fh, file);
        }
        if had_locks {
            let all = Range { pid: attempt.caller().pid, ..Range::NOTHING };
            return self.ask(attempt, key, MdsOp::SETFILELOCK, lock_args(owner, all, false));
        }
        if is_last { done(Answer::Done) } else { self.closed(key) }
    }

    /// The end of a close(2), which tells of lost writes.
    fn closed(&mut self, key: InodeKey) -> Step {
        self.cache.open_inode(key).take_error().map_or_else(|| done(Answer::Done), fail)
    }

    fn ask(&mut self, attempt: &mut Attempt<'_>, key: InodeKey, op: MdsOp, args: FileLockArgs) -> Step {
        let path = FilePath { ino: key.ino(), path: Vec::new() };
        let message = ClientRequest { op, path, args: args.into(), ..ClientRequest::default() };
        self.sessions.ask(attempt, self.cache, message)
    }

    fn release(&mut self, fh: u64, file: FileHandle) {
        self.handles.close_file(fh);
        self.cache.open_inode(file.key()).closed(file.access());
        self.cache.inode_changed(file.key());
    }

    /// The caller does not want to wait any longer. The MDS decides if it has its lock.
    fn interrupted(&mut self, attempt: &mut Attempt<'_>) -> Step {
        let op = attempt.op();
        if !attempt.is_interrupted() || self.sessions.interrupt(op, attempt.out()) {
            return attempt.wait_at(Stage::AtMds);
        }
        fail(Errno::EINTR)
    }

    fn answered(&mut self, attempt: &mut Attempt<'_>, request: &FsRequest, reply: &ClientReply) -> Step {
        if let Some(errno) = Errno::from_result_code(reply.result) {
            return fail(errno);
        }
        if reply.op == MdsOp::OPEN {
            return self.lock(attempt, request);
        }
        match request {
            FsRequest::Getlk { .. } => tested(reply),
            FsRequest::Setlk { fh, owner, lock, flock, .. } => {
                let Ok(file) = self.handles.file(*fh) else { return fail(Errno::EBADF) };
                let owner = (style_of(*flock), *owner | IS_OWNER);
                let range = range_of(lock);
                if self.converts(file.key(), owner, range) {
                    self.handles.locks_mut().free(file.key(), owner);
                    return self.lock(attempt, request);
                }
                self.handles.locks_mut().set(file.key(), *fh, owner, range);
                done(Answer::Done)
            }
            FsRequest::Flush { fh, .. } => match self.handles.file(*fh) {
                Ok(file) => self.closed(file.key()),
                Err(errno) => fail(errno),
            },
            _ => done(Answer::Done),
        }
    }
}

/// Files in snapshots are opened for reading only, so no two of their locks conflict: the MDS is not asked.
fn lock_in_snapshot(request: &FsRequest) -> Step {
    match request {
        FsRequest::Getlk { lock, .. } => done(Answer::Lock(FileLock { kind: F_UNLCK, ..*lock })),
        FsRequest::Setlk { lock, .. } if lock.kind == F_WRLCK => fail(Errno::EROFS),
        _ => done(Answer::Done),
    }
}

fn style_of(flock: bool) -> Style {
    if flock { Style::Flock } else { Style::Posix }
}

fn range_of(lock: &FileLock) -> Range {
    let kind = match lock.kind {
        F_UNLCK => FREE,
        F_WRLCK => EXCLUSIVE,
        _ => SHARED,
    };
    let last = if lock.end >= i64::MAX as u64 { u64::MAX } else { lock.end.max(lock.start) };
    Range { first: lock.start, last, kind, pid: lock.pid }
}

fn lock_args((style, owner): (Style, u64), range: Range, wait: bool) -> FileLockArgs {
    FileLockArgs {
        rule: if style == Style::Flock { RULE_FLOCK } else { RULE_FCNTL },
        kind: range.kind,
        owner,
        pid: range.pid.into(),
        start: range.first,
        length: range.length(),
        wait: u8::from(wait),
    }
}

/// The answer to a test.
fn tested(reply: &ClientReply) -> Step {
    let Ok(found) = Reader::new(&reply.extra).get::<msgs::FileLock>() else { return fail(Errno::EIO) };
    let end = if found.length == 0 { u64::MAX } else { found.start.saturating_add(found.length - 1) };
    let kind = match found.kind {
        SHARED => F_RDLCK,
        EXCLUSIVE => F_WRLCK,
        _ => F_UNLCK,
    };
    done(Answer::Lock(FileLock { start: found.start, end, kind, pid: found.pid as u32 }))
}
