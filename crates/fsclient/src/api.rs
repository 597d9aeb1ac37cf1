//! The requests of local callers and their answers: the file system in the shape of FUSE's operations, whole
//! objects in the shape of RADOS operations, and monitor commands.

use crate::mode;
use msgs::op::input::NotifyReply;
use std::time::Duration;
use stdx::{Bufs, Instant, Wall};
use wire::Errno;

/// The caller of an operation, for permission checks and as the owner of new files.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Caller {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Process: the holder of locks.
    pub pid: u32,
    /// Permissions that it gives to nothing that it makes, unless the directory has a default ACL.
    pub umask: u32,
}

/// An inode number as local callers see it; 1 is the root of the mount.
pub type Ino = u64;
/// An open file or directory.
pub type Fh = u64;

/// A pool, as callers refer to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PoolRef {
    /// By name, as users have it.
    Name(String),
    /// By id, which a renamed pool keeps.
    Id(i64),
}

impl From<&str> for PoolRef {
    fn from(name: &str) -> Self {
        Self::Name(name.to_owned())
    }
}

/// A local request.
#[derive(Clone, Debug)]
pub enum Request {
    /// A file system operation by a caller.
    Fs(Caller, FsRequest),
    /// A vector of operations on one object.
    Object(ObjectRequest),
    /// Lists objects of a pool, a page at a time.
    ListObjects {
        /// Pool.
        pool: PoolRef,
        /// Namespace.
        namespace: Vec<u8>,
        /// The cursor of the last answer, empty at first.
        cursor: Vec<u8>,
        /// The largest number of objects to return.
        max: usize,
    },
    /// Takes or removes a snapshot of a pool whose snapshots clients manage.
    PoolSnap {
        /// Pool.
        pool: PoolRef,
        /// The snapshot to remove; `None` for a new one.
        remove: Option<maps::SnapId>,
    },
    /// Watches an object: from the answer on, [`Answer::Notified`] comes for it until
    /// [`Answer::WatchBroken`].
    Watch {
        /// Pool.
        pool: PoolRef,
        /// Namespace.
        namespace: Vec<u8>,
        /// Object.
        name: Vec<u8>,
        /// The number of the watch, which no other of this client ever had.
        cookie: u64,
        /// Seconds that the watch outlives the last message of the client; 0 for the OSD's default.
        timeout: u32,
    },
    /// Ends a watch, also a broken one.
    Unwatch {
        /// The number of the watch.
        cookie: u64,
    },
    /// Notifies an object's watchers and waits for their answers.
    Notify {
        /// Pool.
        pool: PoolRef,
        /// Namespace.
        namespace: Vec<u8>,
        /// Object.
        name: Vec<u8>,
        /// The message to the watchers.
        payload: Vec<u8>,
        /// Seconds that watchers may take; 0 for the OSD's default.
        timeout: u32,
    },
    /// Waits for the newest OSD map that the monitors have: what is requested after the answer is sent with
    /// it or with a later one.
    NewestMap,
    /// A monitor command: JSON with `prefix`, and input data.
    Command {
        /// The command.
        command: String,
        /// Its input (`-i FILE`).
        input: Bufs,
    },
    /// A command to a metadata server; see [`crate::ClientConfig::tells`]. The answer is that of `Command`.
    Tell {
        /// Its address, with its nonce.
        addr: wire::EntityAddr,
        /// The command: JSON with `prefix`.
        command: String,
        /// The time after which it fails.
        patience: std::time::Duration,
    },
    /// Confirms an [`Answer::Invalidate`]: local callers have forgotten its subject.
    Invalidated {
        /// The id of the invalidation.
        id: u64,
    },
    /// Writes everything back and closes the sessions; then the node stops.
    Unmount,
}

/// Operations on one object, as librados has them.
#[derive(Clone, Debug)]
pub struct ObjectRequest {
    /// Pool.
    pub pool: PoolRef,
    /// Namespace.
    pub namespace: Vec<u8>,
    /// Object.
    pub name: Vec<u8>,
    /// The operations, one atomic vector.
    pub ops: Vec<msgs::Op>,
    /// The version to read: `SnapId::HEAD`, or a snapshot.
    pub snap: maps::SnapId,
    /// The snapshots that a write preserves.
    pub snapc: rados::SnapContext,
    /// [`msgs::osd_flag`] bits in addition to those that the operations need.
    pub flags: u32,
}

/// One file system operation. Names are single components.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "fields have the names that FUSE's operations give them")]
pub enum FsRequest {
    /// Finds a name; the answer counts as one reference to the inode.
    Lookup { parent: Ino, name: Vec<u8> },
    /// Finds an inode by its number, as NFS servers ask by a handle; the answer counts as one reference. What
    /// has no name any more, and the state of a snapshot that is not known here, is ESTALE.
    LookupIno { ino: Ino },
    /// Finds the directory that a directory is in; the answer counts as one reference to it. It is ESTALE if
    /// there is none.
    LookupParent { ino: Ino },
    /// Gives `count` references back.
    Forget { ino: Ino, count: u64 },
    /// Returns attributes.
    Getattr { ino: Ino },
    /// Changes attributes.
    Setattr { ino: Ino, set: SetAttr },
    /// Returns a symlink's target.
    Readlink { ino: Ino },
    /// Makes a file, device, pipe or socket.
    Mknod { parent: Ino, name: Vec<u8>, mode: u32, rdev: u32 },
    /// Makes a directory.
    Mkdir { parent: Ino, name: Vec<u8>, mode: u32 },
    /// Removes a name that is not a directory.
    Unlink { parent: Ino, name: Vec<u8> },
    /// Removes an empty directory.
    Rmdir { parent: Ino, name: Vec<u8> },
    /// Makes a symlink.
    Symlink { parent: Ino, name: Vec<u8>, target: Vec<u8> },
    /// Renames, with the flags of renameat2(2) if the MDS takes them; otherwise they are EINVAL.
    Rename { parent: Ino, name: Vec<u8>, new_parent: Ino, new_name: Vec<u8>, flags: u32 },
    /// Adds a name to a file.
    Link { ino: Ino, new_parent: Ino, new_name: Vec<u8> },
    /// Opens a file, with the flags of open(2). If that truncates it, it loses the bits set-user-ID and
    /// set-group-ID if `kill_suidgid`.
    Open { ino: Ino, flags: u32, kill_suidgid: bool },
    /// Makes and opens a file.
    Create { parent: Ino, name: Vec<u8>, mode: u32, flags: u32 },
    /// Reads at most `len` bytes.
    Read { fh: Fh, offset: u64, len: u32 },
    /// Writes. The file loses the bits set-user-ID and set-group-ID if `kill_suidgid`.
    Write { fh: Fh, offset: u64, data: Bufs, kill_suidgid: bool },
    /// close(2): reports pending errors. The owner's POSIX locks are freed.
    Flush { fh: Fh, lock_owner: u64 },
    /// Makes data (and, unless `data_only`, attributes) durable.
    Fsync { fh: Fh, data_only: bool },
    /// Lets writes through an open file be buffered although others have it open too (LazyIO), who see them
    /// after a sync.
    SetLazy { fh: Fh },
    /// Ends the last use of an open file. The owner's BSD lock is freed.
    Release { fh: Fh, lock_owner: u64 },
    /// Opens a directory.
    Opendir { ino: Ino },
    /// Entries after the one that came with `offset` (0 from the beginning), about `max_bytes` of names; with
    /// `plus`, each carries its attributes and counts as a reference.
    Readdir { fh: Fh, offset: u64, max_bytes: usize, plus: bool },
    /// Closes a directory.
    Releasedir { fh: Fh },
    /// Makes all changes of a directory durable.
    Fsyncdir { fh: Fh },
    /// Returns space and number of inodes of a mount of this directory.
    Statfs { root: Ino },
    /// Sets an xattr, with the flags of setxattr(2). If it is an access ACL, the mode follows, and loses its
    /// set-group-ID bit if `kill_sgid`.
    Setxattr { ino: Ino, name: Vec<u8>, value: Vec<u8>, flags: u32, kill_sgid: bool },
    /// Reads an xattr.
    Getxattr { ino: Ino, name: Vec<u8> },
    /// Lists xattrs.
    Listxattr { ino: Ino },
    /// Removes an xattr.
    Removexattr { ino: Ino, name: Vec<u8> },
    /// Punches a hole (mode 3), zeroes (0x10, 0x11). EOPNOTSUPP for modes that keep space for later writes.
    Fallocate { fh: Fh, offset: u64, len: u64, mode: u32 },
    /// Copies at most `len` bytes from one open file to another, or within one between ranges that do not
    /// overlap.
    CopyRange { fh_in: Fh, offset_in: u64, fh_out: Fh, offset_out: u64, len: u64 },
    /// Seeks data (`whence` is SEEK_DATA, 3) or a hole (SEEK_HOLE, 4).
    Lseek { fh: Fh, offset: u64, whence: u32 },
    /// Tests a POSIX lock.
    Getlk { fh: Fh, owner: u64, lock: FileLock },
    /// Sets a POSIX lock (or, with `flock`, a BSD one), and waits for it if `wait`. While it waits, it can be
    /// interrupted by its `token`.
    Setlk { fh: Fh, owner: u64, lock: FileLock, wait: bool, flock: bool, token: u64 },
    /// Interrupts the `Setlk` of this token, which then fails with EINTR if it has not got its lock yet.
    Interrupt { token: u64 },
    /// Makes everything durable.
    Sync,
}

/// A lock on a byte range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileLock {
    /// First byte.
    pub start: u64,
    /// Last byte, inclusive; `u64::MAX` to the end of the file.
    pub end: u64,
    /// F_RDLCK (0), F_WRLCK (1) or F_UNLCK (2).
    pub kind: u32,
    /// The process of its holder.
    pub pid: u32,
}

/// Attributes to change; those that are `None` stay.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct SetAttr {
    /// Permission bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Size in bytes: truncates or extends.
    pub size: Option<u64>,
    /// Access time.
    pub atime: Option<Wall>,
    /// Modification time.
    pub mtime: Option<Wall>,
    /// Change time, which only privileged callers may set.
    pub ctime: Option<Wall>,
    /// A file loses the bits set-user-ID and set-group-ID.
    pub kill_suidgid: bool,
}

impl SetAttr {
    /// The mode after this, of a file that has the mode `old`; `None` if it stays.
    pub(crate) fn new_mode(&self, old: u32) -> Option<u32> {
        self.mode.or_else(|| if self.kill_suidgid { mode::without_set_id(old) } else { None })
    }

    /// True if this sets the owner of a file that has the mode `old`, or its mode.
    pub(crate) fn changes_owner(&self, old: u32) -> bool {
        self.new_mode(old).is_some() || self.uid.is_some() || self.gid.is_some()
    }
}

/// An inode's attributes.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Attr {
    /// Number.
    pub ino: Ino,
    /// Type and permission bits.
    pub mode: u32,
    /// Number of names.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of device files.
    pub rdev: u32,
    /// Size in bytes.
    pub size: u64,
    /// Size in blocks of 512 bytes.
    pub blocks: u64,
    /// Preferred I/O size: the layout's object size, at most 4 MiB.
    pub blksize: u32,
    /// Access time.
    pub atime: Wall,
    /// Modification time.
    pub mtime: Wall,
    /// Change time.
    pub ctime: Wall,
    /// Birth time.
    pub btime: Wall,
}

/// An inode that was found, mostly by name.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Entry {
    /// Attributes.
    pub attr: Attr,
    /// The time for which the caller may believe the name; zero without the directory's `Fs`.
    pub entry_valid: Duration,
    /// The time for which the caller may believe the attributes; zero without capabilities.
    pub attr_valid: Duration,
}

/// One entry of a directory.
#[derive(Clone, PartialEq, Debug)]
pub struct DirEntry {
    /// Number.
    pub ino: Ino,
    /// File type bits of the mode (S_IFMT).
    pub kind: u32,
    /// The `offset` from which the listing goes on after this entry.
    pub next_offset: u64,
    /// Name.
    pub name: Vec<u8>,
    /// With `plus`, the inode; `None` for `.` and `..`.
    pub entry: Option<Entry>,
}

/// File system statistics; counts are in units of `block` bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Statfs {
    /// Size of a block in bytes.
    pub block: u32,
    /// All blocks.
    pub blocks: u64,
    /// Free blocks.
    pub free: u64,
    /// Files and directories: the root, those below it, and the free ones.
    pub files: u64,
    /// Files that can still be made: as many as the quota allows, else one for each free 4 KiB.
    pub free_files: u64,
}

/// The answer to a request, or its error.
pub type Reply = Result<Answer, Errno>;

/// The answer of one operation on an object: the number that it returned or its error, and its output.
pub type OpAnswer = (Result<u32, Errno>, Bufs);

/// A successful answer; each request names its kind.
#[derive(Clone, PartialEq, Debug)]
#[expect(missing_docs, reason = "each variant's line names its fields")]
pub enum Answer {
    /// Success, without content.
    Done,
    /// Of `Lookup`, `LookupIno`, `LookupParent`, `Mknod`, `Mkdir`, `Symlink`, `Link`.
    Entry(Entry),
    /// Of `Lookup`: the name does not exist, and the caller may believe that for a time. Without such a time
    /// the answer is ENOENT.
    Absent(Duration),
    /// Of `Getattr`, `Setattr`, with the time for which they may be believed.
    Attr(Attr, Duration),
    /// Of `Open`, `Opendir`; `keep_cache` if cached pages are still valid.
    Opened { fh: Fh, keep_cache: bool },
    /// Of `Create`.
    Created { entry: Entry, fh: Fh },
    /// Of `Read`, `Readlink`, `Getxattr`.
    Data(Bufs),
    /// Of `Write` and `CopyRange`: the number of bytes taken.
    Written(u32),
    /// Of `Readdir`; empty at the end.
    Entries(Vec<DirEntry>),
    /// Of `Listxattr`.
    Names(Vec<Vec<u8>>),
    /// Of `Statfs`.
    Statfs(Statfs),
    /// Of `Lseek`.
    Offset(u64),
    /// Of `Getlk`: the conflicting lock, or kind F_UNLCK.
    Lock(FileLock),
    /// Of `Object`: the result, and result and output of each operation. That the vector failed is an answer,
    /// not an error.
    Object { result: Result<u32, Errno>, ops: Vec<OpAnswer>, version: u64 },
    /// Of `ListObjects`: (name, locator), and the cursor to go on from, empty at the end.
    Objects { names: Vec<(Vec<u8>, Vec<u8>)>, cursor: Vec<u8> },
    /// Of `PoolSnap`: its result, and the new snapshot.
    PoolSnap { result: Result<(), Errno>, snap: Option<maps::SnapId> },
    /// Of `Watch`: its result, and the number by which notifiers know this client.
    Watching { result: Result<(), Errno>, client: u64 },
    /// Of `Notify`: its result (ETIMEDOUT if a watcher did not answer), the answers and those without one,
    /// and the number of times that it was sent.
    NotifyEnded { result: Result<(), Errno>, reply: NotifyReply, attempts: u32 },
    /// Unasked, with request id 0: somebody notifies the watchers of an object. [`msgs::Op::NotifyAck`] on it
    /// is the answer.
    Notified { cookie: u64, notify_id: u64, notifier: u64, payload: Vec<u8> },
    /// Unasked, with request id 0: a watch has ended. By the client's clock an OSD has heard of it at
    /// `alive_at` or later.
    WatchBroken { cookie: u64, errno: Errno, alive_at: Instant },
    /// Of `Command`: its result, status line, output.
    Command { result: Result<(), Errno>, status: String, output: Bufs },
    /// Unasked, with request id 0: callers must forget something that they have cached. To be followed by
    /// [`Request::Invalidated`]: until then the client keeps the capability that the caches rest on.
    Invalidate {
        /// The id of the invalidation.
        id: u64,
        /// The subject.
        what: Invalidate,
    },
}

/// The subject of an invalidation.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "fields as in FsRequest")]
pub enum Invalidate {
    /// Attributes and all data of an inode.
    Inode { ino: Ino },
    /// Attributes of an inode, without its data.
    Attributes { ino: Ino },
    /// Names in a directory, those that were told not to exist too. This may wait for operations that hold
    /// the directory, so other invalidations must not wait for it.
    Names { parent: Ino, names: Vec<Vec<u8>> },
}
