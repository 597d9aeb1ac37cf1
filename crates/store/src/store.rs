//! The store itself: one owner, one loop.
//!
//! A transaction goes through these stages, each in order of submission:
//! *waiting* until the log has room; *admitted*: it has its number, room in the log, and places for its large writes, which
//! start at once; then on two ways that don't wait for each other, *logged* (one record and one flush under way at a time,
//! all that came meanwhile joins the next) and *applied* (planned, then put into the active table). A read waits for
//! those before it that touch its object to be applied, not to be logged; those after it wait until it has looked into the
//! index. So a read sees exactly what was submitted before it. When the active table or the log has grown
//! enough, the table is frozen and a checkpoint writes it into a new version of the index.
//!
//! After each input [`Store::settle`] runs every part until none makes progress; nothing is left half done between inputs.

use crate::alloc::{Alloc, Run};
use crate::api::{Read, ReadId, StoreError, StoreOut, Transaction, TxnId, Usage};
use crate::cache::Cache;
use crate::checkpoint::Checkpoint;
use crate::commit::Commit;
use crate::config::{Config, Identity, Memory, MkfsInfo, Refusal};
use crate::io::{Io, Purpose, expect_len};
use crate::logged::Cost;
use crate::open::Opening;
use crate::page::{PAGE, PAGE_BLOCKS, Page};
use crate::plan::Base;
use crate::read::Job;
use crate::superblock::Super;
use crate::table::{Stats, Table, View, Writing};
use crate::tree::{Stop, Tree};
use node::{DiskInfo, DiskOpId, DiskResult};
use std::collections::{BTreeMap, VecDeque};
use stdx::{BLOCK, Buf, Rng};

/// What the store is doing.
pub(crate) enum State {
    New,
    Opening(Box<Opening>),
    Open,
    Failed,
}

/// Entries, as they are on the device and as they have changed since.
pub(crate) struct Core {
    pub cache: Cache,
    pub tree: Tree,
    pub active: Table,
    pub frozen: Option<Box<Table>>,
    pub writing: Writing,
    pub alloc: Alloc,
    pub stats: Stats,
    pub next_id: u64,
    /// Whether there may be omaps to be forgotten.
    pub garbage: bool,
    /// The last transaction applied.
    pub applied: u64,
    /// Blocks that were read for the transaction being applied.
    pub fetched: BTreeMap<u64, Buf>,
}

impl Core {
    pub fn view(&self) -> View<'_> {
        let frozen = self.frozen.as_ref().map(|f| &f.changes);
        View { cache: &self.cache, tree: &self.tree, layers: [Some(&self.active.changes), frozen, None] }
    }

    /// What plans are made on, and the allocator beside it.
    pub fn base(&mut self) -> (Base<'_>, &mut Alloc) {
        let frozen = self.frozen.as_deref();
        let layers = [Some(&self.active.changes), frozen.map(|f| &f.changes), None];
        let view = View { cache: &self.cache, tree: &self.tree, layers };
        (
            Base { view, active: &self.active, frozen, writing: &self.writing, fetched: &self.fetched },
            &mut self.alloc,
        )
    }
}

/// What is free once no read of it is under way any more.
pub(crate) struct Leaving {
    pub mark: DiskOpId,
    pub runs: Vec<Run>,
    pub pages: Vec<u64>,
}

/// The object store over one device.
pub struct Store {
    pub(crate) config: Config,
    pub(crate) rng: Rng,
    pub(crate) state: State,
    pub(crate) sup: Super,
    pub(crate) core: Core,
    pub(crate) io: Io,
    pub(crate) commit: Commit,
    pub(crate) checkpoint: Option<Box<Checkpoint>>,
    pub(crate) wants_checkpoint: bool,
    pub(crate) leaving: VecDeque<Leaving>,
    pub(crate) reads: BTreeMap<ReadId, Job>,
    pub(crate) next_read: u64,
}

/// Blocks that only transactions which bring no data may take.
const RESERVED_BLOCKS: u64 = 32;

impl Store {
    /// A store that is not open yet.
    pub fn new(config: Config, disk: DiskInfo, rng: Rng) -> Self {
        let core = Core {
            cache: Cache::new(config.cache_bytes),
            tree: Tree::default(),
            active: Table::default(),
            frozen: None,
            writing: Writing::default(),
            alloc: Alloc::new(0, 0),
            stats: Stats::default(),
            next_id: 0,
            garbage: true,
            applied: 0,
            fetched: BTreeMap::new(),
        };
        Self {
            io: Io::new(disk, config.op_base),
            config,
            rng,
            state: State::New,
            sup: Super::default(),
            core,
            commit: Commit::default(),
            checkpoint: None,
            wants_checkpoint: false,
            leaving: VecDeque::new(),
            reads: BTreeMap::new(),
            next_read: 1,
        }
    }

    /// Opens the store, or makes one on a blank device where `mkfs_if_blank` says what. Ends in [`StoreOut::Opened`] or
    /// [`StoreOut::Failed`]. Nothing else may be asked before.
    pub fn open(&mut self, mkfs_if_blank: Option<MkfsInfo>, out: &mut Vec<StoreOut>) {
        assert!(matches!(self.state, State::New), "a store is opened once");
        self.state = State::Opening(Box::new(Opening::begin(mkfs_if_blank, &mut self.io, out)));
    }

    /// Whether it is open.
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Open)
    }

    /// Whose store it is; only once it is open.
    pub fn identity(&self) -> Identity {
        Identity { uuid: self.sup.uuid, label: self.sup.label.clone() }
    }

    /// Whether a transaction may be submitted now. The owner asks before each [`Self::submit`]: what was submitted
    /// is carried out, or the store stops.
    pub fn fits(&self, txn: &Transaction) -> Result<(), Refusal> {
        let cost = Cost::of(txn, self.config.direct_bytes)?;
        if crate::ring::record_len(cost.log) > self.commit.ring().len() / 4 {
            return Err(Refusal::TooLarge);
        }
        let (reserve, blocks) = if cost.grows { (self.reserved_pages(), RESERVED_BLOCKS) } else { (0, 0) };
        let shortfall = self.page_shortfall(cost.index, reserve);
        let zones = shortfall.div_ceil(crate::alloc::ZONE_PAGES) * crate::alloc::ZONE;
        let wanted = self.commit.promised().blocks + cost.blocks + blocks + zones;
        let alloc = &self.core.alloc;
        let pages = shortfall == 0 || alloc.could_hold_pages(alloc.free_pages() + shortfall);
        if wanted <= alloc.free_data() && pages { Ok(()) } else { Err(Refusal::NoSpace) }
    }

    /// Pages that only transactions which bring no data may make the index grow by.
    pub(crate) fn reserved_pages(&self) -> u64 {
        let tables = 2 * self.config.table_bytes as u64 / PAGE as u64;
        (self.sup.blocks / 1024).clamp(16, 4096) + tables
    }

    /// Places for pages that there must be so that checkpoints succeed when the index grows by `more` bytes and
    /// `reserve` pages. A checkpoint may have to make every page anew while the old ones are still needed.
    pub(crate) fn needed_pages(&self, more: u64, reserve: u64) -> u64 {
        let frozen = self.core.frozen.as_ref().map_or(0, |f| f.change_bytes());
        let bytes = (self.core.active.change_bytes() + frozen) as u64 + self.commit.promised().index + more;
        2 * (self.core.tree.pages + bytes.div_ceil(PAGE as u64 / 2) + 8 + reserve)
    }

    /// How many of them are missing.
    pub(crate) fn page_shortfall(&self, more: u64, reserve: u64) -> u64 {
        self.needed_pages(more, reserve).saturating_sub(self.core.alloc.pages())
    }

    /// Takes zones for the index, so that data can't be in its way.
    pub(crate) fn claim_pages(&mut self) {
        let shortfall = self.page_shortfall(0, self.reserved_pages());
        let free = self.core.alloc.free_pages();
        // As far as there are free zones: whether that is enough is for fits() to say.
        let _ = self.core.alloc.ensure_pages(free + shortfall);
    }

    /// Submits a transaction that [`Self::fits`]. [`StoreOut::Committed`] follows.
    pub fn submit(&mut self, txn: Transaction, out: &mut Vec<StoreOut>) -> TxnId {
        let cost = Cost::of(&txn, self.config.direct_bytes).expect("a transaction that fits() allows");
        let id = self.commit.submit(txn, cost, self.config.direct_bytes);
        if matches!(self.state, State::Open) {
            self.claim_pages();
            self.settle(out);
        }
        id
    }

    /// Asks for a read. Its result may come from within this call.
    pub fn read(&mut self, read: Read, out: &mut Vec<StoreOut>) -> ReadId {
        let id = ReadId(self.next_read);
        self.next_read += 1;
        self.reads.insert(id, Job::new(read, self.commit.mark()));
        if matches!(self.state, State::Open) {
            self.settle(out);
        }
        id
    }

    /// Asks for a checkpoint: what is in the log goes to its place, so that the next start finds a short log.
    /// For a clean stop; [`Self::is_clean`] says when it is done.
    pub fn request_checkpoint(&mut self, out: &mut Vec<StoreOut>) {
        self.wants_checkpoint = true;
        if matches!(self.state, State::Open) {
            self.settle(out);
        }
    }

    /// Whether everything submitted is in its place on the device.
    pub fn is_clean(&self) -> bool {
        self.commit.is_idle() && self.core.active.is_empty() && self.checkpoint.is_none()
    }

    /// Whether this operation is the store's, so that its result goes to [`Self::disk_done`].
    pub fn owns(&self, id: DiskOpId) -> bool {
        self.io.owns(id)
    }

    /// A disk operation has ended.
    pub fn disk_done(&mut self, id: DiskOpId, result: DiskResult, out: &mut Vec<StoreOut>) {
        let Some(purpose) = self.io.ended(id) else { return };
        if matches!(self.state, State::Failed | State::New) {
            return;
        }
        if let Err(error) = self.ended(purpose, result.map_err(StoreError::Io), out) {
            return self.fail(error, out);
        }
        self.settle(out);
    }

    fn ended(
        &mut self,
        purpose: Purpose,
        result: Result<Buf, StoreError>,
        out: &mut Vec<StoreOut>,
    ) -> Result<(), StoreError> {
        match purpose {
            Purpose::Page(ptr, level) => {
                let page =
                    result.and_then(|bytes| Page::parse(bytes, ptr, level).map_err(StoreError::Corrupt));
                match page {
                    Ok(page) => self.core.cache.insert(ptr.block, page),
                    Err(error) => self.io.page_failed(ptr.block, error),
                }
            }
            Purpose::Fetch(first, count) => {
                // What can't be read is damaged like what has a wrong checksum: zeros have the checksum only of zeros.
                let bytes = result.and_then(|b| expect_len(b, count as usize * BLOCK, "a block of data"));
                let bytes = bytes.unwrap_or_else(|_| Buf::zeros(count as usize * BLOCK));
                for i in 0..count {
                    let at = i as usize * BLOCK;
                    self.core.fetched.insert(first + i, bytes.slice(at..at + BLOCK));
                }
                self.commit.fetched();
            }
            Purpose::Part(read, part) => {
                if let Some(job) = self.reads.get_mut(&read) {
                    job.part_ended(part, result);
                }
            }
            Purpose::Log => {
                result?;
                self.commit.log_written();
            }
            Purpose::Direct(seq, first) => {
                result?;
                self.core.writing.end(first);
                self.commit.direct_written(seq);
            }
            Purpose::LogFlush => {
                result?;
                self.commit.flushed(out);
            }
            Purpose::Checkpoint => {
                result?;
                self.checkpoint.as_mut().expect("a checkpoint that writes").written();
            }
            Purpose::CheckpointFlush => {
                result?;
                self.checkpoint.as_mut().expect("a checkpoint that flushes").flushed();
            }
            Purpose::Open(part) => {
                let State::Opening(opening) = &mut self.state else { unreachable!("only while opening") };
                opening.ended(part, result?);
            }
        }
        Ok(())
    }

    pub(crate) fn fail(&mut self, error: StoreError, out: &mut Vec<StoreOut>) {
        self.state = State::Failed;
        self.reads.clear();
        out.push(StoreOut::Failed(error));
    }

    /// Runs every part until none makes progress.
    fn settle(&mut self, out: &mut Vec<StoreOut>) {
        loop {
            let progress = match &self.state {
                State::Opening(_) => self.step_open(out),
                State::Open => self.step(out),
                State::New | State::Failed => return,
            };
            match progress {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => return self.fail(error, out),
            }
        }
        self.core.cache.trim();
    }

    fn step(&mut self, out: &mut Vec<StoreOut>) -> Result<bool, StoreError> {
        self.release();
        let mut progress = self.admit(out)?;
        progress |= self.apply_next(out)?;
        progress |= self.write_log(out);
        progress |= self.run_reads(out);
        progress |= self.step_checkpoint(out)?;
        progress |= self.collect_garbage(out)?;
        Ok(progress)
    }

    /// Frees what left the index, once no read of it is under way.
    pub(crate) fn release(&mut self) {
        while self.leaving.front().is_some_and(|l| self.io.read_until(l.mark)) {
            let leaving = self.leaving.pop_front().expect("looked at");
            for run in leaving.runs {
                self.core.alloc.free(run);
            }
            for page in leaving.pages {
                self.core.alloc.free_page(page);
                self.core.cache.remove(page);
                self.io.forget(page);
            }
        }
    }

    /// Starts what a stopped part waits for.
    pub(crate) fn wait_for(&mut self, stop: Stop, out: &mut Vec<StoreOut>) -> Result<(), StoreError> {
        match stop {
            Stop::Page(ptr, level) => self.io.load(ptr, level, out),
            Stop::Blocks(first, count) => {
                self.io.read_blocks(Purpose::Fetch(first, count), first, count, out);
                Ok(())
            }
            Stop::Error(error) => Err(error),
        }
    }

    /// Space as of now.
    pub fn usage(&self) -> Usage {
        let block = BLOCK as u64;
        let alloc = &self.core.alloc;
        let shortfall = self.page_shortfall(0, self.reserved_pages()) * PAGE_BLOCKS;
        let kept = self.commit.promised().blocks + RESERVED_BLOCKS + shortfall;
        let index = alloc.pages() * PAGE_BLOCKS;
        let first = self.sup.first_block();
        Usage {
            total: self.sup.blocks * block,
            available: alloc.free_data().saturating_sub(kept) * block,
            data: self.core.stats.data,
            allocated: (self.sup.blocks - first).saturating_sub(alloc.free_data() + index) * block,
            omap: self.core.stats.omap,
            metadata: (index + first) * block,
            objects: self.core.stats.objects,
        }
    }

    /// Memory held as of now.
    pub fn memory(&self) -> Memory {
        let frozen = self.core.frozen.as_ref().map_or(0, |f| f.memory());
        Memory {
            cache: self.core.cache.memory(),
            tables: self.core.active.memory() + frozen,
            pending: self.commit.memory(),
            space_map: self.core.alloc.memory(),
        }
    }
}
