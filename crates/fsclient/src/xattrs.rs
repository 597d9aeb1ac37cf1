//! Extended attributes: stored ones, and those that describe layout and statistics.

use crate::api::Answer;
use crate::inode::Attributes;
use crate::op::{Step, done, fail};
use wire::{Errno, Timespec};

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
    let (layout, (files, subdirs)) = (attrs.layout(), attrs.entries());
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
        b"ceph.snap.btime" if attrs.snap_btime() != Timespec::default() => {
            let Timespec { sec, nsec } = attrs.snap_btime();
            Some(format!("{sec}.{nsec:09}"))
        }
        _ => None,
    }
}
