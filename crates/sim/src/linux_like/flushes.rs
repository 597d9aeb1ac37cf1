//! Flushes without an acknowledgement, and what becomes of them when another server takes the rank over.
//!
//! Our client claims the bits of such a flush again, and flushes once more under them. Linux has given some
//! of them up with the flush: it claims what it had kept, and repeats the flush ahead of its claims.

use msgs::{Caps, ClientCaps, ClientReconnect, cap_flag, cap_op};
use std::collections::BTreeMap;

/// A flush without an acknowledgement.
struct Flush {
    message: ClientCaps,
    /// Bits that were given up with it, and that the client was not given again since.
    gone: u32,
}

/// What was repeated of an inode. Our client does not know that, and flushes it again.
#[derive(Default)]
struct Repeated {
    bits: u32,
    /// The newest flush of them.
    tid: u64,
}

/// The flushes of the session with the one rank that there is.
///
/// Invariant: only a flush without an acknowledgement has replaced another.
#[derive(Default)]
pub(super) struct Flushes {
    /// By tid.
    unacknowledged: BTreeMap<u64, Flush>,
    /// By inode.
    repeated: BTreeMap<u64, Repeated>,
    /// Flushes of our client that did not leave because another had been repeated: their tids, by that of the
    /// other.
    replaced: BTreeMap<u64, u64>,
}

impl Flushes {
    /// The session is a new one, or there is none.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// A message leaves under `tid`; both are made what Linux would send. Returns the tid of a flush that is
    /// done already, for which our client gets the acknowledgement.
    pub(super) fn leaves(&mut self, tid: &mut u64, message: &mut ClientCaps) -> Option<u64> {
        self.has(message.ino, message.caps.0);
        if message.dirty == Caps::NONE {
            return None;
        }
        if let Some(Repeated { bits, tid: repeated }) = self.repeated.remove(&message.ino) {
            message.dirty = message.dirty & !Caps(bits);
            if message.dirty == Caps::NONE {
                (message.op, message.oldest_flush_tid) = (cap_op::UPDATE, 0);
                let ours = std::mem::take(tid);
                let is_done = !self.unacknowledged.contains_key(&repeated);
                if !is_done {
                    self.replaced.insert(repeated, ours);
                }
                return is_done.then_some(ours);
            }
        }
        let gone = message.dirty.0 & !message.caps.0;
        if gone != 0 {
            // Only for who syncs Linux asks the server to hurry, not for who waits for the bits.
            message.flags &= !cap_flag::SYNC;
        }
        self.unacknowledged.insert(*tid, Flush { message: message.clone(), gone });
        message.oldest_flush_tid = self.oldest();
        None
    }

    fn oldest(&self) -> u64 {
        self.unacknowledged.keys().next().copied().unwrap_or(0)
    }

    /// The client has these bits of an inode, perhaps again.
    pub(super) fn has(&mut self, ino: u64, bits: u32) {
        let flushes = self.unacknowledged.values_mut().filter(|flush| flush.message.ino == ino);
        flushes.for_each(|flush| flush.gone &= !bits);
        if let Some(repeated) = self.repeated.get_mut(&ino) {
            repeated.bits &= !bits;
        }
    }

    /// The acknowledgement of the flush `tid` has come. Returns the tid under which our client knows it.
    pub(super) fn acknowledged(&mut self, tid: u64) -> u64 {
        self.unacknowledged.remove(&tid);
        self.replaced.remove(&tid).unwrap_or(tid)
    }

    /// Another server is about to get these claims: leaves only what was kept in them. Returns the flushes to
    /// repeat before.
    pub(super) fn claim(&mut self, claims: &mut ClientReconnect) -> Vec<(u64, ClientCaps)> {
        (self.repeated, self.replaced) = Default::default();
        let claimed = &mut claims.caps;
        // Our client flushes the others again, under other tids.
        self.unacknowledged.retain(|_, flush| flush.gone != 0 && claimed.contains_key(&flush.message.ino));
        for (tid, Flush { message, gone }) in &self.unacknowledged {
            if let Some(claim) = claimed.get_mut(&message.ino) {
                claim.issued &= !gone;
            }
            let repeated = self.repeated.entry(message.ino).or_default();
            (repeated.bits, repeated.tid) = (repeated.bits | gone, *tid);
        }
        let oldest_flush_tid = self.oldest();
        let repeat = |(tid, flush): (&u64, &Flush)| {
            let claim = claimed.get(&flush.message.ino)?;
            let (caps, wanted) = (Caps(claim.issued), Caps(claim.wanted));
            let message = ClientCaps { caps, wanted, oldest_flush_tid, ..flush.message.clone() };
            Some((*tid, ClientCaps { seq: 0, issue_seq: 0, migrate_seq: 0, flags: 0, ..message }))
        };
        self.unacknowledged.iter().filter_map(repeat).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgs::{CapReconnect, cap};

    const INO: u64 = 0x100_0000_0001;

    fn flush(dirty: u32, caps: u32) -> ClientCaps {
        let (dirty, caps) = (Caps(dirty), Caps(caps));
        ClientCaps {
            op: cap_op::FLUSH,
            ino: INO,
            seq: 4,
            dirty,
            caps,
            flags: cap_flag::SYNC,
            ..Default::default()
        }
    }

    fn claims(issued: u32) -> ClientReconnect {
        let claim = CapReconnect { issued, ..CapReconnect::default() };
        ClientReconnect { caps: [(INO, claim)].into(), ..ClientReconnect::default() }
    }

    /// A flush of `FILE_WR`, which it gives up, that another server gets ahead of the claims.
    fn repeated() -> Flushes {
        let mut flushes = Flushes::default();
        let mut sent = flush(cap::FILE_WR, cap::PIN);
        assert_eq!(flushes.leaves(&mut 7, &mut sent), None);
        assert_eq!((sent.flags, sent.oldest_flush_tid), (0, 7));
        let mut claims = claims(cap::PIN | cap::FILE_WR);
        let again = flushes.claim(&mut claims);
        assert_eq!(claims.caps[&INO].issued, cap::PIN);
        let expected = ClientCaps { seq: 0, flags: 0, oldest_flush_tid: 7, ..flush(cap::FILE_WR, cap::PIN) };
        assert_eq!(again, [(7, expected)]);
        flushes
    }

    #[test]
    fn what_our_client_flushes_again_does_not_leave_a_second_time() {
        let mut flushes = repeated();
        let (mut tid, mut second) = (8, flush(cap::FILE_WR, cap::PIN));
        assert_eq!(flushes.leaves(&mut tid, &mut second), None);
        assert_eq!((tid, second.op, second.dirty), (0, cap_op::UPDATE, Caps::NONE));
        assert_eq!(flushes.acknowledged(7), 8);
        assert_eq!(flushes.acknowledged(9), 9);
    }

    #[test]
    fn nor_if_the_acknowledgement_has_come_before() {
        let mut flushes = repeated();
        assert_eq!(flushes.acknowledged(7), 7);
        assert_eq!(flushes.leaves(&mut 8, &mut flush(cap::FILE_WR, cap::PIN)), Some(8));
    }

    #[test]
    fn what_was_changed_under_bits_that_came_again_leaves() {
        let mut flushes = repeated();
        flushes.has(INO, cap::FILE_WR);
        let (mut tid, mut second) = (8, flush(cap::FILE_WR, cap::PIN));
        assert_eq!(flushes.leaves(&mut tid, &mut second), None);
        assert_eq!((tid, second.dirty, second.oldest_flush_tid), (8, Caps(cap::FILE_WR), 7));
    }

    #[test]
    fn what_is_held_is_claimed_and_not_repeated() {
        let mut flushes = Flushes::default();
        let all = cap::PIN | cap::FILE_WR;
        flushes.leaves(&mut 7, &mut flush(cap::FILE_WR, all));
        flushes.leaves(&mut 8, &mut flush(cap::AUTH_EXCL, all));
        flushes.has(INO, cap::AUTH_EXCL);
        let mut claims = claims(all | cap::AUTH_EXCL);
        assert_eq!(flushes.claim(&mut claims), []);
        assert_eq!(claims.caps[&INO].issued, all | cap::AUTH_EXCL);
    }
}
