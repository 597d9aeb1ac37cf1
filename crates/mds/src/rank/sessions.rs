//! Sessions of clients: opening, renewing, closing, silence and eviction (PROTOCOL.md 6.2).

use super::{Effect, Rank, Stage};
use crate::session::{ClientPeer, Session, SessionState};
use crate::types::{ClientId, Lsn, OpId, Segment};
use auth::MdsCap;
use fsfmt::tables::SessionRecord;
use fsfmt::{InodeKey, Update};
use msgs::{Body, ClientSession, session_op};
use node::Level;
use std::time::Duration;
use stdx::Now;
use wire::Timespec;

/// What we offer: up to 9 (versioned replies), lazy wanted caps, several reconnect messages. Not asynchronous creates.
pub(super) const FEATURES: u64 = 0x1bff;

impl Rank {
    /// A client is connected.
    pub fn client_connected(&mut self, client: ClientId, peer: ClientPeer) {
        if let Some(s) = self.sessions.map.get_mut(&client) {
            s.auth = peer.caps.clone();
        }
        self.peers.insert(client, peer);
    }

    /// A message of a client.
    pub fn client_message(&mut self, now: Now, client: ClientId, tid: u64, body: Body) {
        self.now = now;
        if let Body::ClientReconnect(m) = body {
            // Before the map says that clients may come back, only their eagerness is noted.
            return if self.stage == Stage::Replayed {
                self.held_back.push_back((client, tid, Body::ClientReconnect(m)));
            } else {
                self.client_reconnect(client, *m);
            };
        }
        let Some(body) = self.hold_back(client, tid, body) else { return };
        if self.stage != Stage::Active {
            // Clients wait for answers: what comes before we are active is bounded by what they have in flight.
            const MOST: usize = 1_000_000;
            if self.held_back.len() < MOST {
                self.held_back.push_back((client, tid, body));
            }
            return;
        }
        self.dispatch(client, tid, body);
    }

    pub(super) fn dispatch(&mut self, client: ClientId, tid: u64, body: Body) {
        match body {
            Body::ClientSession(m) => self.client_session(client, &m),
            Body::ClientRequest(m) => self.client_request(client, tid, *m),
            Body::ClientCaps(m) => self.client_caps(client, tid, &m),
            Body::ClientCapRelease(m) => self.client_release(client, &m),
            Body::ClientLease(_) | Body::ClientMetrics(_) => {}
            other => {
                let detail = format!("{client} sends {}", other.name());
                self.log(Level::Debug, "unexpected_message_seen", detail);
            }
        }
    }

    fn client_session(&mut self, client: ClientId, m: &ClientSession) {
        match m.head.op {
            session_op::REQUEST_OPEN => self.open_session(client, m),
            session_op::REQUEST_RENEWCAPS => self.renew(client, m.head.seq),
            session_op::REQUEST_CLOSE => self.close_session(client),
            // The journal is written as soon as it can be, and replies wait for nothing else.
            session_op::REQUEST_FLUSH_MDLOG => {}
            _ => {}
        }
    }

    fn session_message(&self, op: u32, seq: u64) -> ClientSession {
        let mut m = ClientSession::of(op, seq);
        m.head.stamp = Timespec::from(self.now.wall);
        m
    }

    fn open_session(&mut self, client: ClientId, m: &ClientSession) {
        let peer = self.peers.get(&client).cloned().unwrap_or_default();
        self.forget_absence(client);
        if let Some(s) = self.sessions.map.get_mut(&client) {
            if s.state == SessionState::Absent {
                s.state = SessionState::Open;
                s.renewed = self.now.mono;
            }
            return self.say_open(client, self.journal.last);
        }
        if !peer.caps.allows_fs(&self.cfg.fs_name) {
            let mut reject = self.session_message(session_op::REJECT, 0);
            let text = format!("its key allows nothing in file system {}", self.cfg.fs_name);
            reject.metadata.insert("error_string".to_owned(), text);
            return self.send(client, 0, 0, reject);
        }
        let mut words = vec![0u64; m.features.len().div_ceil(8)];
        for (i, byte) in m.features.iter().enumerate() {
            words[i / 8] |= u64::from(*byte) << (8 * (i % 8));
        }
        let record = SessionRecord {
            addrs: peer.addrs,
            name: peer.name,
            metadata: m.metadata.clone(),
            features: words,
            ..SessionRecord::default()
        };
        let lsn = self.commit_event(
            "session open",
            vec![Update::SessionOpen { client: client.0, record: Box::new(record) }],
        );
        self.say_open(client, lsn);
    }

    fn say_open(&mut self, client: ClientId, lsn: Lsn) {
        let mut open = self.session_message(session_op::OPEN, 0);
        open.features = ClientSession::feature_bytes(FEATURES);
        self.send(client, lsn, 0, open);
    }

    pub(super) fn apply_session_open(&mut self, client: ClientId, record: SessionRecord, segment: Segment) {
        let auth = self.peers.get(&client).map(|p| p.caps.clone()).unwrap_or_default();
        let state = if self.stage == Stage::Replaying { SessionState::Absent } else { SessionState::Open };
        self.sessions.map.insert(client, Session::new(record, auth, state, self.now.mono));
        self.sessions.mark(client, segment);
    }

    fn renew(&mut self, client: ClientId, seq: u64) {
        let now = self.now.mono;
        let Some(s) = self.sessions.map.get_mut(&client) else { return };
        s.renewed = now;
        let was_stale = s.state == SessionState::Stale;
        if was_stale {
            s.state = SessionState::Open;
        }
        let inodes: Vec<InodeKey> = if was_stale { s.inodes.iter().copied().collect() } else { Vec::new() };
        let m = self.session_message(session_op::RENEWCAPS, seq);
        self.send(client, 0, 0, m);
        for ino in inodes {
            self.eval(ino, None);
        }
        self.settle_doubts(client);
    }

    /// Counts that a client goes too far, and says so once for each session: `text` is given who it is and from where.
    pub(super) fn say_once(
        &mut self,
        client: ClientId,
        level: Level,
        name: &'static str,
        text: impl FnOnce(&str) -> String,
    ) {
        let Some(session) = self.sessions.map.get_mut(&client) else { return };
        let said = std::mem::replace(&mut session.refused, true);
        let who = format!("{} from {}", session.record.name, session.record.addrs.front());
        self.log(if said { Level::Debug } else { level }, name, text(&who));
    }

    fn close_session(&mut self, client: ClientId) {
        if !self.sessions.map.contains_key(&client) {
            let m = self.session_message(session_op::CLOSE, 0);
            return self.send(client, 0, 0, m);
        }
        let m = self.session_message(session_op::CLOSE, 0);
        let lsn = self.end_session(client, "session close");
        // Its session is gone with the event, but the answer waits for it like any other.
        self.farewells.push((lsn, client, m.into()));
    }

    /// Takes away what a client holds and ends its session.
    fn end_session(&mut self, client: ClientId, what: &str) -> Lsn {
        let ops: Vec<OpId> =
            self.ops.iter().filter(|(_, op)| op.client == client).map(|(id, _)| *id).collect();
        for id in ops {
            self.drop_op(id);
        }
        let inodes: Vec<InodeKey> =
            self.sessions.map.get(&client).map(|s| s.inodes.iter().copied().collect()).unwrap_or_default();
        for ino in inodes {
            self.drop_locks(client, ino);
            self.remove_cap(ino, client);
        }
        self.commit_event(what, vec![Update::SessionClose { client: client.0 }])
    }

    /// Sends last messages whose events are durable.
    pub(super) fn after_durable(&mut self) {
        let durable = self.journal.durable;
        let (ready, later) =
            std::mem::take(&mut self.farewells).into_iter().partition(|(lsn, ..)| *lsn <= durable);
        self.farewells = later;
        for (_, client, body) in ready {
            self.out.push(Effect::Send(client, 0, body));
        }
        self.boot_durable();
    }

    /// Once a second: who is silent, who does not give back what was revoked, who holds too much.
    pub(super) fn check_sessions(&mut self) {
        self.check_reconnect_window();
        if self.stage != Stage::Active {
            return;
        }
        // Where we ourselves were stopped, nobody could renew.
        let pause = self.now.mono.since(self.last_check);
        self.last_check = self.now.mono;
        if pause > Duration::from_secs(10) {
            let now = self.now.mono;
            self.sessions.map.values_mut().for_each(|s| s.renewed = now);
        }
        let stale_after = Duration::from_secs(self.cfg.session_timeout_s.into());
        let evict_after = Duration::from_secs(self.cfg.session_autoclose_s.into());
        let clients: Vec<ClientId> = self.sessions.map.keys().copied().collect();
        for client in clients {
            let late = self.late_revocation(client);
            let s = &self.sessions.map[&client];
            let silent = self.now.mono.since(s.renewed);
            match s.state {
                SessionState::Open if silent > stale_after => {
                    let m = self.session_message(session_op::STALE, 0);
                    self.send(client, 0, 0, m);
                    self.set_state(client, SessionState::Stale);
                }
                // Others wait for what it does not give back.
                SessionState::Stale if silent > evict_after || self.withholds(client) => self.evict(client),
                SessionState::Open if late > evict_after => self.evict(client),
                _ => {}
            }
        }
        self.recall();
    }

    fn set_state(&mut self, client: ClientId, state: SessionState) {
        if let Some(s) = self.sessions.map.get_mut(&client) {
            s.state = state;
        }
    }

    /// Whether a client has not given back something that was revoked.
    fn withholds(&self, client: ClientId) -> bool {
        let Some(s) = self.sessions.map.get(&client) else { return false };
        let revoking = |ino: &InodeKey| {
            self.cache
                .inodes
                .get(ino)
                .and_then(|i| i.caps.get(&client))
                .is_some_and(crate::cap::Cap::is_revoking)
        };
        s.inodes.iter().any(revoking)
    }

    /// For how long an operation has waited for this client's answer to a revocation.
    fn late_revocation(&self, client: ClientId) -> Duration {
        let mut longest = Duration::ZERO;
        let waited = self.ops.values().flat_map(|op| &op.waiting);
        for need in waited {
            let crate::types::Need::Revoke { ino, except, .. } = need else { continue };
            if *except == Some(client.into()) {
                continue;
            }
            let cap = self.cache.inodes.get(ino).and_then(|i| i.caps.get(&client));
            if let Some(at) = cap.and_then(|c| c.revoked_at) {
                longest = longest.max(self.now.mono.since(at));
            }
        }
        longest
    }

    /// Begins to evict a client: the OSDs must refuse it before anybody else gets what it holds.
    pub(super) fn evict(&mut self, client: ClientId) {
        let Some(s) = self.sessions.map.get_mut(&client) else { return };
        if s.state == SessionState::Evicting {
            return;
        }
        s.state = SessionState::Evicting;
        let addrs = s.record.addrs.clone();
        self.log(Level::Info, "client_evicted", format!("{client} is silent or does not give back caps"));
        self.out.push(Effect::Evict(client, addrs));
    }

    /// The OSDs refuse a client.
    pub fn evicted(&mut self, now: Now, client: ClientId) {
        self.now = now;
        if self.sessions.map.get(&client).is_some_and(|s| s.state == SessionState::Evicting) {
            self.drop_absentee(client);
            self.end_session(client, "session evict");
            self.out.push(Effect::Closed(client));
            self.check_reconnect_window();
        }
    }

    /// Asks clients for caps where these keep the cache above its limit.
    fn recall(&mut self) {
        let limit = self.cfg.options.cache_inodes;
        if self.cache.stats().inodes <= limit * 9 / 10 {
            return;
        }
        let total: usize = self.sessions.map.values().map(|s| s.inodes.len()).sum();
        if total == 0 {
            return;
        }
        let keep = limit * 6 / 10;
        let now = self.now.mono;
        let clients: Vec<(ClientId, usize)> =
            self.sessions.map.iter().map(|(c, s)| (*c, s.inodes.len())).collect();
        for (client, held) in clients {
            let share = keep * held / total;
            if held <= share || held < 16 || !self.is_open(client) {
                continue;
            }
            let mut m = self.session_message(session_op::RECALL_STATE, 0);
            m.head.max_caps = u32::try_from(share.max(16)).unwrap_or(u32::MAX);
            self.send(client, 0, 0, m);
            if let Some(s) = self.sessions.map.get_mut(&client) {
                s.recalled = Some(now);
            }
        }
    }

    /// The addresses of a client that has a session.
    pub fn client_addrs(&self, client: ClientId) -> Option<&wire::AddrVec> {
        self.sessions.map.get(&client).map(|s| &s.record.addrs)
    }

    /// Sessions for people.
    pub fn session_list(&self) -> Vec<serde_json::Value> {
        let one = |(client, s): (&ClientId, &Session)| {
            serde_json::json!({
                "id": client.0,
                "state": format!("{:?}", s.state).to_lowercase(),
                "num_caps": s.inodes.len(),
                "entity": s.record.name,
                "addrs": s.record.addrs.0.iter().map(ToString::to_string).collect::<Vec<_>>(),
                "client_metadata": s.record.metadata,
                "requests_in_flight": s.running.len(),
                "messages_queued": s.queued(),
            })
        };
        self.sessions.map.iter().map(one).collect()
    }

    /// Operations under way and what each waits for.
    pub fn op_list(&self) -> Vec<serde_json::Value> {
        let one = |op: &super::run::Op| {
            let path = String::from_utf8_lossy(&op.request.path.path).into_owned();
            serde_json::json!({
                "client": op.client.0,
                "tid": op.tid,
                "op": op.request.op.to_string(),
                "path": format!("#{:x}/{path}", op.request.path.ino),
                "waits_for": op.waiting.iter().map(|n| format!("{n:?}")).collect::<Vec<_>>(),
            })
        };
        self.ops.values().map(one).collect()
    }

    /// The keys' caps of a session that came back.
    pub(super) fn auth_of(&self, client: ClientId) -> MdsCap {
        self.peers.get(&client).map(|p| p.caps.clone()).unwrap_or_default()
    }
}
