//! Object operations of the rank, and their results. Each request is one atomic vector on one object. The
//! daemon executes them with `rados`, tests with maps in memory.

use crate::types::{IoId, SnapContext};
use std::collections::BTreeMap;
use wire::Errno;

/// Full name of an object.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ObjectId {
    /// Its pool.
    pub pool: i64,
    /// Its namespace.
    pub ns: String,
    /// Its name.
    pub name: String,
}

/// One operation of a vector.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ObjOp {
    /// Create it if it does not exist.
    Create,
    /// Read bytes; all if `len` is 0.
    Read {
        /// Offset to read from.
        offset: u64,
        /// Number of bytes.
        len: u64,
    },
    /// Writes bytes at an offset.
    Write {
        /// Offset to write at.
        offset: u64,
        /// Bytes to write.
        data: Vec<u8>,
    },
    /// Replace all bytes.
    WriteFull(Vec<u8>),
    /// Set the size.
    Truncate(u64),
    /// Carry out a file's truncation number `seq`, unless the object knows of it or of a later one: set the
    /// size. Does nothing if there is no object.
    Cut {
        /// Bytes of the object that the truncation keeps.
        size: u64,
        /// Number of the truncation.
        seq: u32,
    },
    /// Remove the object.
    Delete,
    /// List omap entries after a key.
    OmapList {
        /// The key before the first.
        after: Vec<u8>,
        /// Maximum number of entries.
        max: u64,
    },
    /// Get the omap entries of these keys.
    OmapGet(Vec<Vec<u8>>),
    /// Set omap entries.
    OmapSet(BTreeMap<Vec<u8>, Vec<u8>>),
    /// Remove omap entries.
    OmapRemove(Vec<Vec<u8>>),
    /// Set the omap header.
    OmapHeader(Vec<u8>),
}

impl ObjOp {
    /// True if it changes the object.
    pub fn writes(&self) -> bool {
        !matches!(self, Self::Read { .. } | Self::OmapList { .. } | Self::OmapGet(_))
    }
}

/// Result of one operation of a vector.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ObjReply {
    /// No result.
    None,
    /// The bytes that were read.
    Data(Vec<u8>),
    /// Omap entries, and whether more follow.
    Omap(BTreeMap<Vec<u8>, Vec<u8>>, bool),
}

/// Result of a request: a reply for each operation, or the error.
pub type IoResult = Result<Vec<ObjReply>, Errno>;

/// A request to the object store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IoRequest {
    /// Number of the request.
    pub id: IoId,
    /// The object concerned.
    pub object: ObjectId,
    /// The snapshots that it must preserve.
    pub snaps: SnapContext,
    /// Operations, in order.
    pub ops: Vec<ObjOp>,
}

/// Purposes of the requests in flight.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum IoWhy {
    /// Write of journal bytes.
    Journal,
    /// Reads or writes the journal's header.
    JournalHeader,
    /// Removal of an expired journal object.
    JournalTrim,
    /// Reading the journal or a table at start.
    Boot,
    /// Loads what an operation lacks.
    Load,
    /// Reads what a scrub compares.
    Scrub,
    /// Write-back of a directory.
    Dir(fsfmt::DirFrag),
    /// Write-back of an inode that is stored alone.
    Base(fsfmt::Ino),
    /// Write-back of a part of the inode index.
    Index(String),
    /// Write-back of the session table.
    Sessions,
    /// Write-back of the table of snapshots.
    Snaps,
    /// Write-back of what is counted of subtrees.
    Borders,
    /// Write-back of the inode number table.
    InoTable,
    /// Copies the entries of fragments that are split or joined, or removes what is left of them.
    Refragment,
    /// Writes the partition: the record of a subtree, or its root's inode before.
    Partition,
    /// Reads records of the partition.
    PartitionRead,
    /// Removal or truncation of a data object.
    Data(fsfmt::InodeKey),
}
