//! Messages between metadata servers: subtrees that are handed over
//! (docs/adr/0021-authority-moves-by-one-write.md). Inodes, entries and records travel encoded: their
//! structures are the metadata server's stored formats (crate `fsfmt`), which have versions of their own.

use std::collections::BTreeMap;

wire::wire_structs! {
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

    /// The recursive statistics of a subtree.
    pub struct SubtreeStat[plain] {
        /// Inode number of the root.
        pub root: u64,
        /// What the directory above counted of it when it left that directory's rank, encoded.
        pub accounted: Vec<u8>,
        /// What it amounts to, encoded.
        pub rstat: Vec<u8>,
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
        /// The client claimed it after a restart, and has not told yet what it wrote before.
        pub is_untold: bool,
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
}

wire::messages! {
    /// Hands over a subtree whose record names the receiver, with what clients hold in it. It is repeated
    /// until [`MdsTaken`] answers it.
    pub struct MdsHandOver = 0xe306 "mds_hand_over" [v 4/4] {
        /// Inode number of its root.
        pub root: u64,
        /// Its encoded record.
        pub record: Vec<u8>,
        /// The root's encoded inode.
        pub inode: Vec<u8>,
        /// Encoded records of all subtrees below it, by root.
        pub subtrees: BTreeMap<u64, Vec<u8>>,
        /// Encoded records of the sessions that hold something in it, by client.
        pub sessions: BTreeMap<u64, Vec<u8>>,
        /// Its directories, and files that somebody holds, each directory before what is in it.
        pub entries: Vec<HandedEntry>,
        /// Capabilities in it.
        pub caps: Vec<HandedCap>,
        /// File locks in it.
        pub locks: Vec<HandedLocks>,
        /// How much was done in its directories of late, by inode number, in sixteenths of a request.
        pub popularity: BTreeMap<u64, u64> = since 2,
        /// The version of the table of snapshots that the sender knows: the receiver has to know this one.
        pub snap_table: u64 = since 3,
        /// The number of the [`MdsHandAhead`]s that came before; 0 if there were none.
        pub ahead: u64 = since 4,
        /// How many of these there were.
        pub parts: u32 = since 4,
        /// The inodes of which these do not hold any more: what is said of them here is all.
        pub changed: Vec<u64> = since 4,
    }

    /// Files of a subtree that is about to be handed over. [`MdsHandOver`] says what has changed since.
    pub struct MdsHandAhead = 0xe312 "mds_hand_ahead" [v 1/1] {
        /// Inode number of its root.
        pub root: u64,
        /// Chosen by the sender, never 0: which of its attempts to hand something over this is.
        pub ahead: u64,
        /// The number of earlier parts.
        pub part: u32,
        /// Files that somebody holds.
        pub entries: Vec<HandedEntry>,
        /// Capabilities on them.
        pub caps: Vec<HandedCap>,
    }

    /// Answers [`MdsHandOver`]: the sender has the authority, and the record says so.
    pub struct MdsTaken = 0xe307 "mds_taken" [v 1/1] {
        /// Inode number of the root.
        pub root: u64,
        /// It is part of the subtree around it now.
        pub is_merged: bool,
        /// The capabilities as they go on; none if the sender has been restarted since.
        pub caps: Vec<TakenCap>,
    }

    /// Asks the authority over a subtree to hand it over to the sender, which needs all of it.
    pub struct MdsRecall = 0xe30b "mds_recall" [v 1/1] {
        /// Inode number of the root.
        pub root: u64,
    }

    /// Tells who has the authority over a subtree.
    pub struct MdsAuthority = 0xe30c "mds_authority" [v 1/1] {
        /// Inode number of the root.
        pub root: u64,
        /// Its encoded record; empty if it is part of the subtree around it.
        pub record: Vec<u8>,
    }

    /// Tells the rank of the directories above what subtrees amount to. It is repeated until that answers.
    pub struct MdsStats = 0xe313 "mds_stats" [v 1/1] {
        /// Subtrees of the sender.
        pub stats: Vec<SubtreeStat>,
    }

    /// Answers [`MdsStats`]: these are counted for good. What is missing will be told again.
    pub struct MdsCounted = 0xe314 "mds_counted" [v 1/1] {
        /// As they were told.
        pub stats: Vec<SubtreeStat>,
        /// What directories above these subtrees amount to that limit their number of files, encoded.
        pub limited: BTreeMap<u64, Vec<u8>>,
    }

    /// What an active rank tells all others once a second.
    pub struct MdsHeartbeat = 0xe30d "mds_heartbeat" [v 2/1] {
        /// The sender is handing something over to the receiver, or may begin to when its clients have come
        /// back.
        pub hands_over: bool,
        /// The roots of the subtrees that it has, but for what belongs to it without a record.
        pub roots: Vec<u64>,
        /// What it has to do: weighted requests a second.
        pub load: u64 = since 2,
    }

    /// Gives another rank a replica of a directory, from which it answers what only reads: its entries, and
    /// the files in it. Nothing of that changes until the replica has been given back. Repeated until
    /// answered.
    pub struct MdsReplica = 0xe315 "mds_replica" [v 1/1] {
        /// Inode number of the directory.
        pub dir: u64,
        /// Its place, encoded as the record of a subtree.
        pub record: Vec<u8>,
        /// Its encoded inode.
        pub inode: Vec<u8>,
        /// All of its entries.
        pub entries: Vec<HandedEntry>,
        /// The ranks that answer for it, the sender included.
        pub ranks: Vec<u32>,
        /// The version of the table of snapshots that the receiver has to know.
        pub snap_table: u64,
    }

    /// Answers [`MdsReplica`]: the sender keeps it.
    pub struct MdsReplicaKept = 0xe316 "mds_replica_kept" [v 1/1] {
        /// Inode number of the directory.
        pub dir: u64,
    }

    /// Asks for a replica back.
    pub struct MdsReplicaRecall = 0xe317 "mds_replica_recall" [v 1/1] {
        /// Inode number of the directory.
        pub dir: u64,
        /// Chosen by the sender, never 0: since when it asks.
        pub asked: u64,
    }

    /// The sender has no replica of a directory, or answers from it no more, and its clients hold no bits of
    /// what they had by it. Repeated until answered.
    pub struct MdsReplicaReturned = 0xe318 "mds_replica_returned" [v 1/1] {
        /// Inode number of the directory.
        pub dir: u64,
        /// That of the [`MdsReplicaRecall`] that this answers; 0 if the sender has refused a replica, or has
        /// no more use for it.
        pub asked: u64,
        /// What clients have open in it, which is the receiver's from now on.
        pub caps: Vec<HandedCap>,
        /// Encoded records of their sessions, by client.
        pub sessions: BTreeMap<u64, Vec<u8>>,
    }

    /// Answers [`MdsReplicaReturned`].
    pub struct MdsReplicaTaken = 0xe319 "mds_replica_taken" [v 1/1] {
        /// Inode number of the directory.
        pub dir: u64,
        /// The capabilities as they go on.
        pub caps: Vec<TakenCap>,
    }

    /// Asks another rank to store everything that it has in its journal, since an inode is not found, or
    /// answers that it has.
    pub struct MdsStore = 0xe30e "mds_store" [v 1/1] {
        /// Chosen by the rank that asks.
        pub id: u64,
        /// The sender has stored everything that it had when it was asked.
        pub is_done: bool,
    }

    /// Rank 0 to all others: it is about to change the table of snapshots, so no client is to change a file
    /// with several names, of which all snapshots count, until [`MdsFenceDown`].
    pub struct MdsFence = 0xe30f "mds_fence" [v 1/1] {
        /// Number of this question. All are asked twice.
        pub round: u64,
    }

    /// To rank 0: no client can change such a file now. Repeated until the fence is down; a rank that starts
    /// sends it too, as the table may be changing.
    pub struct MdsFenced = 0xe310 "mds_fenced" [v 1/1] {
        /// That of the last [`MdsFence`]; 0 if there was none.
        pub round: u64,
    }

    /// Rank 0: the table of snapshots does not change any more.
    pub struct MdsFenceDown = 0xe311 "mds_fence_down" [v 1/1] {
        /// That of the last [`MdsFence`].
        pub round: u64,
        /// The table's version. It is stored.
        pub version: u64,
    }
}
