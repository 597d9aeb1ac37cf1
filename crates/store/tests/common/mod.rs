//! A disk that loses, keeps and tears what was not flushed; a store on it; and a naive model to compare with.
#![allow(dead_code, reason = "each test file uses a part")]

pub mod disk;
pub mod model;
pub mod work;

use disk::SimDisk;
use node::{DiskId, DiskInfo, DiskOpId};
use stdx::Rng;
use store::{
    Config, MkfsInfo, ObjectKey, Read, ReadClass, ReadId, ReadReply, Store, StoreError, StoreOut,
    Transaction, TxnId,
};
use wire::Uuid;

/// A small store: every limit is reached quickly.
pub fn small() -> Config {
    Config {
        op_base: 1 << 32,
        cache_bytes: 300 << 10,
        data_cache_bytes: 100 << 10,
        host_cache: false,
        table_bytes: 100 << 10,
        log_bytes: Some(512 << 10),
        batched: true,
        direct_bytes: 16 << 10,
        shares: [10, 4, 1, 1],
        discard_after: Some(1),
    }
}

pub fn key(name: &str) -> ObjectKey {
    ObjectKey::head(1, stdx::crc32c::update(!0, name.as_bytes()), b"", b"", name.as_bytes())
}

pub fn txn(ops: Vec<store::TxnOp>) -> Transaction {
    Transaction { ops }
}

pub fn mkfs() -> MkfsInfo {
    MkfsInfo { uuid: Uuid([9; 16]), label: b"osd.7 of a test".to_vec() }
}

/// A store, its disk, and what came of it.
pub struct Bench {
    pub store: Store,
    pub disk: SimDisk,
    pub opened: bool,
    pub failed: Option<StoreError>,
    pub committed: Vec<TxnId>,
    pub replies: Vec<(ReadId, Result<ReadReply, StoreError>)>,
    /// The most memory seen, without the map of blocks.
    pub most_memory: usize,
    out: Vec<StoreOut>,
    /// Reads asked for: their classes take turns.
    asked: usize,
}

impl Bench {
    /// Starts to open; [`Self::run`] goes on.
    pub fn start(disk: SimDisk, config: Config, seed: u64) -> Self {
        let info = DiskInfo { id: DiskId(0), size: disk.size(), sector: disk.sector() as u32 };
        let store = Store::new(config, info, Rng::from_seed(seed));
        let mut bench = Self {
            store,
            disk,
            opened: false,
            failed: None,
            committed: Vec::new(),
            replies: Vec::new(),
            most_memory: 0,
            out: Vec::new(),
            asked: 0,
        };
        let mut out = Vec::new();
        bench.store.open(Some(mkfs()), &mut out);
        bench.take(out);
        bench
    }

    /// An open store.
    pub fn open(disk: SimDisk, config: Config) -> Self {
        let mut bench = Self::start(disk, config, 1);
        bench.run();
        assert!(bench.opened && bench.failed.is_none(), "opens: {:?}", bench.failed);
        bench
    }

    /// A new store on a disk of `mib` MiB.
    pub fn new(mib: u64) -> Self {
        Self::open(SimDisk::new(mib << 20, 512, 1), small())
    }

    /// Ends the process in an orderly way and opens again.
    pub fn reopen(mut self, config: Config) -> Self {
        self.run();
        Self::open(self.disk, config)
    }

    pub fn take(&mut self, outs: Vec<StoreOut>) {
        for out in outs {
            match out {
                StoreOut::Disk(id, op) => self.disk.submit(id, op),
                StoreOut::Opened => self.opened = true,
                StoreOut::Committed(id) => self.committed.push(id),
                StoreOut::Read(id, reply) => self.replies.push((id, reply)),
                StoreOut::Failed(error) => {
                    assert!(self.failed.is_none(), "fails once");
                    self.failed = Some(error);
                }
            }
        }
        let memory = self.store.memory();
        self.most_memory = self.most_memory.max(memory.total() - memory.space_map);
    }

    /// Ends the batch and one disk operation; false if none is under way.
    pub fn step(&mut self) -> bool {
        self.step_batch(1) > 0
    }

    /// Ends the batch and up to `most` disk operations, whose results are the next batch; gives how many.
    pub fn step_batch(&mut self, most: usize) -> usize {
        let mut out = std::mem::take(&mut self.out);
        loop {
            self.store.batch_ended(&mut out);
            if out.is_empty() {
                break;
            }
            self.take(std::mem::take(&mut out));
        }
        let mut ended = 0;
        while ended < most
            && let Some((id, result)) = self.disk.end_one()
        {
            assert!(self.store.owns(id));
            self.store.disk_done(id, result, &mut out);
            assert!(!self.store.owns(id));
            self.take(std::mem::take(&mut out));
            ended += 1;
        }
        ended
    }

    /// Until the disk is idle.
    pub fn run(&mut self) {
        while self.step() {}
    }

    pub fn submit(&mut self, txn: Transaction) -> TxnId {
        let mut out = Vec::new();
        let id = self.store.submit(txn, &mut out);
        self.take(out);
        id
    }

    /// Submits and waits for the commit.
    pub fn commit(&mut self, txn: Transaction) {
        assert_eq!(self.store.fits(&txn), Ok(()));
        let id = self.submit(txn);
        while self.committed.last() != Some(&id) {
            assert!(self.step(), "commits: {:?}", self.failed);
        }
    }

    pub fn ask(&mut self, read: Read) -> ReadId {
        let classes = [ReadClass::Client, ReadClass::Recovery, ReadClass::Scrub, ReadClass::Background];
        self.asked += 1;
        self.ask_as(classes[self.asked % classes.len()], read)
    }

    fn ask_as(&mut self, class: ReadClass, read: Read) -> ReadId {
        let mut out = Vec::new();
        let id = self.store.read_as(class, read, &mut out);
        self.take(out);
        id
    }

    /// The answer to a read that was asked for.
    pub fn answer(&mut self, id: ReadId) -> Result<ReadReply, StoreError> {
        loop {
            if let Some(at) = self.replies.iter().position(|r| r.0 == id) {
                return self.replies.swap_remove(at).1;
            }
            assert!(self.step(), "answers {id}: {:?}", self.failed);
        }
    }

    pub fn read(&mut self, read: Read) -> Result<ReadReply, StoreError> {
        let id = self.ask_as(ReadClass::Client, read);
        self.answer(id)
    }

    /// As [`Self::read`], past the cache.
    pub fn read_device(&mut self, read: Read) -> Result<ReadReply, StoreError> {
        let id = self.ask_as(ReadClass::Scrub, read);
        self.answer(id)
    }

    /// Everything in its place on the device.
    pub fn clean(&mut self) {
        self.run();
        while !self.store.is_clean() {
            let mut out = Vec::new();
            self.store.request_checkpoint(&mut out);
            self.take(out);
            self.run();
            assert!(self.failed.is_none(), "{:?}", self.failed);
        }
    }

    /// What the device holds is sound: everything has as many owners as it should, and every checksum is
    /// right.
    pub fn assert_sound(&self) -> store::Report {
        let mut read = |offset, len| Ok(self.disk.peek(offset, len));
        let report =
            store::inspect(self.disk.size(), store::Depth::Data, &mut read, &mut |_, _| {}).expect("reads");
        assert_eq!(report.damage, Vec::<String>::new());
        report
    }

    /// Everything is in its place, and exactly what is reachable is taken.
    pub fn assert_nothing_leaks(&mut self) {
        self.clean();
        let (report, usage) = (self.assert_sound(), self.store.usage());
        assert_eq!(usage.allocated, report.blocks.0 * 4096, "blocks in use are reachable");
        let pages: u64 = report.pages.iter().sum();
        assert_eq!(
            usage.allocated + report.free * 4096 + pages * 8192,
            usage.total - (usage.metadata - pages * 8192)
        );
    }

    pub fn data(&mut self, name: &str, offset: u64, len: u64) -> Result<Vec<u8>, StoreError> {
        match self.read(object(key(name), vec![(offset, len)]))? {
            ReadReply::Object(Some(view)) => Ok(view.data[0].to_vec()),
            other => panic!("an object, not {other:?}"),
        }
    }
}

/// A read of data alone.
pub fn object(key: ObjectKey, data: Vec<(u64, u64)>) -> Read {
    Read::Object { key, attrs: false, data, omap_header: false, omap_keys: vec![], omap_range: None }
}

/// Nothing is stuck: an id for tests that pretend.
pub fn op_id(n: u64) -> DiskOpId {
    DiskOpId(n)
}

/// How many seeds a test runs: more with `STORE_SEEDS`.
pub fn seeds(default: u64) -> u64 {
    std::env::var("STORE_SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(default)
}

/// The first of them, to go on where another run has ended: `STORE_FIRST_SEED`.
pub fn first_seed() -> u64 {
    std::env::var("STORE_FIRST_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(0)
}
