//! The smaller messages between clients and metadata servers.

use crate::{QuotaInfo, Rest, SnapRealmInfo};
use maps::{Epoch, SnapId};
use wire::{AddrVec, DecodeError, Message, RawMsg, Reader, Sample, Timespec, Writer, wire_structs};

/// Codes of [`ClientLease::action`].
pub mod lease_action {
    /// MDS: the lease ends.
    pub const REVOKE: u8 = 1;
    /// Client: gives it back.
    pub const RELEASE: u8 = 2;
    /// Client: asks for more time; MDS: grants it.
    pub const RENEW: u8 = 3;
    /// Client: understood.
    pub const REVOKE_ACK: u8 = 4;
}

/// Codes of [`ClientSnap::op`].
pub mod snap_op {
    /// The realm's snapshots changed.
    pub const UPDATE: u32 = 0;
    /// A realm was made.
    pub const CREATE: u32 = 1;
    /// A realm was merged into its parent.
    pub const DESTROY: u32 = 2;
    /// Inodes and realms moved to another realm.
    pub const SPLIT: u32 = 3;
}

wire_structs! {
    /// One cap given up.
    #[derive(Copy, Eq)]
    pub struct CapReleaseItem[plain] {
        /// Inode.
        pub ino: u64,
        /// Number of the cap.
        pub cap_id: u64,
        /// Counts migrations.
        pub migrate_seq: u32,
        /// Of the last grant.
        pub seq: u32,
    }

    struct SnapHead[plain] {
        op: u32,
        split: u64,
        num_split_inos: u32,
        num_split_realms: u32,
        trace_len: u32,
    }
}

/// Bits of [`ClientReclaim::flags`].
pub mod reclaim_flag {
    /// The session is to end, with all that it holds. Ceph has no other kind.
    pub const RESET: u32 = 1;
    /// The client has taken what it wanted of the session; not answered.
    pub const FINISH: u32 = 1 << 31;
}

wire::messages! {
    /// MDS to client: ask another MDS.
    pub struct ClientRequestForward = 25 "client_request_forward" [v 1/1] {
        /// Rank.
        pub dest_mds: i32,
        /// Counts forwards.
        pub num_fwd: u32,
        /// True if the client must send the request itself.
        pub client_must_resend: bool,
    }

    /// Has to do with the session of a dead instance of the same client (NFS-Ganesha).
    pub struct ClientReclaim = 27 "client_reclaim" [v 1/1] {
        /// The dead instance's [`CLIENT_UUID`](crate::CLIENT_UUID).
        pub uuid: String,
        /// Bits of [`reclaim_flag`].
        pub flags: u32,
    }

    /// Answers [`ClientReclaim`].
    pub struct ClientReclaimReply = 28 "client_reclaim_reply" [v 1/1] {
        /// 0 or a negative errno.
        pub result: i32,
        /// Have at least this OSD map.
        pub epoch: Epoch,
        /// Addresses of the dead instance; none if there was no session of that name.
        pub addrs: AddrVec,
    }

    /// Measurements of the client; not used.
    pub struct ClientMetrics = 29 "client_metrics" [v 1/1] {
        /// Uninterpreted.
        pub updates: Rest,
    }

    /// About a lease on a dentry.
    pub struct ClientLease = 0x311 "client_lease" [v 1/1] {
        /// One of [`lease_action`].
        pub action: u8,
        /// The leased parts.
        pub mask: u16,
        /// The directory.
        pub ino: u64,
        /// First snapshot.
        pub first: SnapId,
        /// Last snapshot.
        pub last: SnapId,
        /// Counts leases on the dentry.
        pub seq: u32,
        /// Milliseconds.
        pub duration_ms: u32,
        /// The name.
        pub dname: Vec<u8>,
    }

    /// MDS to client: usage of a tree with quota.
    pub struct ClientQuota = 0x314 "client_quota" [v 1/1] {
        /// Its root.
        pub ino: u64,
        /// Of the tree below.
        pub rctime: Timespec,
        /// Of the tree below.
        pub rbytes: u64,
        /// Of the tree below.
        pub rfiles: u64,
        /// Of the tree below.
        pub rsubdirs: u64,
        /// Limits.
        pub quota: QuotaInfo,
    }
}

/// MDS to client: snapshot realms changed.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ClientSnap {
    /// One of [`snap_op`].
    pub op: u32,
    /// The realm that is split off; 0 for none.
    pub split: u64,
    /// Inodes that move. Leave empty for [`snap_op::UPDATE`]: newer kernels take them for corruption.
    pub split_inos: Vec<u64>,
    /// Realms that move. Leave empty for [`snap_op::UPDATE`].
    pub split_realms: Vec<u64>,
    /// Realms, the innermost first.
    pub trace: Vec<SnapRealmInfo>,
}

impl Message for ClientSnap {
    const KIND: u16 = 0x312;
    const NAME: &'static str = "client_snap";
    const VERSION: u16 = 1;
    const COMPAT: u16 = 1;

    fn encode_parts(&self, raw: &mut RawMsg) {
        let trace = SnapRealmInfo::encode_trace(&self.trace);
        let count = |n: usize| u32::try_from(n).expect("a message moves few inodes");
        let mut w = Writer::new();
        w.put(&SnapHead {
            op: self.op,
            split: self.split,
            num_split_inos: count(self.split_inos.len()),
            num_split_realms: count(self.split_realms.len()),
            trace_len: count(trace.len()),
        });
        self.split_inos.iter().chain(&self.split_realms).for_each(|ino| w.put(ino));
        w.raw(&trace);
        raw.front = w.into_vec();
    }

    fn decode_parts(raw: &RawMsg) -> Result<Self, DecodeError> {
        let r = &mut Reader::new(&raw.front);
        let head: SnapHead = r.get()?;
        let mut list = |n: u32| (0..n).map(|_| r.get()).collect::<Result<Vec<u64>, _>>();
        let (split_inos, split_realms) = (list(head.num_split_inos)?, list(head.num_split_realms)?);
        let trace = SnapRealmInfo::decode_trace(r.take(head.trace_len as usize)?)?;
        Ok(Self { op: head.op, split: head.split, split_inos, split_realms, trace })
    }
}

impl Sample for ClientSnap {
    fn sample(rng: &mut stdx::Rng) -> Self {
        Self {
            op: Sample::sample(rng),
            split: Sample::sample(rng),
            split_inos: Sample::sample(rng),
            split_realms: Sample::sample(rng),
            trace: Sample::sample(rng),
        }
    }
}

/// Client to MDS: caps given up.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ClientCapRelease {
    /// The released capabilities.
    pub caps: Vec<CapReleaseItem>,
    /// The OSD map that the client must have before it accesses data.
    pub osd_epoch_barrier: Epoch,
}

impl Message for ClientCapRelease {
    const KIND: u16 = 0x313;
    const NAME: &'static str = "client_cap_release";
    const VERSION: u16 = 2;
    const COMPAT: u16 = 1;

    fn encode_parts(&self, raw: &mut RawMsg) {
        let mut w = Writer::new();
        w.put(&self.caps);
        w.put(&self.osd_epoch_barrier);
        raw.front = w.into_vec();
    }

    fn decode_parts(raw: &RawMsg) -> Result<Self, DecodeError> {
        let r = &mut Reader::new(&raw.front);
        let caps = r.get()?;
        // The kernel announces version 2 but leaves the barrier out if it has none.
        let osd_epoch_barrier = if raw.version >= 2 && !r.is_empty() { r.get()? } else { Epoch(0) };
        Ok(Self { caps, osd_epoch_barrier })
    }
}

impl Sample for ClientCapRelease {
    fn sample(rng: &mut stdx::Rng) -> Self {
        Self { caps: Sample::sample(rng), osd_epoch_barrier: Sample::sample(rng) }
    }
}
