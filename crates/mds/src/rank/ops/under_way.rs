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
    requests: BTreeSet<(ClientId, Option<InodeKey>, OpId)>,
    waiters: BTreeMap<OpId, Vec<OpId>>,
}

impl UnderWay {
    /// An operation begins.
    pub fn begin(&mut self, op: &Op) {
        if is_async(&op.request) {
            self.requests.insert((op.client, directory(op), op.id));
        }
    }

    /// An operation ends; returns those that have waited for it.
    pub fn end(&mut self, op: &Op) -> Vec<OpId> {
        if is_async(&op.request) {
            self.requests.remove(&(op.client, directory(op), op.id));
        }
        self.waiters.remove(&op.id).unwrap_or_default()
    }

    /// An operation waits for another one.
    pub fn wait(&mut self, op: OpId, earlier: OpId) {
        self.waiters.entry(earlier).or_default().push(op);
    }

    /// The earlier asynchronous requests of an operation's client, with their directories: none stands for
    /// any.
    pub fn before(&self, op: &Op) -> Vec<(Option<InodeKey>, OpId)> {
        let of_client = self.requests.range((op.client, None, OpId(0))..);
        let of_client = of_client.take_while(|(client, ..)| *client == op.client);
        of_client.map(|(_, dir, id)| (*dir, *id)).filter(|(_, id)| *id < op.id).collect()
    }

    /// Number of asynchronous requests.
    pub fn len(&self) -> usize {
        self.requests.len()
    }
}

/// The directory that a request is about. Linux names it by its inode; what else a path leads to is not known
/// before the names in it are.
fn directory(op: &Op) -> Option<InodeKey> {
    let path = &op.request.path;
    Some(base(path)).filter(|_| !path.path.contains(&b'/'))
}
