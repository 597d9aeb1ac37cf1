//! Returns unused memory to the host.

use std::sync::OnceLock;

/// The function that returns memory which the program's allocator keeps.
static ALLOCATOR: OnceLock<fn()> = OnceLock::new();

/// Sets a function that each busy event loop calls about once a second. An allocator that looks for unused
/// memory only while it allocates would keep the memory of a burst of requests for ever.
pub fn give_back_by(give_back: fn()) {
    // A program has one allocator.
    let _ = ALLOCATOR.set(give_back);
}

/// Returns memory that is unused now.
pub fn give_back() {
    stdx::release_unused();
    if let Some(give_back) = ALLOCATOR.get() {
        give_back();
    }
}
