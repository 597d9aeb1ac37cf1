//! One operation in flight.

use crate::Request;
use crate::target::{Place, Placement, Target, is_paused};
use maps::{Epoch, HObject, OsdMap};
use msgs::{OsdOp, osd_flag};
use stdx::Instant;

/// One operation that lingers, by its owner's number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum LingerId {
    /// By its cookie.
    Watch(u64),
    /// By its token.
    Notify(u64),
}

/// The attempt that an operation in flight belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Attempt {
    pub(crate) id: LingerId,
    pub(crate) generation: u32,
    /// Send time of a ping.
    pub(crate) pinged: Option<Instant>,
}

/// The receiver of the answer.
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
    /// Number of times that it was sent, over all connections.
    pub(crate) attempts: i32,
    /// True if its target has it, as far as we know.
    pub(crate) sent: bool,
    /// Bytes that count against the limit.
    pub(crate) bytes: usize,
    /// Set if there is no such pool: the epoch that proves it.
    pub(crate) gone_if_at: Option<Epoch>,
}

impl InFlight {
    /// Follows a map, which may not be the newest: finds the operation's target, and reports whether it must
    /// be sent again because the OSD that has it forgets it with this map. `skipped` if there were maps in
    /// between that we have not seen, any of which may have made it forget.
    pub(crate) fn follow(&mut self, tid: u64, map: &OsdMap, placement: &mut Placement, skipped: bool) {
        let target = placement.target(map, &self.request, &self.place, tid);
        match (&self.target, &target) {
            (Some(old), Some(new)) if !old.must_resend(new) && !skipped => {}
            (Some(_), None) => {
                // The pool was there and is not any more: this map proves it.
                self.gone_if_at = Some(map.epoch);
                self.sent = false;
            }
            _ => self.sent = false,
        }
        if is_paused(map, self.request.locator.pool, self.request.flags) {
            // An OSD that knew this map before us has passed over it.
            self.sent = false;
        }
        self.target = target;
    }

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
