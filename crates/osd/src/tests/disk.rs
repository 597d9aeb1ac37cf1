//! A disk in memory that forgets at a power loss what no flush covered.

use node::{DiskOp, DiskResult};
use std::collections::BTreeMap;
use stdx::{Buf, BufMut};

const SECTOR: usize = 512;

/// Sectors as written and as durable.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    now: BTreeMap<u64, [u8; SECTOR]>,
    durable: BTreeMap<u64, [u8; SECTOR]>,
    dirty: Vec<u64>,
}

impl Disk {
    /// Carries out an operation.
    pub fn run(&mut self, op: DiskOp) -> DiskResult {
        match op {
            DiskOp::Read { offset, len, .. } => {
                let mut out = BufMut::zeroed(len);
                for (i, chunk) in out.as_mut_slice().chunks_mut(SECTOR).enumerate() {
                    if let Some(sector) = self.now.get(&(offset / SECTOR as u64 + i as u64)) {
                        chunk.copy_from_slice(&sector[..chunk.len()]);
                    }
                }
                Ok(out.freeze())
            }
            DiskOp::Write { offset, data, through, .. } => {
                for (i, chunk) in data.to_vec().chunks(SECTOR).enumerate() {
                    let at = offset / SECTOR as u64 + i as u64;
                    self.now.entry(at).or_insert([0; SECTOR])[..chunk.len()].copy_from_slice(chunk);
                    if through {
                        self.durable.insert(at, self.now[&at]);
                    } else {
                        self.dirty.push(at);
                    }
                }
                Ok(Buf::empty())
            }
            DiskOp::Flush { .. } => {
                for at in self.dirty.drain(..) {
                    self.durable.insert(at, self.now[&at]);
                }
                Ok(Buf::empty())
            }
            DiskOp::Discard { .. } => Ok(Buf::empty()),
        }
    }

    /// Changes one bit in each sector that begins with `pattern`. Whether there was one.
    pub fn rot(&mut self, pattern: &[u8]) -> bool {
        let mut found = false;
        for sectors in [&mut self.now, &mut self.durable] {
            for sector in sectors.values_mut().filter(|s| s.starts_with(pattern)) {
                sector[SECTOR - 1] ^= 4;
                found = true;
            }
        }
        found
    }

    /// The machine stops without warning.
    pub fn lose_power(&mut self) {
        self.dirty.clear();
        self.now = self.durable.clone();
    }
}
