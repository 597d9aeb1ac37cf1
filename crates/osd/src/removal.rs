//! PGs of a pool that was deleted: their objects go piece by piece, their knowledge last, so that a restart goes on with it.

use crate::core::{CommitFor, ReadFor};
use crate::osd::Osd;
use crate::pg::meta::meta_key;
use crate::pg::successor;
use maps::PgId;
use node::Level;
use store::{ObjectKey, Read, ReadReply, StoreError, Transaction, TxnOp};

/// Objects removed in one transaction.
const AT_ONCE: usize = 64;

/// A PG that goes.
#[derive(Debug)]
pub struct Removal {
    from: ObjectKey,
    to: ObjectKey,
    emptied: bool,
    gone: bool,
}

impl Removal {
    /// Objects in a range of keys.
    pub fn of(range: (ObjectKey, ObjectKey)) -> Self {
        Self { from: range.0, to: range.1, emptied: false, gone: false }
    }

    /// Of a PG whose pool is not known any more: all that is left of the pool goes with it.
    pub fn whole_pool_part(pgid: PgId) -> Self {
        Self::of((ObjectKey::first_at(pgid.pool, -1, 0), ObjectKey::first_at(pgid.pool, 0, 0)))
    }
}

impl Osd {
    /// Goes on with a removal.
    pub(crate) fn removal_step(&mut self, pgid: PgId) {
        let Some(removal) = self.removals.get_mut(&pgid) else { return };
        if removal.gone {
            self.removals.remove(&pgid);
            self.event(Level::Info, "pg_removed", pgid.to_string());
        } else if removal.emptied {
            removal.gone = true;
            let ops = vec![TxnOp::Remove(meta_key(pgid))];
            self.core.submit_own(Transaction { ops }, CommitFor::Removed(pgid));
        } else {
            let read = Read::List { from: removal.from.clone(), to: removal.to.clone(), max: AT_ONCE };
            self.core.io.read(self.core.now, read, ReadFor::Removal(pgid));
        }
    }

    /// The next objects to go.
    pub(crate) fn removal_listed(&mut self, pgid: PgId, result: Result<ReadReply, StoreError>) {
        let Some(removal) = self.removals.get_mut(&pgid) else { return };
        let Ok(ReadReply::List(keys)) = result else {
            // What can't be listed can't be removed; the next start tries again.
            self.removals.remove(&pgid);
            return self.event(Level::Warn, "pg_removal_failed", pgid.to_string());
        };
        removal.emptied = keys.len() < AT_ONCE;
        if let Some(last) = keys.last() {
            removal.from = successor(last);
        }
        let ops = keys.into_iter().map(TxnOp::Remove).collect();
        self.core.submit_own(Transaction { ops }, CommitFor::Removed(pgid));
    }
}
