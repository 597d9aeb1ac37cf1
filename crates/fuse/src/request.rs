//! The kernel's requests, as requests to the client.

use crate::abi::{self, Fields, opcode, setattr};
use crate::identity::XATTR;
use crate::root::Root;
use client::{Caller, FileLock, FsRequest, Ino, SetAttr};
use std::time::SystemTime;
use stdx::{Buf, Wall};

/// A request of the kernel's.
#[derive(Debug)]
pub(crate) struct Request {
    /// The number that its answer carries.
    pub unique: u64,
    pub caller: Caller,
    pub what: What,
}

/// The content of a request.
#[derive(Debug)]
pub(crate) enum What {
    /// To be answered, in this form.
    Ask(FsRequest, Form),
    /// References that the kernel gives back: inode and count. There is no answer.
    Forget(Vec<(u64, u64)>),
    /// The kernel says farewell.
    Destroy,
    /// The caller of this request does not want to wait for its answer any longer. There is no answer.
    Interrupt(u64),
    /// Which process serves this mount? The answer is an xattr, in so many bytes; 0 asks for the size.
    WhoServes { size: u32 },
    /// Not known, or refused here: the error.
    Refuse(i32),
}

/// The form of requests, as agreed with the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct RequestForm {
    /// `SETXATTR` has flags of its own beside those of setxattr(2).
    pub long_setxattr: bool,
    /// Files can be opened so that direct writes go on at the same time, and still be mapped.
    pub parallel_direct: bool,
    /// The directory that the kernel calls 1.
    pub root: Root,
}

/// The form of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// As the answer's own content has it.
    Plain,
    /// A handle of a file with `O_DIRECT`.
    Direct,
    /// A value or its size, for a buffer of so many bytes; 0 asks for the size.
    Xattr(u32),
    /// Attributes with the birth time.
    Statx,
    /// An inode that was found by its number; the kernel's number for it, if it must be that one.
    Found(Option<u64>),
    /// The result of an ioctl(2), which moves no data.
    Ioctl,
    /// Entries of a directory in so many bytes, with attributes or without.
    Entries { dir: Ino, size: usize, plus: bool },
}

impl RequestForm {
    /// The form of the answer that has the handle of a file, which is opened with `flags` of open(2).
    fn of_handle(self, flags: u32) -> Form {
        let is_direct = flags & libc::O_DIRECT.cast_unsigned() != 0;
        if is_direct && self.parallel_direct { Form::Direct } else { Form::Plain }
    }
}

impl Request {
    /// Decodes a request; `None` if it is cut off.
    pub(crate) fn decode(bytes: &[u8], form: RequestForm) -> Option<Self> {
        let mut f = Fields(bytes);
        let _len = f.u32()?;
        let (op, unique, asked) = (f.u32()?, f.u64()?, f.u64()?);
        let node = form.root.inner(asked);
        let mut caller = Caller { uid: f.u32()?, gid: f.u32()?, pid: f.u32()?, umask: 0 };
        let (_extensions, _padding) = (f.u16()?, f.u16()?);
        let what = match op {
            opcode::LOOKUP => lookup(asked, form.root, &mut f)?,
            opcode::BATCH_FORGET => forget_many(form.root, &mut f)?,
            opcode::MKNOD => mknod(node, &mut caller, &mut f)?,
            opcode::MKDIR => mkdir(node, &mut caller, &mut f)?,
            opcode::CREATE => create(node, form, &mut caller, &mut f)?,
            opcode::OPEN => open(node, form, &mut f)?,
            opcode::SETXATTR => set_xattr(node, form, &mut f)?,
            opcode::RENAME | opcode::RENAME2 => rename(op, node, form, &mut f)?,
            opcode::STATFS => What::Ask(FsRequest::Statfs { root: form.root.ino() }, Form::Plain),
            // Linux tells nothing of syncfs(2): fsync(2) of the mounted directory is what a program has in
            // its place.
            opcode::FSYNCDIR if node == form.root.ino() => What::Ask(FsRequest::Sync, Form::Plain),
            _ => what(op, (unique, node), &mut f)?,
        };
        Some(Self { unique, caller, what })
    }
}

fn what(op: u32, (unique, node): (u64, u64), f: &mut Fields<'_>) -> Option<What> {
    let request = match op {
        opcode::FORGET => return Some(What::Forget(vec![(node, f.u64()?)])),
        opcode::DESTROY => return Some(What::Destroy),
        opcode::INTERRUPT => return Some(What::Interrupt(f.u64()?)),
        opcode::GETXATTR | opcode::LISTXATTR => return xattr(op, node, f),
        opcode::READDIR | opcode::READDIRPLUS => return readdir(op, node, f),
        opcode::LSEEK => return lseek(f),
        opcode::IOCTL => return ioctl(f),
        opcode::STATX => return Some(What::Ask(FsRequest::Getattr { ino: node }, Form::Statx)),
        opcode::GETATTR => FsRequest::Getattr { ino: node },
        opcode::SETATTR => FsRequest::Setattr { ino: node, set: set_attr(f)? },
        opcode::READLINK => FsRequest::Readlink { ino: node },
        opcode::SYMLINK => FsRequest::Symlink { parent: node, name: f.name()?, target: f.name()? },
        opcode::UNLINK => FsRequest::Unlink { parent: node, name: f.name()? },
        opcode::RMDIR => FsRequest::Rmdir { parent: node, name: f.name()? },
        opcode::LINK => FsRequest::Link { ino: f.u64()?, new_parent: node, new_name: f.name()? },
        opcode::READ => FsRequest::Read { fh: f.u64()?, offset: f.u64()?, len: f.u32()? },
        opcode::WRITE => write(f)?,
        opcode::FLUSH => flush(f)?,
        opcode::RELEASE => release(f)?,
        opcode::FSYNC => fsync(f)?,
        opcode::OPENDIR => FsRequest::Opendir { ino: node },
        opcode::RELEASEDIR => FsRequest::Releasedir { fh: f.u64()? },
        opcode::FSYNCDIR => FsRequest::Fsyncdir { fh: f.u64()? },
        opcode::REMOVEXATTR => FsRequest::Removexattr { ino: node, name: f.name()? },
        opcode::GETLK | opcode::SETLK | opcode::SETLKW => lock(op, unique, f)?,
        opcode::COPY_FILE_RANGE => copy_range(f)?,
        opcode::FALLOCATE => fallocate(f)?,
        _ => return Some(What::Refuse(libc::ENOSYS)),
    };
    Some(What::Ask(request, Form::Plain))
}

/// A look-up by name; `.` and `..` are asked for by those who have a handle.
fn lookup(asked: u64, root: Root, f: &mut Fields<'_>) -> Option<What> {
    let (ino, name) = (root.inner(asked), f.name()?);
    Some(match name.as_slice() {
        b"." => What::Ask(FsRequest::LookupIno { ino }, Form::Found(Some(asked))),
        // Nothing of a mount is above its root.
        b".." if ino == root.ino() => What::Ask(FsRequest::LookupIno { ino }, Form::Found(None)),
        b".." => What::Ask(FsRequest::LookupParent { ino }, Form::Found(None)),
        _ => What::Ask(FsRequest::Lookup { parent: ino, name }, Form::Plain),
    })
}

fn mknod(parent: u64, caller: &mut Caller, f: &mut Fields<'_>) -> Option<What> {
    let (mode, rdev, umask, _) = (f.u32()?, f.u32()?, f.u32()?, f.u32()?);
    caller.umask = umask;
    Some(What::Ask(FsRequest::Mknod { parent, name: f.name()?, mode, rdev }, Form::Plain))
}

fn mkdir(parent: u64, caller: &mut Caller, f: &mut Fields<'_>) -> Option<What> {
    let (mode, umask) = (f.u32()?, f.u32()?);
    caller.umask = umask;
    Some(What::Ask(FsRequest::Mkdir { parent, name: f.name()?, mode }, Form::Plain))
}

fn rename(op: u32, parent: u64, form: RequestForm, f: &mut Fields<'_>) -> Option<What> {
    let new_parent = form.root.inner(f.u64()?);
    let (flags, _) = if op == opcode::RENAME2 { (f.u32()?, f.u32()?) } else { (0, 0) };
    let rename = FsRequest::Rename { parent, name: f.name()?, new_parent, new_name: f.name()?, flags };
    Some(What::Ask(rename, Form::Plain))
}

fn set_xattr(ino: u64, form: RequestForm, f: &mut Fields<'_>) -> Option<What> {
    let (size, flags) = (f.u32()?, f.u32()?);
    let (more, _padding) = if form.long_setxattr { (f.u32()?, f.u32()?) } else { (0, 0) };
    let kill_sgid = more & abi::SETXATTR_ACL_KILL_SGID != 0;
    let (name, value) = (f.name()?, f.bytes(size as usize)?.to_vec());
    Some(What::Ask(FsRequest::Setxattr { ino, name, value, flags, kill_sgid }, Form::Plain))
}

fn lseek(f: &mut Fields<'_>) -> Option<What> {
    let (fh, offset, whence) = (f.u64()?, f.u64()?, f.u32()?);
    if offset > i64::MAX as u64 {
        return Some(What::Refuse(libc::ENXIO));
    }
    Some(What::Ask(FsRequest::Lseek { fh, offset, whence }, Form::Plain))
}

/// The ioctls that Linux's own client has of a file, as far as they make sense here.
fn ioctl(f: &mut Fields<'_>) -> Option<What> {
    let (fh, flags, command) = (f.u64()?, f.u32()?, f.u32()?);
    let is_file = flags & abi::IOCTL_DIR == 0;
    Some(match command {
        abi::CEPH_IOC_LAZYIO if is_file => What::Ask(FsRequest::SetLazy { fh }, Form::Ioctl),
        _ => What::Refuse(libc::ENOTTY),
    })
}

fn create(parent: u64, form: RequestForm, caller: &mut Caller, f: &mut Fields<'_>) -> Option<What> {
    let (flags, mode, umask, _) = (f.u32()?, f.u32()?, f.u32()?, f.u32()?);
    caller.umask = umask;
    let create = FsRequest::Create { parent, name: f.name()?, mode, flags };
    Some(What::Ask(create, form.of_handle(flags)))
}

fn open(ino: u64, form: RequestForm, f: &mut Fields<'_>) -> Option<What> {
    let (flags, open_flags) = (f.u32()?, f.u32()?);
    let open = FsRequest::Open { ino, flags, kill_suidgid: open_flags & abi::OPEN_KILL_SUIDGID != 0 };
    Some(What::Ask(open, form.of_handle(flags)))
}

fn write(f: &mut Fields<'_>) -> Option<FsRequest> {
    let (fh, offset, size) = (f.u64()?, f.u64()?, f.u32()?);
    let (write_flags, _owner, _flags, _padding) = (f.u32()?, f.u64()?, f.u32()?, f.u32()?);
    let kill_suidgid = write_flags & abi::WRITE_KILL_SUIDGID != 0;
    let data = Buf::copy_from(f.bytes(size as usize)?).into();
    Some(FsRequest::Write { fh, offset, data, kill_suidgid })
}

fn release(f: &mut Fields<'_>) -> Option<FsRequest> {
    let (fh, _flags, release_flags, owner) = (f.u64()?, f.u32()?, f.u32()?, f.u64()?);
    let has_lock = release_flags & abi::RELEASE_FLOCK_UNLOCK != 0;
    Some(FsRequest::Release { fh, lock_owner: if has_lock { owner } else { 0 } })
}

fn flush(f: &mut Fields<'_>) -> Option<FsRequest> {
    let (fh, _unused) = (f.u64()?, f.u64()?);
    Some(FsRequest::Flush { fh, lock_owner: f.u64()? })
}

fn fsync(f: &mut Fields<'_>) -> Option<FsRequest> {
    Some(FsRequest::Fsync { fh: f.u64()?, data_only: f.u32()? & abi::FSYNC_DATA != 0 })
}

fn lock(op: u32, unique: u64, f: &mut Fields<'_>) -> Option<FsRequest> {
    let (fh, owner) = (f.u64()?, f.u64()?);
    let lock = FileLock { start: f.u64()?, end: f.u64()?, kind: f.u32()?, pid: f.u32()? };
    let flock = f.u32()? & abi::LOCK_FLOCK != 0;
    Some(match op {
        opcode::GETLK => FsRequest::Getlk { fh, owner, lock },
        _ => FsRequest::Setlk { fh, owner, lock, wait: op == opcode::SETLKW, flock, token: unique },
    })
}

fn copy_range(f: &mut Fields<'_>) -> Option<FsRequest> {
    let (fh_in, offset_in, _ino_out) = (f.u64()?, f.u64()?, f.u64()?);
    let (fh_out, offset_out, len, _flags) = (f.u64()?, f.u64()?, f.u64()?, f.u64()?);
    Some(FsRequest::CopyRange { fh_in, offset_in, fh_out, offset_out, len })
}

fn fallocate(f: &mut Fields<'_>) -> Option<FsRequest> {
    Some(FsRequest::Fallocate { fh: f.u64()?, offset: f.u64()?, len: f.u64()?, mode: f.u32()? })
}

fn forget_many(root: Root, f: &mut Fields<'_>) -> Option<What> {
    let (count, _) = (f.u32()?, f.u32()?);
    let mut items = Vec::new();
    for _ in 0..count {
        items.push((root.inner(f.u64()?), f.u64()?));
    }
    Some(What::Forget(items))
}

fn xattr(op: u32, ino: u64, f: &mut Fields<'_>) -> Option<What> {
    let (size, _) = (f.u32()?, f.u32()?);
    let request = match op {
        opcode::GETXATTR => match f.name()? {
            name if name == XATTR.as_bytes() => return Some(What::WhoServes { size }),
            name => FsRequest::Getxattr { ino, name },
        },
        _ => FsRequest::Listxattr { ino },
    };
    Some(What::Ask(request, Form::Xattr(size)))
}

fn readdir(op: u32, dir: Ino, f: &mut Fields<'_>) -> Option<What> {
    let (fh, offset, size) = (f.u64()?, f.u64()?, f.u32()? as usize);
    let plus = op == opcode::READDIRPLUS;
    let request = FsRequest::Readdir { fh, offset, max_bytes: size, plus };
    Some(What::Ask(request, Form::Entries { dir, size, plus }))
}

fn set_attr(f: &mut Fields<'_>) -> Option<SetAttr> {
    let (valid, _, _fh, size, _owner) = (f.u32()?, f.u32()?, f.u64()?, f.u64()?, f.u64()?);
    let (atime, mtime, ctime) = (f.u64()?, f.u64()?, f.u64()?);
    let (atime, mtime, ctime) =
        (abi::wall(atime, f.u32()?), abi::wall(mtime, f.u32()?), abi::wall(ctime, f.u32()?));
    let (mode, _, uid, gid) = (f.u32()?, f.u32()?, f.u32()?, f.u32()?);
    let has = |bit| valid & bit != 0;
    let time = |set, now, time| has(set).then(|| if has(now) { now_by_this_clock() } else { time });
    Some(SetAttr {
        mode: has(setattr::MODE).then_some(mode),
        uid: has(setattr::UID).then_some(uid),
        gid: has(setattr::GID).then_some(gid),
        size: has(setattr::SIZE).then_some(size),
        atime: time(setattr::ATIME, setattr::ATIME_NOW, atime),
        mtime: time(setattr::MTIME, setattr::MTIME_NOW, mtime),
        ctime: has(setattr::CTIME).then_some(ctime),
        kill_suidgid: has(setattr::KILL_SUIDGID),
    })
}

#[expect(clippy::disallowed_methods, reason = "utimes(2) with UTIME_NOW means the caller's clock")]
fn now_by_this_clock() -> Wall {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Wall(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(op: u32, node: u64, body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&(40 + body.len() as u32).to_ne_bytes());
        bytes.extend_from_slice(&op.to_ne_bytes());
        bytes.extend_from_slice(&77u64.to_ne_bytes());
        bytes.extend_from_slice(&node.to_ne_bytes());
        [1000u32, 100, 4242, 0].iter().for_each(|n| bytes.extend_from_slice(&n.to_ne_bytes()));
        bytes.extend_from_slice(body);
        bytes
    }

    fn asked(op: u32, body: &[u8]) -> FsRequest {
        let request = Request::decode(&request(op, 5, body), RequestForm::default()).expect("whole");
        assert_eq!((request.unique, request.caller.uid, request.caller.pid), (77, 1000, 4242));
        match request.what {
            What::Ask(asked, _) => asked,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn requests_are_understood() {
        let lookup = asked(opcode::LOOKUP, b"name\0");
        assert!(matches!(lookup, FsRequest::Lookup { parent: 5, name } if name == b"name"));
        let mut rename = 9u64.to_ne_bytes().to_vec();
        rename.extend_from_slice(b"\x01\0\0\0\0\0\0\0old\0new\0");
        let FsRequest::Rename { new_parent: 9, name, new_name, flags: 1, .. } =
            asked(opcode::RENAME2, &rename)
        else {
            panic!("a rename");
        };
        assert_eq!((&name[..], &new_name[..]), (&b"old"[..], &b"new"[..]));
        let mut write = Vec::new();
        [3u64, 4096].iter().for_each(|n| write.extend_from_slice(&n.to_ne_bytes()));
        [4u32, 0, 0, 0, 0, 0].iter().for_each(|n| write.extend_from_slice(&n.to_ne_bytes()));
        write.extend_from_slice(b"data");
        let FsRequest::Write { fh: 3, offset: 4096, data, kill_suidgid: false } =
            asked(opcode::WRITE, &write)
        else {
            panic!("a write");
        };
        assert_eq!(data.to_vec(), b"data");
    }

    #[test]
    fn what_has_a_handle_is_asked_for_by_its_number() {
        let form = RequestForm { root: Root::of(0x100), ..RequestForm::default() };
        let what = |node, name: &[u8]| {
            Request::decode(&request(opcode::LOOKUP, node, name), form).expect("whole").what
        };
        let found = what(0x200, b".\0");
        assert!(
            matches!(found, What::Ask(FsRequest::LookupIno { ino: 0x200 }, Form::Found(Some(0x200)))),
            "{found:?}"
        );
        let parent = what(0x200, b"..\0");
        assert!(
            matches!(parent, What::Ask(FsRequest::LookupParent { ino: 0x200 }, Form::Found(None))),
            "{parent:?}"
        );
        let above = what(1, b"..\0");
        assert!(matches!(above, What::Ask(FsRequest::LookupIno { ino: 0x100 }, Form::Found(None))));
        assert!(matches!(what(0x200, b"...\0"), What::Ask(FsRequest::Lookup { .. }, Form::Plain)));
        let forget: Vec<u8> = [1u64, 1, 3].iter().flat_map(|n| n.to_ne_bytes()).collect();
        let forget = Request::decode(&request(opcode::BATCH_FORGET, 0, &forget), form).expect("whole").what;
        assert!(matches!(forget, What::Forget(items) if items == [(0x100, 3)]));
    }

    #[test]
    fn the_root_of_the_mount_may_be_any_directory() {
        let form = RequestForm { root: Root::of(0x100), ..RequestForm::default() };
        let asked = |op, node, body: &[u8]| match Request::decode(&request(op, node, body), form)
            .expect("whole")
            .what
        {
            What::Ask(request, _) => request,
            other => panic!("{other:?}"),
        };
        let FsRequest::Lookup { parent: 0x100, .. } = asked(opcode::LOOKUP, 1, b"name\0") else {
            panic!("in the root");
        };
        let FsRequest::Lookup { parent: 0x200, .. } = asked(opcode::LOOKUP, 0x200, b"name\0") else {
            panic!("elsewhere");
        };
        let rename = [&1_u64.to_ne_bytes()[..], b"old\0new\0"].concat();
        let FsRequest::Rename { parent: 0x200, new_parent: 0x100, .. } =
            asked(opcode::RENAME, 0x200, &rename)
        else {
            panic!("into the root");
        };
        let FsRequest::Statfs { root: 0x100 } = asked(opcode::STATFS, 0x200, b"") else {
            panic!("of the root");
        };
        let fsync = [&7_u64.to_ne_bytes()[..], &[0; 8]].concat();
        let FsRequest::Sync = asked(opcode::FSYNCDIR, 1, &fsync) else {
            panic!("of everything");
        };
        let FsRequest::Fsyncdir { fh: 7 } = asked(opcode::FSYNCDIR, 0x200, &fsync) else {
            panic!("of one directory");
        };
    }

    #[test]
    fn the_process_that_serves_is_asked_for_by_an_xattr() {
        let body = |name: &str| [&64_u32.to_ne_bytes()[..], &[0; 4], name.as_bytes(), b"\0"].concat();
        let what = |name| {
            let request = request(opcode::GETXATTR, 1, &body(name));
            Request::decode(&request, RequestForm::default()).expect("whole").what
        };
        assert!(matches!(what(XATTR), What::WhoServes { size: 64 }));
        assert!(matches!(what("user.a"), What::Ask(FsRequest::Getxattr { ino: 1, .. }, Form::Xattr(64))));
    }

    #[test]
    fn a_copy_names_both_files() {
        let body: Vec<u8> = [3u64, 4096, 77, 4, 8192, 100, 0].iter().flat_map(|n| n.to_ne_bytes()).collect();
        let copy = asked(opcode::COPY_FILE_RANGE, &body);
        let FsRequest::CopyRange { fh_in: 3, offset_in: 4096, fh_out: 4, offset_out: 8192, len: 100 } = copy
        else {
            panic!("{copy:?}");
        };
    }

    #[test]
    fn a_file_is_direct_where_the_kernel_can_map_it_too() {
        let direct = libc::O_DIRECT.cast_unsigned();
        let form_of = |op, body: &[u8], parallel_direct| {
            let form = RequestForm { parallel_direct, ..RequestForm::default() };
            match Request::decode(&request(op, 5, body), form).expect("whole").what {
                What::Ask(_, form) => form,
                other => panic!("{other:?}"),
            }
        };
        for (flags, parallel_direct, expected) in
            [(direct, true, Form::Direct), (direct, false, Form::Plain), (2, true, Form::Plain)]
        {
            let mut body: Vec<u8> = [flags, 0].iter().flat_map(|n| n.to_ne_bytes()).collect();
            assert_eq!(form_of(opcode::OPEN, &body, parallel_direct), expected);
            body.extend([0; 8]);
            body.extend(b"name\0");
            assert_eq!(form_of(opcode::CREATE, &body, parallel_direct), expected);
        }
    }

    #[test]
    fn changes_that_take_privileges_away_say_so() {
        let words = |words: &[u32]| words.iter().flat_map(|n| n.to_ne_bytes()).collect::<Vec<u8>>();
        for (flags, kills) in [(0, false), (1, false), (2, false), (4, true), (6, true)] {
            let write = words(&[3, 0, 0, 0, 0, flags, 0, 0, 0, 0]);
            let FsRequest::Write { kill_suidgid, .. } = asked(opcode::WRITE, &write) else {
                panic!("a write");
            };
            assert_eq!(kill_suidgid, kills, "flags {flags}");
        }
        let open = asked(opcode::OPEN, &words(&[0o1001, 1]));
        assert!(matches!(open, FsRequest::Open { flags: 0o1001, kill_suidgid: true, .. }), "{open:?}");
        let open = asked(opcode::OPEN, &words(&[0o1001, 0]));
        assert!(matches!(open, FsRequest::Open { kill_suidgid: false, .. }), "{open:?}");
        for (valid, kills) in [(1 << 3, false), (1 << 3 | 1 << 11, true), (1 << 1 | 1 << 11, true)] {
            let mut body = vec![valid];
            body.resize(22, 0);
            let FsRequest::Setattr { set, .. } = asked(opcode::SETATTR, &words(&body)) else {
                panic!("a change");
            };
            assert_eq!((set.kill_suidgid, set.mode), (kills, None));
        }
    }

    #[test]
    fn a_lock_that_is_waited_for_is_interrupted_by_its_number() {
        let mut body = Vec::new();
        [3u64, 9, 0, u64::MAX].iter().for_each(|n| body.extend_from_slice(&n.to_ne_bytes()));
        [1u32, 42, 1, 0].iter().for_each(|n| body.extend_from_slice(&n.to_ne_bytes()));
        let asked = asked(opcode::SETLKW, &body);
        let FsRequest::Setlk { fh: 3, owner: 9, lock, wait: true, flock: true, token: 77 } = asked else {
            panic!("{asked:?}");
        };
        assert_eq!((lock.kind, lock.pid), (1, 42));
        let interrupt =
            Request::decode(&request(opcode::INTERRUPT, 0, &77u64.to_ne_bytes()), RequestForm::default())
                .expect("whole");
        assert!(matches!(interrupt.what, What::Interrupt(77)));
    }

    #[test]
    fn a_request_that_is_cut_off_is_none() {
        let whole = request(opcode::LOOKUP, 1, b"name\0");
        for len in 0..whole.len() {
            assert!(Request::decode(&whole[..len], RequestForm::default()).is_none(), "{len}");
        }
        let huge = [0xff; 8];
        assert!(Request::decode(&request(opcode::BATCH_FORGET, 0, &huge), RequestForm::default()).is_none());
    }

    #[test]
    fn of_ioctls_a_file_has_one() {
        let body = |flags: u32, command: u32| {
            let fields = [9, 0, flags, command, 0, 0, 0, 0];
            fields.iter().flat_map(|n: &u32| n.to_ne_bytes()).collect::<Vec<u8>>()
        };
        let lazy = asked(opcode::IOCTL, &body(0, abi::CEPH_IOC_LAZYIO));
        assert!(matches!(lazy, FsRequest::SetLazy { fh: 9 }));
        for (flags, command) in [(abi::IOCTL_DIR, abi::CEPH_IOC_LAZYIO), (0, 0x9705), (0, 0x8008_6601)] {
            let bytes = request(opcode::IOCTL, 5, &body(flags, command));
            let request = Request::decode(&bytes, RequestForm::default()).expect("whole");
            assert!(matches!(request.what, What::Refuse(libc::ENOTTY)), "{flags} {command:#x}");
        }
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for op in [0, 7, 19, 37, 40, 51, 99, u32::MAX] {
            let request = Request::decode(&request(op, 1, &[0; 64]), RequestForm::default()).expect("whole");
            assert!(matches!(request.what, What::Refuse(libc::ENOSYS)), "{op}");
        }
    }
}
