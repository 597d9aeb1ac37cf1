//! Latencies, counted by size: memory does not grow with their number, and a percentile is off by at most one
//! part in 64.

/// Buckets of each power of two.
const PARTS: u64 = 64;
const PARTS_LOG2: u32 = PARTS.ilog2();
const BUCKETS: usize = (65 - PARTS_LOG2 as usize) * PARTS as usize;

/// Counted latencies in nanoseconds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Histogram {
    counts: Vec<u64>,
    total: u64,
    longest: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], total: 0, longest: 0 }
    }
}

impl Histogram {
    pub(super) fn add(&mut self, nanos: u64) {
        self.counts[bucket(nanos)] += 1;
        self.total += 1;
        self.longest = self.longest.max(nanos);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, more)| *count += more);
        self.total += other.total;
        self.longest = self.longest.max(other.longest);
    }

    pub(super) fn total(&self) -> u64 {
        self.total
    }

    pub(super) fn longest(&self) -> u64 {
        self.longest
    }

    /// The latency that a part of all, such as 0.99, do not exceed; 0 if there are none.
    pub(super) fn percentile(&self, part: f64) -> u64 {
        let rank = ((self.total as f64 * part).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return end(bucket).min(self.longest);
            }
        }
        self.longest
    }
}

fn bucket(nanos: u64) -> usize {
    if nanos < PARTS {
        return nanos as usize;
    }
    let shift = nanos.ilog2() - PARTS_LOG2;
    // The highest bits, of which the first is 1.
    let head = nanos >> shift;
    ((u64::from(shift) + 1) * PARTS + (head - PARTS)) as usize
}

/// The largest latency of a bucket.
fn end(bucket: usize) -> u64 {
    let (row, at) = (bucket as u64 / PARTS, bucket as u64 % PARTS);
    match row.checked_sub(1) {
        None => at,
        Some(shift) => (((u128::from(PARTS + at) + 1) << shift) - 1).min(u128::from(u64::MAX)) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_latency_has_a_bucket_that_is_narrow() {
        for nanos in (0..300).chain([1000, 123_456, 1 << 40, (1 << 40) - 1, u64::MAX - 1, u64::MAX]) {
            let at = bucket(nanos);
            assert!(at < BUCKETS && end(at) >= nanos, "{nanos}");
            assert!(end(at) - nanos <= nanos / PARTS, "{nanos} to {}", end(at));
            assert!(at == 0 || end(at - 1) < nanos, "{nanos}");
        }
    }

    #[test]
    fn percentiles_are_those_of_the_list() {
        let mut all = Histogram::default();
        assert_eq!((all.percentile(0.5), all.total(), all.longest()), (0, 0, 0));
        for part in 0..4 {
            let mut some = Histogram::default();
            (1..=1000).filter(|n| n % 4 == part).for_each(|n| some.add(n * 1000));
            all.merge(&some);
        }
        assert_eq!((all.total(), all.longest()), (1000, 1_000_000));
        for (part, exact) in
            [(0.0, 1000), (0.5, 500_000), (0.99, 990_000), (0.999, 999_000), (1.0, 1_000_000)]
        {
            let found = all.percentile(part);
            assert!(found >= exact && found - exact <= exact / PARTS, "{part}: {found}");
        }
    }
}
