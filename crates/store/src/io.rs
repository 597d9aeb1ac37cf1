//! The store's disk operations in flight, and what each is for.

use crate::api::{ReadId, StoreError, StoreOut};
use crate::page::{PAGE, Ptr};
use node::{DiskInfo, DiskOp, DiskOpId};
use std::collections::{BTreeMap, BTreeSet};
use stdx::{BLOCK, Buf, Bufs};

/// What an operation is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    /// A page of the index.
    Page(Ptr, u8),
    /// Blocks that a transaction needs: first, count.
    Fetch(u64, u64),
    /// A part of the data of a read.
    Part(ReadId, usize),
    /// A part of a log record.
    Log,
    /// A large write of the transaction with this number, to this block.
    Direct(u64, u64),
    /// Makes a group of transactions durable.
    LogFlush,
    /// A page or data written by the checkpoint.
    Checkpoint,
    /// A flush of the checkpoint.
    CheckpointFlush,
    /// Something of opening, by number.
    Open(usize),
}

pub(crate) struct Io {
    disk: DiskInfo,
    next: u64,
    ops: BTreeMap<DiskOpId, Purpose>,
    /// Reads of places that might be given to something else.
    reading: BTreeSet<DiskOpId>,
    /// Pages on their way, by their blocks.
    loading: BTreeSet<u64>,
    /// Pages that could not be read.
    bad: BTreeMap<u64, StoreError>,
}

impl Io {
    pub fn new(disk: DiskInfo, base: u64) -> Self {
        Self {
            disk,
            next: base,
            ops: BTreeMap::new(),
            reading: BTreeSet::new(),
            loading: BTreeSet::new(),
            bad: BTreeMap::new(),
        }
    }

    pub fn owns(&self, id: DiskOpId) -> bool {
        self.ops.contains_key(&id)
    }

    fn start(&mut self, purpose: Purpose, op: DiskOp, out: &mut Vec<StoreOut>) -> DiskOpId {
        let id = DiskOpId(self.next);
        self.next += 1;
        self.ops.insert(id, purpose);
        out.push(StoreOut::Disk(id, op));
        id
    }

    /// Reads bytes.
    pub fn read(&mut self, purpose: Purpose, offset: u64, len: usize, out: &mut Vec<StoreOut>) {
        let id = self.start(purpose, DiskOp::Read { disk: self.disk.id, offset, len }, out);
        self.reading.insert(id);
    }

    /// Reads blocks.
    pub fn read_blocks(&mut self, purpose: Purpose, block: u64, count: u64, out: &mut Vec<StoreOut>) {
        self.read(purpose, block * BLOCK as u64, count as usize * BLOCK, out);
    }

    /// Reads a page, unless it is on its way; fails where that failed before.
    pub fn load(&mut self, ptr: Ptr, level: u8, out: &mut Vec<StoreOut>) -> Result<(), StoreError> {
        if let Some(error) = self.bad.get(&ptr.block) {
            return Err(error.clone());
        }
        if self.loading.insert(ptr.block) {
            self.read(Purpose::Page(ptr, level), ptr.block * BLOCK as u64, PAGE, out);
        }
        Ok(())
    }

    pub fn is_loading(&self, block: u64) -> bool {
        self.loading.contains(&block)
    }

    pub fn page_failed(&mut self, block: u64, error: StoreError) {
        self.bad.insert(block, error);
    }

    /// Forgets failures of a page whose place is free.
    pub fn forget(&mut self, block: u64) {
        self.bad.remove(&block);
    }

    pub fn write(&mut self, purpose: Purpose, offset: u64, data: impl Into<Bufs>, out: &mut Vec<StoreOut>) {
        self.start(purpose, DiskOp::Write { disk: self.disk.id, offset, data: data.into() }, out);
    }

    pub fn flush(&mut self, purpose: Purpose, out: &mut Vec<StoreOut>) {
        let disk = self.disk.id;
        let skips = stdx::mutants::is_active("store_skips_flush");
        let op = if skips { DiskOp::Read { disk, offset: 0, len: BLOCK } } else { DiskOp::Flush { disk } };
        self.start(purpose, op, out);
    }

    /// An operation has ended.
    pub fn ended(&mut self, id: DiskOpId) -> Option<Purpose> {
        let purpose = self.ops.remove(&id)?;
        self.reading.remove(&id);
        if let Purpose::Page(ptr, _) = purpose {
            self.loading.remove(&ptr.block);
        }
        Some(purpose)
    }

    /// The number that the next operation gets.
    pub fn mark(&self) -> DiskOpId {
        DiskOpId(self.next)
    }

    /// Whether all reads begun before `mark` have ended.
    pub fn read_until(&self, mark: DiskOpId) -> bool {
        self.reading.first().is_none_or(|id| *id >= mark)
    }

    pub fn disk(&self) -> DiskInfo {
        self.disk
    }
}

/// What a read must have given.
pub(crate) fn expect_len(buf: Buf, len: usize, what: &str) -> Result<Buf, StoreError> {
    if buf.len() == len {
        Ok(buf)
    } else {
        Err(StoreError::Corrupt(format!("{what}: {} of {len} bytes", buf.len())))
    }
}
