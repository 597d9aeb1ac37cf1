//! The links of a world, each with the two ends of a connection, and the messages that wait in it.

use crate::host::HostId;
use node::{ConnId, Msg};
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

/// One end of a link.
#[derive(Clone, Copy)]
pub(crate) struct End {
    pub(crate) host: HostId,
    incarnation: u64,
    pub(crate) conn: ConnId,
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

    /// The link of an end, and the end's side of it.
    pub(crate) fn of_end(&self, host: HostId, conn: ConnId) -> Option<(usize, usize)> {
        self.by_end.get(&(host, conn)).copied()
    }

    /// The same of all ends of a host.
    pub(crate) fn of_host(&self, host: HostId) -> Vec<(usize, usize)> {
        self.by_end.range((host, ConnId(0))..=(host, ConnId(u64::MAX))).map(|(_, v)| *v).collect()
    }

    /// Both ends of a link that is not forgotten.
    pub(crate) fn ends(&self, link: usize) -> Option<[Option<End>; 2]> {
        Some(self.links.get(&link)?.ends)
    }

    /// Whether a link loses no messages; false of one that is forgotten.
    pub(crate) fn is_lossless(&self, link: usize) -> bool {
        self.links.get(&link).is_some_and(|link| link.lossless)
    }

    /// Keeps a message until the link is established. Gives it back if it is already.
    pub(crate) fn keep_pending(&mut self, link: usize, msg: Msg) -> Option<Msg> {
        let link = self.links.get_mut(&link).expect("indexed");
        if link.ends[1].is_some() {
            return Some(msg);
        }
        link.pending.push(msg);
        None
    }

    /// Holds a message of end `side` while the direction is cut.
    pub(crate) fn hold(&mut self, link: usize, side: usize, msg: Msg) {
        self.links.get_mut(&link).expect("seen").held.push((side, msg));
    }

    /// Takes the messages that were held from one host to another: link, sending end, message.
    pub(crate) fn take_held(&mut self, from: HostId, to: HostId) -> Vec<(usize, usize, Msg)> {
        let mut released = Vec::new();
        for (number, link) in &mut self.links {
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
        released
    }

    /// Notes that the peer of an end lost its power without a word.
    pub(crate) fn orphan(&mut self, end: End, peer: HostId) {
        self.orphans.insert((end.host, end.conn), peer);
    }

    /// The peer that left this end without a word.
    pub(crate) fn lost_peer(&self, host: HostId, conn: ConnId) -> Option<HostId> {
        self.orphans.get(&(host, conn)).copied()
    }

    /// Forgets that the peer of this end left without a word.
    pub(crate) fn end_orphan(&mut self, host: HostId, conn: ConnId) {
        self.orphans.remove(&(host, conn));
    }
}
