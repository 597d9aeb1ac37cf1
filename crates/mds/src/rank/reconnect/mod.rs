//! Clients of the predecessor that have not reconnected (ADR 0007). After a short wait the rank goes on
//! without them; their capabilities stay reserved until they return or are evicted.
//!
//! The inodes record those capabilities: a client with a [`fsfmt::ClientRange`] may hold write and exclusive
//! bits, or a lock. Such an inode gets a presumed capability as soon as it is cached, so that conflicting
//! operations wait as for any holder. Shared bits are not recorded: a late client loses them on every inode
//! that has changed meanwhile.

mod claims;
mod unclaimed;
mod unflushed;
mod window;

pub(super) use claims::{claim_cap, tell_new_session};
pub(super) use unclaimed::handed_over;
pub(super) use unflushed::Unflushed;

use super::effect::Stage;
use super::env::{Due, Env};
use super::sessions::Sessions;
use crate::authority::Auth;
use crate::cache::Cache;
use crate::cap::{Cap, Moved};
use crate::types::ClientId;
use fsfmt::InodeKey;
use msgs::{Body, CapReconnect, RefusedLock, session_op};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use stdx::Instant;
use unclaimed::{Unclaimed, recorded};

/// Messages of clients that are kept until they can be handled.
const MAX_HELD_BACK: usize = 1_000_000;

/// A message of a client: its tid and body.
pub(super) type Said = (u64, Body);

/// A client of the predecessor that is absent.
#[derive(Default)]
pub(super) struct AbsentClient {
    /// Number of its claims on inodes that are being loaded.
    loading: usize,
    /// True once it has claimed everything that it holds.
    has_claimed: bool,
    /// Its claims on inodes that do not exist, unless a request that it repeats makes them.
    missing: Vec<(InodeKey, CapReconnect)>,
    /// The file locks that it has claimed and can't have.
    refused: BTreeSet<RefusedLock>,
    /// An earlier incarnation of the rank went on without it, and only that one knew what has changed since.
    was_absent: bool,
    /// Its messages since: repeated requests and flushes from before the restart arrive before its claims.
    said: Vec<Said>,
    /// What these flushes tell.
    unflushed: Unflushed,
    /// What other ranks have handed over of it meanwhile, which it could not be told.
    imported: Vec<(InodeKey, Moved)>,
}

/// A claim that waits for a load.
struct Waiting {
    client: ClientId,
    ino: InodeKey,
    claim: CapReconnect,
}

/// A client that has come back.
#[derive(Default)]
pub(super) struct Resumed {
    /// Its kept messages, to be handled now.
    pub said: Vec<Said>,
    /// The inodes that it held until now, for which others may wait.
    pub held: Vec<InodeKey>,
    /// Its claims on inodes that do not exist.
    pub missing: Vec<(InodeKey, CapReconnect)>,
}

/// The absent clients, their claims, and the changes made without them.
///
/// Invariants: everything kept concerns absent clients; each claim that waits for a load is counted with its
/// client; nothing is kept once no client is absent.
#[derive(Default)]
pub(super) struct Reconnect {
    absent: BTreeMap<ClientId, AbsentClient>,
    /// Time at which the rank goes on without absent clients.
    go_on: Option<Instant>,
    /// Time at which clients could begin to reconnect.
    opened: Option<Instant>,
    /// Time at which some of those that remain are evicted.
    until: Option<Instant>,
    /// Claims by what they wait for: the inode, or a directory above it, is being loaded.
    claims: BTreeMap<InodeKey, Vec<Waiting>>,
    /// Clients that have claimed everything.
    reconnected: VecDeque<ClientId>,
    /// Inodes that this rank has changed, or given write bits on, while a client was absent.
    changed: BTreeSet<InodeKey>,
    /// Number of kept messages of absent clients.
    held_back: usize,
    /// Messages of clients that came before the rank was active.
    early: VecDeque<(ClientId, Said)>,
    unclaimed: Unclaimed,
}

impl Reconnect {
    /// True if a client is absent.
    pub fn has_absent(&self) -> bool {
        !self.absent.is_empty()
    }

    /// True if a client is absent, or its claims are not settled.
    pub fn is_absent(&self, client: ClientId) -> bool {
        self.absent.contains_key(&client)
    }

    /// True while other ranks may hand over what clients that have come back did not claim here.
    pub fn has_unclaimed(&self) -> bool {
        !self.unclaimed.is_empty()
    }

    /// No other rank hands over any more what clients did not claim here.
    pub fn end_unclaimed(&mut self, env: &mut Env, cache: &mut Cache) {
        self.unclaimed.end(env, cache);
    }

    /// Notes a change of an inode that absent clients may have cached.
    pub fn note_change(&mut self, ino: InodeKey) {
        if self.has_absent() {
            self.changed.insert(ino);
        }
    }

    /// Marks all clients of the replayed predecessor as absent.
    pub fn expect_clients(&mut self, cache: &mut Cache, sessions: &mut Sessions) {
        for (client, session) in sessions.iter() {
            let was_absent = session.record().was_absent;
            self.absent.insert(client, AbsentClient { was_absent, ..AbsentClient::default() });
        }
        let cached: Vec<InodeKey> = cache.inodes.keys().copied().collect();
        cached.into_iter().for_each(|ino| self.presume_holders(cache, sessions, ino));
    }

    /// Reserves the bits of absent clients, and of those that may hold more than they have claimed, on an
    /// inode that was cached. On a copy of another rank's they hold nothing of this one.
    pub fn presume_holders(&mut self, cache: &mut Cache, sessions: &mut Sessions, ino: InodeKey) {
        if !self.has_absent() && !self.has_unclaimed() {
            return;
        }
        let is_recorded = cache.inodes.get(&ino).is_some_and(|inode| !inode.data.ranges.is_empty());
        if !is_recorded || matches!(cache.authority(ino.ino), Ok(Auth::Rank(_))) {
            return;
        }
        let Some(inode) = cache.inodes.get_mut(&ino) else { return };
        self.unclaimed.reserve(inode);
        for (client, range) in inode.data.ranges.iter() {
            let client = ClientId(*client);
            if !self.absent.contains_key(&client) || inode.caps.contains_key(client) {
                continue;
            }
            inode.caps.insert(client, Cap::presumed(recorded(range)));
            sessions.hold(client, ino);
        }
    }

    /// Keeps a message of an absent client, or returns it if it can be handled now.
    pub fn hold_back(&mut self, env: &Env, client: ClientId, tid: u64, body: Body) -> Option<Body> {
        let Some(absent) = self.absent.get_mut(&client) else { return Some(body) };
        if env.stage() == Stage::Active && absent.starts_over(&body) {
            return Some(body);
        }
        if self.held_back < MAX_HELD_BACK {
            self.held_back += 1;
            if let Body::ClientCaps(m) = &body {
                absent.unflushed.note(m);
            }
            absent.said.push((tid, body));
        }
        None
    }

    /// Keeps a message that came before the rank was active. Clients wait for answers, so their requests in
    /// flight bound the number.
    pub fn keep_early(&mut self, client: ClientId, tid: u64, body: Body) {
        if self.early.len() < MAX_HELD_BACK {
            self.early.push_back((client, (tid, body)));
        }
    }

    /// The messages that came before the stage that was just entered.
    pub fn take_early(&mut self) -> VecDeque<(ClientId, Said)> {
        std::mem::take(&mut self.early)
    }

    /// Returns the kept messages of a client once the rank serves, because clients that ask for new sessions
    /// get them now.
    pub fn take_said(&mut self, client: ClientId) -> Vec<Said> {
        let Some(absent) = self.absent.get_mut(&client) else { return Vec::new() };
        let said = std::mem::take(&mut absent.said);
        self.held_back -= said.len();
        said
    }

    pub fn absent_clients(&self) -> Vec<ClientId> {
        self.absent.keys().copied().collect()
    }

    /// Handles a client that starts over with a new session and holds nothing of the old one. It may not have
    /// known of that session: unless that `is_all`, other ranks may hand over what it has claimed there.
    /// Returns what they have handed over meanwhile.
    pub fn abandon(
        &mut self,
        env: &mut Env,
        cache: &mut Cache,
        sessions: &mut Sessions,
        client: ClientId,
        is_all: bool,
    ) -> Vec<(InodeKey, Moved)> {
        let Some(absent) = self.remove(client) else { return Vec::new() };
        let held = release_presumed(cache, sessions, client);
        if !is_all {
            self.unclaimed.add(cache, client, &held);
        }
        held.into_iter().for_each(|ino| env.due(Due::CapsChanged(ino)));
        absent.imported
    }

    /// Notes what another rank has handed over of a client that is absent.
    pub fn keep_import(&mut self, ino: InodeKey, moved: Moved) {
        if let Some(absent) = self.absent.get_mut(&moved.client) {
            absent.imported.push((ino, moved));
        }
    }

    /// Forgets a client that the OSDs refuse.
    pub fn drop_client(&mut self, env: &mut Env, cache: &mut Cache, client: ClientId) {
        self.unclaimed.drop_client(env, cache, client);
        if self.remove(client).is_some() {
            self.claims.retain(|_, claims| {
                claims.retain(|waiting| waiting.client != client);
                !claims.is_empty()
            });
        }
    }

    fn remove(&mut self, client: ClientId) -> Option<AbsentClient> {
        let absent = self.absent.remove(&client)?;
        self.held_back -= absent.said.len();
        if self.absent.is_empty() {
            self.changed.clear();
        }
        Some(absent)
    }

    /// Asserts what holds between inputs.
    pub fn check(&self) {
        assert!(self.has_absent() || self.changed.is_empty(), "changes are noted for absent clients only");
        assert!(self.reconnected.is_empty(), "clients that have claimed everything are served");
        self.unclaimed.check();
    }

    /// Asserts the rest by a walk over all absent clients.
    pub fn check_all(&self) {
        let said: usize = self.absent.values().map(|a| a.said.len()).sum();
        assert_eq!(said, self.held_back, "messages that are held back are counted");
        let loading: usize = self.absent.values().map(|a| a.loading).sum();
        let claims: usize = self.claims.values().map(Vec::len).sum();
        assert_eq!(loading, claims, "claims that wait for loads are counted");
    }
}

impl AbsentClient {
    /// True if the client asks for a session after it gave up its old one, and holds nothing.
    fn starts_over(&self, body: &Body) -> bool {
        let asks = matches!(body, Body::ClientSession(m) if m.head.op == session_op::REQUEST_OPEN);
        asks && !self.has_claimed && self.loading == 0
    }
}

/// Frees presumed capabilities that a client did not claim; returns all inodes that it held until now.
fn release_presumed(cache: &mut Cache, sessions: &mut Sessions, client: ClientId) -> Vec<InodeKey> {
    let held = sessions.held(client);
    for ino in &held {
        let Some(inode) = cache.inodes.get_mut(ino) else { continue };
        if inode.caps.get(client).is_some_and(|c| c.is_presumed) {
            inode.caps.remove(client);
            sessions.release(client, *ino);
        }
    }
    held
}
