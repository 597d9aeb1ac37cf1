//! A limit on wrong passwords: a few for each address, and some for all together, since each one costs the
//! monitor's host a tenth of a second of a processor.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

/// Wrong passwords of an address within a [`WINDOW_S`].
const PER_ADDRESS: u32 = 5;
/// Wrong passwords of all addresses within it.
const TOGETHER: u32 = 60;
/// Seconds.
const WINDOW_S: u64 = 60;

#[derive(Default)]
struct Window {
    began: u64,
    together: u32,
    of: BTreeMap<IpAddr, u32>,
}

/// Counts attempts.
#[derive(Default)]
pub(crate) struct Limit(Mutex<Window>);

impl Limit {
    /// Takes an attempt at `now`, in seconds since 1970, if it may be made. It counts as wrong until
    /// [`Limit::was_right`].
    pub fn take(&self, from: IpAddr, now: u64) -> bool {
        let mut window = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if now.abs_diff(window.began) >= WINDOW_S {
            *window = Window { began: now, ..Window::default() };
        }
        let count = window.of.get(&from).copied().unwrap_or(0);
        if count >= PER_ADDRESS || window.together >= TOGETHER {
            return false;
        }
        window.of.insert(from, count + 1);
        window.together += 1;
        true
    }

    /// The last attempt was no wrong one.
    pub fn was_right(&self, from: IpAddr) {
        let mut window = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        window.together = window.together.saturating_sub(1);
        if let Some(count) = window.of.get_mut(&from) {
            *count = count.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_guesses_waits_and_others_do_not() {
        let limit = Limit::default();
        let (a, b) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let allowed = (0..20).filter(|_| limit.take(a, 100)).count();
        assert_eq!(allowed, 5);
        assert!(limit.take(b, 110));
        limit.was_right(b);
        assert!((0..10).all(|_| limit.take(b, 120) && {
            limit.was_right(b);
            true
        }));
        assert!(!limit.take(a, 159) && limit.take(a, 160));
    }

    #[test]
    fn many_addresses_together_are_limited_too() {
        let limit = Limit::default();
        let allowed = (0..=255u8).filter(|n| limit.take(IpAddr::from([10, 0, 1, *n]), 100)).count();
        assert_eq!(allowed, 60);
    }
}
