//! Messages between metadata servers: discovery of paths, transactions, capabilities of replicas, migration
//! of subtrees, load, and requests to the rank that keeps a table. Updates, inodes and entries travel
//! encoded: their structures are the metadata server's stored formats (crate `fsfmt`), which have versions of
//! their own.
//!
//! Nobody sends them yet: a file system has one rank.

use maps::{Epoch, MdsRank, SnapId};
use std::collections::BTreeMap;
use wire::Errno;

/// Values of [`MdsTxn::op`].
pub mod txn_op {
    /// Coordinator: journal your part, then answer.
    pub const PREPARE: u8 = 0;
    /// Participant: my part is durable.
    pub const PREPARED: u8 = 1;
    /// Participant: my part can't be carried out.
    pub const REFUSED: u8 = 2;
    /// Coordinator: all parts are durable; yours takes effect.
    pub const COMMIT: u8 = 3;
    /// Coordinator: the transaction does not take place.
    pub const ABORT: u8 = 4;
    /// Participant: the decision is durable here.
    pub const DECIDED: u8 = 5;
    /// Participant after a restart: what was decided?
    pub const QUERY: u8 = 6;
}

/// Values of [`MdsExport::step`], in order.
pub mod export_step {
    /// Exporter: load the path to the subtree.
    pub const DISCOVER: u8 = 0;
    /// Exporter: the subtree is frozen; hold space for it.
    pub const PREPARE: u8 = 1;
    /// Exporter: this is its content.
    pub const EXPORT: u8 = 2;
    /// Exporter to bystanders: the authority is about to change.
    pub const NOTIFY: u8 = 3;
    /// Exporter: the subtree is yours.
    pub const FINISH: u8 = 4;
    /// Either side: the migration does not take place.
    pub const CANCEL: u8 = 5;
}

/// Values of [`MdsTable::table`].
pub mod table_id {
    /// The table of snapshots.
    pub const SNAPSHOTS: u8 = 0;
}

wire::wire_structs! {
    /// The common head of all messages between ranks.
    #[derive(Copy, Eq)]
    pub struct MdsHead[plain] {
        /// The sender's rank.
        pub from: MdsRank,
        /// The sender's MDS map: a receiver with an older one waits for it.
        pub epoch: Epoch,
        /// Chosen by the asking side; an answer repeats it.
        pub tid: u64,
    }

    /// A directory fragment.
    #[derive(Copy, Eq)]
    pub struct FragId[plain] {
        /// Inode of the directory.
        pub ino: u64,
        /// The fragment: length of its prefix << 24 | prefix.
        pub frag: u32,
    }

    /// An inode, live or of a snapshot.
    #[derive(Copy, Eq)]
    pub struct InodeId[plain] {
        /// The inode's number.
        pub ino: u64,
        /// The last snapshot that it is in, or [`SnapId::HEAD`].
        pub snap: SnapId,
    }
}

wire::messages! {
    /// Asks the authority for replicas of a path's entries and inodes.
    pub struct MdsDiscover = 0xe301 "mds_discover" [v 1/1] {
        /// Sender and map.
        pub head: MdsHead,
        /// The fragment that the path begins in.
        pub base: FragId,
        /// Names below it, in the order of the path.
        pub path: Vec<Vec<u8>>,
        /// The snapshot to look in, or [`SnapId::HEAD`].
        pub snap: SnapId,
        /// Capability bits that the replica of the last inode needs.
        pub want: u32,
    }

    /// Answers [`MdsDiscover`].
    pub struct MdsDiscoverReply = 0xe302 "mds_discover_reply" [v 1/1] {
        /// Sender and map.
        pub head: MdsHead,
        /// Repeats the request's `base`.
        pub base: FragId,
        /// Encoded entries, one for each name that was found.
        pub entries: Vec<Vec<u8>>,
        /// Another rank that has the authority over the rest of the path.
        pub hint: Option<MdsRank>,
        /// The first name without an entry does not exist, or is no directory.
        pub errno: Option<Errno>,
        /// Capability bits that the replica of the last inode has.
        pub caps: u32,
    }

    /// A step of a transaction that several ranks take part in.
    pub struct MdsTxn = 0xe303 "mds_txn" [v 1/1] {
        /// Sender and map.
        pub head: MdsHead,
        /// One of [`txn_op`].
        pub op: u8,
        /// The rank that coordinates it.
        pub coordinator: MdsRank,
        /// Its number there.
        pub number: u64,
        /// Encoded part of the receiver; only with `PREPARE`.
        pub part: Vec<u8>,
        /// The reason; only with `REFUSED`.
        pub errno: Option<Errno>,
    }

    /// The authority takes capability bits of an inode back from a replica, or grants some.
    pub struct MdsRevoke = 0xe304 "mds_revoke" [v 1/1] {
        /// Sender and map.
        pub head: MdsHead,
        /// The inode concerned.
        pub inode: InodeId,
        /// Number of this message about the replica's capability.
        pub seq: u32,
        /// Bits that the replica may have from now on.
        pub caps: u32,
        /// Encoded inode, if the replica's copy is older.
        pub data: Vec<u8>,
    }

    /// A replica confirms [`MdsRevoke`], asks for bits, or gives its copy up.
    pub struct MdsReturn = 0xe305 "mds_return" [v 1/1] {
        /// Sender and map.
        pub head: MdsHead,
        /// The inode concerned.
        pub inode: InodeId,
        /// The last message that the replica has carried out.
        pub seq: u32,
        /// Bits that it still has.
        pub caps: u32,
        /// Bits that it wants.
        pub wanted: u32,
        /// The copy has left its cache.
        pub is_gone: bool,
    }

    /// A step of the migration of a subtree.
    pub struct MdsExport = 0xe306 "mds_export" [v 1/1] {
        /// Sender and map.
        pub head: MdsHead,
        /// Root of the subtree.
        pub root: FragId,
        /// One of [`export_step`].
        pub step: u8,
        /// The rank that gets it.
        pub importer: MdsRank,
        /// Roots of subtrees below it that stay as they are.
        pub bounds: Vec<FragId>,
        /// Encoded inodes, entries, capabilities and sessions; only with `EXPORT`, in parts.
        pub content: Vec<u8>,
        /// The last part.
        pub is_last: bool,
    }

    /// Answers a step of [`MdsExport`].
    pub struct MdsExportReply = 0xe307 "mds_export_reply" [v 1/1] {
        /// Sender and map.
        pub head: MdsHead,
        /// Repeats the request's `root`.
        pub root: FragId,
        /// Repeats the request's `step`.
        pub step: u8,
        /// The reason why the migration does not take place.
        pub errno: Option<Errno>,
    }

    /// The load of a rank, sent to all others at intervals.
    pub struct MdsLoad = 0xe308 "mds_load" [v 1/1] {
        /// Sender and map.
        pub head: MdsHead,
        /// Operations a second, in thousandths.
        pub ops_milli: u64,
        /// Share of a processor that it takes, in thousandths.
        pub cpu_milli: u32,
        /// Operations that wait.
        pub queued: u32,
        /// Number of cached inodes.
        pub inodes: u64,
        /// Load in thousandths of operations a second that it imported from each rank and may give back.
        pub imported: BTreeMap<MdsRank, u64>,
    }

    /// Asks the rank that keeps a table for a change of it, or announces the decision on a prepared one.
    pub struct MdsTable = 0xe309 "mds_table" [v 1/1] {
        /// Sender and map.
        pub head: MdsHead,
        /// One of [`table_id`].
        pub table: u8,
        /// One of [`txn_op`].
        pub op: u8,
        /// The table's version of the change; 0 before it is prepared.
        pub version: u64,
        /// An encoded record of that table.
        pub record: Vec<u8>,
    }

    /// Answers [`MdsTable`].
    pub struct MdsTableReply = 0xe30a "mds_table_reply" [v 1/1] {
        /// Sender and map.
        pub head: MdsHead,
        /// Repeats the request's `table`.
        pub table: u8,
        /// The table's version of the change.
        pub version: u64,
        /// The reason why the change does not take place.
        pub errno: Option<Errno>,
        /// Encoded record as it was prepared.
        pub record: Vec<u8>,
    }
}
