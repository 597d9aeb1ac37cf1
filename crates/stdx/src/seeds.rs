//! The amount of work of a randomized test.

use std::ops::Range;

/// The seeds of a test: `usual` of them from 0, or as many as the environment variable `name` says, or the
/// single one that `name` with the suffix `_SEED` says. For tests only.
pub fn test_seeds(name: &str, usual: u64) -> Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse().ok());
    match number(&format!("{name}_SEED")) {
        Some(seed) => seed..seed + 1,
        None => 0..number(name).unwrap_or(usual),
    }
}
