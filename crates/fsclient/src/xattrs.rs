//! Extended attributes: stored ones, and those that describe layout and statistics.

use crate::acl;
use crate::api::Answer;
use crate::inode::Attributes;
use crate::op::{Step, done, fail};
use wire::{Errno, Timespec};

/// The name spaces of xattrs. The kernel decides who may use them; FUSE hands others to us too.
const SPACES: [&[u8]; 4] = [b"user.", b"trusted.", b"security.", b"ceph."];

/// The error of a name that no file system of Linux would take.
pub(crate) fn refuse(name: &[u8]) -> Option<Errno> {
    let is_acl = name == acl::ACCESS || name == acl::DEFAULT;
    let space = SPACES.iter().find(|space| name.starts_with(space));
    match space {
        Some(space) if name.len() == space.len() => Some(Errno::EINVAL),
        None if !is_acl => Some(Errno::EOPNOTSUPP),
        _ => None,
    }
}

/// The value of an xattr.
pub(crate) fn get(attrs: &Attributes, name: &[u8]) -> Step {
    let stored = || attrs.xattrs().get(name).cloned();
    match virtual_value(attrs, name).map(String::into_bytes).or_else(stored) {
        Some(value) => done(Answer::Data(value.into())),
        None => fail(Errno::ENODATA),
    }
}

/// The names of all stored xattrs.
pub(crate) fn list(attrs: &Attributes) -> Step {
    done(Answer::Names(attrs.xattrs().keys().cloned().collect()))
}

/// The value of an xattr that is computed.
fn virtual_value(attrs: &Attributes, name: &[u8]) -> Option<String> {
    let (layout, quota, (files, subdirs)) = (attrs.layout(), attrs.quota(), attrs.entries());
    match name {
        b"ceph.file.layout" | b"ceph.dir.layout" if !attrs.is_dir() || layout.stripe_unit > 0 => {
            Some(format!(
                "stripe_unit={} stripe_count={} object_size={} pool={}",
                layout.stripe_unit, layout.stripe_count, layout.object_size, layout.pool
            ))
        }
        b"ceph.dir.entries" if attrs.is_dir() => Some((files + subdirs).to_string()),
        b"ceph.dir.files" if attrs.is_dir() => Some(files.to_string()),
        b"ceph.dir.subdirs" if attrs.is_dir() => Some(subdirs.to_string()),
        b"ceph.dir.rbytes" if attrs.is_dir() => Some(attrs.rbytes().to_string()),
        b"ceph.dir.rfiles" if attrs.is_dir() => Some(attrs.recursive_counts().0.to_string()),
        b"ceph.dir.rsubdirs" if attrs.is_dir() => Some(attrs.recursive_counts().1.to_string()),
        b"ceph.dir.rentries" if attrs.is_dir() => Some(attrs.recursive_entries().to_string()),
        b"ceph.quota" if quota.is_enabled() => {
            Some(format!("max_bytes={} max_files={}", quota.max_bytes, quota.max_files))
        }
        b"ceph.quota.max_bytes" if quota.is_enabled() => Some(quota.max_bytes.to_string()),
        b"ceph.quota.max_files" if quota.is_enabled() => Some(quota.max_files.to_string()),
        b"ceph.snap.btime" if attrs.snap_btime() != Timespec::default() => {
            let Timespec { sec, nsec } = attrs.snap_btime();
            Some(format!("{sec}.{nsec:09}"))
        }
        _ => None,
    }
}
