//! Conversions between the client's types and `fuser`'s.

use client::{Attr, Caller};
use fuser::{Errno, FileAttr, FileType, INodeNo, Request, TimeOrNow};
use std::time::{Duration, SystemTime};
use stdx::Wall;

pub(crate) fn caller(request: &Request) -> Caller {
    Caller { uid: request.uid(), gid: request.gid(), pid: request.pid() }
}

pub(crate) fn errno(errno: client::Errno) -> Errno {
    Errno::from_i32(errno.get())
}

pub(crate) fn system_time(wall: Wall) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(wall.0)
}

/// Times before 1970 become 1970: the protocol's stamps have no sign.
pub(crate) fn wall(time: SystemTime) -> Wall {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Wall(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

#[expect(clippy::disallowed_methods, reason = "utimes(2) with UTIME_NOW means the caller's clock")]
pub(crate) fn wall_or_now(time: TimeOrNow) -> Wall {
    match time {
        TimeOrNow::SpecificTime(time) => wall(time),
        TimeOrNow::Now => wall(SystemTime::now()),
    }
}

pub(crate) fn file_type(mode: u32) -> FileType {
    match mode & libc::S_IFMT {
        libc::S_IFDIR => FileType::Directory,
        libc::S_IFLNK => FileType::Symlink,
        libc::S_IFIFO => FileType::NamedPipe,
        libc::S_IFSOCK => FileType::Socket,
        libc::S_IFCHR => FileType::CharDevice,
        libc::S_IFBLK => FileType::BlockDevice,
        _ => FileType::RegularFile,
    }
}

pub(crate) fn file_attr(attr: &Attr) -> FileAttr {
    FileAttr {
        ino: INodeNo(attr.ino),
        size: attr.size,
        blocks: attr.blocks,
        atime: system_time(attr.atime),
        mtime: system_time(attr.mtime),
        ctime: system_time(attr.ctime),
        crtime: system_time(attr.btime),
        kind: file_type(attr.mode),
        perm: (attr.mode & 0o7777) as u16,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev,
        blksize: attr.blksize,
        flags: 0,
    }
}
