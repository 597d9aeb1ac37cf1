//! Faults planted on purpose. A mutant is one line of a role, behind a switch that only test builds have. A
//! test in `sim` switches each on and names the checker that catches it, which proves the checkers.
//!
//! ```
//! fn may_answer(durable: bool) -> bool {
//!     durable || stdx::mutants::is_active("answer_before_durable")
//! }
//! assert!(!may_answer(false));
//! ```

#[cfg(feature = "mutants")]
thread_local! {
    static ACTIVE: std::cell::Cell<Option<&'static str>> = const { std::cell::Cell::new(None) };
}

/// True if the mutant of this name is active on this thread. Always false without the feature `mutants`.
#[cfg(feature = "mutants")]
pub fn is_active(name: &str) -> bool {
    ACTIVE.with(|active| active.get() == Some(name))
}

/// True if the mutant of this name is active on this thread. Always false without the feature `mutants`.
#[cfg(not(feature = "mutants"))]
#[inline(always)]
pub const fn is_active(_name: &str) -> bool {
    false
}

/// Runs `body` with a mutant switched on.
#[cfg(feature = "mutants")]
pub fn with<T>(name: &'static str, body: impl FnOnce() -> T) -> T {
    struct Off;
    impl Drop for Off {
        fn drop(&mut self) {
            ACTIVE.with(|active| active.set(None));
        }
    }
    ACTIVE.with(|active| active.set(Some(name)));
    let _off = Off;
    body()
}
