//! Straw2 (docs/protocol.md 4.4): each item draws a straw of length `shortfall(hash) / weight`, rounded down,
//! and the first of the shortest wins.
//!
//! Ceph states the same choice the other way round: the largest of `ln(u) / weight` wins, where `u` is the
//! hash scaled to 0..1. `ln(u)` is negative, and `shortfall` is its negative in fixed point, so its largest
//! quotient is the shortest straw here.
//!
//! Nearly all the time of a mapping is spent here, so the lengths are first compared in floating point,
//! several at once; the exact division decides only between the few that are too close.

use crate::hash::hash32_3;
use crate::ln::{SHORTFALL, shortfall};
use crate::types::{Bucket, ChooseArg};

/// Items compared at once.
const BLOCK: usize = 64;
/// More than the relative error of a length in `f32`: three roundings of 2^-24 each.
const MARGIN: f32 = 1.0 + 1e-6;

/// The index of the item that a straw2 bucket with weights `own` chooses. `arg` and `position` select the
/// weight set.
pub fn straw2(
    bucket: &Bucket,
    own: &[u32],
    x: u32,
    r: u32,
    arg: Option<&ChooseArg>,
    position: usize,
) -> usize {
    let set = arg.and_then(|arg| arg.weight_set.get(position).or(arg.weight_set.last()));
    let weights = set.map_or(own, Vec::as_slice);
    let ids = arg.map(|arg| &arg.ids).filter(|ids| !ids.is_empty()).unwrap_or(&bucket.items);
    let mut best = Straw { length: u64::MAX, index: 0 };
    for (at, (ids, weights)) in (0..).step_by(BLOCK).zip(ids.chunks(BLOCK).zip(weights.chunks(BLOCK))) {
        best = shortest(x, r, ids, weights, at, best);
    }
    best.index
}

/// The straw of an item.
#[derive(Clone, Copy)]
struct Straw {
    length: u64,
    index: usize,
}

/// The shortest straw of a block of items, of which the first has index `first`, and of those before.
fn shortest(x: u32, r: u32, ids: &[i32], weights: &[u32], first: usize, mut best: Straw) -> Straw {
    let n = ids.len().min(weights.len());
    let mut block = Block::new(&ids[..n], &weights[..n]);
    let least = block.draw(x, r);
    // The shortest of the block is below this, and whatever is a whole unit above cannot be as short.
    let mut limit = least * MARGIN + 1.0;
    if best.length != u64::MAX {
        limit = limit.min(best.length as f32 * MARGIN);
    }
    let draws = block.lengths.iter().zip(&block.hashes).zip(&weights[..n]);
    for (i, ((about, hash), weight)) in draws.enumerate() {
        if *about <= limit && *weight != 0 {
            let length = shortfall(*hash) / u64::from(*weight);
            if length < best.length {
                best = Straw { length, index: first + i };
            }
        }
    }
    best
}

/// Space for the draws of a block, padded to whole vectors with items of weight 0.
struct Block {
    n: usize,
    hashes: [u32; BLOCK],
    lengths: [f32; BLOCK],
}

impl Block {
    fn new(ids: &[i32], weights: &[u32]) -> Self {
        let mut block = Self { n: ids.len().next_multiple_of(8), hashes: [0; BLOCK], lengths: [0.0; BLOCK] };
        for (to, id) in block.hashes.iter_mut().zip(ids) {
            *to = *id as u32;
        }
        for (to, weight) in block.lengths.iter_mut().zip(weights) {
            *to = *weight as f32;
        }
        block
    }

    /// Replaces ids by draws and weights by approximate lengths. Returns the least length.
    fn draw(&mut self, x: u32, r: u32) -> f32 {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has what the function is compiled for.
            return unsafe { self.draw_avx2(x, r) };
        }
        self.draw_here(x, r)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn draw_avx2(&mut self, x: u32, r: u32) -> f32 {
        self.draw_here(x, r)
    }

    #[inline(always)]
    fn draw_here(&mut self, x: u32, r: u32) -> f32 {
        let (hashes, lengths) = (&mut self.hashes[..self.n], &mut self.lengths[..self.n]);
        for id in hashes.iter_mut() {
            *id = hash32_3(x, *id, r) & 0xffff;
        }
        let mut least = f32::INFINITY;
        for (length, hash) in lengths.iter_mut().zip(hashes) {
            // Without weight this is infinite.
            *length = SHORTFALL[*hash as usize] / *length;
            least = if *length < least { *length } else { least };
        }
        least
    }
}
