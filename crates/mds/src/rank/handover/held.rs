//! Flushes in a subtree that is about to leave. Each is an event that would have to be stored before the
//! subtree can be handed over, and a client that writes has more of them all the while. So they wait: if the
//! subtree leaves, their clients repeat them to the other rank, as they do after every IMPORT.
//!
//! What clients say of a subtree that becomes part of another one of this rank waits too: they hear nothing
//! of that, and would not repeat it.

use super::Rank;
use crate::authority::Hold;
use crate::types::ClientId;
use fsfmt::Ino;
use msgs::{Body, ClientCaps};

impl Rank {
    /// Returns a message about a capability, unless it waits. What is awaited because something is revoked
    /// does not.
    pub(in crate::rank) fn hold_flush(
        &mut self,
        client: ClientId,
        tid: u64,
        m: Box<ClientCaps>,
    ) -> Option<Box<ClientCaps>> {
        if self.migration.exports.is_empty() {
            return Some(m);
        }
        let ino = Ino(m.ino);
        let Ok(root) = self.cache.root_of(ino) else { return Some(m) };
        if !matches!(self.cache.subtrees.hold(root), Some(Hold::Settling | Hold::Leaving)) {
            return Some(m);
        }
        let inode = self.cache.inodes.get(&ino.head());
        // Who has no capability any more gets no IMPORT, and would not repeat it.
        let Some(cap) = inode.and_then(|inode| inode.caps.get(client)) else { return Some(m) };
        let is_awaited = cap.is_revoking();
        let held = self.migration.held.entry(root).or_default();
        let is_of_it =
            |(from, _, earlier): &(ClientId, u64, Box<ClientCaps>)| *from == client && earlier.ino == m.ino;
        if is_awaited {
            let earlier: Vec<_> = held.extract_if(.., |one| is_of_it(one)).collect();
            earlier.into_iter().for_each(|(client, tid, m)| self.take_caps(client, tid, &m));
            return Some(m);
        }
        if m.dirty.0 == 0 && !held.iter().any(is_of_it) {
            return Some(m);
        }
        held.push((client, tid, m));
        None
    }

    /// A subtree stays: what waited is handled now.
    pub(super) fn release_held(&mut self, root: Ino) {
        for (client, tid, m) in self.migration.held.remove(&root).unwrap_or_default() {
            self.take_caps(client, tid, &m);
        }
    }

    /// Returns a message of a client, unless it is about a capability in a subtree that becomes part of the
    /// one around it.
    pub(in crate::rank) fn hold_for_join(&mut self, client: ClientId, tid: u64, body: Body) -> Option<Body> {
        if !self.migration.has_joins() {
            return Some(body);
        }
        let inodes: Vec<u64> = match &body {
            Body::ClientCaps(m) => vec![m.ino],
            Body::ClientCapRelease(m) => m.caps.iter().map(|item| item.ino).collect(),
            _ => return Some(body),
        };
        let mut roots = inodes.into_iter().filter_map(|ino| self.cache.root_of(Ino(ino)).ok());
        let Some(root) = roots.find(|root| self.migration.joins(*root)) else { return Some(body) };
        self.migration.held_for_join.entry(root).or_default().push((client, tid, body));
        None
    }

    /// A subtree has become part of the one around it: what waited for that is handled now.
    pub(super) fn release_joined(&mut self, root: Ino) {
        for (client, tid, body) in self.migration.held_for_join.remove(&root).unwrap_or_default() {
            self.dispatch(client, tid, body);
        }
    }

    /// Handles a message about a capability.
    pub(in crate::rank) fn take_caps(&mut self, client: ClientId, tid: u64, m: &ClientCaps) {
        let Self { env, cache, sessions, caps, .. } = self;
        caps.client_caps(env, cache, sessions, client, tid, m);
    }
}
