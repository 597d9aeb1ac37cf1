//! The store itself: one owner, one loop.
//!
//! A transaction goes through these stages, each in order of submission:
//! *waiting* until the log has room; *admitted*: it has its number, room in the log, and places for its large writes, which
//! start at once; then on two ways that don't wait for each other, *logged* (one record and one flush under way at a time,
//! all that came meanwhile joins the next) and *applied* (planned, then put into the active table). A read waits for
//! those before it that touch its object to be applied, not to be logged; those after it wait until it has looked into the
//! index. So a read sees exactly what was submitted before it. Data in the active table is written to its place whenever
//! there is much of it (`write_early`). When the active table or the log has grown enough, the table is frozen and a checkpoint
//! writes it into a new version of the index.
//!
//! After each input [`Store::settle`] runs every part until none makes progress; nothing is left half done between inputs. Where the
//! owner says when a batch of inputs has ended ([`Config::batched`]), only what the device or somebody waits for is done before
//! ([`Store::hurry`]), the record is handed over, and the rest is done while the device is at work.

use crate::alloc::{Alloc, Run};
use crate::api::{Read, ReadClass, ReadId, StoreError, StoreOut, Transaction, TxnId, Usage};
use crate::cache::{Blocks, Cache};
use crate::checkpoint::{Checkpoint, Early, SPACE_CHUNK};
use crate::commit::Commit;
use crate::config::{Config, Identity, Memory, MkfsInfo, Refusal};
use crate::io::{Io, Purpose, expect_len};
use crate::logged::{Class, Cost};
use crate::open::Opening;
use crate::page::{PAGE, PAGE_BLOCKS, Page, Place};
use crate::plan::Base;
use crate::read::Job;
use crate::steps::Staged;
use crate::superblock::Super;
use crate::table::{Changes, Stats, Table, View, Writing};
use crate::tree::{Stop, Tree};
use crate::trim::Trim;
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
    pub blocks: Blocks,
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
    /// Pages that the checkpoint under way has made.
    pub making: u64,
    /// Large omaps that the transaction being applied clones.
    pub staged: Vec<Staged>,
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
            Base {
                view,
                active: &self.active,
                frozen,
                writing: &self.writing,
                fetched: &self.fetched,
                staged: &self.staged,
            },
            &mut self.alloc,
        )
    }
}

/// What is free once no read of it is under way any more.
pub(crate) struct Leaving {
    pub mark: DiskOpId,
    pub runs: VecDeque<Run>,
    pub pages: VecDeque<Place>,
    /// Blocks of all of them.
    blocks: u64,
}

impl Leaving {
    pub fn new(mark: DiskOpId, runs: Vec<Run>, pages: Vec<Place>) -> Self {
        let blocks = runs.iter().map(|run| run.1).sum::<u64>() + pages.len() as u64 * PAGE_BLOCKS;
        Self { mark, runs: runs.into(), pages: pages.into(), blocks }
    }
}

/// The object store over one device.
pub struct Store {
    pub(crate) config: Config,
    pub(crate) rng: Rng,
    pub(crate) state: State,
    pub(crate) sup: Super,
    /// One copy of the superblock is older or damaged.
    pub(crate) sup_behind: bool,
    pub(crate) core: Core,
    pub(crate) io: Io,
    pub(crate) commit: Commit,
    pub(crate) checkpoint: Option<Box<Checkpoint>>,
    pub(crate) wants_checkpoint: bool,
    pub(crate) early: Early,
    /// Whether a log record may be begun.
    pub(crate) may_log: bool,
    /// The owner is about to stop: the device is to say that the log is not needed.
    pub(crate) closing: bool,
    pub(crate) leaving: VecDeque<Leaving>,
    /// Changes that the index has, some of which are forgotten after each input: many at once take milliseconds.
    pub(crate) spent: VecDeque<Changes>,
    /// Pages that the checkpoint may still make after this input.
    pub(crate) effort: usize,
    /// Transactions submitted when it was last said.
    worked_for: u64,
    pub(crate) trim: Trim,
    pub(crate) reads: BTreeMap<ReadId, Job>,
    pub(crate) next_read: u64,
    /// Times that blocks which a transaction waits for could not be read.
    unfetched: u32,
}

/// What reads of at most so many bytes found is kept in memory. Each larger one would push out many small ones, and keeping it costs more than it saves.
const READ_KEPT: usize = 16 << 10;
/// How often blocks that a transaction changes in part are read again where they can't be read. Once it goes on without them they are damaged for good, and the
/// object may be nowhere else as the transaction leaves it.
const FETCHES: u32 = 3;
/// Places that are freed after one input …
const RELEASED: usize = 64;
/// … and changes forgotten.
const SPENT: usize = 128;
/// Blocks that only transactions which bring no data may take.
const RESERVED_BLOCKS: u64 = 32;

/// What a clone takes of the index besides omap and extents.
const CLONE_BESIDE: u64 = 16 << 10;

impl Store {
    /// A store that is not open yet.
    pub fn new(config: Config, disk: DiskInfo, rng: Rng) -> Self {
        let core = Core {
            cache: Cache::new(config.cache_bytes),
            blocks: Blocks::new(config.data_cache_bytes),
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
            making: 0,
            staged: Vec::new(),
        };
        Self {
            io: Io::new(disk, config.op_base, config.shares),
            rng,
            state: State::New,
            sup: Super::default(),
            sup_behind: false,
            core,
            commit: Commit::default(),
            checkpoint: None,
            wants_checkpoint: false,
            early: Early::default(),
            may_log: !config.batched,
            config,
            closing: false,
            leaving: VecDeque::new(),
            spent: VecDeque::new(),
            effort: 0,
            worked_for: 0,
            trim: Trim::default(),
            reads: BTreeMap::new(),
            next_read: 1,
            unfetched: 0,
        }
    }

    /// Opens the store, or makes one on a blank device where `mkfs_if_blank` says what. Ends in [`StoreOut::Opened`] or
    /// [`StoreOut::Failed`]. Nothing else may be asked before.
    pub fn open(&mut self, mkfs_if_blank: Option<MkfsInfo>, out: &mut Vec<StoreOut>) {
        assert!(matches!(self.state, State::New), "a store is opened once");
        self.state = State::Opening(Box::new(Opening::begin(mkfs_if_blank, &mut self.io, out)));
    }

    /// Lets the store fail as if it were full at the allocation after the next `count`; for tests of what that leaves behind.
    pub fn fail_allocation_after(&mut self, count: u64) {
        self.core.alloc.fail_after(count);
    }

    /// Whether it is open.
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Open)
    }

    /// Whose store it is; only once it is open.
    pub fn identity(&self) -> Identity {
        Identity { uuid: self.sup.uuid, label: self.sup.label.clone() }
    }

    /// About so many bytes a transaction may have, names and keys with 100 more each counted: more are [`Refusal::TooLarge`].
    pub fn largest_txn(&self) -> u64 {
        self.largest_record() - self.largest_record() / 16
    }

    fn largest_record(&self) -> u64 {
        self.commit.ring().len() / 4
    }

    /// Whether a transaction may be submitted now. The owner asks before each [`Self::submit`]: what was submitted
    /// is carried out, or the store stops. A transaction that only removes always fits; it may have to wait.
    pub fn fits(&self, txn: &Transaction) -> Result<(), Refusal> {
        self.room_for(txn, None, 0).map(drop)
    }

    /// The same for a transaction in which an entry of an omap with so many bytes will be set too, and that is to leave room for `left` bytes of
    /// such entries on the device.
    pub fn fits_beside(&self, txn: &Transaction, bytes: u64, left: u64) -> Result<(), Refusal> {
        self.room_for(txn, Some(bytes), left).map(drop)
    }

    /// What a transaction may need, where that is there.
    fn room_for(&self, txn: &Transaction, beside: Option<u64>, left: u64) -> Result<Cost, Refusal> {
        let cost = self.cost(txn, beside)?;
        if crate::ring::record_len(cost.log) > self.largest_record() {
            return Err(Refusal::TooLarge);
        }
        if cost.class == Class::Removes {
            return Ok(cost);
        }
        let promised = self.commit.promised();
        let (pages, blocks) = self.reserve(cost.class);
        let pages = self.needed_pages(promised.index + cost.index + left, pages);
        let wanted = promised.blocks + cost.blocks + blocks + pages * PAGE_BLOCKS;
        if wanted <= self.core.alloc.free_blocks() + self.soon_free() {
            Ok(cost)
        } else {
            Err(Refusal::NoSpace)
        }
    }

    /// What a transaction may need.
    fn cost(&self, txn: &Transaction, beside: Option<u64>) -> Result<Cost, Refusal> {
        let mut cost = Cost::of(txn, beside, self.config.direct_bytes)?;
        cost.cloned = cost.clones * (CLONE_BESIDE + self.largest_clone(cost));
        cost.index += cost.cloned;
        Ok(cost)
    }

    /// Bytes by which the index may grow by a clone of any object that there will be when a transaction's other operations are
    /// done too. A clone replaces what was there, so it makes no object larger than its source was: clones that
    /// are promised make this one no larger.
    fn largest_clone(&self, others: Cost) -> u64 {
        let (stats, promised) = (&self.core.stats, self.commit.promised());
        let (pending, blocks) = (promised.index - promised.cloned, promised.blocks + others.blocks);
        let blocks = (stats.largest_data / BLOCK as u64).min(self.used_blocks()) + blocks;
        let omap = stats.largest_omap.min(stats.omap) + pending + others.index;
        omap + omap / 2 + 12 * blocks
    }

    /// Pages and blocks that a transaction of this class must leave, so that those which free space still fit.
    fn reserve(&self, class: Class) -> (u64, u64) {
        let tables = 2 * self.config.table_bytes as u64 / PAGE as u64;
        let pages = (self.sup.blocks / 1024).clamp(16, 4096) + tables;
        match class {
            Class::Grows => (pages, RESERVED_BLOCKS),
            Class::Small => (pages / 2, RESERVED_BLOCKS / 2),
            Class::Frees | Class::Removes => (0, 0),
        }
    }

    /// Free places for pages that there must be so that checkpoints succeed when the index grows by `promised` bytes more
    /// than the tables hold and `reserve` pages. A checkpoint may have to make every page anew while the old ones are
    /// still needed; pages are at least half full.
    pub(crate) fn needed_pages(&self, promised: u64, reserve: u64) -> u64 {
        let frozen = self.core.frozen.as_ref().map_or(0, |f| f.change_bytes());
        let bytes = (self.core.active.change_bytes() + frozen) as u64 + promised;
        let pages = self.core.tree.pages;
        let space = self.sup.blocks / SPACE_CHUNK * SPACE_CHUNK / 8 / (PAGE as u64 / 2);
        let needed = space + pages + pages / 8 + 2 * (bytes.div_ceil(PAGE as u64 / 2) + 8 + reserve);
        // What the checkpoint under way has made is taken already.
        needed.saturating_sub(self.core.making)
    }

    /// Blocks that are free when the checkpoints of what is in the tables have ended.
    fn soon_free(&self) -> u64 {
        let frozen = self.core.frozen.as_ref().map_or(0, |f| f.given_blocks());
        let leaving = self.leaving.iter().map(|l| l.blocks).sum::<u64>();
        self.core.active.given_blocks() + frozen + leaving + self.trim.lent_blocks()
    }

    /// Whether there is room now for the next transaction, beside those admitted.
    pub(crate) fn has_room(&self, cost: Cost) -> bool {
        let admitted = self.commit.admitted();
        let pages = self.needed_pages(admitted.index + cost.index, 0);
        admitted.blocks + cost.blocks + pages * PAGE_BLOCKS <= self.core.alloc.free_blocks()
    }

    /// Whether space may become free without new transactions.
    pub(crate) fn may_free(&self) -> bool {
        let at_work = self.checkpoint.is_some() || !self.leaving.is_empty() || !self.core.active.is_empty();
        at_work || self.trim.lent_blocks() > 0 || !self.commit.is_applied()
    }

    /// Submits a transaction that [`Self::fits`]. [`StoreOut::Committed`] follows.
    pub fn submit(&mut self, txn: Transaction, out: &mut Vec<StoreOut>) -> TxnId {
        let cost = self.cost(&txn, None).expect("a transaction that fits() allows");
        self.take(txn, cost, out)
    }

    /// Submits a transaction if it [`Self::fits`].
    pub fn submit_if_fits(&mut self, txn: Transaction, out: &mut Vec<StoreOut>) -> Result<TxnId, Refusal> {
        let cost = self.room_for(&txn, None, 0)?;
        Ok(self.take(txn, cost, out))
    }

    fn take(&mut self, txn: Transaction, cost: Cost, out: &mut Vec<StoreOut>) -> TxnId {
        let id = self.commit.submit(txn, cost, self.config.direct_bytes);
        self.closing = false;
        self.work(out);
        id
    }

    /// Whatever was submitted together has been ([`Config::batched`]): a log record may begin, and what can wait is done. To be
    /// called again until nothing comes of it, after what came was carried out: the device is not to wait for the rest.
    pub fn batch_ended(&mut self, out: &mut Vec<StoreOut>) {
        if !self.config.batched || !matches!(self.state, State::Open) {
            return;
        }
        self.may_log = true;
        let begins = self.commit.has_to_log() && {
            self.hurry(out);
            self.commit.is_logging()
        };
        if !begins {
            self.settle(out);
        }
        self.may_log = false;
    }

    /// Asks for a read of a client. Its result may come from within this call.
    pub fn read(&mut self, read: Read, out: &mut Vec<StoreOut>) -> ReadId {
        self.read_as(ReadClass::Client, read, out)
    }

    /// Asks for a read. Those of data wait for their turn where others want the device too ([`Config::shares`]).
    pub fn read_as(&mut self, class: ReadClass, read: Read, out: &mut Vec<StoreOut>) -> ReadId {
        let id = ReadId(self.next_read);
        self.next_read += 1;
        let job = Job::new(read, class, self.commit.mark());
        let waits = self.commit.is_pending(self.commit.mark(), job.object());
        self.reads.insert(id, job);
        if waits && self.is_open() {
            self.settle(out);
        } else {
            self.work(out);
        }
        id
    }

    /// Asks for a checkpoint: what is in the log goes to its place, so that the next start finds a short log.
    /// For a clean stop; [`Self::is_clean`] says when it is done.
    pub fn request_checkpoint(&mut self, out: &mut Vec<StoreOut>) {
        self.wants_checkpoint = true;
        self.closing = true;
        if matches!(self.state, State::Open) {
            self.settle(out);
        }
    }

    /// Whether everything submitted is in its place on the device, which says so.
    pub fn is_clean(&self) -> bool {
        let at_rest = self.commit.is_idle() && self.core.active.is_empty() && self.checkpoint.is_none();
        at_rest && self.sup.clean
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
        if let Err(error) = self.ended(purpose, result.map_err(StoreError::Io)) {
            return self.fail(error, out);
        }
        self.work(out);
    }

    fn ended(&mut self, purpose: Purpose, result: Result<Buf, StoreError>) -> Result<(), StoreError> {
        match purpose {
            Purpose::Page(ptr, level, part) => {
                let Some(result) = self.io.loaded(ptr, part, result) else { return Ok(()) };
                let page =
                    result.and_then(|bytes| Page::parse(bytes, ptr, level).map_err(StoreError::Corrupt));
                match page {
                    Ok(page) => self.core.cache.insert(ptr.block, page),
                    Err(error) => self.io.page_failed(ptr.block, error),
                }
            }
            Purpose::Fetch(first, count) => self.fetched(first, count, result),
            Purpose::Part(read, part, ..) => {
                if let Some(job) = self.reads.get_mut(&read)
                    && let Some((place, content)) = job.part_ended(part, result)
                    && content.len() <= READ_KEPT
                {
                    for (i, block) in content.chunks(BLOCK).enumerate() {
                        self.core.blocks.insert(place + i as u64, Buf::from(block.to_vec()));
                    }
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
            Purpose::Early(table, first) => {
                result?;
                let written = self.core.writing.end(first);
                let blocks = written.iter().flat_map(|data| data.parts()).cloned();
                (first..).zip(blocks).for_each(|(block, content)| self.core.blocks.insert(block, content));
                self.early.ended(table);
            }
            Purpose::LogFlush => {
                result?;
                self.commit.log_flushed();
            }
            // Advice: that it was not taken is no error.
            Purpose::Discard => self.discard_ended(),
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
                opening.ended(part, result)?;
            }
        }
        Ok(())
    }

    /// Blocks that a transaction changes in part were read.
    fn fetched(&mut self, first: u64, count: u64, result: Result<Buf, StoreError>) {
        let bytes =
            result.and_then(|b| expect_len(b, count as usize * BLOCK, || "a block of data".to_owned()));
        if bytes.is_err() && self.unfetched < FETCHES {
            // Not there, they are asked for again.
            self.unfetched += 1;
            return self.commit.fetched();
        }
        self.unfetched = 0;
        // What can't be read is damaged like what has a wrong checksum: zeros have the checksum only of zeros.
        let bytes = bytes.unwrap_or_else(|_| Buf::zeros(count as usize * BLOCK));
        for i in 0..count {
            let at = i as usize * BLOCK;
            self.core.fetched.insert(first + i, bytes.slice(at..at + BLOCK));
        }
        self.commit.fetched();
    }

    pub(crate) fn fail(&mut self, error: StoreError, out: &mut Vec<StoreOut>) {
        self.state = State::Failed;
        self.reads.clear();
        out.push(StoreOut::Failed(error));
    }

    /// What is to be done after an input.
    fn work(&mut self, out: &mut Vec<StoreOut>) {
        match self.state {
            State::Open if self.config.batched => self.hurry(out),
            State::Open | State::Opening(_) => self.settle(out),
            State::New | State::Failed => {}
        }
    }

    /// Does what the device or somebody waits for, until there is no more of it.
    fn hurry(&mut self, out: &mut Vec<StoreOut>) {
        loop {
            let admitted = self.admit(out);
            let logged = self.write_log(out);
            let read = self.run_reads(out);
            match admitted {
                Ok(admitted) if admitted || logged || read => {}
                Ok(_) => return self.io.begin_held(self.commit.has_unlogged(), out),
                Err(error) => return self.fail(error, out),
            }
        }
    }

    /// Runs every part until none makes progress.
    fn settle(&mut self, out: &mut Vec<StoreOut>) {
        // While it opens, nobody waits for anything but the end of that.
        self.effort = if matches!(self.state, State::Open) { 0 } else { usize::MAX };
        if self.may_log && self.effort == 0 {
            let submitted = self.commit.mark();
            let before = std::mem::replace(&mut self.worked_for, submitted);
            self.effort = self.checkpoint_effort(submitted - before);
        }
        loop {
            let progress = match &self.state {
                State::Opening(_) => self.step_open(out),
                State::Open => self.step(out),
                State::New | State::Failed => return,
            };
            match progress {
                Ok(true) => {}
                // Nothing would wake the checkpoint again.
                Ok(false)
                    if self.may_log && self.checkpoint.is_some() && self.effort == 0 && self.io.is_idle() =>
                {
                    self.effort = 1;
                }
                Ok(false) => break,
                Err(error) => return self.fail(error, out),
            }
        }
        self.io.begin_held(self.commit.has_unlogged(), out);
        if self.commit.is_idle() && self.checkpoint.is_none() {
            // Nobody waits.
            self.spent.clear();
            self.release(usize::MAX);
        } else {
            self.forget_spent();
            self.release(RELEASED);
        }
        if !self.needs_many_pages() {
            self.core.cache.trim();
        }
    }

    /// Whether something needs so many pages at once that it would never find them all if the budget were kept.
    fn needs_many_pages(&self) -> bool {
        let many = self.core.cache.limit() / 2;
        self.commit.stops() > many || self.reads.values().any(|read| read.stops() > many)
    }

    fn step(&mut self, out: &mut Vec<StoreOut>) -> Result<bool, StoreError> {
        let mut progress = self.admit(out)?;
        progress |= self.apply_next(out)?;
        progress |= self.write_log(out);
        progress |= self.run_reads(out);
        progress |= self.step_checkpoint(out)?;
        self.write_early(out);
        progress |= self.collect_garbage(out)?;
        self.step_trim(out);
        Ok(progress)
    }

    /// Frees what left the index, once no read of it is under way; at most so many places.
    pub(crate) fn release(&mut self, mut most: usize) {
        while let Some(leaving) = self.leaving.front_mut()
            && self.io.read_until(leaving.mark)
        {
            while most > 0
                && let Some(run) = leaving.runs.pop_front()
            {
                self.core.blocks.remove(run.0, run.1);
                self.core.alloc.free(run);
                leaving.blocks -= run.1;
                most -= 1;
            }
            while most > 0
                && let Some(page) = leaving.pages.pop_front()
            {
                self.core.alloc.free_page(page);
                self.core.cache.remove(page.first);
                self.io.forget(page.first);
                leaving.blocks -= PAGE_BLOCKS;
                most -= 1;
            }
            if most == 0 {
                return;
            }
            self.leaving.pop_front();
        }
    }

    fn forget_spent(&mut self) {
        let Some(changes) = self.spent.front_mut() else { return };
        for _ in 0..SPENT {
            if changes.pop_first().is_none() {
                self.spent.pop_front();
                return;
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
        let promised = self.commit.promised();
        let (pages, blocks) = self.reserve(Class::Grows);
        let kept = promised.blocks + blocks + self.needed_pages(promised.index, pages) * PAGE_BLOCKS;
        let index = alloc.pages() * PAGE_BLOCKS;
        let first = self.sup.first_block();
        Usage {
            total: self.sup.blocks * block,
            available: (alloc.free_blocks() + self.soon_free()).saturating_sub(kept) * block,
            data: self.core.stats.data,
            allocated: self.used_blocks() * block,
            omap: self.core.stats.omap,
            metadata: (index + first) * block,
            objects: self.core.stats.objects,
        }
    }

    /// Blocks that hold data, or did when the last checkpoint was made.
    fn used_blocks(&self) -> u64 {
        let alloc = &self.core.alloc;
        (self.sup.blocks - self.sup.first_block())
            .saturating_sub(alloc.free_blocks() + self.trim.lent_blocks() + alloc.pages() * PAGE_BLOCKS)
    }

    /// Sets what the caches may take ([`Config::cache_bytes`], [`Config::data_cache_bytes`]); what is beyond that is forgotten with the next input.
    pub fn set_caches(&mut self, cache_bytes: usize, data_cache_bytes: usize) {
        self.core.cache.set_budget(cache_bytes);
        self.core.blocks.set_budget(data_cache_bytes);
    }

    /// Memory held as of now.
    pub fn memory(&self) -> Memory {
        let frozen = self.core.frozen.as_ref().map_or(0, |f| f.memory());
        Memory {
            cache: self.core.cache.memory() + self.core.blocks.memory(),
            tables: self.core.active.memory() + frozen,
            pending: self.commit.memory(),
            space_map: self.core.alloc.memory(),
        }
    }
}
