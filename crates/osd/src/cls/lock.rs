//! `lock`: advisory locks on an object, exclusive or shared, in an xattr for each lock's name.

use super::class::{Class, Method, MethodResult, done, fail, input, output, reader, updater};
use super::object::{MethodStop, Object};
use msgs::class::lock::{
    AssertOp, BreakOp, GetInfoOp, ListLocksReply, LockInfo, LockOp, Locker, LockerId, SetCookieOp, UnlockOp,
    kind,
};
use wire::{AddrType, Errno, Reader, Utime, Writer};

pub struct Lock;

impl Class for Lock {
    fn name(&self) -> &'static str {
        "lock"
    }

    fn methods(&self) -> &'static [Method] {
        const {
            &[
                updater("lock", lock),
                updater("unlock", unlock),
                updater("break_lock", break_lock),
                reader("get_info", get_info),
                reader("list_locks", list_locks),
                reader("assert_locked", assert_locked),
                updater("set_cookie", set_cookie),
            ]
        }
    }
}

/// Prefix of the locks' xattrs.
const PREFIX: &[u8] = b"lock.";

/// The holder may take the lock again.
const MAY_RENEW: u8 = 1;
/// Only the holder may take the lock again.
const MUST_RENEW: u8 = 2;

fn attr_of(name: &[u8]) -> Vec<u8> {
    [PREFIX, name].concat()
}

/// Loads the lock without its expired holders.
fn load(o: &Object<'_, '_>, name: &[u8]) -> Result<LockInfo, MethodStop> {
    let Some(stored) = o.xattr(&attr_of(name))? else { return Ok(LockInfo::default()) };
    let mut lock: LockInfo = Reader::new(stored).get().map_err(|_| Errno::EIO)?;
    let now = o.now();
    lock.lockers.retain(|_, l| l.expiration == Utime::default() || l.expiration >= now);
    Ok(lock)
}

fn save(o: &mut Object<'_, '_>, name: &[u8], lock: &LockInfo) -> MethodResult {
    o.set_xattr(&attr_of(name), Writer::encode(lock))?;
    done()
}

fn lock(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let op: LockOp = input(bytes)?;
    let (may_renew, must_renew) = (op.flags & MAY_RENEW != 0, op.flags & MUST_RENEW != 0);
    if !kind::is_known(op.kind) || op.name.is_empty() || may_renew && must_renew {
        return fail(Errno::EINVAL);
    }
    let mut info = load(o, &op.name)?;
    if !info.lockers.is_empty() && op.tag != info.tag {
        return fail(Errno::EBUSY);
    }
    let (client, mut addr) = o.caller();
    let id = LockerId { client, cookie: op.cookie };
    match info.lockers.contains_key(&id) {
        true if !may_renew && !must_renew => return fail(Errno::EEXIST),
        false if must_renew => return fail(Errno::ENOENT),
        _ => info.lockers.remove(&id),
    };
    let others = !info.lockers.is_empty() && !stdx::mutants::is_active("osd_locks_for_everybody");
    if others && (op.kind != kind::SHARED || info.kind != op.kind) {
        return fail(Errno::EBUSY);
    }
    // The address that a client shows depends on its peer; the oldest form fits all.
    addr.ty = AddrType::LEGACY;
    let expiration = if op.duration == Utime::default() { op.duration } else { sum(o.now(), op.duration) };
    (info.kind, info.tag) = (op.kind, op.tag);
    info.lockers.insert(id, Locker { expiration, addr, description: op.description });
    save(o, &op.name, &info)
}

fn sum(a: Utime, b: Utime) -> Utime {
    let nsec = u64::from(a.nsec) + u64::from(b.nsec);
    let sec = u64::from(a.sec) + u64::from(b.sec) + nsec / 1_000_000_000;
    Utime { sec: u32::try_from(sec).unwrap_or(u32::MAX), nsec: (nsec % 1_000_000_000) as u32 }
}

fn release(o: &mut Object<'_, '_>, name: &[u8], id: &LockerId) -> MethodResult {
    let mut info = load(o, name)?;
    info.lockers.remove(id).ok_or(Errno::ENOENT)?;
    if info.kind == kind::EPHEMERAL {
        o.remove()?;
        return done();
    }
    save(o, name, &info)
}

fn unlock(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let op: UnlockOp = input(bytes)?;
    let client = o.caller().0;
    release(o, &op.name, &LockerId { client, cookie: op.cookie })
}

fn break_lock(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let op: BreakOp = input(bytes)?;
    release(o, &op.name, &LockerId { client: op.locker, cookie: op.cookie })
}

fn get_info(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let op: GetInfoOp = input(bytes)?;
    output(&load(o, &op.name)?)
}

fn list_locks(o: &mut Object<'_, '_>, _: &[u8]) -> MethodResult {
    let locks = o.xattr_names()?.filter_map(|name| name.strip_prefix(PREFIX)).map(<[u8]>::to_vec);
    output(&ListLocksReply { locks: locks.collect() })
}

/// The lock, if the caller holds it exactly as stated.
fn held(o: &Object<'_, '_>, op: &AssertOp) -> Result<(LockInfo, LockerId), MethodStop> {
    if !kind::is_known(op.kind) || op.name.is_empty() {
        return fail(Errno::EINVAL);
    }
    let info = load(o, &op.name)?;
    let id = LockerId { client: o.caller().0, cookie: op.cookie.clone() };
    let same = info.kind == op.kind && info.tag == op.tag;
    if !same || !info.lockers.contains_key(&id) {
        return fail(Errno::EBUSY);
    }
    Ok((info, id))
}

fn assert_locked(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    held(o, &input(bytes)?)?;
    done()
}

fn set_cookie(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let SetCookieOp { name, kind, cookie, tag, new_cookie } = input(bytes)?;
    let (mut info, old) = held(o, &AssertOp { name: name.clone(), kind, cookie, tag })?;
    let new = LockerId { client: old.client, cookie: new_cookie };
    if info.lockers.contains_key(&new) {
        return fail(Errno::EBUSY);
    }
    let locker = info.lockers.remove(&old).ok_or(Errno::EBUSY)?;
    info.lockers.insert(new, locker);
    save(o, &name, &info)
}
