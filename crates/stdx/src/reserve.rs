//! Byte budgets. A message's whole length is reserved before its payload is read; the reservation ends with
//! the buffer that carries it (DESIGN, decision 6).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number of bytes that may be reserved at once. Clones share it.
#[derive(Clone, Debug)]
pub struct Budget(Arc<State>);

#[derive(Debug)]
struct State {
    limit: u64,
    used: AtomicU64,
}

/// Bytes taken from a [`Budget`], given back on drop.
#[derive(Debug)]
pub struct Reservation {
    budget: Budget,
    bytes: u64,
}

impl Budget {
    /// A budget of `limit` bytes.
    pub fn new(limit: u64) -> Self {
        Self(Arc::new(State { limit, used: AtomicU64::new(0) }))
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.0.used.load(Ordering::Relaxed)
    }

    /// The size of the budget in bytes.
    pub fn limit(&self) -> u64 {
        self.0.limit
    }

    /// Takes `bytes`, or nothing and `None` where they do not fit. A request larger than the whole budget
    /// is granted when nothing else is in use, so that it can never wait for ever.
    pub fn reserve(&self, bytes: u64) -> Option<Reservation> {
        let fits = |used: u64| used == 0 || used.saturating_add(bytes) <= self.0.limit;
        self.0
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                fits(used).then(|| used.saturating_add(bytes))
            })
            .ok()
            .map(|_| Reservation { budget: self.clone(), bytes })
    }
}

impl Reservation {
    /// The number of bytes held.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.0.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_back_on_drop_and_never_over_commits() {
        let budget = Budget::new(100);
        let a = budget.reserve(60).expect("fits");
        assert!(budget.reserve(41).is_none());
        let b = budget.reserve(40).expect("fits exactly");
        drop((a, b));
        assert_eq!(budget.used(), 0);
        assert!(budget.reserve(1_000).is_some(), "alone, an oversized request passes");
    }
}
