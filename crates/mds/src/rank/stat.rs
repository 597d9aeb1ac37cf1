//! An inode as clients see it.

use crate::cache::{Cache, Inode};
use crate::cap::Cap;
use crate::ops::shown_pin;
use crate::types::ClientId;
use fsfmt::{DirFrag, Ino, InodeData, InodeKey};
use maps::{LegacyFileLayout, SnapId};
use msgs::{
    CapBody, CapFile, ClientCaps, DirLayout, DirStat, FragTreeSplit, INLINE_NONE, InodeStat, InodeStatCap,
    LeaseStat, QuotaInfo, cap_op,
};
use wire::{Timespec, Utime, Writer};

/// Bits of a capability's flags.
pub(super) mod cap_flag {
    /// The sender has the authority over the inode.
    pub const AUTH: u8 = 1;
}

pub(super) fn timespec(t: Utime) -> Timespec {
    Timespec { sec: t.sec, nsec: t.nsec }
}

pub(super) fn utime(t: Timespec) -> Utime {
    Utime { sec: t.sec, nsec: t.nsec }
}

/// The statistics of a fragment under the authority of the replying rank.
pub(super) fn dir_stat(cache: &Cache, dir: DirFrag, client: ClientId) -> DirStat {
    // Of a shard the client has to be told, since the directory is another rank's.
    let is_shard = cache.subtrees.keeper(dir).is_shard();
    let auth = if is_shard { cache.subtrees.own().0 } else { -1 };
    DirStat { frag: dir.frag.raw(), auth, dist: cache.replicas.told(dir.ino, client.0) }
}

/// No lease: the directory's cap covers its names. But the client learns whether a name is the primary one of
/// its inode, for it unlinks only such asynchronously.
pub(super) fn no_lease(is_primary: bool) -> LeaseStat {
    LeaseStat { mask: if is_primary { LeaseStat::PRIMARY_LINK } else { 0 }, ..LeaseStat::default() }
}

fn max_size(data: &InodeData, client: ClientId) -> u64 {
    data.ranges.get(&client.0).map_or(0, |r| r.max_size)
}

/// An inode with the cap that goes with it.
pub(super) fn inode_stat(key: InodeKey, inode: &Inode, client: ClientId, realm: Ino) -> InodeStat {
    let (data, cap) = (&inode.data, inode.caps.get(client));
    let held = cap.map(|c| InodeStatCap {
        caps: c.pending,
        wanted: c.wanted,
        cap_id: c.id,
        seq: c.seq,
        mseq: c.migrate_seq,
        realm: realm.0,
        flags: cap_flag::AUTH,
    });
    let mtime = if data.is_dir() { data.mtime.max(data.dirstat.mtime) } else { data.mtime };
    InodeStat {
        ino: data.ino.0,
        snapid: key.snap,
        rdev: data.rdev,
        version: data.version,
        xattr_version: data.xattr_version,
        cap: held.unwrap_or(InodeStatCap { realm: realm.0, ..InodeStatCap::default() }),
        layout: LegacyFileLayout::from(&*data.layout),
        ctime: timespec(data.ctime),
        mtime: timespec(mtime),
        atime: timespec(data.atime),
        time_warp_seq: data.time_warp_seq,
        size: data.size,
        max_size: max_size(data, client),
        truncate_size: data.truncate_size,
        truncate_seq: data.truncate_seq,
        mode: data.mode,
        uid: data.uid,
        gid: data.gid,
        nlink: data.nlink,
        nfiles: data.dirstat.nfiles,
        nsubdirs: data.dirstat.nsubdirs,
        rbytes: data.rstat.rbytes,
        rfiles: data.rstat.rfiles,
        rsubdirs: data.rstat.rsubdirs,
        rctime: timespec(data.rstat.rctime.max(data.ctime)),
        fragtree: data
            .fragtree
            .splits()
            .map(|(frag, bits)| FragTreeSplit { frag: frag.raw(), bits })
            .collect(),
        symlink: data.symlink.to_vec(),
        dir_layout: if data.is_dir() {
            DirLayout { hash: 2, ..DirLayout::default() }
        } else {
            DirLayout::default()
        },
        // An empty map too: a client forgets removed xattrs only when it gets one.
        xattrs: Writer::encode(&*data.xattrs),
        inline_version: if data.is_file() { INLINE_NONE } else { 0 },
        inline_data: Vec::new(),
        quota: QuotaInfo { max_bytes: data.quota.max_bytes as i64, max_files: data.quota.max_files as i64 },
        pool_ns: data.layout.pool_ns.clone(),
        btime: timespec(data.btime),
        change_attr: data.change_attr,
        dir_pin: if data.is_dir() { shown_pin(data) } else { -1 },
        ..InodeStat::default()
    }
}

/// A state of a snapshot. It never changes: the client may read and keep all of it, and that it does so is
/// recorded nowhere.
pub(super) fn snapped_stat(cache: &Cache, key: InodeKey, client: ClientId, snap: SnapId) -> InodeStat {
    let inode = &cache.inodes[&key];
    let data = cache.state_at(inode, snap).into_owned();
    let realm = cache.realm_of(inode);
    let shown = Inode::new(data, None, inode.change);
    let info = cache.snaps.live(snap).map(|record| &record.info);
    let made = info.map(|info| timespec(info.stamp)).unwrap_or_default();
    let metadata = info.map(|info| info.metadata.clone()).unwrap_or_default();
    let cap = InodeStatCap { caps: SNAPPED_BITS, ..InodeStatCap::default() };
    let key = InodeKey { ino: key.ino, snap };
    InodeStat { cap, snap_btime: made, snap_metadata: metadata, ..inode_stat(key, &shown, client, realm) }
}

/// Bits on a state of a snapshot.
const SNAPPED_BITS: u32 = msgs::cap::PIN | msgs::cap::ANY_RD;

/// A message about a cap with the inode's state.
pub(super) fn caps_message(op: u32, data: &InodeData, client: ClientId, cap: &Cap, realm: Ino) -> ClientCaps {
    let xattrs = if op == cap_op::FLUSH_ACK { Vec::new() } else { Writer::encode(&*data.xattrs) };
    ClientCaps {
        op,
        ino: data.ino.0,
        realm: realm.0,
        cap_id: cap.id,
        seq: cap.seq,
        migrate_seq: cap.migrate_seq,
        caps: msgs::Caps(cap.pending),
        wanted: msgs::Caps(cap.wanted),
        uid: data.uid,
        gid: data.gid,
        mode: data.mode,
        nlink: data.nlink,
        xattr_version: data.xattr_version,
        body: CapBody::File(CapFile {
            size: data.size,
            max_size: max_size(data, client),
            truncate_size: data.truncate_size,
            truncate_seq: data.truncate_seq,
            mtime: timespec(if data.is_dir() { data.mtime.max(data.dirstat.mtime) } else { data.mtime }),
            atime: timespec(data.atime),
            ctime: timespec(data.ctime),
            layout: LegacyFileLayout::from(&*data.layout),
            time_warp_seq: data.time_warp_seq,
        }),
        inline_version: if data.is_file() { INLINE_NONE } else { 0 },
        pool_ns: data.layout.pool_ns.clone(),
        btime: timespec(data.btime),
        change_attr: data.change_attr,
        nfiles: data.dirstat.nfiles,
        nsubdirs: data.dirstat.nsubdirs,
        xattrs,
        ..ClientCaps::default()
    }
}
