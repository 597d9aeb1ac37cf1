//! Stored structures as JSON. Keys are those of Ceph (`dump inode`, `dump dir`, `cephfs-table-tool`) where it
//! has them.

use super::text::{kind, shown};
use fsfmt::journal::JournalHeader;
use fsfmt::tables::SessionRecord;
use fsfmt::{
    BackPointer, Dentry, DentryKey, DirFrag, DirStat, Fnode, InoRange, InodeData, Link, NestStat, Scanned,
    SnapInfo, SnapRecord, Update, snap_state,
};
use maps::{FileLayout, SnapId};
use serde_json::{Value, json};

/// The header of a journal.
pub(super) fn header(header: &JournalHeader) -> Value {
    json!({
        "first_object": header.first,
        "first_seq": header.first_seq,
        "object_size": header.object_size,
        "features": header.needs,
    })
}

/// An event of the journal, or a damaged place of it.
pub(super) fn scanned(found: &Scanned) -> Value {
    let mut out = json!({ "object": found.object, "offset": found.offset, "length": found.len });
    match &found.what {
        Ok(event) => {
            out["seq"] = event.seq.into();
            out["stamp"] = event.event.stamp.iso8601().into();
            out["type"] = event.event.what.clone().into();
            out["replayed"] = event.is_replayed.into();
            out["updates"] = event.event.updates.iter().map(update).collect();
        }
        Err(why) => out["damage"] = why.clone().into(),
    }
    out
}

/// An update: what it touches, and the entry or inode whole.
fn update(update: &Update) -> Value {
    let inos: Vec<u64> = update.inodes().iter().map(|ino| ino.0).collect();
    let mut out = json!({ "type": update.name(), "touches": update.to_string(), "inos": inos });
    match update {
        Update::Dentry { dir, key, value } => {
            out["dirfrag"] = dirfrag(*dir).into();
            out["dname"] = shown(&key.name).into();
            out["snap_last"] = snap_json(key.snap);
            out["dentry"] = value.as_ref().map(|value| dentry(key, value)).into();
        }
        Update::Base { inode: data } => out["inode"] = inode(data),
        _ => {}
    }
    out
}

/// A fragment's name, with its fragment even if it is the whole directory.
pub(super) fn dirfrag(dir: DirFrag) -> String {
    format!("{:x}.{}", dir.ino.0, dir.frag)
}

/// A snapshot's number, or `head`.
fn snap_json(id: SnapId) -> Value {
    if id == SnapId::HEAD { "head".into() } else { id.0.into() }
}

/// An entry of a directory.
pub(super) fn dentry(key: &DentryKey, dentry: &Dentry) -> Value {
    let (is_primary, dtype) = match &dentry.link {
        Link::Primary(inode) => (true, inode.dtype()),
        Link::Remote { dtype, .. } => (false, *dtype),
    };
    let mut out = json!({
        "dname": shown(&key.name),
        "snap_first": dentry.first.0,
        "snap_last": snap_json(key.snap),
        "is_primary": is_primary,
        "is_remote": !is_primary,
        "type": kind(dtype),
        "ino": dentry.link.ino().0,
    });
    if let Link::Primary(data) = &dentry.link {
        out["inode"] = inode(data);
    }
    out
}

/// The header of a fragment.
pub(super) fn fnode(fnode: &Fnode) -> Value {
    json!({
        "version": fnode.version,
        "event": fnode.event,
        "fragstat": dirstat(&fnode.stat),
        "accounted_fragstat": dirstat(&fnode.accounted_stat),
        "rstat": rstat(&fnode.rstat),
        "accounted_rstat": rstat(&fnode.accounted),
        "snap_purged_thru": fnode.purged_to.0,
    })
}

fn dirstat(stat: &DirStat) -> Value {
    json!({
        "mtime": stat.mtime.iso8601(),
        "num_files": stat.nfiles,
        "num_subdirs": stat.nsubdirs,
        "change_attr": stat.change_attr,
    })
}

fn rstat(stat: &NestStat) -> Value {
    json!({
        "rbytes": stat.rbytes,
        "rfiles": stat.rfiles,
        "rsubdirs": stat.rsubdirs,
        "rsnaps": stat.rsnaps,
        "rctime": stat.rctime.iso8601(),
    })
}

fn layout(layout: &FileLayout) -> Value {
    json!({
        "stripe_unit": layout.stripe_unit,
        "stripe_count": layout.stripe_count,
        "object_size": layout.object_size,
        "pool_id": layout.pool,
        "pool_ns": layout.pool_ns,
    })
}

/// Ranges of inode numbers.
pub(super) fn ranges(ranges: &[InoRange]) -> Value {
    ranges.iter().map(|range| json!({ "start": range.first.0, "len": range.count })).collect()
}

/// A back trace, or the inode index' entry of it.
pub(super) fn back_pointer(back: &BackPointer) -> Value {
    json!({ "dirino": back.dir.0, "dname": shown(&back.name), "version": back.version })
}

/// An inode, with all that is stored of it.
pub(super) fn inode(data: &InodeData) -> Value {
    let mut out = attributes(data);
    let more = json!({
        "client_ranges": client_ranges(data),
        "dirstat": dirstat(&data.dirstat),
        "rstat": rstat(&data.rstat),
        "accounted_rstat": rstat(&data.accounted),
        "version": data.version,
        "xattr_version": data.xattr_version,
        "stray_prior_ino": data.stray_from.0,
        "max_size_ever": data.max_size_ever,
        "quota": { "max_bytes": data.quota.max_bytes, "max_files": data.quota.max_files },
        "symlink": shown(&data.symlink),
        "xattrs": pairs(data),
        "dirfragtree": { "splits": splits(data) },
        "first": data.first.0,
        "old_inodes": old_inodes(data),
        "snaprealm": data.own_realm.as_ref().map(|realm| json!({
            "seq": realm.seq.0,
            "created": realm.created.0,
            "current_parent_since": realm.parent_since.0,
            "snaps": realm.snaps.iter().map(|(id, info)| snap_info(*id, info)).collect::<Vec<_>>(),
            "past_parent_snaps": realm.past_parent_snaps.iter().map(|id| id.0).collect::<Vec<_>>(),
            "is_subvolume": realm.is_subvolume,
        })),
        "realm": data.realm.0,
        "auth_rank": data.auth_rank.map(|rank| rank.0),
        "links": data.links.iter().map(back_pointer).collect::<Vec<_>>(),
        "packed": data.packed.as_ref().map(|packed| json!({
            "inline_bytes": packed.inline.len(),
            "pool_id": packed.pool,
            "pack": packed.pack,
            "offset": packed.offset,
            "length": packed.length,
        })),
    });
    if let (Some(out), Value::Object(more)) = (out.as_object_mut(), more) {
        out.extend(more);
    }
    out
}

fn attributes(data: &InodeData) -> Value {
    json!({
        "ino": data.ino.0,
        "type": kind(data.dtype()),
        "rdev": data.rdev,
        "ctime": data.ctime.iso8601(),
        "btime": data.btime.iso8601(),
        "mode": data.mode,
        "uid": data.uid,
        "gid": data.gid,
        "nlink": data.nlink,
        "layout": layout(&data.layout),
        "size": data.size,
        "truncate_seq": data.truncate_seq,
        "truncate_size": data.truncate_size,
        "truncate_from": data.truncate_from,
        "mtime": data.mtime.iso8601(),
        "atime": data.atime.iso8601(),
        "time_warp_seq": data.time_warp_seq,
        "change_attr": data.change_attr,
        "export_pin": data.pin.rank.map_or(-1, |rank| i64::from(rank.0)),
    })
}

fn client_ranges(data: &InodeData) -> Value {
    let one = |(client, range): (&u64, &fsfmt::ClientRange)| {
        json!({
            "client": client,
            "byte_range": { "first": 0, "last": range.max_size },
            "follows": range.follows,
            "bits": range.bits,
        })
    };
    data.ranges.iter().map(one).collect()
}

fn pairs(data: &InodeData) -> Value {
    data.xattrs.iter().map(|(key, value)| json!({ "key": shown(key), "val": shown(value) })).collect()
}

fn splits(data: &InodeData) -> Value {
    data.fragtree.splits().map(|(frag, bits)| json!({ "frag": frag.to_string(), "bits": bits })).collect()
}

fn old_inodes(data: &InodeData) -> Value {
    let one = |(last, old): (&SnapId, &fsfmt::OldInode)| {
        json!({
            "first": old.first.0,
            "last": last.0,
            "mode": old.mode,
            "size": old.size,
            "mtime": old.mtime.iso8601(),
            "rstat": rstat(&old.rstat),
        })
    };
    data.old_inodes.iter().map(one).collect()
}

fn snap_info(id: SnapId, info: &SnapInfo) -> Value {
    json!({
        "snapid": id.0,
        "ino": info.ino.0,
        "stamp": info.stamp.iso8601(),
        "name": shown(&info.name),
        "metadata": info.metadata,
    })
}

/// The name of the state of a snapshot in the table.
pub(super) fn snap_state_name(state: u8) -> &'static str {
    match state {
        snap_state::LIVE => "live",
        snap_state::CREATING => "creating",
        snap_state::REMOVING => "removing",
        snap_state::TRIMMING => "trimming",
        _ => "?",
    }
}

/// An entry of the table of snapshots.
pub(super) fn snap_record(id: SnapId, record: &SnapRecord) -> Value {
    let mut out = snap_info(id, &record.info);
    out["state"] = snap_state_name(record.state).into();
    out["removed_as"] = record.removed_as.0.into();
    out
}

/// A session, with the keys of `session ls`.
pub(super) fn session(client: u64, record: &SessionRecord) -> Value {
    let locks: usize = record.locks.values().map(Vec::len).sum();
    let completed = |(tid, ino): (&u64, &fsfmt::Ino)| json!({ "tid": tid, "created_ino": ino.0 });
    json!({
        "id": client,
        "inst": format!("client.{client} {}", record.addrs),
        "auth_name": record.name,
        "completed_requests": record.completed.iter().map(completed).collect::<Vec<_>>(),
        "completed_flushes": record.flushed,
        "prealloc_inos": ranges(&record.preallocated),
        "delegated_inos": ranges(&record.delegated),
        "was_absent": record.was_absent,
        "num_locks": locks,
        "features": record.features.iter().map(|word| format!("{word:#018x}")).collect::<Vec<_>>(),
        "client_metadata": record.metadata,
    })
}
