//! Object operations that the rank asks for and what comes of them. Each request is one atomic vector on one
//! object. The daemon carries them out with `rados`, tests with maps in memory.

use crate::types::IoId;
use std::collections::BTreeMap;
use wire::Errno;

/// An object.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ObjectId {
    /// Pool.
    pub pool: i64,
    /// Namespace.
    pub ns: String,
    /// Name.
    pub name: String,
}

/// One operation of a vector.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ObjOp {
    /// Make it if it is not there.
    Create,
    /// Read bytes; all where `len` is 0.
    Read {
        /// From.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// Write bytes.
    Write {
        /// From.
        offset: u64,
        /// What.
        data: Vec<u8>,
    },
    /// Replace all bytes.
    WriteFull(Vec<u8>),
    /// Set the size.
    Truncate(u64),
    /// Remove the object.
    Delete,
    /// Omap entries behind a key.
    OmapList {
        /// The key before the first.
        after: Vec<u8>,
        /// At most so many.
        max: u64,
    },
    /// Omap entries of these keys.
    OmapGet(Vec<Vec<u8>>),
    /// Set omap entries.
    OmapSet(BTreeMap<Vec<u8>, Vec<u8>>),
    /// Remove omap entries.
    OmapRemove(Vec<Vec<u8>>),
    /// Set the omap header.
    OmapHeader(Vec<u8>),
}

impl ObjOp {
    /// Whether it changes the object.
    pub fn writes(&self) -> bool {
        !matches!(self, Self::Read { .. } | Self::OmapList { .. } | Self::OmapGet(_))
    }
}

/// What one operation of a vector returns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ObjReply {
    /// Nothing.
    None,
    /// Bytes read.
    Data(Vec<u8>),
    /// Omap entries, and whether more follow.
    Omap(BTreeMap<Vec<u8>, Vec<u8>>, bool),
}

/// How a request ended: a reply for each operation, or the error.
pub type IoResult = Result<Vec<ObjReply>, Errno>;

/// A request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IoRequest {
    /// Its number.
    pub id: IoId,
    /// The object.
    pub object: ObjectId,
    /// What to do, in order.
    pub ops: Vec<ObjOp>,
}

/// What the requests in flight are for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum IoWhy {
    /// Write of journal bytes.
    Journal,
    /// Journal header.
    JournalHeader,
    /// Removal of an expired journal object.
    JournalTrim,
    /// Reading the journal or a table at start.
    Boot,
    /// A load.
    Load,
    /// Write-back of a directory.
    Dir(fsfmt::DirFrag),
    /// Write-back of an inode that is stored alone.
    Base(fsfmt::Ino),
    /// Write-back of a part of the inode index.
    Index(String),
    /// Write-back of the session table.
    Sessions,
    /// Write-back of the inode number table.
    InoTable,
    /// Removal or truncation of a data object.
    Data(fsfmt::InodeKey),
}
