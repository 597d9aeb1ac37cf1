//! Messages about capabilities that come while the journal drains.
//!
//! A round of write-backs begins at a moment in which every event is durable (`write_back`), and changes by
//! requests wait for it. Each flush of a client is an event as well: a few clients that flush one after
//! another would never let that moment come. So these messages wait too, and with them what their clients
//! send next.

use crate::types::ClientId;
use msgs::Body;
use std::collections::BTreeSet;

/// Messages that wait, in the order in which they came.
///
/// Invariant: `clients` are those that have sent them.
#[derive(Default)]
pub(super) struct Postponed {
    messages: Vec<(ClientId, u64, Body)>,
    clients: BTreeSet<ClientId>,
}

impl Postponed {
    /// Returns a message, unless it has to wait: while the journal `drains`, one about capabilities, and
    /// whatever follows one.
    pub fn hold_back(&mut self, drains: bool, client: ClientId, tid: u64, body: Body) -> Option<Body> {
        let appends = matches!(body, Body::ClientCaps(_) | Body::ClientCapRelease(_));
        if self.clients.contains(&client) || drains && appends {
            self.clients.insert(client);
            self.messages.push((client, tid, body));
            return None;
        }
        Some(body)
    }

    /// The messages of one client, which wait no longer.
    pub fn take_of(&mut self, client: ClientId) -> Vec<(ClientId, u64, Body)> {
        if !self.clients.remove(&client) {
            return Vec::new();
        }
        self.messages.extract_if(.., |(from, _, _)| *from == client).collect()
    }

    /// All messages, which wait no longer.
    pub fn take(&mut self) -> Vec<(ClientId, u64, Body)> {
        self.clients.clear();
        std::mem::take(&mut self.messages)
    }

    /// True if none waits.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Asserts the invariant; nothing waits unless the journal `drains`.
    pub fn check(&self, drains: bool) {
        assert!(drains || self.messages.is_empty(), "messages wait for a drain that has ended");
        assert_eq!(self.messages.is_empty(), self.clients.is_empty(), "clients with and without messages");
    }
}
