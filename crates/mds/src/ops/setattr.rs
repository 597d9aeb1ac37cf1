//! SETATTR, truncation included.

use super::context::Cx;
use super::draft::Draft;
use super::plan::{Plan, Reply};
use crate::cap::ALL_FILE;
use crate::cut;
use crate::types::{Need, Stop};
use fsfmt::{InodeKey, mode};
use msgs::{SetattrArgs, cap, setattr_mask as bit};
use wire::Errno;
use wire::Utime;

/// Sets a file's size. Nobody may hold capabilities on its data meanwhile. Bytes beyond a smaller size are
/// removed from the objects after the event is durable; nobody may read or write before the event is, nor
/// before the end if there are many objects.
pub(super) fn truncate(cx: &Cx<'_>, draft: &mut Draft<'_>, ino: InodeKey, size: u64) -> Result<(), Stop> {
    let inode = cx.inode(ino)?;
    // Of two truncations under way an object may see the second one only: that must not keep more of it.
    let keeps_more = size > inode.data.truncate_size && size < inode.data.size;
    if inode.data.truncate_from > 0 && keeps_more || cut::delays_clients(&inode.data) {
        return Err(Need::Truncated(ino).into());
    }
    // A store that is under way would reach the object after a write that follows the truncation.
    if inode.data.packed.is_some() {
        return Err(Need::Stored(ino).into());
    }
    if size > cx.cfg.max_file_size {
        return Err(Errno::EFBIG.into());
    }
    cx.revoke(ino, None, ALL_FILE);
    let now = cx.now;
    let data = draft.changed(ino)?;
    let old = data.size;
    if size < old {
        data.truncate_seq += 1;
        data.truncate_size = size;
        // Writers may have written up to the size that they were granted, and died.
        let written = old.max(data.max_size().min(data.max_size_ever));
        data.truncate_from = data.truncate_from.max(written);
    }
    let is_set = data.mtime.is_ahead_of(now.into());
    // The counter has clients replace a later time, which somebody has set, by this one.
    data.time_warp_seq += u32::from(is_set);
    data.mtime = if is_set { now } else { now.max(data.mtime.next()) };
    data.size = size;
    data.rstat.rbytes = size;
    data.max_size_ever = data.max_size_ever.max(size);
    Ok(())
}

pub(super) fn prepare(cx: &Cx<'_>) -> Result<Plan, Stop> {
    let target = cx.resolve(&cx.request.path)?;
    let ino = target.ino;
    let args: SetattrArgs = cx.request.args.get();
    let mut draft = Draft::new(cx.cache, cx.now);
    if args.mask & bit::SIZE != 0 {
        let inode = cx.inode(ino)?;
        if !inode.data.is_file() {
            let errno = if inode.data.is_dir() { Errno::EISDIR } else { Errno::EINVAL };
            return Err(errno.into());
        }
        truncate(cx, &mut draft, ino, args.size)?;
    }
    if args.mask & (bit::MODE | bit::GID | bit::KILL_SGUID) != 0 {
        // What is made in shards has them from the directory.
        cx.gather_shards(ino)?;
    }
    revoke_for(cx, ino, args.mask);
    apply(cx, &mut draft, ino, &args)?;
    let reply = Reply { target: Some(ino), ..Reply::default() };
    cx.finish(Plan { local: draft.finish(), reply, touched: vec![ino], ..Plan::default() })
}

/// Revokes the bits under which others cache the changing attributes; the client itself must first flush its
/// own changes.
fn revoke_for(cx: &Cx<'_>, ino: InodeKey, mask: u32) {
    if mask & (bit::MODE | bit::UID | bit::GID | bit::BTIME | bit::KILL_SGUID) != 0 {
        cx.revoke_others(ino, cap::AUTH_SHARED);
        cx.revoke(ino, None, cap::AUTH_EXCL);
    }
    if mask & (bit::MTIME | bit::ATIME | bit::MTIME_NOW | bit::ATIME_NOW) != 0 {
        cx.revoke_others(ino, cap::FILE_SHARED);
        cx.revoke(ino, None, cap::FILE_EXCL | cap::FILE_WR | cap::FILE_BUFFER);
    }
}

fn apply(cx: &Cx<'_>, draft: &mut Draft<'_>, ino: InodeKey, args: &SetattrArgs) -> Result<(), Stop> {
    let time = |t: wire::Timespec| Utime { sec: t.sec, nsec: t.nsec };
    let has = |b: u32| args.mask & b != 0;
    let now = cx.now;
    let data = draft.changed(ino)?;
    if has(bit::MODE) {
        data.mode = data.mode & mode::FORMAT | args.mode & !mode::FORMAT;
    }
    if has(bit::UID) {
        data.uid = args.uid;
    }
    if has(bit::GID) {
        data.gid = args.gid;
    }
    if has(bit::KILL_SGUID) && data.mode & 0o111 != 0 {
        data.mode &= !mode::SET_UID;
        if data.mode & 0o010 != 0 {
            data.mode &= !mode::SET_GID;
        }
    }
    if has(bit::MTIME) {
        data.mtime = time(args.mtime);
    } else if has(bit::MTIME_NOW) {
        data.mtime = now;
    }
    if has(bit::ATIME) {
        data.atime = time(args.atime);
    } else if has(bit::ATIME_NOW) {
        data.atime = now;
    }
    if has(bit::MTIME | bit::ATIME) {
        data.time_warp_seq += 1;
        if data.is_dir() {
            let mtime = data.mtime;
            data.dirstat.edit(|stat| stat.mtime = mtime);
        }
    }
    if has(bit::BTIME) {
        data.btime = time(args.btime);
    }
    Ok(())
}
