//! Byte budgets. A message's whole length is reserved before its payload is read; the reservation ends with
//! the buffer that carries it (docs/design.md, decision 6).

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
    /// A part of the budget in which they count too: what one of several users has of it.
    share: Option<Budget>,
    bytes: u64,
}

/// Memory reserved for a message in addition to its own bytes: at a request the memory for its answer, which
/// the answer takes over. It does not count in comparisons of messages.
#[derive(Clone, Debug, Default)]
pub struct Hold(Option<Arc<Reservation>>);

impl PartialEq for Hold {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl Eq for Hold {}

impl Hold {
    /// Nothing is held.
    pub const NONE: Self = Self(None);

    /// Shrinks the reservation to the answer's real size in bytes. Does nothing if it is shared.
    pub fn settle(&mut self, bytes: u64) {
        if let Some(reservation) = self.0.as_mut().and_then(Arc::get_mut) {
            reservation.resize(bytes);
        }
    }

    /// The reservation, to be tied to buffers.
    pub fn into_reservation(self) -> Option<Arc<Reservation>> {
        self.0
    }
}

impl From<Reservation> for Hold {
    fn from(reservation: Reservation) -> Self {
        Self(Some(Arc::new(reservation)))
    }
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

    /// Reserves `bytes`; `None` if they do not fit. A request larger than the whole budget is granted when
    /// nothing else is in use, so it can't wait for ever.
    pub fn reserve(&self, bytes: u64) -> Option<Reservation> {
        self.reserve_if(bytes, |used| used == 0 || used.saturating_add(bytes) <= self.0.limit)
    }

    /// Like [`Self::reserve`], but a request larger than the whole budget is never granted.
    pub fn reserve_within(&self, bytes: u64) -> Option<Reservation> {
        self.reserve_if(bytes, |used| used.saturating_add(bytes) <= self.0.limit)
    }

    /// True if [`Self::reserve`] would grant it.
    pub fn has(&self, bytes: u64) -> bool {
        let used = self.used();
        used == 0 || used.saturating_add(bytes) <= self.0.limit
    }

    fn reserve_if(&self, bytes: u64, fits: impl Fn(u64) -> bool) -> Option<Reservation> {
        self.0
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                fits(used).then(|| used.saturating_add(bytes))
            })
            .ok()
            .map(|_| Reservation { budget: self.clone(), share: None, bytes })
    }

    fn add(&self, bytes: u64) {
        self.0.used.fetch_add(bytes, Ordering::Relaxed);
    }

    fn sub(&self, bytes: u64) {
        self.0.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Reservation {
    /// The number of bytes held.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Counts it in `share` too, whether or not it fits there: who wants that asks [`Budget::has`] before.
    #[must_use]
    pub fn counted_in(mut self, share: &Budget) -> Self {
        assert!(self.share.is_none(), "it is counted in one share");
        share.add(self.bytes);
        self.share = Some(share.clone());
        self
    }

    /// Changes the size to the real one, in bytes. May exceed the budget.
    pub fn resize(&mut self, bytes: u64) {
        for budget in std::iter::once(&self.budget).chain(&self.share) {
            budget.add(bytes);
            budget.sub(self.bytes);
        }
        self.bytes = bytes;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.sub(self.bytes);
        if let Some(share) = &self.share {
            share.sub(self.bytes);
        }
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

    #[test]
    fn what_is_counted_in_a_share_follows_its_size() {
        let (budget, share) = (Budget::new(100), Budget::new(40));
        assert!(share.has(1_000) && budget.reserve_within(101).is_none());
        let mut hold = Hold::from(budget.reserve(30).expect("fits").counted_in(&share));
        assert!(share.has(10) && !share.has(11));
        hold.settle(5);
        assert_eq!((budget.used(), share.used()), (5, 5));
        let same = hold.clone();
        hold.settle(7);
        assert_eq!((budget.used(), hold == Hold::NONE), (5, true), "two have it");
        drop((hold, same));
        assert_eq!((budget.used(), share.used()), (0, 0));
    }
}
