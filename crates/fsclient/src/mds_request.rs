//! File system operations as requests to an MDS.

use crate::acl;
use crate::api::{Caller, FsRequest, Ino, SetAttr};
use crate::cache::Cache;
use crate::inode::{Access, Attributes, Inode, STAT_CAPS};
use crate::key::InodeKey;
use maps::Epoch;
use msgs::{
    ArgBytes, ClientRequest, FilePath, GetattrArgs, MdsOp, MkdirArgs, MknodArgs, OpenArgs, RenameArgs,
    SetattrArgs, SetxattrArgs, request_flag, setattr_mask,
};
use stdx::Bufs;
use wire::Errno;

/// Bits of open(2) that matter here.
pub(crate) mod open_flag {
    pub(crate) const ACCESS: u32 = 3;
    pub(crate) const WRONLY: u32 = 1;
    pub(crate) const RDWR: u32 = 2;
    pub(crate) const CREAT: u32 = 0o100;
    pub(crate) const EXCL: u32 = 0o200;
    pub(crate) const TRUNC: u32 = 0o1000;
    pub(crate) const APPEND: u32 = 0o2000;
    /// The one bit that differs between processors.
    pub(crate) const DIRECT: u32 = if cfg!(target_arch = "aarch64") { 0o200_000 } else { 0o40_000 };
    pub(crate) const DIRECTORY: u32 = 0o200_000;
    pub(crate) const NOFOLLOW: u32 = 0o400_000;
}

/// The open flags that the protocol has; their numbers are Linux's.
const WIRE_FLAGS: u32 = open_flag::ACCESS
    | open_flag::CREAT
    | open_flag::EXCL
    | open_flag::TRUNC
    | open_flag::DIRECTORY
    | open_flag::NOFOLLOW;

/// An inode as requests name it: by its number. The names that once led to it may lead to another by now.
fn path(ino: Ino) -> FilePath {
    FilePath { ino, path: Vec::new() }
}

/// A name in a directory.
fn path_in(dir: Ino, name: &[u8]) -> FilePath {
    FilePath { ino: dir, path: name.to_vec() }
}

/// The request for a new capability on an open file.
pub(crate) fn open_again(cache: &mut Cache, key: InodeKey) -> ClientRequest {
    let inode = cache.open_inode(key);
    let flags = match inode.usage().access() {
        Access { writes: false, .. } => 0,
        Access { reads: false, .. } => open_flag::WRONLY,
        _ => open_flag::RDWR,
    };
    let args = open_args(inode.attrs().size(), flags, 0).into();
    ClientRequest { op: MdsOp::OPEN, path: path(key.ino()), args, ..ClientRequest::default() }
}

/// The request for an inode's attributes.
pub(crate) fn look_at(ino: Ino) -> ClientRequest {
    look_at_some(ino, STAT_CAPS)
}

/// The request for those of an inode's attributes that these bits let a client know.
pub(crate) fn look_at_some(ino: Ino, mask: u32) -> ClientRequest {
    let args = GetattrArgs { mask }.into();
    ClientRequest { op: MdsOp::GETATTR, path: path(ino), args, ..ClientRequest::default() }
}

/// The request to store a file's data that are in a journal.
pub(crate) fn store(ino: Ino) -> ClientRequest {
    ClientRequest { op: MdsOp::STORE_DATA, path: path(ino), ..ClientRequest::default() }
}

/// The request for an operation on names and inodes.
pub(crate) fn build(
    cache: &Cache,
    osd_epoch: Epoch,
    caller: &Caller,
    request: &FsRequest,
) -> Result<ClientRequest, Errno> {
    use FsRequest as R;
    let stat = GetattrArgs { mask: STAT_CAPS };
    let make = |op, path, args: ArgBytes| ClientRequest {
        op,
        path,
        args,
        caller_uid: caller.uid,
        caller_gid: caller.gid,
        ..ClientRequest::default()
    };
    let change = |op, path, args| ClientRequest { flags: request_flag::WANT_DENTRY, ..make(op, path, args) };
    let by_name = |name: &[u8]| path_in(0, name);
    if let Some((op, path, args, xattrs)) = new_inode(cache, caller, request) {
        return Ok(ClientRequest { data: xattrs.into(), ..change(op, path, args) });
    }
    Ok(match request {
        R::Lookup { parent, name } => make(MdsOp::LOOKUP, path_in(*parent, name), stat.into()),
        R::Getxattr { ino, name } if is_remote(name) => {
            let message = make(MdsOp::GETVXATTR, path(*ino), GetattrArgs::default().into());
            ClientRequest { path2: by_name(name), ..message }
        }
        R::Getattr { ino } | R::Readlink { ino } | R::Getxattr { ino, .. } | R::Listxattr { ino } => {
            make(MdsOp::GETATTR, path(*ino), stat.into())
        }
        R::Setattr { ino, set } => {
            let attrs = cache.inode(InodeKey::head(*ino)).map(Inode::attrs);
            let set = SetAttr { mode: set.new_mode(attrs.map_or(0, Attributes::mode)), ..set.clone() };
            make(MdsOp::SETATTR, path(*ino), setattr_args(size_of(cache, *ino), &set).into())
        }
        R::Symlink { parent, name, target } => {
            let message = change(MdsOp::SYMLINK, path_in(*parent, name), GetattrArgs::default().into());
            ClientRequest { path2: by_name(target), ..message }
        }
        R::Unlink { parent, name } => change(MdsOp::UNLINK, path_in(*parent, name), stat.into()),
        R::Rmdir { parent, name } => change(MdsOp::RMDIR, path_in(*parent, name), stat.into()),
        R::Rename { parent, name, new_parent, new_name, flags } => {
            let (op, args) = match *flags {
                0 => (MdsOp::RENAME, stat.into()),
                flags => (MdsOp::RENAME_FLAGS, RenameArgs { flags }.into()),
            };
            let message = change(op, path_in(*new_parent, new_name), args);
            ClientRequest { path2: path_in(*parent, name), ..message }
        }
        R::Link { ino, new_parent, new_name } => {
            let message = change(MdsOp::LINK, path_in(*new_parent, new_name), stat.into());
            ClientRequest { path2: path(*ino), ..message }
        }
        R::Open { ino, flags, .. } => {
            make(MdsOp::OPEN, path(*ino), open_args(size_of(cache, *ino), *flags, 0).into())
        }
        R::Setxattr { ino, name, value, flags, .. } => {
            let args = SetxattrArgs { flags: *flags, osdmap_epoch: osd_epoch };
            let data = Bufs::from(value.clone());
            ClientRequest { path2: by_name(name), data, ..make(MdsOp::SETXATTR, path(*ino), args.into()) }
        }
        R::Removexattr { ino, name } => {
            ClientRequest { path2: by_name(name), ..make(MdsOp::RMXATTR, path(*ino), stat.into()) }
        }
        _ => return Err(Errno::EOPNOTSUPP),
    })
}

/// True for xattrs that only a metadata server can tell: which ranks serve a directory.
pub(crate) fn is_remote(name: &[u8]) -> bool {
    name.starts_with(b"ceph.dir.pin")
}

/// The operation, name, arguments and encoded xattrs of a request for a new inode that may inherit ACLs.
fn new_inode(
    cache: &Cache,
    caller: &Caller,
    request: &FsRequest,
) -> Option<(MdsOp, FilePath, ArgBytes, Vec<u8>)> {
    use FsRequest as R;
    let (dir, name, mode) = match request {
        R::Mknod { parent, name, mode, .. }
        | R::Mkdir { parent, name, mode }
        | R::Create { parent, name, mode, .. } => (*parent, name, *mode),
        _ => return None,
    };
    let attrs = cache.inode(InodeKey::head(dir)).map(Inode::attrs);
    let default = attrs.and_then(|attrs| attrs.xattrs().get(acl::DEFAULT)).map(Vec::as_slice);
    let is_dir = matches!(request, R::Mkdir { .. });
    let (mode, xattrs) = acl::of_new(default, mode, caller.umask, is_dir);
    let (op, args) = match request {
        R::Mknod { rdev, .. } => (MdsOp::MKNOD, MknodArgs { mode, rdev: *rdev }.into()),
        R::Create { flags, .. } => (MdsOp::CREATE, open_args(0, *flags | open_flag::CREAT, mode).into()),
        _ => (MdsOp::MKDIR, MkdirArgs { mode }.into()),
    };
    Some((op, path_in(dir, name), args, xattrs))
}

/// The size of a file as we know it, 0 for an unknown one.
fn size_of(cache: &Cache, ino: Ino) -> u64 {
    cache.inode(InodeKey::head(ino)).map_or(0, |inode| inode.attrs().size())
}

fn setattr_args(old_size: u64, set: &SetAttr) -> SetattrArgs {
    let bit = |set: bool, bit: u32| if set { bit } else { 0 };
    let mask = bit(set.mode.is_some(), setattr_mask::MODE)
        | bit(set.uid.is_some(), setattr_mask::UID)
        | bit(set.gid.is_some(), setattr_mask::GID)
        | bit(set.mtime.is_some(), setattr_mask::MTIME)
        | bit(set.atime.is_some(), setattr_mask::ATIME)
        | bit(set.size.is_some(), setattr_mask::SIZE)
        | bit(set.ctime.is_some(), setattr_mask::CTIME);
    SetattrArgs {
        mode: set.mode.unwrap_or(0),
        uid: set.uid.unwrap_or(0),
        gid: set.gid.unwrap_or(0),
        mtime: set.mtime.unwrap_or_default().into(),
        atime: set.atime.unwrap_or_default().into(),
        size: set.size.unwrap_or(0),
        old_size,
        mask,
        ..SetattrArgs::default()
    }
}

/// The arguments of OPEN and CREATE.
pub(crate) fn open_args(old_size: u64, flags: u32, mode: u32) -> OpenArgs {
    let flags = flags & WIRE_FLAGS;
    OpenArgs { flags, mode, pool: -1, mask: STAT_CAPS, old_size, ..OpenArgs::default() }
}
