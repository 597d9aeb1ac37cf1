//! Requests of clients that are not answered yet. They are kept until then, so that they can be given to the
//! next leader: a command may reach the log twice, as with clients that lose their monitor.

use msgs::Body as Client;
use node::{Body, ConnId, Msg};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of requests that wait at one monitor. Beyond it the oldest is dropped, as if its session
/// were lost.
const MAX_WAITING: usize = 10_000;

/// Requests without an answer, in order of arrival.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    waiting: BTreeMap<u64, Waiting>,
    last: u64,
    /// Connections whose messages have reached the leader: it holds a proxy for them.
    known_to_leader: BTreeSet<ConnId>,
}

#[derive(Debug)]
struct Waiting {
    conn: ConnId,
    msg: Msg,
    /// Handed to this monitor's own services or to the leader.
    is_handed_out: bool,
}

impl Requests {
    /// Adds a request.
    pub fn add(&mut self, conn: ConnId, msg: Msg) {
        if self.waiting.len() >= MAX_WAITING {
            self.waiting.pop_first();
        }
        self.last += 1;
        self.waiting.insert(self.last, Waiting { conn, msg, is_handed_out: false });
    }

    /// The requests that are not handed out.
    pub fn to_hand_out(&self) -> Vec<u64> {
        self.waiting.iter().filter(|(_, w)| !w.is_handed_out).map(|(id, _)| *id).collect()
    }

    /// Hands a request out; `None` if it was answered or dropped.
    pub fn hand_out(&mut self, id: u64) -> Option<(ConnId, Msg)> {
        let waiting = self.waiting.get_mut(&id)?;
        waiting.is_handed_out = true;
        Some((waiting.conn, waiting.msg.clone()))
    }

    /// Takes back a request that nobody could take.
    pub fn put_back(&mut self, id: u64) {
        if let Some(waiting) = self.waiting.get_mut(&id) {
            waiting.is_handed_out = false;
        }
    }

    /// Takes back all requests, because whoever had them may have lost them.
    pub fn put_back_all(&mut self) {
        self.waiting.values_mut().for_each(|w| w.is_handed_out = false);
        self.known_to_leader.clear();
    }

    /// Drops the request that a reply answers.
    pub fn answered(&mut self, conn: ConnId, reply: &Msg) {
        let done = self.waiting.iter().find(|(_, w)| w.conn == conn && is_reply(&w.msg, reply));
        if let Some(id) = done.map(|(id, _)| *id) {
            self.waiting.remove(&id);
        }
    }

    /// Notes that a message of this connection reached the leader.
    pub fn note_known_to_leader(&mut self, conn: ConnId) {
        self.known_to_leader.insert(conn);
    }

    /// Drops the requests of a closed connection. Returns true if the leader must be informed.
    pub fn forget(&mut self, conn: ConnId) -> bool {
        self.waiting.retain(|_, w| w.conn != conn);
        self.known_to_leader.remove(&conn)
    }
}

/// True for messages that get an answer.
pub(crate) fn is_request(body: &Body) -> bool {
    matches!(
        body,
        Body::Client(
            Client::MonCommand(_)
                | Client::Command(_)
                | Client::MonGetVersion(_)
                | Client::Statfs(_)
                | Client::GetPoolStats(_)
                | Client::PoolOp(_)
        )
    )
}

fn is_reply(request: &Msg, reply: &Msg) -> bool {
    let (Body::Client(asked), Body::Client(said)) = (&request.body, &reply.body) else { return false };
    match (asked, said) {
        (Client::MonGetVersion(a), Client::MonGetVersionReply(b)) => a.handle == b.handle,
        (Client::MonCommand(_), Client::MonCommandAck(_))
        | (Client::Command(_), Client::CommandReply(_))
        | (Client::Statfs(_), Client::StatfsReply(_))
        | (Client::GetPoolStats(_), Client::GetPoolStatsReply(_))
        | (Client::PoolOp(_), Client::PoolOpReply(_)) => request.tid == reply.tid,
        _ => false,
    }
}
