//! Messages about capabilities (MClientCaps).

use crate::{Caps, SnapRealmInfo};
use maps::{Epoch, LegacyFileLayout, SnapId};
use wire::{Decode, DecodeError, Message, RawMsg, Reader, Sample, Timespec, Writer, wire_structs};

/// Codes of [`ClientCaps::op`].
#[allow(missing_docs)]
pub mod cap_op {
    pub const GRANT: u32 = 0;
    pub const REVOKE: u32 = 1;
    pub const TRUNC: u32 = 2;
    pub const EXPORT: u32 = 3;
    pub const IMPORT: u32 = 4;
    pub const UPDATE: u32 = 5;
    pub const DROP: u32 = 6;
    pub const FLUSH: u32 = 7;
    pub const FLUSH_ACK: u32 = 8;
    pub const FLUSHSNAP: u32 = 9;
    pub const FLUSHSNAP_ACK: u32 = 10;
    pub const RELEASE: u32 = 11;
    pub const RENEW: u32 = 12;

    /// The name in lower case, as Ceph prints it.
    pub fn name(op: u32) -> &'static str {
        const NAMES: [&str; 13] = [
            "grant",
            "revoke",
            "trunc",
            "export",
            "import",
            "update",
            "drop",
            "flush",
            "flush_ack",
            "flushsnap",
            "flushsnap_ack",
            "release",
            "renew",
        ];
        NAMES.get(op as usize).copied().unwrap_or("unknown")
    }
}

/// Bits of [`ClientCaps::flags`].
pub mod cap_flag {
    /// The client waits: commit at once.
    pub const SYNC: u32 = 1;
    /// No snapshot of the inode is to be flushed before.
    pub const NO_CAPSNAP: u32 = 2;
    /// Snapshots of the inode will be flushed after.
    pub const PENDING_CAPSNAP: u32 = 4;
}

wire_structs! {
    /// File state.
    #[derive(Copy, Eq)]
    pub struct CapFile[plain] {
        /// Bytes.
        pub size: u64,
        /// The client may write up to here, or asks to.
        pub max_size: u64,
        /// Size of the last truncation.
        pub truncate_size: u64,
        /// Counts truncations.
        pub truncate_seq: u32,
        /// Time of modification.
        pub mtime: Timespec,
        /// Time of access.
        pub atime: Timespec,
        /// Time of change.
        pub ctime: Timespec,
        /// Of the data.
        pub layout: LegacyFileLayout,
        /// Counts times that were set back.
        pub time_warp_seq: u32,
    }

    /// The other side of an EXPORT or IMPORT.
    #[derive(Copy, Eq)]
    pub struct CapPeer[plain] {
        /// Cap there.
        pub cap_id: u64,
        /// Its seq.
        pub issue_seq: u32,
        /// Its migration count.
        pub mseq: u32,
        /// Rank.
        pub mds: i32,
        /// Of migrations.
        pub flags: u8,
    }
}

/// Bytes that either body takes: that of the file state.
const BODY_SIZE: usize = 84;
/// Bytes of a [`CapPeer`].
const PEER_SIZE: usize = 21;

/// The part between the fixed head and the snapshot trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CapBody {
    /// Of all operations but the next.
    File(CapFile),
    /// Of EXPORT: the capability at the next authority.
    Peer(CapPeer),
}

impl Default for CapBody {
    fn default() -> Self {
        Self::File(CapFile::default())
    }
}

/// A grant, revocation, update, flush or acknowledgement. Its message's tid is that of the flush.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ClientCaps {
    /// One of [`cap_op`].
    pub op: u32,
    /// The inode.
    pub ino: u64,
    /// Its snapshot realm.
    pub realm: u64,
    /// Id of the capability.
    pub cap_id: u64,
    /// From the MDS: counts messages about the cap. From the client: the last that it has seen.
    pub seq: u32,
    /// `seq` of the last grant.
    pub issue_seq: u32,
    /// From the MDS: what the client has now. From the client: what it keeps.
    pub caps: Caps,
    /// Bits that the client wants.
    pub wanted: Caps,
    /// Bits that are being flushed, or were.
    pub dirty: Caps,
    /// Counts migrations.
    pub migrate_seq: u32,
    /// The state is that before this snapshot sequence.
    pub snap_follows: SnapId,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Type and permissions.
    pub mode: u32,
    /// Links.
    pub nlink: u32,
    /// Of the xattrs.
    pub xattr_version: u64,
    /// File state, or the other side of a migration.
    pub body: CapBody,
    /// Realms, the innermost first.
    pub snap_trace: Vec<SnapRealmInfo>,
    /// File locks held, encoded.
    pub flock: Vec<u8>,
    /// Of IMPORT: the capability at the former authority.
    pub former: CapPeer,
    /// [`super::INLINE_NONE`] for none.
    pub inline_version: u64,
    /// Inline data.
    pub inline_data: Vec<u8>,
    /// The OSD map that the client must have before it accesses data.
    pub osd_epoch_barrier: Epoch,
    /// All flushes with smaller tids are known to be acknowledged.
    pub oldest_flush_tid: u64,
    /// User of the caller.
    pub caller_uid: u32,
    /// Group of the caller.
    pub caller_gid: u32,
    /// Namespace of the data in its pool.
    pub pool_ns: String,
    /// Time of birth.
    pub btime: Timespec,
    /// Counts changes.
    pub change_attr: u64,
    /// [`cap_flag`] bits.
    pub flags: u32,
    /// Of a directory.
    pub nfiles: u64,
    /// Of a directory.
    pub nsubdirs: u64,
    /// Encryption context.
    pub fscrypt_auth: Vec<u8>,
    /// Encrypted file size.
    pub fscrypt_file: Vec<u8>,
    /// Encoded map of xattr names to values.
    pub xattrs: Vec<u8>,
}

impl ClientCaps {
    /// Of EXPORT: the capability at the next authority; none if it is dropped. Ceph's servers say so by
    /// zeros.
    pub fn next_authority(&self) -> Option<CapPeer> {
        match self.body {
            CapBody::Peer(next) if self.op == cap_op::EXPORT && next.mds >= 0 && next.cap_id != 0 => {
                Some(next)
            }
            _ => None,
        }
    }

    /// The file state; zeros in EXPORT.
    pub fn file(&self) -> CapFile {
        match self.body {
            CapBody::File(file) => file,
            CapBody::Peer(_) => CapFile::default(),
        }
    }

    fn encode_head(&self, snap_trace_len: usize, w: &mut Writer) {
        w.put(&self.op);
        w.put(&self.ino);
        w.put(&self.realm);
        w.put(&self.cap_id);
        w.put(&self.seq);
        w.put(&self.issue_seq);
        w.put(&self.caps);
        w.put(&self.wanted);
        w.put(&self.dirty);
        w.put(&self.migrate_seq);
        w.put(&self.snap_follows);
        w.count(snap_trace_len);
        w.put(&self.uid);
        w.put(&self.gid);
        w.put(&self.mode);
        w.put(&self.nlink);
        w.count(self.xattrs.len());
        w.put(&self.xattr_version);
        match &self.body {
            CapBody::File(file) => w.put(file),
            CapBody::Peer(peer) => {
                w.put(peer);
                w.raw(&[0; BODY_SIZE - PEER_SIZE]);
            }
        }
    }

    /// The head and the length of the snapshot trace.
    fn decode_head(r: &mut Reader<'_>) -> Result<(Self, usize), DecodeError> {
        let mut out = Self {
            op: r.get()?,
            ino: r.get()?,
            realm: r.get()?,
            cap_id: r.get()?,
            seq: r.get()?,
            issue_seq: r.get()?,
            caps: r.get()?,
            wanted: r.get()?,
            dirty: r.get()?,
            migrate_seq: r.get()?,
            snap_follows: r.get()?,
            ..Self::default()
        };
        let snap_trace_len = r.get::<u32>()? as usize;
        (out.uid, out.gid, out.mode, out.nlink) = (r.get()?, r.get()?, r.get()?, r.get()?);
        r.get::<u32>()?; // the xattrs' length is that of the middle segment
        out.xattr_version = r.get()?;
        let mut body = Reader::new(r.take(BODY_SIZE)?);
        let is_export = out.op == cap_op::EXPORT;
        out.body = if is_export { CapBody::Peer(body.get()?) } else { CapBody::File(body.get()?) };
        Ok((out, snap_trace_len))
    }
}

/// Reads a field that came in with version `since`.
fn since<T: Decode + Default>(r: &mut Reader<'_>, version: u16, since: u16) -> Result<T, DecodeError> {
    if version >= since { r.get() } else { Ok(T::default()) }
}

impl Message for ClientCaps {
    const KIND: u16 = 0x310;
    const NAME: &'static str = "client_caps";
    const VERSION: u16 = 12;
    const COMPAT: u16 = 1;

    fn encode_parts(&self, raw: &mut RawMsg) {
        let trace = SnapRealmInfo::encode_trace(&self.snap_trace);
        let mut w = Writer::new();
        self.encode_head(trace.len(), &mut w);
        w.raw(&trace);
        w.put(&self.flock);
        if self.op == cap_op::IMPORT {
            w.put(&self.former);
        }
        w.put(&self.inline_version);
        w.put(&self.inline_data);
        w.put(&self.osd_epoch_barrier);
        w.put(&self.oldest_flush_tid);
        w.put(&self.caller_uid);
        w.put(&self.caller_gid);
        w.put(&self.pool_ns);
        w.put(&self.btime);
        w.put(&self.change_attr);
        w.put(&self.flags);
        w.put(&self.nfiles);
        w.put(&self.nsubdirs);
        raw.version = 11;
        if !self.fscrypt_auth.is_empty() || !self.fscrypt_file.is_empty() {
            raw.version = 12;
            w.put(&self.fscrypt_auth);
            w.put(&self.fscrypt_file);
        }
        raw.front = w.into_vec();
        raw.middle = self.xattrs.clone();
    }

    fn decode_parts(raw: &RawMsg) -> Result<Self, DecodeError> {
        let r = &mut Reader::new(&raw.front);
        let v = raw.version;
        let (mut out, snap_trace_len) = Self::decode_head(r)?;
        out.snap_trace = SnapRealmInfo::decode_trace(r.take(snap_trace_len)?)?;
        out.flock = since(r, v, 2)?;
        if out.op == cap_op::IMPORT {
            out.former = since(r, v, 3)?;
        }
        out.inline_version = since(r, v, 4)?;
        out.inline_data = since(r, v, 4)?;
        out.osd_epoch_barrier = since(r, v, 5)?;
        out.oldest_flush_tid = since(r, v, 6)?;
        out.caller_uid = since(r, v, 7)?;
        out.caller_gid = since(r, v, 7)?;
        out.pool_ns = since(r, v, 8)?;
        out.btime = since(r, v, 9)?;
        out.change_attr = since(r, v, 9)?;
        out.flags = since(r, v, 10)?;
        out.nfiles = since(r, v, 11)?;
        out.nsubdirs = since(r, v, 11)?;
        out.fscrypt_auth = since(r, v, 12)?;
        out.fscrypt_file = since(r, v, 12)?;
        out.xattrs = raw.middle.clone();
        Ok(out)
    }
}

impl Sample for ClientCaps {
    fn sample(rng: &mut stdx::Rng) -> Self {
        let op = rng.below(13) as u32;
        Self {
            op,
            ino: Sample::sample(rng),
            cap_id: Sample::sample(rng),
            caps: Sample::sample(rng),
            dirty: Sample::sample(rng),
            former: if op == cap_op::IMPORT { Sample::sample(rng) } else { CapPeer::default() },
            body: if op == cap_op::EXPORT {
                CapBody::Peer(Sample::sample(rng))
            } else {
                CapBody::File(Sample::sample(rng))
            },
            snap_trace: Sample::sample(rng),
            flock: Sample::sample(rng),
            inline_data: Sample::sample(rng),
            pool_ns: Sample::sample(rng),
            flags: Sample::sample(rng),
            nsubdirs: Sample::sample(rng),
            fscrypt_auth: Sample::sample(rng),
            fscrypt_file: Sample::sample(rng),
            xattrs: Sample::sample(rng),
            ..Self::default()
        }
    }
}
