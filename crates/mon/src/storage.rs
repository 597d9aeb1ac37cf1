//! The monitor's view of an object store. Tests substitute one that completes at once or crashes at a chosen
//! point.

use node::{DiskOpId, DiskResult};
use store::{Read, ReadId, StoreOut, Transaction, TxnId};

/// The part of the store's interface that the log uses. Outputs are appended in order.
pub trait Storage {
    /// Opens the store, or creates it on an empty device; ends in `Opened` or `Failed`.
    fn open(&mut self, out: &mut Vec<StoreOut>);
    /// Submits a transaction; ends in `Committed` when it is durable. `Err` gives the reason for a refusal
    /// (no space).
    fn submit(&mut self, txn: Transaction, out: &mut Vec<StoreOut>) -> Result<TxnId, String>;
    /// Largest transaction in bytes, counting 100 extra bytes for each key. Valid once the store is open.
    fn largest_txn(&self) -> usize;
    /// Starts a read; ends in `Read`, possibly within this call.
    fn read(&mut self, read: Read, out: &mut Vec<StoreOut>) -> ReadId;
    /// A disk operation of the store has ended.
    fn disk_done(&mut self, id: DiskOpId, result: DiskResult, out: &mut Vec<StoreOut>);
    /// Shuts the store down: writes everything to its final place. Nothing is submitted afterwards.
    fn close(&mut self, out: &mut Vec<StoreOut>);
    /// Thousandths of its device that are in use; 0 if that is not known.
    fn used_permille(&self) -> u32 {
        0
    }
    /// True if the store has shut down and the device has confirmed it.
    fn is_closed(&self) -> bool;
}

impl Storage for store::Store {
    fn open(&mut self, out: &mut Vec<StoreOut>) {
        // The label names the kind alone: cluster and monitor are in the log's own ident.
        let info = store::MkfsInfo { uuid: wire::Uuid::default(), label: b"nacre mon".to_vec() };
        Self::open(self, Some(info), out);
    }

    fn submit(&mut self, txn: Transaction, out: &mut Vec<StoreOut>) -> Result<TxnId, String> {
        self.fits(&txn).map_err(|refusal| match refusal {
            store::Refusal::NoSpace => "its disk is full: make room or move its directory".to_owned(),
            store::Refusal::TooLarge => {
                "it is larger than what its device takes at once: a larger one is needed".to_owned()
            }
            other => format!("{other:?}"),
        })?;
        Ok(Self::submit(self, txn, out))
    }

    fn largest_txn(&self) -> usize {
        Self::largest_txn(self) as usize
    }

    fn read(&mut self, read: Read, out: &mut Vec<StoreOut>) -> ReadId {
        Self::read(self, read, out)
    }

    fn disk_done(&mut self, id: DiskOpId, result: DiskResult, out: &mut Vec<StoreOut>) {
        Self::disk_done(self, id, result, out);
    }

    fn close(&mut self, out: &mut Vec<StoreOut>) {
        self.request_checkpoint(out);
    }

    fn used_permille(&self) -> u32 {
        let usage = self.usage();
        let used = usage.total - usage.available.min(usage.total);
        u32::try_from(used * 1000 / usage.total.max(1)).unwrap_or(0)
    }

    fn is_closed(&self) -> bool {
        self.is_clean()
    }
}
