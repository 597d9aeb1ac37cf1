//! The store, as PGs and the OSD itself use it.

use super::{Core, Out};
use crate::completion::{CommitFor, ReadFor};
use crate::disk_health::Commits;
use crate::store_io::StoreIo;
use node::{DiskOpId, DiskResult};
use store::{MkfsInfo, Read, ReadId, Refusal, StoreOut, Transaction, TxnId, Usage};

/// Access to the store.
impl Core {
    /// Starts a read; `then` receives the result.
    pub fn read(&mut self, read: Read, then: ReadFor) {
        self.io.read(read, then);
    }

    /// Submits a transaction; `then` is carried out when it is durable.
    pub fn submit(&mut self, txn: Transaction, then: CommitFor) -> Result<(), Refusal> {
        self.io.submit(self.now, txn, then)
    }

    /// Submits a transaction of our own making, which must fit: the full ratios stop clients long before.
    pub fn submit_own(&mut self, txn: Transaction, then: CommitFor) {
        if let Err(refusal) = self.submit(txn, then) {
            let text = format!(
                "the store can not take the OSD's own records ({refusal:?}): add space or remove data"
            );
            self.outbox.push(Out::Stop(Err(text)));
        }
    }

    /// Wraps [`StoreIo::would_refuse`].
    pub fn would_refuse(&self, txn: &Transaction, beside: usize, left: u64) -> Option<Refusal> {
        self.io.would_refuse(txn, beside, left)
    }

    /// The space of the store.
    pub fn usage(&self) -> Usage {
        self.io.usage()
    }

    /// True if the store is too full to grant backfill here.
    pub fn is_backfill_full(&self) -> bool {
        let (usage, ratio) = (self.io.usage(), f64::from(self.map().backfillfull_ratio));
        ratio > 0.0 && usage.total.saturating_sub(usage.available) as f64 >= ratio * usage.total as f64
    }

    /// Takes the owners of the transactions up to `txn`, which are durable.
    pub fn committed(&mut self, txn: TxnId) -> Vec<CommitFor> {
        self.io.committed(self.now, txn)
    }

    /// Commit times of recent transactions.
    pub fn commits(&mut self) -> Commits {
        self.io.commits(self.now)
    }

    /// Reads that the device has refused in the last minutes.
    pub fn device_errors_lately(&mut self) -> u32 {
        self.io.device_errors_lately(self.now.mono)
    }

    /// The store, read-only.
    pub fn store(&self) -> &StoreIo {
        &self.io
    }

    /// Notes that a damaged object of ours was replaced by another OSD's copy.
    pub fn object_repaired(&mut self) {
        self.io.object_repaired();
    }

    /// Sets the number of such objects, for an administrator.
    pub fn set_repaired(&mut self, count: u32) {
        self.io.set_repaired(count);
    }
}

/// The course of the store, for the OSD itself.
impl Core {
    /// Opens the store, or formats a blank device.
    pub fn open_store(&mut self, mkfs: MkfsInfo) {
        self.io.open(mkfs);
    }

    /// Shuts the store down; nothing may be submitted afterwards.
    pub fn close_store(&mut self) {
        self.io.close();
    }

    /// Handles a completed disk operation.
    pub fn disk_done(&mut self, id: DiskOpId, result: DiskResult) {
        self.io.disk_done(id, result);
    }

    /// Ends a batch of inputs.
    pub fn batch_ended(&mut self) {
        self.io.batch_ended();
    }

    /// Takes the events that the store has emitted.
    pub fn take_store_events(&mut self) -> Vec<StoreOut> {
        self.io.take_events()
    }

    /// Takes the owner of a read.
    pub fn reader(&mut self, id: ReadId) -> Option<ReadFor> {
        self.io.reader(id)
    }
}
