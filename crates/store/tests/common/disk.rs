//! A disk in memory: operations end in any order; until a flush, each written sector may be lost. What was
//! discarded reads as anything: old, zeros, or never seen.

use node::{DiskError, DiskOp, DiskOpId, DiskResult};
use std::collections::BTreeMap;
use stdx::{BufMut, Rng};
use wire::Errno;

pub struct SimDisk {
    size: u64,
    sector: usize,
    rng: Rng,
    /// What a power loss leaves.
    durable: BTreeMap<u64, Box<[u8]>>,
    /// Ended but not flushed; by sector, all versions in order.
    cached: BTreeMap<u64, Vec<Box<[u8]>>>,
    under_way: Vec<(DiskOpId, DiskOp)>,
    /// Fails the operation after so many.
    pub fail_after: Option<u64>,
    /// Reads that touch these bytes fail.
    pub unreadable: std::ops::Range<u64>,
    /// Reads of those that fail; then they can be read.
    pub unreadable_times: u32,
    /// Says that it has flushed, and has not.
    pub lies: bool,
    pub reads: u64,
    /// Reads that the host might answer from its memory. Every third of them is unsound.
    pub host_reads: u64,
    pub writes: u64,
    pub flushes: u64,
    pub written_bytes: u64,
    pub discarded_bytes: u64,
    /// Answers discards with an error, and counts them.
    pub refuses_discards: bool,
    pub refused: u64,
}

impl SimDisk {
    pub fn new(size: u64, sector: usize, seed: u64) -> Self {
        Self {
            size,
            sector,
            rng: Rng::from_seed(seed),
            durable: BTreeMap::new(),
            cached: BTreeMap::new(),
            under_way: Vec::new(),
            fail_after: None,
            unreadable: 0..0,
            unreadable_times: u32::MAX,
            lies: false,
            reads: 0,
            host_reads: 0,
            writes: 0,
            flushes: 0,
            written_bytes: 0,
            discarded_bytes: 0,
            refuses_discards: false,
            refused: 0,
        }
    }

    /// A larger device with the same content.
    pub fn grown(self, size: u64) -> Self {
        assert!(size > self.size && self.is_idle(), "grows at rest");
        Self { size, ..self }
    }

    pub fn size(&self) -> u64 {
        self.size
    }

    pub fn sector(&self) -> usize {
        self.sector
    }

    /// The number of operations under way.
    pub fn under_way(&self) -> usize {
        self.under_way.len()
    }

    pub fn is_idle(&self) -> bool {
        self.under_way.is_empty()
    }

    pub fn submit(&mut self, id: DiskOpId, op: DiskOp) {
        let (offset, len) = match &op {
            DiskOp::Read { offset, len, .. } => (*offset, *len as u64),
            DiskOp::Write { offset, data, .. } => (*offset, data.len() as u64),
            DiskOp::Discard { offset, len, .. } => (*offset, *len),
            DiskOp::Flush { .. } => (0, 0),
        };
        assert!(offset % self.sector as u64 == 0 && len % self.sector as u64 == 0, "aligned: {op:?}");
        assert!(offset + len <= self.size, "inside: {op:?}");
        self.check_overlap(&op, offset, len);
        self.reads += u64::from(matches!(op, DiskOp::Read { .. }));
        self.under_way.push((id, op));
    }

    /// Two operations under way may overlap only if both read: else their order would matter.
    fn check_overlap(&self, op: &DiskOp, offset: u64, len: u64) {
        for (_, other) in &self.under_way {
            let (at, n, writes) = match other {
                DiskOp::Read { offset, len, .. } => (*offset, *len as u64, false),
                DiskOp::Write { offset, data, .. } => (*offset, data.len() as u64, true),
                DiskOp::Discard { offset, len, .. } => (*offset, *len, true),
                DiskOp::Flush { .. } => continue,
            };
            let both_read = !writes && matches!(op, DiskOp::Read { .. });
            assert!(both_read || offset + len <= at || at + n <= offset, "{op:?} and {other:?}");
        }
    }

    /// Ends one operation, any.
    pub fn end_one(&mut self) -> Option<(DiskOpId, DiskResult)> {
        if self.under_way.is_empty() {
            return None;
        }
        let i = self.rng.below(self.under_way.len() as u64) as usize;
        let (id, op) = self.under_way.swap_remove(i);
        if let Some(left) = &mut self.fail_after {
            if *left == 0 {
                return Some((id, Err(DiskError { errno: Errno::EIO, what: "a broken disk".to_owned() })));
            }
            *left -= 1;
        }
        if let DiskOp::Read { offset, len, .. } = &op
            && *offset < self.unreadable.end
            && self.unreadable.start < offset + *len as u64
            && self.unreadable_times > 0
        {
            self.unreadable_times -= 1;
            return Some((id, Err(DiskError { errno: Errno::EIO, what: "an unreadable sector".to_owned() })));
        }
        if self.refuses_discards && matches!(op, DiskOp::Discard { .. }) {
            self.refused += 1;
            return Some((id, Err(DiskError { errno: Errno::EOPNOTSUPP, what: "not supported".to_owned() })));
        }
        Some((id, Ok(self.carry_out(op))))
    }

    fn carry_out(&mut self, op: DiskOp) -> stdx::Buf {
        match op {
            DiskOp::Read { offset, len, cached, .. } => {
                let sound = self.peek(offset, len);
                self.host_reads += u64::from(cached);
                if cached && self.host_reads.is_multiple_of(3) && len > 0 {
                    let mut unsound = sound.to_vec();
                    unsound[len / 2] ^= 1;
                    return unsound.into();
                }
                return sound;
            }
            DiskOp::Write { offset, data, through, .. } => {
                self.writes += 1;
                self.written_bytes += data.len() as u64;
                self.flushes += u64::from(through);
                for (i, part) in data.to_buf().chunks(self.sector).enumerate() {
                    let sector = offset / self.sector as u64 + i as u64;
                    if through && !self.lies {
                        self.cached.remove(&sector);
                        self.durable.insert(sector, part.into());
                    } else {
                        self.cached.entry(sector).or_default().push(part.into());
                    }
                }
            }
            DiskOp::Flush { .. } => {
                self.flushes += 1;
                if self.lies {
                    return stdx::Buf::empty();
                }
                for (sector, mut versions) in std::mem::take(&mut self.cached) {
                    self.durable.insert(sector, versions.pop().expect("at least one"));
                }
            }
            DiskOp::Discard { offset, len, .. } => {
                self.discarded_bytes += len;
                let (first, sector) = (offset / self.sector as u64, self.sector);
                for i in first..first + len / sector as u64 {
                    let content = match self.rng.below(3) {
                        0 => continue,
                        1 => vec![0; sector],
                        _ => stdx::Buf::pattern(self.rng.u64(), sector).to_vec(),
                    };
                    self.cached.entry(i).or_default().push(content.into());
                }
            }
        }
        stdx::Buf::empty()
    }

    fn get(&self, sector: u64) -> Option<&[u8]> {
        let cached = self.cached.get(&sector).and_then(|v| v.last());
        cached.or_else(|| self.durable.get(&sector)).map(|b| &b[..])
    }

    /// The power fails: of what was not flushed, each sector is old or new on its own, also of writes under
    /// way.
    pub fn lose_power(&mut self, seed: u64) {
        self.rng = Rng::from_seed(seed);
        let keep = self.rng.below(5);
        self.carry_out_some();
        for (sector, versions) in std::mem::take(&mut self.cached) {
            if self.rng.below(4) < keep {
                let version = self.rng.below(versions.len() as u64) as usize;
                self.durable.insert(sector, versions.into_iter().nth(version).expect("chosen"));
            }
        }
    }

    /// The process dies, the system lives: what was sent may still be carried out.
    pub fn kill(&mut self, seed: u64) {
        self.rng = Rng::from_seed(seed);
        self.carry_out_some();
    }

    /// Writes under way reach the cache of the disk or do not; that they were to be durable matters only when
    /// they end.
    fn carry_out_some(&mut self) {
        for (_, op) in std::mem::take(&mut self.under_way) {
            if !self.rng.chance(1, 2) {
                continue;
            }
            match op {
                DiskOp::Write { disk, offset, data, .. } => {
                    self.carry_out(DiskOp::Write { disk, offset, data, through: false });
                }
                DiskOp::Discard { .. } => drop(self.carry_out(op)),
                DiskOp::Read { .. } | DiskOp::Flush { .. } => {}
            }
        }
    }

    /// Puts durable bytes at `offset`.
    pub fn fill(&mut self, offset: u64, bytes: stdx::Buf) {
        for (i, part) in bytes.chunks(self.sector).enumerate() {
            self.durable.insert(offset / self.sector as u64 + i as u64, part.into());
        }
    }

    /// The bytes at `offset` as they are now.
    pub fn peek(&self, offset: u64, len: usize) -> stdx::Buf {
        let mut buf = BufMut::zeroed(len);
        for (i, part) in buf.as_mut_slice().chunks_mut(self.sector).enumerate() {
            if let Some(bytes) = self.get(offset / self.sector as u64 + i as u64) {
                part.copy_from_slice(&bytes[..part.len()]);
            }
        }
        buf.freeze()
    }

    /// Sectors that were ever written.
    pub fn sectors(&self) -> Vec<u64> {
        assert!(self.cached.is_empty() && self.is_idle(), "only at rest");
        self.durable.keys().copied().collect()
    }

    /// Changes bits of the byte at `offset`; gives what it was.
    pub fn flip(&mut self, offset: u64, bits: u8) {
        let sector = self.durable.get_mut(&(offset / self.sector as u64)).expect("a written sector");
        sector[(offset % self.sector as u64) as usize] ^= bits;
    }

    /// Puts something else into a sector; gives what was there.
    pub fn replace(&mut self, sector: u64, bytes: Box<[u8]>) -> Box<[u8]> {
        std::mem::replace(self.durable.get_mut(&sector).expect("a written sector"), bytes)
    }

    pub fn copy(&self) -> Self {
        assert!(self.is_idle(), "only at rest");
        Self {
            rng: self.rng.clone(),
            unreadable: self.unreadable.clone(),
            unreadable_times: self.unreadable_times,
            durable: self.durable.clone(),
            cached: self.cached.clone(),
            under_way: Vec::new(),
            ..*self
        }
    }
}
