//! Connections of clients, and the commands of theirs that have no answer yet.

use crate::Outcome;
use auth::{Method, MgrCap};
use msgs::Body;
use node::{ConnId, Msg, Peer};
use std::collections::BTreeMap;

/// Most commands without an answer; more are refused.
const MAX_COMMANDS: usize = 1024;

/// The form of a command's answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// `MMgrCommandReply`.
    Mgr,
    /// `MCommandReply`, for clients older than Ceph 15.
    Old,
}

/// The place to which an answer goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Asker {
    pub conn: ConnId,
    pub tid: u64,
    pub form: Form,
}

impl Asker {
    /// The answer as a message.
    pub fn answer(&self, outcome: Outcome) -> Msg {
        let Outcome { code: r, status: rs, output: data } = outcome;
        let body = match self.form {
            Form::Mgr => Body::from(msgs::MgrCommandReply { r, rs, data }),
            Form::Old => Body::from(msgs::CommandReply { r, rs, data }),
        };
        Msg::new(self.tid, body)
    }
}

/// Clients' sessions. A command keeps its number when its client has gone; its answer then goes nowhere.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    caps: BTreeMap<ConnId, MgrCap>,
    waiting: BTreeMap<u64, Asker>,
    last: u64,
}

impl Sessions {
    /// A client has connected. Capabilities that can't be parsed allow nothing.
    pub fn add(&mut self, conn: ConnId, peer: &Peer, methods: &[Method]) {
        let from = peer.socket_addr.addr.map(|a| a.ip());
        let caps = if methods.contains(&Method::None) { "allow *" } else { peer.caps.as_str() };
        let caps = MgrCap::parse(caps).unwrap_or_default().for_peer(&peer.name, from);
        self.caps.insert(conn, caps);
    }

    /// A client is gone.
    pub fn remove(&mut self, conn: ConnId) {
        self.caps.remove(&conn);
        self.waiting.retain(|_, asker| asker.conn != conn);
    }

    /// The capabilities of a client.
    pub fn caps(&self, conn: ConnId) -> Option<&MgrCap> {
        self.caps.get(&conn)
    }

    /// Ends all sessions. Returns their connections.
    pub fn take_all(&mut self) -> Vec<ConnId> {
        self.waiting.clear();
        std::mem::take(&mut self.caps).into_keys().collect()
    }

    /// Notes a command. Returns its number, or `None` if too many wait.
    pub fn begin(&mut self, asker: Asker) -> Option<u64> {
        if self.waiting.len() >= MAX_COMMANDS {
            return None;
        }
        self.last += 1;
        self.waiting.insert(self.last, asker);
        Some(self.last)
    }

    /// A command has an answer. Returns where it goes.
    pub fn end(&mut self, number: u64) -> Option<Asker> {
        self.waiting.remove(&number)
    }
}
