//! A bucket's choice of one of its items, by algorithm.

use crate::hash::{hash32_3, hash32_4};
use crate::straw2::straw2;
use crate::types::{Bucket, BucketData, ChooseArg};

/// The item of `bucket`, which must not be empty, for input `x` and attempt `r`. `arg` and `position` choose
/// the weight set.
pub fn choose(bucket: &Bucket, x: u32, r: u32, arg: Option<&ChooseArg>, position: usize) -> i32 {
    let index = match &bucket.data {
        BucketData::Uniform { .. } => permutation(bucket, x, r),
        BucketData::List { item_weights, sum_weights } => list(bucket, item_weights, sum_weights, x, r),
        BucketData::Tree { node_weights } => tree(bucket, node_weights, x, r),
        BucketData::Straw { straws, .. } => straw(bucket, straws, x, r),
        BucketData::Straw2 { item_weights } => straw2(bucket, item_weights, x, r, arg, position),
    };
    bucket.items[index.min(bucket.items.len() - 1)]
}

/// The item at place `r` of a permutation that `x` decides.
pub fn perm_choose(bucket: &Bucket, x: u32, r: u32) -> i32 {
    bucket.items[permutation(bucket, x, r)]
}

fn permutation(bucket: &Bucket, x: u32, r: u32) -> usize {
    let size = bucket.items.len();
    let place = r as usize % size;
    let offset = |p: usize| hash32_3(x, bucket.id as u32, p as u32) as usize % (size - p);
    if place == 0 {
        return offset(0);
    }
    let mut perm: Vec<usize> = (0..size).collect();
    // A swap of the last place with itself would change nothing.
    for p in 0..=place.min(size.saturating_sub(2)) {
        perm.swap(p, p + offset(p));
    }
    perm[place]
}

fn list(bucket: &Bucket, weights: &[u32], sums: &[u32], x: u32, r: u32) -> usize {
    for i in (0..bucket.items.len()).rev() {
        let draw = u64::from(hash32_4(x, bucket.items[i] as u32, r, bucket.id as u32) & 0xffff);
        if (draw * u64::from(sums[i])) >> 16 < u64::from(weights[i]) {
            return i;
        }
    }
    0
}

/// Node numbers: leaves are odd, a node with h trailing zero bits has its children 2^(h-1) to either side.
fn tree(bucket: &Bucket, weights: &[u32], x: u32, r: u32) -> usize {
    let mut n = weights.len() >> 1;
    while n & 1 == 0 && n != 0 {
        let at = (u64::from(hash32_4(x, n as u32, r, bucket.id as u32)) * u64::from(weights[n])) >> 32;
        let half = 1 << (n.trailing_zeros() - 1);
        n = if at < u64::from(weights[n - half]) { n - half } else { n + half };
        if n >= weights.len() {
            break; // a tree that no tool builds
        }
    }
    n >> 1
}

fn straw(bucket: &Bucket, straws: &[u32], x: u32, r: u32) -> usize {
    let draw = |i: usize| u64::from(hash32_3(x, bucket.items[i] as u32, r) & 0xffff) * u64::from(straws[i]);
    highest(bucket.items.len(), draw)
}

/// The index of the first highest draw.
fn highest<T: PartialOrd>(n: usize, draw: impl Fn(usize) -> T) -> usize {
    let mut high = (0, draw(0));
    for i in 1..n {
        let d = draw(i);
        if d > high.1 {
            high = (i, d);
        }
    }
    high.0
}
