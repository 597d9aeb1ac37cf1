//! Sets of integers as disjoint ranges: removed snapshots, mostly.

use std::collections::BTreeMap;
use stdx::Rng;
use wire::{Decode, DecodeError, Encode, Reader, Sample, Writer};

/// Disjoint, not adjacent ranges. On the wire a count and pairs of start and length.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct IntervalSet(BTreeMap<u64, u64>);

impl IntervalSet {
    /// The empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// True if it is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The ranges as (start, length), ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter().map(|(start, len)| (*start, *len))
    }

    /// The number of integers in it.
    pub fn size(&self) -> u64 {
        self.0.values().fold(0, |sum, len| sum.saturating_add(*len))
    }

    /// True if `value` is in it.
    pub fn contains(&self, value: u64) -> bool {
        self.0.range(..=value).next_back().is_some_and(|(start, len)| value - start < *len)
    }

    /// Adds `start..start + len`; what is in it already stays.
    pub fn insert(&mut self, start: u64, len: u64) {
        if len == 0 {
            return;
        }
        let (mut from, mut to) = (start, start.saturating_add(len));
        if let Some((s, l)) = self.0.range(..from).next_back().map(|(s, l)| (*s, *l))
            && s + l >= from
        {
            (from, to) = (s, to.max(s + l));
        }
        while let Some((s, l)) = self.0.range(from..=to).next().map(|(s, l)| (*s, *l)) {
            to = to.max(s + l);
            self.0.remove(&s);
        }
        self.0.insert(from, to - from);
    }

    /// Removes `start..start + len`, as far as it is in it.
    pub fn remove(&mut self, start: u64, len: u64) {
        let end = start.saturating_add(len);
        let first = self.0.range(..start).next_back().map_or(start, |(s, _)| *s);
        let hit: Vec<_> = self.0.range(first..end).map(|(s, l)| (*s, s + l)).collect();
        for (s, e) in hit.into_iter().filter(|(_, e)| *e > start) {
            self.0.remove(&s);
            if s < start {
                self.0.insert(s, start - s);
            }
            if e > end {
                self.0.insert(end, e - end);
            }
        }
    }

    /// Adds all of `other`.
    pub fn union_of(&mut self, other: &Self) {
        other.iter().for_each(|(start, len)| self.insert(start, len));
    }

    /// Removes all of `other`.
    pub fn subtract(&mut self, other: &Self) {
        other.iter().for_each(|(start, len)| self.remove(start, len));
    }
}

impl Encode for IntervalSet {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.0);
    }
}

impl Decode for IntervalSet {
    const MIN_SIZE: usize = 4;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut set = Self::default();
        let mut end = 0u64;
        for _ in 0..r.count(16)? {
            let (start, len): (u64, u64) = (r.get()?, r.get()?);
            let sorted = set.is_empty() || start >= end;
            end = match start.checked_add(len) {
                Some(end) if sorted && len > 0 => end,
                _ => return Err(r.error(format!("range {start}~{len} of a set"))),
            };
            set.insert(start, len);
        }
        Ok(set)
    }
}

impl Sample for IntervalSet {
    fn sample(rng: &mut Rng) -> Self {
        let mut set = Self::default();
        for _ in 0..rng.below(4) {
            set.insert(rng.below(1000), rng.range(1, 10));
        }
        set
    }
}
