//! Operations on names and inodes: each is at most one request to the MDS, and none where a capability answers it.

use crate::api::{Answer, Caller, FsRequest, Ino, SetAttr};
use crate::cache::{Name, STAT_CAPS, path, path_in};
use crate::client::{Client, FileHandle, Op, Outs, Stage, Step, fail};
use msgs::errno::{EEXIST, EINVAL, EIO, EISDIR, ELOOP, ENAMETOOLONG, ENODATA, ENOENT, EOPNOTSUPP, ESTALE};
use msgs::{Caps, cap, request_flag, setattr_mask};
use msgs::{
    ClientReply, ClientRequest, FilePath, GetattrArgs, MdsOp, MkdirArgs, MknodArgs, OpenArgs, SetattrArgs,
    SetxattrArgs,
};
use std::time::Duration;
use stdx::{Bufs, Now};

/// Longest name of one component, as in Linux.
const NAME_MAX: usize = 255;
/// Bits of open(2) that matter here.
pub(crate) mod open_flag {
    pub(crate) const ACCESS: u32 = 3;
    pub(crate) const WRONLY: u32 = 1;
    pub(crate) const RDWR: u32 = 2;
    pub(crate) const CREAT: u32 = 0o100;
    pub(crate) const EXCL: u32 = 0o200;
    pub(crate) const TRUNC: u32 = 0o1000;
    pub(crate) const APPEND: u32 = 0o2000;
}
/// The open flags that the protocol has; their numbers are Linux's.
const WIRE_FLAGS: u32 =
    open_flag::ACCESS | open_flag::CREAT | open_flag::EXCL | open_flag::TRUNC | 0o200_000 | 0o400_000;

impl Client {
    /// One attempt at an operation of this file.
    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of one operation, taken apart for the borrow checker"
    )]
    pub(crate) fn namespace_step(
        &mut self,
        now: Now,
        number: u64,
        op: &mut Op,
        stage: Stage,
        caller: &Caller,
        request: &FsRequest,
        out: &mut Outs,
    ) -> Step {
        if let Stage::Answered(reply) = stage {
            return self.namespace_answer(request, &reply, op.is_repeat);
        }
        if name_of(request).is_some_and(|name| name.len() > NAME_MAX) {
            return fail(ENAMETOOLONG);
        }
        // POSIX ACLs would have to be honoured: refused, so that callers fall back to modes.
        if let FsRequest::Setxattr { name, .. }
        | FsRequest::Removexattr { name, .. }
        | FsRequest::Getxattr { name, .. } = request
            && name.starts_with(b"system.")
        {
            return fail(EOPNOTSUPP);
        }
        if let Some(step) = self.answer_from_cache(now, request) {
            return step;
        }
        // What we hold back about the inode must be there before the request is.
        let truncates = SetAttr { size: Some(0), ..SetAttr::default() };
        let before = match request {
            FsRequest::Setattr { ino, set } => self.before_setattr(now, number, *ino, set),
            FsRequest::Open { ino, flags } if flags & open_flag::TRUNC != 0 => {
                self.before_setattr(now, number, *ino, &truncates)
            }
            _ => None,
        };
        if let Some(step) = before {
            return step;
        }
        self.before_name_goes(request, out);
        match self.to_mds(caller, request) {
            Ok(message) => {
                op.stage = Stage::AtMds;
                self.ask_mds(now, number, message, out);
                Step::Wait
            }
            Err(errno) => fail(errno),
        }
    }

    /// Answers without asking, where that is right.
    fn answer_from_cache(&mut self, now: Now, request: &FsRequest) -> Option<Step> {
        match request {
            FsRequest::Lookup { parent, name } => match self.known_name(now, *parent, name) {
                Name::Absent => Some(fail(ENOENT)),
                Name::Inode(ino) if self.inodes.get(&ino).is_some_and(|i| i.may(STAT_CAPS)) => {
                    self.entry(ino).map(|entry| Step::Done(Ok(Answer::Entry(entry))))
                }
                _ => None,
            },
            FsRequest::Getattr { ino } => {
                let inode = self.inodes.get(ino).filter(|i| i.may(STAT_CAPS))?;
                Some(Step::Done(Ok(Answer::Attr(inode.attr(), Duration::ZERO))))
            }
            FsRequest::Readlink { ino } => {
                let inode = self.inodes.get(ino).filter(|i| !i.symlink.is_empty())?;
                Some(Step::Done(Ok(Answer::Data(inode.symlink.clone().into()))))
            }
            FsRequest::Open { ino, flags } if flags & open_flag::TRUNC == 0 => {
                let inode = self.inodes.get(ino).filter(|i| i.is_file())?;
                inode.may(needed_for(*flags)).then(|| self.opened(*ino, *flags))
            }
            FsRequest::Getxattr { ino, name } => {
                let inode = self.inodes.get(ino).filter(|i| i.may(cap::XATTR_SHARED))?;
                Some(getxattr(inode, name))
            }
            FsRequest::Listxattr { ino } => {
                let inode = self.inodes.get(ino).filter(|i| i.may(cap::XATTR_SHARED))?;
                Some(Step::Done(Ok(Answer::Names(inode.xattrs.keys().cloned().collect()))))
            }
            FsRequest::Lseek { fh, offset, whence } => Some(self.lseek(*fh, *offset, *whence)),
            _ => None,
        }
    }

    /// Buffered data beyond a new size are cut off, and everything else that the MDS does not know is told first.
    fn before_setattr(&mut self, now: Now, number: u64, ino: Ino, set: &SetAttr) -> Option<Step> {
        let inode = self.inodes.get_mut(&ino)?;
        if inode.set_here(set, now.wall) {
            let attr = inode.attr();
            self.dirty_since.entry(ino).or_insert(now.mono);
            self.touch(ino);
            return Some(Step::Done(Ok(Answer::Attr(attr, Duration::ZERO))));
        }
        if let Some(size) = set.size {
            inode.dirty.truncate(size);
            self.touched.insert(ino);
        }
        let times = set.mtime.is_some() || set.atime.is_some();
        if (set.size.is_some() || times) && (!inode.dirty.is_empty() || inode.dirty_caps.0 != 0) {
            inode.sync_wanted = true;
            inode.waiters.insert(number);
            self.attend(ino);
            return Some(Step::Wait);
        }
        None
    }

    /// Who takes an inode's name away has no right to its link count any more: the answer does not tell it.
    fn before_name_goes(&mut self, request: &FsRequest, out: &mut Outs) {
        let (FsRequest::Unlink { parent: dir, name }
        | FsRequest::Rename { new_parent: dir, new_name: name, .. }) = request
        else {
            return;
        };
        let Some(ino) = self.dentries.get(&(*dir, name.clone())).and_then(|d| d.ino) else { return };
        if let Some(cap) = self.inodes.get_mut(&ino).and_then(|i| i.cap.as_mut()) {
            cap.issued = Caps(cap.issued.0 & !cap::LINK_SHARED);
            self.tell_mds(ino, out);
        }
    }

    fn to_mds(&self, caller: &Caller, request: &FsRequest) -> Result<ClientRequest, i32> {
        use FsRequest as R;
        let stat = GetattrArgs { mask: STAT_CAPS };
        let make = |op, path, args: msgs::ArgBytes| ClientRequest {
            op,
            path,
            args,
            caller_uid: caller.uid,
            caller_gid: caller.gid,
            ..ClientRequest::default()
        };
        let changing =
            |op, path, args| ClientRequest { flags: request_flag::WANT_DENTRY, ..make(op, path, args) };
        let by_name = |name: &[u8]| FilePath { ino: 0, path: name.to_vec() };
        Ok(match request {
            R::Lookup { parent, name } => make(MdsOp::LOOKUP, path_in(*parent, name), stat.into()),
            R::Getattr { ino } | R::Readlink { ino } | R::Getxattr { ino, .. } | R::Listxattr { ino } => {
                make(MdsOp::GETATTR, path(*ino), stat.into())
            }
            R::Setattr { ino, set } => make(MdsOp::SETATTR, path(*ino), self.setattr_args(*ino, set).into()),
            R::Mknod { parent, name, mode, rdev } => {
                changing(MdsOp::MKNOD, path_in(*parent, name), MknodArgs { mode: *mode, rdev: *rdev }.into())
            }
            R::Mkdir { parent, name, mode } => {
                changing(MdsOp::MKDIR, path_in(*parent, name), MkdirArgs { mode: *mode }.into())
            }
            R::Symlink { parent, name, target } => {
                let message = changing(MdsOp::SYMLINK, path_in(*parent, name), GetattrArgs::default().into());
                ClientRequest { path2: by_name(target), ..message }
            }
            R::Unlink { parent, name } => changing(MdsOp::UNLINK, path_in(*parent, name), stat.into()),
            R::Rmdir { parent, name } => changing(MdsOp::RMDIR, path_in(*parent, name), stat.into()),
            R::Rename { flags, .. } if *flags != 0 => return Err(EINVAL),
            R::Rename { parent, name, new_parent, new_name, .. } => ClientRequest {
                path2: path_in(*parent, name),
                ..changing(MdsOp::RENAME, path_in(*new_parent, new_name), stat.into())
            },
            R::Link { ino, new_parent, new_name } => ClientRequest {
                path2: path(*ino),
                ..changing(MdsOp::LINK, path_in(*new_parent, new_name), stat.into())
            },
            R::Open { ino, flags } => {
                make(MdsOp::OPEN, path(*ino), self.open_args(Some(*ino), *flags, 0).into())
            }
            R::Create { parent, name, mode, flags } => {
                let args = self.open_args(None, *flags | open_flag::CREAT, *mode);
                changing(MdsOp::CREATE, path_in(*parent, name), args.into())
            }
            R::Setxattr { ino, name, value, flags } => {
                let args = SetxattrArgs { flags: *flags, osdmap_epoch: self.osdmap().epoch };
                let data = Bufs::from(value.clone());
                ClientRequest { path2: by_name(name), data, ..make(MdsOp::SETXATTR, path(*ino), args.into()) }
            }
            R::Removexattr { ino, name } => {
                ClientRequest { path2: by_name(name), ..make(MdsOp::RMXATTR, path(*ino), stat.into()) }
            }
            _ => return Err(EOPNOTSUPP),
        })
    }

    fn setattr_args(&self, ino: Ino, set: &SetAttr) -> SetattrArgs {
        let old_size = self.inodes.get(&ino).map_or(0, |i| i.size);
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

    pub(crate) fn open_args(&self, ino: Option<Ino>, flags: u32, mode: u32) -> OpenArgs {
        let old_size = ino.and_then(|ino| self.inodes.get(&ino)).map_or(0, |i| i.size);
        OpenArgs {
            flags: flags & WIRE_FLAGS,
            mode,
            pool: -1,
            mask: STAT_CAPS,
            old_size,
            ..OpenArgs::default()
        }
    }

    fn namespace_answer(&mut self, request: &FsRequest, reply: &ClientReply, is_repeat: bool) -> Step {
        use FsRequest as R;
        if reply.result < 0 {
            self.correct_cache(request, -reply.result);
            return fail(-reply.result);
        }
        let target = reply.trace.target.as_ref().map(|t| t.ino);
        match request {
            R::Lookup { .. } | R::Mknod { .. } | R::Symlink { .. } | R::Link { .. } => {
                self.answer_entry(target)
            }
            R::Mkdir { .. } => {
                if let Some(inode) = target.and_then(|ino| self.inodes.get_mut(&ino)).filter(|_| !is_repeat) {
                    // It is new, so all its names are known: none.
                    inode.complete = Some(inode.shared_gen);
                }
                self.answer_entry(target)
            }
            R::Getattr { ino } | R::Setattr { ino, .. } => {
                match self.inodes.get(ino).filter(|_| target == Some(*ino)) {
                    Some(inode) => Step::Done(Ok(Answer::Attr(inode.attr(), Duration::ZERO))),
                    None => fail(ESTALE),
                }
            }
            R::Readlink { ino } => match self.inodes.get(ino) {
                Some(inode) => Step::Done(Ok(Answer::Data(inode.symlink.clone().into()))),
                None => fail(ESTALE),
            },
            R::Unlink { parent, name } | R::Rmdir { parent, name } => {
                // What has the name now the answer says: it may have been made again since.
                if reply.trace.dentry.is_none() {
                    self.drop_dentry(*parent, name);
                }
                Step::Done(Ok(Answer::Done))
            }
            R::Rename { parent, name, .. } => {
                // Between two names of one inode a rename does nothing, and the first name stays.
                let moved =
                    target.and_then(|ino| self.inodes.get(&ino)).is_some_and(|i| i.is_dir() || i.nlink == 1);
                match request {
                    R::Rename { new_parent, new_name, .. } if (new_parent, new_name) == (parent, name) => {}
                    _ if moved && !is_repeat => self.name_removed(*parent, name),
                    _ => self.drop_dentry(*parent, name),
                }
                Step::Done(Ok(Answer::Done))
            }
            R::Open { ino, .. } if target != Some(*ino) => fail(ESTALE),
            R::Open { ino, flags } => self.opened(*ino, *flags),
            R::Create { flags, .. } => self.created(target, *flags),
            R::Getxattr { ino, name } => {
                self.inodes.get(ino).map_or_else(|| fail(ESTALE), |inode| getxattr(inode, name))
            }
            R::Listxattr { ino } => match self.inodes.get(ino) {
                Some(inode) => Step::Done(Ok(Answer::Names(inode.xattrs.keys().cloned().collect()))),
                None => fail(ESTALE),
            },
            _ => Step::Done(Ok(Answer::Done)),
        }
    }

    /// The MDS knows better what names there are.
    fn correct_cache(&mut self, request: &FsRequest, errno: i32) {
        match (request, errno) {
            (FsRequest::Unlink { parent, name } | FsRequest::Rmdir { parent, name }, ENOENT)
            | (FsRequest::Rename { parent, name, .. }, ENOENT)
            | (FsRequest::Create { parent, name, .. } | FsRequest::Mkdir { parent, name, .. }, EEXIST)
            | (FsRequest::Lookup { parent, name }, _) => self.drop_dentry(*parent, name),
            _ => {}
        }
    }

    fn answer_entry(&mut self, ino: Option<Ino>) -> Step {
        // An answer without the inode that it is about is a broken peer's.
        match ino.and_then(|ino| self.entry(ino)) {
            Some(entry) => Step::Done(Ok(Answer::Entry(entry))),
            None => fail(EIO),
        }
    }

    fn add_handle(&mut self, ino: Ino, flags: u32) -> u64 {
        let fh = self.next_fh();
        let access = flags & open_flag::ACCESS;
        let (reads, writes) =
            (access != open_flag::WRONLY, access == open_flag::WRONLY || access == open_flag::RDWR);
        let inode = self.inodes.get_mut(&ino).expect("checked by the caller");
        inode.readers += u32::from(reads);
        inode.writers += u32::from(writes);
        self.files.insert(fh, FileHandle { ino, reads, writes, append: flags & open_flag::APPEND != 0 });
        self.touch(ino);
        fh
    }

    fn opened(&mut self, ino: Ino, flags: u32) -> Step {
        if !self.inodes.contains_key(&ino) {
            return fail(ESTALE);
        }
        let fh = self.add_handle(ino, flags);
        let inode = &self.inodes[&ino];
        // Pages that are still to be dropped are of before a capability that has come back meanwhile: a restarted MDS gives it again where we lost it.
        let keep_cache = inode.has_true_pages();
        Step::Done(Ok(Answer::Opened { fh, keep_cache }))
    }

    fn created(&mut self, ino: Option<Ino>, flags: u32) -> Step {
        let Some(inode) = ino.and_then(|ino| self.inodes.get(&ino)) else { return fail(EIO) };
        // Without `O_EXCL` the MDS gives what has the name. Only a file is opened: the caller looks again, and follows.
        let (ino, errno) = (inode.ino, not_a_file(inode));
        if let Some(errno) = errno {
            self.touch(ino);
            return fail(errno);
        }
        let Some(entry) = self.entry(ino) else { return fail(EIO) };
        let fh = self.add_handle(ino, flags);
        Step::Done(Ok(Answer::Created { entry, fh }))
    }

    fn lseek(&self, fh: u64, offset: u64, whence: u32) -> Step {
        const SEEK_DATA: u32 = 3;
        const ENXIO: i32 = 6;
        let Some(inode) = self.files.get(&fh).and_then(|f| self.inodes.get(&f.ino)) else {
            return fail(msgs::errno::EBADF);
        };
        if offset >= inode.size {
            return fail(ENXIO);
        }
        // All of a file counts as data: holes are found by nobody, which lseek(2) allows.
        Step::Done(Ok(Answer::Offset(if whence == SEEK_DATA { offset } else { inode.size })))
    }
}

/// Why what has a name can't be what opens a file by it.
fn not_a_file(inode: &crate::inode::Inode) -> Option<i32> {
    const S_IFLNK: u32 = 0o120_000;
    match inode.mode & 0o170_000 {
        _ if inode.is_file() => None,
        _ if inode.is_dir() => Some(EISDIR),
        S_IFLNK => Some(ELOOP),
        _ => Some(EEXIST),
    }
}

/// The capability bits that opening with `flags` needs to go without the MDS.
fn needed_for(flags: u32) -> u32 {
    match flags & open_flag::ACCESS {
        open_flag::WRONLY => STAT_CAPS | cap::FILE_WR | cap::FILE_BUFFER,
        open_flag::RDWR => STAT_CAPS | cap::FILE_RD | cap::FILE_CACHE | cap::FILE_WR | cap::FILE_BUFFER,
        _ => STAT_CAPS | cap::FILE_RD | cap::FILE_CACHE,
    }
}

fn name_of(request: &FsRequest) -> Option<&[u8]> {
    use FsRequest as R;
    match request {
        R::Lookup { name, .. }
        | R::Mknod { name, .. }
        | R::Mkdir { name, .. }
        | R::Unlink { name, .. }
        | R::Rmdir { name, .. }
        | R::Symlink { name, .. }
        | R::Create { name, .. }
        | R::Link { new_name: name, .. }
        | R::Rename { new_name: name, .. } => Some(name),
        _ => None,
    }
}

fn getxattr(inode: &crate::inode::Inode, name: &[u8]) -> Step {
    let layout = &inode.layout;
    let virtual_value = match name {
        b"ceph.file.layout" | b"ceph.dir.layout" if !inode.is_dir() || layout.stripe_unit > 0 => {
            Some(format!(
                "stripe_unit={} stripe_count={} object_size={} pool={}",
                layout.stripe_unit, layout.stripe_count, layout.object_size, layout.pool
            ))
        }
        b"ceph.dir.entries" if inode.is_dir() => Some((inode.nfiles + inode.nsubdirs).to_string()),
        b"ceph.dir.files" if inode.is_dir() => Some(inode.nfiles.to_string()),
        b"ceph.dir.subdirs" if inode.is_dir() => Some(inode.nsubdirs.to_string()),
        b"ceph.dir.rbytes" if inode.is_dir() => Some(inode.rbytes.to_string()),
        _ => None,
    };
    match virtual_value.map(String::into_bytes).or_else(|| inode.xattrs.get(name).cloned()) {
        Some(value) => Step::Done(Ok(Answer::Data(value.into()))),
        None => fail(ENODATA),
    }
}
