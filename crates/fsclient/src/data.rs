//! File data: reads laid under what is buffered, writes taken into the buffer, holes punched at the OSDs.

use crate::api::{Answer, Fh, FsRequest};
use crate::cache::Cache;
use crate::handles::{FileHandle, Handles};
use crate::inode::Access;
use crate::key::InodeKey;
use crate::mds_request;
use crate::op::{Attempt, Stage, Step, done, fail};
use crate::privileges::{self, Dropping};
use crate::services::{Services, Token};
use crate::sessions::Sessions;
use crate::transfer::Transfer;
use msgs::{ClientRequest, Extent, GetattrArgs, MdsOp, Op as ObjectOp, cap, osd_flag};
use stdx::Bufs;
use striper::Striper;
use wire::Errno;

/// Room that a writer asks for beyond what it needs, so that it does not ask for each write.
const MAX_SIZE_STEP: u64 = 64 << 20;
/// Modes of fallocate(2).
const KEEP_SIZE: u32 = 1;
const PUNCH_HOLE: u32 = 2;
const ZERO_RANGE: u32 = 0x10;

/// The owners that operations on file data need.
pub(crate) struct FileData<'a> {
    pub(crate) cache: &'a mut Cache,
    pub(crate) handles: &'a mut Handles,
    pub(crate) sessions: &'a mut Sessions,
    pub(crate) services: &'a mut Services,
}

/// A range of an open file.
#[derive(Clone, Copy)]
struct Range {
    offset: u64,
    len: u64,
}

impl FileData<'_> {
    /// Attempts a read, write, copy, fallocate or lseek, or makes a file a lazy one.
    pub(crate) fn step(&mut self, attempt: &mut Attempt<'_>, request: &FsRequest) -> Step {
        if let FsRequest::CopyRange { fh_in, fh_out, .. } = request {
            return self.refuse_copy(*fh_in, *fh_out).map_or_else(|| self.copy(attempt, request), fail);
        }
        let stage = attempt.take_stage();
        let sized = tells_size(&stage);
        match (stage, request) {
            (Stage::Transfer(transfer), _) if !transfer.is_done() => {
                attempt.wait_at(Stage::Transfer(transfer))
            }
            (Stage::Search(search), _) if !search.is_done() => attempt.wait_at(Stage::Search(search)),
            (Stage::Search(search), FsRequest::Lseek { fh, offset, .. })
                if search.is_refused() && self.sessions.is_evicted() =>
            {
                self.seek(attempt, *fh, *offset, false)
            }
            (Stage::Search(search), FsRequest::Lseek { fh, whence, .. }) => {
                self.looked(attempt, *fh, *whence, &search)
            }
            (Stage::Transfer(transfer), FsRequest::Read { fh, offset, len }) => {
                self.read_done(attempt, *fh, Range { offset: *offset, len: u64::from(*len) }, &transfer)
            }
            (Stage::Transfer(transfer), FsRequest::Fallocate { fh, .. }) => self.punched(*fh, &transfer),
            (Stage::Written { offset, len }, FsRequest::Write { fh, .. }) => {
                self.written(attempt, *fh, Range { offset, len: u64::from(len) })
            }
            // Another piece of the read has ended since the MDS was asked.
            (Stage::Confirming(data), _) => attempt.wait_at(Stage::Confirming(data)),
            (Stage::Confirmed(_, result), _) if result < 0 => fail(Errno::ESTALE),
            (Stage::Confirmed(data, _), _) => done(Answer::Data(data)),
            (Stage::Answered(reply), FsRequest::Write { fh, .. } | FsRequest::Fallocate { fh, .. })
                if matches!(reply.op, MdsOp::RMXATTR | MdsOp::SETATTR) =>
            {
                let dropped = self.handles.file(*fh);
                match dropped.and_then(|file| privileges::dropped(self.cache, file.key(), &reply)) {
                    Ok(()) => self.change(attempt, request, true),
                    Err(errno) => fail(errno),
                }
            }
            (Stage::Answered(reply), _) if reply.op == MdsOp::STORE_DATA && reply.result >= 0 => {
                self.stored(attempt, request)
            }
            (Stage::Answered(reply), _) if reply.result < 0 => {
                fail(Errno::from_result_code(reply.result).unwrap_or(Errno::EIO))
            }
            (_, FsRequest::Read { fh, offset, len }) => {
                self.read(attempt, *fh, Range { offset: *offset, len: u64::from(*len) }, sized)
            }
            (_, FsRequest::SetLazy { fh }) => self.set_lazy(*fh),
            (_, FsRequest::Lseek { fh, offset, .. }) => self.seek(attempt, *fh, *offset, sized),
            _ => self.change(attempt, request, sized),
        }
    }

    /// Waits until what the MDS's journal alone has of a file is in its objects, which are looked into or
    /// changed next.
    pub(crate) fn wait_for_store(
        &mut self,
        attempt: &mut Attempt<'_>,
        key: InodeKey,
        sized: bool,
    ) -> Option<Step> {
        let inode = self.cache.inode(key)?;
        let (data, rank) = (inode.data(), inode.caps().cap().map(|cap| cap.auth_rank()));
        if data.is_in_doubt() && !rank.is_some_and(|rank| self.sessions.takes_small_files(rank)) {
            // This MDS has nothing of the kind.
            self.cache.open_inode(key).stored();
            return None;
        }
        if data.is_in_journal() || data.is_changed() {
            return Some(self.sessions.ask(attempt, self.cache, mds_request::store(key.ino())));
        }
        data.is_leaving().then(|| self.wait_for_inode(attempt, key, sized))
    }

    /// A file's data are in its objects.
    fn stored(&mut self, attempt: &mut Attempt<'_>, request: &FsRequest) -> Step {
        let (FsRequest::Read { fh, .. }
        | FsRequest::Lseek { fh, .. }
        | FsRequest::Write { fh, .. }
        | FsRequest::Fallocate { fh, .. }) = request
        else {
            return fail(Errno::EIO);
        };
        if let Ok(file) = self.handles.file(*fh) {
            self.cache.open_inode(file.key()).stored();
        }
        self.step(attempt, request)
    }

    /// Attempts a write or fallocate; `sized` if an MDS has told attributes since it began.
    fn change(&mut self, attempt: &mut Attempt<'_>, request: &FsRequest, sized: bool) -> Step {
        match request {
            FsRequest::Write { fh, offset, data, kill_suidgid } => {
                self.write(attempt, *fh, *offset, data, (*kill_suidgid, sized))
            }
            FsRequest::Fallocate { fh, offset, len, mode } => {
                self.fallocate(attempt, *fh, Range { offset: *offset, len: *len }, (*mode, sized))
            }
            _ => fail(Errno::EIO),
        }
    }

    /// Drops a file's privileges before its content changes.
    fn drop_privileges(
        &mut self,
        attempt: &mut Attempt<'_>,
        key: InodeKey,
        bits: bool,
        is_told: bool,
    ) -> Option<Step> {
        let dropping = Dropping { bits, is_carried: false, is_told };
        privileges::drop_before(self.cache, self.sessions, attempt, key, dropping)
    }

    fn read(&mut self, attempt: &mut Attempt<'_>, fh: Fh, range: Range, sized: bool) -> Step {
        let Range { offset, len } = range;
        let file = match self.handles.reader(fh) {
            Ok(file) => file,
            Err(errno) => return fail(errno),
        };
        let key = file.key();
        let Some(inode) = self.cache.inode_mut(key) else { return fail(Errno::EBADF) };
        // Of a snapshot there is nothing to wait for: nobody changes it.
        let sized = sized || !key.is_head();
        if key.is_head() && !inode.may_do_io(cap::FILE_RD) {
            return self.wait_for_cap(attempt, key, sized);
        }
        let size = inode.attrs().size();
        if offset + len > size && !sized && !inode.knows_size() && !inode.caps().is_revoked() {
            return self.ask_size(attempt, key);
        }
        let end = (offset + len).min(size);
        if offset >= end {
            return done(Answer::Data(Bufs::new()));
        }
        inode.note_pages();
        let len = end - offset;
        let step = if inode.data().dirty().covers(offset, end) {
            let zeros = Bufs::from(stdx::Buf::zeros(len as usize));
            done(Answer::Data(inode.data().dirty().overlay(offset, zeros)))
        } else if !reads_past_journal()
            && let Some(step) = self.wait_for_store(attempt, key, sized)
        {
            step
        } else {
            self.read_objects(attempt, key, Range { offset, len })
        };
        self.cache.settle_later(key);
        step
    }

    fn read_objects(&mut self, attempt: &mut Attempt<'_>, key: InodeKey, range: Range) -> Step {
        let inode = self.cache.open_inode(key);
        let Some(striper) = Striper::new(inode.attrs().layout()) else { return fail(Errno::EIO) };
        inode.start_read();
        let (transfer, objects) = Transfer::new(inode, &striper, range.offset, range.len);
        let transfer = transfer.over_buffered(inode.data().dirty(), range.offset);
        self.submit_pieces(attempt, key, objects, |pool, ns, oid, extent| {
            rados::Request::read(pool, ns, oid, vec![ObjectOp::Read(extent)]).at_snap(key.snap())
        });
        attempt.wait_at(Stage::Transfer(transfer))
    }

    /// Submits an object operation for each piece of a transfer.
    pub(crate) fn submit_pieces(
        &mut self,
        attempt: &mut Attempt<'_>,
        key: InodeKey,
        objects: Vec<(String, Extent)>,
        request: impl Fn(i64, &[u8], String, Extent) -> rados::Request,
    ) {
        let layout = self.cache.open_inode(key).attrs().layout();
        let (pool, ns) = (layout.pool, layout.pool_ns.clone().into_bytes());
        let (now, op) = (attempt.now(), attempt.op());
        for (piece, (oid, extent)) in objects.into_iter().enumerate() {
            let request = request(pool, &ns, oid, extent);
            self.services.submit(now, Token::Piece { op, piece }, request, attempt.out());
        }
    }

    fn read_done(&mut self, attempt: &mut Attempt<'_>, fh: Fh, range: Range, transfer: &Transfer) -> Step {
        let Ok(file) = self.handles.file(fh) else { return fail(Errno::EBADF) };
        let inode = self.cache.open_inode(file.key());
        inode.end_read();
        let data = inode.data().dirty().overlay(range.offset, transfer.assemble());
        self.cache.inode_changed(file.key());
        match transfer.error() {
            // The next instance reads, under a capability of its own.
            Some(Errno::EBLOCKLISTED) if self.sessions.is_evicted() => self.read(attempt, fh, range, false),
            Some(errno) => fail(self.handles.usable(fh).err().unwrap_or(errno)),
            None if transfer.has_hole() && !file.key().is_head() => self.confirm(attempt, file.key(), data),
            None => done(Answer::Data(data)),
        }
    }

    /// An object of a snapshot does not exist: that is a hole in the file, or the snapshot was removed and
    /// OSDs trim it. The MDS tells which.
    fn confirm(&mut self, attempt: &mut Attempt<'_>, key: InodeKey, data: Bufs) -> Step {
        let Some(path) = self.cache.path(key) else { return fail(Errno::ESTALE) };
        let args = GetattrArgs { mask: cap::PIN }.into();
        let message = ClientRequest { op: MdsOp::GETATTR, path, args, ..ClientRequest::default() };
        // The answer is waited for at a stage that keeps the data.
        drop(self.sessions.ask(attempt, self.cache, message));
        attempt.wait_at(Stage::Confirming(data))
    }

    fn write(
        &mut self,
        attempt: &mut Attempt<'_>,
        fh: Fh,
        offset: u64,
        data: &Bufs,
        (kill_suidgid, sized): (bool, bool),
    ) -> Step {
        let file = match self.handles.writer(fh) {
            Ok(file) => file,
            Err(errno) => return fail(errno),
        };
        let key = file.key();
        let pool = self.cache.inode(key).map_or(0, |inode| inode.attrs().layout().pool);
        if self.services.osdmap().is_full(pool) {
            return fail(Errno::ENOSPC);
        }
        let Some(inode) = self.cache.inode_mut(key) else { return fail(Errno::EBADF) };
        if !inode.may_do_io(cap::FILE_WR) {
            return self.wait_for_cap(attempt, key, sized);
        }
        if file.appends() && !sized && !inode.knows_size() && !inode.caps().is_revoked() {
            return self.ask_size(attempt, key);
        }
        let size = inode.attrs().size();
        let offset = if file.appends() { size } else { offset };
        let end = offset + data.len() as u64;
        if end > size && self.cache.exceeds_bytes(key, end) {
            return fail(Errno::EDQUOT);
        }
        if end > self.sessions.map().max_file_size {
            return fail(Errno::EFBIG);
        }
        if !self.cache.open_inode(key).may_change_small_file(end)
            && let Some(step) = self.wait_for_store(attempt, key, sized)
        {
            return step;
        }
        let inode = self.cache.open_inode(key);
        if end > inode.caps().max_size() {
            inode.want_max_size(end + MAX_SIZE_STEP);
            return self.wait_for_inode(attempt, key, sized);
        }
        if let Some(step) = self.drop_privileges(attempt, key, kill_suidgid, sized) {
            return step;
        }
        let inode = self.cache.open_inode(key);
        inode.write(offset, data.clone(), attempt.now().wall);
        self.cache.recount(key);
        self.cache.note_dirty(attempt.now(), key);
        self.cache.inode_changed(key);
        self.written(attempt, fh, Range { offset, len: data.len() as u64 })
    }

    /// The data are buffered. The writer waits while too much is, and until they have arrived if it opened
    /// the file with `O_DIRECT` or may not buffer.
    fn written(&mut self, attempt: &mut Attempt<'_>, fh: Fh, Range { offset, len }: Range) -> Step {
        let Ok(file) = self.handles.file(fh) else { return fail(Errno::EBADF) };
        let inode = self.cache.open_inode(file.key());
        let waits = Stage::Written { offset, len: len as u32 };
        if file.is_direct() || !inode.may_buffer(file.access()) {
            if inode.data().dirty().overlaps(offset, offset + len) {
                inode.wait_for_data(attempt.op());
                self.cache.settle_later(file.key());
                return attempt.wait_at(waits);
            }
            if let Some(errno) = self.handles.take_error(fh, inode) {
                return fail(errno);
            }
        }
        let own = inode.data().counted_bytes();
        if self.cache.buffer().is_full_for(own) {
            self.cache.wait_for_space(attempt.op());
            return attempt.wait_at(waits);
        }
        done(Answer::Written(len as u32))
    }

    /// Whoever opened the file reads and writes it lazily from now on.
    fn set_lazy(&mut self, fh: Fh) -> Step {
        let Ok(file) = self.handles.file(fh) else { return fail(Errno::EBADF) };
        let access = Access { lazy: true, ..file.access() };
        let inode = self.cache.open_inode(file.key());
        inode.opened(access);
        inode.closed(file.access());
        self.handles.set_access(fh, access);
        self.cache.inode_changed(file.key());
        done(Answer::Done)
    }

    fn fallocate(
        &mut self,
        attempt: &mut Attempt<'_>,
        fh: Fh,
        range: Range,
        (mode, sized): (u32, bool),
    ) -> Step {
        let file = match self.handles.writer(fh) {
            Ok(file) => file,
            Err(errno) => return fail(errno),
        };
        // Space can't be kept for later writes, so nothing is said to have been.
        let zeroes = mode & (PUNCH_HOLE | ZERO_RANGE) != 0;
        if !zeroes || mode & !(KEEP_SIZE | PUNCH_HOLE | ZERO_RANGE) != 0 {
            return fail(Errno::EOPNOTSUPP);
        }
        let Some(end) = range.offset.checked_add(range.len).filter(|_| range.len > 0) else {
            return fail(Errno::EINVAL);
        };
        if end > self.sessions.map().max_file_size {
            return fail(Errno::EFBIG);
        }
        if let Some(step) = self.wait_for_store(attempt, file.key(), sized) {
            return step;
        }
        let inode = self.cache.open_inode(file.key());
        if inode.caps().cap().is_none() {
            return self.reopen(attempt, file.key());
        }
        // What others have written at the end is punched too.
        if !sized && !inode.knows_size() && !inode.caps().is_revoked() {
            return self.ask_size(attempt, file.key());
        }
        let extends = mode & KEEP_SIZE == 0 && end > inode.attrs().size();
        if extends && self.cache.exceeds_bytes(file.key(), end) {
            return fail(Errno::EDQUOT);
        }
        let inode = self.cache.open_inode(file.key());
        if extends {
            inode.want_max_size(end);
        }
        inode.punch_buffered(range.offset, end);
        // A hole must not overtake a write in flight, nor be filled by one.
        let in_flight = inode.data().dirty().is_flying();
        if !inode.may(cap::FILE_WR) || extends && end > inode.caps().max_size() || in_flight {
            return self.wait_for_inode(attempt, file.key(), sized);
        }
        // The kernel does not say of which callers the bits go.
        if let Some(step) = self.drop_privileges(attempt, file.key(), attempt.caller().uid != 0, sized) {
            return step;
        }
        let inode = self.cache.open_inode(file.key());
        let zero_end = end.min(inode.attrs().size());
        inode.note_write(if extends { end } else { 0 }, attempt.now().wall);
        self.cache.note_dirty(attempt.now(), file.key());
        self.cache.inode_changed(file.key());
        if range.offset >= zero_end {
            return done(Answer::Done);
        }
        self.punch(attempt, file, Range { len: zero_end - range.offset, ..range })
    }

    fn punch(&mut self, attempt: &mut Attempt<'_>, file: FileHandle, range: Range) -> Step {
        let inode = self.cache.open_inode(file.key());
        let Some(striper) = Striper::new(inode.attrs().layout()) else { return fail(Errno::EIO) };
        let (transfer, objects) = Transfer::new(inode, &striper, range.offset, range.len);
        let snapc = self.cache.snap_context(file.key());
        self.submit_pieces(attempt, file.key(), objects, |pool, ns, oid, extent| {
            let request = rados::Request::write(pool, ns, oid, vec![ObjectOp::Zero(extent)]);
            request.with_snapc(snapc.clone()).with_flags(osd_flag::FULL_TRY)
        });
        attempt.wait_at(Stage::Transfer(transfer))
    }

    fn punched(&mut self, fh: Fh, transfer: &Transfer) -> Step {
        if let Ok(file) = self.handles.file(fh) {
            self.cache.inode_changed(file.key());
        }
        match transfer.error() {
            // It may have been carried out. Nobody knows who has the file now.
            Some(Errno::EBLOCKLISTED) => fail(Errno::EIO),
            Some(errno) => fail(errno),
            None => done(Answer::Done),
        }
    }

    /// Waits until the MDS allows what an operation on an open file needs.
    pub(crate) fn wait_for_cap(&mut self, attempt: &mut Attempt<'_>, key: InodeKey, sized: bool) -> Step {
        if self.cache.open_inode(key).caps().cap().is_none() {
            return self.reopen(attempt, key);
        }
        self.wait_for_inode(attempt, key, sized)
    }

    fn wait_for_inode(&mut self, attempt: &mut Attempt<'_>, key: InodeKey, sized: bool) -> Step {
        self.cache.open_inode(key).wait(attempt.op());
        self.cache.settle_later(key);
        attempt.wait_at(if sized { Stage::Sized } else { Stage::New })
    }

    /// The capability that an open file rests on is gone with its session: asks for another. If the file is
    /// gone too, the operation fails with the MDS's error.
    fn reopen(&mut self, attempt: &mut Attempt<'_>, key: InodeKey) -> Step {
        let again = mds_request::open_again(self.cache, key);
        self.sessions.ask(attempt, self.cache, again)
    }

    /// Asks for the size of a file that others write to as well; the operation goes on with what was true
    /// after it began.
    pub(crate) fn ask_size(&mut self, attempt: &mut Attempt<'_>, key: InodeKey) -> Step {
        self.sessions.ask(attempt, self.cache, mds_request::look_at(key.ino()))
    }
}

/// True if the operation has asked for the size since it began. The answer to OPEN does not tell what writers
/// have not flushed.
fn tells_size(stage: &Stage) -> bool {
    matches!(stage, Stage::Sized) || matches!(stage, Stage::Answered(reply) if reply.op == MdsOp::GETATTR)
}

/// Planted fault: objects are looked into although the data may be in a journal only.
fn reads_past_journal() -> bool {
    stdx::mutants::is_active("client_reads_past_the_journal")
}
