//! Requests to a monitor that wait for their answer, and messages that wait for a session.

use msgs::Body;
use node::Msg;
use std::collections::{BTreeMap, VecDeque};
use wire::{Message as _, Uuid};

/// Messages that may wait for a session; beyond that the oldest is dropped, as a lost session would have.
const MAX_QUEUED: usize = 1024;

/// Requests that wait for an answer, and messages that wait for a session.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    next_tid: u64,
    /// By tid: the owner's token and the request, to be sent again to another monitor.
    waiting: BTreeMap<u64, (u64, Body)>,
    queued: VecDeque<Msg>,
}

impl Requests {
    /// A new tid.
    pub(crate) fn tid(&mut self) -> u64 {
        self.next_tid += 1;
        self.next_tid
    }

    /// Remembers a request. `body` is made with its tid.
    pub(crate) fn add(&mut self, token: u64, fsid: Uuid, body: impl FnOnce(u64) -> Body) -> Msg {
        let tid = self.tid();
        let mut body = body(tid);
        set_fsid(&mut body, fsid);
        self.waiting.insert(tid, (token, body.clone()));
        Msg::new(tid, body)
    }

    /// True if a request is unanswered.
    pub(crate) fn any_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Forgets the request with the owner's number `token`.
    pub(crate) fn cancel(&mut self, token: u64) {
        self.waiting.retain(|_, (t, _)| *t != token);
    }

    /// The owner's number of the request that `body` answers.
    pub(crate) fn answered(&mut self, tid: u64, body: &Body) -> Option<u64> {
        let (key, asked) = match body {
            Body::MonGetVersionReply(m) => (m.handle, msgs::MonGetVersion::KIND),
            Body::MonCommandAck(_) => (tid, msgs::MonCommand::KIND),
            Body::StatfsReply(_) => (tid, msgs::Statfs::KIND),
            Body::GetPoolStatsReply(_) => (tid, msgs::GetPoolStats::KIND),
            Body::PoolOpReply(_) => (tid, msgs::PoolOp::KIND),
            _ => return None,
        };
        let (token, request) = self.waiting.get(&key)?;
        let token = *token;
        if request.kind() != asked {
            return None;
        }
        self.waiting.remove(&key);
        Some(token)
    }

    /// Keeps a message until there is a session.
    pub(crate) fn queue(&mut self, msg: Msg) {
        if self.queued.len() == MAX_QUEUED {
            self.queued.pop_front();
        }
        self.queued.push_back(msg);
    }

    /// The first messages of a new session: all unanswered requests, then the queued ones.
    pub(crate) fn for_new_session(&mut self, fsid: Uuid) -> Vec<Msg> {
        self.waiting.values_mut().for_each(|(_, body)| set_fsid(body, fsid));
        let requests = self.waiting.iter().map(|(tid, (_, body))| Msg::new(*tid, body.clone()));
        requests.chain(std::mem::take(&mut self.queued)).collect()
    }
}

/// Monitors leave a request with another cluster's id unanswered.
fn set_fsid(body: &mut Body, fsid: Uuid) {
    match body {
        Body::MonCommand(m) => m.fsid = fsid,
        Body::Statfs(m) => m.fsid = fsid,
        Body::GetPoolStats(m) => m.fsid = fsid,
        Body::PoolOp(m) => m.fsid = fsid,
        _ => {}
    }
}
