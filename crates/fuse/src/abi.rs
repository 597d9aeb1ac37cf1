//! Linux's FUSE protocol, version 7 (its header `fuse.h`): numbers in the host's byte order, names that end
//! with a zero byte.

use client::{Attr, Entry};
use std::time::Duration;
use stdx::Wall;

/// Bytes of the head of an answer.
pub(crate) const OUT_HEADER: usize = 16;

/// The requests that are known.
pub(crate) mod opcode {
    pub const LOOKUP: u32 = 1;
    pub const FORGET: u32 = 2;
    pub const GETATTR: u32 = 3;
    pub const SETATTR: u32 = 4;
    pub const READLINK: u32 = 5;
    pub const SYMLINK: u32 = 6;
    pub const MKNOD: u32 = 8;
    pub const MKDIR: u32 = 9;
    pub const UNLINK: u32 = 10;
    pub const RMDIR: u32 = 11;
    pub const RENAME: u32 = 12;
    pub const LINK: u32 = 13;
    pub const OPEN: u32 = 14;
    pub const READ: u32 = 15;
    pub const WRITE: u32 = 16;
    pub const STATFS: u32 = 17;
    pub const RELEASE: u32 = 18;
    pub const FSYNC: u32 = 20;
    pub const SETXATTR: u32 = 21;
    pub const GETXATTR: u32 = 22;
    pub const LISTXATTR: u32 = 23;
    pub const REMOVEXATTR: u32 = 24;
    pub const FLUSH: u32 = 25;
    pub const OPENDIR: u32 = 27;
    pub const READDIR: u32 = 28;
    pub const RELEASEDIR: u32 = 29;
    pub const FSYNCDIR: u32 = 30;
    pub const GETLK: u32 = 31;
    pub const SETLK: u32 = 32;
    pub const SETLKW: u32 = 33;
    pub const CREATE: u32 = 35;
    pub const INTERRUPT: u32 = 36;
    pub const DESTROY: u32 = 38;
    pub const IOCTL: u32 = 39;
    pub const BATCH_FORGET: u32 = 42;
    pub const FALLOCATE: u32 = 43;
    pub const READDIRPLUS: u32 = 44;
    pub const RENAME2: u32 = 45;
    pub const LSEEK: u32 = 46;
    pub const COPY_FILE_RANGE: u32 = 47;
    pub const STATX: u32 = 52;
}

/// Which fields of `SETATTR` are set.
pub(crate) mod setattr {
    pub const MODE: u32 = 1;
    pub const UID: u32 = 1 << 1;
    pub const GID: u32 = 1 << 2;
    pub const SIZE: u32 = 1 << 3;
    pub const ATIME: u32 = 1 << 4;
    pub const MTIME: u32 = 1 << 5;
    pub const ATIME_NOW: u32 = 1 << 7;
    pub const MTIME_NOW: u32 = 1 << 8;
    pub const CTIME: u32 = 1 << 10;
    pub const KILL_SUIDGID: u32 = 1 << 11;
}

/// Flag of `IOCTL`: it is of a directory.
pub(crate) const IOCTL_DIR: u32 = 1 << 4;
/// ioctl(2) of a file of Ceph: writes through the descriptor are buffered although others have the file open
/// (of Linux: `_IO(0x97, 4)`).
pub(crate) const CEPH_IOC_LAZYIO: u32 = 0x9704;
/// Flag of `FSYNC`: only the data.
pub(crate) const FSYNC_DATA: u32 = 1;
/// Flag of `WRITE`: the file loses set-user-ID and set-group-ID.
pub(crate) const WRITE_KILL_SUIDGID: u32 = 1 << 2;
/// The same in the flags of its own that `OPEN` has beside those of open(2).
pub(crate) const OPEN_KILL_SUIDGID: u32 = 1;
/// Flag of the answers to `OPEN` and `CREATE`: cached pages stay.
pub(crate) const OPEN_KEEP_CACHE: u32 = 1 << 1;
/// Flag of the same: reads and writes go past the kernel's cache.
pub(crate) const OPEN_DIRECT_IO: u32 = 1;
/// Flag of the same: such writes need not wait for one another.
pub(crate) const OPEN_PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
/// Flag of `SETLK` and `SETLKW`: a BSD lock.
pub(crate) const LOCK_FLOCK: u32 = 1;
/// Flag of a long `SETXATTR`: the caller is not of the file's group, so an ACL takes its set-group-ID bit.
pub(crate) const SETXATTR_ACL_KILL_SGID: u32 = 1;
/// Flag of `RELEASE`: the owner's BSD lock goes.
pub(crate) const RELEASE_FLOCK_UNLOCK: u32 = 1 << 1;

/// The notice that names in a directory are to be forgotten.
pub(crate) const NOTIFY_INVAL_ENTRY: i32 = 3;
/// Flag of that notice: Linux asks for the name again when it is used next, and keeps what is mounted on it.
pub(crate) const EXPIRE_ONLY: u32 = 1;

/// Takes a request apart.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(head)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        Some(u16::from_ne_bytes(self.bytes(2)?.try_into().expect("two bytes")))
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        Some(u32::from_ne_bytes(self.bytes(4)?.try_into().expect("four bytes")))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        Some(u64::from_ne_bytes(self.bytes(8)?.try_into().expect("eight bytes")))
    }

    /// A name, without the zero byte that ends it.
    pub(crate) fn name(&mut self) -> Option<Vec<u8>> {
        let len = self.0.iter().position(|byte| *byte == 0)?;
        let name = self.bytes(len)?.to_vec();
        self.bytes(1)?;
        Some(name)
    }
}

/// Puts an answer together.
#[derive(Default)]
pub(crate) struct Body(pub(crate) Vec<u8>);

impl Body {
    pub(crate) fn u32(&mut self, value: u32) -> &mut Self {
        self.0.extend_from_slice(&value.to_ne_bytes());
        self
    }

    pub(crate) fn u64(&mut self, value: u64) -> &mut Self {
        self.0.extend_from_slice(&value.to_ne_bytes());
        self
    }

    /// `struct fuse_attr`.
    pub(crate) fn attr(&mut self, attr: &Attr) -> &mut Self {
        let (atime, mtime, ctime) = (attr.atime.split(), attr.mtime.split(), attr.ctime.split());
        self.u64(attr.ino).u64(attr.size).u64(attr.blocks);
        self.u64(atime.0).u64(mtime.0).u64(ctime.0);
        self.u32(atime.1).u32(mtime.1).u32(ctime.1);
        self.u32(attr.mode).u32(attr.nlink).u32(attr.uid).u32(attr.gid).u32(attr.rdev);
        self.u32(attr.blksize).u32(0)
    }

    /// `struct fuse_attr_out`.
    pub(crate) fn attr_out(&mut self, attr: &Attr, valid: Duration) -> &mut Self {
        self.u64(valid.as_secs()).u32(valid.subsec_nanos()).u32(0).attr(attr)
    }

    /// `struct fuse_statx_out`, with the birth time, which `struct fuse_attr` does not have.
    pub(crate) fn statx_out(&mut self, attr: &Attr, valid: Duration) -> &mut Self {
        const BASIC_AND_BTIME: u32 = 0xfff;
        self.u64(valid.as_secs()).u32(valid.subsec_nanos()).u32(0).u64(0).u64(0);
        self.u32(BASIC_AND_BTIME).u32(attr.blksize).u64(0);
        self.u32(attr.nlink).u32(attr.uid).u32(attr.gid);
        self.0.extend_from_slice(&(attr.mode as u16).to_ne_bytes());
        self.0.extend_from_slice(&[0; 2]);
        self.u64(attr.ino).u64(attr.size).u64(attr.blocks).u64(0);
        for time in [attr.atime, attr.btime, attr.ctime, attr.mtime] {
            let (sec, nsec) = time.split();
            self.u64(sec).u32(nsec).u32(0);
        }
        // Device numbers: of the file, in the form of `struct statx`, and none of the file system.
        let rdev = u64::from(attr.rdev);
        self.u32(libc::major(rdev)).u32(libc::minor(rdev)).u32(0).u32(0);
        for _ in 0..14 {
            self.u64(0);
        }
        self
    }

    /// `struct fuse_entry_out`.
    pub(crate) fn entry(&mut self, entry: &Entry) -> &mut Self {
        self.entry_as(entry.attr.ino, entry)
    }

    /// The same of an inode that the kernel calls `node`. Our servers use no number again, so the generation
    /// is always 0.
    pub(crate) fn entry_as(&mut self, node: u64, entry: &Entry) -> &mut Self {
        let (name, attr) = (entry.entry_valid, entry.attr_valid);
        self.u64(node).u64(0).u64(name.as_secs()).u64(attr.as_secs());
        self.u32(name.subsec_nanos()).u32(attr.subsec_nanos()).attr(&entry.attr)
    }

    /// `struct fuse_entry_out` of a name that does not exist.
    pub(crate) fn absent(&mut self, valid: Duration) -> &mut Self {
        let attr = Attr::default();
        self.entry(&Entry { attr, entry_valid: valid, attr_valid: Duration::ZERO })
    }

    /// `struct fuse_notify_inval_entry_out` with its name.
    pub(crate) fn inval_entry(&mut self, parent: u64, name: &[u8], flags: u32) -> &mut Self {
        self.u64(parent).u32(name.len() as u32).u32(flags);
        self.0.extend_from_slice(name);
        self.0.push(0);
        self
    }

    /// `struct fuse_dirent`; `mode` tells the type.
    pub(crate) fn dirent(&mut self, ino: u64, next_offset: u64, mode: u32, name: &[u8]) -> &mut Self {
        self.u64(ino).u64(next_offset).u32(name.len() as u32).u32((mode & libc::S_IFMT) >> 12);
        self.0.extend_from_slice(name);
        self.0.resize(self.0.len().next_multiple_of(8), 0);
        self
    }
}

/// Bytes of a `struct fuse_dirent` with its name.
pub(crate) fn dirent_len(name: &[u8]) -> usize {
    (24 + name.len()).next_multiple_of(8)
}

/// Bytes of a `struct fuse_entry_out`.
pub(crate) const ENTRY_OUT: usize = 128;

/// A time of the kernel's. Those before 1970 become 1970: Ceph's stamps have no sign.
pub(crate) fn wall(sec: u64, nsec: u32) -> Wall {
    let sec = u64::try_from(sec as i64).unwrap_or(0);
    Wall(sec.saturating_mul(1_000_000_000).saturating_add(u64::from(nsec)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_have_the_kernels_sizes() {
        let entry = Entry::default();
        assert_eq!(Body::default().attr(&entry.attr).0.len(), 88);
        assert_eq!(Body::default().statx_out(&entry.attr, Duration::ZERO).0.len(), 32 + 256);
        assert_eq!(Body::default().attr_out(&entry.attr, Duration::ZERO).0.len(), 104);
        assert_eq!(Body::default().entry(&entry).0.len(), ENTRY_OUT);
        for name in [&b"a"[..], b"12345678", b"123456789"] {
            assert_eq!(Body::default().dirent(1, 2, libc::S_IFREG, name).0.len(), dirent_len(name));
        }
    }

    #[test]
    fn times_before_1970_become_1970() {
        assert_eq!(wall(-1i64 as u64, 5), Wall(5));
        assert_eq!(wall(2, 5), Wall(2_000_000_005));
    }
}
