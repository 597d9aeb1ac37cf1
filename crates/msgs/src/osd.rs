//! Messages between clients and OSDs (docs/protocol.md 5).

use crate::op::{Op, RawOp, SubOp, split_data};
use maps::{EVersion, Epoch, HObject, ObjectLocator, PgId, ReqId, SnapId, Spg};
use stdx::Bufs;
use wire::{DecodeError, Message, RawMsg, Reader, Sample, Utime, Writer};

/// Flags of a request.
pub mod osd_flag {
    /// Wants, or is, an answer of what is in memory.
    pub const ACK: u32 = 0x1;
    /// Wants, or is, an answer of what is durable.
    pub const ONDISK: u32 = 0x4;
    /// Was sent before.
    pub const RETRY: u32 = 0x8;
    /// May read.
    pub const READ: u32 = 0x10;
    /// May write.
    pub const WRITE: u32 = 0x20;
    /// Fail if the snapshot context is older than the object's.
    pub const ORDERSNAP: u32 = 0x40;
    /// May be read from any replica.
    pub const BALANCE_READS: u32 = 0x100;
    /// About a PG, not an object.
    pub const PGOP: u32 = 0x400;
    /// May call a class.
    pub const EXEC: u32 = 0x800;
    /// May be read from the nearest replica.
    pub const LOCALIZE_READS: u32 = 0x2000;
    /// A read that must not overtake writes.
    pub const RWORDERED: u32 = 0x4000;
    /// Of cache tiers.
    pub const IGNORE_CACHE: u32 = 0x8000;
    /// Of cache tiers.
    pub const SKIPRWLOCKS: u32 = 0x1_0000;
    /// Of cache tiers.
    pub const IGNORE_OVERLAY: u32 = 0x2_0000;
    /// Of cache tiers.
    pub const FLUSH: u32 = 0x4_0000;
    /// Of cache tiers.
    pub const MAP_SNAP_CLONE: u32 = 0x8_0000;
    /// Of cache tiers.
    pub const ENFORCE_SNAPC: u32 = 0x10_0000;
    /// Followed a redirect.
    pub const REDIRECTED: u32 = 0x20_0000;
    /// Understands redirects and the versions of the last rounds of the protocol; all clients set it.
    pub const KNOWN_REDIR: u32 = 0x40_0000;
    /// Try even if the pool is full, and fail with ENOSPC.
    pub const FULL_TRY: u32 = 0x80_0000;
    /// Write even if the pool is full.
    pub const FULL_FORCE: u32 = 0x100_0000;
    /// Of redirects.
    pub const IGNORE_REDIRECT: u32 = 0x200_0000;
    /// Return the output of writes too.
    pub const RETURNVEC: u32 = 0x400_0000;
    /// Knows pools that fail all I/O.
    pub const SUPPORTSPOOLEIO: u32 = 0x800_0000;
}

/// Priority of client operations.
const OP_PRIORITY: u16 = 63;
/// Bytes of an unused trace context.
const TRACE_LEN: usize = 24;

/// An operation vector for one object (MOSDOp).
#[derive(Clone, PartialEq, Debug, Default)]
pub struct OsdOp {
    /// Target; the seed is the PG's, not the whole hash.
    pub pgid: Spg,
    /// The object's whole placement hash.
    pub hash: u32,
    /// The OSD map that the target was computed with.
    pub epoch: Epoch,
    /// [`osd_flag`] bits.
    pub flags: u32,
    /// Zeros from clients.
    pub reqid: ReqId,
    /// 0.
    pub client_inc: u32,
    /// The client's time of a write.
    pub mtime: Utime,
    /// Locator of the object.
    pub locator: ObjectLocator,
    /// Its name.
    pub oid: Vec<u8>,
    /// Operations, carried out in order, all or nothing.
    pub ops: Vec<SubOp>,
    /// Snapshot to read, or [`SnapId::HEAD`].
    pub snapid: SnapId,
    /// The newest snapshot that a write must preserve the state of.
    pub snap_seq: SnapId,
    /// All snapshots that it must, descending.
    pub snaps: Vec<SnapId>,
    /// Counts resends.
    pub retry_attempt: i32,
    /// Of the client.
    pub features: u64,
}

impl OsdOp {
    /// Bytes of memory at the OSD for its answer, and for the data read for it: see [`Op::largest_answer`].
    pub fn largest_answer(&self) -> u64 {
        self.ops.iter().fold(0, |sum, sub| sum.saturating_add(sub.op.largest_answer()))
    }
}

impl Message for OsdOp {
    const KIND: u16 = 42;
    const NAME: &'static str = "osd_op";
    const VERSION: u16 = 8;
    const COMPAT: u16 = 3;

    fn encode_parts(&self, raw: &mut RawMsg) {
        raw.priority = OP_PRIORITY;
        let mut w = Writer::new();
        w.put(&self.pgid);
        w.put(&self.hash);
        w.put(&self.epoch);
        w.put(&self.flags);
        w.put(&self.reqid);
        w.raw(&[0; TRACE_LEN]);
        w.put(&self.client_inc);
        w.put(&self.mtime);
        w.put(&self.locator);
        w.put(&self.oid);
        w.put(&u16::try_from(self.ops.len()).expect("a vector of at most 65535 operations"));
        for sub in &self.ops {
            let (fixed, data) = sub.op.to_raw(sub.flags);
            fixed.encode(data.len(), &mut w);
            raw.data.append(data);
        }
        w.put(&self.snapid);
        w.put(&self.snap_seq);
        w.put(&self.snaps);
        w.put(&self.retry_attempt);
        w.put(&self.features);
        raw.front = w.into_vec();
    }

    fn decode_parts(raw: &RawMsg) -> Result<Self, DecodeError> {
        let r = &mut Reader::new(&raw.front);
        if raw.version != 8 {
            return Err(r.error(format!("osd_op version {}, only 8 is known", raw.version)));
        }
        let (pgid, hash, epoch, flags, reqid) = (r.get()?, r.get()?, r.get()?, r.get()?, r.get()?);
        r.take(TRACE_LEN)?;
        let (client_inc, mtime, locator, oid) = (r.get()?, r.get()?, r.get()?, r.get()?);
        let n = r.get::<u16>()?;
        let raws = (0..n).map(|_| RawOp::decode(r)).collect::<Result<Vec<_>, _>>()?;
        let ops = split_data(raws, &raw.data)?
            .into_iter()
            .map(|(fixed, data)| SubOp { flags: fixed.flags, op: Op::from_raw(fixed, data) })
            .collect();
        Ok(Self {
            pgid,
            hash,
            epoch,
            flags,
            reqid,
            client_inc,
            mtime,
            locator,
            oid,
            ops,
            snapid: r.get()?,
            snap_seq: r.get()?,
            snaps: r.get()?,
            retry_attempt: r.get()?,
            features: r.get()?,
        })
    }
}

impl Sample for OsdOp {
    fn sample(rng: &mut stdx::Rng) -> Self {
        Self {
            pgid: Sample::sample(rng),
            hash: Sample::sample(rng),
            epoch: Sample::sample(rng),
            flags: Sample::sample(rng),
            reqid: Sample::sample(rng),
            client_inc: Sample::sample(rng),
            mtime: Sample::sample(rng),
            locator: Sample::sample(rng),
            oid: Sample::sample(rng),
            ops: Sample::sample(rng),
            snapid: Sample::sample(rng),
            snap_seq: Sample::sample(rng),
            snaps: Sample::sample(rng),
            retry_attempt: Sample::sample(rng),
            features: Sample::sample(rng),
        }
    }
}

/// The result of one operation of a vector.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct OpResult {
    /// As in the request.
    pub raw: RawOp,
    /// 0, a positive count, or a negative errno.
    pub rval: i32,
    /// Output.
    pub data: Bufs,
}

/// The answer to an [`OsdOp`] (MOSDOpReply). Its message carries the request's tid.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct OsdOpReply {
    /// The object.
    pub oid: Vec<u8>,
    /// The PG.
    pub pgid: PgId,
    /// Of the request, with [`osd_flag::ACK`] or [`osd_flag::ONDISK`] for what it is.
    pub flags: u64,
    /// Of the whole vector: 0, positive, or the negative errno of the first failure.
    pub result: i32,
    /// Of old clients.
    pub bad_replay_version: EVersion,
    /// The OSD's map.
    pub epoch: Epoch,
    /// One for each operation.
    pub ops: Vec<OpResult>,
    /// As in the request.
    pub retry_attempt: i32,
    /// The PG version of the write.
    pub replay_version: EVersion,
    /// The object's version that clients see.
    pub user_version: u64,
}

impl OsdOpReply {
    /// An answer to `request` with all results 0 and no output, to be filled in.
    pub fn to(request: &OsdOp, result: i32, epoch: Epoch) -> Self {
        // As Ceph's OSDs answer: a success has both flags, an error is not acknowledged. Linux warns about an
        // answer without ONDISK.
        let done = osd_flag::ONDISK | if result >= 0 { osd_flag::ACK } else { 0 };
        let op = |sub: &SubOp| OpResult { raw: sub.op.to_raw(sub.flags).0, ..OpResult::default() };
        Self {
            oid: request.oid.clone(),
            pgid: request.pgid.pgid,
            flags: u64::from(request.flags & !(osd_flag::ACK | osd_flag::ONDISK) | done),
            result,
            epoch,
            ops: request.ops.iter().map(op).collect(),
            retry_attempt: request.retry_attempt,
            ..Self::default()
        }
    }

    /// Sets the version of the PG that was written or read, and the object's that clients see.
    pub fn set_version(&mut self, version: EVersion, user_version: u64) {
        self.replay_version = version;
        self.user_version = user_version;
        if user_version != 0 {
            self.bad_replay_version = EVersion::new(version.epoch, user_version);
        }
    }
}

impl Message for OsdOpReply {
    const KIND: u16 = 43;
    const NAME: &'static str = "osd_op_reply";
    const VERSION: u16 = 8;
    const COMPAT: u16 = 2;

    fn encode_parts(&self, raw: &mut RawMsg) {
        raw.priority = OP_PRIORITY;
        let mut w = Writer::new();
        w.put(&self.oid);
        w.put(&self.pgid);
        w.put(&self.flags);
        w.put(&self.result);
        w.put(&self.bad_replay_version);
        w.put(&self.epoch);
        w.count(self.ops.len());
        for op in &self.ops {
            op.raw.encode(op.data.len(), &mut w);
            raw.data.append(op.data.clone());
        }
        w.put(&self.retry_attempt);
        self.ops.iter().for_each(|op| w.put(&op.rval));
        w.put(&self.replay_version);
        w.put(&self.user_version);
        w.put(&false); // no redirect
        w.raw(&[0; TRACE_LEN]);
        raw.front = w.into_vec();
    }

    fn decode_parts(raw: &RawMsg) -> Result<Self, DecodeError> {
        let r = &mut Reader::new(&raw.front);
        if raw.version != 8 {
            return Err(r.error(format!("osd_op_reply version {}, only 8 is known", raw.version)));
        }
        let (oid, pgid, flags, result) = (r.get()?, r.get()?, r.get()?, r.get()?);
        let (bad_replay_version, epoch) = (r.get()?, r.get()?);
        let n = r.count(RawOp::SIZE + 4)?;
        let raws = (0..n).map(|_| RawOp::decode(r)).collect::<Result<Vec<_>, _>>()?;
        let retry_attempt = r.get()?;
        let mut ops = Vec::with_capacity(n);
        for (fixed, data) in split_data(raws, &raw.data)? {
            ops.push(OpResult { raw: fixed, rval: r.get()?, data });
        }
        let (replay_version, user_version) = (r.get()?, r.get()?);
        if r.get::<bool>()? {
            return Err(r.error("a redirect, which only cache tiers give"));
        }
        Ok(Self {
            oid,
            pgid,
            flags,
            result,
            bad_replay_version,
            epoch,
            ops,
            retry_attempt,
            replay_version,
            user_version,
        })
    }
}

impl Sample for OsdOpReply {
    fn sample(rng: &mut stdx::Rng) -> Self {
        let mut out = Self::to(&OsdOp::sample(rng), Sample::sample(rng), Sample::sample(rng));
        for op in &mut out.ops {
            op.rval = Sample::sample(rng);
            op.data = Sample::sample(rng);
        }
        out.set_version(Sample::sample(rng), Sample::sample(rng));
        out
    }
}

/// Codes of [`WatchNotify::opcode`].
pub mod notify_op {
    /// To a watcher: answer with NOTIFY_ACK.
    pub const NOTIFY: u8 = 1;
    /// To the notifier: all have answered, or the time is over.
    pub const NOTIFY_COMPLETE: u8 = 2;
    /// To a watcher: the watch is gone.
    pub const DISCONNECT: u8 = 3;
}

/// Codes of [`OsdBackoff::op`].
pub mod backoff_op {
    /// OSD: send nothing for this range.
    pub const BLOCK: u8 = 1;
    /// Client: understood.
    pub const ACK_BLOCK: u8 = 2;
    /// OSD: send again.
    pub const UNBLOCK: u8 = 3;
}

wire::messages! {
    /// OSD to watcher or notifier.
    pub struct WatchNotify = 44 "watch_notify" [v 3/1] {
        /// 1.
        pub msg_version: u8,
        /// One of [`notify_op`].
        pub opcode: u8,
        /// The receiver's number for its watch.
        pub cookie: u64,
        /// Of the object.
        pub ver: u64,
        /// Number of the notification.
        pub notify_id: u64,
        /// The notifier's payload.
        pub payload: Vec<u8>,
        /// -ETIMEDOUT if a watcher did not answer.
        pub return_code: i32 = since 2,
        /// The notifier.
        pub notifier_gid: u64 = since 3,
        /// Of a completion: an encoded [`crate::op::input::NotifyReply`].
        pub data: Bufs = data,
    }

    /// OSD to client and back: hold operations on a range of objects.
    pub struct OsdBackoff = 61 "osd_backoff" [v 1/1] {
        /// Of this PG.
        pub pgid: Spg,
        /// The sender's map.
        pub epoch: Epoch,
        /// One of [`backoff_op`].
        pub op: u8,
        /// Number of the backoff on this connection.
        pub id: u64,
        /// First object.
        pub begin: HObject,
        /// Position after the last object; if equal to `begin`, that one object.
        pub end: HObject,
    }
}
