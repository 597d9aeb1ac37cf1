//! A holder's capability on an inode: the bits that were issued, may still be held, and are wanted
//! (docs/protocol.md 6.5).
//!
//! Each message about a cap carries the next `seq`. Until the client confirms a message, it may hold the bits
//! of any message since the last confirmed one. A revocation is therefore complete only when its `seq` is
//! confirmed.

use crate::types::ClientId;
use fsfmt::InodeKey;
use msgs::{CapPeer, Caps, cap};
use std::fmt;
use stdx::Instant;

/// What a holder may still have of earlier messages.
#[derive(Clone, Debug)]
struct Revoking {
    /// Bits of earlier messages, oldest first, each with its `seq`.
    history: Vec<(u32, u32)>,
    /// Bits that it gave up with a flush which it is about to repeat.
    unflushed: u32,
    /// Send time of the oldest unconfirmed revocation; none if only bits are left that it has again.
    since: Option<Instant>,
}

/// Bits that a client has been asked for and does not give back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Late {
    /// When it was asked first.
    pub since: Instant,
    /// The inode concerned.
    pub ino: InodeKey,
    /// The bits.
    pub bits: u32,
    /// Number of the last message about the capability.
    pub seq: u32,
}

impl fmt::Display for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of inode {} (message {})", Caps(self.bits), self.ino, self.seq)
    }
}

/// A client's capability that has come from another rank, which the client is to be told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moved {
    /// The client.
    pub client: ClientId,
    /// The capability's number here.
    pub id: u64,
    /// What it was there.
    pub former: CapPeer,
}

/// The capability of one holder.
#[derive(Clone, Debug)]
pub struct Cap {
    /// Its number, new for each grant to a client that had none.
    pub id: u64,
    /// Bits that the last message gave.
    pub pending: u32,
    /// Bits that the client wants.
    pub wanted: u32,
    /// `seq` of the last message.
    pub seq: u32,
    /// `seq` of the last reply that carried the cap.
    pub issue_seq: u32,
    /// Earlier messages that are not confirmed; few caps have any.
    revoking: Option<Box<Revoking>>,
    /// Number of times that it was handed over from one rank to another.
    pub migrate_seq: u32,
    /// Not claimed yet: a client that is absent after our restart may hold it.
    pub is_presumed: bool,
    /// The client has removed the inode's last name without waiting: it knows, and lets go.
    pub is_removed_by_client: bool,
}

impl Cap {
    /// A new cap without bits.
    pub fn new(id: u64) -> Self {
        Self {
            id,
            pending: 0,
            wanted: 0,
            seq: 0,
            issue_seq: 0,
            revoking: None,
            migrate_seq: 0,
            is_presumed: false,
            is_removed_by_client: false,
        }
    }

    /// Bits that a client which has not reconnected yet may hold and want.
    pub fn presumed(bits: u32) -> Self {
        Self { pending: bits, wanted: bits, is_presumed: true, ..Self::new(0) }
    }

    /// A cap that a client claims after this daemon restarted. Its counters restart at both ends.
    pub fn claimed(id: u64, held: u32, wanted: u32) -> Self {
        Self { pending: held, wanted, ..Self::new(id) }
    }

    /// A cap that another rank hands over with the subtree that it is in: message `seq` and hand-over
    /// `migrate_seq` are the last there.
    pub fn handed_over(id: u64, held: u32, wanted: u32, (seq, migrate_seq): (u32, u32)) -> Self {
        let seq = seq + 1;
        Self { pending: held, wanted, seq, issue_seq: seq, migrate_seq: migrate_seq + 1, ..Self::new(id) }
    }

    /// The same of a client that is about to repeat a flush of what it changed under `bits`, which it gave up
    /// with that flush. Until then nobody else may have them: only the flush tells what is so.
    pub fn until_flushed(mut self, bits: u32, now: Instant) -> Self {
        if bits & !self.pending != 0 {
            self.revoking =
                Some(Box::new(Revoking { history: Vec::new(), unflushed: bits, since: Some(now) }));
        }
        self
    }

    /// Bits that the client may hold.
    pub fn held(&self) -> u32 {
        let unflushed = self.revoking.as_ref().map_or(0, |r| r.unflushed);
        self.history().iter().fold(self.pending | unflushed, |all, (_, bits)| all | bits)
    }

    fn history(&self) -> &[(u32, u32)] {
        self.revoking.as_ref().map_or(&[], |r| &r.history)
    }

    /// What the holder has been asked for and has not given back.
    pub fn late(&self, ino: InodeKey) -> Option<Late> {
        let since = self.revoking.as_ref()?.since?;
        Some(Late { since, ino, bits: self.held() & !self.pending, seq: self.seq })
    }

    /// True if the holder may still have revoked bits.
    pub fn is_revoking(&self) -> bool {
        self.held() & !self.pending != 0
    }

    /// Sets the bits from the next message on; true if that takes some away.
    pub fn give(&mut self, bits: u32, now: Instant) -> bool {
        let revokes = self.pending & !bits != 0;
        if revokes {
            let nothing = || Box::new(Revoking { history: Vec::new(), unflushed: 0, since: None });
            let r = self.revoking.get_or_insert_with(nothing);
            r.history.push((self.seq, self.pending));
            r.since.get_or_insert(now);
        }
        self.pending = bits;
        self.seq += 1;
        revokes
    }

    /// Notes that the client holds `bits` as of message `seq`; true if that ends a revocation. A number that
    /// was not used yet is from before a restart: the claim since is newer, and counts.
    pub fn confirm(&mut self, seq: u32, bits: u32) -> bool {
        let was_revoking = self.is_revoking();
        let (mut history, since) = match self.revoking.take() {
            Some(r) => (r.history, r.since),
            None => (Vec::new(), None),
        };
        if seq <= self.seq {
            // The client may report other changes before it has given everything up: bits of earlier messages
            // that it names stay held.
            let earlier =
                history.iter().filter(|(sent, _)| *sent <= seq).fold(0, |all, (_, bits)| all | bits);
            let left = bits & earlier & !self.pending;
            history.retain(|(sent, _)| *sent > seq);
            if left != 0 {
                history.insert(0, (seq, left));
            }
        }
        if seq == self.seq {
            self.pending &= bits | cap::PIN;
        }
        let is_revoking = history.iter().any(|(_, bits)| bits & !self.pending != 0);
        if !history.is_empty() {
            let since = since.filter(|_| is_revoking);
            self.revoking = Some(Box::new(Revoking { history, unflushed: 0, since }));
        }
        was_revoking && !is_revoking
    }
}

/// Bits that let a client read, change or cache a file's data, size or times.
pub const ALL_FILE: u32 = cap::FILE_SHARED
    | cap::FILE_EXCL
    | cap::FILE_CACHE
    | cap::FILE_RD
    | cap::FILE_WR
    | cap::FILE_BUFFER
    | cap::FILE_LAZYIO;

/// Bits under which a client reads or writes a file's objects, or keeps what it has read.
pub const OBJECT_BITS: u32 =
    cap::FILE_CACHE | cap::FILE_RD | cap::FILE_WR | cap::FILE_BUFFER | cap::FILE_LAZYIO;

/// Bits that nobody may be given while another client holds `others`.
pub fn conflicts(others: u32) -> u32 {
    let mut out = 0;
    for (shared, excl) in [
        (cap::AUTH_SHARED, cap::AUTH_EXCL),
        (cap::LINK_SHARED, cap::LINK_EXCL),
        (cap::XATTR_SHARED, cap::XATTR_EXCL),
    ] {
        if others & excl != 0 {
            out |= shared | excl;
        }
        if others & shared != 0 {
            out |= excl;
        }
    }
    for (bit, forbids) in [
        (cap::FILE_EXCL, ALL_FILE),
        (cap::FILE_BUFFER, ALL_FILE),
        (cap::FILE_WR, cap::FILE_EXCL | cap::FILE_SHARED | cap::FILE_CACHE | cap::FILE_BUFFER),
        (cap::FILE_SHARED, cap::FILE_EXCL | cap::FILE_WR | cap::FILE_BUFFER),
        (cap::FILE_CACHE, cap::FILE_EXCL | cap::FILE_WR | cap::FILE_BUFFER),
        (cap::FILE_RD, cap::FILE_EXCL | cap::FILE_BUFFER),
        (cap::FILE_LAZYIO, cap::FILE_EXCL | cap::FILE_BUFFER),
    ] {
        if others & bit != 0 {
            out |= forbids;
        }
    }
    out
}

/// Bits under which a client makes changes without asking. They are given only to clients that the inode
/// records (`ranges`), so that their holders are known after a restart.
pub const STRONG: u32 =
    cap::AUTH_EXCL | cap::LINK_EXCL | cap::XATTR_EXCL | cap::FILE_EXCL | cap::FILE_WR | cap::FILE_BUFFER;

/// Bits of a client that is alone with a file.
pub const LONER: u32 = cap::PIN
    | cap::AUTH_SHARED
    | cap::AUTH_EXCL
    | cap::LINK_SHARED
    | cap::XATTR_SHARED
    | cap::XATTR_EXCL
    | ALL_FILE;
/// Bits that all may have of a file that nobody changes.
pub const SHARED: u32 = cap::PIN | cap::ANY_RD | cap::FILE_LAZYIO;
/// Bits that all may have of a file that several have open and one may change.
pub const MIXED: u32 = cap::PIN
    | cap::AUTH_SHARED
    | cap::LINK_SHARED
    | cap::XATTR_SHARED
    | cap::FILE_RD
    | cap::FILE_WR
    | cap::FILE_LAZYIO;
/// Bits that all may have of a directory: its entries and attributes do not change until revoked.
pub const DIRECTORY: u32 = cap::PIN | cap::ANY_SHARED;
/// A client that wants one of these has the file open, or works in the directory.
const OPEN_WRITE: u32 = cap::FILE_WR | cap::FILE_BUFFER;
const OPEN: u32 = OPEN_WRITE | cap::FILE_RD | cap::FILE_CACHE | cap::FILE_LAZYIO;

/// The holders of capabilities on an inode, counted by their wants.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Wants {
    /// Number of all holders.
    pub holders: u32,
    /// Number of those that have it open.
    pub openers: u32,
    /// Number of those that have it open for writing.
    pub writers: u32,
}

impl Wants {
    /// Counts a client that wants `bits`.
    pub fn add(&mut self, bits: u32) {
        self.holders += 1;
        self.openers += u32::from(bits & OPEN != 0);
        self.writers += u32::from(bits & OPEN_WRITE != 0);
    }

    /// The counts without a client that wants `bits`.
    pub fn without(self, bits: u32) -> Self {
        Self {
            holders: self.holders - 1,
            openers: self.openers - u32::from(bits & OPEN != 0),
            writers: self.writers - u32::from(bits & OPEN_WRITE != 0),
        }
    }
}

/// Bits that policy allows a client that wants `wanted`, before conflicts with bits that others still hold;
/// `others` are the wants of the other clients.
pub fn policy(is_dir: bool, wanted: u32, others: impl Iterator<Item = u32>) -> u32 {
    let mut wants = Wants::default();
    others.for_each(|bits| wants.add(bits));
    policy_beside(is_dir, wanted, wants)
}

/// Like [`policy`], given the counts of the others.
pub fn policy_beside(is_dir: bool, wanted: u32, others: Wants) -> u32 {
    if is_dir {
        // Whoever else wants one of `cap::DIR_OPS` works in it too.
        return if others.openers == 0 { DIRECTORY | cap::DIR_ASYNC } else { DIRECTORY };
    }
    let open = wanted & OPEN != 0;
    let writes = wanted & OPEN_WRITE != 0;
    match (others.holders, others.openers, others.writers) {
        (0, ..) => LONER,
        // The others only remember it; they will ask again.
        (_, 0, 0) if writes => LONER,
        (_, _, 0) if !writes => SHARED,
        (_, 1, 1) if !open => cap::PIN,
        _ => MIXED,
    }
}

/// Wanted bits of an open file (read, write).
pub fn wanted_by_open(read: bool, write: bool) -> u32 {
    let mut bits = cap::PIN;
    if read {
        bits |= cap::FILE_SHARED | cap::FILE_RD | cap::FILE_CACHE;
    }
    if write {
        bits |= cap::FILE_EXCL
            | cap::FILE_WR
            | cap::FILE_BUFFER
            | cap::AUTH_SHARED
            | cap::AUTH_EXCL
            | cap::XATTR_SHARED
            | cap::XATTR_EXCL;
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revocation_ends_with_the_right_sequence_number() {
        let mut c = Cap::new(1);
        c.give(LONER, Instant(1));
        assert!(!c.is_revoking());
        c.give(SHARED, Instant(2));
        assert_eq!(c.seq, 2);
        assert!(c.is_revoking());
        assert!(!c.confirm(1, LONER), "an older message confirms nothing newer");
        assert_eq!(c.held() & cap::FILE_WR, cap::FILE_WR);
        assert!(c.confirm(2, SHARED));
        assert_eq!(c.held(), SHARED);
    }

    #[test]
    fn bits_dropped_as_of_an_older_message_are_not_held_any_more() {
        let mut c = Cap::new(1);
        c.give(LONER, Instant(1));
        c.give(SHARED, Instant(2));
        assert!(c.confirm(1, SHARED & !cap::FILE_RD), "it had dropped them by itself");
        assert_eq!(c.held(), SHARED, "the second message gave the rest anew");
    }

    #[test]
    fn a_client_that_names_the_revocation_but_keeps_bits_still_holds_them() {
        let mut c = Cap::new(1);
        c.give(LONER, Instant(1));
        c.give(SHARED, Instant(2));
        assert!(
            !c.confirm(2, SHARED | cap::FILE_BUFFER | cap::FILE_WR),
            "it flushes attributes, data follow"
        );
        assert_eq!(c.held(), SHARED | cap::FILE_BUFFER | cap::FILE_WR);
        c.give(SHARED, Instant(3));
        assert!(!c.confirm(2, SHARED | cap::FILE_WR), "a later message does not end it either");
        assert!(c.confirm(3, SHARED));
        assert_eq!(c.held(), SHARED);
    }

    #[test]
    fn bits_that_are_named_while_a_further_revocation_is_on_its_way_stay_held() {
        let mut c = Cap::new(1);
        c.give(LONER, Instant(1));
        c.give(LONER & !cap::FILE_WR & !cap::FILE_BUFFER, Instant(2));
        c.give(SHARED, Instant(3));
        assert!(!c.confirm(2, LONER), "it writes its data back, and has not heard of the third message");
        assert_eq!(c.held(), LONER);
        assert!(!c.confirm(3, SHARED | cap::FILE_BUFFER));
        assert_eq!(c.held(), SHARED | cap::FILE_BUFFER);
        assert!(c.confirm(3, SHARED));
        assert_eq!(c.held(), SHARED);
    }

    #[test]
    fn bits_that_are_named_while_a_grant_is_on_its_way_stay_held() {
        let mut c = Cap::new(1);
        c.give(LONER, Instant(1));
        c.give(cap::PIN, Instant(2));
        c.give(SHARED, Instant(3));
        assert!(!c.confirm(2, cap::PIN | cap::FILE_WR));
        assert_eq!(c.held(), SHARED | cap::FILE_WR);
        assert!(c.confirm(3, SHARED));
        assert_eq!(c.held(), SHARED);
    }

    #[test]
    fn a_message_from_before_the_restart_confirms_nothing() {
        let mut c = Cap::claimed(1, LONER, 0);
        assert!(c.give(SHARED, Instant(1)));
        assert!(!c.confirm(6, SHARED), "it said so to the former server");
        assert_eq!(c.held(), LONER | SHARED);
        assert!(c.confirm(1, SHARED));
        assert_eq!(c.held(), SHARED);
    }

    #[test]
    fn what_is_flushed_after_a_restart_is_held_until_then() {
        for seq in [0, 7] {
            let mut c = Cap::claimed(1, cap::PIN, 0).until_flushed(cap::FILE_WR, Instant(1));
            let late = c.late(fsfmt::Ino::ROOT.head()).map(|late| late.since);
            assert_eq!((c.held(), late), (cap::PIN | cap::FILE_WR, Some(Instant(1))));
            assert!(c.confirm(seq, cap::PIN));
            assert_eq!((c.held(), c.late(fsfmt::Ino::ROOT.head())), (cap::PIN, None));
        }
    }

    #[test]
    fn a_grant_overtaken_by_a_confirmation_stays() {
        let mut c = Cap::new(1);
        c.give(cap::PIN, Instant(1));
        c.give(SHARED, Instant(1));
        c.confirm(1, cap::PIN);
        assert_eq!(c.held(), SHARED);
    }

    #[test]
    fn policies_never_conflict_with_one_another() {
        // Bits that policy allows any three clients never conflict, whatever they want.
        let wants = [0, wanted_by_open(true, false), wanted_by_open(false, true), wanted_by_open(true, true)];
        for a in wants {
            for b in wants {
                for c in wants {
                    let all = [a, b, c];
                    let given: Vec<u32> = (0..3)
                        .map(|i| policy(false, all[i], (0..3).filter(|j| *j != i).map(|j| all[j])))
                        .collect();
                    for i in 0..3 {
                        for j in (0..3).filter(|j| *j != i) {
                            assert_eq!(given[i] & conflicts(given[j]), 0, "{all:x?} {given:x?}");
                        }
                    }
                }
            }
        }
    }
}
