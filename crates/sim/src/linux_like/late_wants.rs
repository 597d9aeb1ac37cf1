//! Messages that only tell what the client does not want any more. Linux sends them late: the file may soon
//! be opened again.

use msgs::{Caps, ClientCaps, cap_op};
use node::ConnId;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use stdx::Instant;

/// The delay of such a message (`caps_wanted_delay_min`).
const DELAY: Duration = Duration::from_secs(5);

/// A message that waits.
struct Waiting {
    at: Instant,
    conn: ConnId,
    message: ClientCaps,
}

/// Messages that wait, at most one of an inode: the next one that leaves says what that would have said.
#[derive(Default)]
pub(super) struct LateWants {
    waiting: BTreeMap<u64, Waiting>,
    /// Inodes of which the server waits for a message.
    asked: BTreeSet<u64>,
}

impl LateWants {
    /// The session is a new one, or there is none, or its server learns by claims what is wanted.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// The server has sent a message.
    pub(super) fn arrives(&mut self, message: &ClientCaps) {
        if message.op == cap_op::REVOKE {
            self.asked.insert(message.ino);
        }
    }

    /// A message is about to leave. Returns it if it is to leave now.
    pub(super) fn leaves(&mut self, now: Instant, conn: ConnId, message: ClientCaps) -> Option<ClientCaps> {
        self.waiting.remove(&message.ino);
        let was_asked = self.asked.remove(&message.ino);
        let (is_update, wants_nothing) = (message.op == cap_op::UPDATE, message.wanted == Caps::NONE);
        // Our client sets a flag if it gives something back.
        let wants_less = is_update && wants_nothing && message.flags == 0;
        if was_asked || !wants_less {
            return Some(message);
        }
        self.waiting.insert(message.ino, Waiting { at: now + DELAY, conn, message });
        None
    }

    /// The time at which a message leaves.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.waiting.values().map(|waiting| waiting.at).min()
    }

    /// Takes the messages that leave by now.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<(ConnId, ClientCaps)> {
        let due = self.waiting.extract_if(.., |_, waiting| waiting.at <= now);
        due.map(|(_, waiting)| (waiting.conn, waiting.message)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgs::cap;

    const CONN: ConnId = ConnId(1);

    fn update(ino: u64, wanted: u32) -> ClientCaps {
        ClientCaps { op: cap_op::UPDATE, ino, wanted: Caps(wanted), ..ClientCaps::default() }
    }

    #[test]
    fn only_what_wants_nothing_leaves_late() {
        let mut late = LateWants::default();
        let now = Instant(5);
        assert!(late.leaves(now, CONN, update(1, cap::FILE_RD)).is_some());
        assert!(late.leaves(now, CONN, update(1, 0)).is_none());
        assert!(late.leaves(now, CONN, update(2, 0)).is_none());
        assert_eq!(late.deadline(), Some(now + DELAY));
        assert!(late.leaves(now, CONN, update(2, cap::FILE_RD)).is_some(), "it was opened again");
        assert!(late.take_due(now).is_empty());
        assert_eq!(late.take_due(now + DELAY), [(CONN, update(1, 0))]);
        assert_eq!(late.deadline(), None);
    }

    #[test]
    fn answers_leave_at_once() {
        let mut late = LateWants::default();
        late.arrives(&ClientCaps { op: cap_op::REVOKE, ino: 1, ..ClientCaps::default() });
        assert!(late.leaves(Instant(5), CONN, update(1, 0)).is_some());
        assert!(late.leaves(Instant(5), CONN, update(1, 0)).is_none());
    }
}
