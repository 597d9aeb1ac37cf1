//! How much a randomized test does.

use std::ops::Range;

/// The seeds of a test: `usual` of them from 0, or as many as the environment variable `name` says, or the one alone that
/// `name` with `_SEED` behind it says. For tests only.
pub fn test_seeds(name: &str, usual: u64) -> Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse().ok());
    match number(&format!("{name}_SEED")) {
        Some(seed) => seed..seed + 1,
        None => 0..number(name).unwrap_or(usual),
    }
}
