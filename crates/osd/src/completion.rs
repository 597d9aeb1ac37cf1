//! The owner of each transaction and read that the store has not finished: it is handed back with the
//! completion.

use maps::{EVersion, Epoch, Spg};
use node::{ConnId, Msg};
use store::ObjectKey;

/// The action that follows when a transaction is durable.
#[derive(Debug)]
pub enum CommitFor {
    /// No owner.
    Nothing,
    /// Send a message to the primary, or to whoever asked.
    Send {
        /// Connection for the message.
        conn: ConnId,
        /// The message to send.
        msg: Box<Msg>,
    },
    /// As primary: counts our own copy of an update that we ordered.
    Update {
        /// The PG concerned.
        pgid: Spg,
        /// The round of peering in which it was ordered.
        round: u64,
        /// The update's version.
        version: EVersion,
    },
    /// As primary: counts our own part of an activation.
    Activated {
        /// The PG concerned.
        pgid: Spg,
        /// The round of peering that ended with it.
        round: u64,
    },
    /// Counts a part of an object that we pulled.
    Pulled {
        /// The PG concerned.
        pgid: Spg,
        /// The round of peering in which it was asked for.
        round: u64,
        /// The object concerned.
        key: Box<ObjectKey>,
    },
    /// Our own copy is complete: its backfill has ended.
    SelfBackfilled {
        /// The PG concerned.
        pgid: Spg,
        /// The round of peering in which it ran.
        round: u64,
    },
    /// Removes the next objects of a PG that is being removed.
    Removed {
        /// The PG concerned.
        pgid: Spg,
    },
}

/// The owner of a read.
#[derive(Debug)]
pub enum ReadFor {
    /// A client's request.
    Op {
        /// The PG concerned.
        pgid: Spg,
        /// Number of the request.
        id: u64,
        /// Number of the request's attempt.
        attempt: u32,
        /// Index of the read within the attempt.
        index: usize,
    },
    /// A listing for a client.
    List {
        /// The PG concerned.
        pgid: Spg,
        /// Number of the request.
        id: u64,
        /// Number of the request's attempt.
        attempt: u32,
    },
    /// A head of a listing, which may be a whiteout.
    ListedHead {
        /// The PG concerned.
        pgid: Spg,
        /// Number of the request.
        id: u64,
        /// Number of the request's attempt.
        attempt: u32,
        /// Head of the object.
        head: Box<ObjectKey>,
    },
    /// The next part of an object that is sent to another OSD.
    Part {
        /// The PG concerned.
        pgid: Spg,
        /// Transaction id of the transfer.
        tid: u64,
    },
    /// Keys for a comparison, as its owner (primary) or on request.
    Scan {
        /// The PG concerned.
        pgid: Spg,
        /// Number of the scan.
        id: u64,
    },
    /// The version of one object for a comparison.
    ScanVersion {
        /// The PG concerned.
        pgid: Spg,
        /// Number of the scan.
        id: u64,
        /// The object concerned.
        key: Box<ObjectKey>,
    },
    /// Clones of a snapshot that is trimmed.
    SnapIndex {
        /// The PG concerned.
        pgid: Spg,
        /// The round of peering.
        round: u64,
    },
    /// The primary's state of an object whose newest version is given up.
    Reverted {
        /// The PG concerned.
        pgid: Spg,
        /// The round of peering.
        round: u64,
        /// The object concerned.
        key: Box<ObjectKey>,
    },
    /// Keys of a PG that is being removed.
    Removal {
        /// The PG concerned.
        pgid: Spg,
    },
    /// A part of a scrubbed chunk.
    Scrub {
        /// The PG concerned.
        pgid: Spg,
        /// Number of the scan.
        id: u64,
    },
    /// The superblock at start.
    Superblock,
    /// A stored map.
    Map(Epoch),
    /// The keys of all PGs' stored records.
    Pgs,
    /// A page of one PG's stored records.
    PgMeta(Spg),
    /// Partly received objects of an earlier start.
    Temps,
}
