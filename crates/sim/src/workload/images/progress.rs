//! How far the ending is: see `ending.rs`.

use stdx::Instant;

/// How far the ending is.
#[derive(Debug)]
pub(super) struct Ending {
    /// When it goes on; `None` after its end.
    pub(super) next_at: Option<Instant>,
    /// Who does the next thing.
    pub(super) seat: usize,
}

impl Ending {
    pub(super) fn new(now: Instant) -> Self {
        Self { next_at: Some(now), seat: 0 }
    }
}
