//! Closing files, and file locks, which an owner loses with its first close.

use crate::api::{Answer, FileLock, FsRequest};
use crate::cache::Cache;
use crate::file_locks::{Range, Style};
use crate::handles::{FileHandle, Handles};
use crate::key::InodeKey;
use crate::mds_request;
use crate::op::{Attempt, Stage, Step, done, fail};
use crate::sessions::Sessions;
use msgs::lock_kind::{EXCLUSIVE, SHARED, UNLOCK};
use msgs::{ClientReply, ClientRequest, FileLockArgs, FilePath, MdsOp};
use node::{Event, Level, Output};
use wire::{Errno, Reader};

const F_RDLCK: u32 = 0;
const F_WRLCK: u32 = 1;
const F_UNLCK: u32 = 2;
/// The last byte that Linux can lock (`OFFSET_MAX`): an answer with a lock that goes further is EIO to it.
const LAST_BYTE: u64 = i64::MAX as u64;
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
        let step = self.go_on(attempt, request);
        if let Step::Done(reply) = &step
            && self.handles.locks_mut().end_weakening(attempt.op(), reply.is_ok())
        {
            let detail = "a lock for writing became one for reading while its MDS failed, and the call that \
                          asked for that has failed; what it was locked by fails with EIO until it is closed";
            attempt.out().push(Output::Event(Event::new(Level::Warn, "file_locks_lost", detail)));
        }
        step
    }

    fn go_on(&mut self, attempt: &mut Attempt<'_>, request: &FsRequest) -> Step {
        match attempt.take_stage() {
            Stage::Answered(reply) => self.answered(attempt, request, &reply),
            Stage::Freed(reply) => match Errno::from_result_code(reply.result) {
                Some(errno) => fail(errno),
                None => self.lock(attempt, request),
            },
            // What is freed is not claimed any more, so the MDS has to be told in any case.
            Stage::Freeing => attempt.wait_at(Stage::Freeing),
            Stage::AtMds if frees(request) => attempt.wait_at(Stage::AtMds),
            Stage::AtMds => self.interrupted(attempt),
            _ => match request {
                FsRequest::Flush { fh, lock_owner } => self.flush(attempt, *fh, *lock_owner),
                FsRequest::Release { fh, lock_owner } => self.close(attempt, *fh, *lock_owner),
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
        let range = range_of(lock);
        let FsRequest::Setlk { wait, flock, .. } = request else {
            let args = lock_args((Style::Posix, owner), range, false);
            return self.ask(attempt, key, MdsOp::GETFILELOCK, args);
        };
        let owner = (style_of(*flock), owner);
        let converts = self.converts(key, owner, range);
        let range = if converts { Range { pid: range.pid, ..Range::NOTHING } } else { range };
        let locks = self.handles.locks_mut();
        if range.kind == UNLOCK {
            // The MDS may have given it to another before it fails and asks for our claims.
            locks.set(key, fh, owner, range);
        } else {
            locks.begin_weakening(attempt.op(), key, owner, range);
        }
        let step = self.ask(attempt, key, MdsOp::SETFILELOCK, lock_args(owner, range, *wait));
        if converts { attempt.wait_at(Stage::Freeing) } else { step }
    }

    /// True if a flock has to be freed before its owner gets one of another kind: two that share a file, and
    /// both want it alone, would wait for each other.
    fn converts(&self, key: InodeKey, owner: (Style, u64), range: Range) -> bool {
        let held = self.handles.locks().kind(key, owner);
        owner.0 == Style::Flock && range.kind != UNLOCK && held.is_some_and(|kind| kind != range.kind)
    }

    /// close(2) of one of the handle's descriptors: the process's locks on byte ranges are freed.
    fn flush(&mut self, attempt: &mut Attempt<'_>, fh: u64, lock_owner: u64) -> Step {
        let file = match self.handles.file(fh) {
            Ok(file) => file,
            Err(errno) => return fail(errno),
        };
        match self.free(attempt, file.key(), (Style::Posix, lock_owner | IS_OWNER)) {
            Some(step) => step,
            None => self.flushed(fh),
        }
    }

    /// The end of a close(2), which tells of lost writes.
    fn flushed(&mut self, fh: u64) -> Step {
        match self.handles.usable(fh) {
            Ok(file) => {
                let inode = self.cache.open_inode(file.key());
                self.handles.error(fh, inode).map_or_else(|| done(Answer::Done), fail)
            }
            Err(errno) => fail(errno),
        }
    }

    /// The last descriptor of a handle is closed: the locks of the open file are freed, one owner after the
    /// other, and then it is no more.
    fn close(&mut self, attempt: &mut Attempt<'_>, fh: u64, lock_owner: u64) -> Step {
        let file = match self.handles.file(fh) {
            Ok(file) => file,
            Err(errno) => return fail(errno),
        };
        let key = file.key();
        let flock = Some((Style::Flock, lock_owner | IS_OWNER));
        let owners = [flock, self.handles.locks().owner_by(key, fh)];
        if let Some(step) = owners.into_iter().flatten().find_map(|owner| self.free(attempt, key, owner)) {
            return step;
        }
        self.release(fh, file);
        done(Answer::Done)
    }

    /// Frees all locks of an owner on a file, if there are any.
    fn free(&mut self, attempt: &mut Attempt<'_>, key: InodeKey, owner: (Style, u64)) -> Option<Step> {
        let all = Range { pid: attempt.caller().pid, ..Range::NOTHING };
        let had_any = self.handles.locks_mut().free(key, owner);
        had_any.then(|| self.ask(attempt, key, MdsOp::SETFILELOCK, lock_args(owner, all, false)))
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
        if let FsRequest::Release { fh, lock_owner } = request {
            return self.close(attempt, *fh, *lock_owner);
        }
        // What close(2) tells is not whether locks were freed: they are gone from here in any case.
        if let FsRequest::Flush { fh, .. } = request {
            return self.flushed(*fh);
        }
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
                self.handles.locks_mut().set(file.key(), *fh, owner, range_of(lock));
                done(Answer::Done)
            }
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

/// True for a request to free locks, which waits for nobody.
fn frees(request: &FsRequest) -> bool {
    !matches!(request, FsRequest::Getlk { .. })
        && !matches!(request, FsRequest::Setlk { lock, .. } if lock.kind != F_UNLCK)
}

fn style_of(flock: bool) -> Style {
    if flock { Style::Flock } else { Style::Posix }
}

fn range_of(lock: &FileLock) -> Range {
    let kind = match lock.kind {
        F_UNLCK => UNLOCK,
        F_WRLCK => EXCLUSIVE,
        _ => SHARED,
    };
    let last = if lock.end >= LAST_BYTE { u64::MAX } else { lock.end.max(lock.start) };
    Range { first: lock.start, last, kind, pid: lock.pid, is_refused: false }
}

fn lock_args((style, owner): (Style, u64), range: Range, wait: bool) -> FileLockArgs {
    FileLockArgs {
        rule: style.rule(),
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
    let (start, end) = (found.start.min(LAST_BYTE), end.min(LAST_BYTE));
    let kind = match found.kind {
        SHARED => F_RDLCK,
        EXCLUSIVE => F_WRLCK,
        _ => F_UNLCK,
    };
    done(Answer::Lock(FileLock { start, end, kind, pid: found.pid as u32 }))
}
