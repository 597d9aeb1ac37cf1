//! Reasons why a step can't run now.
//!
//! A stopped step leaves no trace. It is tried again from scratch once the cause is gone.

use crate::api::StoreError;
use crate::page::Ptr;

/// The cause of a stop.
#[derive(Debug)]
pub(crate) enum Stop {
    /// An index page of this level is not in memory.
    Page(Ptr, u8),
    /// The content of these blocks is needed: first, count.
    Blocks(u64, u64),
    /// A retry can't help.
    Error(StoreError),
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        Self::Error(error)
    }
}

pub(crate) fn corrupt(what: impl Into<String>) -> Stop {
    Stop::Error(StoreError::Corrupt(what.into()))
}

/// The error for space that was promised and is not there. The store stops rather than lose a transaction
/// that it has accepted.
pub(crate) fn full() -> StoreError {
    let errno = wire::Errno::ENOSPC;
    StoreError::Io(node::DiskError { errno, what: "the store is full".to_owned() })
}
