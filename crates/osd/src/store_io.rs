//! The store, and the owners of its pending operations.

use crate::completion::{CommitFor, ReadFor};
use crate::config::OsdOptions;
use crate::disk_health::{Commits, DiskHealth};
use decl::Mean;
use node::{DiskInfo, DiskOpId, DiskResult};
use std::collections::VecDeque;
use stdx::{FastMap, Instant, Now, Rng};
use store::{
    Config, LogSpace, Lookups, MkfsInfo, Read, ReadClass, ReadId, Refusal, Store, StoreOut, Transaction,
    TxnId, Usage,
};

/// The store with the owners of its reads and transactions.
pub struct StoreIo {
    store: Store,
    /// Unprocessed store events. A call may complete synchronously and push here before it returns.
    events: Vec<StoreOut>,
    reads: FastMap<ReadId, ReadFor>,
    /// Transactions in flight with their submission times.
    commits: VecDeque<(TxnId, Instant, CommitFor)>,
    /// Latency and errors of the device.
    health: DiskHealth,
    /// Time until transactions were durable, since the start.
    commit_time: Mean,
    /// Number of damaged objects of ours that were replaced by copies of others.
    repaired: u32,
}

impl std::fmt::Debug for StoreIo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StoreIo({} reads, {} commits)", self.reads.len(), self.commits.len())
    }
}

impl StoreIo {
    /// Creates a store that is not open.
    pub fn new(options: &OsdOptions, disk: DiskInfo, rng: Rng) -> Self {
        let config = Config {
            cache_bytes: options.store_cache as usize,
            data_cache_bytes: options.data_cache as usize,
            host_cache: options.host_cache,
            batched: true,
            ..Config::default()
        };
        let store = Store::new(config, disk, rng);
        let (reads, commits) = (FastMap::default(), VecDeque::new());
        let (health, commit_time) = (DiskHealth::default(), Mean::default());
        Self { store, events: Vec::new(), reads, commits, health, commit_time, repaired: 0 }
    }

    /// Sets the sizes of the store's caches.
    pub fn set_caches(&mut self, options: &OsdOptions) {
        self.store.set_caches(options.store_cache as usize, options.data_cache as usize);
        self.store.set_host_cache(options.host_cache);
    }

    /// Opens the store, or formats a blank device.
    pub fn open(&mut self, mkfs: MkfsInfo) {
        self.store.open(Some(mkfs), &mut self.events);
    }

    /// True if the store is open.
    pub fn is_open(&self) -> bool {
        self.store.is_open()
    }

    /// Shuts the store down; nothing may be submitted afterwards.
    pub fn close(&mut self) {
        self.store.request_checkpoint(&mut self.events);
    }

    /// True if the store has shut down.
    pub fn is_clean(&self) -> bool {
        self.store.is_clean()
    }

    /// Identity of the store.
    pub fn identity(&self) -> store::Identity {
        self.store.identity()
    }

    /// Handles a completed disk operation.
    pub fn disk_done(&mut self, id: DiskOpId, result: DiskResult) {
        if result.is_err() {
            self.health.refused();
        }
        self.store.disk_done(id, result, &mut self.events);
    }

    /// Ends a batch of inputs.
    pub fn batch_ended(&mut self) {
        self.store.batch_ended(&mut self.events);
    }

    /// The reason why the store would refuse a transaction that also sets an omap entry of `beside` bytes and
    /// must leave `left` bytes free.
    pub fn would_refuse(&self, txn: &Transaction, beside: usize, left: u64) -> Option<Refusal> {
        self.store.fits_beside(txn, beside as u64, left).err()
    }

    /// Submits a transaction.
    pub fn submit(&mut self, now: Now, txn: Transaction, then: CommitFor) -> Result<(), Refusal> {
        let id = self.store.submit_if_fits(txn, &mut self.events)?;
        self.commits.push_back((id, now.mono, then));
        Ok(())
    }

    /// Starts a read.
    pub fn read(&mut self, read: Read, then: ReadFor) {
        let id = self.store.read_as(class_of(&then), read, &mut self.events);
        self.reads.insert(id, then);
    }

    /// Takes the events that the store has emitted.
    pub fn take_events(&mut self) -> Vec<StoreOut> {
        std::mem::take(&mut self.events)
    }

    /// Takes the owner of a read.
    pub fn reader(&mut self, id: ReadId) -> Option<ReadFor> {
        self.reads.remove(&id)
    }

    /// Takes the owners of transactions up to `id`.
    pub fn committed(&mut self, now: Now, id: TxnId) -> Vec<CommitFor> {
        let n = self.commits.partition_point(|(txn, ..)| *txn <= id);
        let (health, commit_time) = (&mut self.health, &mut self.commit_time);
        let done = self.commits.drain(..n);
        done.map(|(_, since, then)| {
            let took = now.mono.since(since);
            health.committed(took);
            commit_time.add(took);
            then
        })
        .collect()
    }

    /// Commit times of recent transactions.
    pub fn commits(&mut self, now: Now) -> Commits {
        let oldest = self.commits.front().map(|(_, since, _)| now.mono.since(*since));
        self.health.report(now.mono, oldest)
    }

    /// Transactions since the start, and the time until they were durable.
    pub fn commit_time(&self) -> Mean {
        self.commit_time
    }

    /// Lookups of objects since the start.
    pub fn lookups(&self) -> Lookups {
        self.store.lookups()
    }

    /// The space of the store's log.
    pub fn log_space(&self) -> LogSpace {
        self.store.log_space()
    }

    /// Reads that the device has refused since the start.
    pub fn device_errors(&self) -> u32 {
        self.health.errors()
    }

    /// Those of the last minutes.
    pub fn device_errors_lately(&mut self, now: Instant) -> u32 {
        self.health.errors_lately(now)
    }

    /// Number of damaged objects of ours that were replaced by copies of others.
    pub fn repaired(&self) -> u32 {
        self.repaired
    }

    /// Counts a replaced object.
    pub fn object_repaired(&mut self) {
        self.repaired += 1;
    }

    /// Sets that number, for an administrator.
    pub fn set_repaired(&mut self, count: u32) {
        self.repaired = count;
    }

    /// Space of the store.
    pub fn usage(&self) -> Usage {
        self.store.usage()
    }
}

/// Priority class of a read.
fn class_of(then: &ReadFor) -> ReadClass {
    match then {
        ReadFor::Part { .. } | ReadFor::Scan { .. } | ReadFor::ScanVersion { .. } => ReadClass::Recovery,
        ReadFor::Scrub { .. } => ReadClass::Scrub,
        ReadFor::SnapIndex { .. } | ReadFor::Removal { .. } | ReadFor::Temps => ReadClass::Background,
        ReadFor::Op { .. }
        | ReadFor::List { .. }
        | ReadFor::ListedHead { .. }
        | ReadFor::Reverted { .. }
        | ReadFor::Superblock
        | ReadFor::Map(_)
        | ReadFor::Pgs
        | ReadFor::PgMeta(_) => ReadClass::Client,
    }
}
