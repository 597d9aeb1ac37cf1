//! SETFILELOCK and GETFILELOCK.

use super::context::Cx;
use super::draft::Draft;
use super::plan::{Extra, LockChange, Plan, Reply};
use crate::filelock::{LockSet, Owner, UNLOCK};
use crate::types::{Need, Stop};
use fsfmt::{ClientRange, InodeKey};
use msgs::{FileLock, FileLockArgs};
use wire::Errno;
use wire::Writer;

const POSIX: u8 = 1;
const FLOCK: u8 = 2;

fn parts<'a>(cx: &Cx<'a>) -> Result<(InodeKey, FileLockArgs, Owner, Option<&'a LockSet>), Stop> {
    let target = cx.resolve(&cx.request.path)?;
    let args: FileLockArgs = cx.request.args.get();
    let owner = Owner { client: cx.client, owner: args.owner, pid: args.pid };
    let locks = cx.inode(target.ino)?.locks.as_deref();
    let set = match args.rule {
        POSIX => locks.map(|l| &l.posix),
        FLOCK => locks.map(|l| &l.flock),
        // Interrupts are handled before an operation begins.
        _ => return Err(Errno::EINVAL.into()),
    };
    Ok((target.ino, args, owner, set))
}

pub(super) fn set(cx: &Cx<'_>) -> Result<Plan, Stop> {
    let (ino, args, owner, set) = parts(cx)?;
    if args.kind != UNLOCK {
        wait_for_missing(cx, ino)?;
    }
    if args.kind != UNLOCK
        && set.is_some_and(|s| s.conflict(&owner, args.kind, args.start, args.length).is_some())
    {
        if args.wait == 0 {
            return Err(Errno::EAGAIN.into());
        }
        return Err(Need::Lock(ino).into());
    }
    let FileLockArgs { kind, start, length, .. } = args;
    let lock =
        LockChange { ino, posix: args.rule == POSIX, kind, owner: args.owner, pid: args.pid, start, length };
    let mut draft = Draft::new(cx.cache, cx.now);
    if kind != UNLOCK && !cx.inode(ino)?.data.ranges.contains_key(&cx.client.0) {
        // Recorded like a writer, so that the lock survives our restart.
        draft.inode(ino)?.ranges.insert(cx.client.0, ClientRange::default());
    }
    cx.finish(Plan { local: draft.finish(), lock: Some(lock), ..Plan::default() })
}

/// A client that has not reconnected after our restart may hold a lock that it has not claimed yet.
fn wait_for_missing(cx: &Cx<'_>, ino: InodeKey) -> Result<(), Stop> {
    if cx.inode(ino)?.caps.values().any(|c| c.is_presumed) {
        return Err(Need::Lock(ino).into());
    }
    Ok(())
}

pub(super) fn get(cx: &Cx<'_>) -> Result<Plan, Stop> {
    let (ino, args, owner, set) = parts(cx)?;
    wait_for_missing(cx, ino)?;
    let clash = set.and_then(|s| s.conflict(&owner, args.kind, args.start, args.length));
    let free = FileLock {
        start: args.start,
        length: args.length,
        client: cx.client.0,
        owner: args.owner,
        pid: args.pid,
        kind: UNLOCK,
    };
    let extra = Extra::Bytes(Writer::encode(&clash.unwrap_or(free)));
    Ok(Plan { reply: Reply { extra, ..Reply::default() }, ..Plan::default() })
}
