//! Messages about a file that is closed and of which nobody waits for anything: what the client does not want
//! any more, and what it changed. Linux sends them late, because the file may soon be opened again.

use msgs::{Caps, ClientCaps, cap_op};
use node::ConnId;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use stdx::Instant;

/// The delay of such a message (`caps_wanted_delay_min`).
const DELAY: Duration = Duration::from_secs(5);

/// A message on its way out.
#[derive(Debug, PartialEq)]
pub(super) struct Leaving {
    pub(super) conn: ConnId,
    /// The tid of a flush.
    pub(super) tid: u64,
    pub(super) message: ClientCaps,
}

impl Leaving {
    fn flushes(&self) -> bool {
        self.message.dirty != Caps::NONE
    }
}

/// Messages that wait, at most one of an inode, each with the time at which it leaves.
#[derive(Default)]
pub(super) struct Late {
    waiting: BTreeMap<u64, (Instant, Leaving)>,
    /// Inodes of which the server waits for a message.
    asked: BTreeSet<u64>,
}

impl Late {
    /// The session is a new one, or there is none, or its server learns by claims what waits.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// The server has sent a message.
    pub(super) fn arrives(&mut self, message: &ClientCaps) {
        if message.op == cap_op::REVOKE {
            self.asked.insert(message.ino);
        }
    }

    /// A message is about to leave. Returns what leaves now. It says as well what a message that waits would
    /// have said, and flushes what that would have flushed.
    pub(super) fn leaves(&mut self, now: Instant, mut next: Leaving) -> Vec<Leaving> {
        let ino = next.message.ino;
        let was_asked = self.asked.remove(&ino);
        let mut first = self.waiting.remove(&ino).map(|(_, first)| first).filter(Leaving::flushes);
        if let Some(flush) = first.take_if(|_| !next.flushes()) {
            let Leaving { tid, message: ClientCaps { dirty, oldest_flush_tid, .. }, .. } = flush;
            next.tid = tid;
            next.message = ClientCaps { op: cap_op::FLUSH, dirty, oldest_flush_tid, ..next.message };
        }
        // Our client sets a flag if it gives something back, or somebody waits.
        let is_idle = next.message.wanted == Caps::NONE && next.message.flags == 0;
        if is_idle && !was_asked {
            self.waiting.insert(ino, (now + DELAY, next));
            return first.into_iter().collect();
        }
        first.into_iter().chain([next]).collect()
    }

    /// Takes the flushes that wait: a request that changes something is about to leave, and what was changed
    /// before has to be known before.
    pub(super) fn take_flushes(&mut self) -> Vec<Leaving> {
        let flushes = self.waiting.extract_if(.., |_, (_, waiting)| waiting.flushes());
        flushes.map(|(_, (_, waiting))| waiting).collect()
    }

    /// The time at which a message leaves.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.waiting.values().map(|(at, _)| *at).min()
    }

    /// Takes the messages that leave by now.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<Leaving> {
        let due = self.waiting.extract_if(.., |_, (at, _)| *at <= now);
        due.map(|(_, (_, waiting))| waiting).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgs::{cap, cap_flag};

    const NOW: Instant = Instant(5);

    fn update(ino: u64, wanted: u32) -> Leaving {
        let message = ClientCaps { op: cap_op::UPDATE, ino, wanted: Caps(wanted), ..ClientCaps::default() };
        Leaving { conn: ConnId(1), tid: 0, message }
    }

    fn flush(ino: u64, tid: u64, dirty: u32) -> Leaving {
        let Leaving { conn, message, .. } = update(ino, 0);
        Leaving { conn, tid, message: ClientCaps { op: cap_op::FLUSH, dirty: Caps(dirty), ..message } }
    }

    #[test]
    fn only_what_wants_nothing_leaves_late() {
        let mut late = Late::default();
        assert_eq!(late.leaves(NOW, update(1, cap::FILE_RD)), [update(1, cap::FILE_RD)]);
        assert_eq!(late.leaves(NOW, update(1, 0)), []);
        assert_eq!(late.leaves(NOW, update(2, 0)), []);
        assert_eq!(late.deadline(), Some(NOW + DELAY));
        assert_eq!(late.leaves(NOW, update(2, cap::FILE_RD)).len(), 1, "it was opened again");
        assert_eq!(late.take_due(NOW), []);
        assert_eq!(late.take_due(NOW + DELAY), [update(1, 0)]);
        assert_eq!(late.deadline(), None);
    }

    #[test]
    fn answers_leave_at_once() {
        let mut late = Late::default();
        late.arrives(&ClientCaps { op: cap_op::REVOKE, ino: 1, ..ClientCaps::default() });
        assert_eq!(late.leaves(NOW, update(1, 0)).len(), 1);
        assert_eq!(late.leaves(NOW, update(1, 0)), []);
    }

    #[test]
    fn a_flush_leaves_with_the_next_message() {
        let mut late = Late::default();
        assert_eq!(late.leaves(NOW, flush(1, 7, cap::FILE_WR)), []);
        let mut back = update(1, 0);
        back.message.flags = cap_flag::SYNC;
        let mut both = flush(1, 7, cap::FILE_WR);
        both.message.flags = cap_flag::SYNC;
        assert_eq!(late.leaves(NOW, back), [both]);
    }

    #[test]
    fn flushes_keep_their_order_and_go_ahead_of_changes() {
        let mut late = Late::default();
        assert_eq!(late.leaves(NOW, flush(1, 7, cap::FILE_WR)), []);
        assert_eq!(late.leaves(NOW, flush(1, 8, cap::AUTH_EXCL)), [flush(1, 7, cap::FILE_WR)]);
        assert_eq!(late.leaves(NOW, update(2, 0)), []);
        assert_eq!(late.take_flushes(), [flush(1, 8, cap::AUTH_EXCL)]);
        assert_eq!(late.take_due(NOW + DELAY), [update(2, 0)]);
    }
}
