//! Extended attributes: stored ones, and those that describe layout and statistics.

use crate::acl;
use crate::api::Answer;
use crate::inode::{Attributes, Inode};
use crate::layout_json;
use crate::mds_request::is_remote;
use crate::op::{Step, done, fail};
use maps::OsdMap;
use msgs::cap;
use wire::{Errno, Reader, Timespec};

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

/// What xattrs tell besides what is known of their inode.
#[derive(Clone, Copy)]
pub(crate) struct World<'a> {
    /// The OSD map, which names the pools.
    pub(crate) osdmap: &'a OsdMap,
    /// The number of this client.
    pub(crate) client: u64,
}

/// The value of an xattr of which only a metadata server can tell.
pub(crate) fn told(extra: &[u8]) -> Step {
    match Reader::new(extra).versioned(1, |_, r| r.get::<String>()) {
        Ok(text) => done(Answer::Data(text.into_bytes().into())),
        Err(_) => fail(Errno::EIO),
    }
}

/// True if the value of an xattr is known here without asking.
pub(crate) fn is_known(inode: &Inode, name: &[u8]) -> bool {
    match name {
        _ if is_remote(name) => false,
        b"ceph.caps" | b"ceph.auth_mds" | b"ceph.client_id" | b"ceph.cluster_fsid" => true,
        b"ceph.dir.entries" | b"ceph.dir.files" | b"ceph.dir.subdirs" => inode.may(cap::FILE_SHARED),
        // Recursive statistics change under no bit.
        _ if name.starts_with(b"ceph.dir.r") => false,
        _ => inode.may(cap::XATTR_SHARED),
    }
}

/// The value of an xattr.
pub(crate) fn get(inode: &Inode, name: &[u8], world: World<'_>) -> Step {
    let attrs = inode.attrs();
    let stored = || attrs.xattrs().get(name).cloned();
    let computed = of_client(inode, name, world).or_else(|| of_layout(attrs, name, world.osdmap));
    let computed = computed.or_else(|| virtual_value(attrs, name));
    match computed.map(String::into_bytes).or_else(stored) {
        Some(value) => done(Answer::Data(value.into())),
        None => fail(Errno::ENODATA),
    }
}

/// The names of all stored xattrs.
pub(crate) fn list(attrs: &Attributes) -> Step {
    done(Answer::Names(attrs.xattrs().keys().cloned().collect()))
}

/// What concerns this client.
fn of_client(inode: &Inode, name: &[u8], World { osdmap, client }: World<'_>) -> Option<String> {
    match name {
        b"ceph.caps" => {
            let issued = inode.caps().issued();
            Some(format!("{issued}/{:#x}", issued.0))
        }
        b"ceph.auth_mds" => inode.caps().cap().map(|cap| cap.auth_rank().0.to_string()),
        b"ceph.client_id" => Some(format!("client{client}")),
        b"ceph.cluster_fsid" => Some(osdmap.fsid.to_string()),
        _ => None,
    }
}

/// An inode's own layout, or a part of it.
fn of_layout(attrs: &Attributes, name: &[u8], osdmap: &OsdMap) -> Option<String> {
    let layout = Some(attrs.layout()).filter(|layout| layout.stripe_unit > 0)?;
    let prefix: &[u8] = match attrs.is_dir() {
        true => b"ceph.dir.layout",
        false if attrs.is_file() => b"ceph.file.layout",
        false => return None,
    };
    let field = std::str::from_utf8(name.strip_prefix(prefix)?).ok()?;
    let pool = osdmap.pool_name(layout.pool);
    if field == ".json" {
        Some(layout_json::text(layout, layout_json::SET, pool))
    } else {
        layout.text(field, pool)
    }
}

/// Statistics, limits and times.
fn virtual_value(attrs: &Attributes, name: &[u8]) -> Option<String> {
    let (quota, (files, subdirs)) = (attrs.quota(), attrs.entries());
    let time = |Timespec { sec, nsec }| format!("{sec}.{nsec:09}");
    match name {
        b"ceph.dir.entries" if attrs.is_dir() => Some((files + subdirs).to_string()),
        b"ceph.dir.files" if attrs.is_dir() => Some(files.to_string()),
        b"ceph.dir.subdirs" if attrs.is_dir() => Some(subdirs.to_string()),
        b"ceph.dir.rbytes" if attrs.is_dir() => Some(attrs.rbytes().to_string()),
        b"ceph.dir.rfiles" if attrs.is_dir() => Some(attrs.recursive_counts().0.to_string()),
        b"ceph.dir.rsubdirs" if attrs.is_dir() => Some(attrs.recursive_counts().1.to_string()),
        b"ceph.dir.rentries" if attrs.is_dir() => Some(attrs.recursive_entries().to_string()),
        b"ceph.dir.rctime" if attrs.is_dir() => Some(time(attrs.rctime())),
        b"ceph.quota" if quota.is_enabled() => {
            Some(format!("max_bytes={} max_files={}", quota.max_bytes, quota.max_files))
        }
        b"ceph.quota.max_bytes" if quota.is_enabled() => Some(quota.max_bytes.to_string()),
        b"ceph.quota.max_files" if quota.is_enabled() => Some(quota.max_files.to_string()),
        b"ceph.snap.btime" if attrs.snap_btime() != Timespec::default() => Some(time(attrs.snap_btime())),
        _ => None,
    }
}
