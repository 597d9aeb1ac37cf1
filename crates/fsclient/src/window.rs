//! The window of writes in flight: buffered data on their way to the OSDs.
//!
//! Whatever is asked of an OSD next queues behind them, so they are few: a read that nobody buffers for waits
//! for some milliseconds of writes, not for all that is buffered.
//!
//! A program that syncs one small file after the other waits for each write beside its own. So what nobody
//! waits for keeps out of its way for a while, and after that few of it leave at a time.

use crate::key::InodeKey;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;
use stdx::Instant;

/// Writes in flight that nobody waits for. OSDs on one disk gain nothing from more.
const MAX_BACKGROUND: usize = 32;
/// The same beside a program that syncs: each of these delays it.
const MAX_BESIDE_SYNCS: usize = 4;
/// Bytes of those.
const MAX_BYTES_BESIDE_SYNCS: u64 = 4 << 20;
/// The time after a write that somebody waits for in which a program is taken to sync.
const SYNCS_FOR: Duration = Duration::from_millis(10);
/// The time for which none leave beside a program that syncs.
const PATIENCE: Duration = Duration::from_millis(500);
/// Bytes in flight that nobody waits for.
const MAX_BACKGROUND_BYTES: u64 = 16 << 20;
/// Writes in flight, if somebody waits for some: those that nobody waits for leave them as many again.
const MAX_FLIGHTS: usize = 2 * MAX_BACKGROUND;
/// Bytes in flight, if somebody waits for some.
const MAX_BYTES: u64 = 2 * MAX_BACKGROUND_BYTES;

/// Writes in flight, and the files that wait to send more.
///
/// Invariants: `bytes` are in flight only if `flights` are; no more are to land; whoever waits, waits for a
/// write to land or for `wake_at`.
#[derive(Debug, Default)]
pub(crate) struct Window {
    flights: usize,
    bytes: u64,
    /// The last instant at which a write left that somebody waited for.
    synced_at: Option<Instant>,
    /// Writes to land until it has, if they land in order.
    to_land: usize,
    /// A file that nobody waits for was held back then, and somebody has synced ever since.
    held_since: Option<Instant>,
    /// The instant at which files may leave that are held back, if nothing lands before.
    wake_at: Option<Instant>,
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

impl Window {
    /// True if a write may leave now; `is_urgent` if somebody waits for it.
    pub(crate) fn has_space(&self, now: Instant, is_urgent: bool) -> bool {
        let (flights, bytes) = match is_urgent {
            true => (MAX_FLIGHTS, MAX_BYTES),
            false if !self.is_synced(now) => (MAX_BACKGROUND, MAX_BACKGROUND_BYTES),
            false if self.held_since.is_some_and(|since| since + PATIENCE <= now) => {
                (MAX_BESIDE_SYNCS, MAX_BYTES_BESIDE_SYNCS)
            }
            false => (0, 0),
        };
        self.flights < flights && self.bytes < bytes
    }

    /// True if a program is taken to sync: it did so lately, or does so now.
    fn is_synced(&self, now: Instant) -> bool {
        self.to_land > 0 || self.synced_at.is_some_and(|at| now < at + SYNCS_FOR)
    }

    /// A write leaves; `is_urgent` if somebody waits for it.
    pub(crate) fn took_off(&mut self, now: Instant, bytes: u64, is_urgent: bool) {
        self.flights += 1;
        self.bytes += bytes;
        if is_urgent {
            (self.synced_at, self.to_land) = (Some(now), self.flights);
        }
    }

    /// Somebody waits for data that go another way.
    pub(crate) fn note_sync(&mut self, now: Instant) {
        self.synced_at = Some(now);
    }

    /// A write has ended.
    pub(crate) fn landed(&mut self, bytes: u64) {
        assert!(self.flights > 0 && self.bytes >= bytes, "a write in flight has ended");
        self.flights -= 1;
        self.bytes -= bytes;
        self.to_land = self.to_land.saturating_sub(1);
    }

    /// A file has more to write than may leave now.
    pub(crate) fn wait(&mut self, now: Instant, key: InodeKey, is_urgent: bool) {
        if is_urgent {
            return self.urgent.join(key);
        }
        self.background.join(key);
        self.held_since = self.held_since.or(Some(now)).filter(|_| self.is_synced(now));
    }

    /// The next file that may send more.
    pub(crate) fn next(&mut self, now: Instant) -> Option<InodeKey> {
        if !self.is_synced(now) {
            self.held_since = None;
        }
        let urgent = if self.has_space(now, true) { self.urgent.next() } else { None };
        let next = urgent.or_else(|| if self.has_space(now, false) { self.background.next() } else { None });
        let calm_at = self.synced_at.map(|at| at + SYNCS_FOR);
        let patient_until = self.held_since.map(|since| since + PATIENCE);
        let times = [calm_at, patient_until].into_iter().flatten().filter(|at| now < *at);
        self.wake_at = if self.background.order.is_empty() { None } else { times.min() };
        next
    }

    /// The time at which [`Self::next`] is to be asked again.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.wake_at
    }

    /// Asserts the invariants, and that nobody waits while there is space.
    pub(crate) fn check(&self, now: Instant) {
        assert!(self.flights > 0 || self.bytes == 0, "{} bytes in flight in no write", self.bytes);
        assert!(self.to_land <= self.flights, "{} writes to land", self.to_land);
        let may_write = |is_urgent| self.has_space(now, is_urgent);
        assert!(self.urgent.order.is_empty() || !may_write(true), "a file waits although it may write");
        assert!(self.background.order.is_empty() || !may_write(false), "a file waits for no reason");
        let is_woken = self.flights > 0 || self.wake_at.is_some();
        assert!(self.background.order.is_empty() || is_woken, "a file waits for nothing");
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
            assert!(window.has_space(at(0), false));
            window.took_off(at(0), 4096, false);
        }
        assert!(!window.has_space(at(0), false) && window.has_space(at(0), true));
        for n in [1, 2, 1] {
            window.wait(at(0), key(n), false);
        }
        assert_eq!(window.next(at(0)), None);
        window.wait(at(0), key(3), true);
        assert_eq!(window.next(at(0)), Some(key(3)), "there is space for it");
        window.landed(4096);
        window.check_order(&[key(1), key(2)]);
    }

    #[test]
    fn a_few_large_writes_fill_it_too() {
        let mut window = Window::default();
        for _ in 0..4 {
            assert!(window.has_space(at(0), false));
            window.took_off(at(0), 4 << 20, false);
        }
        assert!(!window.has_space(at(0), false) && window.has_space(at(0), true));
    }

    #[test]
    fn what_nobody_waits_for_keeps_out_of_the_way_of_syncs_for_a_while() {
        let key = InodeKey::head(1);
        let mut window = Window::default();
        let sync = |window: &mut Window, ms| {
            window.took_off(at(ms), 4096, true);
            assert_eq!(window.next(at(ms)), None, "not beside the sync at {ms}");
            window.landed(4096);
            window.check(at(ms));
        };
        window.took_off(at(0), 4096, true);
        assert!(!window.has_space(at(0), false) && window.has_space(at(0), true));
        window.wait(at(0), key, false);
        window.landed(4096);
        for ms in (5..500).step_by(5) {
            sync(&mut window, ms);
            assert_eq!(window.deadline(), Some(at((ms + 10).min(500))));
        }
        // From now on a few leave, and it is not held for as long again.
        for ms in (500..900).step_by(5) {
            window.took_off(at(ms), 4096, true);
            assert_eq!(window.next(at(ms)), Some(key));
            for _ in 1..MAX_BESIDE_SYNCS {
                assert!(window.has_space(at(ms), false));
                window.took_off(at(ms), 4096, false);
            }
            assert!(!window.has_space(at(ms), false) && window.has_space(at(ms), true));
            window.wait(at(ms), key, false);
            (0..MAX_BESIDE_SYNCS).for_each(|_| window.landed(4096));
        }
    }

    #[test]
    fn when_nobody_syncs_any_more_all_may_leave() {
        let key = InodeKey::head(1);
        let mut window = Window::default();
        window.took_off(at(0), 4096, true);
        window.wait(at(0), key, false);
        assert_eq!(window.next(at(9)), None);
        // A sync that takes long is one still.
        assert_eq!(window.next(at(20)), None);
        assert_eq!(window.deadline(), Some(at(500)), "or when it has landed");
        window.landed(4096);
        assert_eq!(window.next(at(21)), Some(key));
        assert_eq!(window.deadline(), None);
        for _ in 0..MAX_BACKGROUND {
            assert!(window.has_space(at(21), false));
            window.took_off(at(21), 4096, false);
        }
    }

    fn at(ms: u64) -> Instant {
        Instant(1_000_000_000_000) + Duration::from_millis(ms)
    }

    impl Window {
        fn check_order(&mut self, expected: &[InodeKey]) {
            let order: Vec<InodeKey> = std::iter::from_fn(|| self.next(at(0))).collect();
            assert_eq!(order, expected);
            self.check(at(0));
        }
    }
}
