//! MKNOD, MKDIR and SYMLINK, and the part that is common to all creations.

use super::context::Cx;
use super::directory;
use super::draft::Draft;
use super::flags::is_async;
use super::layout;
use super::plan::{Extra, Plan, Reply};
use super::quota;
use crate::types::{Place, Stop};
use fsfmt::{Ino, InodeData, NestStat, mode};
use msgs::{MdsOp, MkdirArgs, MknodArgs};
use std::collections::BTreeMap;
use stdx::{Rare, Shared};
use wire::Errno;
use wire::Reader;

/// A new inode in `dir`: owner from the request, group and layout from the directory if it sets them.
pub(super) fn new_inode(cx: &Cx<'_>, dir: &InodeData, mut mode: u32) -> Result<InodeData, Stop> {
    if is_async(cx.request) && cx.request.ino != cx.ino_next {
        // It names an inode that is not its to make: another may have the number.
        return Err(Errno::EINVAL.into());
    }
    let is_dir = mode & mode::FORMAT == mode::DIR;
    let mut gid = cx.request.owner_gid;
    if dir.mode & mode::SET_GID != 0 {
        gid = dir.gid;
        if is_dir {
            mode |= mode::SET_GID;
        }
    }
    let is_file = mode & mode::FORMAT == mode::FILE;
    let layout = if is_file { layout::of_new_files(cx, dir.key()) } else { Shared::default() };
    let counts = |yes: bool| u64::from(yes);
    let rstat =
        NestStat { rfiles: counts(!is_dir), rsubdirs: counts(is_dir), rctime: cx.now, ..NestStat::default() };
    let mtime = if is_dir { cx.now } else { wire::Utime::default() };
    let dirstat = fsfmt::DirStat { mtime, ..fsfmt::DirStat::default() };
    let xattrs: Rare<_> = xattrs_of(cx)?.into();
    Ok(InodeData {
        ino: Ino(cx.ino_next),
        version: 1,
        mode,
        uid: cx.request.owner_uid,
        gid,
        nlink: 1,
        mtime: cx.now,
        ctime: cx.now,
        atime: cx.now,
        btime: cx.now,
        layout,
        xattrs,
        xattr_version: 1,
        truncate_seq: 1,
        truncate_size: u64::MAX,
        dirstat: dirstat.into(),
        accounted: rstat.clone(),
        rstat,
        first: cx.cache.snaps.next_first(),
        ..InodeData::default()
    })
}

/// Xattrs that come with a new inode (ACLs that it inherits).
fn xattrs_of(cx: &Cx<'_>) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, Stop> {
    if cx.request.data.is_empty() || cx.request.op == MdsOp::SYMLINK && cx.request.data.len() <= 4 {
        return Ok(BTreeMap::new());
    }
    Reader::new(&cx.request.data.to_vec()).get().map_err(|_| Errno::EINVAL.into())
}

/// The plan that puts a new inode under a free name.
pub(super) fn link_new(cx: &Cx<'_>, (dir, key): Place, data: InodeData, want: u32) -> Result<Plan, Stop> {
    let ino = data.key();
    let is_dir = data.is_dir();
    if cx.dir_of(dir)?.data.nlink == 0 {
        return Err(Errno::ENOENT.into());
    }
    quota::check_files(cx, dir.inode())?;
    let mut draft = Draft::new(cx.cache, cx.now);
    draft.create(data);
    directory::change(cx, &mut draft, dir, (i64::from(!is_dir), i64::from(is_dir)))?;
    draft.account(dir, ino)?;
    draft.put((dir, key.clone()), ino);
    let reply = Reply { dentry: Some((dir, key)), target: Some(ino), want, ..Reply::default() };
    cx.finish(Plan { local: draft.finish(), created: ino.ino, reply, ..Plan::default() })
}

pub(super) fn prepare(cx: &Cx<'_>) -> Result<Plan, Stop> {
    let (dir, key) = cx.parent(&cx.request.path)?;
    if cx.entry(dir, &key)?.inode().is_some() {
        return Err(Errno::EEXIST.into());
    }
    let parent = &cx.dir_of(dir)?.data;
    let data = match cx.request.op {
        MdsOp::MKDIR => {
            let bits = cx.request.args.get::<MkdirArgs>().mode & !mode::FORMAT;
            let mut data = new_inode(cx, parent, bits | mode::DIR)?;
            directory::record(cx, &mut data, dir.inode());
            data
        }
        MdsOp::SYMLINK => {
            let mut data = new_inode(cx, parent, 0o777 | mode::SYMLINK)?;
            data.symlink = cx.request.path2.path.clone().into();
            data.size = data.symlink.len() as u64;
            data.rstat.rbytes = data.size;
            data
        }
        _ => {
            let args: MknodArgs = cx.request.args.get();
            let format = if args.mode & mode::FORMAT == 0 { mode::FILE } else { 0 };
            let mut data = new_inode(cx, parent, args.mode | format)?;
            data.rdev = args.rdev;
            data
        }
    };
    let made = data.ino;
    let mut plan = link_new(cx, (dir, key), data, 0)?;
    if cx.request.op == MdsOp::MKDIR {
        plan.reply.is_assumed = is_async(cx.request);
        plan.reply.extra = if cx.delegates_numbers() { Extra::Created(made) } else { Extra::None };
    }
    Ok(plan)
}
