//! The monitor's view of an object store. Tests substitute one that completes at once or crashes at a chosen
//! point.

use node::{DiskOpId, DiskResult};
use store::{Read, ReadId, StoreOut, Transaction, TxnId};

/// The use of a store's device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Space {
    /// Bytes of the device; 0 if that is not known.
    pub total: u64,
    /// Bytes of the device that are free, beside what the store keeps back.
    pub available: u64,
    /// Bytes of keys and values that still fit, at least.
    pub left: u64,
    /// Bytes of all keys and values.
    pub stored: u64,
    /// True if more may fit once [`Storage::make_space`] has done its work.
    pub may_grow: bool,
}

impl Default for Space {
    /// A device that nobody knows the end of.
    fn default() -> Self {
        Self { total: 0, available: 0, left: u64::MAX, stored: 0, may_grow: false }
    }
}

impl Space {
    /// Thousandths of the device that are in use; 0 if that is not known.
    pub fn used_permille(&self) -> u32 {
        let used = self.total - self.available.min(self.total);
        u32::try_from(used * 1000 / self.total.max(1)).unwrap_or(0)
    }
}

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
    /// The use of its device.
    fn space(&self) -> Space {
        Space::default()
    }
    /// Finds out what space the last changes leave; until that is done, [`Space::may_grow`] is true.
    fn make_space(&mut self, _out: &mut Vec<StoreOut>) {}
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
            store::Refusal::NoSpace => "its disk is full".to_owned(),
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

    fn space(&self) -> Space {
        let usage = self.usage();
        Space {
            total: usage.total,
            available: usage.available,
            left: self.omap_left(),
            stored: usage.omap,
            may_grow: self.may_free(),
        }
    }

    fn make_space(&mut self, out: &mut Vec<StoreOut>) {
        Self::make_space(self, out);
    }

    fn is_closed(&self) -> bool {
        self.is_clean()
    }
}
