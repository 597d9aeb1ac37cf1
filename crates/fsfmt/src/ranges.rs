//! Ranges of inode numbers.

use crate::{Ino, InoRange};

/// True if a number is in a range.
pub fn contains(range: &InoRange, ino: Ino) -> bool {
    (range.first.0..range.first.0.saturating_add(range.count)).contains(&ino.0)
}

/// Removes a number that is used.
pub fn remove(ranges: &mut Vec<InoRange>, ino: Ino) {
    let Some(at) = ranges.iter().position(|range| contains(range, ino)) else { return };
    let InoRange { first, count } = ranges.remove(at);
    let before = ino.0 - first.0;
    let parts =
        [InoRange { first, count: before }, InoRange { first: Ino(ino.0 + 1), count: count - before - 1 }];
    ranges.splice(at..at, parts.into_iter().filter(|part| part.count > 0));
}

/// Takes the first `most` numbers out of the ranges, or as many as there are.
pub fn take(ranges: &mut Vec<InoRange>, most: u64) -> Vec<InoRange> {
    let mut taken: Vec<InoRange> = Vec::new();
    while count(&taken) < most
        && let Some(range) = ranges.first_mut()
    {
        let some = range.count.min(most - count(&taken));
        taken.push(InoRange { first: range.first, count: some });
        (range.first.0, range.count) = (range.first.0 + some, range.count - some);
        if range.count == 0 {
            ranges.remove(0);
        }
    }
    taken
}

/// Number of numbers in ranges.
pub fn count(ranges: &[InoRange]) -> u64 {
    ranges.iter().map(|range| range.count).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_taken_from_the_front() {
        let range = |first, count| InoRange { first: Ino(first), count };
        let mut ranges = vec![range(10, 3), range(20, 5)];
        assert_eq!(take(&mut ranges, 4), [range(10, 3), range(20, 1)]);
        assert_eq!(ranges, [range(21, 4)]);
        assert_eq!(take(&mut ranges, 9), [range(21, 4)]);
        assert_eq!((count(&ranges), take(&mut ranges, 1)), (0, vec![]));
    }

    #[test]
    fn a_used_number_leaves_what_is_on_both_sides_of_it() {
        let range = |first, count| InoRange { first: Ino(first), count };
        let mut ranges = vec![range(10, 3), range(20, 1)];
        remove(&mut ranges, Ino(11));
        assert_eq!(ranges, [range(10, 1), range(12, 1), range(20, 1)]);
        remove(&mut ranges, Ino(10));
        remove(&mut ranges, Ino(20));
        remove(&mut ranges, Ino(99));
        assert_eq!(ranges, [range(12, 1)]);
    }
}
