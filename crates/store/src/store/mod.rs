//! The store itself: one owner, one loop.
//!
//! A transaction passes these stages, each in order of submission: *waiting* until the log has space;
//! *admitted*: it has its number, space in the log, and places for its large writes, which start at once.
//! From there two paths proceed independently: it is *logged* (one record is under way at a time; all that
//! came meanwhile joins the next) and *applied* (planned, then put into the active table). A read waits until
//! the transactions before it that touch its object are applied, not until they are logged; later ones wait
//! until it has looked into the index. So a read sees exactly what was submitted before it.
//!
//! Data of the active table is written early if there is much of it. When the active table or the log has
//! grown enough, the table is frozen, and a checkpoint writes it into a new version of the index.
//!
//! After each input, `run` lets every part work until none makes progress: nothing is left half done between
//! inputs. If the owner says when a batch of inputs ends ([`Config::batched`]), only urgent work is done
//! before that (`hurry`); the record is handed over, and the rest is done while the device is busy.

mod run;
mod space;

use crate::api::{
    LogSpace, Lookups, Read, ReadClass, ReadId, StoreError, StoreOut, Transaction, TxnId, Usage,
};
use crate::apply::Applier;
use crate::checkpoint::Checkpoints;
use crate::commit::Commit;
use crate::config::{Config, Identity, Memory, MkfsInfo, Refusal};
use crate::core::Core;
use crate::io::Io;
use crate::logged::{Class, Cost};
use crate::open::Opening;
use crate::read::Reads;
use crate::superblock::Supers;
use crate::trim::Trim;
use node::{DiskInfo, DiskOpId, DiskResult};
use stdx::{BLOCK, Rng};

enum State {
    /// Not open; the randomness is for opening.
    New(Box<Rng>),
    Opening(Box<Opening>),
    Open,
    Failed,
}

/// The object store over one device.
///
/// Each part owns its state and gets the others that it needs as arguments; this type decides who works when.
pub struct Store {
    config: Config,
    state: State,
    supers: Supers,
    core: Core,
    io: Io,
    commit: Commit,
    applier: Applier,
    checkpoints: Checkpoints,
    reads: Reads,
    trim: Trim,
    /// True if a log record may begin: always, or at the end of a batch.
    may_log: bool,
}

impl Store {
    /// A store that is not open yet.
    pub fn new(config: Config, disk: DiskInfo, rng: Rng) -> Self {
        Self {
            state: State::New(Box::new(rng)),
            supers: Supers::default(),
            core: Core::new(&config),
            io: Io::new(disk, &config),
            commit: Commit::default(),
            applier: Applier::default(),
            checkpoints: Checkpoints::default(),
            reads: Reads::default(),
            trim: Trim::default(),
            may_log: !config.batched,
            config,
        }
    }

    /// Opens the store; makes one on a blank device if `mkfs_if_blank` is given. Ends in [`StoreOut::Opened`]
    /// or [`StoreOut::Failed`]. No other request is allowed before.
    pub fn open(&mut self, mkfs_if_blank: Option<MkfsInfo>, out: &mut Vec<StoreOut>) {
        let State::New(rng) = std::mem::replace(&mut self.state, State::Failed) else {
            panic!("a store is opened once");
        };
        let opening = Opening::begin(mkfs_if_blank, &self.config, *rng, &mut self.io, out);
        self.state = State::Opening(Box::new(opening));
    }

    /// Makes the allocation after the next `count` fail as if the device were full, to test what that leaves
    /// behind.
    pub fn fail_allocation_after(&mut self, count: u64) {
        self.core.fail_allocation_after(count);
    }

    /// True if the store is open.
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Open)
    }

    /// The identity that the store was made with; valid once it is open.
    pub fn identity(&self) -> Identity {
        self.supers.newest().identity()
    }

    /// The size that a transaction may have, in bytes, about; each name and key counts 100 bytes more. A
    /// larger one is [`Refusal::TooLarge`].
    pub fn largest_txn(&self) -> u64 {
        self.largest_record() - self.largest_record() / 16
    }

    /// Checks if a transaction may be submitted now. The owner asks before each [`Self::submit`]: a submitted
    /// transaction is carried out, or the store stops. One that only removes always fits, but may have to
    /// wait.
    pub fn fits(&self, txn: &Transaction) -> Result<(), Refusal> {
        self.check_space(txn, None, 0).map(drop)
    }

    /// The same for a transaction that will also set an omap entry of `bytes` bytes, and must leave space for
    /// `left` bytes of such entries.
    pub fn fits_beside(&self, txn: &Transaction, bytes: u64, left: u64) -> Result<(), Refusal> {
        self.check_space(txn, Some(bytes), left).map(drop)
    }

    /// Submits a transaction that [`Self::fits`]. [`StoreOut::Committed`] follows.
    pub fn submit(&mut self, txn: Transaction, out: &mut Vec<StoreOut>) -> TxnId {
        let cost = self.cost(&txn, None).expect("a transaction that fits() allows");
        self.take(txn, cost, out)
    }

    /// Submits a transaction if it [`Self::fits`].
    pub fn submit_if_fits(&mut self, txn: Transaction, out: &mut Vec<StoreOut>) -> Result<TxnId, Refusal> {
        let cost = self.check_space(&txn, None, 0)?;
        Ok(self.take(txn, cost, out))
    }

    fn take(&mut self, txn: Transaction, cost: Cost, out: &mut Vec<StoreOut>) -> TxnId {
        let id = self.commit.submit(txn, cost, self.config.direct_bytes);
        self.checkpoints.reopen();
        self.work(out);
        id
    }

    /// Ends a batch of inputs ([`Config::batched`]): a log record may begin, and deferred work is done. To be
    /// called again, after its outputs were carried out, until it gives none: the device must not wait for
    /// deferred work.
    pub fn batch_ended(&mut self, out: &mut Vec<StoreOut>) {
        if !self.config.batched || !self.is_open() {
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

    /// Begins a client's read. Its result may come from within this call.
    pub fn read(&mut self, read: Read, out: &mut Vec<StoreOut>) -> ReadId {
        self.read_as(ReadClass::Client, read, out)
    }

    /// Begins a read. Data reads wait for their turn if other classes want the device too
    /// ([`Config::shares`]).
    pub fn read_as(&mut self, class: ReadClass, read: Read, out: &mut Vec<StoreOut>) -> ReadId {
        let mark = self.commit.mark();
        let waits = self.commit.is_pending(mark, read.object());
        let id = self.reads.begin(read, class, mark);
        if waits && self.is_open() {
            self.settle(out);
        } else {
            self.work(out);
        }
        id
    }

    /// Asks for a checkpoint, so that the next start finds a short log. For a clean shutdown;
    /// [`Self::is_clean`] reports when it is done.
    pub fn request_checkpoint(&mut self, out: &mut Vec<StoreOut>) {
        self.checkpoints.close();
        if self.is_open() {
            self.settle(out);
        }
    }

    /// True if everything submitted is in its place on the device, and the superblock says so.
    pub fn is_clean(&self) -> bool {
        let idle = self.commit.is_idle() && self.core.is_active_empty() && !self.checkpoints.is_running();
        idle && self.supers.newest().clean
    }

    /// True if this operation is the store's, so that its result goes to [`Self::disk_done`].
    pub fn owns(&self, id: DiskOpId) -> bool {
        self.io.owns(id)
    }

    /// A disk operation has ended.
    pub fn disk_done(&mut self, id: DiskOpId, result: DiskResult, out: &mut Vec<StoreOut>) {
        let Some(purpose) = self.io.ended(id) else { return };
        if matches!(self.state, State::Failed | State::New(_)) {
            return;
        }
        match self.ended(purpose, result.map_err(StoreError::Io), out) {
            Ok(()) => self.work(out),
            Err(error) => self.fail(error, out),
        }
    }

    /// The present use of space.
    pub fn usage(&self) -> Usage {
        let block = BLOCK as u64;
        let (core, first, stats) = (&self.core, self.supers.newest().first_block(), self.core.stats());
        let free = core.free_blocks() + core.soon_free();
        Usage {
            total: core.device_blocks() * block,
            available: free.saturating_sub(self.reserved_blocks(Cost::default(), Class::Grows, 0)) * block,
            data: stats.data,
            allocated: self.used_blocks() * block,
            omap: stats.omap,
            metadata: (core.index_blocks() + first) * block,
            objects: stats.objects,
        }
    }

    /// Lookups of objects for reads since the start.
    pub fn lookups(&self) -> Lookups {
        self.reads.lookups()
    }

    /// The space of the log.
    pub fn log_space(&self) -> LogSpace {
        let ring = self.commit.ring();
        LogSpace { total: ring.len(), used: ring.used() }
    }

    /// Sets the budgets of the caches ([`Config::cache_bytes`], [`Config::data_cache_bytes`]); the next input
    /// evicts what exceeds them.
    pub fn set_caches(&mut self, cache_bytes: usize, data_cache_bytes: usize) {
        self.core.set_caches(cache_bytes, data_cache_bytes);
    }

    /// Says whether the host's memory is used ([`Config::host_cache`]).
    pub fn set_host_cache(&mut self, used: bool) {
        self.io.set_host_cache(used);
    }

    /// The memory held at present.
    pub fn memory(&self) -> Memory {
        let (cache, tables, space_map) = self.core.memory();
        Memory { cache, tables, pending: self.commit.memory(), space_map }
    }
}
