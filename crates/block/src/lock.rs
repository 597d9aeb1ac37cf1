//! The lock on an image: class `lock` on its header, with the names that librbd and the kernel's driver use.
//!
//! Whoever holds it watches the header with the number in the lock's cookie. So another client can ask for
//! the lock, and sees by the watch if the owner is alive. A dead owner is put on the cluster's blocklist
//! before its lock is broken: what it may have on its way is refused by the OSDs.

use crate::call::{Call, ObjectCall, Place, method_of};
use crate::error::Error;
use crate::format::{header_object, map_object};
use crate::header::Header;
use crate::notify::{ClientId, Message, response_of};
use crate::script::{Cx, Flow, decode};
use maps::SnapId;
use msgs::Op;
use msgs::class::lock::kind::EXCLUSIVE;
use msgs::class::lock::{
    AssertOp, BreakOp, GetInfoOp, LockInfo, LockOp, Locker, LockerId, SetCookieOp, UnlockOp,
};
use msgs::op::input::ListWatchersReply;
use std::time::Duration;
use wire::{EntityId, Errno, Writer};

/// The name of the lock.
const NAME: &[u8] = b"rbd_lock";
/// The tag of locks that clients take by themselves.
const TAG: &[u8] = b"internal";
/// Such locks' cookies begin with it; the number of the watch follows.
const COOKIE: &str = "auto ";
/// The time that the owner has for an answer.
pub(crate) const NOTIFY_TIMEOUT: Duration = Duration::from_secs(5);

fn name() -> Vec<u8> {
    NAME.to_vec()
}

fn cookie(watch: u64) -> Vec<u8> {
    format!("{COOKIE}{watch}").into_bytes()
}

fn take(cookie: Vec<u8>, tag: &[u8]) -> Op {
    let op = LockOp { name: name(), kind: EXCLUSIVE, cookie, tag: tag.to_vec(), ..LockOp::default() };
    method_of("lock", "lock", Writer::encode(&op))
}

fn release(cookie: Vec<u8>) -> Op {
    method_of("lock", "unlock", Writer::encode(&UnlockOp { name: name(), cookie }))
}

/// The input of `assert_locked` for an object map.
pub(crate) fn map_assert() -> Vec<u8> {
    Writer::encode(&AssertOp { name: name(), kind: EXCLUSIVE, ..AssertOp::default() })
}

/// An operation that fails with EBUSY unless this client has the image's lock.
pub(crate) fn assert_held(watch: u64) -> Op {
    let op = AssertOp { name: name(), kind: EXCLUSIVE, cookie: cookie(watch), tag: TAG.to_vec() };
    method_of("lock", "assert_locked", Writer::encode(&op))
}

/// The outcome of an attempt to take the lock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Attempt {
    /// It is ours.
    Taken,
    /// Its owner is alive and has been asked for it.
    Asked {
        /// The owner's name and address.
        owner: String,
        /// It will give it back.
        agreed: bool,
    },
}

/// Tries to take the lock once.
pub(crate) fn attempt(cx: &mut Cx<'_>, place: &Place, id: &str, me: ClientId) -> Flow<Attempt> {
    let object = header_object(id);
    // Each round but the last ends because the lock has changed hands.
    loop {
        let lock = || ObjectCall::new(place, object.clone(), vec![take(cookie(me.handle), TAG)]);
        match cx.object(lock)?.result() {
            Ok(()) | Err(Errno::EEXIST) => return Ok(Attempt::Taken),
            Err(Errno::EBUSY) => {}
            Err(errno) => return Err(Error::of(errno, "cannot lock the image").into()),
        }
        if let Some(asked) = ask_or_break(cx, place, &object, me)? {
            return Ok(asked);
        }
    }
}

/// Asks the owner for the lock if it is alive, and breaks its lock if it is not.
fn ask_or_break(cx: &mut Cx<'_>, place: &Place, object: &[u8], me: ClientId) -> Flow<Option<Attempt>> {
    const WHAT: &str = "cannot find the owner of the image's lock";
    let answer = cx.object_ok(WHAT, || {
        let info = Writer::encode(&GetInfoOp { name: name() });
        ObjectCall::new(place, object, vec![method_of("lock", "get_info", info), Op::ListWatchers])
    })?;
    let info: LockInfo = decode(WHAT, &answer.output(0))?;
    let watchers: ListWatchersReply = decode(WHAT, &answer.output(1))?;
    let Some((locker, by)) = info.lockers.first_key_value() else { return Ok(None) };
    let owner = format!("{} at {}", shown(locker.client), by.addr.legacy_string());
    let handle = watch_of(&locker.cookie);
    if info.tag != TAG || info.kind != EXCLUSIVE {
        let text = format!(
            "the image has been locked by hand, by {owner}: `rbd lock ls` shows the lock, `rbd lock rm` ends \
             it"
        );
        return Err(Error::new(Errno::EBUSY, text).into());
    }
    let same = |w: &msgs::op::input::WatchItem| {
        w.addr.addr == by.addr.addr && w.addr.nonce == by.addr.nonce && Some(w.cookie) == handle
    };
    if watchers.entries.iter().any(same) {
        let answer = cx.call(|| Call::Notify {
            place: place.clone(),
            object: object.to_vec(),
            payload: Message::RequestLock(me).encode(),
            timeout: NOTIFY_TIMEOUT,
        })?;
        return match response_of(answer) {
            Some(Err(Errno::EROFS)) => {
                let text = format!("{owner} has the image, and does not give it away: unmap it there first");
                Err(Error::new(Errno::EBUSY, text).into())
            }
            response => Ok(Some(Attempt::Asked { owner, agreed: response == Some(Ok(())) })),
        };
    }
    break_dead(cx, place, object, locker, by, &owner)?;
    Ok(None)
}

fn break_dead(
    cx: &mut Cx<'_>,
    place: &Place,
    object: &[u8],
    locker: &LockerId,
    by: &Locker,
    owner: &str,
) -> Flow<()> {
    if !stdx::mutants::is_active("block_breaks_locks_of_the_living") {
        exclude(cx, by, owner)?;
    }
    let op = BreakOp { name: name(), locker: locker.client, cookie: locker.cookie.clone() };
    let broken = cx.object(|| {
        ObjectCall::new(place, object, vec![method_of("lock", "break_lock", Writer::encode(&op))])
    })?;
    match broken.result() {
        Ok(()) | Err(Errno::ENOENT) => Ok(()),
        Err(errno) => Err(Error::of(errno, &format!("cannot break the lock of {owner}, who is dead")).into()),
    }
}

/// Puts an owner on the blocklist, and waits until what follows is sent with the map that says so.
fn exclude(cx: &mut Cx<'_>, by: &Locker, owner: &str) -> Flow<()> {
    let answer = cx.call(|| {
        let addr = by.addr.legacy_string();
        let command = serde_json::json!({ "prefix": "osd blocklist", "blocklistop": "add", "addr": addr });
        Call::Command(command.to_string())
    })?;
    if let Err(errno) = answer.result() {
        let text = format!(
            "{owner} had the image and is dead, but cannot be put on the blocklist ({}): this key needs `mon \
             'profile rbd'`",
            errno.text()
        );
        return Err(Error::new(errno, text).into());
    }
    cx.call(|| Call::NewestMap)?.result().map_err(|errno| Error::of(errno, "no newer map"))?;
    Ok(())
}

fn shown(client: EntityId) -> String {
    format!("client.{}", client.num)
}

fn watch_of(cookie: &[u8]) -> Option<u64> {
    std::str::from_utf8(cookie).ok()?.strip_prefix(COOKIE)?.parse().ok()
}

/// Gives the image's lock back, and that of its object map.
pub(crate) fn give_back(cx: &mut Cx<'_>, header: &Header, watch: u64) -> Flow<()> {
    if header.has(crate::format::feature::OBJECT_MAP) {
        cx.object(|| {
            let map = map_object(&header.id, SnapId::HEAD);
            ObjectCall::new(&header.place, map, vec![release(Vec::new())])
        })?;
    }
    match cx.object(|| header.on(vec![release(cookie(watch))]))?.result() {
        // Somebody has broken it.
        Ok(()) | Err(Errno::ENOENT) => Ok(()),
        Err(errno) => Err(Error::of(errno, "cannot unlock the image").into()),
    }
}

/// After the watch was lost and begun again under another number, the lock gets that number.
pub(crate) fn rename(cx: &mut Cx<'_>, header: &Header, old: u64, new: u64) -> Flow<()> {
    let (cookie, new_cookie) = (cookie(old), cookie(new));
    let op = SetCookieOp { name: name(), kind: EXCLUSIVE, cookie, tag: TAG.to_vec(), new_cookie };
    let set = || header.on(vec![method_of("lock", "set_cookie", Writer::encode(&op))]);
    cx.object_ok("another client has taken the image", set)?;
    Ok(())
}

/// Takes the lock on the object map. Only the owner of the image's lock does, so whoever has it is dead.
pub(crate) fn take_map(cx: &mut Cx<'_>, header: &Header) -> Flow<()> {
    const WHAT: &str = "cannot lock the image's object map";
    let on = |ops| ObjectCall::new(&header.place, map_object(&header.id, SnapId::HEAD), ops);
    loop {
        match cx.object(|| on(vec![take(Vec::new(), b"")]))?.result() {
            Ok(()) | Err(Errno::EEXIST) => return Ok(()),
            Err(Errno::EBUSY) => {}
            Err(errno) => return Err(Error::of(errno, WHAT).into()),
        }
        let info = method_of("lock", "get_info", Writer::encode(&GetInfoOp { name: name() }));
        let info: LockInfo = decode(WHAT, &cx.object_ok(WHAT, || on(vec![info]))?.output(0))?;
        cx.all(|| {
            let broken = |id: &LockerId| {
                let op = BreakOp { name: name(), locker: id.client, cookie: id.cookie.clone() };
                Call::Object(on(vec![method_of("lock", "break_lock", Writer::encode(&op))]))
            };
            info.lockers.keys().map(broken).collect()
        })?;
    }
}
