//! Configuration, identity, refusals and memory figures of a store.

use crate::api::ReadClass;
use wire::Uuid;

/// Sizes and limits that the owner chooses.
#[derive(Clone, Debug)]
pub struct Config {
    /// The store numbers its disk operations from here; an owner with disk operations of its own keeps clear.
    pub op_base: u64,
    /// Bytes of index pages kept in memory.
    pub cache_bytes: usize,
    /// Bytes of data kept in memory, of small reads and of writes.
    pub data_cache_bytes: usize,
    /// What is in neither of them may come from the host's memory, as [`DiskOp::Read`](node::DiskOp) says.
    pub host_cache: bool,
    /// Changes kept in memory before a checkpoint is begun, in bytes, but at most a 64th of the device. Twice
    /// as many may be held while one runs.
    pub table_bytes: usize,
    /// Size of the log, in bytes; used when the store is made, later the device says it. `None`: by device
    /// size.
    pub log_bytes: Option<u64>,
    /// The owner calls `Store::batch_ended`: transactions submitted before share a log record and a flush.
    /// Otherwise the first of them begins a record at once and the others wait for the next.
    pub batched: bool,
    /// Writes with at least so many bytes of whole blocks go to their place at once and not through the log.
    pub direct_bytes: usize,
    /// The shares of the device of each class of reads while others want it too, in proportion; 0 counts as
    /// 1.
    pub shares: [u32; ReadClass::COUNT],
    /// Free space is given back to the device when it has been free for so many checkpoints; `None`: never.
    pub discard_after: Option<u8>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            op_base: 1 << 32,
            cache_bytes: 16 << 20,
            data_cache_bytes: 16 << 20,
            host_cache: false,
            table_bytes: 8 << 20,
            log_bytes: None,
            batched: false,
            direct_bytes: 64 << 10,
            shares: [10, 4, 1, 1],
            discard_after: Some(8),
        }
    }
}

/// The store to make on a blank device.
#[derive(Clone, Debug)]
pub struct MkfsInfo {
    /// The store's own id.
    pub uuid: Uuid,
    /// The owner's label (cluster, daemon), at most [`MkfsInfo::LABEL_MAX`] bytes.
    pub label: Vec<u8>,
}

impl MkfsInfo {
    /// Longest label in bytes.
    pub const LABEL_MAX: usize = 160;
}

/// The identity of a store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// As given to [`MkfsInfo`].
    pub uuid: Uuid,
    /// As given to [`MkfsInfo`].
    pub label: Vec<u8>,
}

/// A reason to refuse a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The device is full (ENOSPC). What frees space still fits.
    NoSpace,
    /// The transaction is larger than a quarter of the log (EMSGSIZE).
    TooLarge,
    /// An object's name or an omap key or xattr name is too long (ENAMETOOLONG).
    NameTooLong,
    /// An object would end beyond `MAX_OBJECT_BYTES` (EFBIG).
    ObjectTooLarge,
}

/// Bytes of memory that the store holds, by use. Counted, not measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Memory {
    /// Index pages, and blocks of data.
    pub cache: usize,
    /// Changes that are not in the index yet, and data that is not in its place yet.
    pub tables: usize,
    /// Transactions that are not applied or not logged yet.
    pub pending: usize,
    /// The allocator's map of free blocks.
    pub space_map: usize,
}

impl Memory {
    /// The sum.
    pub fn total(&self) -> usize {
        self.cache + self.tables + self.pending + self.space_map
    }
}
