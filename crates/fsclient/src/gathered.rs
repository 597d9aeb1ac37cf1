//! Messages to an MDS that nobody here waits for. They gather for a moment, so that a stream of asynchronous
//! creates wakes the MDS once for several, and its answers wake the client once.
//!
//! A program that syncs each file waits for the create soon after it, and would wait for longer. So messages
//! gather only when several have followed one another for which nobody waited.

use msgs::{Body, CapReleaseItem, ClientCapRelease};
use std::time::Duration;
use stdx::Instant;

/// The most messages that gather.
const MAX_MESSAGES: usize = 32;
/// Messages in a row that nobody waits for, after which the next ones gather.
const UNAWAITED: u32 = 8;

/// Messages in the order in which they are to be sent, with their tids.
///
/// Invariant: there is a time to send them if and only if there are any.
#[derive(Debug)]
pub(crate) struct Gathered {
    time: Duration,
    messages: Vec<(u64, node::Body)>,
    due: Option<Instant>,
    /// The message among them that gives capabilities back.
    releases: Option<usize>,
    /// Messages since somebody last waited, up to [`UNAWAITED`].
    unawaited: u32,
}

impl Gathered {
    /// None yet; each waits for `time` at most.
    pub(crate) fn new(time: Duration) -> Self {
        Self { time, messages: Vec::new(), due: None, releases: None, unawaited: 0 }
    }

    /// Adds a message. Returns true if all are to be sent now.
    pub(crate) fn add(&mut self, now: Instant, tid: u64, body: node::Body) -> bool {
        self.messages.push((tid, body));
        let due = *self.due.get_or_insert(now + self.time);
        let gathers = self.unawaited == UNAWAITED;
        self.unawaited = (self.unawaited + 1).min(UNAWAITED);
        !gathers || due <= now || self.messages.len() >= MAX_MESSAGES
    }

    /// Adds capabilities that are given back. They join those that gather already, ahead of what was added
    /// since, unless that has said something about one of them. Returns true if all are to be sent now.
    pub(crate) fn add_releases(&mut self, now: Instant, mut caps: Vec<CapReleaseItem>) -> bool {
        if let Some(at) = self.releases {
            let (before, since) = self.messages.split_at_mut(at + 1);
            let is_told = |item: &CapReleaseItem| since.iter().any(|(_, body)| is_about(body, item.ino));
            if let (_, node::Body::Client(Body::ClientCapRelease(earlier))) = &mut before[at]
                && !caps.iter().any(is_told)
            {
                earlier.caps.append(&mut caps);
                return self.due.is_some_and(|due| due <= now);
            }
        }
        self.releases = Some(self.messages.len());
        let body = Body::from(ClientCapRelease { caps, osd_epoch_barrier: maps::Epoch(0) });
        self.add(now, 0, body.into())
    }

    /// Somebody waits for the MDS.
    pub(crate) fn is_waited_for(&mut self) {
        self.unawaited = 0;
    }

    /// The time at which they are to be sent.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.due
    }

    /// Takes all of them.
    pub(crate) fn take(&mut self) -> Vec<(u64, node::Body)> {
        (self.due, self.releases) = (None, None);
        std::mem::take(&mut self.messages)
    }

    /// Asserts the invariant.
    pub(crate) fn check(&self) {
        assert_eq!(self.messages.is_empty(), self.due.is_none(), "what gathers is sent in time");
    }
}

/// True for a message about the capability on this inode.
fn is_about(body: &node::Body, ino: u64) -> bool {
    matches!(body, node::Body::Client(Body::ClientCaps(caps)) if caps.ino == ino)
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgs::ClientCaps;

    fn item(ino: u64) -> CapReleaseItem {
        CapReleaseItem { ino, cap_id: 1, migrate_seq: 0, seq: 1 }
    }

    /// The inodes of each message, those that are given back as negative numbers.
    fn taken(gathered: &mut Gathered) -> Vec<Vec<i64>> {
        let inodes = |(_, body): (u64, node::Body)| match body {
            node::Body::Client(Body::ClientCapRelease(m)) => m.caps.iter().map(|c| -(c.ino as i64)).collect(),
            node::Body::Client(Body::ClientCaps(m)) => vec![m.ino as i64],
            other => panic!("{other:?}"),
        };
        gathered.take().into_iter().map(inodes).collect()
    }

    #[test]
    fn capabilities_are_given_back_together_but_not_before_what_was_said_of_them() {
        let now = Instant(1_000_000);
        let mut gathered = Gathered::new(Duration::from_millis(1));
        gathered.unawaited = UNAWAITED;
        let says = |ino| Body::from(ClientCaps { ino, ..ClientCaps::default() }).into();
        assert!(!gathered.add(now, 0, says(1)));
        assert!(!gathered.add_releases(now, vec![item(2), item(3)]));
        assert!(!gathered.add(now, 0, says(4)));
        assert!(!gathered.add_releases(now, vec![item(1)]), "what was said of it is ahead");
        assert!(!gathered.add_releases(now, vec![item(4)]));
        assert!(!gathered.add_releases(now, vec![item(5)]));
        assert!(gathered.add_releases(now + Duration::from_millis(1), vec![item(6)]), "it is time");
        assert_eq!(taken(&mut gathered), [vec![1], vec![-2, -3, -1], vec![4], vec![-4, -5, -6]]);
        gathered.check();
        assert!(!gathered.add_releases(now, vec![item(7)]));
        assert_eq!(taken(&mut gathered), [[-7]]);
    }
}
