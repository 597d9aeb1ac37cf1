//! A simulated disk that keeps only what it promised (the contract of `node::DiskOp`): writes may end in any order, a flush
//! covers the writes that had ended before it was issued, and a power loss keeps, loses or tears everything else, sector by sector.

use node::{DiskError, DiskOp, DiskOpId, DiskResult};
use std::collections::{BTreeMap, BTreeSet};
use stdx::{BufMut, Bufs, Rng};

/// Bytes that a power loss leaves either old or new.
pub const SECTOR: u64 = 512;

/// How the machine under a disk stops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Crash {
    /// `kill -9`: what has ended stays; each sector of what is in flight happens or does not.
    Process,
    /// Power loss: each sector that no flush covers is kept or lost on its own.
    Power,
}

/// What becomes of a block that decays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decay {
    /// A bit of it turns over.
    Flipped,
    /// It can't be read until it is written again.
    Unreadable,
}

/// A sparse disk.
#[derive(Debug, Default)]
pub struct SimDisk {
    /// Bytes.
    pub size: u64,
    /// Sector number to its content as of the last flush; absent sectors are zeros.
    durable: BTreeMap<u64, Sector>,
    /// Sector number to its versions that no flush covers yet, oldest first, each with its number in the order of
    /// ended writes. Any of them may be what a power loss leaves.
    volatile: BTreeMap<u64, Vec<(u64, Sector)>>,
    /// Operations issued and not ended, in order of issue.
    in_flight: BTreeMap<DiskOpId, InFlight>,
    /// Counts ended writes; a flush covers those up to its issue.
    ended: u64,
    /// Whether flushes lie: they end without making anything durable.
    pub lying: bool,
    /// One operation in so many fails with EIO; 0 for none. A write that failed has happened or not, sector by sector.
    pub fails_every: u64,
    /// Counts operations that ended, for [`Self::fails_every`].
    operations: u64,
    /// How many of them failed for that.
    pub refused: u64,
    /// Sectors that can't be read until they are written again.
    unreadable: BTreeSet<u64>,
}

type Sector = std::sync::Arc<[u8; SECTOR as usize]>;

#[derive(Debug)]
struct InFlight {
    op: DiskOp,
    /// Ended writes when it was issued.
    issued_at: u64,
}

impl SimDisk {
    /// A disk of `size` zero bytes.
    pub fn new(size: u64) -> Self {
        assert!(size.is_multiple_of(4096), "whole 4 KiB blocks");
        Self { size, ..Self::default() }
    }

    /// Whether something that changes it is under way.
    pub fn is_busy(&self) -> bool {
        self.in_flight.values().any(|f| !matches!(f.op, DiskOp::Read { .. }))
    }

    /// Takes an operation; [`Self::end`] carries it out.
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

    /// Ends an operation.
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
                    // Old, zeros, or what nobody has written.
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

    /// An operation fails; of a write every other sector is there all the same.
    fn fail(&mut self, op: DiskOp) -> DiskError {
        if let DiskOp::Write { offset, data, .. } = &op {
            self.ended += 1;
            for (sector, content) in sectors(*offset, data).step_by(2) {
                self.volatile.entry(sector).or_default().push((self.ended, content));
            }
        }
        error(name(&op))
    }

    /// Makes durable, of each sector, the last version that was written by the first `until` ended writes.
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

    /// What a read would give now.
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

    /// The machine stops. Everything that was in flight or (on a power loss) volatile goes sector by sector one way or the other.
    pub fn crash(&mut self, how: Crash, rng: &mut Rng) {
        // Each disk draws how much of the unsynced survives: all, none and anything between must all happen.
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

    /// What is on it now, on a disk of its own: nothing is under way there.
    pub fn image(&self) -> Self {
        let mut durable = self.durable.clone();
        let newest =
            |(sector, versions): (&u64, &Vec<(u64, Sector)>)| Some((*sector, versions.last()?.1.clone()));
        durable.extend(self.volatile.iter().filter_map(newest));
        Self { size: self.size, durable, ..Self::default() }
    }

    /// What a power loss now would leave of it in the worst case, on a disk of its own.
    pub fn durable_image(&self) -> Self {
        Self { size: self.size, durable: self.durable.clone(), ..Self::default() }
    }

    /// Each block of 4 KiB that has this content changes by a bit, or can't be read any more; how many there are.
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

    /// Bytes that are not zeros because they were written.
    pub fn written_bytes(&self) -> u64 {
        (self.durable.len() + self.volatile.len()) as u64 * SECTOR
    }
}

fn error(what: &str) -> DiskError {
    DiskError { errno: 5, what: format!("simulated disk: {what}") }
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
        disk.issue(DiskOpId(999), DiskOp::Read { disk: DISK, offset, len: 4096 });
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
            disk.issue(DiskOpId(2), DiskOp::Read { disk: DISK, offset: 0, len: 8192 });
            match disk.end(DiskOpId(2)) {
                Ok(read) => assert!(how == Decay::Flipped && read[4096..] != [7; 4096]),
                Err(error) => assert!(how == Decay::Unreadable && error.errno == 5),
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
