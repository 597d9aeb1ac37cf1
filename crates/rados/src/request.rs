//! A caller's request about one object.

use maps::{HObject, ObjectLocator, SnapId};
use msgs::{Op, SubOp, osd_flag};
use wire::Utime;

/// The namespace that stands for all of them in a listing.
pub const ALL_NAMESPACES: &[u8] = b"\x01";

/// Flags that let other members than the primary answer.
const BALANCED: u32 = osd_flag::BALANCE_READS | osd_flag::LOCALIZE_READS;

/// The snapshots that a write must preserve.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SnapContext {
    /// The newest.
    pub seq: SnapId,
    /// All, descending.
    pub snaps: Vec<SnapId>,
}

/// A vector of operations on one object: all of them happen, or none.
#[derive(Clone, PartialEq, Debug)]
pub struct Request {
    /// Pool, namespace, locator key.
    pub locator: ObjectLocator,
    /// Name.
    pub oid: Vec<u8>,
    /// Operations, in order.
    pub ops: Vec<SubOp>,
    /// The snapshot to read, or the head.
    pub snapid: SnapId,
    /// Snapshot context of writes.
    pub snapc: SnapContext,
    /// [`osd_flag`] bits.
    pub flags: u32,
    /// Time of a write; zero for the time of submission.
    pub mtime: Utime,
}

impl Request {
    /// A request that reads. A [`Op::Call`] in it must be of a method that only reads.
    pub fn read(pool: i64, namespace: &[u8], oid: impl Into<Vec<u8>>, ops: Vec<Op>) -> Self {
        Self::new(pool, namespace, oid.into(), ops, osd_flag::READ)
    }

    /// A request that writes, and may read as well.
    pub fn write(pool: i64, namespace: &[u8], oid: impl Into<Vec<u8>>, ops: Vec<Op>) -> Self {
        let reads = ops.iter().any(|op| op.code().reads());
        Self::new(pool, namespace, oid.into(), ops, osd_flag::WRITE | if reads { osd_flag::READ } else { 0 })
    }

    fn new(pool: i64, namespace: &[u8], oid: Vec<u8>, ops: Vec<Op>, flags: u32) -> Self {
        Self {
            locator: ObjectLocator::new(pool, namespace),
            oid,
            ops: ops.into_iter().map(SubOp::from).collect(),
            snapid: SnapId::HEAD,
            snapc: SnapContext::default(),
            flags: flags | osd_flag::ONDISK | osd_flag::KNOWN_REDIR,
            mtime: Utime::default(),
        }
    }

    /// Sets the snapshot context.
    #[must_use]
    pub fn with_snapc(mut self, snapc: SnapContext) -> Self {
        self.snapc = snapc;
        self
    }

    /// Reads a snapshot.
    #[must_use]
    pub fn at_snap(mut self, snapid: SnapId) -> Self {
        self.snapid = snapid;
        self
    }

    /// Adds flags.
    #[must_use]
    pub fn with_flags(mut self, flags: u32) -> Self {
        self.flags |= flags;
        self
    }

    pub(crate) fn writes(&self) -> bool {
        self.flags & osd_flag::WRITE != 0
    }

    /// True if any member may answer.
    pub(crate) fn is_balanced(&self) -> bool {
        self.flags & BALANCED != 0 && !self.writes()
    }

    /// Only the primary can answer.
    pub(crate) fn leave_to_primary(&mut self) {
        self.flags &= !BALANCED;
    }

    /// Bytes of payload.
    pub(crate) fn data_len(&self) -> usize {
        self.ops.iter().map(|sub| sub.op.to_raw(0).1.len()).sum()
    }

    /// The object as a position among all.
    pub(crate) fn hobject(&self) -> HObject {
        let hash = self.locator.hash_of(&self.oid);
        HObject { hash, ..HObject::head(self.locator.pool, &self.locator.ns, &self.locator.key, &self.oid) }
    }
}
