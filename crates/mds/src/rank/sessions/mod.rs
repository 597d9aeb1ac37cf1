//! Sessions of clients: their stored records, what they hold, and what is to be sent to them.
//!
//! Everything for one client leaves in the order in which it was decided, and each message only when the
//! events that it shows are durable (docs/design.md, decision 5). So a client never sees a grant before the
//! revocation that was decided earlier, and never learns of a change that a crash could undo.

mod barrier;
mod lifecycle;
mod numbers;
mod outbox;
mod rate;
mod replies;
mod session;

pub(super) use numbers::Refill;
pub(super) use replies::{Asked, Replies};
pub(super) use session::DELEG_INO;
pub use session::{ClientPeer, Session, SessionState};

use super::effect::{Effect, Stage};
use super::env::Env;
use crate::dirty::DirtyIndex;
use crate::types::{ClientId, Lsn, Origin, Segment};
use auth::MdsCap;
use fsfmt::tables::{SessionRecord, parse_session_key, session_key};
use fsfmt::{Ino, InodeKey, Update};
use maps::Epoch;
use msgs::{Body, CLIENT_UUID, ClientReply, ClientSession, cephfs_feature};
use node::Level;
use std::collections::{BTreeMap, BTreeSet};
use stdx::Instant;
use wire::{DecodeError, Reader, Timespec, Writer};

/// Session features that we offer: up to 9 (versioned replies), reclaims, lazy wanted caps, several reconnect
/// messages, delegated inode numbers, and owners of new inodes that are not the caller, without which Linux
/// creates nothing through a mount with mapped ids (their place in a request is behind wide retry counters).
const FEATURES: u64 =
    0x1fff | DELEG_INO | 1 << cephfs_feature::RETRY_FWD_32BITS | 1 << cephfs_feature::HAS_OWNER_UIDGID;

/// The write-back of sessions: records to set and keys to remove.
pub(super) type SessionChanges = (BTreeMap<Vec<u8>, Vec<u8>>, Vec<Vec<u8>>);

/// All sessions of the rank, and the clients that are connected.
///
/// Invariants: a session holds an inode exactly if the inode in the cache has a capability of its client; no
/// last message waits for an event that is durable.
pub(super) struct Sessions {
    map: BTreeMap<ClientId, Session>,
    /// Capabilities of all of them.
    held: usize,
    peers: BTreeMap<ClientId, ClientPeer>,
    /// Clients whose sessions have messages to send.
    waiting: BTreeSet<ClientId>,
    /// Last messages to clients whose session ended with an event.
    farewells: Vec<(Lsn, ClientId, Body)>,
    /// Sessions that are not written back, ended ones too.
    dirty: DirtyIndex<ClientId>,
    /// The sessions in the write-back in flight.
    committing: DirtyIndex<ClientId>,
    /// The first OSD map that refuses all clients whose sessions were ended by force.
    barrier: Epoch,
    /// Time of the last look for silent clients.
    last_check: Instant,
    /// Clients that have not given back for long what others wait for, as of that look.
    late: Vec<ClientId>,
    /// Time of the last request for capabilities.
    recalled_at: Option<Instant>,
    replies: Replies,
    /// Sessions that were begun and ended since the start.
    turnover: (u64, u64),
}

impl Sessions {
    pub fn new(now: Instant) -> Self {
        Self {
            map: BTreeMap::new(),
            held: 0,
            peers: BTreeMap::new(),
            waiting: BTreeSet::new(),
            farewells: Vec::new(),
            dirty: DirtyIndex::default(),
            committing: DirtyIndex::default(),
            barrier: Epoch(0),
            last_check: now,
            late: Vec::new(),
            recalled_at: None,
            replies: Replies::default(),
            turnover: (0, 0),
        }
    }

    /// A client is connected.
    pub fn connected(&mut self, client: ClientId, peer: ClientPeer) {
        if let Some(s) = self.map.get_mut(&client) {
            s.auth = peer.caps.clone();
        }
        self.peers.insert(client, peer);
    }

    pub fn get(&self, client: ClientId) -> Option<&Session> {
        self.map.get(&client)
    }

    pub fn iter(&self) -> impl Iterator<Item = (ClientId, &Session)> {
        self.map.iter().map(|(client, s)| (*client, s))
    }

    /// True if the client may be given anything.
    pub fn is_open(&self, client: ClientId) -> bool {
        self.map.get(&client).is_some_and(Session::is_open)
    }

    /// The inodes that a client has capabilities on.
    pub fn held(&self, client: ClientId) -> Vec<InodeKey> {
        self.map.get(&client).map(|s| s.inodes.iter().copied().collect()).unwrap_or_default()
    }

    /// A client has a capability on an inode from now on.
    pub fn hold(&mut self, client: ClientId, ino: InodeKey) {
        if let Some(s) = self.map.get_mut(&client) {
            self.held += usize::from(s.inodes.insert(ino));
        }
    }

    /// A client has no capability on an inode any more.
    pub fn release(&mut self, client: ClientId, ino: InodeKey) {
        if let Some(s) = self.map.get_mut(&client) {
            self.held -= usize::from(s.inodes.remove(&ino));
        }
    }

    /// Notes what a client wants of a directory. One that wants to create or unlink in one asynchronously
    /// does so elsewhere too.
    pub fn note_wanted_of_dir(&mut self, client: ClientId, wanted: u32) {
        if wanted & msgs::cap::DIR_OPS != 0
            && let Some(s) = self.map.get_mut(&client).filter(|s| s.has_feature(DELEG_INO))
        {
            s.creates_async = true;
        }
    }

    /// A request begins, whose client has the answers to all below `oldest_tid`; false if it is under way
    /// already.
    pub fn begin_request(&mut self, now: Instant, client: ClientId, tid: u64, oldest_tid: u64) -> bool {
        let Some(s) = self.map.get_mut(&client) else { return false };
        if !s.running.insert(tid) {
            return false;
        }
        s.requests.note(now);
        s.record.completed = s.record.completed.split_off(&oldest_tid);
        true
    }

    /// A request is answered or dropped.
    pub fn end_request(&mut self, client: ClientId, tid: u64) {
        if let Some(s) = self.map.get_mut(&client) {
            s.running.remove(&tid);
        }
    }

    /// A client has the acknowledgements of all flushes below `oldest`.
    pub fn forget_flushed(&mut self, client: ClientId, oldest: u64) {
        if let Some(s) = self.map.get_mut(&client)
            && oldest > 0
        {
            s.record.flushed = s.record.flushed.split_off(&oldest);
        }
    }

    /// Queues a message that shows events up to `lsn`. A client without a session gets it at once.
    pub fn send(&mut self, env: &mut Env, client: ClientId, lsn: Lsn, tid: u64, body: impl Into<Body>) {
        self.queue(env, client, lsn, (tid, None), body.into());
    }

    /// Queues the answer to a request, which shows events up to `lsn`.
    pub fn answer(
        &mut self,
        env: &mut Env,
        client: ClientId,
        lsn: Lsn,
        (tid, asked): (u64, Asked),
        answer: ClientReply,
    ) {
        self.queue(env, client, lsn, (tid, Some(asked)), answer.into());
    }

    fn queue(
        &mut self,
        env: &mut Env,
        client: ClientId,
        lsn: Lsn,
        (tid, asked): (u64, Option<Asked>),
        body: Body,
    ) {
        match self.map.get_mut(&client) {
            // An absent client is told everything again when it reconnects.
            Some(s) if s.state == SessionState::Absent => {}
            Some(s) => {
                env.want_durable(lsn);
                s.outbox.push(lsn, (tid, asked), body);
                self.waiting.insert(client);
            }
            None => env.effect(Effect::Send(client, tid, body)),
        }
    }

    /// Queues the answer to a request that the client repeats if a crash loses its event: it leaves when the
    /// events of others up to `lsn` are durable, as an unsafe one if its own event `own` is not yet. The safe
    /// one follows by itself.
    pub fn answer_early(
        &mut self,
        env: &mut Env,
        client: ClientId,
        (lsn, own): (Lsn, Lsn),
        (tid, asked): (u64, Asked),
        answer: ClientReply,
    ) {
        if let Some(s) = self.map.get_mut(&client) {
            env.want_durable(lsn);
            s.outbox.push_answer((lsn, own), (tid, asked), answer);
            self.waiting.insert(client);
        }
    }

    /// Queues a message that says nothing but that events up to `lsn` are durable. No other waits for it, nor
    /// does it hasten the journal.
    pub fn confirm(&mut self, client: ClientId, lsn: Lsn, tid: u64, body: impl Into<Body>) {
        if let Some(s) = self.map.get_mut(&client).filter(|s| s.state != SessionState::Absent) {
            s.outbox.confirm(lsn, tid, body.into());
            self.waiting.insert(client);
        }
    }

    /// Sends all messages whose events are durable.
    pub fn flush(&mut self, env: &mut Env) {
        let durable = env.journal().durable();
        let all = std::mem::take(&mut self.farewells);
        let (ready, later) = all.into_iter().partition(|(lsn, ..)| *lsn <= durable);
        self.farewells = later;
        for (_, client, body) in ready {
            env.effect(Effect::Send(client, 0, body));
        }
        let Self { map, waiting, replies, .. } = self;
        waiting.retain(|client| {
            let Some(session) = map.get_mut(client) else { return false };
            if session.is_unasked {
                return true;
            }
            while let Some((tid, body, asked)) = session.outbox.next(durable) {
                if let Some(asked) = asked {
                    replies.left(asked, env.now());
                }
                env.effect(Effect::Send(*client, tid, body));
            }
            !session.outbox.is_empty()
        });
    }

    /// The answers that have left.
    pub fn replies(&self) -> &Replies {
        &self.replies
    }

    /// Sessions that were begun and ended since the start.
    pub fn turnover(&self) -> (u64, u64) {
        self.turnover
    }

    /// True if no message waits for anything but its client.
    pub fn is_quiet(&self) -> bool {
        self.waiting.iter().all(|client| self.map.get(client).is_some_and(|s| s.is_unasked))
    }

    /// Logs that a client broke a rule, once for each session: `text` is given the client's name and address.
    pub fn report_once(
        &mut self,
        env: &mut Env,
        client: ClientId,
        level: Level,
        name: &'static str,
        text: impl FnOnce(&str) -> String,
    ) {
        let Some(session) = self.map.get_mut(&client) else { return };
        let was_reported = std::mem::replace(&mut session.was_reported, true);
        let who = format!("{} from {}", session.record.name, session.record.addrs.front());
        env.log(if was_reported { Level::Debug } else { level }, name, text(&who));
    }

    /// Applies an event's change of a session.
    pub fn apply(&mut self, env: &Env, update: Update, origin: Origin) {
        let segment = origin.segment;
        match update {
            Update::SessionOpen { client, record } => {
                let client = ClientId(client);
                let is_replayed = env.stage() == Stage::Replaying;
                let state = if is_replayed { SessionState::Absent } else { SessionState::Open };
                let session = Session::new(*record, self.auth_of(client), state, env.now());
                let old = self.map.insert(client, session);
                self.turnover.0 += 1;
                self.held -= old.map_or(0, |s| s.inodes.len());
                self.dirty.mark(client, segment);
            }
            Update::SessionClose { client } => {
                let old = self.map.remove(&ClientId(client));
                self.turnover.1 += 1;
                self.held -= old.map_or(0, |s| s.inodes.len());
                self.dirty.mark(ClientId(client), segment);
            }
            Update::Completed { client, tid, ino } => {
                self.change(client, segment, |record| record.note_completed(tid, ino));
            }
            Update::InoRanges { client, preallocated, delegated } => {
                let end = session::end_of(&preallocated);
                if let Some(s) = self.map.get_mut(&ClientId(client)).filter(|s| end > s.reserved_end) {
                    (s.reserved_by, s.reserved_end) = (origin.lsn, end);
                    s.reserved_from = preallocated.last().map_or(Ino(0), |range| range.first);
                }
                self.change(client, segment, |record| {
                    (record.preallocated, record.delegated) = (preallocated, delegated);
                });
            }
            Update::Flushed { client, tid } => self.change(client, segment, |record| {
                record.flushed.insert(tid);
            }),
            Update::Absent { clients } => {
                let clients = BTreeSet::from_iter(clients);
                for (client, s) in &mut self.map {
                    let was_absent = clients.contains(&client.0);
                    if std::mem::replace(&mut s.record.was_absent, was_absent) != was_absent {
                        self.dirty.mark(*client, segment);
                    }
                }
            }
            _ => unreachable!("others take what is no change of a session"),
        }
    }

    fn change(&mut self, client: u64, segment: Segment, change: impl FnOnce(&mut SessionRecord)) {
        if let Some(s) = self.map.get_mut(&ClientId(client)) {
            change(&mut s.record);
            self.dirty.mark(ClientId(client), segment);
        }
    }

    /// Takes in stored sessions; gives the last key.
    pub fn load(
        &mut self,
        env: &Env,
        entries: &BTreeMap<Vec<u8>, Vec<u8>>,
    ) -> Result<Option<Vec<u8>>, DecodeError> {
        for (key, value) in entries {
            let Some(client) = parse_session_key(key).map(ClientId) else { continue };
            let record: SessionRecord = Reader::new(value).get()?;
            let session = Session::new(record, self.auth_of(client), SessionState::Absent, env.now());
            self.map.insert(client, session);
        }
        Ok(entries.keys().next_back().cloned())
    }

    fn auth_of(&self, client: ClientId) -> MdsCap {
        self.peers.get(&client).map(|p| p.caps.clone()).unwrap_or_default()
    }

    /// Somebody else has stored what segments before `segment` changed.
    pub fn note_stored(&mut self, segment: Segment) {
        self.dirty.raise(segment);
    }

    /// The oldest segment with a change of a session that is not stored.
    pub fn first_needed(&self) -> Option<Segment> {
        self.dirty.oldest().into_iter().chain(self.committing.oldest()).min()
    }

    /// Begins the write-back of all changed sessions.
    pub fn begin_commit(&mut self) -> SessionChanges {
        assert!(self.committing.is_empty(), "one write-back of sessions at a time");
        self.committing = std::mem::take(&mut self.dirty);
        let (mut set, mut remove) = (BTreeMap::new(), Vec::new());
        for client in self.committing.keys() {
            match self.map.get(client) {
                Some(s) => drop(set.insert(session_key(client.0), Writer::encode(&s.record))),
                None => remove.push(session_key(client.0)),
            }
        }
        (set, remove)
    }

    pub fn end_commit(&mut self) {
        self.committing.clear();
    }

    /// A session message of ours.
    pub fn message(env: &Env, op: u32, seq: u64) -> ClientSession {
        let mut m = ClientSession::of(op, seq);
        m.head.stamp = Timespec { sec: env.stamp().sec, nsec: env.stamp().nsec };
        m
    }

    /// Who a client is, as its connection told.
    pub fn peer(&self, client: ClientId) -> Option<&ClientPeer> {
        self.peers.get(&client)
    }

    /// All clients with a session.
    pub fn clients(&self) -> Vec<ClientId> {
        self.map.keys().copied().collect()
    }

    /// The clients whose sessions have this identity, but for one client.
    pub fn with_uuid(&self, uuid: &str, but: ClientId) -> Vec<ClientId> {
        let has_it = |s: &Session| s.record.metadata.get(CLIENT_UUID).is_some_and(|other| other == uuid);
        let found = self.map.iter().filter(|(client, s)| **client != but && has_it(s));
        found.map(|(client, _)| *client).collect()
    }

    /// Sessions for people.
    pub fn describe(&self, now: Instant) -> Vec<serde_json::Value> {
        self.map.iter().map(|(client, s)| s.describe(now, *client)).collect()
    }

    /// Asserts what holds between inputs.
    pub fn check(&self, env: &Env) {
        let durable = env.journal().durable();
        assert!(self.farewells.iter().all(|(lsn, ..)| *lsn > durable), "a last message waits for its event");
        let waits =
            |client| self.map.get(client).is_some_and(|s| s.is_unasked || s.outbox.waits_for(durable));
        assert!(self.waiting.iter().all(waits), "what can be sent was sent");
    }

    /// Asserts the rest by a walk over all sessions.
    pub fn check_all(&self) {
        self.dirty.check();
        self.committing.check();
        let of = |s: &Session| {
            s.record.preallocated.iter().chain(&s.record.delegated).copied().collect::<Vec<_>>()
        };
        let ranges = self.map.values().flat_map(of);
        let mut reserved: Vec<_> = ranges.map(|range| (range.first.0, range.count)).collect();
        reserved.sort_unstable();
        let is_apart = |pair: &[(u64, u64)]| pair[0].0 + pair[0].1 <= pair[1].0;
        assert!(reserved.windows(2).all(is_apart), "a number is reserved for one client: {reserved:?}");
        let held = self.map.values().map(|s| s.inodes.len()).sum::<usize>();
        assert_eq!(self.held, held, "capabilities are counted");
        let has_messages = self.map.iter().filter(|(_, s)| !s.outbox.is_empty()).map(|(client, _)| client);
        assert!(has_messages.eq(&self.waiting), "sessions with messages are known");
    }
}
