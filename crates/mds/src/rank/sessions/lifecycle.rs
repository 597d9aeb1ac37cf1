//! Lifecycle of a session: opened, renewed, stale, evicted or closed (docs/protocol.md 6.2).

use super::{ClientPeer, FEATURES, Session, SessionState, Sessions, numbers};
use crate::cache::Cache;
use crate::cap::Late;
use crate::config::RankConfig;
use crate::rank::commit::commit;
use crate::rank::effect::Effect;
use crate::rank::env::{Due, Env};
use crate::types::{ClientId, Lsn};
use fsfmt::Update;
use fsfmt::tables::SessionRecord;
use maps::Epoch;
use msgs::{Body, CLIENT_UUID, ClientSession, RefusedLock, session_metadata, session_op};
use node::Level;
use std::collections::BTreeSet;
use std::time::Duration;
use wire::AddrVec;

/// Pause of this daemon after which no client counts as silent, because none could renew.
const OWN_PAUSE: Duration = Duration::from_secs(10);
/// It is reported so often that a client does not give back what others wait for.
const REPORTS_EVERY_S: u64 = 30;
/// Minimum capabilities that a client is left with.
const MIN_CAPS: usize = 16;
/// Clients are asked for capabilities no more often.
const MIN_RECALL_INTERVAL: Duration = Duration::from_millis(100);

impl Sessions {
    /// Opens a session that a client asks for; inode numbers from `ino_next` on are free.
    pub fn open(
        &mut self,
        env: &mut Env,
        cache: &mut Cache,
        client: ClientId,
        m: &ClientSession,
        ino_next: u64,
    ) {
        if let Some(s) = self.map.get_mut(&client) {
            if s.state == SessionState::Absent {
                s.state = SessionState::Open;
                s.renewed = env.now();
            }
            return self.take_unasked(env, client);
        }
        let peer = self.peers.get(&client).cloned().unwrap_or_default();
        if !peer.caps.allows_fs(&env.cfg().fs_name) {
            let why = format!("its key allows nothing in file system {}", env.cfg().fs_name);
            return self.reject(env, client, why);
        }
        if let Some(other) = m.metadata.get(CLIENT_UUID).and_then(|uuid| self.with_uuid(uuid, client).pop()) {
            let text = format!("{client} has the uuid of {other}, and gets no session beside it");
            env.log(Level::Info, "duplicate_uuid_refused", text);
            return self.reject(env, client, "duplicated session uuid".to_owned());
        }
        let (numbers, taken) = numbers::first(ino_next);
        let record = Box::new(SessionRecord { preallocated: vec![numbers], ..new_record(peer, m) });
        let updates = vec![taken, Update::SessionOpen { client: client.0, record }];
        let lsn = commit(env, cache, self, "session open", updates);
        self.send_open(env, client, lsn, &BTreeSet::new());
    }

    /// A client asks for a session that it has.
    pub fn take_unasked(&mut self, env: &mut Env, client: ClientId) {
        let Some(s) = self.map.get_mut(&client) else { return };
        s.is_unasked = false;
        let lsn = env.journal().last();
        self.send_open(env, client, lsn, &BTreeSet::new());
    }

    /// Opens sessions that another rank has, for clients whose capabilities it hands over: they ask for them
    /// themselves when they hear of that. Inode numbers from `ino_next` on are free.
    pub fn adopt(
        &mut self,
        env: &mut Env,
        cache: &mut Cache,
        records: Vec<(ClientId, SessionRecord)>,
        mut ino_next: u64,
    ) {
        let (mut updates, mut opened) = (Vec::new(), Vec::new());
        for (client, record) in records.into_iter().filter(|(client, _)| !self.map.contains_key(client)) {
            let (numbers, taken) = numbers::first(ino_next);
            ino_next = numbers.first.0 + numbers.count;
            let SessionRecord { addrs, name, metadata, features, .. } = record;
            let record = SessionRecord {
                addrs,
                name,
                metadata,
                features,
                preallocated: vec![numbers],
                ..SessionRecord::default()
            };
            updates.extend([taken, Update::SessionOpen { client: client.0, record: Box::new(record) }]);
            opened.push(client);
        }
        if updates.is_empty() {
            return;
        }
        let lsn = commit(env, cache, self, "sessions handed over", updates);
        for client in opened {
            self.map.get_mut(&client).expect("just opened").is_unasked = true;
            self.send_open(env, client, lsn, &BTreeSet::new());
        }
    }

    fn reject(&mut self, env: &mut Env, client: ClientId, why: String) {
        let mut reject = Self::message(env, session_op::REJECT, 0);
        reject.metadata.insert("error_string".to_owned(), why);
        self.send(env, client, 0, 0, reject);
    }

    fn send_open(&mut self, env: &mut Env, client: ClientId, lsn: Lsn, refused: &BTreeSet<RefusedLock>) {
        let mut open = Self::message(env, session_op::OPEN, 0);
        open.features = ClientSession::feature_bytes(FEATURES);
        let all =
            [session_metadata::RENAME_FLAGS, session_metadata::ASYNC_DIRS, session_metadata::SMALL_FILES];
        for extension in all {
            open.metadata.insert(extension.to_owned(), String::new());
        }
        if !refused.is_empty() {
            open.metadata.insert(session_metadata::REFUSED_LOCKS.to_owned(), RefusedLock::to_text(refused));
        }
        self.send(env, client, lsn, 0, open);
    }

    /// Reopens the session of a client of the predecessor that has claimed everything. One that is being
    /// evicted meanwhile stays so.
    pub fn reopen(&mut self, env: &Env, client: ClientId) {
        let auth = self.auth_of(client);
        if let Some(s) = self.map.get_mut(&client) {
            if s.state == SessionState::Absent {
                s.state = SessionState::Open;
            }
            // While it was absent it was told nothing.
            s.barrier = Epoch(0);
            s.renewed = env.now();
            s.auth = auth;
        }
    }

    /// Informs a client that its session was reopened, and of the file locks that it has claimed in vain.
    pub fn send_reopened(&mut self, env: &mut Env, client: ClientId, refused: &BTreeSet<RefusedLock>) {
        let lsn = env.journal().last();
        self.send_open(env, client, lsn, refused);
    }

    /// Renews a client's session.
    pub fn renew(&mut self, env: &mut Env, client: ClientId, seq: u64) {
        let Some(s) = self.map.get_mut(&client) else { return };
        s.renewed = env.now();
        let was_stale = s.state == SessionState::Stale;
        if was_stale {
            s.state = SessionState::Open;
        }
        let m = Self::message(env, session_op::RENEWCAPS, seq);
        self.send(env, client, 0, 0, m);
        if was_stale {
            self.held(client).into_iter().for_each(|ino| env.due(Due::CapsChanged(ino)));
        }
    }

    /// Ends a session whose capabilities are all gone.
    pub fn end(&mut self, env: &mut Env, cache: &mut Cache, client: ClientId, what: &str) -> Lsn {
        assert!(self.map.get(&client).is_none_or(|s| s.inodes.is_empty()), "an ended session holds nothing");
        commit(env, cache, self, what, vec![Update::SessionClose { client: client.0 }])
    }

    /// Informs a client that its session has ended, once event `lsn` is durable.
    pub fn send_closed(&mut self, env: &mut Env, client: ClientId, lsn: Lsn) {
        env.want_durable(lsn);
        // The session is gone with the event, but the answer waits for it like any other.
        let close: Body = Self::message(env, session_op::CLOSE, 0).into();
        self.farewells.push((lsn, client, close));
    }

    /// Begins to evict a client: the OSDs must refuse it before another client gets its capabilities.
    pub fn evict(&mut self, env: &mut Env, client: ClientId, why: &str) {
        if let Some(addrs) = self.begin_eviction(env, client, why) {
            env.effect(Effect::Evict(client, addrs));
        }
    }

    /// Begins to evict a client that the OSDs refuse already. Returns true if that is new.
    pub fn refuse(&mut self, env: &mut Env, client: ClientId) -> bool {
        self.begin_eviction(env, client, "it is on the blocklist").is_some()
    }

    /// Returns the client's addresses, unless it is being evicted.
    fn begin_eviction(&mut self, env: &mut Env, client: ClientId, why: &str) -> Option<AddrVec> {
        let session = self.map.get_mut(&client).filter(|s| s.state != SessionState::Evicting)?;
        session.state = SessionState::Evicting;
        env.log(Level::Info, "client_evicted", format!("{client}: {why}"));
        Some(session.record.addrs.clone())
    }

    pub fn is_evicting(&self, client: ClientId) -> bool {
        self.map.get(&client).is_some_and(|s| s.state == SessionState::Evicting)
    }

    /// Once a second, checks for clients that are silent or do not give up revoked bits. `late` returns
    /// what others wait for longest that a client does not give back.
    pub fn check_silence(&mut self, env: &mut Env, cache: &Cache, late: impl Fn(ClientId) -> Option<Late>) {
        let now = env.now();
        if now.since(self.last_check) > OWN_PAUSE {
            self.map.values_mut().for_each(|s| s.renewed = now);
        }
        self.last_check = now;
        self.late.clear();
        let stale_after = Duration::from_secs(env.cfg().session_timeout_s.into());
        let evict_after = Duration::from_secs(env.cfg().session_autoclose_s.into());
        let clients: Vec<ClientId> = self.map.keys().copied().collect();
        for client in clients {
            let s = &self.map[&client];
            let silent = now.since(s.renewed);
            let patience = s.patience(env.cfg());
            match s.state {
                // Ceph does not call such a session stale: what it has stays its own until its time is over.
                SessionState::Open if patience.is_some_and(|most| silent > most) => {
                    self.evict(env, client, "it is silent");
                }
                SessionState::Open if patience.is_some() && silent > stale_after => {}
                SessionState::Open if silent > stale_after => {
                    let m = Self::message(env, session_op::STALE, 0);
                    self.send(env, client, 0, 0, m);
                    if let Some(s) = self.map.get_mut(&client) {
                        s.state = SessionState::Stale;
                    }
                }
                // Others wait for bits or file locks that it does not give up.
                SessionState::Stale
                    if silent > evict_after
                        || is_revoking(cache, client, s)
                        || cache.locks.keeps_waiting(client) =>
                {
                    self.evict(env, client, "it is silent");
                }
                SessionState::Open => {
                    if let Some(late) = late(client) {
                        self.wait_longer(env, client, late, evict_after);
                    }
                }
                _ => {}
            }
        }
    }

    /// A client does not give back what others wait for. That is reported now and then; at last it is
    /// evicted.
    fn wait_longer(&mut self, env: &mut Env, client: ClientId, late: Late, evict_after: Duration) {
        let waited = env.now().since(late.since);
        if waited > evict_after {
            return self.evict(env, client, &format!("it does not give back {late}"));
        }
        if waited.as_secs() >= env.cfg().session_timeout_s.into() {
            self.late.push(client);
        }
        if waited.as_secs() > 0 && waited.as_secs().is_multiple_of(REPORTS_EVERY_S) {
            let text =
                format!("{client} does not give back {late}: others wait since {} s", waited.as_secs());
            env.log(Level::Info, "late_release_seen", text);
        }
    }

    /// Clients that have not given back for as long as a session's timeout what others wait for, a line each.
    pub fn late_clients(&self) -> Vec<String> {
        let line = |client: &ClientId| {
            let host = self.map.get(client)?.hostname();
            Some(format!("Client {host} failing to respond to capability release client_id: {}", client.0))
        };
        self.late.iter().filter_map(line).collect()
    }

    /// Clients that do not say which answers they have, a line each: what is known of their requests grows.
    pub fn clients_with_old_tids(&self, cfg: &RankConfig) -> Vec<String> {
        let (requests, flushes) = cfg.options.max_completed;
        let is_old = |s: &Session| s.record.completed.len() >= requests || s.record.flushed.len() >= flushes;
        let line = |(client, s): (&ClientId, &Session)| {
            let host = s.hostname();
            format!("Client {host} failing to advance its oldest client/flush tid. client_id: {}", client.0)
        };
        self.map.iter().filter(|(_, s)| is_old(s)).map(line).collect()
    }

    /// True if a client has not given up revoked bits.
    pub fn is_revoking(&self, cache: &Cache, client: ClientId) -> bool {
        self.map.get(&client).is_some_and(|s| is_revoking(cache, client, s))
    }

    /// The number of capabilities that clients hold.
    pub fn all_held(&self) -> usize {
        self.held
    }

    /// The number of further capabilities that listings may give: none when clients hold three quarters of
    /// what they may.
    pub fn room_of_listings(&self, cache: &Cache) -> usize {
        (cache.most_held() * 3 / 4).saturating_sub(self.all_held())
    }

    /// Asks clients to return capabilities, if they hold so many that listings give few, or that the cache
    /// can't be kept within its limit.
    pub fn recall(&mut self, env: &mut Env, cache: &Cache) {
        let (limit, total) = (cache.most_held(), self.all_held());
        let is_recent = self.recalled_at.is_some_and(|at| env.now() < at + MIN_RECALL_INTERVAL);
        let is_full = cache.stats().inodes > cache.most_entries() * 9 / 10;
        if is_recent || !is_full && total <= limit * 6 / 10 {
            return;
        }
        let keep = limit / 2;
        let held: Vec<(ClientId, usize)> =
            self.map.iter().filter(|(_, s)| s.is_open()).map(|(c, s)| (*c, s.inodes.len())).collect();
        for (client, held) in held {
            let share = keep * held / total.max(1);
            if held <= share || held < MIN_CAPS {
                continue;
            }
            self.recalled_at = Some(env.now());
            let mut m = Self::message(env, session_op::RECALL_STATE, 0);
            m.head.max_caps = u32::try_from(share.max(MIN_CAPS)).unwrap_or(u32::MAX);
            self.send(env, client, 0, 0, m);
        }
    }
}

fn is_revoking(cache: &Cache, client: ClientId, session: &Session) -> bool {
    let cap = |ino| cache.inodes.get(ino).and_then(|inode| inode.caps.get(client));
    session.inodes.iter().filter_map(cap).any(crate::cap::Cap::is_revoking)
}

fn new_record(peer: ClientPeer, m: &ClientSession) -> SessionRecord {
    let mut words = vec![0u64; m.features.len().div_ceil(8)];
    for (i, byte) in m.features.iter().enumerate() {
        words[i / 8] |= u64::from(*byte) << (8 * (i % 8));
    }
    SessionRecord {
        addrs: peer.addrs,
        name: peer.name,
        metadata: m.metadata.clone(),
        features: words,
        ..SessionRecord::default()
    }
}
