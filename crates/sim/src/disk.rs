//! A simulated disk that keeps only what `node::DiskOp` promises: writes complete in any order, a flush
//! covers the writes that had completed before it was issued, and a power loss keeps, loses or tears
//! everything else, sector by sector.

use node::{DiskError, DiskOp, DiskOpId, DiskResult};
use std::collections::{BTreeMap, BTreeSet};
use stdx::{BufMut, Bufs, Rng};
use wire::Errno;

/// Size of a sector in bytes: a power loss leaves each sector either old or new.
pub const SECTOR: u64 = 512;

/// The way in which the machine under a disk stops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Crash {
    /// `kill -9`: completed operations stay; each sector of a write in flight is written or not.
    Process,
    /// Power loss: each sector that no flush covers is kept or lost on its own.
    Power,
}

/// The way in which a block rots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decay {
    /// A bit flips.
    Flipped,
    /// The block is unreadable until it is written again.
    Unreadable,
}

/// A sparse disk.
#[derive(Debug, Default)]
pub struct SimDisk {
    /// Size in bytes.
    pub size: u64,
    /// Content as of the last flush, by sector number; absent sectors are zeros.
    durable: BTreeMap<u64, Sector>,
    /// Versions that no flush covers yet, by sector number, oldest first, each with its number in the order
    /// of completed writes. A power loss may leave any of them.
    volatile: BTreeMap<u64, Vec<(u64, Sector)>>,
    /// Issued operations that have not completed, in order of issue.
    in_flight: BTreeMap<DiskOpId, InFlight>,
    /// Counts completed writes; a flush covers those up to its issue.
    ended: u64,
    /// True if flushes lie: they complete without making anything durable.
    pub lying: bool,
    /// One in this many operations fails with EIO; 0 for none. Each sector of a failed write is written or
    /// not.
    pub fails_every: u64,
    /// Counts completed operations, for [`Self::fails_every`].
    operations: u64,
    /// Operations that failed for that reason.
    pub refused: u64,
    /// Sectors that are unreadable until they are written again.
    unreadable: BTreeSet<u64>,
}

type Sector = std::sync::Arc<[u8; SECTOR as usize]>;

#[derive(Debug)]
struct InFlight {
    op: DiskOp,
    /// Completed writes at the time of issue.
    issued_at: u64,
}

impl SimDisk {
    /// A disk of `size` zero bytes.
    pub fn new(size: u64) -> Self {
        assert!(size.is_multiple_of(4096), "whole 4 KiB blocks");
        Self { size, ..Self::default() }
    }

    /// Reports whether a write or discard is in flight.
    pub fn is_busy(&self) -> bool {
        self.in_flight.values().any(|f| !matches!(f.op, DiskOp::Read { .. }))
    }

    /// Issues an operation; [`Self::end`] carries it out.
    pub fn issue(&mut self, id: DiskOpId, op: DiskOp) {
        let (offset, len) = match &op {
            DiskOp::Read { offset, len, .. } => (*offset, *len as u64),
            DiskOp::Write { offset, data, .. } => (*offset, data.len() as u64),
            DiskOp::Flush { .. } => (0, 0),
            DiskOp::Discard { offset, len, .. } => (*offset, *len),
        };
        assert!(offset.is_multiple_of(SECTOR) && len.is_multiple_of(SECTOR), "unaligned: {op:?}");
        assert!(offset + len <= self.size, "beyond the end of {} bytes: {op:?}", self.size);
        let old = self.in_flight.insert(id, InFlight { op, issued_at: self.ended });
        assert!(old.is_none(), "{id} issued twice");
    }

    /// Completes an operation.
    pub fn end(&mut self, id: DiskOpId) -> DiskResult {
        let InFlight { op, issued_at } = self.in_flight.remove(&id).expect("an operation in flight");
        self.operations += 1;
        if self.fails_every > 0 && self.operations.is_multiple_of(self.fails_every) {
            self.refused += 1;
            return Err(self.fail(op));
        }
        match op {
            DiskOp::Read { offset, len, .. } => {
                let range = offset / SECTOR..(offset + len as u64) / SECTOR;
                match self.unreadable.range(range).next() {
                    Some(sector) => Err(error(&format!("read of sector {sector}"))),
                    None => Ok(self.read(offset, len)),
                }
            }
            DiskOp::Write { offset, data, through, .. } => {
                self.ended += 1;
                for (sector, content) in sectors(offset, &data) {
                    self.unreadable.remove(&sector);
                    if through && !self.lying {
                        self.volatile.remove(&sector);
                        self.durable.insert(sector, content);
                    } else {
                        self.volatile.entry(sector).or_default().push((self.ended, content));
                    }
                }
                Ok(stdx::Buf::empty())
            }
            DiskOp::Flush { .. } => {
                if !self.lying {
                    self.harden(issued_at);
                }
                Ok(stdx::Buf::empty())
            }
            DiskOp::Discard { offset, len, .. } => {
                self.ended += 1;
                for sector in offset / SECTOR..(offset + len) / SECTOR {
                    // Old content, zeros, or bytes that nobody wrote.
                    let content = match sector % 3 {
                        0 => continue,
                        1 => [0; SECTOR as usize],
                        _ => [self.ended as u8 | 1; SECTOR as usize],
                    };
                    self.volatile.entry(sector).or_default().push((self.ended, content.into()));
                }
                Ok(stdx::Buf::empty())
            }
        }
    }

    /// Fails an operation; every other sector of a write is written all the same.
    fn fail(&mut self, op: DiskOp) -> DiskError {
        if let DiskOp::Write { offset, data, .. } = &op {
            self.ended += 1;
            for (sector, content) in sectors(*offset, data).step_by(2) {
                self.volatile.entry(sector).or_default().push((self.ended, content));
            }
        }
        error(name(&op))
    }

    /// Makes durable, of each sector, the last version among the first `until` completed writes.
    fn harden(&mut self, until: u64) {
        let durable = &mut self.durable;
        self.volatile.retain(|sector, versions| {
            let covered = versions.iter().take_while(|(at, _)| *at <= until).count();
            if let Some((_, content)) = versions.drain(..covered).next_back() {
                durable.insert(*sector, content);
            }
            !versions.is_empty()
        });
    }

    /// The bytes that a read would return now.
    pub fn read(&self, offset: u64, len: usize) -> stdx::Buf {
        let mut out = BufMut::zeroed(len);
        for (i, chunk) in out.as_mut_slice().chunks_mut(SECTOR as usize).enumerate() {
            let sector = offset / SECTOR + i as u64;
            let newest =
                self.volatile.get(&sector).and_then(|versions| versions.last()).map(|(_, content)| content);
            if let Some(content) = newest.or_else(|| self.durable.get(&sector)) {
                chunk.copy_from_slice(&content[..]);
            }
        }
        out.freeze()
    }

    /// Stops the machine. Each sector that was in flight or, on a power loss, volatile is kept or lost.
    pub fn crash(&mut self, how: Crash, rng: &mut Rng) {
        // Each disk draws the share of unsynced sectors that survives: all, none and anything between must
        // occur.
        let keep_of_8 = rng.below(9);
        for (sector, mut versions) in std::mem::take(&mut self.volatile) {
            let survivor = match how {
                Crash::Process => versions.pop(),
                Crash::Power if rng.chance(keep_of_8, 8) => Some(rng.pick(&versions).clone()),
                Crash::Power => None,
            };
            if let Some((_, content)) = survivor {
                self.durable.insert(sector, content);
            }
        }
        for (_, InFlight { op, .. }) in std::mem::take(&mut self.in_flight) {
            if let DiskOp::Write { offset, data, .. } = op {
                for (sector, content) in sectors(offset, &data) {
                    if rng.chance(keep_of_8, 8) {
                        self.durable.insert(sector, content);
                    }
                }
            }
        }
    }

    /// A copy of its current content, with nothing in flight.
    pub fn image(&self) -> Self {
        let mut durable = self.durable.clone();
        let newest =
            |(sector, versions): (&u64, &Vec<(u64, Sector)>)| Some((*sector, versions.last()?.1.clone()));
        durable.extend(self.volatile.iter().filter_map(newest));
        Self { size: self.size, durable, ..Self::default() }
    }

    /// A copy of the content that a power loss now would leave in the worst case.
    pub fn durable_image(&self) -> Self {
        Self { size: self.size, durable: self.durable.clone(), ..Self::default() }
    }

    /// Lets each 4 KiB block with this content rot. Returns the number of such blocks.
    pub fn decay(&mut self, content: &[u8], how: Decay) -> usize {
        const SECTORS: u64 = 4096 / SECTOR;
        let blocks: std::collections::BTreeSet<u64> =
            self.durable.keys().chain(self.volatile.keys()).map(|sector| sector / SECTORS).collect();
        let mut found = 0;
        for block in blocks {
            if self.read(block * 4096, 4096)[..] != *content {
                continue;
            }
            found += 1;
            if how == Decay::Unreadable {
                self.unreadable.insert(block * SECTORS);
                continue;
            }
            let mut sector = [0; SECTOR as usize];
            sector.copy_from_slice(&content[..SECTOR as usize]);
            sector[7] ^= 1;
            self.volatile.remove(&(block * SECTORS));
            self.durable.insert(block * SECTORS, sector.into());
        }
        found
    }

    /// Bytes that were written, zeros included.
    pub fn written_bytes(&self) -> u64 {
        (self.durable.len() + self.volatile.len()) as u64 * SECTOR
    }
}

fn error(what: &str) -> DiskError {
    DiskError { errno: Errno::EIO, what: format!("simulated disk: {what}") }
}

fn sectors(offset: u64, data: &Bufs) -> impl Iterator<Item = (u64, Sector)> {
    let whole = data.to_buf();
    (0..whole.len() as u64 / SECTOR).map(move |i| {
        let start = (i * SECTOR) as usize;
        let mut content = [0; SECTOR as usize];
        content.copy_from_slice(&whole[start..start + SECTOR as usize]);
        (offset / SECTOR + i, content.into())
    })
}

fn name(op: &DiskOp) -> &'static str {
    match op {
        DiskOp::Read { .. } => "read",
        DiskOp::Write { .. } => "write",
        DiskOp::Flush { .. } => "flush",
        DiskOp::Discard { .. } => "discard",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use node::DiskId;
    use stdx::Buf;

    const DISK: DiskId = DiskId(0);

    fn write(disk: &mut SimDisk, id: u64, offset: u64, byte: u8) {
        disk.issue(
            DiskOpId(id),
            DiskOp::Write { disk: DISK, offset, data: vec![byte; 4096].into(), through: false },
        );
    }

    fn read(disk: &mut SimDisk, offset: u64) -> Buf {
        disk.issue(DiskOpId(999), DiskOp::Read { disk: DISK, offset, len: 4096, cached: false });
        disk.end(DiskOpId(999)).expect("reads work")
    }

    #[test]
    fn a_flush_covers_only_writes_that_ended_before_it_was_issued() {
        let mut survivals = [0, 0];
        for seed in 0..64 {
            let mut disk = SimDisk::new(1 << 20);
            write(&mut disk, 1, 0, 1);
            disk.end(DiskOpId(1)).expect("written");
            disk.issue(DiskOpId(2), DiskOp::Flush { disk: DISK });
            write(&mut disk, 3, 4096, 2);
            disk.end(DiskOpId(3)).expect("written");
            disk.end(DiskOpId(2)).expect("flushed");
            disk.crash(Crash::Power, &mut Rng::from_seed(seed));
            assert_eq!(read(&mut disk, 0)[..], [1; 4096], "flushed data survives");
            let second = read(&mut disk, 4096);
            survivals[0] += usize::from(second.iter().all(|b| *b == 2));
            survivals[1] += usize::from(second.iter().all(|b| *b == 0));
        }
        assert!(survivals.iter().all(|n| *n > 0), "unflushed data is kept and lost: {survivals:?}");
    }

    #[test]
    fn overwriting_during_a_flush_does_not_undo_what_it_covers() {
        for seed in 0..64 {
            let mut disk = SimDisk::new(1 << 20);
            write(&mut disk, 1, 0, 1);
            disk.end(DiskOpId(1)).expect("written");
            disk.issue(DiskOpId(2), DiskOp::Flush { disk: DISK });
            write(&mut disk, 3, 0, 2);
            disk.end(DiskOpId(3)).expect("written");
            disk.end(DiskOpId(2)).expect("flushed");
            disk.crash(Crash::Power, &mut Rng::from_seed(seed));
            assert!(read(&mut disk, 0).iter().all(|b| *b == 1 || *b == 2), "never what was there before");
        }
    }

    #[test]
    fn what_decays_is_wrong_or_refused_until_it_is_written_again() {
        for how in [Decay::Flipped, Decay::Unreadable] {
            let mut disk = SimDisk::new(1 << 20);
            write(&mut disk, 1, 4096, 7);
            disk.end(DiskOpId(1)).expect("written");
            assert_eq!(disk.decay(&[7; 4096], how), 1);
            disk.issue(DiskOpId(2), DiskOp::Read { disk: DISK, offset: 0, len: 8192, cached: false });
            match disk.end(DiskOpId(2)) {
                Ok(read) => assert!(how == Decay::Flipped && read[4096..] != [7; 4096]),
                Err(error) => assert!(how == Decay::Unreadable && error.errno == Errno::EIO),
            }
            write(&mut disk, 3, 4096, 8);
            disk.end(DiskOpId(3)).expect("written");
            assert_eq!(read(&mut disk, 4096)[..], [8; 4096]);
        }
    }

    #[test]
    fn one_operation_in_so_many_fails() {
        let mut disk = SimDisk::new(1 << 20);
        disk.fails_every = 3;
        let failed = (1..=9).filter(|id| {
            write(&mut disk, *id, 0, 1);
            disk.end(DiskOpId(*id)).is_err()
        });
        assert_eq!(failed.collect::<Vec<_>>(), [3, 6, 9]);
    }

    #[test]
    fn a_killed_process_keeps_what_has_ended() {
        let mut disk = SimDisk::new(1 << 20);
        write(&mut disk, 1, 0, 7);
        disk.end(DiskOpId(1)).expect("written");
        disk.crash(Crash::Process, &mut Rng::from_seed(1));
        assert_eq!(read(&mut disk, 0)[..], [7; 4096]);
    }
}
