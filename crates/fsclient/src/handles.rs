//! Open files and directories, and the file locks that their owners hold.

use crate::api::Fh;
use crate::dir_handle::DirHandle;
use crate::file_locks::FileLocks;
use crate::inode::{Access, Inode};
use crate::key::InodeKey;
use crate::mds_request::open_flag;
use stdx::FastMap;
use wire::Errno;

/// An open file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileHandle {
    key: InodeKey,
    access: Access,
    append: bool,
    direct: bool,
    /// Failures of writes to its file that it knows of.
    failures_seen: u64,
}

impl FileHandle {
    pub(crate) fn key(&self) -> InodeKey {
        self.key
    }

    /// True if writes go to the end of the file.
    pub(crate) fn appends(&self) -> bool {
        self.append
    }

    /// True if writes wait until their data have arrived at the OSDs.
    pub(crate) fn is_direct(&self) -> bool {
        self.direct
    }

    pub(crate) fn access(&self) -> Access {
        self.access
    }
}

/// Open files, directories and locks.
///
/// Invariant: a handle's number is never given twice.
#[derive(Debug)]
pub(crate) struct Handles {
    files: FastMap<Fh, FileHandle>,
    dirs: FastMap<Fh, DirHandle>,
    last: Fh,
    locks: FileLocks,
}

impl Handles {
    pub(crate) fn new() -> Self {
        Self { files: FastMap::default(), dirs: FastMap::default(), last: 1, locks: FileLocks::default() }
    }

    fn next(&mut self) -> Fh {
        self.last += 1;
        self.last
    }

    /// Adds an open file; its inode counts it too.
    pub(crate) fn open_file(&mut self, inode: &Inode, access: Access, flags: u32) -> Fh {
        let (fh, key, failures_seen) = (self.next(), inode.key(), inode.data().told_failures());
        let (append, direct) = (flags & open_flag::APPEND != 0, flags & open_flag::DIRECT != 0);
        self.files.insert(fh, FileHandle { key, access, append, direct, failures_seen });
        fh
    }

    /// Removes an open file.
    pub(crate) fn close_file(&mut self, fh: Fh) -> Option<FileHandle> {
        let file = self.files.remove(&fh)?;
        self.locks.closed(file.key, fh);
        Some(file)
    }

    /// Takes the error of a failed write to an open file's inode that it was not told of yet.
    pub(crate) fn take_error(&mut self, fh: Fh, inode: &mut Inode) -> Option<Errno> {
        inode.take_error(&mut self.files.get_mut(&fh)?.failures_seen)
    }

    /// The error of a failed write to an open file's inode that it was not told of yet.
    pub(crate) fn error(&self, fh: Fh, inode: &Inode) -> Option<Errno> {
        inode.data().error_after(self.files.get(&fh)?.failures_seen)
    }

    /// An open file.
    pub(crate) fn file(&self, fh: Fh) -> Result<FileHandle, Errno> {
        self.files.get(&fh).copied().ok_or(Errno::EBADF)
    }

    /// Changes the access of an open file, which its inode counts too.
    pub(crate) fn set_access(&mut self, fh: Fh, access: Access) {
        if let Some(file) = self.files.get_mut(&fh) {
            file.access = access;
        }
    }

    /// An open file that may be used. One whose file locks are lost may not: others may have changed what its
    /// user relies on.
    pub(crate) fn usable(&self, fh: Fh) -> Result<FileHandle, Errno> {
        if self.locks.is_lost(fh) { Err(Errno::EIO) } else { self.file(fh) }
    }

    /// An open file that may read.
    pub(crate) fn reader(&self, fh: Fh) -> Result<FileHandle, Errno> {
        self.usable(fh).and_then(|f| if f.access.reads { Ok(f) } else { Err(Errno::EBADF) })
    }

    /// An open file that may write.
    pub(crate) fn writer(&self, fh: Fh) -> Result<FileHandle, Errno> {
        self.usable(fh).and_then(|f| if f.access.writes { Ok(f) } else { Err(Errno::EBADF) })
    }

    pub(crate) fn open_dir(&mut self, key: InodeKey) -> Fh {
        let fh = self.next();
        self.dirs.insert(fh, DirHandle::new(key));
        fh
    }

    pub(crate) fn close_dir(&mut self, fh: Fh) {
        self.dirs.remove(&fh);
    }

    pub(crate) fn dir(&self, fh: Fh) -> Result<&DirHandle, Errno> {
        self.dirs.get(&fh).ok_or(Errno::EBADF)
    }

    pub(crate) fn dir_mut(&mut self, fh: Fh) -> Result<&mut DirHandle, Errno> {
        self.dirs.get_mut(&fh).ok_or(Errno::EBADF)
    }

    /// A directory is forgotten: listings of it that are under way say nothing of the inode that may come in
    /// its place.
    pub(crate) fn distrust_listings(&mut self, dir: InodeKey) {
        self.dirs.values_mut().filter(|d| d.key() == dir).for_each(DirHandle::distrust);
    }

    /// The file locks of local callers.
    pub(crate) fn locks(&self) -> &FileLocks {
        &self.locks
    }

    /// The same, to change them.
    pub(crate) fn locks_mut(&mut self) -> &mut FileLocks {
        &mut self.locks
    }

    /// Asserts the invariant, and that every open file has an inode which knows that it is open.
    pub(crate) fn check(&self, access_of: impl Fn(InodeKey) -> Option<Access>) {
        assert!(self.files.keys().chain(self.dirs.keys()).all(|fh| *fh <= self.last));
        self.locks.check();
        for file in self.files.values() {
            let counted = access_of(file.key).expect("an open file keeps its inode");
            let Access { reads, writes, lazy } = file.access;
            let is_counted = counted.reads >= reads && counted.writes >= writes && counted.lazy >= lazy;
            assert!(is_counted, "{:?} is open", file.key);
        }
    }

    #[cfg(test)]
    pub(crate) fn file_count(&self) -> usize {
        self.files.len()
    }
}
