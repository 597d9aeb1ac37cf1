//! OPEN and CREATE.

use super::context::Cx;
use super::draft::Draft;
use super::flags::is_async;
use super::getattr::gather;
use super::make::{link_new, new_inode};
use super::open_flags::{self as flag, wanted, wanted_by_create};
use super::plan::{Extra, Plan, Reply};
use super::setattr::truncate;
use crate::cap::conflicts;
use crate::types::{Place, Stop};
use fsfmt::{ClientRange, InodeKey, mode};
use msgs::{OpenArgs, cap};
use wire::Errno;

pub(super) fn open(cx: &Cx<'_>) -> Result<Plan, Stop> {
    let target = cx.resolve(&cx.request.path)?;
    open_existing(cx, target.ino, target.place)
}

fn open_existing(cx: &Cx<'_>, ino: InodeKey, place: Option<Place>) -> Result<Plan, Stop> {
    let flags = cx.request.args.get::<OpenArgs>().flags;
    let inode = cx.inode(ino)?;
    let writes = flags & flag::ACCESS != 0;
    let data = &inode.data;
    if data.is_dir() && (writes || flags & flag::TRUNC != 0) {
        return Err(Errno::EISDIR.into());
    }
    if !data.is_dir() && flags & flag::DIRECTORY != 0 {
        return Err(Errno::ENOTDIR.into());
    }
    // Caps are wanted on files only. The client itself handles symbolic links.
    let want = if data.is_file() { wanted(flags) } else { cap::PIN };
    let dentry = place.filter(|_| cx.wants_dentry());
    let reply = Reply { dentry, target: Some(ino), want, ..Reply::default() };
    let mut draft = Draft::new(cx.cache, cx.now);
    if data.is_file()
        && writes
        && flags & flag::TRUNC != 0
        && (data.size > 0 || inode.held_by_others(None) & CHANGES != 0)
    {
        truncate(cx, &mut draft, ino, 0)?;
    }
    if data.is_file() && writes && !inode.is_recorded(cx.client) {
        grant_range(cx, &mut draft, ino)?;
    }
    let waits_to_read = conflicts(inode.held_by_others(Some(cx.client.into()))) & cap::FILE_RD != 0;
    if data.is_file() && data.size == 0 && !waits_to_read {
        // From a file of which it was told that it is empty Linux reads nothing, although others who write to
        // it may have told nothing yet. (Who has to wait for the right to read is told the size with that.)
        gather(cx, ino, cap::FILE_SHARED);
    }
    cx.finish(Plan { local: draft.finish(), reply, touched: vec![ino], ..Plan::default() })
}

/// Bits under which a client may have made the file longer than is known here.
const CHANGES: u32 = cap::FILE_WR | cap::FILE_BUFFER | cap::FILE_EXCL;

/// Grants the client a size somewhat beyond the present end.
fn grant_range(cx: &Cx<'_>, draft: &mut Draft<'_>, ino: InodeKey) -> Result<(), Stop> {
    let data = draft.inode(ino)?;
    let max_size = cx.max_size_for(data.size);
    data.ranges.insert(cx.client.0, ClientRange { max_size, ..ClientRange::default() });
    data.max_size_ever = data.max_size_ever.max(max_size);
    Ok(())
}

pub(super) fn create(cx: &Cx<'_>) -> Result<Plan, Stop> {
    let args: OpenArgs = cx.request.args.get();
    let (dir, key) = cx.parent(&cx.request.path)?;
    if let Some(ino) = cx.entry(dir, &key)?.inode() {
        if args.flags & flag::EXCL != 0 || cx.is_replay() || is_async(cx.request) {
            // A client that was told, or has told its caller, that it made a file does not open another one
            // instead.
            return Err(Errno::EEXIST.into());
        }
        return open_existing(cx, ino, Some((dir, key)));
    }
    let mut data = new_inode(cx, &cx.dir_of(dir)?.data, args.mode & !mode::FORMAT | mode::FILE)?;
    // One that creates asynchronously may have written up to the stripe unit.
    let max_size = cx.max_size_for(0).max(data.layout.stripe_unit.into());
    data.ranges.insert(cx.client.0, ClientRange { max_size, ..ClientRange::default() });
    data.max_size_ever = max_size;
    let ino = data.ino;
    let mut plan = link_new(cx, (dir, key), data, wanted_by_create(cx.request))?;
    plan.reply.is_assumed = is_async(cx.request);
    plan.reply.extra = Extra::Created(ino);
    Ok(plan)
}
