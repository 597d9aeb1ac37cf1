//! SETFILELOCK and GETFILELOCK.

use super::context::Cx;
use super::draft::Draft;
use super::plan::{Extra, Plan, Reply};
use crate::locks::{Ask, Mode, Style};
use crate::types::{Need, Stop};
use fsfmt::{ClientRange, InodeKey};
use msgs::{FileLock, FileLockArgs, lock_kind};
use wire::Errno;
use wire::Writer;

fn asked(cx: &Cx<'_>) -> Result<(Ask, FileLockArgs), Stop> {
    let target = cx.resolve(&cx.request.path)?;
    cx.inode(target.ino)?;
    let args: FileLockArgs = cx.request.args.get();
    Ok((Ask::new(target.ino, cx.client, &args)?, args))
}

pub(super) fn set(cx: &Cx<'_>) -> Result<Plan, Stop> {
    let (ask, args) = asked(cx)?;
    let ino = ask.ino;
    if ask.mode != Mode::Free {
        wait_for_missing(cx, ino)?;
    }
    if cx.cache.locks.conflict(&ask).is_some() {
        if args.wait == 0 {
            return Err(Errno::EAGAIN.into());
        }
        if ask.style == Style::Posix && cx.cache.locks.would_deadlock(&ask) {
            return Err(Errno::EDEADLK.into());
        }
        return Err(Need::Lock(ino).into());
    }
    let mut draft = Draft::new(cx.cache, cx.now);
    if ask.mode != Mode::Free && !cx.inode(ino)?.data.ranges.contains_key(&cx.client.0) {
        // Recorded like a writer, so that the lock survives our restart.
        draft.inode(ino)?.ranges.insert(cx.client.0, ClientRange::default());
    }
    cx.finish(Plan { local: draft.finish(), lock: Some(ask), ..Plan::default() })
}

/// A client that has not reconnected after our restart may hold a lock that it has not claimed yet; so may
/// one that has, if another rank is about to hand the file over.
fn wait_for_missing(cx: &Cx<'_>, ino: InodeKey) -> Result<(), Stop> {
    let inode = cx.inode(ino)?;
    if !inode.under_way.unclaimed.is_empty() || inode.caps.values().any(|c| c.is_presumed) {
        return Err(Need::Lock(ino).into());
    }
    Ok(())
}

pub(super) fn get(cx: &Cx<'_>) -> Result<Plan, Stop> {
    let (ask, args) = asked(cx)?;
    wait_for_missing(cx, ask.ino)?;
    let free = FileLock {
        start: args.start,
        length: args.length,
        client: cx.client.0,
        owner: args.owner,
        pid: args.pid,
        kind: lock_kind::UNLOCK,
    };
    let extra = Extra::Bytes(Writer::encode(&cx.cache.locks.conflict(&ask).unwrap_or(free)));
    Ok(Plan { reply: Reply { extra, ..Reply::default() }, ..Plan::default() })
}
