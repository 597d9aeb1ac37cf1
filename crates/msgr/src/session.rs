//! Lossless sessions: the state that survives a broken connection, and its place until the next one.

use crate::config::Common;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use stdx::Instant;
use wire::{AddrVec, EntityName, RawMsg};

/// The state of a session that outlives its connection. Opaque: taken from one [`crate::Conn`], passed to the
/// next.
#[derive(Debug, Default)]
pub struct Session {
    /// The client's name for it.
    pub(crate) client_cookie: u64,
    /// The server's name for it; 0 until the first handshake is complete, or where it is lossy.
    pub(crate) server_cookie: u64,
    /// The highest of the peer's connection counts seen.
    pub(crate) global_seq: u64,
    /// Counts the client's reconnections.
    pub(crate) connect_seq: u64,
    /// The last message received.
    pub(crate) in_seq: u64,
    /// The last message given a number.
    pub(crate) out_seq: u64,
    /// Messages not sent or not acknowledged, with their numbers.
    pub(crate) out: VecDeque<(u64, RawMsg)>,
    /// The number of messages at the front of `out` that were sent on the present connection.
    pub(crate) sent: usize,
    /// Bytes in `out`.
    pub(crate) queued: usize,
    /// True if sent messages are kept until acknowledged.
    pub(crate) lossless: bool,
    /// Messages up to `in_seq` of which the peer does not know that they have come.
    pub(crate) unacknowledged: Option<Unacknowledged>,
    /// Owner of the session.
    pub(crate) owner: Option<Owner>,
    /// The peer's number and addresses, which a reconnection does not repeat.
    pub(crate) num: i64,
    pub(crate) addrs: AddrVec,
}

/// The time for which an acknowledgement waits for a message that can tell it too.
const ACKNOWLEDGE_AFTER: Duration = Duration::from_millis(10);
/// It waits for no more messages and bytes than these, which the peer keeps until then.
const MAX_UNACKNOWLEDGED: u32 = 32;
const MAX_UNACKNOWLEDGED_BYTES: usize = 64 << 10;

/// Messages of a lossless session that were received and not acknowledged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unacknowledged {
    since: Instant,
    count: u32,
    bytes: usize,
}

impl Unacknowledged {
    /// True if they have to be acknowledged now, with a frame of its own if no message leaves.
    fn is_due(&self, now: Instant) -> bool {
        let is_much = self.count >= MAX_UNACKNOWLEDGED || self.bytes >= MAX_UNACKNOWLEDGED_BYTES;
        is_much || now >= self.deadline()
    }

    /// The time at which they have to be acknowledged.
    fn deadline(&self) -> Instant {
        self.since + ACKNOWLEDGE_AFTER
    }
}

/// The peer that may resume a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Owner {
    pub entity: EntityName,
    pub global_id: u64,
}

fn size(msg: &RawMsg) -> usize {
    // Something for the header, so that empty messages are bounded too.
    msg.front.len() + msg.middle.len() + msg.data.len() + 64
}

impl Session {
    /// The server's name for it, by which it is kept in a table.
    pub fn cookie(&self) -> u64 {
        self.server_cookie
    }

    /// Bytes that wait to be sent or acknowledged.
    pub fn queued(&self) -> usize {
        self.queued
    }

    /// Adds a message; also while there is no connection.
    pub fn push(&mut self, msg: RawMsg) {
        self.out_seq += 1;
        self.queued += size(&msg);
        self.out.push_back((self.out_seq, msg));
    }

    /// Adds a message to a parked session, within the bounds of `common`; `false` if it does not fit.
    pub fn push_bounded(&mut self, msg: RawMsg, common: &Common) -> bool {
        let fits = self.queued + size(&msg) <= common.max_queued;
        if fits {
            self.push(msg);
        }
        fits
    }

    /// The next message to send on this connection.
    pub(crate) fn next(&mut self) -> Option<(u64, RawMsg)> {
        if !self.lossless {
            let (seq, msg) = self.out.pop_front()?;
            self.queued -= size(&msg);
            return Some((seq, msg));
        }
        let (seq, msg) = self.out.get(self.sent)?;
        self.sent += 1;
        Some((*seq, msg.clone()))
    }

    /// True if a message waits to be sent.
    pub(crate) fn has_next(&self) -> bool {
        self.sent < self.out.len()
    }

    /// A message of so many bytes has come.
    pub(crate) fn received(&mut self, bytes: usize, now: Instant) {
        if self.lossless {
            let none = Unacknowledged { since: now, count: 0, bytes: 0 };
            let all = self.unacknowledged.get_or_insert(none);
            (all.count, all.bytes) = (all.count + 1, all.bytes + bytes);
        }
    }

    /// True if what has come must be acknowledged now.
    pub(crate) fn must_acknowledge(&self, now: Instant) -> bool {
        self.unacknowledged.is_some_and(|all| all.is_due(now))
    }

    /// The time at which what has come must be acknowledged.
    pub(crate) fn acknowledge_at(&self) -> Option<Instant> {
        self.unacknowledged.map(|all| all.deadline())
    }

    /// The peer has everything up to `seq`.
    pub(crate) fn acked(&mut self, seq: u64) {
        while self.sent > 0 && self.out.front().is_some_and(|(s, _)| *s <= seq) {
            self.pop_acked();
        }
    }

    fn pop_acked(&mut self) {
        if let Some((_, msg)) = self.out.pop_front() {
            self.queued -= size(&msg);
            self.sent = self.sent.saturating_sub(1);
        }
    }

    /// A new connection, whose peer has everything up to `seq`: the rest is sent again.
    pub(crate) fn rewind(&mut self, seq: u64) {
        while self.out.front().is_some_and(|(s, _)| *s <= seq) {
            self.pop_acked();
        }
        self.sent = 0;
    }
}

/// A client's request to resume its session.
#[derive(Clone, PartialEq, Debug)]
pub struct Resume {
    /// The server's name for the session.
    pub server_cookie: u64,
    /// The client's name for it.
    pub client_cookie: u64,
    /// The entity that authenticated on the new connection.
    pub entity: EntityName,
    /// Its global id.
    pub global_id: u64,
    /// Its addresses.
    pub addrs: AddrVec,
}

/// The result of [`SessionTable::claim`].
#[derive(Debug)]
pub enum Claim<K> {
    /// There is no such session: resume with `None`, and the client is told to start over.
    Unknown,
    /// It was waiting.
    Parked(K, Box<Session>),
    /// Its old connection does not know yet that it is dead: take it from there with
    /// [`crate::Conn::take_session`], which closes it.
    Live(K),
}

/// The lossless sessions of one role by server cookie. `K` is the runtime's id of a logical connection, which
/// stays the same for the role.
#[derive(Debug)]
pub struct SessionTable<K> {
    entries: BTreeMap<u64, Entry<K>>,
}

#[derive(Debug)]
struct Entry<K> {
    key: K,
    client_cookie: u64,
    owner: Owner,
    /// The session and since when it waits, while it has no connection.
    parked: Option<(Box<Session>, Instant)>,
}

impl<K> Default for SessionTable<K> {
    fn default() -> Self {
        Self { entries: BTreeMap::new() }
    }
}

impl<K: Copy + PartialEq> SessionTable<K> {
    /// No sessions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sessions known, with and without a connection.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Parks the session of a broken connection. Returns it if nobody may resume it.
    pub fn park(&mut self, key: K, session: Session, now: Instant) -> Option<Session> {
        let Some(owner) = session.owner.clone().filter(|_| session.server_cookie != 0 && session.lossless)
        else {
            return Some(session);
        };
        let client_cookie = session.client_cookie;
        let cookie = session.server_cookie;
        self.entries
            .insert(cookie, Entry { key, client_cookie, owner, parked: Some((Box::new(session), now)) });
        None
    }

    /// Records that session `cookie` is on connection `key`, after `Ready` of a lossless connection. This
    /// ends a session of the same client with the same client cookie; its key is returned, for the caller to
    /// close.
    pub fn live(
        &mut self,
        key: K,
        cookie: u64,
        client_cookie: u64,
        entity: &EntityName,
        global_id: u64,
    ) -> Option<K> {
        let owner = Owner { entity: entity.clone(), global_id };
        let same = |e: &Entry<K>| {
            e.owner == owner && client_cookie != 0 && e.client_cookie == client_cookie && e.key != key
        };
        let old = self.entries.iter().find(|(c, e)| **c != cookie && same(e)).map(|(c, e)| (*c, e.key));
        self.entries.insert(cookie, Entry { key, client_cookie, owner: owner.clone(), parked: None });
        let (old_cookie, old_key) = old?;
        self.entries.remove(&old_cookie);
        Some(old_key)
    }

    /// Looks up the session that a client wants to resume. Its owner must be the entity that authenticated on
    /// the new connection.
    pub fn claim(&mut self, want: &Resume) -> Claim<K> {
        let owner = Owner { entity: want.entity.clone(), global_id: want.global_id };
        match self.entries.get_mut(&want.server_cookie) {
            Some(e) if e.owner == owner && e.client_cookie == want.client_cookie => match e.parked.take() {
                Some((session, _)) => Claim::Parked(e.key, session),
                None => Claim::Live(e.key),
            },
            _ => Claim::Unknown,
        }
    }

    /// The parked session of `key`, to queue messages on.
    pub fn parked_mut(&mut self, key: K) -> Option<&mut Session> {
        let entry = self.entries.values_mut().find(|e| e.key == key)?;
        entry.parked.as_mut().map(|(s, _)| &mut **s)
    }

    /// Forgets a session, closed by us or by the client.
    pub fn remove(&mut self, key: K) {
        self.entries.retain(|_, e| e.key != key);
    }

    /// Drops sessions parked before `before`. Returns their keys, for the caller to close.
    pub fn expire(&mut self, before: Instant) -> Vec<K> {
        let old = |e: &Entry<K>| e.parked.as_ref().is_some_and(|(_, since)| *since < before);
        let keys = self.entries.values().filter(|e| old(e)).map(|e| e.key).collect();
        self.entries.retain(|_, e| !old(e));
        keys
    }
}
