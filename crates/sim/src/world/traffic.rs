//! Messages on their way over links, and how links end. Messages are ordered and arrive at most once; a
//! broken link ends at both ends.

use super::{What, World};
use crate::disk::Crash;
use crate::host::HostId;
use node::{CloseReason, ConnId, Msg};
use stdx::Instant;

impl<Req, Rep> World<Req, Rep> {
    pub(crate) fn send(&mut self, host: HostId, conn: ConnId, msg: Msg) {
        let Some((number, side)) = self.links.of_end(host, conn) else {
            return self.send_to_orphan(host, conn);
        };
        if let Some(msg) = self.links.keep_pending(number, msg) {
            self.transmit(number, side, msg);
        }
    }

    fn send_to_orphan(&mut self, host: HostId, conn: ConnId) {
        if let Some(peer) = self.links.lost_peer(host, conn)
            && self.is_up(peer)
        {
            self.links.end_orphan(host, conn);
            let at = self.arrival();
            self.due_input(at, host, What::Closed { conn, reason: CloseReason::Lost });
        }
    }

    /// Sends over an established link, from end `side`.
    pub(super) fn transmit(&mut self, number: usize, side: usize, msg: Msg) {
        let Some(ends) = self.links.ends(number) else { return };
        let (Some(from), Some(to)) = (ends[side], ends[1 - side]) else { return };
        let lossless = self.links.is_lossless(number);
        if let Some(mut observer) = self.observer.take() {
            let found = observer(self.now(), from.host, to.host, &msg);
            self.violations.extend(found);
            self.observer = Some(observer);
        }
        if self.is_cut(from.host, to.host) {
            return self.links.hold(number, side, msg);
        }
        let every = self.faults.break_every;
        if !lossless && every > 0 && self.rng().chance(1, every) {
            self.broken += 1;
            return self.break_link(number);
        }
        let msg = if self.encode { recode(msg) } else { msg };
        let (at, bytes) = self.departs(from.host, to.host, &msg);
        let now = self.now();
        self.processors.sent(now, from.host, bytes);
        let at = self.links.arrive(number, 1 - side, at);
        self.deliver(at, to.host, What::Message { conn: to.conn, msg }, bytes);
    }

    /// Loses a message: nothing in flight is certain any more, and both ends learn of it at some time.
    fn break_link(&mut self, number: usize) {
        let Some(ends) = self.links.ends(number) else { return };
        for (side, end) in ends.into_iter().enumerate() {
            if let Some(end) = end {
                let at = self.arrival();
                let at = self.links.arrive(number, side, at);
                let what = What::Closed { conn: end.conn, reason: CloseReason::Lost };
                self.deliver(at, end.host, what, 0);
            }
        }
        self.links.forget(number);
    }

    /// Closes a node's end. Messages already sent still arrive, then the other end is closed as well.
    pub(crate) fn close(&mut self, host: HostId, conn: ConnId) {
        let Some((number, side)) = self.links.of_end(host, conn) else { return };
        if let Some(other) = self.links.ends(number).and_then(|ends| ends[1 - side]) {
            let at = self.arrival();
            let at = self.links.arrive(number, 1 - side, at);
            let what = What::Closed { conn: other.conn, reason: CloseReason::Lost };
            self.deliver(at, other.host, what, 0);
        }
        self.links.forget(number);
    }

    /// Ends the links of a dead node: at once after a kill, later after a power loss.
    pub(crate) fn end_links_of(&mut self, host: HostId, how: Crash) {
        for (number, side) in self.links.of_host(host) {
            let lossless = self.links.is_lossless(number);
            if let Some(other) = self.links.ends(number).and_then(|ends| ends[1 - side]) {
                // A lossless session is dialled again: the host of a killed process refuses, one without
                // power is silent.
                let reason = match (lossless, how) {
                    (false, _) => CloseReason::Lost,
                    (true, Crash::Process) => CloseReason::Refused,
                    (true, Crash::Power) => CloseReason::TimedOut,
                };
                let mut at = self.arrival();
                if how == Crash::Power {
                    self.links.orphan(other, host);
                    at = at + std::time::Duration::from_secs(5);
                }
                let at = self.links.arrive(number, 1 - side, at);
                self.deliver(at, other.host, What::Closed { conn: other.conn, reason }, 0);
            }
            self.links.forget(number);
        }
    }

    /// Sends the messages that were held while a direction was cut.
    pub(crate) fn release_held(&mut self, from: HostId, to: HostId) {
        for (number, side, msg) in self.links.take_held(from, to) {
            self.transmit(number, side, msg);
        }
    }

    /// The arrival of a message that is sent now, or of its first byte, and its length in bytes.
    fn departs(&mut self, from: HostId, to: HostId, msg: &Msg) -> (Instant, u64) {
        let now = self.now();
        match &mut self.machines {
            Some(machines) => machines.send(now, from, to, msg),
            None => (self.arrival(), 0),
        }
    }

    /// Delivers a message, or its first byte, at a time.
    fn deliver(&mut self, at: Instant, to: HostId, what: What, bytes: u64) {
        match self.machines {
            Some(_) => self.due_reached(at, to, what, bytes),
            None => self.due_input(at, to, what),
        }
    }
}

/// Encodes and decodes a message, as the real path does.
fn recode(msg: Msg) -> Msg {
    match Msg::from_raw(msg.to_raw()) {
        Ok(decoded) => decoded,
        Err(error) => panic!("own message does not decode, {error}: {msg:?}"),
    }
}
