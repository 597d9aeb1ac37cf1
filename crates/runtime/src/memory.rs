//! Memory that nobody uses goes back to the host.

use std::sync::OnceLock;

/// What gives back what the program's allocator keeps.
static ALLOCATOR: OnceLock<fn()> = OnceLock::new();

/// Has `give_back` called each second or so in each event loop that is at work: a program whose allocator looks only while it
/// is asked for memory would keep for ever what a burst of requests has left.
pub fn give_back_by(give_back: fn()) {
    // A program has one allocator.
    let _ = ALLOCATOR.set(give_back);
}

/// Gives back what nobody uses now.
pub fn give_back() {
    stdx::release_unused();
    if let Some(give_back) = ALLOCATOR.get() {
        give_back();
    }
}
