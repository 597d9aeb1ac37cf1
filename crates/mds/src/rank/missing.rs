//! Clients of the former life that have not come back (ADR 0007). The rank goes on without them after a short wait; what
//! they may hold stays theirs until they come, or are evicted.
//!
//! The record of what they may hold is in the inodes: who has a [`fsfmt::ClientRange`] there may hold write and exclusive
//! bits, or a lock. Such an inode gets a presumed cap as soon as it is in the cache, so that whatever conflicts waits as
//! for any holder. Shared bits are not recorded: who comes late loses them on all that has changed meanwhile.

use super::{Effect, Rank, Stage};
use crate::cap::{self, Cap};
use crate::session::SessionState;
use crate::types::{ClientId, Need};
use fsfmt::tables::SessionRecord;
use fsfmt::{Ino, InodeKey, Update};
use msgs::{
    Body, CapBody, CapPeer, CapReconnect, ClientCaps, ClientReconnect, ClientSession, cap_op, session_op,
};
use node::Level;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use stdx::Instant;
use wire::Timespec;

/// How long clients have to come back after a restart: Ceph's `mds_reconnect_timeout`.
const RECONNECT_WINDOW: Duration = Duration::from_secs(45);
/// How long the rank waits for all of them before it goes on with those that came. Clients that see the monitors' map at
/// once are there within milliseconds; what is waited for here delays everybody.
const GRACE: Duration = Duration::from_millis(500);
/// Messages of clients that are kept until they can be looked at.
const MOST_HELD_BACK: usize = 1_000_000;

/// All that are missing.
#[derive(Default)]
pub(super) struct Missing {
    clients: BTreeMap<ClientId, Absentee>,
    /// When the rank goes on.
    go_on: Option<Instant>,
    /// When those that are left are evicted.
    until: Option<Instant>,
    /// Caps that are claimed on inodes that are being loaded.
    claims: BTreeMap<InodeKey, Vec<(ClientId, CapReconnect)>>,
    /// Those that have claimed everything.
    back: Vec<ClientId>,
    /// Inodes that this life has changed, or given write bits on, while somebody was missing.
    changed: BTreeSet<InodeKey>,
    held_back: usize,
}

/// One that is missing.
#[derive(Default)]
struct Absentee {
    /// Its claims on inodes that are being loaded.
    loading: usize,
    /// It has claimed all that it holds.
    has_claimed: bool,
    /// Its claims on what is not there.
    gone: Vec<(InodeKey, u64)>,
    /// A former life went on without it already, and knew alone what has changed then.
    was_absent: bool,
    /// What it has said since: requests and flushes of the former life come before its claims.
    said: Vec<(u64, Body)>,
}

impl Missing {
    /// Whether nobody is.
    pub fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    /// When something is to be done.
    pub fn deadline(&self) -> Option<Instant> {
        self.go_on
    }

    /// An inode is not any more what a missing client may believe.
    pub fn note_change(&mut self, ino: InodeKey) {
        if !self.clients.is_empty() {
            self.changed.insert(ino);
        }
    }
}

/// No rank gives out as many; a claim of a higher one was made up.
const CAP_IDS_END: u64 = 1 << 62;

impl Rank {
    /// The former life is replayed: all its clients are missing.
    pub(super) fn expect_clients(&mut self) {
        let absentee =
            |record: &SessionRecord| Absentee { was_absent: record.was_absent, ..Absentee::default() };
        self.missing.clients = self.sessions.map.iter().map(|(c, s)| (*c, absentee(&s.record))).collect();
        let cached: Vec<InodeKey> = self.cache.inodes.keys().copied().collect();
        cached.into_iter().for_each(|ino| self.presume_holders(ino));
    }

    /// Clients may come back from now on.
    pub(super) fn open_reconnect_window(&mut self) {
        let now = self.now.mono;
        self.missing.go_on = Some(now + GRACE);
        self.missing.until = Some(now + RECONNECT_WINDOW);
    }

    /// An inode is in the cache: missing clients keep what they may hold of it.
    pub(super) fn presume_holders(&mut self, ino: InodeKey) {
        if self.missing.clients.is_empty() {
            return;
        }
        let Some(inode) = self.cache.inodes.get_mut(&ino) else { return };
        for (client, range) in &inode.data.ranges {
            let client = ClientId(*client);
            if !self.missing.clients.contains_key(&client) || inode.caps.contains_key(&client) {
                continue;
            }
            let bits = if range.max_size > 0 { cap::LONER } else { msgs::cap::PIN };
            inode.caps.insert(client, Cap::presumed(bits));
            if let Some(s) = self.sessions.map.get_mut(&client) {
                s.inodes.insert(ino);
            }
        }
    }

    /// Keeps what a client says that is missing, or says that it can be looked at now.
    pub(super) fn hold_back(&mut self, client: ClientId, tid: u64, body: Body) -> Option<Body> {
        if self.missing.clients.get(&client).is_none_or(|a| self.begins_anew(a, &body)) {
            return Some(body);
        }
        if self.missing.held_back < MOST_HELD_BACK
            && let Some(absentee) = self.missing.clients.get_mut(&client)
        {
            self.missing.held_back += 1;
            absentee.said.push((tid, body));
        }
        None
    }

    /// Whether a client asks for a session that has given up its former one, and holds nothing.
    fn begins_anew(&self, absentee: &Absentee, body: &Body) -> bool {
        let asks = matches!(body, Body::ClientSession(m) if m.head.op == session_op::REQUEST_OPEN);
        asks && self.stage == Stage::Active && !absentee.has_claimed && absentee.loading == 0
    }

    /// A client that begins anew holds nothing of before.
    pub(super) fn forget_absence(&mut self, client: ClientId) {
        if let Some(absentee) = self.missing.clients.remove(&client) {
            self.missing.held_back -= absentee.said.len();
            self.take_back(client, Vec::new());
        }
    }

    /// The rank serves: those that have asked for a new session get one.
    pub(super) fn hear_absentees(&mut self) {
        let clients: Vec<ClientId> = self.missing.clients.keys().copied().collect();
        for client in clients {
            let Some(absentee) = self.missing.clients.get_mut(&client) else { continue };
            let said = std::mem::take(&mut absentee.said);
            self.missing.held_back -= said.len();
            for (tid, body) in said {
                self.client_message(self.now, client, tid, body);
            }
        }
    }

    /// What a client says it holds.
    pub(super) fn client_reconnect(&mut self, client: ClientId, m: ClientReconnect) {
        let absent = self.sessions.map.get(&client).is_some_and(|s| s.state == SessionState::Absent);
        let waited_for = self.missing.clients.get(&client).is_some_and(|a| !a.has_claimed);
        if self.stage < Stage::Reconnecting || !absent || !waited_for {
            let close = ClientSession::of(session_op::CLOSE, 0);
            self.out.push(Effect::Send(client, 0, close.into()));
            return;
        }
        let mut loading = 0;
        for (ino, claim) in m.caps {
            if claim.cap_id < CAP_IDS_END {
                self.next_cap = self.next_cap.max(claim.cap_id + 1);
            }
            let ino = Ino(ino).head();
            if self.cache.inodes.contains_key(&ino) {
                self.claim_cap(client, ino, &claim);
            } else {
                loading += 1;
                self.missing.claims.entry(ino).or_default().push((client, claim));
                self.load(Need::Inode(ino), None, None);
            }
        }
        if let Some(absentee) = self.missing.clients.get_mut(&client) {
            absentee.loading += loading;
            absentee.has_claimed = !m.more;
        }
        self.note_if_back(client);
    }

    fn note_if_back(&mut self, client: ClientId) {
        if self.missing.clients.get(&client).is_some_and(|a| a.has_claimed && a.loading == 0) {
            self.missing.back.push(client);
        }
    }

    fn claim_cap(&mut self, client: ClientId, ino: InodeKey, claim: &CapReconnect) {
        let Some(inode) = self.cache.inodes.get_mut(&ino) else { return };
        inode.caps.insert(client, Cap::claimed(claim.cap_id, claim.issued, claim.wanted));
        if let Some(s) = self.sessions.map.get_mut(&client) {
            s.inodes.insert(ino);
        }
        self.claim_locks(client, ino, &claim.flock);
    }

    /// An inode was loaded, or is not there: caps that are claimed on it.
    pub(super) fn settle_claims(&mut self, ino: InodeKey) {
        for (client, claim) in self.missing.claims.remove(&ino).unwrap_or_default() {
            let Some(absentee) = self.missing.clients.get_mut(&client) else { continue };
            absentee.loading -= 1;
            if self.cache.inodes.contains_key(&ino) {
                self.claim_cap(client, ino, &claim);
            } else {
                self.log(Level::Info, "claimed_cap_dropped", format!("{client} claims {ino}, which is gone"));
                if let Some(absentee) = self.missing.clients.get_mut(&client) {
                    absentee.gone.push((ino, claim.cap_id));
                }
            }
            self.note_if_back(client);
        }
    }

    /// Serves again those that have claimed everything.
    pub(super) fn welcome_back(&mut self) {
        for client in std::mem::take(&mut self.missing.back) {
            let Some(absentee) = self.missing.clients.remove(&client) else { continue };
            let auth = self.auth_of(client);
            let now = self.now.mono;
            if let Some(s) = self.sessions.map.get_mut(&client) {
                s.state = SessionState::Open;
                s.renewed = now;
                s.auth = auth;
            }
            // Before it may believe anything again.
            if self.stage == Stage::Active || absentee.was_absent {
                self.take_old_beliefs(client, absentee.was_absent);
            }
            let mut open = ClientSession::of(session_op::OPEN, 0);
            open.head.stamp = Timespec::from(self.now.wall);
            open.features = ClientSession::feature_bytes(super::sessions::FEATURES);
            let lsn = self.journal.last;
            self.send(client, lsn, 0, open);
            for (ino, cap_id) in absentee.gone {
                let (op, ino, body) = (cap_op::EXPORT, ino.ino.0, CapBody::Peer(CapPeer::default()));
                self.send(client, lsn, 0, ClientCaps { op, ino, cap_id, body, ..ClientCaps::default() });
            }
            self.missing.held_back -= absentee.said.len();
            self.take_back(client, absentee.said);
        }
        self.check_reconnect_window();
    }

    /// A client is back: what was presumed and not claimed is free, after what it has said was heard.
    fn take_back(&mut self, client: ClientId, said: Vec<(u64, Body)>) {
        let held = self.sessions.map.get(&client).map(|s| s.inodes.clone()).unwrap_or_default();
        for ino in &held {
            let Some(inode) = self.cache.inodes.get_mut(ino) else { continue };
            if inode.caps.get(&client).is_some_and(|c| c.is_presumed) {
                inode.caps.remove(&client);
                if let Some(s) = self.sessions.map.get_mut(&client) {
                    s.inodes.remove(ino);
                }
            }
        }
        for (tid, body) in said {
            self.client_message(self.now, client, tid, body);
        }
        if self.stage == Stage::Active {
            held.into_iter().for_each(|ino| self.caps_changed(ino));
        }
        if self.missing.clients.is_empty() {
            self.missing.changed.clear();
        }
    }

    /// Takes back what a client that came late can't hold any more, because the inode has changed without it. Write and
    /// exclusive bits were kept for it. What was revoked between its claims and now it is told now. Where a former life went on
    /// without it, anything may have changed.
    fn take_old_beliefs(&mut self, client: ClientId, was_absent: bool) {
        let now = self.now.mono;
        let held = self.sessions.map.get(&client).map(|s| s.inodes.clone()).unwrap_or_default();
        for ino in held {
            let has_changed = was_absent || self.missing.changed.contains(&ino);
            let Some(inode) = self.cache.inodes.get_mut(&ino) else { continue };
            let is_outdated = has_changed && !inode.is_recorded(client);
            let Some(cap) = inode.caps.get_mut(&client) else { continue };
            if is_outdated && cap.give(msgs::cap::PIN, now) || cap.is_revoking() {
                self.send_cap(cap_op::REVOKE, ino, client);
            }
        }
    }

    /// Writes down whose beliefs may be of before a time when the rank went on without them.
    fn note_missing(&mut self, is_in_doubt: impl Fn(ClientId, bool) -> bool) {
        let all = self.sessions.map.iter();
        let clients = all.filter(|(c, s)| is_in_doubt(**c, s.record.was_absent)).map(|(c, _)| c.0).collect();
        self.commit_event("clients missing", vec![Update::Absent { clients }]);
    }

    /// A client renews: where it has confirmed all that it had to give up, its beliefs are not in doubt any more.
    pub(super) fn settle_doubts(&mut self, client: ClientId) {
        let Some(session) = self.sessions.map.get(&client).filter(|s| s.record.was_absent) else { return };
        let is_revoking = |ino: &InodeKey| {
            let cap = self.cache.inodes.get(ino).and_then(|inode| inode.caps.get(&client));
            cap.is_some_and(Cap::is_revoking)
        };
        let is_here = self.stage == Stage::Active && !self.missing.clients.contains_key(&client);
        if is_here && !session.inodes.iter().any(is_revoking) {
            self.note_missing(|other, was| was && other != client);
        }
    }

    /// Ends the reconnect stage when all have come or enough was waited, and evicts those that have not come in time.
    pub(super) fn check_reconnect_window(&mut self) {
        if self.stage < Stage::Reconnecting {
            return;
        }
        let now = self.now.mono;
        if self.missing.until.is_some_and(|w| now >= w) {
            self.missing.until = None;
            let late: Vec<ClientId> =
                self.missing.clients.iter().filter(|(_, a)| !a.has_claimed).map(|(c, _)| *c).collect();
            late.into_iter().for_each(|client| self.evict(client));
        }
        if self.stage != Stage::Reconnecting {
            return;
        }
        let waited = self.missing.go_on.is_some_and(|at| now >= at);
        if self.missing.is_empty() || waited {
            self.missing.go_on = None;
            if !self.missing.is_empty() {
                let text = format!("{} clients have not come back yet", self.missing.clients.len());
                self.log(Level::Info, "clients_missing", text);
                // In the journal before all that changes without them.
                let missing: BTreeSet<ClientId> = self.missing.clients.keys().copied().collect();
                self.note_missing(|client, was| was || missing.contains(&client));
            }
            self.stage = Stage::Rejoined;
            self.out.push(Effect::Reached(Stage::Rejoined));
        }
    }

    /// A client that was missing is refused by the OSDs: nothing is kept for it any more.
    pub(super) fn drop_absentee(&mut self, client: ClientId) {
        let Some(absentee) = self.missing.clients.remove(&client) else { return };
        self.missing.held_back -= absentee.said.len();
        for claims in self.missing.claims.values_mut() {
            claims.retain(|(c, _)| *c != client);
        }
        if self.missing.clients.is_empty() {
            self.missing.changed.clear();
        }
    }
}
