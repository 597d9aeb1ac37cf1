//! What the clients of files do, as requests of the file system.

use crate::oracle::contents::{self, CELL};
use crate::oracle::namespace::Action;
use crate::oracle::objects::filled;
use crate::oracle::shown::Name;
use fsclient::{DirEntry, Fh, FsRequest, SetAttr};

/// Cells of a file that are written.
pub(super) const CELLS: u64 = 4;
/// Distance of the cells of a wide file in bytes: each lies in an object of its own.
const WIDE: u64 = 4 << 20;
/// The name of the xattr.
pub(super) const XATTR: &[u8] = b"user.sim";
pub(super) const O_WRONLY: u32 = 1;
const O_RDWR: u32 = 2;
const O_CREAT: u32 = 0o100;
const O_EXCL: u32 = 0o200;
pub(super) const O_TRUNC: u32 = 0o1000;
const O_APPEND: u32 = 0o2000;
pub(super) const S_IFMT: u32 = 0o170_000;
pub(super) const S_IFDIR: u32 = 0o040_000;
pub(super) const S_IFLNK: u32 = 0o120_000;
const S_IFREG: u32 = 0o100_000;

/// The use of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// Small, and written by everyone.
    Shared,
    /// Of several objects with holes between them, and written by everyone.
    Wide,
    /// Appended to by one client: concurrent appends are not atomic in any client of this protocol.
    Log,
}

pub(super) fn use_of(ino: u64) -> Use {
    match ino % 4 {
        0 => Use::Log,
        1 => Use::Wide,
        _ => Use::Shared,
    }
}

/// The number of reads that show all of a file.
pub(super) fn cells_of(ino: u64) -> u64 {
    if use_of(ino) == Use::Wide { CELLS } else { 1 }
}

/// The offset of a cell in a file.
pub(super) fn place(ino: u64, cell: u64) -> u64 {
    if use_of(ino) == Use::Wide { cell * WIDE } else { cell * CELL }
}

/// An operation to do.
#[derive(Clone, Debug)]
pub(super) enum Work {
    Name(Action),
    Data(u64, contents::Action),
    /// A listing in pages, during which names may come and go.
    Pages(u64),
    /// Attributes: names and content are checked separately.
    Stat(u64),
    /// Close a file that was held open.
    Close,
    /// Make everything durable.
    Sync,
    /// Something with a snapshot.
    Snap(Task),
    /// Set a limit of a directory's tree, or remove it.
    Limit(u64, &'static str, Option<u64>),
}

/// What is to be done with the snapshots of a directory.
#[derive(Clone, Debug)]
pub(super) enum Task {
    /// Make one.
    Make(Name),
    /// Remove one.
    Remove(Name),
    /// List those of a directory, and read one of them, if there are any.
    Read(u64),
    /// List those of a directory; then all of its own are to be read, each whole.
    List(u64),
    /// Read this one, whole.
    Whole(Name),
}

impl Task {
    /// The directory.
    pub(super) fn dir(&self) -> u64 {
        match self {
            Self::Make((dir, _)) | Self::Remove((dir, _)) | Self::Whole((dir, _)) => *dir,
            Self::Read(dir) | Self::List(dir) => *dir,
        }
    }
}

/// True for a change of attributes, which is recorded as done once it is durable.
pub(super) fn changes_attributes(work: &Work) -> bool {
    use contents::Action as Do;
    matches!(work, Work::Data(_, Do::Chmod(_) | Do::SetXattr(_) | Do::RemoveXattr))
}

/// A read of the range that shows a cell; of a small file all cells.
pub(super) fn read_of(ino: u64, cell: u64) -> contents::Action {
    match use_of(ino) {
        Use::Wide => contents::Action::Read { offset: place(ino, cell), len: 64 },
        _ => contents::Action::Read { offset: 0, len: 4096 },
    }
}

pub(super) fn name_request(action: &Action) -> FsRequest {
    let bytes = |name: &String| name.clone().into_bytes();
    let create = |parent: u64, name: &String, flags: u32| FsRequest::Create {
        parent,
        name: bytes(name),
        mode: contents::NEW_MODE,
        flags: O_CREAT | O_RDWR | flags,
    };
    match action {
        Action::Lookup(dir, name) => FsRequest::Lookup { parent: *dir, name: bytes(name) },
        // There are two ways to make a file. The name decides, so that a replay takes the same one.
        Action::Create(dir, name) if name == "a" => {
            FsRequest::Mknod { parent: *dir, name: bytes(name), mode: S_IFREG | contents::NEW_MODE, rdev: 0 }
        }
        Action::Create(dir, name) => create(*dir, name, O_EXCL),
        Action::OpenOrCreate(dir, name) => create(*dir, name, 0),
        Action::Mkdir(dir, name) => FsRequest::Mkdir { parent: *dir, name: bytes(name), mode: 0o755 },
        Action::Symlink(dir, name, to) => {
            FsRequest::Symlink { parent: *dir, name: bytes(name), target: to.to_string().into_bytes() }
        }
        Action::Readlink(ino) => FsRequest::Readlink { ino: *ino },
        Action::Unlink(dir, name) => FsRequest::Unlink { parent: *dir, name: bytes(name) },
        Action::Rmdir(dir, name) => FsRequest::Rmdir { parent: *dir, name: bytes(name) },
        Action::Rename(dir, name, to, to_name) => FsRequest::Rename {
            parent: *dir,
            name: bytes(name),
            new_parent: *to,
            new_name: bytes(to_name),
            flags: 0,
        },
        Action::Link(ino, dir, name) => {
            FsRequest::Link { ino: *ino, new_parent: *dir, new_name: bytes(name) }
        }
        Action::List(dir) => FsRequest::Opendir { ino: *dir },
        Action::Nlink(ino) | Action::Use(ino) => FsRequest::Getattr { ino: *ino },
        Action::Snap(..) | Action::Unsnap(..) | Action::Snaps(_) => {
            unreachable!("a task with snapshots takes several requests")
        }
    }
}

pub(super) fn data_first(ino: u64, action: &contents::Action) -> FsRequest {
    use contents::Action as Do;
    let name = XATTR.to_vec();
    match action {
        Do::Write { .. } | Do::Read { .. } => FsRequest::Open { ino, flags: O_RDWR, kill_suidgid: false },
        Do::Append(_) => FsRequest::Open { ino, flags: O_WRONLY | O_APPEND, kill_suidgid: false },
        Do::Truncate(size) => {
            FsRequest::Setattr { ino, set: SetAttr { size: Some(*size), ..SetAttr::default() } }
        }
        Do::Chmod(mode) => {
            FsRequest::Setattr { ino, set: SetAttr { mode: Some(*mode), ..SetAttr::default() } }
        }
        Do::SetXattr(tag) => {
            FsRequest::Setxattr { ino, name, value: tag.to_string().into_bytes(), flags: 0, kill_sgid: false }
        }
        Do::RemoveXattr => FsRequest::Removexattr { ino, name },
        Do::GetXattr => FsRequest::Getxattr { ino, name },
        Do::Stat => FsRequest::Getattr { ino },
        Do::Parts(_) | Do::Zeros(_) => unreachable!("nobody asks for it"),
    }
}

pub(super) fn data_request(work: &Work, fh: Fh, offset: u64) -> FsRequest {
    use contents::Action as Do;
    let cell = |tag: u32| filled(tag, 0, CELL as usize).into();
    match work {
        Work::Data(_, Do::Write { offset, tag }) => {
            FsRequest::Write { fh, offset: *offset, data: cell(*tag), kill_suidgid: false }
        }
        // The append flag decides the offset.
        Work::Data(_, Do::Append(tag)) => {
            FsRequest::Write { fh, offset: 0, data: cell(*tag), kill_suidgid: false }
        }
        Work::Data(_, Do::Read { offset, len }) => FsRequest::Read { fh, offset: *offset, len: *len as u32 },
        Work::Pages(_) => FsRequest::Readdir { fh, offset, max_bytes: 64, plus: false },
        _ => FsRequest::Readdir { fh, offset, max_bytes: 1 << 16, plus: false },
    }
}

pub(super) fn names_of(entries: &[DirEntry]) -> impl Iterator<Item = (String, u64)> {
    let names = entries.iter().map(|e| (String::from_utf8_lossy(&e.name).into_owned(), e.ino));
    names.filter(|(n, _)| n != "." && n != ".." && n != super::locks::FILE)
}

/// The number in some bytes, or a number that nobody has if they are none.
pub(super) fn number(bytes: &[u8]) -> u32 {
    std::str::from_utf8(bytes).ok().and_then(|s| s.parse().ok()).unwrap_or(u32::MAX)
}

/// The request that sets a limit of a directory's tree, or removes it.
pub(super) fn limit_request(dir: u64, name: &str, value: Option<u64>) -> FsRequest {
    let name = format!("ceph.quota.{name}").into_bytes();
    match value {
        Some(value) => {
            let value = value.to_string().into_bytes();
            FsRequest::Setxattr { ino: dir, name, value, flags: 0, kill_sgid: false }
        }
        None => FsRequest::Removexattr { ino: dir, name },
    }
}
