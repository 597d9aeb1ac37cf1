//! Syncs of everything that are waited for. They may take as long as the cluster does not answer, so whoever
//! waits can be interrupted: what is written back goes on without him.
//!
//! fsync(2) of a file cannot: any signal would interrupt it, and programs do not expect that.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The requests to sync everything that have no answer yet, by the kernel's number.
///
/// Invariant: whoever removes a number answers its request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Syncs(Arc<Mutex<BTreeSet<u64>>>);

impl Syncs {
    fn waiting(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request comes.
    pub(crate) fn begin(&self, unique: u64) {
        self.waiting().insert(unique);
    }

    /// A request is to be answered, by its caller if this returns true.
    pub(crate) fn end(&self, unique: u64) -> bool {
        self.waiting().remove(&unique)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_answered_once() {
        let syncs = Syncs::default();
        syncs.begin(7);
        syncs.begin(8);
        assert!(syncs.clone().end(7) && !syncs.end(7), "interrupted, then done");
        assert!(syncs.end(8) && !syncs.end(9));
    }
}
