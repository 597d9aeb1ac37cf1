//! Asynchronous requests under way, by client and directory. Their client has told its callers already what
//! they do, so its later requests must find it done: they wait for the earlier ones in the same directory.

use super::Op;
use crate::ops::{base, is_async};
use crate::types::{ClientId, OpId};
use fsfmt::InodeKey;
use std::collections::{BTreeMap, BTreeSet};

/// The asynchronous requests, and the operations that wait for them.
///
/// Invariant: all are under way.
#[derive(Default)]
pub(super) struct UnderWay {
    requests: BTreeMap<(ClientId, Option<InodeKey>), BTreeSet<OpId>>,
    waiters: BTreeMap<OpId, Vec<OpId>>,
}

impl UnderWay {
    /// An operation begins.
    pub fn begin(&mut self, op: &Op) {
        if is_async(&op.request) {
            self.requests.entry((op.client, directory(op))).or_default().insert(op.id);
        }
    }

    /// An operation ends; returns those that have waited for it.
    pub fn end(&mut self, op: &Op) -> Vec<OpId> {
        if is_async(&op.request) {
            let place = (op.client, directory(op));
            let rest = self.requests.get_mut(&place).map_or(0, |ids| {
                ids.remove(&op.id);
                ids.len()
            });
            if rest == 0 {
                self.requests.remove(&place);
            }
        }
        self.waiters.remove(&op.id).unwrap_or_default()
    }

    /// An operation waits for another one.
    pub fn wait(&mut self, op: OpId, earlier: OpId) {
        self.waiters.entry(earlier).or_default().push(op);
    }

    /// The newest asynchronous request of a client before `op` that may be about `dir`. Waiting for it alone,
    /// requests follow one another like a chain, and each is woken once.
    pub fn newest_before(&self, client: ClientId, dir: InodeKey, op: OpId) -> Option<OpId> {
        let in_place = |place| self.requests.get(&(client, place))?.range(..op).next_back().copied();
        in_place(Some(dir)).max(in_place(None))
    }

    /// Number of asynchronous requests.
    pub fn len(&self) -> usize {
        self.requests.values().map(BTreeSet::len).sum()
    }
}

/// The directory that a request is about. Linux names it by its inode; what else a path leads to is not known
/// before the names in it are.
fn directory(op: &Op) -> Option<InodeKey> {
    let path = &op.request.path;
    Some(base(path)).filter(|_| !path.path.contains(&b'/'))
}
