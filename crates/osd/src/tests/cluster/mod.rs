//! Several OSDs with a monitor that only keeps a map, a network of constant delay and disks that end in
//! order.

mod checks;
mod client;
mod monitor;
mod pg_nums;

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
use stdx::{Budget, Bufs, Instant, Now, Rng, Wall};
use store::{Config, ObjectKey, ObjectView, OmapRange, Read, ReadReply, Store, StoreOut};
use wire::{AddrVec, EntityAddr, EntityId, EntityName, EntityType, Uuid, Writer};

pub use checks::member;
pub use client::{append, write_full};
pub use pg_nums::names;

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
    incarnation: u32,
}

/// Whether a message from one node to another is lost.
pub type Filter = Box<dyn FnMut(usize, usize, &Msg) -> bool>;

pub struct Cluster {
    now: Instant,
    seq: u64,
    /// By time and order: node, its incarnation, the event.
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
    /// The OSDs that the monitor tells of new maps unasked; `None` for all.
    pub told_at_once: Option<BTreeSet<usize>>,
    /// The monitor sends incrementals, not full maps.
    pub incrementals: bool,
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
    /// What `ceph tell` was answered.
    pub command_replies: Vec<(i32, Vec<u8>)>,
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
    /// Start all OSDs where the living ones can't answer: the newest version of an object may be on a dead
    /// one alone.
    pub rescue: bool,
    /// Delay of messages from one node to another, where it is not the usual one.
    pub latency: BTreeMap<(usize, usize), u64>,
    /// How long an OSD's disk takes for an operation, where that is not the usual.
    pub disk_time: BTreeMap<usize, Duration>,
    /// Timers that came one after another while no time passed.
    timers: usize,
    /// Under which the client writes.
    pub context: SnapContext,
    /// What the client reads.
    pub at: SnapId,
    /// By which map the client asks, where that is not the newest.
    pub asks_by: Option<Epoch>,
    /// From which requests have the memory for their answers.
    pub answers: Budget,
    /// Answers that had some: numbers and bytes.
    pub held: Vec<(u64, u64)>,
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
        ours: wire::EntityAddr::default(),
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
            told_at_once: None,
            incrementals: false,
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
            command_replies: Vec::new(),
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
            disk_time: BTreeMap::new(),
            timers: 0,
            context: SnapContext::default(),
            at: SnapId::HEAD,
            asks_by: None,
            answers: Budget::new(u64::MAX),
            held: Vec::new(),
        };
        c.history.insert(Epoch(1), Writer::encode(&c.map));
        (0..osds).for_each(|i| c.start(i));
        c.wait_clean();
        c
    }

    fn push(&mut self, delay: u64, node: usize, event: Event) {
        self.seq += 1;
        let incarnation = self.slots.get(&node).map_or(0, |s| s.incarnation);
        self.events.insert((self.now.0 + delay, self.seq), (node, incarnation, event));
    }

    fn disk_size(&self, osd: usize) -> u64 {
        self.disk_sizes.get(osd).copied().unwrap_or(DISK_SIZE)
    }

    /// Starts an OSD's process, on the disk that it has.
    pub fn start(&mut self, osd: usize) {
        let old = self.slots.remove(&osd);
        let (disk, nonce, incarnation) =
            old.map_or((Disk::default(), 1, 1), |s| (s.disk, s.nonce + 1, s.incarnation + 1));
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
        self.slots.insert(osd, Slot { osd: Some(node), disk, nonce, incarnation });
        self.push(0, osd, Event::Input(Input::Start));
    }

    /// `kill -9`, and the power of its disk fails too.
    pub fn kill(&mut self, osd: usize) {
        let slot = self.slots.get_mut(&osd).expect("a known OSD");
        slot.osd = None;
        slot.incarnation += 1;
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
            // It connects anew when it has something to send.
            CLIENT => self.client_conns.retain(|_, conn| *conn != end.1),
            node => self.push(DELAY, node, Event::Input(Input::Closed { conn: end.1, reason })),
        }
    }

    /// Asks an OSD to end, waits until it has, and gives what its disk holds then.
    pub fn stop(&mut self, osd: usize) -> store::Report {
        self.shut_down(osd);
        self.has_ended(osd)
    }

    fn shut_down(&mut self, osd: usize) {
        let now = Now { mono: self.now, wall: Wall(1_700_000_000_000_000_000 + self.now.0) };
        let mut out = Vec::new();
        self.slots
            .get_mut(&osd)
            .and_then(|s| s.osd.as_mut())
            .expect("a running OSD")
            .shut_down(now, &mut out);
        out.into_iter().for_each(|output| self.output(osd, output));
    }

    /// Waits until an OSD that was asked to end has, and gives what its disk holds then.
    pub fn has_ended(&mut self, osd: usize) -> store::Report {
        self.run_until("an OSD that was asked to end", |c| c.stopped.iter().any(|(n, _)| *n == osd));
        self.stopped.retain(|(n, why)| *n != osd || !why.is_empty());
        self.kill(osd);
        let mut disk = self.slots[&osd].disk.clone();
        let mut read = |offset, len| {
            let found = disk.run(DiskOp::Read { disk: DiskId(0), offset, len, cached: false });
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
                self.timers = if at == self.now.0 { self.timers + 1 } else { 0 };
                assert!(self.timers < 1000, "osd.{node} has nothing to do and does it all the time");
                self.now = Instant(at);
                self.input(node, Input::Timer);
            }
            (_, Some(at)) => {
                if at > end.0 {
                    return false;
                }
                let (_, (node, incarnation, event)) = self.events.pop_first().expect("looked at");
                self.now = Instant(at);
                if self.slots.get(&node).map_or(0, |s| s.incarnation) != incarnation {
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
                    node::Body::Client(msgs::Body::CommandReply(reply)) => {
                        self.command_replies.push((reply.r, reply.data.to_vec()));
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
            Output::Disk { id, op } => {
                let time = self.disk_time.get(&node).map_or(DELAY / 4, |time| time.as_nanos() as u64);
                self.push(time, node, Event::Disk(id, op));
            }
            Output::Event(event) => {
                if self.trace {
                    eprintln!("{:?} osd.{node} {:?} {} {}", self.now, event.level, event.name, event.detail);
                }
                if event.level <= Level::Warn && event.name != "marked_down" {
                    self.complaints.push(format!("osd.{node} {}: {}", event.name, event.detail));
                }
            }
            Output::AdminReply { code, output, .. } => self.admin_answer = Some((code, output)),
            Output::ShutDown => self.shut_down(node),
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
        if let Some(held) = msg.hold.clone().into_reservation() {
            self.held.push((msg.tid, held.bytes()));
        }
        let mut msg = Msg::from_raw(msg.to_raw()).expect("own encoding");
        if node == CLIENT && msg.largest_answer() > 0 {
            msg.hold = self.answers.reserve(msg.largest_answer()).expect("memory").into();
        }
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
}
