//! `fuser`'s callbacks, each one request to the client. An answer that the request cannot have is a bug of
//! ours and becomes EIO.

use crate::convert::{caller, errno, file_attr, file_type, wall, wall_or_now};
use client::{Answer, FileLock, Fs, FsRequest, SetAttr};
use fuser::{
    BsdFileFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEmpty, ReplyEntry, ReplyLock, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request,
    TimeOrNow, WriteFlags,
};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::SystemTime;
use stdx::Buf;

/// Bytes of directory entries asked for at once; the kernel's own buffer is one page or a few.
const READDIR_BYTES: usize = 16 << 10;
/// The size of writes and of read-ahead that we ask the kernel for, in bytes.
const MAX_IO: u32 = 1 << 20;

/// The kernel's side of a mount.
pub(crate) struct Kernel {
    fs: Fs,
}

impl Kernel {
    pub(crate) fn new(fs: Fs) -> Self {
        Self { fs }
    }
}

/// Submits `$request` and answers `$reply` by the arm whose pattern matches, or with the error.
macro_rules! ask {
    ($self:ident, $req:ident, $request:expr, $reply:ident, $($pattern:pat => $answer:expr),+) => {
        $self.fs.submit(caller($req), $request, move |answer| match answer {
            $( Ok($pattern) => $answer, )+
            Ok(_) => $reply.error(Errno::EIO),
            Err(e) => $reply.error(errno(e)),
        })
    };
}

fn bytes(name: &OsStr) -> Vec<u8> {
    name.as_bytes().to_vec()
}

fn reply_entry(reply: ReplyEntry, entry: &client::Entry) {
    let attr = file_attr(&entry.attr);
    reply.entry_with_ttls(&entry.entry_valid, &entry.attr_valid, &attr, Generation(0));
}

fn fopen_flags(keep_cache: bool) -> FopenFlags {
    let mut flags = FopenFlags::empty();
    flags.set(FopenFlags::FOPEN_KEEP_CACHE, keep_cache);
    flags
}

fn reply_xattr(reply: ReplyXattr, size: u32, value: &[u8]) {
    match size {
        0 => reply.size(value.len() as u32),
        size if (size as usize) < value.len() => reply.error(Errno::ERANGE),
        _ => reply.data(value),
    }
}

impl Filesystem for Kernel {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Each is an optimisation: an older kernel that lacks it is served without.
        let wanted = InitFlags::FUSE_POSIX_LOCKS
            | InitFlags::FUSE_ASYNC_READ
            | InitFlags::FUSE_DO_READDIRPLUS
            | InitFlags::FUSE_READDIRPLUS_AUTO
            | InitFlags::FUSE_PARALLEL_DIROPS
            | InitFlags::FUSE_ASYNC_DIO
            | InitFlags::FUSE_ATOMIC_O_TRUNC;
        let _ = config.add_capabilities(wanted & config.capabilities());
        let _ = config.set_max_write(MAX_IO);
        let _ = config.set_max_readahead(MAX_IO);
        let _ = config.set_max_background(64);
        Ok(())
    }

    fn lookup(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let request = FsRequest::Lookup { parent: parent.0, name: bytes(name) };
        ask!(self, req, request, reply, Answer::Entry(e) => reply_entry(reply, &e));
    }

    fn forget(&self, req: &Request, ino: INodeNo, nlookup: u64) {
        self.fs.submit(caller(req), FsRequest::Forget { ino: ino.0, count: nlookup }, |_| {});
    }

    fn getattr(&self, req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        let request = FsRequest::Getattr { ino: ino.0 };
        ask!(self, req, request, reply, Answer::Attr(a, valid) => reply.attr(&valid, &file_attr(&a)));
    }

    fn setattr(
        &self,
        req: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let set = SetAttr {
            mode,
            uid,
            gid,
            size,
            atime: atime.map(wall_or_now),
            mtime: mtime.map(wall_or_now),
            ctime: ctime.map(wall),
        };
        let request = FsRequest::Setattr { ino: ino.0, set };
        ask!(self, req, request, reply, Answer::Attr(a, valid) => reply.attr(&valid, &file_attr(&a)));
    }

    fn readlink(&self, req: &Request, ino: INodeNo, reply: ReplyData) {
        let request = FsRequest::Readlink { ino: ino.0 };
        ask!(self, req, request, reply, Answer::Data(d) => reply.data(&d.to_buf()));
    }

    fn mknod(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let request = FsRequest::Mknod { parent: parent.0, name: bytes(name), mode: mode & !umask, rdev };
        ask!(self, req, request, reply, Answer::Entry(e) => reply_entry(reply, &e));
    }

    fn mkdir(&self, req: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry) {
        let request = FsRequest::Mkdir { parent: parent.0, name: bytes(name), mode: mode & !umask };
        ask!(self, req, request, reply, Answer::Entry(e) => reply_entry(reply, &e));
    }

    fn unlink(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let request = FsRequest::Unlink { parent: parent.0, name: bytes(name) };
        ask!(self, req, request, reply, Answer::Done => reply.ok());
    }

    fn rmdir(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let request = FsRequest::Rmdir { parent: parent.0, name: bytes(name) };
        ask!(self, req, request, reply, Answer::Done => reply.ok());
    }

    fn symlink(&self, req: &Request, parent: INodeNo, link_name: &OsStr, target: &Path, reply: ReplyEntry) {
        let target = bytes(target.as_os_str());
        let request = FsRequest::Symlink { parent: parent.0, name: bytes(link_name), target };
        ask!(self, req, request, reply, Answer::Entry(e) => reply_entry(reply, &e));
    }

    fn rename(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let request = FsRequest::Rename {
            parent: parent.0,
            name: bytes(name),
            new_parent: newparent.0,
            new_name: bytes(newname),
            flags: flags.bits(),
        };
        ask!(self, req, request, reply, Answer::Done => reply.ok());
    }

    fn link(&self, req: &Request, ino: INodeNo, newparent: INodeNo, newname: &OsStr, reply: ReplyEntry) {
        let request = FsRequest::Link { ino: ino.0, new_parent: newparent.0, new_name: bytes(newname) };
        ask!(self, req, request, reply, Answer::Entry(e) => reply_entry(reply, &e));
    }

    fn open(&self, req: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let request = FsRequest::Open { ino: ino.0, flags: flags.0 as u32 };
        ask!(self, req, request, reply,
            Answer::Opened { fh, keep_cache } => reply.opened(FileHandle(fh), fopen_flags(keep_cache)));
    }

    fn create(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let (mode, flags) = (mode & !umask, flags as u32);
        let request = FsRequest::Create { parent: parent.0, name: bytes(name), mode, flags };
        ask!(self, req, request, reply, Answer::Created { entry, fh } => {
            let flags = fopen_flags(false);
            reply.created(&entry.entry_valid, &file_attr(&entry.attr), Generation(0), FileHandle(fh), flags);
        });
    }

    fn read(
        &self,
        req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let request = FsRequest::Read { fh: fh.0, offset, len: size };
        ask!(self, req, request, reply, Answer::Data(d) => reply.data(&d.to_buf()));
    }

    fn write(
        &self,
        req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let request = FsRequest::Write { fh: fh.0, offset, data: Buf::copy_from(data).into() };
        ask!(self, req, request, reply, Answer::Written(n) => reply.written(n));
    }

    fn flush(&self, req: &Request, _ino: INodeNo, fh: FileHandle, lock_owner: LockOwner, reply: ReplyEmpty) {
        let request = FsRequest::Flush { fh: fh.0, lock_owner: lock_owner.0 };
        ask!(self, req, request, reply, Answer::Done => reply.ok());
    }

    fn release(
        &self,
        req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        let request = FsRequest::Release { fh: fh.0, lock_owner: lock_owner.map_or(0, |o| o.0) };
        ask!(self, req, request, reply, Answer::Done => reply.ok());
    }

    fn fsync(&self, req: &Request, _ino: INodeNo, fh: FileHandle, datasync: bool, reply: ReplyEmpty) {
        let request = FsRequest::Fsync { fh: fh.0, data_only: datasync };
        ask!(self, req, request, reply, Answer::Done => reply.ok());
    }

    fn opendir(&self, req: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let request = FsRequest::Opendir { ino: ino.0 };
        ask!(self, req, request, reply,
            Answer::Opened { fh, .. } => reply.opened(FileHandle(fh), FopenFlags::empty()));
    }

    fn readdir(&self, req: &Request, _ino: INodeNo, fh: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let request = FsRequest::Readdir { fh: fh.0, offset, max_bytes: READDIR_BYTES, plus: false };
        ask!(self, req, request, reply, Answer::Entries(entries) => {
            for e in &entries {
                if reply.add(INodeNo(e.ino), e.next_offset, file_type(e.kind), OsStr::from_bytes(&e.name)) {
                    break;
                }
            }
            reply.ok();
        });
    }

    fn readdirplus(
        &self,
        req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let request = FsRequest::Readdir { fh: fh.0, offset, max_bytes: READDIR_BYTES, plus: true };
        let (fs, who) = (self.fs.clone(), caller(req));
        ask!(self, req, request, reply, Answer::Entries(entries) => {
            let mut full = false;
            for e in &entries {
                // `.` and `..` have no entry: the kernel takes inode number and type and counts no reference.
                let entry = e.entry.unwrap_or_else(|| {
                    let attr = client::Attr { ino: e.ino, mode: e.kind, ..Default::default() };
                    client::Entry { attr, ..Default::default() }
                });
                let (name, attr) = (OsStr::from_bytes(&e.name), file_attr(&entry.attr));
                let (ino, valid) = (INodeNo(e.ino), entry.entry_valid);
                full = full || reply.add(ino, e.next_offset, name, &valid, &attr, Generation(0));
                if full && e.entry.is_some() {
                    // The kernel never sees this entry, so the reference that came with it goes back.
                    fs.submit(who.clone(), FsRequest::Forget { ino: e.ino, count: 1 }, |_| {});
                }
            }
            reply.ok();
        });
    }

    fn releasedir(&self, req: &Request, _ino: INodeNo, fh: FileHandle, _flags: OpenFlags, reply: ReplyEmpty) {
        ask!(self, req, FsRequest::Releasedir { fh: fh.0 }, reply, Answer::Done => reply.ok());
    }

    fn fsyncdir(&self, req: &Request, _ino: INodeNo, fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        ask!(self, req, FsRequest::Fsyncdir { fh: fh.0 }, reply, Answer::Done => reply.ok());
    }

    fn statfs(&self, req: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        ask!(self, req, FsRequest::Statfs, reply, Answer::Statfs(s) => {
            reply.statfs(s.blocks, s.free, s.free, s.files, u64::MAX >> 1, s.block, 255, s.block);
        });
    }

    fn setxattr(
        &self,
        req: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let (name, value) = (bytes(name), value.to_vec());
        let request = FsRequest::Setxattr { ino: ino.0, name, value, flags: flags as u32 };
        ask!(self, req, request, reply, Answer::Done => reply.ok());
    }

    fn getxattr(&self, req: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let request = FsRequest::Getxattr { ino: ino.0, name: bytes(name) };
        ask!(self, req, request, reply, Answer::Data(d) => reply_xattr(reply, size, &d.to_buf()));
    }

    fn listxattr(&self, req: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        ask!(self, req, FsRequest::Listxattr { ino: ino.0 }, reply, Answer::Names(names) => {
            let list: Vec<u8> = names.iter().flat_map(|n| n.iter().copied().chain([0])).collect();
            reply_xattr(reply, size, &list);
        });
    }

    fn removexattr(&self, req: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let request = FsRequest::Removexattr { ino: ino.0, name: bytes(name) };
        ask!(self, req, request, reply, Answer::Done => reply.ok());
    }

    fn getlk(
        &self,
        req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        lock_owner: LockOwner,
        start: u64,
        end: u64,
        typ: i32,
        pid: u32,
        reply: ReplyLock,
    ) {
        let lock = FileLock { start, end, kind: typ as u32, pid };
        let request = FsRequest::Getlk { fh: fh.0, owner: lock_owner.0, lock };
        ask!(self, req, request, reply,
            Answer::Lock(l) => reply.locked(l.start, l.end, l.kind as i32, l.pid));
    }

    fn setlk(
        &self,
        req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        lock_owner: LockOwner,
        start: u64,
        end: u64,
        typ: i32,
        pid: u32,
        sleep: bool,
        reply: ReplyEmpty,
    ) {
        let lock = FileLock { start, end, kind: typ as u32, pid };
        let request = FsRequest::Setlk { fh: fh.0, owner: lock_owner.0, lock, wait: sleep, flock: false };
        ask!(self, req, request, reply, Answer::Done => reply.ok());
    }

    fn fallocate(
        &self,
        req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let request = FsRequest::Fallocate { fh: fh.0, offset, len: length, mode: mode as u32 };
        ask!(self, req, request, reply, Answer::Done => reply.ok());
    }

    fn lseek(
        &self,
        req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let Ok(offset) = u64::try_from(offset) else { return reply.error(Errno::ENXIO) };
        let request = FsRequest::Lseek { fh: fh.0, offset, whence: whence as u32 };
        ask!(self, req, request, reply, Answer::Offset(o) => reply.offset(o as i64));
    }
}
