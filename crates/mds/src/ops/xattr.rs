//! SETXATTR, RMXATTR and GETVXATTR. Names below `ceph.` are not attributes but settings; of these quotas,
//! layouts and pins can be set.

use super::context::Cx;
use super::draft::Draft;
use super::layout;
use super::pin;
use super::plan::{Extra, Plan, Reply};
use super::quota;
use crate::types::Stop;
use msgs::{SetxattrArgs, cap};
use wire::Errno;
use wire::Writer;

const CREATE: u32 = 1;
const REPLACE: u32 = 2;
const REMOVE: u32 = 4;
/// Bytes of all names and values of an inode.
const MAX_XATTR_BYTES: usize = 64 << 10;

fn name_of<'a>(cx: &Cx<'a>) -> Result<&'a [u8], Stop> {
    let name = cx.request.path2.path.as_slice();
    if name.is_empty() || name.len() > 255 {
        return Err(Errno::ERANGE.into());
    }
    if name.starts_with(b"ceph.") {
        return Err(Errno::EOPNOTSUPP.into());
    }
    Ok(name)
}

pub(super) fn set(cx: &Cx<'_>) -> Result<Plan, Stop> {
    let flags = cx.request.args.get::<SetxattrArgs>().flags;
    if quota::is_name(&cx.request.path2.path) {
        let value = cx.request.data.to_vec();
        return quota::set(cx, &cx.request.path2.path, (flags & REMOVE == 0).then_some(&value));
    }
    if layout::is_name(&cx.request.path2.path) {
        let value = cx.request.data.to_vec();
        return layout::set(cx, &cx.request.path2.path, (flags & REMOVE == 0).then_some(&value));
    }
    if pin::is_name(&cx.request.path2.path) {
        let value = cx.request.data.to_vec();
        return pin::set(cx, &cx.request.path2.path, (flags & REMOVE == 0).then_some(&value));
    }
    let name = name_of(cx)?;
    if flags & REMOVE != 0 {
        return remove(cx);
    }
    let target = cx.resolve(&cx.request.path)?;
    let data = &cx.inode(target.ino)?.data;
    let exists = data.xattrs.contains_key(name);
    if flags & CREATE != 0 && exists {
        return Err(Errno::EEXIST.into());
    }
    if flags & REPLACE != 0 && !exists {
        return Err(Errno::ENODATA.into());
    }
    let value = cx.request.data.to_vec();
    let others: usize = data.xattrs.iter().filter(|(n, _)| *n != name).map(|(n, v)| n.len() + v.len()).sum();
    if others + name.len() + value.len() > MAX_XATTR_BYTES {
        return Err(Errno::ENOSPC.into());
    }
    change(cx, target.ino, |xattrs| drop(xattrs.insert(name.to_vec(), value)))
}

pub(super) fn remove(cx: &Cx<'_>) -> Result<Plan, Stop> {
    if quota::is_name(&cx.request.path2.path) {
        return quota::set(cx, &cx.request.path2.path, None);
    }
    if layout::is_name(&cx.request.path2.path) {
        return layout::set(cx, &cx.request.path2.path, None);
    }
    if pin::is_name(&cx.request.path2.path) {
        return pin::set(cx, &cx.request.path2.path, None);
    }
    let name = name_of(cx)?;
    let target = cx.resolve(&cx.request.path)?;
    if !cx.inode(target.ino)?.data.xattrs.contains_key(name) {
        return Err(Errno::ENODATA.into());
    }
    change(cx, target.ino, |xattrs| drop(xattrs.remove(name)))
}

fn change(
    cx: &Cx<'_>,
    ino: fsfmt::InodeKey,
    edit: impl FnOnce(&mut std::collections::BTreeMap<Vec<u8>, Vec<u8>>),
) -> Result<Plan, Stop> {
    cx.revoke_others(ino, cap::XATTR_SHARED);
    cx.revoke(ino, None, cap::XATTR_EXCL);
    let mut draft = Draft::new(cx.cache, cx.now);
    let data = draft.changed(ino)?;
    data.xattrs.edit(edit);
    data.xattr_version += 1;
    let reply = Reply { target: Some(ino), ..Reply::default() };
    cx.finish(Plan { local: draft.finish(), reply, touched: vec![ino], ..Plan::default() })
}

/// Returns virtual attributes that clients cannot derive themselves.
pub(super) fn get_virtual(cx: &Cx<'_>) -> Result<Plan, Stop> {
    let target = cx.resolve(&cx.request.path)?;
    let data = &cx.inode(target.ino)?.data;
    let text = match cx.request.path2.path.as_slice() {
        name if layout::is_name(name) => layout::get(cx, data, name).ok_or(Errno::ENODATA)?,
        name if pin::is_name(name) => pin::get(data, name),
        _ => return Err(Errno::ENODATA.into()),
    };
    let mut w = Writer::new();
    w.versioned(1, 1, |w| w.put(&text));
    let reply = Reply { extra: Extra::Bytes(w.into_vec()), ..Reply::default() };
    Ok(Plan { reply, ..Plan::default() })
}
