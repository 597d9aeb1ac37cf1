//! One operation under way.

use crate::Request;
use crate::linger::Attempt;
use crate::target::{Place, Target};
use maps::{Epoch, HObject};
use msgs::{OsdOp, osd_flag};

/// What becomes of the answer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Kind {
    /// The caller gets it.
    Plain,
    /// It is read as a part of a listing.
    List,
    /// It is about an operation that lingers.
    Linger(Attempt),
}

#[derive(Debug)]
pub(crate) struct InFlight {
    pub(crate) token: u64,
    pub(crate) kind: Kind,
    pub(crate) request: Request,
    pub(crate) place: Place,
    /// `None` while there is no such pool.
    pub(crate) target: Option<Target>,
    /// How often it was sent, over all connections.
    pub(crate) attempts: i32,
    /// Whether it is with its target, as far as we know.
    pub(crate) sent: bool,
    /// Bytes that count against the limit.
    pub(crate) bytes: usize,
    /// Where there is no such pool: the epoch that proves it.
    pub(crate) gone_if_at: Option<Epoch>,
}

impl InFlight {
    /// The message for the next attempt.
    pub(crate) fn message(&mut self, epoch: Epoch) -> OsdOp {
        let target = self.target.expect("sent only where there is a target");
        let request = &self.request;
        let attempt = self.attempts;
        self.attempts += 1;
        self.sent = true;
        OsdOp {
            pgid: target.spg,
            hash: target.hash,
            epoch,
            flags: request.flags | if attempt > 0 { osd_flag::RETRY } else { 0 },
            mtime: request.mtime,
            locator: request.locator.clone(),
            oid: request.oid.clone(),
            ops: request.ops.clone(),
            snapid: request.snapid,
            snap_seq: request.snapc.seq,
            snaps: request.snapc.snaps.clone(),
            retry_attempt: attempt,
            ..OsdOp::default()
        }
    }

    /// The position that a backoff is compared with.
    pub(crate) fn position(&self) -> HObject {
        match self.place {
            Place::Object => self.request.hobject(),
            Place::Hash(hash) => HObject { pool: self.request.locator.pool, hash, ..HObject::default() },
        }
    }
}
