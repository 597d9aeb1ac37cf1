//! The store's disk operations in flight, and what each is for.

use crate::api::{ReadClass, ReadId, StoreError, StoreOut};
use crate::config::Config;
use crate::page::{PAGE, Ptr};
use crate::share::{Held, Shares};
use crate::stop::Stop;
use node::{DiskInfo, DiskOp, DiskOpId};
use std::collections::{BTreeMap, BTreeSet};
use stdx::{BLOCK, Buf, Bufs};

/// The most blocks of a read that may come from the host's memory, which costs a copy.
const MAX_CACHED_BLOCKS: usize = (1 << 20) / BLOCK;

/// The purpose of a disk operation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    /// A page of the index, or a half of it where its blocks lie apart.
    Page(Ptr, u8, Part),
    /// Blocks that a transaction needs: first, count.
    Fetch(u64, u64),
    /// A part of the data of a read of this class, so many blocks.
    Part(ReadId, usize, ReadClass, u32),
    /// A part of a log record.
    Log,
    /// A large write of the transaction with this number, to this block.
    Direct(u64, u64),
    /// Blocks written before the checkpoint that needs them: the number of that checkpoint, the first block.
    Early(u64, u64),
    /// Makes a group of transactions durable.
    LogFlush,
    /// A page or data written by the checkpoint.
    Checkpoint,
    /// A flush of the checkpoint.
    CheckpointFlush,
    /// A discard of free space.
    Discard,
    /// An operation of opening, by number.
    Open(usize),
}

/// The part of a page that is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    Whole,
    First,
    Second,
}

pub(crate) struct Io {
    disk: DiskInfo,
    next: u64,
    ops: BTreeMap<DiskOpId, Purpose>,
    /// Reads of blocks that must not be reused meanwhile.
    reading: BTreeSet<DiskOpId>,
    /// Pages on their way, by their blocks, with the half that has come.
    loading: BTreeMap<u64, Option<Result<Buf, StoreError>>>,
    /// Pages that could not be read.
    bad: BTreeMap<u64, StoreError>,
    shares: Shares,
    /// The host keeps what is read.
    host_cache: bool,
    /// Pages that were unsound in the host's memory.
    distrusted: BTreeSet<u64>,
}

impl Io {
    pub fn new(disk: DiskInfo, config: &Config) -> Self {
        Self {
            disk,
            next: config.op_base,
            ops: BTreeMap::new(),
            reading: BTreeSet::new(),
            loading: BTreeMap::new(),
            bad: BTreeMap::new(),
            shares: Shares::new(config.shares),
            host_cache: config.host_cache,
            distrusted: BTreeSet::new(),
        }
    }

    /// Reads that begin from now on may come from the host's memory, or not.
    pub fn set_host_cache(&mut self, used: bool) {
        self.host_cache = used;
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

    /// Reads bytes of the device.
    pub fn read(&mut self, purpose: Purpose, offset: u64, len: usize, out: &mut Vec<StoreOut>) {
        self.read_by(purpose, (offset, len), false, out);
    }

    fn read_by(
        &mut self,
        purpose: Purpose,
        (offset, len): (u64, usize),
        cached: bool,
        out: &mut Vec<StoreOut>,
    ) {
        let id = self.start(purpose, DiskOp::Read { disk: self.disk.id, offset, len, cached }, out);
        self.reading.insert(id);
    }

    /// Reads blocks.
    pub fn read_blocks(&mut self, purpose: Purpose, block: u64, count: u64, out: &mut Vec<StoreOut>) {
        self.read(purpose, block * BLOCK as u64, count as usize * BLOCK, out);
    }

    /// True if the host's memory may answer a read of this class of so many blocks. Scrubs are about the
    /// device, and what recovery and large reads leave there displaces what is read again.
    pub fn is_cached(&self, class: ReadClass, blocks: usize) -> bool {
        self.host_cache && class == ReadClass::Client && blocks <= MAX_CACHED_BLOCKS
    }

    /// Reads blocks for a read, now or when it is the turn of its class; `clients` says whether a client
    /// waits for something else. They are not given to anything else before.
    pub fn read_part(
        &mut self,
        (read, part, class): (ReadId, usize, ReadClass),
        (block, count, cached): (u64, u32, bool),
        clients: bool,
        out: &mut Vec<StoreOut>,
    ) {
        let id = DiskOpId(self.next);
        self.next += 1;
        self.ops.insert(id, Purpose::Part(read, part, class, count));
        self.reading.insert(id);
        let held = Held { id, offset: block * BLOCK as u64, len: count as usize * BLOCK, cached };
        if let Some(held) = self.shares.begins(class, held, clients) {
            self.begin(&held, out);
        }
    }

    /// Begins reads whose turn has come.
    pub fn begin_held(&mut self, clients: bool, out: &mut Vec<StoreOut>) {
        while let Some(held) = self.shares.next(clients) {
            self.begin(&held, out);
        }
    }

    fn begin(&mut self, held: &Held, out: &mut Vec<StoreOut>) {
        let Held { offset, len, cached, .. } = *held;
        let op = DiskOp::Read { disk: self.disk.id, offset, len, cached };
        out.push(StoreOut::Disk(held.id, op));
    }

    /// Reads a page, unless it is on its way; fails where that failed before.
    pub fn load(&mut self, ptr: Ptr, level: u8, out: &mut Vec<StoreOut>) -> Result<(), StoreError> {
        if let Some(error) = self.bad.get(&ptr.block) {
            return Err(error.clone());
        }
        if self.loading.contains_key(&ptr.block) {
            return Ok(());
        }
        self.loading.insert(ptr.block, None);
        let cached = self.host_cache && !self.distrusted.contains(&ptr.block);
        let mut read = |part, block: u64, len| {
            self.read_by(Purpose::Page(ptr, level, part), (block * BLOCK as u64, len), cached, out);
        };
        if ptr.place().is_row() {
            read(Part::Whole, ptr.block, PAGE);
        } else {
            read(Part::First, ptr.block, BLOCK);
            read(Part::Second, ptr.second, BLOCK);
        }
        Ok(())
    }

    /// Starts what a stopped step waits for; fails if no retry can help.
    pub fn wait_for(&mut self, stop: Stop, out: &mut Vec<StoreOut>) -> Result<(), StoreError> {
        match stop {
            Stop::Page(ptr, level) => self.load(ptr, level, out),
            Stop::Blocks(first, count) => {
                self.read_blocks(Purpose::Fetch(first, count), first, count, out);
                Ok(())
            }
            Stop::Error(error) => Err(error),
        }
    }

    /// A page or a half of one has come; the whole page when it is there.
    pub fn loaded(
        &mut self,
        ptr: Ptr,
        part: Part,
        result: Result<Buf, StoreError>,
    ) -> Option<Result<Buf, StoreError>> {
        if part == Part::Whole {
            self.loading.remove(&ptr.block);
            return Some(result);
        }
        let other = self.loading.get_mut(&ptr.block)?;
        let Some(other) = other.take() else {
            *other = Some(result);
            return None;
        };
        self.loading.remove(&ptr.block);
        let (first, second) = if part == Part::Second { (other, result) } else { (result, other) };
        Some(first.and_then(|first| Ok(Buf::copy_from(&[&first[..], &second?[..]].concat()))))
    }

    pub fn is_loading(&self, block: u64) -> bool {
        self.loading.contains_key(&block)
    }

    /// A page is sound.
    pub fn page_loaded(&mut self, block: u64) {
        self.distrusted.remove(&block);
    }

    /// A page is unsound, or could not be read. If it may have come from the host's memory, the next
    /// [`Self::load`] reads the device.
    pub fn page_failed(&mut self, block: u64, error: StoreError) {
        if !self.host_cache || !self.distrusted.insert(block) {
            self.distrusted.remove(&block);
            self.bad.insert(block, error);
        }
    }

    /// Forgets failures of a page whose place is free.
    pub fn forget(&mut self, block: u64) {
        self.bad.remove(&block);
        self.distrusted.remove(&block);
    }

    pub fn write(&mut self, purpose: Purpose, offset: u64, data: impl Into<Bufs>, out: &mut Vec<StoreOut>) {
        let (disk, data) = (self.disk.id, data.into());
        self.start(purpose, DiskOp::Write { disk, offset, data, through: false }, out);
    }

    /// Writes through the device's cache: durable when the write has ended.
    pub fn write_through(&mut self, purpose: Purpose, offset: u64, data: Buf, out: &mut Vec<StoreOut>) {
        let (disk, through) = (self.disk.id, !skips_flushes());
        self.start(purpose, DiskOp::Write { disk, offset, data: data.into(), through }, out);
    }

    pub fn flush(&mut self, purpose: Purpose, out: &mut Vec<StoreOut>) {
        let disk = self.disk.id;
        let op = if skips_flushes() {
            DiskOp::Read { disk, offset: 0, len: BLOCK, cached: false }
        } else {
            DiskOp::Flush { disk }
        };
        self.start(purpose, op, out);
    }

    pub fn discard(&mut self, purpose: Purpose, offset: u64, len: u64, out: &mut Vec<StoreOut>) {
        self.start(purpose, DiskOp::Discard { disk: self.disk.id, offset, len }, out);
    }

    /// An operation has ended.
    pub fn ended(&mut self, id: DiskOpId) -> Option<Purpose> {
        let purpose = self.ops.remove(&id)?;
        self.reading.remove(&id);
        if let Purpose::Part(_, _, class, count) = purpose {
            self.shares.ended(class, count as usize * BLOCK);
        }
        Some(purpose)
    }

    /// True if nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.ops.is_empty()
    }

    /// The number that the next operation gets.
    pub fn mark(&self) -> DiskOpId {
        DiskOpId(self.next)
    }

    /// True if all reads begun before `mark` have ended.
    pub fn read_until(&self, mark: DiskOpId) -> bool {
        self.reading.first().is_none_or(|id| *id >= mark)
    }

    pub fn disk(&self) -> DiskInfo {
        self.disk
    }
}

fn skips_flushes() -> bool {
    stdx::mutants::is_active("store_skips_flush")
}

/// Checks the length of what was read.
pub(crate) fn expect_len(buf: Buf, len: usize, what: impl FnOnce() -> String) -> Result<Buf, StoreError> {
    if buf.len() == len {
        Ok(buf)
    } else {
        Err(StoreError::Corrupt(format!("{}: {} of {len} bytes", what(), buf.len())))
    }
}
