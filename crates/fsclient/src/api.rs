//! What local callers ask of the client and what it answers: the file system in the shape of FUSE's operations, whole objects in
//! the shape of RADOS operations, and monitor commands.

use msgs::op::input::NotifyReply;
use std::time::Duration;
use stdx::{Bufs, Instant, Wall};

/// Who asks, for permission checks and new files' owners.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Caller {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Process; names the owner of locks.
    pub pid: u32,
}

/// An inode number as local callers see it; 1 is the root of the mount.
pub type Ino = u64;
/// An open file or directory.
pub type Fh = u64;

/// A local request.
#[derive(Clone, Debug)]
pub enum Request {
    /// A file system operation by a caller.
    Fs(Caller, FsRequest),
    /// A vector of operations on one object.
    Object(ObjectRequest),
    /// Objects of a pool: namespace, cursor from the previous answer (empty at first), at most so many.
    ListObjects {
        /// Pool by name.
        pool: String,
        /// Namespace.
        namespace: Vec<u8>,
        /// Where the last answer ended, empty for the beginning.
        cursor: Vec<u8>,
        /// At most so many.
        max: usize,
    },
    /// A new snapshot of a pool whose snapshots clients manage, or the removal of one.
    PoolSnap {
        /// Pool by name.
        pool: String,
        /// Which one goes; `None` for a new one.
        remove: Option<maps::SnapId>,
    },
    /// Watch an object: from the answer on, [`Answer::Notified`] comes for it until [`Answer::WatchBroken`].
    Watch {
        /// Pool by name.
        pool: String,
        /// Object.
        name: Vec<u8>,
        /// A number for it that no watch of this client had before.
        cookie: u64,
        /// Seconds that the watch is kept where nobody hears of the client; 0 for the OSD's default.
        timeout: u32,
    },
    /// End a watch, also a broken one.
    Unwatch {
        /// Its number.
        cookie: u64,
    },
    /// Tell an object's watchers something and wait for their answers.
    Notify {
        /// Pool by name.
        pool: String,
        /// Object.
        name: Vec<u8>,
        /// What.
        payload: Vec<u8>,
        /// Seconds that they may take; 0 for the OSD's default.
        timeout: u32,
    },
    /// A monitor command: JSON with `prefix`, and input data.
    Command {
        /// The command.
        command: String,
        /// Its input (`-i FILE`).
        input: Bufs,
    },
    /// Local callers have forgotten what [`Answer::Invalidate`] with this id named.
    Invalidated {
        /// Which.
        id: u64,
    },
    /// Write everything back, give all capabilities and the session up; then the node stops.
    Unmount,
}

/// Operations on one object, as librados has them.
#[derive(Clone, Debug)]
pub struct ObjectRequest {
    /// Pool by name.
    pub pool: String,
    /// Namespace.
    pub namespace: Vec<u8>,
    /// Object.
    pub name: Vec<u8>,
    /// Carried out as one atomic vector.
    pub ops: Vec<msgs::Op>,
    /// What to read: `SnapId::HEAD`, or a snapshot.
    pub snap: maps::SnapId,
    /// The snapshots that a write preserves.
    pub snapc: rados::SnapContext,
    /// [`msgs::osd_flag`] bits beside those that the operations need.
    pub flags: u32,
}

/// One file system operation. Names are single components.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "fields have the names that FUSE's operations give them")]
pub enum FsRequest {
    /// Find a name; the answer counts as one reference to the inode.
    Lookup { parent: Ino, name: Vec<u8> },
    /// Give `count` references back.
    Forget { ino: Ino, count: u64 },
    /// Attributes.
    Getattr { ino: Ino },
    /// Change attributes.
    Setattr { ino: Ino, set: SetAttr },
    /// A symlink's target.
    Readlink { ino: Ino },
    /// Make a file, device, pipe or socket.
    Mknod { parent: Ino, name: Vec<u8>, mode: u32, rdev: u32 },
    /// Make a directory.
    Mkdir { parent: Ino, name: Vec<u8>, mode: u32 },
    /// Remove a name that is not a directory.
    Unlink { parent: Ino, name: Vec<u8> },
    /// Remove an empty directory.
    Rmdir { parent: Ino, name: Vec<u8> },
    /// Make a symlink.
    Symlink { parent: Ino, name: Vec<u8>, target: Vec<u8> },
    /// Rename; flags other than 0 are EINVAL.
    Rename { parent: Ino, name: Vec<u8>, new_parent: Ino, new_name: Vec<u8>, flags: u32 },
    /// One more name for a file.
    Link { ino: Ino, new_parent: Ino, new_name: Vec<u8> },
    /// Open, with the flags of open(2).
    Open { ino: Ino, flags: u32 },
    /// Make and open a file.
    Create { parent: Ino, name: Vec<u8>, mode: u32, flags: u32 },
    /// Read at most `len` bytes.
    Read { fh: Fh, offset: u64, len: u32 },
    /// Write.
    Write { fh: Fh, offset: u64, data: Bufs },
    /// close(2): report pending errors.
    Flush { fh: Fh, lock_owner: u64 },
    /// Make data (and, unless `data_only`, attributes) durable.
    Fsync { fh: Fh, data_only: bool },
    /// The last close.
    Release { fh: Fh, lock_owner: u64 },
    /// Open a directory.
    Opendir { ino: Ino },
    /// Entries after the one that came with `offset` (0 from the beginning), about `max_bytes` of names; with `plus`, each
    /// carries its attributes and counts as a reference.
    Readdir { fh: Fh, offset: u64, max_bytes: usize, plus: bool },
    /// Close a directory.
    Releasedir { fh: Fh },
    /// Make all changes of a directory durable.
    Fsyncdir { fh: Fh },
    /// Space and inodes.
    Statfs,
    /// Set an xattr, with the flags of setxattr(2).
    Setxattr { ino: Ino, name: Vec<u8>, value: Vec<u8>, flags: u32 },
    /// Read an xattr.
    Getxattr { ino: Ino, name: Vec<u8> },
    /// List xattrs.
    Listxattr { ino: Ino },
    /// Remove an xattr.
    Removexattr { ino: Ino, name: Vec<u8> },
    /// Preallocate (mode 0), punch a hole (mode 3), zero (0x10, 0x11).
    Fallocate { fh: Fh, offset: u64, len: u64, mode: u32 },
    /// SEEK_DATA 3, SEEK_HOLE 4.
    Lseek { fh: Fh, offset: u64, whence: u32 },
    /// Test a POSIX lock.
    Getlk { fh: Fh, owner: u64, lock: FileLock },
    /// Set a POSIX lock (or, with `flock`, a BSD one), waiting for it where `wait`.
    Setlk { fh: Fh, owner: u64, lock: FileLock, wait: bool, flock: bool },
    /// Everything durable.
    Sync,
}

/// A lock on a byte range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileLock {
    /// First byte.
    pub start: u64,
    /// Last byte, inclusive; `u64::MAX` to the end of the file.
    pub end: u64,
    /// F_RDLCK 0, F_WRLCK 1, F_UNLCK 2.
    pub kind: u32,
    /// Its holder's process.
    pub pid: u32,
}

/// Attributes to change; `None` stays.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct SetAttr {
    /// Permission bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Truncate or extend, in bytes.
    pub size: Option<u64>,
    /// Access time.
    pub atime: Option<Wall>,
    /// Modification time.
    pub mtime: Option<Wall>,
    /// Change time; only for those who may set it.
    pub ctime: Option<Wall>,
}

/// An inode's attributes.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Attr {
    /// Number.
    pub ino: Ino,
    /// Type and permission bits.
    pub mode: u32,
    /// Names.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of device files.
    pub rdev: u32,
    /// Bytes.
    pub size: u64,
    /// 512-byte blocks.
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

/// A name's inode.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Entry {
    /// Attributes.
    pub attr: Attr,
    /// How long the caller may believe the name; zero without a lease.
    pub entry_valid: Duration,
    /// How long the caller may believe the attributes; zero without capabilities.
    pub attr_valid: Duration,
}

/// One entry of a directory.
#[derive(Clone, PartialEq, Debug)]
pub struct DirEntry {
    /// Number.
    pub ino: Ino,
    /// File type bits of the mode (S_IFMT).
    pub kind: u32,
    /// What to give as `offset` to go on after this entry.
    pub next_offset: u64,
    /// Name.
    pub name: Vec<u8>,
    /// With `plus`, the inode; `None` for `.` and `..`.
    pub entry: Option<Entry>,
}

/// File system statistics; counts are in units of `block` bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Statfs {
    /// Bytes of a block.
    pub block: u32,
    /// Size.
    pub blocks: u64,
    /// Free.
    pub free: u64,
    /// Files and directories below the root.
    pub files: u64,
}

/// A positive errno.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Errno(pub i32);

/// What a request gives.
pub type Reply = Result<Answer, Errno>;

/// A successful answer; each request names its kind.
#[derive(Clone, PartialEq, Debug)]
#[expect(missing_docs, reason = "what each field is, its variant's line says")]
pub enum Answer {
    /// Nothing to say.
    Done,
    /// Of `Lookup`, `Mknod`, `Mkdir`, `Symlink`, `Link`.
    Entry(Entry),
    /// Of `Getattr`, `Setattr`, with how long to believe it.
    Attr(Attr, Duration),
    /// Of `Open`, `Opendir`; `keep_cache` where cached pages are still true.
    Opened { fh: Fh, keep_cache: bool },
    /// Of `Create`.
    Created { entry: Entry, fh: Fh },
    /// Of `Read`, `Readlink`, `Getxattr`.
    Data(Bufs),
    /// Of `Write`: bytes taken.
    Written(u32),
    /// Of `Readdir`; empty at the end.
    Entries(Vec<DirEntry>),
    /// Of `Listxattr`.
    Names(Vec<Vec<u8>>),
    /// Of `Statfs`.
    Statfs(Statfs),
    /// Of `Lseek`.
    Offset(u64),
    /// Of `Getlk`: the lock in the way, or kind F_UNLCK.
    Lock(FileLock),
    /// Of `Object`: the result, and result and output of each operation. A negative result is an answer, not an error.
    Object { result: i32, ops: Vec<(i32, Bufs)>, version: u64 },
    /// Of `ListObjects`: (name, locator), and the cursor to go on from, empty at the end.
    Objects { names: Vec<(Vec<u8>, Vec<u8>)>, cursor: Vec<u8> },
    /// Of `PoolSnap`: 0 or negative errno, and the new snapshot.
    PoolSnap { code: i32, snap: Option<maps::SnapId> },
    /// Of `Watch`: 0 or negative errno, and the number by which notifiers know this client.
    Watching { result: i32, client: u64 },
    /// Of `Notify`: 0 or negative errno (-ETIMEDOUT where somebody is missing), who answered what and who did not, and how often it
    /// had to be sent.
    NotifyEnded { result: i32, reply: NotifyReply, attempts: u32 },
    /// Unasked, with request id 0: somebody notifies the watchers of an object. [`msgs::Op::NotifyAck`] on it is the answer.
    Notified { cookie: u64, notify_id: u64, notifier: u64, payload: Vec<u8> },
    /// Unasked, with request id 0: a watch is no more. By the client's clock an OSD has heard of it at `alive_at` or later.
    WatchBroken { cookie: u64, result: i32, alive_at: Instant },
    /// Of `Command`: 0 or negative errno, status line, output.
    Command { code: i32, status: String, output: Bufs },
    /// Unasked, with request id 0: what callers have cached is not true any more. To be followed by
    /// [`Request::Invalidated`]: until then the client keeps the capability that the caches rest on.
    Invalidate {
        /// For the answer.
        id: u64,
        /// What.
        what: Invalidate,
    },
}

/// What to forget.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "fields as in FsRequest")]
pub enum Invalidate {
    /// Attributes and the data range of an inode (0, 0 for all data).
    Inode { ino: Ino, offset: u64, len: u64 },
    /// A name.
    Entry { parent: Ino, name: Vec<u8> },
}
