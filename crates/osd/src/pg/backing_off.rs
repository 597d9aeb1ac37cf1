//! Clients are asked to hold back what this PG can't serve for long: see [`crate::backoff`].
//!
//! Not while PGs peer as they do many times a day: that is over before the client has understood.

use super::Pg;
use super::request::Stage;
use super::state::State;
use crate::backoff::{Range, are_understood};
use crate::core::Core;
use crate::object::hobject_of;
use maps::HObject;
use msgs::{OsdBackoff, backoff_op};
use node::{ConnId, Level};
use std::collections::BTreeSet;
use store::ObjectKey;

impl Pg {
    /// True if clients may have to wait until a person or another OSD acts.
    fn is_unavailable(&self) -> bool {
        match self.state {
            State::Down | State::Incomplete | State::SelfBackfill => true,
            State::Active | State::Clean => !self.is_serving(),
            _ => false,
        }
    }

    /// All its objects, as clients know them.
    fn objects(&self) -> Range {
        let begin =
            HObject { hash: self.local.range().0.hash, pool: self.id.pgid.pool, ..HObject::default() };
        if stdx::mutants::is_active("osd_backs_off_wrong_range") {
            return Range::of(begin);
        }
        let ends = self.local.range().1.shard == self.local.range().0.shard;
        let end = HObject { hash: self.local.range().1.hash, ..begin.clone() };
        Range { begin, end: if ends { end } else { HObject::max() } }
    }

    /// Drops what clients want that can't be had for long, and tells them.
    pub fn back_off(&mut self, core: &mut Core) {
        if !self.is_unavailable() || !self.is_primary(core) {
            return;
        }
        let waiting = self.requests.iter().filter(|op| op.stage == Stage::Waiting);
        let conns: BTreeSet<ConnId> = waiting.filter_map(|op| op.conn).collect();
        for conn in conns.into_iter().filter(|conn| understands(core, *conn)).collect::<Vec<_>>() {
            let dropped = self.requests.ids(|op| op.stage == Stage::Waiting && op.conn == Some(conn));
            self.tell_to_back_off(core, conn, self.objects(), &dropped.into_iter().collect());
        }
    }

    /// The same for the one object that nobody has who answers.
    pub(super) fn back_off_unfound(&mut self, core: &mut Core, head: &ObjectKey) {
        if !self.recovery.is_unfound(head) {
            return;
        }
        let asking = self.requests.queue(head).filter_map(|op| op.conn);
        let conns: BTreeSet<ConnId> = asking.filter(|conn| understands(core, *conn)).collect();
        for conn in conns {
            let of_it = self.requests.queue(head).filter(|op| op.conn == Some(conn));
            let dropped: BTreeSet<u64> = of_it.map(|op| op.id).collect();
            self.tell_to_back_off(core, conn, Range::of(hobject_of(head)), &dropped);
        }
    }

    fn tell_to_back_off(&mut self, core: &mut Core, conn: ConnId, range: Range, dropped: &BTreeSet<u64>) {
        self.requests.drop_all(dropped);
        core.count("requests_backed_off", dropped.len() as u64);
        let text = format!("pg {} ({}): {conn} keeps {} requests", self.id, self.state, dropped.len());
        core.event(Level::Debug, "backoff_begun", text);
        let id = core.begin_backoff(self.id, conn, range.clone());
        self.say(core, conn, backoff_op::BLOCK, id, range);
    }

    /// The PG serves, or is another OSD's: clients send again what was dropped.
    pub(super) fn end_backoffs(&mut self, core: &mut Core) {
        if stdx::mutants::is_active("osd_forgets_to_unblock") {
            return;
        }
        for (conn, id, range) in core.end_backoffs(self.id, None) {
            self.say(core, conn, backoff_op::UNBLOCK, id, range);
        }
    }

    /// An object can be served again.
    pub(super) fn end_backoffs_of(&mut self, core: &mut Core, head: &ObjectKey) {
        if core.backoffs().is_empty() {
            return;
        }
        for (conn, id, range) in core.end_backoffs(self.id, Some(&hobject_of(head))) {
            self.say(core, conn, backoff_op::UNBLOCK, id, range);
        }
    }

    fn say(&self, core: &mut Core, conn: ConnId, op: u8, id: u64, range: Range) {
        let Range { begin, end } = range;
        let body = OsdBackoff { pgid: self.id, epoch: core.epoch(), op, id, begin, end };
        core.send(conn, 0, msgs::Body::from(body));
    }
}

/// True if the peer of a connection obeys backoffs. Other OSDs do not hold requests back.
fn understands(core: &Core, conn: ConnId) -> bool {
    let session = core.session(conn);
    session.is_some_and(|s| !s.is_osd() && are_understood(s.peer().features))
}
