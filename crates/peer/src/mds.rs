//! Messages between metadata servers: subtrees that are handed over (docs/adr/0021-authority-moves-by-one-write.md),
//! and, declared for later, discovery of paths, transactions, capabilities of replicas, load, and requests to the
//! rank that keeps a table. Updates, inodes and entries travel encoded: their structures are the metadata server's
//! stored formats (crate `fsfmt`), which have versions of their own.

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

    /// An entry of a subtree that is handed over.
    pub struct HandedEntry[plain] {
        /// Its fragment.
        pub dir: FragId,
        /// Its name.
        pub name: Vec<u8>,
        /// The encoded entry.
        pub entry: Vec<u8>,
    }

    /// A client's capability that is handed over. All of it is confirmed.
    #[derive(Copy, Eq)]
    pub struct HandedCap[plain] {
        /// Number of the inode.
        pub ino: u64,
        /// The client's global id.
        pub client: u64,
        /// Number of the capability.
        pub id: u64,
        /// Bits that the client has.
        pub held: u32,
        /// Bits that it wants.
        pub wanted: u32,
        /// Number of the last message about it.
        pub seq: u32,
        /// Number of times that it was handed over before.
        pub migrate_seq: u32,
    }

    /// File locks of a client that are handed over.
    pub struct HandedLocks[plain] {
        /// Number of the file.
        pub ino: u64,
        /// The client's global id.
        pub client: u64,
        /// Its locks, encoded as it claims them when it reconnects.
        pub locks: Vec<u8>,
    }

    /// A capability under the authority that has taken it.
    #[derive(Copy, Eq)]
    pub struct TakenCap[plain] {
        /// Number of the inode.
        pub ino: u64,
        /// The client's global id.
        pub client: u64,
        /// Number of the capability from now on.
        pub id: u64,
        /// Number of the first message about it.
        pub seq: u32,
        /// Number of times that it was handed over.
        pub migrate_seq: u32,
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

    /// Hands over a subtree whose record names the receiver, with what clients hold in it. It is repeated
    /// until [`MdsTaken`] answers it.
    pub struct MdsHandOver = 0xe306 "mds_hand_over" [v 1/1] {
        /// Sender and map.
        pub head: MdsHead,
        /// Inode number of its root.
        pub root: u64,
        /// Its encoded record.
        pub record: Vec<u8>,
        /// The root's encoded inode.
        pub inode: Vec<u8>,
        /// Encoded records of the sessions that hold something in it, by client.
        pub sessions: BTreeMap<u64, Vec<u8>>,
        /// Its directories, and files that somebody holds, each directory before what is in it.
        pub entries: Vec<HandedEntry>,
        /// Capabilities in it.
        pub caps: Vec<HandedCap>,
        /// File locks in it.
        pub locks: Vec<HandedLocks>,
    }

    /// Answers [`MdsHandOver`]: the sender has the authority, and the record says so.
    pub struct MdsTaken = 0xe307 "mds_taken" [v 1/1] {
        /// Sender and map.
        pub head: MdsHead,
        /// Inode number of the root.
        pub root: u64,
        /// It is part of the subtree around it now.
        pub is_merged: bool,
        /// The capabilities as they go on; none if the sender has been restarted since.
        pub caps: Vec<TakenCap>,
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

    /// Asks the authority over a subtree to hand it over to the sender, which needs all of it.
    pub struct MdsRecall = 0xe30b "mds_recall" [v 1/1] {
        /// Sender and map.
        pub head: MdsHead,
        /// Inode number of the root.
        pub root: u64,
    }

    /// Tells who has the authority over a subtree.
    pub struct MdsAuthority = 0xe30c "mds_authority" [v 1/1] {
        /// Sender and map.
        pub head: MdsHead,
        /// Inode number of the root.
        pub root: u64,
        /// Its encoded record; empty if it is part of the subtree around it.
        pub record: Vec<u8>,
    }

    /// Tells the authority over the directory above a subtree what the root is like.
    pub struct MdsRootInode = 0xe30d "mds_root_inode" [v 1/1] {
        /// Sender and map.
        pub head: MdsHead,
        /// The root's encoded inode.
        pub inode: Vec<u8>,
    }
}
