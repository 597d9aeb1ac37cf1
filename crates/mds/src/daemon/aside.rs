//! The state of a daemon that has lost its rank, and waits (`namesake.rs`).

use stdx::Instant;

/// Why a daemon without a rank does nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Aside {
    /// The OSDs refuse it; by this time the map has told whether another daemon has its name.
    Refused(Instant),
    /// Another daemon has its name.
    Replaced,
}
