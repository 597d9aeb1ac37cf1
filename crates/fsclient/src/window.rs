//! The window of writes in flight: buffered data on their way to the OSDs.
//!
//! Whatever is asked of an OSD next queues behind them, so they are few: a read that nobody buffers for waits
//! for some milliseconds of writes, not for all that is buffered.

use crate::key::InodeKey;
use std::collections::{BTreeSet, VecDeque};

/// Writes in flight that nobody waits for. OSDs on one disk gain nothing from more.
const MAX_BACKGROUND: usize = 32;
/// The same beside a program that syncs: each of these delays it.
const MAX_BESIDE_SYNCS: usize = 4;
/// Writes that have to land after the last one that somebody waited for, until nobody is taken to sync.
const CALM: usize = 32;
/// Bytes in flight that nobody waits for.
const MAX_BACKGROUND_BYTES: u64 = 16 << 20;
/// Writes in flight, if somebody waits for some: those that nobody waits for leave them as many again.
const MAX_FLIGHTS: usize = 2 * MAX_BACKGROUND;
/// Bytes in flight, if somebody waits for some.
const MAX_BYTES: u64 = 2 * MAX_BACKGROUND_BYTES;

/// Writes in flight, and the files that wait to send more.
///
/// Invariant: `bytes` are in flight only if `flights` are.
#[derive(Debug)]
pub(crate) struct Window {
    flights: usize,
    bytes: u64,
    /// Writes that have landed since one left that somebody waits for, up to [`CALM`].
    calm: usize,
    urgent: Line,
    background: Line,
}

/// Files in the order in which they came, each once.
#[derive(Debug, Default)]
struct Line {
    order: VecDeque<InodeKey>,
    members: BTreeSet<InodeKey>,
}

impl Line {
    fn join(&mut self, key: InodeKey) {
        if self.members.insert(key) {
            self.order.push_back(key);
        }
    }

    fn next(&mut self) -> Option<InodeKey> {
        let key = self.order.pop_front()?;
        self.members.remove(&key);
        Some(key)
    }
}

impl Default for Window {
    fn default() -> Self {
        Self { flights: 0, bytes: 0, calm: CALM, urgent: Line::default(), background: Line::default() }
    }
}

impl Window {
    /// True if a write may leave now; `is_urgent` if somebody waits for it.
    pub(crate) fn has_space(&self, is_urgent: bool) -> bool {
        let (flights, bytes) = match is_urgent {
            true => (MAX_FLIGHTS, MAX_BYTES),
            false if self.calm < CALM => (MAX_BESIDE_SYNCS, MAX_BACKGROUND_BYTES),
            false => (MAX_BACKGROUND, MAX_BACKGROUND_BYTES),
        };
        self.flights < flights && self.bytes < bytes
    }

    /// A write leaves; `is_urgent` if somebody waits for it.
    pub(crate) fn took_off(&mut self, bytes: u64, is_urgent: bool) {
        self.flights += 1;
        self.bytes += bytes;
        if is_urgent {
            self.calm = 0;
        }
    }

    /// A write has ended.
    pub(crate) fn landed(&mut self, bytes: u64) {
        assert!(self.flights > 0 && self.bytes >= bytes, "a write in flight has ended");
        self.flights -= 1;
        self.bytes -= bytes;
        self.calm = (self.calm + 1).min(CALM);
    }

    /// A file has more to write than may leave now.
    pub(crate) fn wait(&mut self, key: InodeKey, is_urgent: bool) {
        if is_urgent { self.urgent.join(key) } else { self.background.join(key) }
    }

    /// The next file that may send more.
    pub(crate) fn next(&mut self) -> Option<InodeKey> {
        let urgent = if self.has_space(true) { self.urgent.next() } else { None };
        urgent.or_else(|| if self.has_space(false) { self.background.next() } else { None })
    }

    /// Asserts the invariant, and that nobody waits while there is space.
    pub(crate) fn check(&self) {
        assert!(self.flights > 0 || self.bytes == 0, "{} bytes in flight in no write", self.bytes);
        assert!(self.urgent.order.is_empty() || !self.has_space(true), "a file waits although it may write");
        assert!(self.background.order.is_empty() || !self.has_space(false), "a file waits for no reason");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_somebody_waits_for_go_first_and_each_has_its_turn() {
        let key = |n| InodeKey::head(n);
        let mut window = Window::default();
        for _ in 0..MAX_BACKGROUND {
            assert!(window.has_space(false));
            window.took_off(4096, false);
        }
        assert!(!window.has_space(false) && window.has_space(true));
        for n in [1, 2, 1] {
            window.wait(key(n), false);
        }
        assert_eq!(window.next(), None);
        window.wait(key(3), true);
        assert_eq!(window.next(), Some(key(3)), "there is space for it");
        window.landed(4096);
        window.check_order(&[key(1), key(2)]);
    }

    #[test]
    fn a_few_large_writes_fill_it_too() {
        let mut window = Window::default();
        for _ in 0..4 {
            assert!(window.has_space(false));
            window.took_off(4 << 20, false);
        }
        assert!(!window.has_space(false) && window.has_space(true));
    }

    #[test]
    fn fewer_writes_that_nobody_waits_for_leave_beside_syncs() {
        let mut window = Window::default();
        window.took_off(4096, true);
        for _ in 1..MAX_BESIDE_SYNCS {
            assert!(window.has_space(false));
            window.took_off(4096, false);
        }
        assert!(!window.has_space(false) && window.has_space(true));
        for _ in 0..CALM {
            assert!(!window.has_space(false));
            window.landed(4096);
            window.took_off(4096, false);
        }
        assert!(window.has_space(false), "nobody syncs any more");
    }

    impl Window {
        fn check_order(&mut self, expected: &[InodeKey]) {
            let order: Vec<InodeKey> = std::iter::from_fn(|| self.next()).collect();
            assert_eq!(order, expected);
            self.check();
        }
    }
}
