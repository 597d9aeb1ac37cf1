//! A rank with objects in memory and scripted clients. Object operations end in random order (but in order on
//! each object); a crash keeps or loses each one in flight.

#![allow(dead_code)]

pub mod client;
pub mod fragments;
pub mod model;
pub mod pair;
pub mod ranks;
pub mod standby;

pub use client::Client;

use mds::{
    ClientId, ClientPeer, Effect, IoRequest, MdsOptions, ObjOp, ObjReply, ObjectId, Rank, RankConfig, Stage,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use stdx::{Instant, Now, Rng, Wall};
use wire::Errno;

const DELAY: Duration = Duration::from_millis(20);
/// Limits that nothing reaches.
pub const ROOMY: MdsOptions = MdsOptions {
    cache_bytes: 1 << 40,
    cache_grows: false,
    spare_bytes: 0,
    cache_inodes: 100_000,
    split_size: 10_000,
    merge_size: 50,
    journal_bytes: 64 << 20,
    trim_warn_percent: 200,
    max_completed: (100_000, 100_000),
    balance_interval: Duration::from_secs(5),
    balance_least: 100,
    replicate_least: 0,
    journal_delay: DELAY,
    handover_part: 500,
    handover_most: 4000,
};
/// Limits that everything reaches.
pub const TINY: MdsOptions = MdsOptions {
    cache_bytes: 1 << 40,
    cache_grows: false,
    spare_bytes: 0,
    cache_inodes: 24,
    split_size: 4,
    merge_size: 2,
    journal_bytes: 256 << 10,
    trim_warn_percent: 200,
    max_completed: (100_000, 100_000),
    balance_interval: Duration::from_secs(5),
    balance_least: 100,
    replicate_least: 0,
    journal_delay: DELAY,
    handover_part: 2,
    handover_most: 6,
};

#[derive(Default, Clone)]
pub struct Object {
    pub data: Vec<u8>,
    pub truncate_seq: u32,
    pub omap: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Object {
    /// Carries out an operation, but for a removal.
    fn carry_out(&mut self, op: &ObjOp) -> ObjReply {
        match op {
            ObjOp::Create | ObjOp::Delete => ObjReply::None,
            ObjOp::Read { offset, len } => {
                let end = if *len == 0 { self.data.len() } else { (offset + len) as usize };
                let end = end.min(self.data.len());
                ObjReply::Data(self.data[(*offset as usize).min(end)..end].to_vec())
            }
            ObjOp::Write { offset, data } => {
                let end = *offset as usize + data.len();
                self.data.resize(self.data.len().max(end), 0);
                self.data[*offset as usize..end].copy_from_slice(data);
                ObjReply::None
            }
            ObjOp::WriteFull(data) => {
                self.data = data.clone();
                ObjReply::None
            }
            ObjOp::Truncate(size) => {
                self.data.resize(*size as usize, 0);
                ObjReply::None
            }
            ObjOp::Cut { seq, .. } if *seq <= self.truncate_seq => ObjReply::None,
            ObjOp::Cut { size, seq } => {
                self.data.resize(*size as usize, 0);
                self.truncate_seq = *seq;
                ObjReply::None
            }
            ObjOp::OmapList { after, max } => {
                let range = self.omap.iter().filter(|(k, _)| *k > after);
                let page: BTreeMap<_, _> =
                    range.take(*max as usize).map(|(k, v)| (k.clone(), v.clone())).collect();
                let more = page.keys().next_back().is_some_and(|l| self.omap.keys().any(|k| k > l));
                ObjReply::Omap(page, more)
            }
            ObjOp::OmapGet(keys) => {
                let found = keys.iter().filter_map(|k| Some((k.clone(), self.omap.get(k)?.clone())));
                ObjReply::Omap(found.collect(), false)
            }
            ObjOp::OmapSet(entries) => {
                self.omap.extend(entries.clone());
                ObjReply::None
            }
            ObjOp::OmapRemove(keys) => {
                for key in keys {
                    self.omap.remove(key);
                }
                ObjReply::None
            }
            ObjOp::OmapHeader(_) => ObjReply::None,
        }
    }
}

pub struct World {
    pub rank: Rank,
    pub cfg: RankConfig,
    pub now: Now,
    pub rng: Rng,
    pub objects: BTreeMap<ObjectId, Object>,
    pub in_flight: Vec<IoRequest>,
    pub clients: BTreeMap<u64, Client>,
    pub evict_asked: Vec<u64>,
    /// The last snapshot id of the data pool.
    pub pool_snaps: u64,
    /// The snapshots for which the last change of each data object preserved it.
    pub data_snaps: BTreeMap<String, Vec<u64>>,
    /// Snapshots that were removed from the data pool.
    pub given_back: BTreeSet<u64>,
    /// The other ranks, as the map says; none if there is no map.
    pub others: Option<BTreeMap<maps::MdsRank, mds::RankStatus>>,
    /// Messages to other ranks.
    pub to_ranks: Vec<(maps::MdsRank, peer::Body)>,
    pub log: Vec<String>,
    pub io_count: usize,
    /// Entries that the rank has read.
    pub entries_read: usize,
    pub max_entries: usize,
    /// Objects of the metadata pool that can't be read.
    pub unreadable: BTreeSet<String>,
    /// Whether something stored is damaged, and the rank says so.
    pub has_damage: bool,
    /// Whether somebody breaks the rules, and is told so.
    pub has_hostile: bool,
    /// Whether what a client was told early may be lost.
    pub loses_requests: bool,
}

pub fn config(options: MdsOptions) -> RankConfig {
    RankConfig {
        rank: 0,
        fs_name: "fs".into(),
        metadata_pool: 1,
        data_pool: 2,
        data_pools: BTreeMap::from([(2, "data".to_owned()), (7, "fast".to_owned())]),
        session_timeout_s: 60,
        session_autoclose_s: 300,
        max_file_size: 1 << 40,
        full: false,
        map_epoch: maps::Epoch(5),
        osd_epoch: maps::Epoch(9),
        options,
    }
}

impl World {
    pub fn new(seed: u64, options: MdsOptions) -> Self {
        Self::of_rank(seed, options, 0, BTreeMap::new())
    }

    /// A rank of a file system of which there are objects.
    pub fn of_rank(seed: u64, options: MdsOptions, rank: u32, objects: BTreeMap<ObjectId, Object>) -> Self {
        let cfg = RankConfig { rank, ..config(options) };
        let now = Now { mono: Instant(1_000_000_000), wall: Wall(1_700_000_000_000_000_000) };
        let rank = Rank::create(cfg.clone(), now);
        let mut w = Self {
            rank,
            cfg,
            now,
            rng: Rng::from_seed(seed),
            objects,
            in_flight: Vec::new(),
            clients: BTreeMap::new(),
            evict_asked: Vec::new(),
            pool_snaps: 1,
            data_snaps: BTreeMap::new(),
            given_back: BTreeSet::new(),
            others: None,
            to_ranks: Vec::new(),
            log: Vec::new(),
            io_count: 0,
            entries_read: 0,
            max_entries: 0,
            unreadable: BTreeSet::new(),
            has_damage: false,
            has_hostile: false,
            loses_requests: false,
        };
        w.quiet();
        w
    }

    pub fn connect(&mut self, id: u64) {
        self.connect_with(id, "allow *");
    }

    /// A client whose key has these capabilities.
    pub fn connect_with(&mut self, id: u64, caps: &str) {
        self.connect_client(Client::new(id), caps);
    }

    /// A client in a state of its own.
    pub fn connect_client(&mut self, client: Client, caps: &str) {
        let (id, name) = (client.id, format!("client.{}", client.id));
        self.clients.insert(id, client);
        self.ask_session(id, &name, caps);
        assert!(self.clients[&id].open, "session of {id} is open");
    }

    /// A client connects with a key and asks for a session.
    pub fn ask_session(&mut self, id: u64, name: &str, caps: &str) {
        let Client { is_old, is_linux, makes_dirs, timeout, ref uuid, .. } = self.clients[&id];
        let uuid = uuid.clone();
        let caps = auth::MdsCap::parse(caps).expect("caps");
        let nonce = u32::try_from(id).expect("small numbers");
        let addrs = wire::EntityAddr::msgr2(([127, 0, 0, 1], 0).into(), nonce).into();
        self.rank.client_connected(ClientId(id), ClientPeer { caps, name: name.to_owned(), addrs });
        let mut open = msgs::ClientSession::of(msgs::session_op::REQUEST_OPEN, 0);
        open.features = msgs::ClientSession::feature_bytes(if is_old { 0x1bff } else { 0x7ffff });
        if is_linux {
            open.metadata.insert("kernel_version".into(), "6.12.0".into());
        }
        if makes_dirs {
            open.metadata.insert(msgs::session_metadata::ASYNC_DIRS.into(), String::new());
        }
        open.metadata.extend(timeout.map(|seconds| (msgs::CLIENT_TIMEOUT.to_owned(), seconds.to_string())));
        open.metadata.extend(uuid.map(|uuid| (msgs::CLIENT_UUID.to_owned(), uuid)));
        self.send(id, 0, open);
        self.quiet();
    }

    pub fn send(&mut self, client: u64, tid: u64, body: impl Into<msgs::Body>) {
        // All bytes that the clients send and get pass through their encoded form.
        let raw = body.into().to_raw(tid);
        let (tid, body) = msgs::Body::from_raw(raw).expect("own messages decode");
        self.rank.client_message(self.now, ClientId(client), tid, body);
        self.effects();
    }

    /// Carries out what the rank asks for.
    pub fn effects(&mut self) {
        loop {
            let mut out = Vec::new();
            self.rank.settle(&mut out);
            self.max_entries = self.max_entries.max(self.rank.stats().entries);
            if out.is_empty() {
                return;
            }
            for effect in out {
                self.effect(effect);
            }
        }
    }

    fn effect(&mut self, effect: Effect) {
        match effect {
            Effect::Io(io) => self.in_flight.push(io),
            Effect::Send(client, tid, body) => {
                let (tid, body) =
                    msgs::Body::from_raw(body.to_raw(tid)).expect("what the rank sends decodes");
                let Some(c) = self.clients.get_mut(&client.0) else { return };
                for (tid, answer) in c.receive(tid, body) {
                    self.rank.client_message(self.now, client, tid, answer);
                }
            }
            Effect::SendRank(rank, body) => self.to_ranks.push((rank, body)),
            Effect::TakeSnapId => {
                self.pool_snaps += 1;
                self.rank.snap_id(self.now, Ok(maps::SnapId(self.pool_snaps)));
            }
            Effect::RemoveSnap(snap) => {
                self.given_back.insert(snap.0);
                self.rank.snap_removed(self.now, snap, None);
            }
            Effect::Evict(client, _) => self.evict_asked.push(client.0),
            Effect::Closed(_) => {}
            Effect::Reached(Stage::Creating | Stage::Rejoined) => {
                self.tell_ranks();
                self.rank.activate(self.now);
            }
            Effect::Reached(Stage::Replayed) => {
                self.tell_ranks();
                self.rank.reconnect(self.now);
            }
            Effect::Reached(_) => {}
            Effect::Event(
                node::Level::Warn,
                name @ ("flush_ignored" | "async_request_failed" | "claimed_locks_refused"),
                detail,
            ) if self.has_hostile => self.log.push(format!("{name}: {detail}")),
            Effect::Event(node::Level::Warn, "unsafe_requests_lost", _)
                if self.loses_requests || self.has_hostile => {}
            Effect::Event(_, name @ ("damaged_metadata_seen" | "scrub_ended"), detail) if self.has_damage => {
                self.log.push(format!("{name}: {detail}"));
            }
            Effect::Event(node::Level::Error | node::Level::Warn, name, detail) => panic!("{name}: {detail}"),
            Effect::Event(_, name, detail) => self.log.push(format!("{name}: {detail}")),
            Effect::Fail(text) => panic!("the rank failed: {text}"),
            Effect::Replaced => panic!("the rank was refused by the OSDs"),
            Effect::Behind => {
                self.rank = Rank::replay(self.cfg.clone(), self.now);
                self.connect_all();
            }
        }
    }

    /// Ends one object operation, if there is one.
    pub fn io_step(&mut self) -> bool {
        if self.in_flight.is_empty() {
            return false;
        }
        let pick = self.rng.below(self.in_flight.len() as u64) as usize;
        // The first on the same object.
        let object = self.in_flight[pick].object.clone();
        let at = self.in_flight.iter().position(|io| io.object == object).expect("the picked one at least");
        let io = self.in_flight.remove(at);
        let result = self.carry_out(&io);
        self.io_count += 1;
        self.rank.io_done(self.now, io.id, result);
        self.effects();
        true
    }

    pub fn advance(&mut self, d: Duration) {
        self.now = Now { mono: self.now.mono + d, wall: self.now.wall + d };
        self.rank.timer(self.now);
        self.effects();
    }

    /// Runs until nothing is under way, nor gathers in the journal.
    pub fn quiet(&mut self) {
        self.effects();
        for _ in 0..1_000_000 {
            if self.io_step() {
                continue;
            }
            let Some(due) = self.rank.journal_deadline() else { return };
            self.advance(due.since(self.now.mono));
        }
        panic!("it never ends");
    }

    pub fn carry_out(&mut self, io: &IoRequest) -> Result<Vec<ObjReply>, Errno> {
        if io.object.pool == self.cfg.data_pool {
            let snaps = io.snaps.snaps.iter().map(|snap| snap.0).collect();
            self.data_snaps.insert(io.object.name.clone(), snaps);
        }
        if self.unreadable.contains(&io.object.name) && !io.ops.iter().any(ObjOp::writes) {
            return Err(Errno::EIO);
        }
        let exists = self.objects.contains_key(&io.object);
        let creates = io
            .ops
            .iter()
            .any(|op| op.writes() && !matches!(op, ObjOp::Delete | ObjOp::Truncate(_) | ObjOp::Cut { .. }));
        if !exists && !creates {
            return Err(Errno::ENOENT);
        }
        let object = self.objects.entry(io.object.clone()).or_default();
        let mut out = Vec::new();
        let mut delete = false;
        for op in &io.ops {
            delete |= *op == ObjOp::Delete;
            let reply = object.carry_out(op);
            if let ObjReply::Omap(entries, _) = &reply {
                self.entries_read += entries.len();
            }
            out.push(reply);
        }
        if delete {
            self.objects.remove(&io.object);
        }
        Ok(out)
    }

    /// Tells the rank which others there are.
    fn tell_ranks(&mut self) {
        if let Some(others) = &self.others {
            self.rank.set_ranks(self.now, others.clone());
        }
    }

    /// The process dies: each operation in flight is kept or lost, in order on each object. A new process
    /// takes over, the clients in `back` come back with their caps, and the others are evicted.
    pub fn crash(&mut self, back: &[u64]) {
        self.restart(back);
        if self.clients.len() > back.len() {
            self.advance(Duration::from_secs(46));
            self.finish_evictions();
        }
    }

    /// The OSDs refuse those that were to be evicted.
    pub fn finish_evictions(&mut self) {
        for id in std::mem::take(&mut self.evict_asked) {
            self.rank.evicted(self.now, ClientId(id));
        }
        self.quiet();
    }

    /// The process dies, and a new one begins to take over.
    pub fn begin_replay(&mut self) {
        self.end_in_flight();
        self.rank = Rank::replay(self.cfg.clone(), self.now);
        self.connect_all();
    }

    /// Each operation in flight is kept or lost, in order on each object.
    pub fn end_in_flight(&mut self) {
        let mut lost = BTreeSet::new();
        for io in std::mem::take(&mut self.in_flight) {
            if lost.contains(&io.object) || self.rng.chance(1, 2) {
                lost.insert(io.object.clone());
                continue;
            }
            let _ = self.carry_out(&io);
        }
    }

    /// All clients connect to a new process.
    pub fn connect_all(&mut self) {
        for id in self.clients.keys() {
            let peer =
                ClientPeer { caps: auth::MdsCap::parse("allow *").expect("caps"), ..ClientPeer::default() };
            self.rank.client_connected(ClientId(*id), peer);
        }
        self.effects();
    }

    /// The same, but the others may come back later.
    pub fn restart(&mut self, back: &[u64]) {
        self.begin_replay();
        self.until_active(back);
    }

    /// A new process takes over, with the clients in `back`.
    pub fn until_active(&mut self, back: &[u64]) {
        self.quiet();
        assert!(matches!(self.rank.stage(), Stage::Reconnecting | Stage::Active), "{:?}", self.rank.stage());
        for id in back {
            self.come_back(*id);
        }
        self.quiet();
        if self.rank.stage() != Stage::Active {
            self.advance(Duration::from_secs(1));
            self.quiet();
        }
        assert_eq!(self.rank.stage(), Stage::Active, "nobody is waited for");
    }

    /// A client claims what it holds; what was not answered it asks again, and what it flushed when it gave
    /// up the right to it, as real clients do before their claims.
    pub fn come_back(&mut self, id: u64) {
        for (tid, request) in self.clients[&id].unsafe_requests.clone() {
            self.send(id, tid, request);
        }
        for (tid, flush) in self.clients[&id].flushes_again() {
            self.send(id, tid, flush);
        }
        let m = self.clients.get_mut(&id).expect("a client").reconnect();
        self.send(id, 0, m);
    }

    /// Sends a request and runs until it is answered: result and reply.
    pub fn call(&mut self, client: u64, request: msgs::ClientRequest) -> msgs::ClientReply {
        let tid = self.start(client, request);
        self.quiet();
        self.reply(client, tid)
    }

    /// The answer that a client has got so far was lost on the way.
    pub fn lose_answer(&mut self, client: u64, tid: u64) {
        let c = self.clients.get_mut(&client).expect("a client");
        c.replies.remove(&tid);
        let request = c.unsafe_requests.get_mut(&tid).expect("it has no safe answer");
        request.flags &= !msgs::request_flag::REPLAY;
        request.ino = 0;
    }

    /// Sends a request and runs only until it is answered, perhaps early.
    pub fn call_early(&mut self, client: u64, request: msgs::ClientRequest) -> msgs::ClientReply {
        let tid = self.start(client, request);
        while !self.clients[&client].replies.contains_key(&tid) {
            assert!(self.io_step(), "request {tid} is answered");
        }
        self.reply(client, tid)
    }

    /// A client gives back all its capabilities but that on the root.
    pub fn give_everything_back(&mut self, client: u64) {
        let held = std::mem::take(&mut self.clients.get_mut(&client).expect("a client").held);
        let caps = held
            .into_iter()
            .filter(|(ino, _)| *ino != 1)
            .map(|(ino, h)| msgs::CapReleaseItem { ino, cap_id: h.cap_id, migrate_seq: 0, seq: h.issue_seq })
            .collect();
        self.send(client, 0, msgs::ClientCapRelease { caps, ..Default::default() });
        self.quiet();
    }

    /// The names in a directory, by a client that asks for pages.
    pub fn names(&mut self, client: u64, path: &str) -> Result<BTreeSet<String>, i32> {
        let (mut names, mut next) = (BTreeSet::new(), Some((0, Vec::new())));
        while let Some((frag, after)) = next {
            let reply = self.call(client, client::readdir_of(frag, path, &after, 50));
            if reply.result != 0 {
                return Err(reply.result);
            }
            let listing: msgs::ReaddirReply = wire::Reader::new(&reply.extra).get().expect("a listing");
            names.extend(listing.entries.iter().map(|e| String::from_utf8_lossy(&e.name).into_owned()));
            next = client::next_page(&listing);
        }
        Ok(names)
    }

    /// A client gives back its capability on an inode.
    pub fn release(&mut self, client: u64, ino: u64) {
        let held = self.clients.get_mut(&client).expect("a client").held.remove(&ino).expect("held");
        let item = msgs::CapReleaseItem { ino, cap_id: held.cap_id, migrate_seq: 0, seq: held.issue_seq };
        self.send(client, 0, msgs::ClientCapRelease { caps: vec![item], ..Default::default() });
        self.quiet();
    }

    /// A client tells that it wants to work in a directory asynchronously, as Linux does after each change.
    pub fn want_alone(&mut self, client: u64, dir: u64) {
        let c = self.clients.get_mut(&client).expect("a client");
        c.held.get_mut(&dir).expect("held").wanted |= msgs::cap::DIR_ASYNC;
        let (tid, update) = c.update(dir);
        self.send(client, tid, update);
        self.quiet();
    }

    pub fn start(&mut self, client: u64, request: msgs::ClientRequest) -> u64 {
        let c = self.clients.get_mut(&client).expect("a client");
        let (tid, request) = c.number(request, self.now);
        self.send(client, tid, request);
        tid
    }

    pub fn reply(&mut self, client: u64, tid: u64) -> msgs::ClientReply {
        let c = self.clients.get_mut(&client).expect("a client");
        c.replies.remove(&tid).unwrap_or_else(|| panic!("request {tid} of {client} is not answered"))
    }
}
