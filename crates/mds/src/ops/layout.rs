//! Layouts: how the bytes of files go to objects. They are set as xattrs of empty files, and of directories,
//! whose new files get the layout of the nearest directory that has one.

use super::context::Cx;
use super::draft::Draft;
use super::plan::{Plan, Reply};
use super::snap::revoke_below;
use crate::cap::ALL_FILE;
use crate::types::Stop;
use fsfmt::{Ino, InodeData, InodeKey};
use maps::FileLayout;
use msgs::{MdsOp, SetlayoutArgs, cap};
use std::collections::BTreeMap;
use stdx::Shared;
use wire::Errno;

const OF_FILE: &str = "ceph.file.layout";
const OF_DIR: &str = "ceph.dir.layout";

/// True if an xattr is a layout or a part of one.
pub(super) fn is_name(name: &[u8]) -> bool {
    name.starts_with(OF_FILE.as_bytes()) || name.starts_with(OF_DIR.as_bytes())
}

/// The layout of new files of a directory, as it or the nearest directory above it sets it.
/// The answer that tells it waits until all that it follows from is durable: a client writes by it.
pub(super) fn of_new_files(cx: &Cx<'_>, dir: InodeKey) -> Shared<FileLayout> {
    cx.see(cx.cache.layouts_changed);
    let dir = cx.cache.inodes.get(&dir).filter(|_| cx.cache.may_have_layouts);
    let layouts = dir.into_iter().flat_map(|dir| cx.cache.upwards(dir)).map(|inode| &inode.data.layout);
    let nearest = layouts.into_iter().find(|layout| is_set(layout)).cloned();
    nearest.unwrap_or_else(|| FileLayout::new(cx.cfg.data_pool).into())
}

fn is_set(layout: &FileLayout) -> bool {
    layout.stripe_unit > 0
}

/// Sets a layout or a part of it; without a value, removes it.
pub(super) fn set(cx: &Cx<'_>, name: &[u8], value: Option<&[u8]>) -> Result<Plan, Stop> {
    let name = std::str::from_utf8(name).map_err(|_| Errno::EINVAL)?;
    let target = cx.resolve(&cx.request.path)?.ino;
    let field = name.strip_prefix(OF_DIR).or_else(|| name.strip_prefix(OF_FILE)).ok_or(Errno::EINVAL)?;
    check_target(cx, target, name.starts_with(OF_DIR))?;
    if name == OF_DIR && value.is_none() {
        return change(cx, target, None);
    }
    let mut layout = present(cx, target)?;
    let value = std::str::from_utf8(value.unwrap_or_default()).map_err(|_| Errno::EINVAL)?;
    put(&mut layout, field, value.trim_end_matches('\0'), &cx.cfg.data_pools)?;
    change(cx, target, Some(layout))
}

/// SETLAYOUT and SETDIRLAYOUT: what is 0 stays.
pub(super) fn set_whole(cx: &Cx<'_>) -> Result<Plan, Stop> {
    let target = cx.resolve(&cx.request.path)?.ino;
    check_target(cx, target, cx.request.op == MdsOp::SETDIRLAYOUT)?;
    let asked = cx.request.args.get::<SetlayoutArgs>().layout;
    let mut layout = present(cx, target)?;
    let parts = [
        (&mut layout.object_size, asked.object_size),
        (&mut layout.stripe_unit, asked.stripe_unit),
        (&mut layout.stripe_count, asked.stripe_count),
    ];
    for (part, asked) in parts {
        *part = if asked > 0 { asked } else { *part };
    }
    layout.pool = if asked.pool > 0 { asked.pool.into() } else { layout.pool };
    change(cx, target, Some(layout))
}

/// Only a file that never had data may change its layout: nobody moves them.
fn check_target(cx: &Cx<'_>, target: InodeKey, is_dir: bool) -> Result<(), Stop> {
    let data = &cx.inode(target)?.data;
    let is_right = if is_dir { data.is_dir() } else { data.is_file() };
    if !is_right || target.is_base() && target.ino != Ino::ROOT {
        return Err(Errno::EINVAL.into());
    }
    if data.is_file() && (data.size > 0 || data.truncate_seq > 1) {
        return Err(Errno::ENOTEMPTY.into());
    }
    Ok(())
}

/// The layout of which a part is changed.
fn present(cx: &Cx<'_>, target: InodeKey) -> Result<FileLayout, Stop> {
    let data = &cx.inode(target)?.data;
    Ok(if is_set(&data.layout) { (*data.layout).clone() } else { (*of_new_files(cx, target)).clone() })
}

/// Sets a field of a layout, named as `.pool`, or with an empty name several: `pool=a stripe_count=2`.
fn put(
    layout: &mut FileLayout,
    field: &str,
    value: &str,
    pools: &BTreeMap<i64, String>,
) -> Result<(), Errno> {
    let number = || value.parse::<u32>().map_err(|_| Errno::EINVAL);
    let named = || {
        let found = pools.iter().find(|(_, name)| *name == value && !value.is_empty());
        found.map(|(pool, _)| *pool).ok_or(Errno::EINVAL)
    };
    match field {
        "" if value.is_empty() => return Err(Errno::EINVAL),
        "" => {
            for pair in value.split_ascii_whitespace() {
                let (key, value) =
                    pair.split_once('=').filter(|(key, _)| !key.is_empty()).ok_or(Errno::EINVAL)?;
                put(layout, &format!(".{key}"), value, pools)?;
            }
        }
        ".stripe_unit" => layout.stripe_unit = number()?,
        ".stripe_count" => layout.stripe_count = number()?,
        ".object_size" => layout.object_size = number()?,
        ".pool" => layout.pool = number().map(i64::from).or_else(|_| named())?,
        ".pool_id" => layout.pool = value.parse().map_err(|_| Errno::EINVAL)?,
        ".pool_name" => layout.pool = named()?,
        ".pool_namespace" => layout.pool_ns = value.to_owned(),
        _ => return Err(Errno::ENODATA),
    }
    Ok(())
}

/// Sets the layout of a file or directory, or removes that of a directory.
fn change(cx: &Cx<'_>, target: InodeKey, layout: Option<FileLayout>) -> Result<Plan, Stop> {
    let is_good = |layout: &FileLayout| layout.is_valid() && cx.cfg.data_pools.contains_key(&layout.pool);
    if layout.as_ref().is_some_and(|layout| !is_good(layout)) {
        return Err(Errno::EINVAL.into());
    }
    let layout = layout.unwrap_or_default();
    let reply = Reply { target: Some(target), ..Reply::default() };
    let data = &cx.inode(target)?.data;
    if *data.layout == layout || !is_set(&layout) && !is_set(&data.layout) {
        return Ok(Plan { reply, ..Plan::default() });
    }
    if data.is_dir() {
        cx.gather_below(target)?;
        forget_below(cx, target)?;
    } else {
        // Data that a client has buffered go to the objects of the old one, and the file is not empty.
        cx.revoke(target, None, ALL_FILE);
    }
    cx.revoke_others(target, cap::XATTR_SHARED);
    cx.revoke(target, None, cap::XATTR_EXCL);
    let mut draft = Draft::new(cx.cache, cx.now);
    draft.changed(target)?.layout = layout.into();
    cx.finish(Plan { local: draft.finish(), reply, touched: vec![target], ..Plan::default() })
}

/// Requires that no client knows the layout of new files in or below a directory: who creates
/// asynchronously writes data by it before we are asked.
fn forget_below(cx: &Cx<'_>, dir: InodeKey) -> Result<(), Stop> {
    revoke_below(cx, dir, cap::DIR_ASYNC, |inode| inode.data.is_dir())
}

/// The same for what moves from one directory to another, if new files get another layout there.
pub(super) fn forget_if_other(
    cx: &Cx<'_>,
    moved: InodeKey,
    from: InodeKey,
    to: InodeKey,
) -> Result<(), Stop> {
    let data = &cx.inode(moved)?.data;
    let keeps = !data.is_dir() || is_set(&data.layout);
    if keeps || from == to || of_new_files(cx, from) == of_new_files(cx, to) {
        return Ok(());
    }
    forget_below(cx, moved)
}

/// The value of an xattr that is an inode's own layout, or a part of it.
pub(super) fn get(cx: &Cx<'_>, data: &InodeData, name: &[u8]) -> Option<String> {
    let layout = Some(&*data.layout).filter(|layout| is_set(layout))?;
    let prefix = if data.is_dir() { OF_DIR } else { OF_FILE };
    let field = std::str::from_utf8(name).ok()?.strip_prefix(prefix)?;
    let pool = || cx.cfg.data_pools.get(&layout.pool).filter(|name| !name.is_empty());
    layout.text(field, pool().map_or("", String::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_fields_or_lists_of_them() {
        let pools = BTreeMap::from([(2, "data".to_owned()), (7, "fast".to_owned())]);
        let set = |field, value| {
            let mut layout = FileLayout::new(2);
            put(&mut layout, field, value, &pools).map(|()| layout)
        };
        let base = FileLayout::new(2);
        let with_pool = |pool| Ok(FileLayout { pool, ..base.clone() });
        assert_eq!(set(".pool", "7"), with_pool(7));
        assert_eq!(set(".pool", "fast"), with_pool(7));
        assert_eq!(set(".pool_name", "fast"), with_pool(7));
        assert_eq!(set(".pool_id", "9"), with_pool(9), "the whole is checked later");
        assert_eq!(set(".stripe_count", "3"), Ok(FileLayout { stripe_count: 3, ..base.clone() }));
        let both = FileLayout { stripe_unit: 65536, pool_ns: "n".into(), ..base.clone() };
        assert_eq!(set("", "stripe_unit=65536 pool_namespace=n"), Ok(both));
        for (field, value) in [
            ("", ""),
            ("", "pool"),
            ("", "=3"),
            (".pool", "slow"),
            (".pool_name", "7"),
            (".object_size", "-1"),
        ] {
            assert_eq!(set(field, value), Err(Errno::EINVAL), "{field}: {value}");
        }
        assert_eq!(set(".size", "1"), Err(Errno::ENODATA));
        assert_eq!(set("", "size=1"), Err(Errno::ENODATA));
    }
}
