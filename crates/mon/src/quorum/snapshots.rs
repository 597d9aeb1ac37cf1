//! Snapshots in transit: the whole state, part by part, for a monitor that needs entries that the log no
//! longer has.

use crate::consensus::{Position, VoterId};
use crate::raft_log::Rows;
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::Instant;

/// Bytes of one part.
const PART_BYTES: usize = 1 << 20;
/// A receiver that asks for nothing for this long is given up. It starts over once it is heard again.
const RECEIVER_PATIENCE: Duration = Duration::from_secs(10);

/// A part to send.
#[derive(Debug)]
pub(crate) struct Part {
    /// Last position that the snapshot covers.
    pub base: Position,
    /// True for the last part.
    pub is_last: bool,
    /// Rows of the state.
    pub rows: Rows,
}

/// Consequence of a received part.
#[derive(Debug)]
pub(crate) enum Received {
    /// The next part to ask for.
    More { next: u32 },
    /// All rows are here.
    Complete { next: u32, rows: Rows },
}

/// Snapshots that are being sent, one a receiver, and the one that is being received.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    sending: BTreeMap<VoterId, Sending>,
    receiving: Option<Receiving>,
}

#[derive(Debug)]
struct Sending {
    base: Position,
    parts: Vec<Rows>,
    /// Time at which the last part was sent.
    at: Instant,
}

#[derive(Debug)]
struct Receiving {
    from: VoterId,
    base: Position,
    next: u32,
    rows: Rows,
}

impl Snapshots {
    /// Begins to send a snapshot.
    pub fn begin(&mut self, now: Instant, to: VoterId, base: Position, rows: Rows) {
        let mut parts = vec![Rows::new()];
        let mut bytes = 0;
        for (key, value) in rows {
            bytes += key.len() + value.len();
            parts.last_mut().expect("one is there").insert(key, value);
            if bytes >= PART_BYTES {
                bytes = 0;
                parts.push(Rows::new());
            }
        }
        self.sending.insert(to, Sending { base, parts, at: now });
    }

    /// A part for a receiver; `None` if there is none of this number.
    pub fn part(&mut self, now: Instant, to: VoterId, part: u32) -> Option<Part> {
        let sending = self.sending.get_mut(&to)?;
        let rows = sending.parts.get(part as usize)?.clone();
        sending.at = now;
        Some(Part { base: sending.base, is_last: part as usize + 1 == sending.parts.len(), rows })
    }

    /// Notes that a receiver asks for part `next` of the snapshot at `index`. Returns false if that snapshot
    /// is not being sent. A receiver that has all parts is forgotten.
    pub fn asked(&mut self, to: VoterId, index: u64, next: u32) -> Option<bool> {
        let sending = self.sending.get(&to).filter(|s| s.base.index == index)?;
        let has_all = next as usize >= sending.parts.len();
        if has_all {
            self.sending.remove(&to);
        }
        Some(has_all)
    }

    /// Takes the receivers that have not asked for too long.
    pub fn take_late(&mut self, now: Instant) -> Vec<VoterId> {
        let late = self.sending.iter().filter(|(_, s)| now.since(s.at) > RECEIVER_PATIENCE);
        let late: Vec<VoterId> = late.map(|(to, _)| *to).collect();
        late.iter().for_each(|to| drop(self.sending.remove(to)));
        late
    }

    /// Forgets a receiver.
    pub fn forget(&mut self, to: VoterId) {
        self.sending.remove(&to);
    }

    /// Takes a received part; `None` if it is not the expected one.
    pub fn receive(
        &mut self,
        from: VoterId,
        base: Position,
        part: u32,
        last: bool,
        rows: Rows,
    ) -> Option<Received> {
        if part == 0 {
            self.receiving = Some(Receiving { from, base, next: 0, rows: Rows::new() });
        }
        let receiving = self.receiving.as_mut()?;
        if (receiving.from, receiving.base, receiving.next) != (from, base, part) {
            return None;
        }
        receiving.next += 1;
        receiving.rows.extend(rows);
        let next = receiving.next;
        Some(match last {
            true => Received::Complete { next, rows: self.receiving.take().expect("was there").rows },
            false => Received::More { next },
        })
    }
}
