//! Hash maps whose order depends only on their content and history, as a replay from a seed needs. Keys that
//! a stranger chooses belong in a `BTreeMap`: this hash can be attacked.

use std::hash::{BuildHasherDefault, Hasher};

/// A hash map with a fixed, fast hash; for keys that we choose ourselves (ids, tids).
#[expect(clippy::disallowed_types, reason = "the one place that gives it a fixed hasher")]
pub type FastMap<K, V> = std::collections::HashMap<K, V, BuildHasherDefault<FoldHasher>>;
/// The set of [`FastMap`].
#[expect(clippy::disallowed_types, reason = "the one place that gives it a fixed hasher")]
pub type FastSet<K> = std::collections::HashSet<K, BuildHasherDefault<FoldHasher>>;

/// Multiply-and-rotate over 8-byte words.
#[derive(Default, Clone)]
pub struct FoldHasher(u64);

const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for FoldHasher {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }
    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(MULTIPLIER);
    }
    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }
    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
}
