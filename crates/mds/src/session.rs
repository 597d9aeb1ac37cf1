//! Sessions of clients: what is stored of them, what they hold, and what is to be sent to them.
//!
//! Everything for one client leaves in the order in which it was decided, and each message only when the events that it
//! shows are durable (DESIGN, decision 5). So a client never sees a grant before the revocation that was decided
//! earlier, and never learns of a change that a crash could undo.

use crate::types::{ClientId, Lsn, Segment};
use auth::MdsCap;
use fsfmt::InodeKey;
use fsfmt::tables::SessionRecord;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use stdx::Instant;
use wire::AddrVec;

/// Where a session is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionState {
    /// In the table that was read, its client has not come back yet.
    Absent,
    /// In use.
    Open,
    /// Silent for too long: it gets nothing new.
    Stale,
    /// Being evicted: waits until the OSDs refuse the client.
    Evicting,
}

/// Who a client is, as its connection says.
#[derive(Clone, Debug, Default)]
pub struct ClientPeer {
    /// Its addresses with the nonce of its incarnation.
    pub addrs: AddrVec,
    /// `client.admin`.
    pub name: String,
    /// What its key allows here.
    pub caps: MdsCap,
}

/// A session.
#[derive(Debug)]
pub struct Session {
    /// What is stored.
    pub record: SessionRecord,
    /// What its key allows.
    pub auth: MdsCap,
    /// Where it is.
    pub state: SessionState,
    /// When it last renewed.
    pub renewed: Instant,
    /// Inodes that it has caps on.
    pub inodes: BTreeSet<InodeKey>,
    /// When it was last asked to give back caps.
    pub recalled: Option<Instant>,
    /// Whether it was said in the log that it went too far.
    pub refused: bool,
    /// Requests under way, by tid.
    pub running: BTreeSet<u64>,
    outbox: VecDeque<(Lsn, u64, msgs::Body)>,
}

impl Session {
    /// A session in a state.
    pub fn new(record: SessionRecord, auth: MdsCap, state: SessionState, now: Instant) -> Self {
        Self {
            record,
            auth,
            state,
            renewed: now,
            inodes: BTreeSet::new(),
            recalled: None,
            refused: false,
            running: BTreeSet::new(),
            outbox: VecDeque::new(),
        }
    }

    /// Queues a message that shows events up to `lsn`.
    pub fn send(&mut self, lsn: Lsn, tid: u64, body: impl Into<msgs::Body>) {
        self.outbox.push_back((lsn, tid, body.into()));
    }

    /// The next message that may leave.
    pub fn next_message(&mut self, durable: Lsn) -> Option<(u64, msgs::Body)> {
        let (lsn, ..) = self.outbox.front()?;
        if *lsn > durable && !stdx::mutants::is_active("mds_answers_before_journal") {
            return None;
        }
        self.outbox.pop_front().map(|(_, tid, body)| (tid, body))
    }

    /// Messages that wait.
    pub fn queued(&self) -> usize {
        self.outbox.len()
    }
}

/// All sessions of the rank.
#[derive(Default, Debug)]
pub struct Sessions {
    /// By client.
    pub map: BTreeMap<ClientId, Session>,
    /// Sessions that are not written back, and since when; ended ones too.
    pub dirty: BTreeMap<ClientId, Segment>,
    /// Those in the write-back in flight.
    pub committing: BTreeMap<ClientId, Segment>,
}

impl Sessions {
    /// Marks a session as changed by an event of `segment`.
    pub fn mark(&mut self, client: ClientId, segment: Segment) {
        self.dirty.entry(client).or_insert(segment);
    }

    /// The oldest event that is lost without a write-back.
    pub fn since(&self) -> Option<Segment> {
        self.dirty.values().chain(self.committing.values()).min().copied()
    }
}
