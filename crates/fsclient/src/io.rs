//! File data: reads laid under what is buffered, writes taken into the buffer, and the buffer written back.

use crate::api::{Answer, Caller, Fh, FileLock, FsRequest, Ino};
use crate::cache::path;
use crate::client::{Client, Op, Outs, Stage, Step, Token, WRITE_BACK_AFTER, fail};
use crate::dirty::Dirty;
use crate::inode::Growth;
use crate::namespace::open_flag;
use msgs::errno::{EBADF, EFBIG, EINVAL, EIO, ENOENT, ENOSPC, EOPNOTSUPP};
use msgs::{ClientRequest, Extent, FileLockArgs, GetattrArgs, MdsOp, Op as ObjectOp, cap, osd_flag};
use stdx::{Bufs, Now};
use striper::{Piece, Striper};
use wire::{Reader, Utime};

/// Writes on their way to OSDs at once, for one file.
const MAX_FLIGHT: u64 = 4 << 20;
/// Size that a writer asks for beyond what it needs, so that it does not ask for each write.
const MAX_SIZE_STEP: u64 = 64 << 20;
/// Modes of fallocate(2).
const KEEP_SIZE: u32 = 1;
const PUNCH_HOLE: u32 = 2;
const ZERO_RANGE: u32 = 0x10;

/// A read, or a hole being punched.
#[derive(Debug)]
pub(crate) struct FileIo {
    pieces: Vec<Piece>,
    results: Vec<Option<Bufs>>,
    len: u64,
    error: Option<i32>,
    /// What was buffered when the read began: it may arrive at the OSDs, and leave the buffer, while the read is under way.
    buffered: Bufs,
}

impl Client {
    /// One attempt at a read, write or fallocate.
    pub(crate) fn data_step(
        &mut self,
        now: Now,
        number: u64,
        op: &mut Op,
        stage: Stage,
        request: &FsRequest,
        out: &mut Outs,
    ) -> Step {
        match (stage, request) {
            (Stage::Io(io), _) if io.results.iter().any(Option::is_none) => {
                op.stage = Stage::Io(io);
                Step::Wait
            }
            (Stage::Io(io), FsRequest::Read { fh, offset, .. }) => self.read_done(*fh, *offset, &io),
            (Stage::Io(io), FsRequest::Fallocate { fh, .. }) => self.punched(*fh, &io),
            (Stage::Written(n), _) => self.written(number, op, n),
            (Stage::Answered(reply), _) if reply.result < 0 => fail(-reply.result),
            (stage, FsRequest::Read { fh, offset, len }) => {
                let sized = knows_size_since(&stage);
                self.read(now, number, op, *fh, *offset, u64::from(*len), sized, out)
            }
            (stage, FsRequest::Write { fh, offset, data }) => {
                let sized = knows_size_since(&stage);
                self.write(now, number, op, *fh, *offset, data, sized, out)
            }
            (_, FsRequest::Fallocate { fh, offset, len, mode }) => {
                self.fallocate(now, number, op, *fh, *offset, *len, *mode, out)
            }
            _ => fail(EIO),
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of one operation, taken apart for the borrow checker"
    )]
    fn read(
        &mut self,
        now: Now,
        number: u64,
        op: &mut Op,
        fh: Fh,
        offset: u64,
        len: u64,
        sized: bool,
        out: &mut Outs,
    ) -> Step {
        let Some(ino) = self.files.get(&fh).filter(|f| f.reads).map(|f| f.ino) else { return fail(EBADF) };
        let Some(inode) = self.inodes.get_mut(&ino) else { return fail(EBADF) };
        if !(inode.may(cap::FILE_RD) || inode.may_still(cap::FILE_RD)) {
            return self.wait_for_cap(now, number, op, ino, sized, out);
        }
        if offset + len > inode.size && !sized && !inode.knows_size() && !inode.is_revoked() {
            return self.ask_size(now, number, op, ino, out);
        }
        let end = (offset + len).min(inode.size);
        if offset >= end {
            return Step::Done(Ok(Answer::Data(Bufs::new())));
        }
        inode.note_pages();
        self.touched.insert(ino);
        let len = end - offset;
        let zeros = || Bufs::from(stdx::Buf::zeros(len as usize));
        if inode.dirty.covers(offset, end) {
            return Step::Done(Ok(Answer::Data(inode.dirty.overlay(offset, zeros()))));
        }
        let Some(striper) = Striper::new(&inode.layout) else { return fail(EIO) };
        let pieces = striper.pieces(offset, len);
        let (pool, ns) = (inode.layout.pool, inode.layout.pool_ns.clone().into_bytes());
        let truncation = (inode.truncate_seq, inode.truncate_size);
        inode.reads += 1;
        let results = vec![None; pieces.len()];
        let buffered = snapshot(&inode.dirty, offset, len);
        for (piece, p) in pieces.iter().enumerate() {
            let extent = extent(truncation, &striper, p.object_no, p.offset, p.len);
            let oid = striper::object_name(ino, p.object_no);
            let request = rados::Request::read(pool, &ns, oid, vec![ObjectOp::Read(extent)]);
            self.submit(now, Token::Piece { op: number, piece }, request, out);
        }
        op.stage = Stage::Io(FileIo { pieces, results, len, error: None, buffered });
        Step::Wait
    }

    fn read_done(&mut self, fh: Fh, offset: u64, io: &FileIo) -> Step {
        let reads: Vec<Bufs> = io.results.iter().flatten().cloned().collect();
        let Some(ino) = self.files.get(&fh).map(|f| f.ino) else { return fail(EBADF) };
        let inode = self.inodes.get_mut(&ino).expect("an open file's inode stays");
        inode.reads -= 1;
        let data = striper::assemble(&io.pieces, &reads, io.len);
        let data = overlay_snapshot(data, &io.buffered);
        let data = inode.dirty.overlay(offset, data);
        self.touch(ino);
        match io.error {
            Some(errno) => fail(errno),
            None => Step::Done(Ok(Answer::Data(data))),
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of one operation, taken apart for the borrow checker"
    )]
    fn write(
        &mut self,
        now: Now,
        number: u64,
        op: &mut Op,
        fh: Fh,
        offset: u64,
        data: &Bufs,
        sized: bool,
        out: &mut Outs,
    ) -> Step {
        let Some(file) = self.files.get(&fh).filter(|f| f.writes) else { return fail(EBADF) };
        let (ino, append) = (file.ino, file.append);
        let max_file_size = self.mds.map.max_file_size;
        let pool = self.inodes.get(&ino).map_or(0, |inode| inode.layout.pool);
        if self.osdmap().is_full(pool) {
            return fail(ENOSPC);
        }
        let Some(inode) = self.inodes.get_mut(&ino) else { return fail(EBADF) };
        if !(inode.may(cap::FILE_WR) || inode.may_still(cap::FILE_WR)) {
            return self.wait_for_cap(now, number, op, ino, sized, out);
        }
        if append && !sized && !inode.knows_size() && !inode.is_revoked() {
            return self.ask_size(now, number, op, ino, out);
        }
        let offset = if append { inode.size } else { offset };
        let end = offset + data.len() as u64;
        if end > max_file_size {
            return fail(EFBIG);
        }
        if end > inode.max_size {
            inode.wanted_max_size = inode.wanted_max_size.max(end + MAX_SIZE_STEP);
            inode.waiters.insert(number);
            op.stage = if sized { Stage::Sized } else { Stage::New };
            self.attend(ino);
            return Step::Wait;
        }
        inode.dirty.write(offset, data.clone());
        inode.wrote(end, now.wall);
        inode.note_pages();
        self.recount(ino);
        self.dirty_since.entry(ino).or_insert(now.mono);
        self.touch(ino);
        self.written(number, op, data.len() as u32)
    }

    /// The data are taken. The writer waits while too much is buffered, and, without `Fb`, until it has arrived.
    fn written(&mut self, number: u64, op: &mut Op, n: u32) -> Step {
        let FsRequest::Write { fh, .. } = (match &op.request {
            crate::Request::Fs(_, request) => request,
            _ => return fail(EIO),
        }) else {
            return fail(EIO);
        };
        let Some(file) = self.files.get(fh) else { return fail(EBADF) };
        let inode = self.inodes.get_mut(&file.ino).expect("an open file's inode stays");
        if !inode.may(cap::FILE_BUFFER) && !inode.dirty.is_empty() {
            inode.waiters.insert(number);
            op.stage = Stage::Written(n);
            return Step::Wait;
        }
        if let Some(errno) = inode.error.filter(|_| !inode.may(cap::FILE_BUFFER)) {
            inode.error = None;
            return fail(errno);
        }
        if self.dirty_bytes > self.config.options.dirty_bytes {
            self.room_waiters.insert(number);
            op.stage = Stage::Written(n);
            return Step::Wait;
        }
        Step::Done(Ok(Answer::Written(n)))
    }

    /// Sends what is buffered of a file where somebody waits for it, it may not stay, or there is enough for a whole object.
    pub(crate) fn write_back(&mut self, now: Now, ino: Ino, out: &mut Outs) {
        let crowded = self.dirty_bytes > self.config.options.dirty_bytes / 2;
        loop {
            let Some(inode) = self.inodes.get_mut(&ino) else { return };
            let must = inode.sync_wanted
                || inode.data_wanted
                || inode.writers == 0
                || !inode.may(cap::FILE_BUFFER)
                || inode.is_revoked()
                || crowded;
            let due = self.dirty_since.get(&ino).is_some_and(|at| now.mono >= *at + WRITE_BACK_AFTER);
            let whole_object =
                inode.dirty.waiting_bytes() >= u64::from(inode.layout.object_size).max(1 << 20);
            if !(must || due || whole_object) {
                return;
            }
            let Some(striper) = Striper::new(&inode.layout) else { return };
            // One flight is one object operation: with stripes, an object's bytes are contiguous only within a unit.
            let unit = if inode.layout.stripe_count == 1 {
                striper.object_size()
            } else {
                u64::from(inode.layout.stripe_unit)
            };
            let Some(flight) = inode.dirty.take_off(MAX_FLIGHT, unit) else { return };
            let (object_no, off) = striper.locate(flight.offset);
            let len = flight.data.len() as u64;
            let extent = extent((inode.truncate_seq, inode.truncate_size), &striper, object_no, off, len);
            let (pool, ns) = (inode.layout.pool, inode.layout.pool_ns.clone().into_bytes());
            let oid = striper::object_name(ino, object_no);
            let mut request =
                rados::Request::write(pool, &ns, oid, vec![ObjectOp::Write { extent, data: flight.data }])
                    // Where there is no room, whoever syncs is told, instead of waiting for somebody to remove something.
                    .with_flags(osd_flag::FULL_TRY);
            request.mtime = Utime { sec: inode.mtime.sec, nsec: inode.mtime.nsec };
            self.submit(now, Token::Flight { ino, offset: flight.offset }, request, out);
        }
    }

    /// A buffered extent has arrived, or can't.
    pub(crate) fn landed(&mut self, ino: Ino, offset: u64, result: i32) {
        let Some(inode) = self.inodes.get_mut(&ino) else { return };
        inode.dirty.landed(offset);
        if result < 0 {
            inode.error = Some(-result);
        }
        self.recount(ino);
        self.touch(ino);
    }

    /// Brings the total of buffered bytes up to date after a file's have changed, however that was.
    pub(crate) fn recount(&mut self, ino: Ino) {
        let Some(inode) = self.inodes.get_mut(&ino) else { return };
        let bytes = inode.dirty.bytes();
        self.dirty_bytes = self.dirty_bytes - inode.counted_bytes + bytes;
        inode.counted_bytes = bytes;
        if self.dirty_bytes <= self.config.options.dirty_bytes {
            for op in std::mem::take(&mut self.room_waiters) {
                self.wake(op);
            }
        }
    }

    /// Waits until the MDS allows what an operation on an open file needs.
    fn wait_for_cap(
        &mut self,
        now: Now,
        number: u64,
        op: &mut Op,
        ino: Ino,
        sized: bool,
        out: &mut Outs,
    ) -> Step {
        let inode = self.inodes.get_mut(&ino).expect("an open file's inode stays");
        if inode.cap.is_none() {
            return self.reopen(now, number, op, ino, out);
        }
        inode.waiters.insert(number);
        op.stage = if sized { Stage::Sized } else { Stage::New };
        self.attend(ino);
        Step::Wait
    }

    /// The capability that an open file rests on is gone (with a lost session): asks for it anew. The file may be gone, too:
    /// then the operation fails with what the MDS says.
    fn reopen(&mut self, now: Now, number: u64, op: &mut Op, ino: Ino, out: &mut Outs) -> Step {
        let inode = &self.inodes[&ino];
        let flags = match (inode.readers, inode.writers) {
            (_, 0) => 0,
            (0, _) => open_flag::WRONLY,
            _ => open_flag::RDWR,
        };
        op.stage = Stage::AtMds;
        let args = self.open_args(Some(ino), flags, 0);
        let message =
            ClientRequest { op: MdsOp::OPEN, path: path(ino), args: args.into(), ..ClientRequest::default() };
        self.ask_mds(now, number, message, out);
        Step::Wait
    }

    /// Asks how large a file is that others write to as well; the operation goes on with what was true after it began.
    fn ask_size(&mut self, now: Now, number: u64, op: &mut Op, ino: Ino, out: &mut Outs) -> Step {
        op.stage = Stage::AtMds;
        let args = GetattrArgs { mask: cap::PIN | cap::FILE_SHARED };
        let message = ClientRequest {
            op: MdsOp::GETATTR,
            path: path(ino),
            args: args.into(),
            ..ClientRequest::default()
        };
        self.ask_mds(now, number, message, out);
        Step::Wait
    }

    /// A piece of a read or hole is there.
    pub(crate) fn piece_done(&mut self, number: u64, piece: usize, result: i32, data: Bufs) {
        let Some(op) = self.op_mut(number) else { return };
        if let Stage::Io(io) = &mut op.stage {
            // An object that is not there is a hole.
            if result < 0 && result != -ENOENT {
                io.error = Some(-result);
            }
            io.results[piece] = Some(data);
            self.wake(number);
        }
    }

    /// Lets everything leave that has waited long enough.
    pub(crate) fn write_back_old(&mut self, now: Now) {
        let due: Vec<Ino> = self
            .dirty_since
            .iter()
            .filter(|(_, at)| now.mono >= **at + WRITE_BACK_AFTER)
            .map(|(ino, _)| *ino)
            .collect();
        for ino in due {
            // Attributes follow the data; asking again in a while covers what can't leave now.
            self.dirty_since.insert(ino, now.mono);
            if let Some(inode) = self.inodes.get_mut(&ino) {
                inode.sync_wanted = true;
            }
            self.touch(ino);
        }
    }

    /// Waits until a file's data and attributes are durable; of the attributes only the size where `data_only`.
    pub(crate) fn fsync(&mut self, number: u64, fh: Fh, data_only: bool, out: &mut Outs) -> Step {
        let Some(ino) = self.files.get(&fh).map(|f| f.ino) else { return fail(EBADF) };
        let inode = self.inodes.get_mut(&ino).expect("an open file's inode stays");
        if data_only && inode.growth == Growth::Durable {
            if !inode.dirty.is_empty() {
                inode.data_wanted = true;
                inode.waiters.insert(number);
                self.attend(ino);
                return Step::Wait;
            }
        } else if !inode.dirty.is_empty() || inode.dirty_caps.0 != 0 || !inode.flushing.is_empty() {
            inode.sync_wanted = true;
            inode.waiters.insert(number);
            self.attend(ino);
            return Step::Wait;
        } else {
            inode.sync_wanted = false;
        }
        if let Some(errno) = inode.error.take() {
            return fail(errno);
        }
        self.wait_for_journal(number, out)
    }

    /// Waits until everything is durable.
    pub(crate) fn sync_all(&mut self, number: u64, out: &mut Outs) -> Step {
        let mut clean = true;
        let dirty: Vec<Ino> = self.inodes.values().filter(|i| is_dirty(i)).map(|i| i.ino).collect();
        for ino in dirty {
            let inode = self.inodes.get_mut(&ino).expect("just listed");
            inode.sync_wanted = true;
            inode.waiters.insert(number);
            clean = false;
            self.attend(ino);
        }
        if clean { self.wait_for_journal(number, out) } else { Step::Wait }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of one operation, taken apart for the borrow checker"
    )]
    fn fallocate(
        &mut self,
        now: Now,
        number: u64,
        op: &mut Op,
        fh: Fh,
        offset: u64,
        len: u64,
        mode: u32,
        out: &mut Outs,
    ) -> Step {
        let Some(ino) = self.files.get(&fh).filter(|f| f.writes).map(|f| f.ino) else { return fail(EBADF) };
        if mode & !(KEEP_SIZE | PUNCH_HOLE | ZERO_RANGE) != 0 {
            return fail(EOPNOTSUPP);
        }
        let Some(end) = offset.checked_add(len).filter(|_| len > 0) else { return fail(EINVAL) };
        if end > self.mds.map.max_file_size {
            return fail(EFBIG);
        }
        let inode = self.inodes.get_mut(&ino).expect("an open file's inode stays");
        let extends = mode & KEEP_SIZE == 0 && end > inode.size;
        if extends {
            inode.wanted_max_size = inode.wanted_max_size.max(end);
        }
        let zeroes = mode & (PUNCH_HOLE | ZERO_RANGE) != 0;
        if zeroes {
            inode.dirty.punch(offset, end);
            inode.sync_wanted = true;
        }
        if inode.cap.is_none() {
            return self.reopen(now, number, op, ino, out);
        }
        // A hole must not overtake a write that is on its way, nor be filled by one.
        if !inode.may(cap::FILE_WR) || extends && end > inode.max_size || zeroes && inode.dirty.is_flying() {
            inode.waiters.insert(number);
            self.attend(ino);
            return Step::Wait;
        }
        let zero_end = end.min(inode.size);
        inode.wrote(if extends { end } else { 0 }, now.wall);
        self.dirty_since.entry(ino).or_insert(now.mono);
        self.touch(ino);
        if !zeroes || offset >= zero_end {
            return Step::Done(Ok(Answer::Done));
        }
        let inode = &self.inodes[&ino];
        let Some(striper) = Striper::new(&inode.layout) else { return fail(EIO) };
        let pieces = striper.pieces(offset, zero_end - offset);
        let (pool, ns) = (inode.layout.pool, inode.layout.pool_ns.clone().into_bytes());
        let truncation = (inode.truncate_seq, inode.truncate_size);
        let results = vec![None; pieces.len()];
        for (piece, p) in pieces.iter().enumerate() {
            let extent = extent(truncation, &striper, p.object_no, p.offset, p.len);
            let oid = striper::object_name(ino, p.object_no);
            let request = rados::Request::write(pool, &ns, oid, vec![ObjectOp::Zero(extent)])
                .with_flags(osd_flag::FULL_TRY);
            self.submit(now, Token::Piece { op: number, piece }, request, out);
        }
        op.stage =
            Stage::Io(FileIo { pieces, results, len: zero_end - offset, error: None, buffered: Bufs::new() });
        Step::Wait
    }

    fn punched(&mut self, fh: Fh, io: &FileIo) -> Step {
        if let Some(file) = self.files.get(&fh) {
            self.touch(file.ino);
        }
        match io.error {
            Some(errno) => fail(errno),
            None => Step::Done(Ok(Answer::Done)),
        }
    }

    /// Closing and locks.
    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of one operation, taken apart for the borrow checker"
    )]
    pub(crate) fn handle_step(
        &mut self,
        now: Now,
        number: u64,
        op: &mut Op,
        stage: Stage,
        caller: &Caller,
        request: &FsRequest,
        out: &mut Outs,
    ) -> Step {
        if let Stage::Answered(reply) = stage {
            return lock_answer(request, &reply);
        }
        let (fh, owner) = match request {
            FsRequest::Flush { fh, lock_owner } | FsRequest::Release { fh, lock_owner } => (*fh, *lock_owner),
            FsRequest::Getlk { fh, owner, .. } | FsRequest::Setlk { fh, owner, .. } => (*fh, *owner),
            _ => return fail(EIO),
        };
        let Some(ino) = self.files.get(&fh).map(|f| f.ino) else { return fail(EBADF) };
        let everything = FileLock { start: 0, end: u64::MAX, kind: F_UNLCK, pid: caller.pid };
        let ask = match request {
            FsRequest::Getlk { lock, .. } => Some((MdsOp::GETFILELOCK, *lock, false, false)),
            FsRequest::Setlk { lock, wait, flock, .. } => {
                self.locks.insert((ino, owner));
                Some((MdsOp::SETFILELOCK, *lock, *wait, *flock))
            }
            // The owner's POSIX locks go with its first close.
            _ => self.locks.remove(&(ino, owner)).then_some((MdsOp::SETFILELOCK, everything, false, false)),
        };
        let release = matches!(request, FsRequest::Release { .. });
        let error = if release { self.release(fh) } else { None };
        if let Some((mds_op, lock, wait, flock)) = ask {
            op.stage = Stage::AtMds;
            let args = lock_args(owner, &lock, wait, flock);
            let message =
                ClientRequest { op: mds_op, path: path(ino), args: args.into(), ..ClientRequest::default() };
            self.ask_mds(now, number, message, out);
            return Step::Wait;
        }
        let pending = self.inodes.get_mut(&ino).and_then(|i| if release { None } else { i.error.take() });
        match error.or(pending) {
            Some(errno) => fail(errno),
            None => Step::Done(Ok(Answer::Done)),
        }
    }

    fn release(&mut self, fh: Fh) -> Option<i32> {
        let file = self.files.remove(&fh)?;
        if let Some(inode) = self.inodes.get_mut(&file.ino) {
            inode.readers -= u32::from(file.reads);
            inode.writers -= u32::from(file.writes);
            self.touch(file.ino);
        }
        None
    }
}

/// Whether an operation has asked for the size since it began. An answer to opening does not tell what writers have not flushed.
fn knows_size_since(stage: &Stage) -> bool {
    matches!(stage, Stage::Sized) || matches!(stage, Stage::Answered(reply) if reply.op == MdsOp::GETATTR)
}

pub(crate) fn is_dirty(inode: &crate::inode::Inode) -> bool {
    !inode.dirty.is_empty() || inode.dirty_caps.0 != 0 || !inode.flushing.is_empty()
}

const F_WRLCK: u32 = 1;
const F_UNLCK: u32 = 2;

fn lock_args(owner: u64, lock: &FileLock, wait: bool, flock: bool) -> FileLockArgs {
    let length =
        if lock.end == u64::MAX || lock.end >= i64::MAX as u64 { 0 } else { lock.end - lock.start + 1 };
    let kind = match lock.kind {
        F_UNLCK => 4,
        F_WRLCK => 2,
        _ => 1,
    };
    FileLockArgs {
        rule: if flock { 2 } else { 1 },
        kind,
        owner,
        pid: lock.pid.into(),
        start: lock.start,
        length,
        wait: u8::from(wait),
    }
}

fn lock_answer(request: &FsRequest, reply: &msgs::ClientReply) -> Step {
    if reply.result < 0 {
        return fail(-reply.result);
    }
    if !matches!(request, FsRequest::Getlk { .. }) {
        return Step::Done(Ok(Answer::Done));
    }
    let Ok(found) = Reader::new(&reply.extra).get::<msgs::FileLock>() else { return fail(EIO) };
    let end = if found.length == 0 { u64::MAX } else { found.start + found.length - 1 };
    let kind = match found.kind {
        1 => 0,
        2 => F_WRLCK,
        _ => F_UNLCK,
    };
    Step::Done(Ok(Answer::Lock(FileLock { start: found.start, end, kind, pid: found.pid as u32 })))
}

/// A range of object `object_no`, with the file's newest truncation as it concerns that object.
fn extent((truncate_seq, size): (u32, u64), striper: &Striper, object_no: u64, off: u64, len: u64) -> Extent {
    let truncate_size = if size == u64::MAX { size } else { striper.object_len(object_no, size) };
    Extent { off, len, truncate_size, truncate_seq }
}

/// What is buffered in a range, as (a mask and) bytes laid out flat: first one byte for each byte (1 where buffered), then the
/// bytes. Empty where nothing is.
fn snapshot(dirty: &Dirty, offset: u64, len: u64) -> Bufs {
    if dirty.is_empty() {
        return Bufs::new();
    }
    let n = len as usize;
    let zeros = dirty.overlay(offset, Bufs::from(stdx::Buf::zeros(n)));
    let ones = dirty.overlay(offset, Bufs::from(vec![0xff; n]));
    // A byte is buffered exactly where both backgrounds give the same.
    let (zeros, ones) = (zeros.to_vec(), ones.to_vec());
    let mut flat: Vec<u8> = zeros.iter().zip(&ones).map(|(a, b)| u8::from(a == b)).collect();
    flat.extend(zeros);
    flat.into()
}

fn overlay_snapshot(data: Bufs, snapshot: &Bufs) -> Bufs {
    if snapshot.is_empty() {
        return data;
    }
    let (flat, mut bytes) = (snapshot.to_vec(), data.to_vec());
    let n = bytes.len();
    for i in 0..n {
        if flat[i] == 1 {
            bytes[i] = flat[n + i];
        }
    }
    bytes.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use maps::FileLayout;

    #[test]
    fn requests_name_the_objects_part_of_a_truncation() {
        let layout = FileLayout {
            stripe_unit: 4 << 20,
            stripe_count: 1,
            object_size: 4 << 20,
            ..FileLayout::default()
        };
        let striper = Striper::new(&layout).expect("makes sense");
        let part = |truncation, object_no| extent(truncation, &striper, object_no, 0, 1).truncate_size;
        assert_eq!([0, 49, 50, 51].map(|n| part((2, (200 << 20) + 5), n)), [4 << 20, 4 << 20, 5, 0]);
        assert_eq!(part((1, u64::MAX), 3), u64::MAX, "as it is told where there was none");
    }
}
