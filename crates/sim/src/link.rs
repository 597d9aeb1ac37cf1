//! Links: the two ends of a connection. Messages are ordered and arrive at most once; a broken link ends at
//! both ends.

use crate::disk::Crash;
use crate::world::{HostId, What, World};
use node::{CloseReason, ConnId, Msg};
use std::collections::BTreeMap;
use stdx::Instant;

/// All links of a world, by number.
#[derive(Default)]
pub(crate) struct Links {
    links: BTreeMap<usize, Link>,
    by_end: BTreeMap<(HostId, ConnId), (usize, usize)>,
    /// Ends whose peer lost its power without a word: the next message to it after its restart is refused.
    orphans: BTreeMap<(HostId, ConnId), HostId>,
    next: usize,
}

struct Link {
    /// The opener and, once established, the acceptor.
    ends: [Option<End>; 2],
    target: Option<HostId>,
    lossless: bool,
    /// Latest arrival so far, at the opener and at the acceptor. No message may arrive earlier than the
    /// previous one.
    latest: [Instant; 2],
    /// Sent before the link was established.
    pending: Vec<Msg>,
    /// Sent while the direction was cut: (sending end, message).
    held: Vec<(usize, Msg)>,
}

#[derive(Clone, Copy)]
struct End {
    host: HostId,
    incarnation: u64,
    conn: ConnId,
}

impl Links {
    pub(crate) fn open(
        &mut self,
        host: HostId,
        incarnation: u64,
        conn: ConnId,
        target: Option<HostId>,
        lossless: bool,
    ) -> usize {
        let link = self.next;
        self.next += 1;
        let opener = Some(End { host, incarnation, conn });
        self.links.insert(
            link,
            Link {
                ends: [opener, None],
                target,
                lossless,
                latest: [Instant(0); 2],
                pending: Vec::new(),
                held: Vec::new(),
            },
        );
        let old = self.by_end.insert((host, conn), (link, 0));
        assert!(old.is_none(), "{conn} opened twice");
        link
    }

    /// The opener of a link that is not established yet, and its target.
    pub(crate) fn opening(&self, link: usize) -> Option<(HostId, u64, ConnId, Option<HostId>)> {
        let link = self.links.get(&link)?;
        let End { host, incarnation, conn } = link.ends[0]?;
        Some((host, incarnation, conn, link.target))
    }

    pub(crate) fn establish(&mut self, link: usize, host: HostId, incarnation: u64, conn: ConnId) {
        self.links.get_mut(&link).expect("a link").ends[1] = Some(End { host, incarnation, conn });
        self.by_end.insert((host, conn), (link, 1));
    }

    pub(crate) fn has(&self, host: HostId, conn: ConnId) -> bool {
        self.by_end.contains_key(&(host, conn))
    }

    pub(crate) fn forget(&mut self, link: usize) {
        if let Some(link) = self.links.remove(&link) {
            for end in link.ends.into_iter().flatten() {
                self.by_end.remove(&(end.host, end.conn));
            }
        }
    }

    pub(crate) fn take_pending(&mut self, link: usize) -> Vec<Msg> {
        self.links.get_mut(&link).map(|l| std::mem::take(&mut l.pending)).unwrap_or_default()
    }

    /// The time at which a message that could arrive at `at` arrives at end `towards`, keeping the order.
    pub(crate) fn arrive(&mut self, link: usize, towards: usize, at: Instant) -> Instant {
        let latest = &mut self.links.get_mut(&link).expect("a link").latest[towards];
        *latest = at.max(Instant(latest.0 + 1));
        *latest
    }
}

impl<Req, Rep> World<Req, Rep> {
    pub(crate) fn send(&mut self, host: HostId, conn: ConnId, msg: Msg) {
        let Some(&(number, side)) = self.links.by_end.get(&(host, conn)) else {
            return self.send_to_orphan(host, conn);
        };
        let link = self.links.links.get_mut(&number).expect("indexed");
        if link.ends[1].is_none() {
            link.pending.push(msg);
            return;
        }
        self.transmit(number, side, msg);
    }

    fn send_to_orphan(&mut self, host: HostId, conn: ConnId) {
        if let Some(peer) = self.links.orphans.get(&(host, conn)).copied()
            && self.is_up(peer)
        {
            self.links.orphans.remove(&(host, conn));
            let at = self.arrival();
            self.due_input(at, host, What::Closed { conn, reason: CloseReason::Lost });
        }
    }

    /// Sends over an established link, from end `side`.
    pub(crate) fn transmit(&mut self, number: usize, side: usize, msg: Msg) {
        let Some(link) = self.links.links.get(&number) else { return };
        let (Some(from), Some(to)) = (link.ends[side], link.ends[1 - side]) else { return };
        let lossless = link.lossless;
        if let Some(mut observer) = self.observer.take() {
            let found = observer(self.now(), from.host, to.host, &msg);
            self.violations.extend(found);
            self.observer = Some(observer);
        }
        if self.is_cut(from.host, to.host) {
            self.links.links.get_mut(&number).expect("seen").held.push((side, msg));
            return;
        }
        let every = self.faults.break_every;
        if !lossless && every > 0 && self.rng().chance(1, every) {
            self.broken += 1;
            return self.break_link(number);
        }
        let msg = if self.encode { recode(msg) } else { msg };
        let (at, bytes) = self.departs(from.host, to.host, &msg);
        let at = self.links.arrive(number, 1 - side, at);
        self.deliver(at, to.host, What::Message { conn: to.conn, msg }, bytes);
    }

    /// Loses a message: nothing in flight is certain any more, and both ends learn of it at some time.
    fn break_link(&mut self, number: usize) {
        let Some(link) = self.links.links.get(&number) else { return };
        let ends = link.ends;
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
        let Some(&(number, side)) = self.links.by_end.get(&(host, conn)) else { return };
        let other = self.links.links[&number].ends[1 - side];
        if let Some(other) = other {
            let at = self.arrival();
            let at = self.links.arrive(number, 1 - side, at);
            let what = What::Closed { conn: other.conn, reason: CloseReason::Lost };
            self.deliver(at, other.host, what, 0);
        }
        self.links.forget(number);
    }

    /// Ends the links of a dead node: at once after a kill, later after a power loss.
    pub(crate) fn end_links_of(&mut self, host: HostId, how: Crash) {
        let numbers: Vec<(usize, usize)> =
            self.links.by_end.range((host, ConnId(0))..=(host, ConnId(u64::MAX))).map(|(_, v)| *v).collect();
        for (number, side) in numbers {
            let link = &self.links.links[&number];
            let (other, lossless) = (link.ends[1 - side], link.lossless);
            if let Some(other) = other {
                // A lossless session is dialled again: the host of a killed process refuses, one without
                // power is silent.
                let reason = match (lossless, how) {
                    (false, _) => CloseReason::Lost,
                    (true, Crash::Process) => CloseReason::Refused,
                    (true, Crash::Power) => CloseReason::TimedOut,
                };
                let mut at = self.arrival();
                if how == Crash::Power {
                    self.links.orphans.insert((other.host, other.conn), host);
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
        let mut released = Vec::new();
        for (number, link) in &mut self.links.links {
            let ends = link.ends;
            let matches = |side: usize| {
                let host = |end: Option<End>| end.map(|e| e.host);
                host(ends[side]) == Some(from) && host(ends[1 - side]) == Some(to)
            };
            let (now, later): (Vec<_>, Vec<_>) =
                std::mem::take(&mut link.held).into_iter().partition(|(side, _)| matches(*side));
            link.held = later;
            released.extend(now.into_iter().map(|(side, msg)| (*number, side, msg)));
        }
        for (number, side, msg) in released {
            self.transmit(number, side, msg);
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
