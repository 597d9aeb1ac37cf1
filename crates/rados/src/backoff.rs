//! Ranges of objects that an OSD has asked us not to send for (docs/protocol.md 5.7).

use maps::{HObject, Spg};
use msgs::{OsdBackoff, backoff_op};
use std::collections::BTreeMap;

/// The backoffs of one connection, by the OSD's number.
#[derive(Debug, Default)]
pub(crate) struct Backoffs(BTreeMap<u64, (Spg, HObject, HObject)>);

impl Backoffs {
    /// True if an operation must wait.
    pub(crate) fn blocks(&self, spg: Spg, at: &HObject) -> bool {
        self.0.values().any(|(pg, begin, end)| *pg == spg && within(at, begin, end))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A backoff begins. Returns its acknowledgement.
    pub(crate) fn block(&mut self, m: &OsdBackoff) -> OsdBackoff {
        self.0.insert(m.id, (m.pgid, m.begin.clone(), m.end.clone()));
        OsdBackoff { op: backoff_op::ACK_BLOCK, ..m.clone() }
    }

    /// A block ends.
    pub(crate) fn unblock(&mut self, id: u64) {
        self.0.remove(&id);
    }
}

/// True if `at` is in [begin, end), or equals both.
pub(crate) fn within(at: &HObject, begin: &HObject, end: &HObject) -> bool {
    if begin == end { at == begin } else { begin <= at && at < end }
}
