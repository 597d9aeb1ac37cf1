//! Shares of the device by class of read (ADR 0010). A client's read begins at once. One of another
//! class is begun when nothing of its class is under way, or when what is stays within its share of a window
//! of bytes, which all classes divide that have something to do.

use crate::api::ReadClass;
use node::DiskOpId;
use std::collections::VecDeque;

/// Bytes of reads under way that keep a device busy: what all classes together may have there, clients apart.
const WINDOW: u64 = 4 << 20;

/// A read that waits for its turn.
pub(crate) struct Held {
    pub id: DiskOpId,
    pub offset: u64,
    pub len: usize,
    /// The host's memory may answer it.
    pub cached: bool,
}

#[derive(Default)]
struct Lane {
    /// Bytes under way.
    bytes: u64,
    held: VecDeque<Held>,
}

/// Reads by class.
pub(crate) struct Shares {
    shares: [u32; ReadClass::COUNT],
    lanes: [Lane; ReadClass::COUNT],
}

impl Shares {
    pub fn new(shares: [u32; ReadClass::COUNT]) -> Self {
        Self { shares: shares.map(|share| share.max(1)), lanes: Default::default() }
    }

    /// True if a read may be begun now, `clients` says whether a client waits for something else. It counts
    /// as under way then; otherwise it waits.
    pub fn begins(&mut self, class: ReadClass, read: Held, clients: bool) -> Option<Held> {
        let lane = class as usize;
        if class != ReadClass::Client
            && (!self.lanes[lane].held.is_empty() || !self.fits(class, read.len, clients))
        {
            self.lanes[lane].held.push_back(read);
            return None;
        }
        self.lanes[lane].bytes += read.len as u64;
        Some(read)
    }

    /// A read has ended.
    pub fn ended(&mut self, class: ReadClass, len: usize) {
        self.lanes[class as usize].bytes -= len as u64;
    }

    /// The next one that may be begun of those that wait; it counts as under way then.
    pub fn next(&mut self, clients: bool) -> Option<Held> {
        let classes = [ReadClass::Recovery, ReadClass::Scrub, ReadClass::Background];
        let class = classes.into_iter().find(|class| {
            let first = self.lanes[*class as usize].held.front().map(|held| held.len);
            first.is_some_and(|len| self.fits(*class, len, clients))
        })?;
        let lane = &mut self.lanes[class as usize];
        let held = lane.held.pop_front()?;
        lane.bytes += held.len as u64;
        Some(held)
    }

    fn fits(&self, class: ReadClass, len: usize, clients: bool) -> bool {
        let at_work = |(i, lane): (usize, &Lane)| {
            let busy = lane.bytes > 0 || !lane.held.is_empty() || i == class as usize;
            let busy = busy || i == ReadClass::Client as usize && clients;
            if busy { u64::from(self.shares[i]) } else { 0 }
        };
        let all: u64 = self.lanes.iter().enumerate().map(at_work).sum();
        let bytes = self.lanes[class as usize].bytes;
        bytes == 0 || bytes + len as u64 <= WINDOW * u64::from(self.shares[class as usize]) / all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn read(n: u64, len: usize) -> Held {
        Held { id: DiskOpId(n), offset: 0, len, cached: false }
    }

    #[test]
    fn alone_a_class_has_all_and_beside_clients_its_share() {
        for (clients, begun) in [(false, 4), (true, 1)] {
            let mut shares = Shares::new([3, 1, 1, 1]);
            let mut begins = |n| shares.begins(ReadClass::Scrub, read(n, MIB), clients).is_some();
            assert_eq!((0..10).filter(|n| begins(*n)).count(), begun);
        }
    }

    #[test]
    fn clients_never_wait_and_nobody_waits_for_ever() {
        let mut shares = Shares::new([100, 1, 0, 1]);
        assert!((0..50).all(|n| shares.begins(ReadClass::Client, read(n, MIB), true).is_some()));
        for class in [ReadClass::Recovery, ReadClass::Scrub, ReadClass::Background] {
            assert!(shares.begins(class, read(60, MIB), true).is_some(), "one at least");
            assert!(shares.begins(class, read(61, MIB), true).is_none());
        }
        assert!(shares.next(true).is_none());
        shares.ended(ReadClass::Scrub, MIB);
        assert_eq!(shares.next(true).map(|held| held.id), Some(DiskOpId(61)));
        assert!(shares.next(true).is_none());
    }

    #[test]
    fn reads_of_a_class_begin_in_their_order() {
        let mut shares = Shares::new([1; 4]);
        assert!(shares.begins(ReadClass::Recovery, read(1, 4 * MIB), false).is_some());
        assert!(shares.begins(ReadClass::Recovery, read(2, MIB), false).is_none());
        assert!(shares.begins(ReadClass::Recovery, read(3, 4096), false).is_none());
        shares.ended(ReadClass::Recovery, 4 * MIB);
        assert_eq!(shares.next(false).map(|held| held.id), Some(DiskOpId(2)));
        assert_eq!(shares.next(false).map(|held| held.id), Some(DiskOpId(3)));
        assert!(shares.next(false).is_none());
    }
}
