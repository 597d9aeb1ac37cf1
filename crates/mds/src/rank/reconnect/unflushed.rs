//! What clients flush again before their claims count.

use crate::cap::STRONG;
use fsfmt::{Ino, InodeKey};
use msgs::ClientCaps;
use std::collections::BTreeMap;

/// The bits under which a client changed what the flushes tell that it repeats. Linux has given them up with
/// the flush, and claims what was left: who is given them meanwhile would not know how long the file is.
#[derive(Default)]
pub(in crate::rank) struct Unflushed(BTreeMap<(InodeKey, u64), u32>);

impl Unflushed {
    /// Notes a message about a capability.
    pub fn note(&mut self, m: &ClientCaps) {
        let bits = m.dirty.0 & STRONG;
        if bits != 0 {
            *self.0.entry((Ino(m.ino).head(), m.cap_id)).or_default() |= bits;
        }
    }

    /// The bits of a capability on an inode, which the flush confirms to be given up.
    pub fn bits(&self, ino: InodeKey, cap_id: u64) -> u32 {
        self.0.get(&(ino, cap_id)).copied().unwrap_or(0)
    }
}
