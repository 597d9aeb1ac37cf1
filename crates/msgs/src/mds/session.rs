//! Sessions (MClientSession).

use crate::Versioned;
use std::collections::{BTreeMap, BTreeSet};
use wire::{DecodeError, Fields, Message, RawMsg, Reader, Sample, Timespec, Writer, wire_structs};

/// Codes of [`SessionHead::op`].
pub mod session_op {
    macro_rules! ops {
        ($($name:ident = $value:literal;)*) => {
            $( #[allow(missing_docs)] pub const $name: u32 = $value; )*
            /// The name in lower case, as Ceph prints it.
            pub fn name(op: u32) -> String {
                match op {
                    $( $value => stringify!($name).to_lowercase(), )*
                    other => format!("session-op-{other}"),
                }
            }
        };
    }
    ops! {
        REQUEST_OPEN = 0;
        OPEN = 1;
        REQUEST_CLOSE = 2;
        CLOSE = 3;
        REQUEST_RENEWCAPS = 4;
        RENEWCAPS = 5;
        STALE = 6;
        RECALL_STATE = 7;
        FLUSHMSG = 8;
        FLUSHMSG_ACK = 9;
        FORCE_RO = 10;
        REJECT = 11;
        REQUEST_FLUSH_MDLOG = 12;
    }
}

/// Names in the metadata of an OPEN, by which a server announces what Ceph's protocol does not have. Clients
/// of Ceph do not look there, and servers of Ceph send nothing.
pub mod session_metadata {
    /// The server takes `MdsOp::RENAME_FLAGS`.
    pub const RENAME_FLAGS: &str = "nacre.rename_flags";
    /// Directories are made and removed asynchronously, as files are. A client that does so says it in the
    /// metadata of its REQUEST_OPEN, a server that takes it in that of OPEN. The answer to MKDIR then
    /// delegates inode numbers in the form of that to CREATE.
    pub const ASYNC_DIRS: &str = "nacre.async_dirs";
    /// The server takes the data of small new files with a flush of their capability, as
    /// [`small_file`](crate::small_file) has it, and `MdsOp::STORE_DATA`.
    pub const SMALL_FILES: &str = "nacre.small_files";
    /// Claims of file locks that the server refuses: [`RefusedLock`](super::RefusedLock)s.
    pub const REFUSED_LOCKS: &str = "nacre.refused_locks";
}

/// An owner whose claim of a file lock is refused. The server has given it to another, or knows no such lock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RefusedLock {
    /// The file.
    pub ino: u64,
    /// The call that set it: [`lock_rule`](crate::lock_rule).
    pub rule: u8,
    /// The owner within the client.
    pub owner: u64,
}

impl RefusedLock {
    /// The value of [`session_metadata::REFUSED_LOCKS`].
    pub fn to_text(refused: &BTreeSet<Self>) -> String {
        let one = |Self { ino, rule, owner }: &Self| format!("{ino}/{rule}/{owner}");
        refused.iter().map(one).collect::<Vec<_>>().join(",")
    }

    /// Reads such a value. What is not understood is left out.
    pub fn from_text(text: &str) -> BTreeSet<Self> {
        let one = |text: &str| {
            let mut parts = text.split('/');
            let (ino, rule, owner) = (parts.next()?, parts.next()?, parts.next()?);
            Some(Self { ino: ino.parse().ok()?, rule: rule.parse().ok()?, owner: owner.parse().ok()? })
        };
        text.split(',').filter_map(one).collect()
    }
}

/// Name in the metadata of a REQUEST_OPEN: the identity that a client keeps when it is restarted. No two
/// sessions have the same (`ceph_set_uuid`).
pub const CLIENT_UUID: &str = "uuid";

/// Name in the metadata of a REQUEST_OPEN: the time in seconds, in decimal digits, for which the session of a
/// silent client is kept as it is; 0 for as long as possible (`ceph_set_session_timeout`).
pub const CLIENT_TIMEOUT: &str = "timeout";

/// Bits of [`ClientSession::flags`].
pub mod session_flag {
    /// The client is on the OSDs' blocklist.
    pub const BLOCKLISTED: u32 = 1;
}

/// Bit numbers of [`ClientSession::features`].
#[allow(missing_docs)]
pub mod cephfs_feature {
    pub const JEWEL: u32 = 5;
    pub const KRAKEN: u32 = 6;
    pub const LUMINOUS: u32 = 7;
    pub const MIMIC: u32 = 8;
    pub const REPLY_ENCODING: u32 = 9;
    pub const RECLAIM_CLIENT: u32 = 10;
    pub const LAZY_CAP_WANTED: u32 = 11;
    pub const MULTI_RECONNECT: u32 = 12;
    pub const DELEG_INO: u32 = 13;
    pub const METRIC_COLLECT: u32 = 14;
    pub const ALTERNATE_NAME: u32 = 15;
    pub const NOTIFY_SESSION_STATE: u32 = 16;
    pub const OP_GETVXATTR: u32 = 17;
    pub const RETRY_FWD_32BITS: u32 = 18;
    pub const NEW_SNAPREALM_INFO: u32 = 19;
    pub const HAS_OWNER_UIDGID: u32 = 20;
    pub const MDS_AUTH_CAPS_CHECK: u32 = 21;
}

wire_structs! {
    /// The part that every version has.
    #[derive(Copy, Eq)]
    pub struct SessionHead[plain] {
        /// One of [`session_op`].
        pub op: u32,
        /// Of RENEWCAPS, FLUSHMSG.
        pub seq: u64,
        /// Of the sender.
        pub stamp: Timespec,
        /// Of RECALL_STATE: the most caps to keep.
        pub max_caps: u32,
        /// Of RECALL_STATE: the most leases to keep.
        pub max_leases: u32,
    }

    /// The fields from version 2 on, each with its version: the measurements that the MDS wants.
    #[derive(Eq)]
    pub struct MetricSpec[v 1/1] {
        /// A set of bits.
        pub flags: Vec<u8>,
    }

    struct Extension[plain] {
        metadata: BTreeMap<String, String> = since 2,
        features: Vec<u8> = since 3,
        metric_spec: MetricSpec = since 4,
        flags: u32 = since 5,
        cap_auths: Vec<Versioned> = since 6,
        oldest_client_tid: u64 = since 7,
    }
}

/// Opens, renews or closes a session. Sent in version 5 if it has more than its head, in version 1 otherwise,
/// as Ceph 16 does.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ClientSession {
    /// Kind and time.
    pub head: SessionHead,
    /// Of the client: `hostname`, `root`, `entity_id`, …; of a REJECT: `error_string`.
    pub metadata: BTreeMap<String, String>,
    /// Bitset of [`cephfs_feature`], lowest byte first.
    pub features: Vec<u8>,
    /// The metrics that are understood, uninterpreted.
    pub metric_spec: MetricSpec,
    /// [`session_flag`] bits.
    pub flags: u32,
    /// Of version 7; never sent.
    pub oldest_client_tid: u64,
}

impl ClientSession {
    /// A message with nothing but a head.
    pub fn of(op: u32, seq: u64) -> Self {
        Self { head: SessionHead { op, seq, ..SessionHead::default() }, ..Self::default() }
    }

    /// True if feature bit `bit` is set.
    pub fn has_feature(&self, bit: u32) -> bool {
        self.features.get(bit as usize / 8).is_some_and(|byte| byte >> (bit % 8) & 1 == 1)
    }

    /// The encoded form of a set of features that is at most 64 bits wide: as many whole 8-byte words as
    /// needed.
    pub fn feature_bytes(mask: u64) -> Vec<u8> {
        if mask == 0 { Vec::new() } else { mask.to_le_bytes().to_vec() }
    }
}

impl Message for ClientSession {
    const KIND: u16 = 22;
    const NAME: &'static str = "client_session";
    const VERSION: u16 = 7;
    const COMPAT: u16 = 1;

    fn encode_parts(&self, raw: &mut RawMsg) {
        let mut w = Writer::new();
        w.put(&self.head);
        raw.version = 1;
        if !self.metadata.is_empty() || !self.features.is_empty() || self.flags != 0 {
            raw.version = 5;
            w.put(&self.metadata);
            w.put(&self.features);
            w.put(&self.metric_spec);
            w.put(&self.flags);
        }
        raw.front = w.into_vec();
    }

    fn decode_parts(raw: &RawMsg) -> Result<Self, DecodeError> {
        let r = &mut Reader::new(&raw.front);
        let head = r.get()?;
        let e = Extension::decode_fields(r, raw.version)?;
        Ok(Self {
            head,
            metadata: e.metadata,
            features: e.features,
            metric_spec: e.metric_spec,
            flags: e.flags,
            oldest_client_tid: e.oldest_client_tid,
        })
    }
}

impl Sample for ClientSession {
    fn sample(rng: &mut stdx::Rng) -> Self {
        let mut out = Self { head: Sample::sample(rng), ..Self::default() };
        if rng.chance(1, 2) {
            out.metadata = Sample::sample(rng);
            out.features = vec![1, 2, 3];
            out.metric_spec = Sample::sample(rng);
            out.flags = Sample::sample(rng);
        }
        out
    }
}
