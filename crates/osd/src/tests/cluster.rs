//! Several OSDs with a monitor that only keeps a map, a network of constant delay and disks that end in order.

use super::disk::Disk;
use crate::snapset::SnapContext;
use crate::{Osd, OsdConfig, OsdOptions};
use maps::{Epoch, HObject, NacreMap, OsdId, OsdMap, PgId, Pool, SnapId, Spg, osd_state};
use msgs::{Op, OsdOp, OsdOpReply, SubOp, osd_flag};
use node::{
    CloseReason, ConnId, DiskId, DiskInfo, DiskOp, DiskOpId, Input, Level, Msg, Never, Node, Output, Peer,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use stdx::{Bufs, Instant, Now, Rng, Wall};
use store::{Config, ObjectKey, ObjectView, OmapRange, Read, ReadReply, Store, StoreOut};
use wire::{AddrVec, EntityAddr, EntityId, EntityName, EntityType, Uuid, Writer};

pub const POOL: i64 = 1;
const FSID: Uuid = Uuid([7; 16]);
const DISK_SIZE: u64 = 256 << 20;
const DELAY: u64 = 1_000_000;
/// Nodes: OSDs by number, then these two.
const MON: usize = 100;
const CLIENT: usize = 101;
/// Number of the first client.
pub const GID: u64 = 4242;

enum Event {
    Input(Input<Never>),
    Disk(DiskOpId, DiskOp),
}

struct Slot {
    osd: Option<Osd>,
    disk: Disk,
    nonce: u32,
    life: u32,
}

/// Whether a message from one node to another is lost.
pub type Filter = Box<dyn FnMut(usize, usize, &Msg) -> bool>;

pub struct Cluster {
    now: Instant,
    seq: u64,
    /// By time and order: node, its life, what happens.
    events: BTreeMap<(u64, u64), (usize, u32, Event)>,
    slots: BTreeMap<usize, Slot>,
    disk_sizes: Vec<u64>,
    /// Flags of requests beside those that they need.
    pub flags: u32,
    /// The two ends of each connection.
    ends: BTreeMap<(usize, ConnId), (usize, ConnId)>,
    next_accepted: u64,
    pub map: OsdMap,
    pub nacre: NacreMap,
    history: BTreeMap<Epoch, Vec<u8>>,
    mon_sessions: BTreeMap<ConnId, u64>,
    pub stats: BTreeMap<PgId, peer::PgStat>,
    pub filter: Option<Filter>,
    /// Processes that stand still, and what waits for them.
    frozen: BTreeMap<usize, Vec<Event>>,
    client_conns: BTreeMap<usize, ConnId>,
    /// What the client's key allows at OSDs.
    client_caps: String,
    /// Number of the client.
    client_gid: u64,
    /// What clients say that they understand.
    pub client_features: u64,
    /// Whether they acknowledge backoffs.
    pub acknowledges: bool,
    /// Which they were told, by whom.
    pub backoffs: Vec<(usize, msgs::OsdBackoff)>,
    /// What clients were told of watches and notifications: by whom.
    pub heard: Vec<(usize, msgs::WatchNotify)>,
    pub replies: BTreeMap<u64, Vec<OsdOpReply>>,
    /// The newest map that the client was sent by OSDs.
    pub told: Epoch,
    next_tid: u64,
    pub options: OsdOptions,
    /// Warnings and errors that nobody expected.
    pub complaints: Vec<String>,
    /// The most slow requests that an OSD has reported, and the age of the oldest in seconds.
    pub slow_ops: (u32, u32),
    pub stopped: Vec<(usize, String)>,
    /// Of admin sockets.
    admin_answer: Option<(i32, String)>,
    /// Whether the monitor believes reports of silence.
    pub believe_silence: bool,
    /// Whether it ends merges that have begun, either way.
    pub tends_merges: bool,
    pub trace: bool,
    /// Start all OSDs where the living ones can't answer: the newest version of an object may be on a dead one alone.
    pub rescue: bool,
    /// Delay of messages from one node to another, where it is not the usual one.
    pub latency: BTreeMap<(usize, usize), u64>,
    /// Under which the client writes.
    pub context: SnapContext,
    /// What the client reads.
    pub at: SnapId,
}

fn addr_of(node: usize, nonce: u32) -> EntityAddr {
    let mut addr = EntityAddr::parse(&format!("v2:10.0.0.{}:6800/0", node + 1)).expect("an address");
    addr.nonce = nonce;
    addr
}

fn peer_of(node: usize, nonce: u32) -> Box<Peer> {
    let (ty, id) = match node {
        MON => (EntityType::MON, String::new()),
        CLIENT => (EntityType::CLIENT, "admin".to_owned()),
        n => (EntityType::OSD, n.to_string()),
    };
    let addr = addr_of(node, nonce);
    Box::new(Peer {
        name: EntityName::new(ty, id),
        id: EntityId { ty, num: if node == CLIENT { GID as i64 } else { node as i64 } },
        global_id: if node == CLIENT { GID } else { 10 + node as u64 },
        addrs: AddrVec::from(addr),
        socket_addr: addr,
        features: 0,
        caps: "allow *".to_owned(),
        tickets: None,
    })
}

impl Cluster {
    /// OSDs that are up, and one pool with so many replicas and PGs.
    pub fn new(osds: usize, size: u8, min_size: u8, pg_num: u32) -> Self {
        Self::with_disks(&vec![DISK_SIZE; osds], size, min_size, pg_num)
    }

    /// The same with disks of these sizes.
    pub fn with_disks(sizes: &[u64], size: u8, min_size: u8, pg_num: u32) -> Self {
        let osds = sizes.len();
        let mut map = OsdMap { fsid: FSID, epoch: Epoch(1), ..OsdMap::default() };
        let mut crush = crush::CrushMap::new_default_types();
        for i in 0..osds {
            let host = format!("host{i}");
            crush.place(i as i32, 0x10000, &[("root", "default"), ("host", &host)]).expect("a place");
        }
        let rule = crush.create_replicated_rule("replicated_rule", "default", "host", None).expect("a rule");
        map.crush = Arc::new(crush);
        map.pools.insert(POOL, Pool::replicated(size, min_size, rule as u8, pg_num, Default::default()));
        map.pool_names.insert(POOL, "p".to_owned());
        let mut c = Self {
            now: Instant(1_000_000_000),
            seq: 0,
            events: BTreeMap::new(),
            slots: BTreeMap::new(),
            disk_sizes: sizes.to_vec(),
            flags: 0,
            ends: BTreeMap::new(),
            next_accepted: 0,
            map,
            nacre: NacreMap::default(),
            history: BTreeMap::new(),
            mon_sessions: BTreeMap::new(),
            stats: BTreeMap::new(),
            filter: None,
            frozen: BTreeMap::new(),
            client_conns: BTreeMap::new(),
            client_caps: "allow *".to_owned(),
            client_gid: GID,
            heard: Vec::new(),
            replies: BTreeMap::new(),
            client_features: 0,
            acknowledges: true,
            backoffs: Vec::new(),
            told: Epoch(0),
            next_tid: 0,
            options: OsdOptions { report_interval: Duration::from_millis(500), ..OsdOptions::default() },
            complaints: Vec::new(),
            slow_ops: (0, 0),
            stopped: Vec::new(),
            admin_answer: None,
            believe_silence: true,
            tends_merges: false,
            trace: std::env::var_os("OSD_TRACE").is_some(),
            rescue: false,
            latency: BTreeMap::new(),
            context: SnapContext::default(),
            at: SnapId::HEAD,
        };
        c.history.insert(Epoch(1), Writer::encode(&c.map));
        (0..osds).for_each(|i| c.start(i));
        c.wait_clean();
        c
    }

    fn push(&mut self, delay: u64, node: usize, event: Event) {
        self.seq += 1;
        let life = self.slots.get(&node).map_or(0, |s| s.life);
        self.events.insert((self.now.0 + delay, self.seq), (node, life, event));
    }

    fn disk_size(&self, osd: usize) -> u64 {
        self.disk_sizes.get(osd).copied().unwrap_or(DISK_SIZE)
    }

    /// Starts an OSD's process, on the disk that it has.
    pub fn start(&mut self, osd: usize) {
        let old = self.slots.remove(&osd);
        let (disk, nonce, life) = old.map_or((Disk::default(), 1, 1), |s| (s.disk, s.nonce + 1, s.life + 1));
        let config = OsdConfig {
            id: OsdId(osd as i32),
            uuid: Uuid([osd as u8 + 1; 16]),
            fsid: FSID,
            addrs: AddrVec::from(addr_of(osd, nonce)),
            credentials: auth::Credentials {
                name: EntityName::new(EntityType::OSD, osd.to_string()),
                key: None,
            },
            methods: vec![auth::Method::None],
            monitors: vec![addr_of(MON, 0)],
            hostname: format!("host{osd}"),
            crush_weight: 0,
            crush_location: BTreeMap::new(),
            device_class: String::new(),
            metadata: BTreeMap::new(),
            options: self.options.clone(),
        };
        let size = self.disk_size(osd);
        let info = DiskInfo { id: DiskId(0), size, sector: 512 };
        let seed = (osd as u64) << 32 | u64::from(nonce);
        let node = Osd::new(config, info, Rng::from_seed(seed));
        self.slots.insert(osd, Slot { osd: Some(node), disk, nonce, life });
        self.push(0, osd, Event::Input(Input::Start));
    }

    /// `kill -9`, and the power of its disk fails too.
    pub fn kill(&mut self, osd: usize) {
        let slot = self.slots.get_mut(&osd).expect("a known OSD");
        slot.osd = None;
        slot.life += 1;
        slot.disk.lose_power();
        let ends: Vec<_> = self.ends.iter().filter(|((n, _), _)| *n == osd).map(|(a, b)| (*a, *b)).collect();
        for (a, b) in ends {
            self.ends.remove(&a);
            self.close_end(b, CloseReason::Lost);
        }
        self.client_conns.remove(&osd);
    }

    fn close_end(&mut self, end: (usize, ConnId), reason: CloseReason) {
        if self.ends.remove(&end).is_none() {
            return;
        }
        match end.0 {
            MON => {
                self.mon_sessions.remove(&end.1);
            }
            CLIENT => {}
            node => self.push(DELAY, node, Event::Input(Input::Closed { conn: end.1, reason })),
        }
    }

    /// Asks an OSD to end, waits until it has, and gives what its disk holds then.
    pub fn stop(&mut self, osd: usize) -> store::Report {
        let now = Now { mono: self.now, wall: Wall(1_700_000_000_000_000_000 + self.now.0) };
        let mut out = Vec::new();
        self.slots.get_mut(&osd).and_then(|s| s.osd.as_mut()).expect("a running OSD").wind_up(now, &mut out);
        out.into_iter().for_each(|output| self.output(osd, output));
        self.run_until("an OSD that was asked to end", |c| c.stopped.iter().any(|(n, _)| *n == osd));
        self.stopped.retain(|(n, why)| *n != osd || !why.is_empty());
        self.kill(osd);
        let mut disk = self.slots[&osd].disk.clone();
        let mut read = |offset, len| {
            let found = disk.run(DiskOp::Read { disk: DiskId(0), offset, len });
            found.map_err(|error| error.to_string())
        };
        store::inspect(self.disk_size(osd), store::Depth::Data, &mut read, &mut |_, _| {}).expect("reads")
    }

    /// Breaks all connections between two OSDs, which stay alive.
    pub fn break_links(&mut self, a: usize, b: usize) {
        let between = |x: usize, y: usize| (x, y) == (a, b) || (x, y) == (b, a);
        let ends: Vec<_> = self.ends.iter().filter(|(x, y)| between(x.0, y.0)).map(|(x, _)| *x).collect();
        for end in ends {
            if let Some(other) = self.ends.get(&end).copied() {
                self.close_end(end, CloseReason::Lost);
                self.close_end(other, CloseReason::Lost);
            }
        }
    }

    /// `kill -STOP`.
    pub fn freeze(&mut self, osd: usize) {
        self.frozen.insert(osd, Vec::new());
    }

    /// `kill -CONT`.
    pub fn thaw(&mut self, osd: usize) {
        for event in self.frozen.remove(&osd).expect("it stands still") {
            self.push(0, osd, event);
        }
    }

    /// The same, and its timer is the first that it sees.
    pub fn thaw_with_a_timer(&mut self, osd: usize) {
        self.input(osd, Input::Timer);
        self.thaw(osd);
    }

    /// Lets time pass.
    pub fn run(&mut self, span: Duration) {
        let end = self.now + span;
        while self.step(end) {}
        self.now = end;
    }

    /// Runs until `done`, at most a minute.
    pub fn run_until(&mut self, what: &str, mut done: impl FnMut(&Self) -> bool) {
        let end = self.now + Duration::from_secs(60);
        while !done(self) {
            assert!(self.step(end), "not within a minute: {what}\n{}", self.report());
        }
    }

    fn report(&self) -> String {
        let mut out = format!("map {}\n", self.map.epoch);
        for (id, slot) in &self.slots {
            if let Some(osd) = &slot.osd {
                for pg in osd.pgs.values() {
                    out += &format!("osd.{id} {}\n", pg.dump(&osd.core));
                }
            }
        }
        out + &self.complaints.join("\n")
    }

    fn step(&mut self, end: Instant) -> bool {
        let timer = self
            .slots
            .iter()
            .filter(|(n, _)| !self.frozen.contains_key(n))
            .filter_map(|(n, s)| Some((s.osd.as_ref()?.deadline()?.0.max(self.now.0), *n)))
            .min();
        let event = self.events.first_key_value().map(|((at, _), _)| *at);
        match (timer, event) {
            (Some((at, node)), next) if next.is_none_or(|e| at < e) => {
                if at > end.0 {
                    return false;
                }
                self.now = Instant(at);
                self.input(node, Input::Timer);
            }
            (_, Some(at)) => {
                if at > end.0 {
                    return false;
                }
                let (_, (node, life, event)) = self.events.pop_first().expect("looked at");
                self.now = Instant(at);
                if self.slots.get(&node).map_or(0, |s| s.life) != life {
                    return true;
                }
                match self.frozen.get_mut(&node) {
                    Some(waiting) => waiting.push(event),
                    None => self.happen(node, event),
                }
            }
            _ => return false,
        }
        true
    }

    fn happen(&mut self, node: usize, event: Event) {
        match event {
            Event::Disk(id, op) => {
                let result = self.slots.get_mut(&node).expect("a disk").disk.run(op);
                self.input(node, Input::Disk { id, result });
            }
            Event::Input(Input::Message { conn, msg }) if node == MON => self.mon_message(conn, msg),
            Event::Input(Input::Message { conn, msg }) if node == CLIENT => {
                let msg_from = self.ends.get(&(CLIENT, conn)).map_or(usize::MAX, |(osd, _)| *osd);
                if let node::Body::Client(msgs::Body::OsdMap(m)) = &msg.body {
                    self.told = self.told.max(m.newest_contained());
                }
                match msg.body {
                    node::Body::Client(msgs::Body::OsdOpReply(reply)) => {
                        self.replies.entry(msg.tid).or_default().push(*reply);
                    }
                    node::Body::Client(msgs::Body::WatchNotify(told)) => self.heard.push((msg_from, *told)),
                    node::Body::Client(msgs::Body::OsdBackoff(m)) => {
                        if m.op == msgs::backoff_op::BLOCK && self.acknowledges {
                            self.acknowledge(msg_from, &m);
                        }
                        self.backoffs.push((msg_from, *m));
                    }
                    _ => {}
                }
            }
            Event::Input(_) if node >= MON => {}
            Event::Input(input) => self.input(node, input),
        }
    }

    fn input(&mut self, node: usize, input: Input<Never>) {
        let now = Now { mono: self.now, wall: Wall(1_700_000_000_000_000_000 + self.now.0) };
        let mut out = Vec::new();
        let Some(osd) = self.slots.get_mut(&node).and_then(|s| s.osd.as_mut()) else { return };
        osd.handle(now, input, &mut out);
        osd.batch_ended(now, &mut out);
        for output in out {
            self.output(node, output);
        }
    }

    fn output(&mut self, node: usize, output: Output<Never>) {
        match output {
            Output::Connect { conn, to } => self.connect(node, conn, to.addr),
            Output::Send { conn, msg } => self.send(node, conn, msg),
            Output::Close { conn } => {
                if let Some(other) = self.ends.remove(&(node, conn)) {
                    self.close_end(other, CloseReason::Lost);
                }
            }
            Output::Disk { id, op } => self.push(DELAY / 4, node, Event::Disk(id, op)),
            Output::Event(event) => {
                if self.trace {
                    eprintln!("{:?} osd.{node} {:?} {} {}", self.now, event.level, event.name, event.detail);
                }
                if event.level <= Level::Warn && event.name != "marked_down" {
                    self.complaints.push(format!("osd.{node} {}: {}", event.name, event.detail));
                }
            }
            Output::AdminReply { code, output, .. } => self.admin_answer = Some((code, output)),
            Output::Stop(result) => {
                self.stopped.push((node, result.err().unwrap_or_default()));
            }
            _ => {}
        }
    }

    fn connect(&mut self, node: usize, conn: ConnId, addr: EntityAddr) {
        let alive = |(n, s): (&usize, &Slot)| (addr_of(*n, s.nonce) == addr && s.osd.is_some()).then_some(*n);
        let target = if addr == addr_of(MON, 0) { Some(MON) } else { self.slots.iter().find_map(alive) };
        let Some(target) = target else {
            let reason = CloseReason::Refused;
            return self.push(DELAY, node, Event::Input(Input::Closed { conn, reason }));
        };
        self.next_accepted += 1;
        let accepted = ConnId(ConnId::ACCEPTED | self.next_accepted);
        self.ends.insert((node, conn), (target, accepted));
        self.ends.insert((target, accepted), (node, conn));
        let (mine, theirs) = (self.slots[&node].nonce, self.slots.get(&target).map_or(0, |s| s.nonce));
        let connected = Input::Connected { conn: accepted, peer: peer_of(node, mine) };
        let (there, back) = (self.delay(node, target), self.delay(target, node));
        self.push(there, target, Event::Input(connected));
        let connected = Input::Connected { conn, peer: peer_of(target, theirs) };
        self.push(back, node, Event::Input(connected));
        if target == MON {
            self.mon_sessions.insert(accepted, u64::MAX);
        }
    }

    fn delay(&self, from: usize, to: usize) -> u64 {
        self.latency.get(&(from, to)).copied().unwrap_or(DELAY)
    }

    fn send(&mut self, node: usize, conn: ConnId, msg: Msg) {
        let Some((to, other)) = self.ends.get(&(node, conn)).copied() else { return };
        if self.filter.as_mut().is_some_and(|f| f(node, to, &msg)) {
            return;
        }
        let msg = Msg::from_raw(msg.to_raw()).expect("own encoding");
        if self.trace {
            let name = match &msg.body {
                node::Body::Client(body) => body.name(),
                node::Body::Peer(body) => body.name(),
            };
            eprintln!("{:?} {node} -> {to} {name} {}", self.now, msg.tid);
        }
        let delay = self.delay(node, to);
        self.push(delay, to, Event::Input(Input::Message { conn: other, msg }));
    }

    // ---- the monitor

    fn mon_message(&mut self, conn: ConnId, msg: Msg) {
        match msg.body {
            node::Body::Client(msgs::Body::MonSubscribe(m)) => {
                if m.what.contains_key("monmap") {
                    let map = Writer::encode(&maps::MonMap { fsid: FSID, epoch: 1, ..Default::default() });
                    self.send(MON, conn, Msg::new(0, msgs::Body::from(msgs::MonMap { map })));
                }
                if let Some(item) = m.what.get("osdmap") {
                    let start = if item.start == 0 { u64::from(self.map.epoch.0) } else { item.start };
                    self.mon_sessions.insert(conn, start);
                    self.publish();
                }
            }
            node::Body::Peer(peer::Body::OsdBoot(m)) => self.mon_boot(&m),
            node::Body::Peer(peer::Body::OsdAlive(m)) => {
                let info = &mut self.map.osds[m.osd.0 as usize].info;
                if info.up_thru < m.want {
                    self.change(|map, _| {
                        map.osds[m.osd.0 as usize].info.up_thru = m.want;
                    });
                }
            }
            node::Body::Peer(peer::Body::OsdFailure(m)) => {
                let same =
                    self.map.osd(m.target).is_some_and(|o| o.is_up() && o.client_addrs == m.target_addrs);
                if same && !m.alive_again && (m.refused || self.believe_silence) {
                    self.mark_down(m.target.0 as usize, m.refused);
                }
            }
            node::Body::Peer(peer::Body::OsdPgTemp(m)) => self.change(|map, _| {
                for (pg, acting) in m.pg_temp {
                    match acting.is_empty() {
                        true => map.pg_temp.remove(&pg),
                        false => map.pg_temp.insert(pg, acting),
                    };
                }
            }),
            node::Body::Peer(peer::Body::PgStats(m)) => {
                self.slow_ops = (m.slow_ops, m.oldest_slow_s).max(self.slow_ops);
                m.pgs.into_iter().for_each(|pg| {
                    self.stats.insert(pg.pgid, pg);
                });
                self.purge();
                if self.tends_merges {
                    self.tend_merge();
                }
            }
            _ => {}
        }
    }

    fn mon_boot(&mut self, m: &peer::OsdBoot) {
        let id = m.osd.0 as usize;
        if self.map.osds.get(id).is_some_and(|o| o.is_up() && o.client_addrs == m.addrs) {
            return;
        }
        if self.map.is_up(m.osd) {
            self.mark_down(id, true);
        }
        let addrs = m.addrs.clone();
        self.change(|map, _| {
            if map.osds.len() <= id {
                map.osds.resize(id + 1, Default::default());
            }
            let epoch = map.epoch;
            let osd = &mut map.osds[id];
            osd.state = osd_state::EXISTS | osd_state::UP;
            osd.weight = maps::WEIGHT_IN;
            (osd.client_addrs, osd.cluster_addrs, osd.hb_back_addrs) = (addrs.clone(), addrs.clone(), addrs);
            osd.info.up_from = epoch;
        });
    }

    /// The monitor marks an OSD down.
    pub fn mark_down(&mut self, osd: usize, dead: bool) {
        self.change(|map, nacre| {
            let entry = &mut map.osds[osd];
            entry.state &= !osd_state::UP;
            if dead {
                nacre.dead.insert(OsdId(osd as i32), entry.info.up_from);
            }
        });
        if self.tends_merges {
            self.tend_merge();
        }
    }

    /// The monitor changes the number of PGs, and that of their places.
    pub fn set_pg_num(&mut self, pg_num: u32, pgp_num: u32) {
        self.change(|map, _| {
            if let Some(pool) = map.pools.get_mut(&POOL) {
                (pool.pg_num, pool.pg_num_pending, pool.pgp_num) = (pg_num, pg_num, pgp_num);
            }
        });
    }

    /// The last PG, and the one that it is to become a part of.
    pub fn merging(&self) -> [PgId; 2] {
        let left = self.pg_num() - 1;
        let target = maps::stable_mod(left, left, maps::stable_mod_mask(left));
        [PgId::new(POOL, left), PgId::new(POOL, target)]
    }

    /// The monitor has the last two PGs that belong together take no requests, or takes that back.
    pub fn set_pending(&mut self, pending: u32) {
        self.change(|map, _| {
            let epoch = map.epoch;
            if let Some(pool) = map.pools.get_mut(&POOL) {
                (pool.pg_num_pending, pool.last_change) = (pending, epoch);
            }
        });
    }

    /// What is to be said of a merge that has begun, once both PGs have said that they are ready.
    pub fn merge_meta(&self) -> Option<maps::MergeMeta> {
        let pool = &self.map.pools[&POOL];
        let pair = self.merging();
        let ready = pair.map(|pg| {
            let stat = self.stats.get(&pg)?;
            let bits = peer::pg_state::PREMERGE | peer::pg_state::CLEAN | peer::pg_state::PEERED;
            let acting = self.map.pg_up_acting(pg).acting;
            let up = acting.iter().all(|o| self.map.osds[o.0 as usize].info.up_from <= stat.reported_epoch);
            let is_ready = stat.state & bits == bits && stat.reported_epoch >= pool.last_change;
            (is_ready && up && stat.acting == acting).then_some(stat)
        });
        let [Some(source), Some(target)] = ready else { return None };
        let both = source.reported_epoch.min(target.reported_epoch);
        Some(maps::MergeMeta {
            source_pgid: pair[0],
            ready_epoch: source.reported_epoch.max(target.reported_epoch),
            last_epoch_started: both,
            last_epoch_clean: both,
            source_version: source.version,
            target_version: target.version,
        })
    }

    /// The monitor says that the last PG is a part of another one.
    pub fn merge(&mut self, meta: maps::MergeMeta) {
        self.change(|map, _| {
            map.pg_temp.remove(&meta.source_pgid);
            map.pg_upmap.remove(&meta.source_pgid);
            let epoch = map.epoch;
            if let Some(pool) = map.pools.get_mut(&POOL) {
                let left = meta.source_pgid.seed;
                (pool.pg_num, pool.pg_num_pending, pool.last_change) = (left, left, epoch);
                pool.last_pg_merge_meta = meta;
            }
        });
    }

    /// The last two PGs that belong together are about to be merged: both are ready.
    pub fn ready_to_merge(&mut self) -> maps::MergeMeta {
        self.set_pending(self.pg_num() - 1);
        self.run_until("PGs ready to be merged", |c| c.merge_meta().is_some());
        self.merge_meta().expect("looked at")
    }

    /// The last PG becomes a part of another one.
    pub fn merge_last(&mut self) {
        let meta = self.ready_to_merge();
        self.merge(meta);
    }

    /// What the monitor does about a merge that has begun, by what it was told.
    fn tend_merge(&mut self) {
        let pool = &self.map.pools[&POOL];
        let (pending, pg_num, size) = (pool.pg_num_pending, pool.pg_num, usize::from(pool.size));
        if pending >= pg_num {
            return;
        }
        let [source, target] = self.merging().map(|pg| self.map.pg_up_acting(pg));
        if source != target || source.up != source.acting || source.acting.len() < size {
            self.set_pending(pg_num);
        } else if let Some(meta) = self.merge_meta() {
            self.merge(meta);
        }
    }

    /// The last two PGs that belong together are to be merged, if they can be.
    pub fn try_merge(&mut self) {
        let pool = &self.map.pools[&POOL];
        let [source, target] = self.merging().map(|pg| self.map.pg_up_acting(pg));
        let whole = source.up == source.acting && source.acting.len() == usize::from(pool.size);
        if pool.pg_num_pending == pool.pg_num && source == target && whole {
            self.set_pending(self.pg_num() - 1);
        }
    }

    /// The monitor places a PG elsewhere than CRUSH does.
    pub fn place(&mut self, pgid: PgId, osds: &[usize]) {
        let osds: Vec<OsdId> = osds.iter().map(|osd| OsdId(*osd as i32)).collect();
        self.change(|map, _| drop(map.pg_upmap.insert(pgid, osds)));
    }

    /// How many PGs there are.
    pub fn pg_num(&self) -> u32 {
        self.map.pools[&POOL].pg_num
    }

    /// Takes a new snapshot into the client's context.
    pub fn take_snap(&mut self) -> SnapId {
        let snap = self.map.pools[&POOL].snap_seq.0.max(1) + 1;
        self.change(|map, _| {
            if let Some(pool) = map.pools.get_mut(&POOL) {
                pool.snap_seq = SnapId(snap);
            }
        });
        self.context.seq = SnapId(snap);
        self.context.snaps.insert(0, SnapId(snap));
        SnapId(snap)
    }

    /// Removes a snapshot; the client may still name it.
    pub fn remove_snap(&mut self, snap: SnapId) {
        self.change(|map, _| {
            map.new_removed_snaps.entry(POOL).or_default().insert(snap.0, 1);
            map.removed_snaps_queue.entry(POOL).or_default().insert(snap.0, 1);
        });
    }

    /// Takes snapshots out of the queue that all PGs have nothing of any more.
    fn purge(&mut self) {
        let Some(mut left) = self.map.removed_snaps_queue.get(&POOL).cloned() else { return };
        for pgid in self.map.pools[&POOL].pgs(POOL) {
            let mut others = left.clone();
            others.subtract(&self.stats.get(&pgid).map(|s| s.purged_snaps.clone()).unwrap_or_default());
            left.subtract(&others);
        }
        if left.is_empty() {
            return;
        }
        self.change(|map, nacre| {
            nacre.purged_snaps.entry(POOL).or_default().union_of(&left);
            if let Some(queue) = map.removed_snaps_queue.get_mut(&POOL) {
                queue.subtract(&left);
            }
            map.removed_snaps_queue.retain(|_, queue| !queue.is_empty());
            map.new_purged_snaps.insert(POOL, left);
        });
    }

    /// A new map.
    pub fn change(&mut self, edit: impl FnOnce(&mut OsdMap, &mut NacreMap)) {
        self.map.epoch = self.map.epoch.next();
        self.nacre.epoch = self.map.epoch;
        self.map.new_removed_snaps.clear();
        self.map.new_purged_snaps.clear();
        edit(&mut self.map, &mut self.nacre);
        self.history.insert(self.map.epoch, Writer::encode(&self.map));
        self.publish();
    }

    fn publish(&mut self) {
        let newest = self.map.epoch;
        for (conn, next) in self.mon_sessions.clone() {
            if next == u64::MAX || next > u64::from(newest.0) {
                continue;
            }
            let nacre = peer::NacreMap { fsid: FSID, map: self.nacre.clone() };
            self.send(MON, conn, Msg::new(0, peer::Body::from(nacre)));
            for (epoch, bytes) in self.history.clone().range(Epoch(next as u32)..) {
                let fulls = BTreeMap::from([(*epoch, bytes.clone().into())]);
                let body = msgs::OsdMap { fsid: FSID, fulls, oldest: Epoch(1), newest, ..Default::default() };
                self.send(MON, conn, Msg::new(0, msgs::Body::from(body)));
            }
            self.mon_sessions.insert(conn, u64::from(newest.0) + 1);
        }
    }

    // ---- the client

    pub fn pgid_of(&self, name: &str) -> (PgId, u32) {
        let hash = HObject::head(POOL, b"", b"", name.as_bytes()).hash;
        (self.map.pools[&POOL].raw_pg_to_pg(PgId::new(POOL, hash)), hash)
    }

    /// The members of an object's PG, the primary first.
    pub fn acting(&self, name: &str) -> Vec<usize> {
        let placed = self.map.pg_up_acting(self.pgid_of(name).0);
        placed.acting.iter().map(|o| o.0 as usize).collect()
    }

    /// Another client from now on; the connections of the one before stay.
    pub fn client_is(&mut self, gid: u64) {
        self.client_gid = gid;
        self.client_conns.clear();
    }

    /// Where clients are.
    pub fn client_addr(&self) -> EntityAddr {
        addr_of(CLIENT, 77)
    }

    /// Breaks the client's connection to an OSD.
    pub fn break_client(&mut self, osd: usize) {
        let conn = self.client_conns.remove(&osd).expect("a connection");
        let other = self.ends.remove(&(CLIENT, conn)).expect("its other end");
        self.close_end(other, CloseReason::Lost);
    }

    /// The client comes back with another key.
    pub fn client_with(&mut self, caps: &str) {
        self.client_caps = caps.to_owned();
        self.client_conns.clear();
    }

    /// Sends a request to an OSD; gives its tid.
    pub fn send_op(&mut self, osd: usize, tid: Option<u64>, name: &str, ops: Vec<Op>) -> u64 {
        let tid = tid.unwrap_or_else(|| {
            self.next_tid += 1;
            self.next_tid
        });
        let (pgid, hash) = self.pgid_of(name);
        let writes = ops.iter().any(|o| o.code().writes());
        let request = OsdOp {
            pgid: Spg::replicated(pgid),
            hash,
            epoch: self.map.epoch,
            flags: self.flags | osd_flag::ONDISK | if writes { osd_flag::WRITE } else { osd_flag::READ },
            locator: maps::ObjectLocator { pool: POOL, ..Default::default() },
            oid: name.as_bytes().to_vec(),
            ops: ops.into_iter().map(SubOp::from).collect(),
            snapid: if writes { SnapId::HEAD } else { self.at },
            snap_seq: self.context.seq,
            snaps: self.context.snaps.clone(),
            ..OsdOp::default()
        };
        self.send_any(osd, tid, msgs::Body::from(request));
        tid
    }

    /// The client has understood a backoff.
    pub fn acknowledge(&mut self, osd: usize, m: &msgs::OsdBackoff) {
        let ack = msgs::OsdBackoff { op: msgs::backoff_op::ACK_BLOCK, ..m.clone() };
        self.send_any(osd, 0, msgs::Body::from(ack));
    }

    /// Sends an OSD any message from the client.
    pub fn send_any(&mut self, osd: usize, tid: u64, body: impl Into<node::Body>) {
        let conn = match self.client_conns.get(&osd) {
            Some(conn) => *conn,
            None => {
                self.next_accepted += 1;
                let (mine, theirs) =
                    (ConnId(self.next_accepted), ConnId(ConnId::ACCEPTED | self.next_accepted));
                self.ends.insert((CLIENT, mine), (osd, theirs));
                self.ends.insert((osd, theirs), (CLIENT, mine));
                let mut peer = peer_of(CLIENT, 77);
                peer.caps.clone_from(&self.client_caps);
                (peer.id.num, peer.global_id) = (self.client_gid as i64, self.client_gid);
                peer.features = self.client_features;
                let connected = Input::Connected { conn: theirs, peer };
                let delay = self.delay(CLIENT, osd);
                self.push(delay, osd, Event::Input(connected));
                self.client_conns.insert(osd, mine);
                mine
            }
        };
        self.send(CLIENT, conn, Msg::new(tid, body));
    }

    /// Sends a request to whoever is primary, again after each change, until it is answered.
    pub fn op(&mut self, name: &str, ops: Vec<Op>) -> OsdOpReply {
        self.next_tid += 1;
        let tid = self.next_tid;
        self.resend(tid, name, ops)
    }

    /// As [`Self::op`], with a tid that was used before.
    pub fn resend(&mut self, tid: u64, name: &str, ops: Vec<Op>) -> OsdOpReply {
        let had = self.replies.get(&tid).map_or(0, Vec::len);
        self.ask_until(tid, name, ops, had)
    }

    /// As [`Self::op`], with a tid that may have been answered already.
    pub fn finish(&mut self, tid: u64, name: &str, ops: Vec<Op>) -> OsdOpReply {
        match self.replies.get(&tid).and_then(|r| r.first()) {
            Some(reply) => reply.clone(),
            None => self.ask_until(tid, name, ops, 0),
        }
    }

    fn ask_until(&mut self, tid: u64, name: &str, ops: Vec<Op>, had: usize) -> OsdOpReply {
        let end = self.now + Duration::from_secs(60);
        let help = self.now + Duration::from_secs(10);
        let mut asked = None;
        loop {
            let primary = self.acting(name).first().copied();
            let target = (primary, self.map.epoch);
            if asked != Some(target)
                && let Some(osd) = primary
                && self.slots[&osd].osd.is_some()
            {
                self.send_op(osd, Some(tid), name, ops.clone());
                asked = Some(target);
            }
            assert!(self.step(end), "no answer within a minute\n{}", self.report());
            if self.rescue && self.now > help {
                self.alive().1.into_iter().for_each(|osd| self.start(osd));
            }
            if let Some(reply) = self.replies.get(&tid).and_then(|r| r.get(had)) {
                return reply.clone();
            }
        }
    }

    pub fn write(&mut self, name: &str, text: &str) {
        let reply = self.op(name, vec![write_full(text)]);
        assert_eq!(reply.result, 0, "write {name}");
    }

    /// The content, or the errno.
    pub fn read(&mut self, name: &str) -> Result<String, i32> {
        let reply = self.op(name, vec![Op::Read(msgs::Extent::new(0, 0))]);
        match reply.result {
            0.. => Ok(String::from_utf8_lossy(&reply.ops[0].data.to_vec()).into_owned()),
            errno => Err(errno),
        }
    }

    // ---- what must hold

    /// Waits until every PG is clean by what its primary reports.
    pub fn wait_clean(&mut self) {
        let pgs: Vec<PgId> = self.map.pools[&POOL].pgs(POOL).collect();
        self.stats.clear();
        self.run_until("all PGs clean", |c| {
            let clean = peer::pg_state::ACTIVE | peer::pg_state::CLEAN;
            pgs.iter().all(|p| {
                let newest = c.stats.get(p).is_some_and(|s| s.state & clean == clean);
                let primary = c.map.pg_up_acting(*p).acting_primary.map(|o| o.0 as usize);
                let inside = primary.and_then(|o| c.slots[&o].osd.as_ref()).and_then(|o| o.pgs.get(p));
                newest || inside.is_some_and(|pg| pg.state == crate::pg::state::State::Clean)
            })
        });
    }

    /// All objects on an OSD's disk, read by a store of its own.
    pub fn objects(&self, osd: usize) -> BTreeMap<Vec<u8>, (ObjectKey, ObjectView)> {
        let mut reader = StoreReader::open(self.slots[&osd].disk.clone(), self.disk_size(osd));
        let from = ObjectKey::first_at(0, i8::MIN, 0);
        let to = ObjectKey::first_at(i64::MAX, -1, 0);
        let ReadReply::List(keys) = reader.read(Read::List { from, to, max: 100_000 }) else {
            panic!("a list")
        };
        let mut out = BTreeMap::new();
        for key in keys {
            let read = Read::Object {
                key: key.clone(),
                attrs: true,
                data: vec![(0, 1 << 30)],
                omap_header: true,
                omap_keys: vec![],
                omap_range: Some(OmapRange { max: 100_000, max_bytes: 1 << 30, ..Default::default() }),
            };
            let ReadReply::Object(Some(view)) = reader.read(read) else { panic!("an object") };
            let mut name = key.name.clone();
            if key.snap != ObjectKey::HEAD {
                name.extend_from_slice(format!("@{}", key.snap).as_bytes());
            }
            out.insert(name, (key, view));
        }
        out
    }

    /// Replicas are byte-identical, nothing complained.
    pub fn check(&mut self) {
        self.wait_clean();
        self.run(Duration::from_millis(200));
        assert_eq!(self.complaints, Vec::<String>::new());
        assert_eq!(self.stopped, Vec::new());
        let up: Vec<usize> = self.slots.iter().filter(|(_, s)| s.osd.is_some()).map(|(n, _)| *n).collect();
        let all: BTreeMap<usize, _> = up.iter().map(|o| (*o, self.objects(*o))).collect();
        let names: BTreeSet<Vec<u8>> = all.values().flat_map(|o| o.keys().cloned()).collect();
        for name in names {
            let text = String::from_utf8_lossy(&name).into_owned();
            let acting = self.acting(text.split('@').next().unwrap_or_default());
            for osd in &acting {
                assert_eq!(
                    all[osd].get(&name),
                    all[&acting[0]].get(&name),
                    "{name:?} on osd.{osd} and osd.{}",
                    acting[0]
                );
            }
        }
    }

    /// The OSDs that run, and those that do not.
    pub fn alive(&self) -> (Vec<usize>, Vec<usize>) {
        self.slots.keys().partition(|n| self.slots[n].osd.is_some())
    }

    /// What time it is.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Puts one OSD's disk into another's machine.
    pub fn give_disk(&mut self, from: usize, to: usize) {
        let disk = self.slots[&from].disk.clone();
        self.slots.insert(to, Slot { osd: None, disk, nonce: 1, life: 1 });
    }

    /// Kills an OSD whose store is at rest: nothing is in its log only.
    pub fn stop_at_rest(&mut self, osd: usize) {
        self.stop(osd);
    }

    /// Changes one bit where `pattern` begins on a stopped OSD's disk, everywhere. Whether it was found.
    pub fn rot(&mut self, osd: usize, pattern: &[u8]) -> bool {
        self.slots.get_mut(&osd).expect("a known OSD").disk.rot(pattern)
    }

    /// Changes what an OSD stores behind its back.
    pub fn tamper(&mut self, osd: usize, ops: Vec<store::TxnOp>) {
        self.run(Duration::from_millis(100));
        let slot = self.slots.get_mut(&osd).and_then(|s| s.osd.as_mut()).expect("a running OSD");
        slot.core.submit_own(store::Transaction { ops }, crate::core::CommitFor::Nothing);
        self.input(osd, Input::Timer);
        self.run(Duration::from_millis(100));
    }

    /// Changes how a running OSD scrubs.
    pub fn set_scrub(&mut self, osd: usize, change: impl FnOnce(&mut crate::ScrubOptions)) {
        let slot = self.slots.get_mut(&osd).and_then(|s| s.osd.as_mut()).expect("a running OSD");
        change(&mut slot.core.config.options.scrub);
    }

    /// Orders a scrub, as the monitor does.
    pub fn order_scrub(&mut self, osd: usize, pgid: PgId, deep: bool, repair: bool) {
        let slot = self.slots.get_mut(&osd).and_then(|s| s.osd.as_mut()).expect("a running OSD");
        assert!(slot.scrub_order(pgid, deep, repair), "osd.{osd} leads {pgid}");
        self.input(osd, Input::Timer);
    }

    /// Gives an OSD a command by its admin socket.
    pub fn admin(&mut self, osd: usize, command: &str) -> (i32, String) {
        self.input(osd, Input::Admin { id: node::AdminId(1), command: command.to_owned() });
        self.admin_answer.take().expect("an answer at once")
    }

    /// The store's key of an object.
    pub fn key(&self, name: &str) -> ObjectKey {
        ObjectKey::head(POOL, self.pgid_of(name).1, b"", b"", name.as_bytes())
    }

    /// Looks inside an OSD.
    pub fn osd(&self, osd: usize) -> &Osd {
        self.slots[&osd].osd.as_ref().expect("a running OSD")
    }

    /// Reaches inside an OSD.
    pub fn osd_mut(&mut self, osd: usize) -> &mut Osd {
        self.slots.get_mut(&osd).and_then(|s| s.osd.as_mut()).expect("a running OSD")
    }

    /// The PG of an object.
    pub fn pgid(&self, name: &str) -> PgId {
        self.pgid_of(name).0
    }

    /// Counts of all OSDs that run.
    pub fn counted(&self, name: &str) -> u64 {
        let counts = self.slots.values().filter_map(|s| s.osd.as_ref()?.core.counters.get(name));
        counts.sum()
    }
}

pub fn write_full(text: &str) -> Op {
    let data = Bufs::from(text.as_bytes().to_vec());
    Op::WriteFull { extent: msgs::Extent::new(0, data.len() as u64), data }
}

pub fn append(text: &str) -> Op {
    let data = Bufs::from(text.as_bytes().to_vec());
    Op::Append { extent: msgs::Extent::new(0, data.len() as u64), data }
}

/// A store whose disk answers at once.
struct StoreReader {
    store: Store,
    disk: Disk,
}

impl StoreReader {
    fn open(disk: Disk, size: u64) -> Self {
        let info = DiskInfo { id: DiskId(0), size, sector: 512 };
        let mut reader = Self { store: Store::new(Config::default(), info, Rng::from_seed(1)), disk };
        let mut out = Vec::new();
        reader.store.open(None, &mut out);
        reader.pump(out);
        assert!(reader.store.is_open());
        reader
    }

    fn pump(&mut self, mut out: Vec<StoreOut>) -> Vec<ReadReply> {
        let mut replies = Vec::new();
        while !out.is_empty() {
            let mut next = Vec::new();
            for event in out {
                match event {
                    StoreOut::Disk(id, op) => {
                        let result = self.disk.run(op);
                        self.store.disk_done(id, result, &mut next);
                    }
                    StoreOut::Read(_, result) => replies.push(result.expect("readable")),
                    StoreOut::Failed(error) => panic!("{error}"),
                    _ => {}
                }
            }
            out = next;
        }
        replies
    }

    fn read(&mut self, read: Read) -> ReadReply {
        let mut out = Vec::new();
        self.store.read(read, &mut out);
        self.pump(out).pop().expect("an answer")
    }
}
