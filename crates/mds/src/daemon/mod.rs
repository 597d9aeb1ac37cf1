//! The daemon around a rank: its session to the monitors, its place in the MDS map, the connections of
//! clients, and RADOS.

mod aside;
mod asker;
mod beacon;
mod commands;
mod evict;
mod lease;
mod links;
mod memory;
mod namesake;
mod objects;
mod ranks;
mod snaps;

use crate::config::{MdsConfig, MdsOptions, RankConfig};
use crate::rank::{ClientPeer, Effect, Rank, Stage};
use crate::types::{ClientId, IoId, RankPeer};
use aside::Aside;
use asker::Asker;
use auth::{MdsCap, ServerKeys};
use lease::Lease;
use links::Links;
use maps::{Epoch, Gid, MdsMap, MdsRank, MdsState, SnapId};
use monc::{MoncConfig, Told};
use msgs::{Body, pool_op};
use node::{CloseReason, ConnId, Event, Input, Level, Load, Msg, Never, Node, Output, Peer};
use rados::{Cluster, ClusterOut, RadosConfig, RadosTold};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use stdx::{Instant, Now, Rng};
use wire::{EntityAddr, EntityType};

/// This crate's shares of the node's connection numbers.
const MONC_SPACE: u8 = 1;
const RADOS_SPACE: u8 = 2;
const LINKS_SPACE: u8 = 3;
/// First token of requests to the monitors that evict a client, which distinguishes them from others.
const EVICT_TOKEN: u64 = 1 << 32;
/// First token of requests to the monitors about snapshots.
const SNAP_TOKEN: u64 = 1 << 33;

type Out = Vec<Output<Never>>;

/// A metadata server. It has no disks: everything is stored in RADOS.
pub struct Mds {
    config: MdsConfig,
    cluster: Cluster,
    map: Arc<MdsMap>,
    /// State reported to the monitors: the present or the desired one.
    state: MdsState,
    beacon_seq: u64,
    /// The last beacon that the monitors acknowledged.
    beacon_acked: u64,
    /// The time until which the rank is ours, and what waits for a later one.
    lease: Lease,
    next_beacon: Instant,
    /// How busy its thread and its host are.
    load: Load,
    /// The monitors know this incarnation.
    announced: bool,
    rank: Option<Rank>,
    /// The incarnation of the rank that it follows as a standby.
    followed: Option<i32>,
    conns: BTreeMap<ConnId, ClientId>,
    /// Connections of other metadata servers, by their global ids.
    peers: BTreeMap<ConnId, Gid>,
    /// Our connections to other ranks.
    links: Links,
    /// The newest connection of each client.
    clients: BTreeMap<ClientId, ConnId>,
    /// Evictions in progress by token: the client, and the epoch of the OSD map that blocklists it.
    evictions: BTreeMap<u64, (ClientId, Option<Epoch>)>,
    /// The blocklist of the last OSD map.
    blocklist: BTreeSet<EntityAddr>,
    next_token: u64,
    /// Requests about snapshots of the data pool, by token: the one to be removed, or none for a new one.
    snap_requests: BTreeMap<u64, Option<SnapId>>,
    stopped: bool,
    /// It has lost its rank, and waits.
    aside: Option<Aside>,
    /// Clients that connected before there was a rank, with their messages.
    waiting_peers: Vec<(ClientId, ClientPeer)>,
    early: Vec<(ClientId, u64, Body)>,
    cluster_out: Vec<ClusterOut>,
    /// Connections whose key allows everything: they may run commands.
    administrators: BTreeSet<ConnId>,
    settings: decl::Settings,
    /// Limits at the start.
    first_options: MdsOptions,
    /// Scrubs that were asked for.
    scrubs: u64,
    /// Who waits for a flush of the journal.
    flushes: Vec<Asker>,
}

impl Mds {
    /// A metadata server; its first input is [`Input::Start`].
    pub fn new(config: MdsConfig, mut rng: Rng) -> Self {
        let monc = MoncConfig {
            credentials: config.credentials.clone(),
            mons: config.monitors.clone(),
            services: vec![EntityType::OSD, EntityType::MDS],
            rotating_keys: Some(EntityType::MDS),
            space: MONC_SPACE,
            hostname: config.hostname.clone(),
        };
        let rados = RadosConfig::new(config.credentials.clone(), RADOS_SPACE);
        let cluster = Cluster::new(monc, rados, &mut rng);
        let settings = decl::Settings::new(format!("mds.{}", config.name), BTreeMap::new());
        let first_options = config.options.clone();
        Self {
            config,
            cluster,
            map: Arc::new(MdsMap::default()),
            state: MdsState::BOOT,
            beacon_seq: 0,
            beacon_acked: 0,
            lease: Lease::default(),
            load: Load::default(),
            next_beacon: Instant(0),
            announced: false,
            rank: None,
            followed: None,
            conns: BTreeMap::new(),
            peers: BTreeMap::new(),
            links: Links::new(LINKS_SPACE),
            clients: BTreeMap::new(),
            evictions: BTreeMap::new(),
            blocklist: BTreeSet::new(),
            next_token: EVICT_TOKEN,
            snap_requests: BTreeMap::new(),
            stopped: false,
            aside: None,
            waiting_peers: Vec::new(),
            early: Vec::new(),
            cluster_out: Vec::new(),
            administrators: BTreeSet::new(),
            settings,
            first_options,
            scrubs: 0,
            flushes: Vec::new(),
        }
    }

    /// Sets options of its configuration file and command line, which take precedence over those from the
    /// monitors.
    pub fn with_file_options(mut self, options: BTreeMap<String, String>) -> Self {
        self.settings = decl::Settings::new(format!("mds.{}", self.config.name), options);
        self
    }

    /// Calls the sub-machine for monitors and OSDs; [`Self::settle`] handles its outputs.
    fn with_cluster<T>(&mut self, call: impl FnOnce(&mut Cluster, &mut Vec<ClusterOut>) -> T) -> T {
        call(&mut self.cluster, &mut self.cluster_out)
    }

    fn gid(&self) -> Gid {
        Gid(self.cluster.monc().global_id())
    }

    fn start(&mut self, now: Now, out: &mut Out) {
        if self.config.credentials.key.is_none() {
            out.push(Output::Keys(Arc::new(ServerKeys::new(EntityType::MDS, self.config.methods.clone()))));
        }
        self.with_cluster(|cluster, outs| {
            cluster.mon(now, outs, |monc, o| {
                monc.subscribe("mdsmap", 0, false, o);
                monc.subscribe("config", 0, false, o);
                monc.subscribe("nacremap", 0, false, o);
            });
            cluster.start(now, outs);
        });
    }

    fn connected(&mut self, now: Now, conn: ConnId, peer: &Peer, out: &mut Out) {
        if self.cluster.owns(conn) {
            return self.with_cluster(|cluster, outs| cluster.connected(now, conn, peer, outs));
        }
        if self.links.owns(conn) {
            return;
        }
        if self.aside.is_some() {
            return out.push(Output::Close { conn });
        }
        match peer.role() {
            EntityType::CLIENT => self.client_connected(conn, peer),
            EntityType::MDS => drop(self.peers.insert(conn, Gid(peer.global_id))),
            // A manager comes only to give commands.
            EntityType::MGR if self.client_peer(peer).caps.is_allow_all() => {
                self.administrators.insert(conn);
            }
            _ => {}
        }
    }

    fn client_connected(&mut self, conn: ConnId, peer: &Peer) {
        let client = ClientId(peer.global_id);
        self.conns.insert(conn, client);
        self.clients.insert(client, conn);
        let peer = self.client_peer(peer);
        if peer.caps.is_allow_all() {
            self.administrators.insert(conn);
        }
        if let Some(rank) = &mut self.rank {
            rank.client_connected(client, peer);
        } else {
            self.waiting_peers.push((client, peer));
        }
    }

    fn client_peer(&self, peer: &Peer) -> ClientPeer {
        let open = self.config.methods.contains(&auth::Method::None);
        let caps = if open { "allow *" } else { peer.caps.as_str() };
        // A key with unreadable capabilities allows nothing.
        let caps = MdsCap::parse(caps).unwrap_or_default();
        ClientPeer { addrs: peer.addrs.clone(), name: peer.name.to_string(), caps }
    }

    fn closed(&mut self, now: Now, conn: ConnId, reason: CloseReason) {
        self.administrators.remove(&conn);
        if self.cluster.owns(conn) {
            self.with_cluster(|cluster, outs| cluster.closed(now, conn, reason, outs));
        } else if self.links.owns(conn) {
            self.links.closed(conn);
        } else if self.peers.remove(&conn).is_some() {
            // The state shared with another rank depends on the map, not on a connection.
        } else if let Some(client) = self.conns.remove(&conn)
            && self.clients.get(&client) == Some(&conn)
        {
            // The session stays until the client is silent for too long.
            self.clients.remove(&client);
        }
    }

    fn message(&mut self, now: Now, conn: ConnId, msg: Msg, out: &mut Out) {
        if self.cluster.owns(conn) {
            return self.with_cluster(|cluster, outs| cluster.message(now, conn, msg, outs));
        }
        if let Some(gid) = self.peers.get(&conn).copied() {
            return self.peer_message(now, gid, msg, out);
        }
        if let (false, node::Body::Client(Body::Command(command))) =
            (self.conns.contains_key(&conn), &msg.body)
        {
            return self.tell(conn, msg.tid, command, out);
        }
        let Some(client) = self.conns.get(&conn).copied().filter(|c| self.clients.get(c) == Some(&conn))
        else {
            return;
        };
        let Msg { tid, body: node::Body::Client(body), .. } = msg else {
            out.push(Output::Close { conn });
            return;
        };
        if let Body::Command(command) = &body {
            return self.tell(conn, tid, command, out);
        }
        if let Some(refusal) = self.refusal(client, &body) {
            return out.push(Output::Send { conn, msg: Msg::new(0, refusal) });
        }
        match &mut self.rank {
            Some(rank) => rank.client_message(now, client, tid, body),
            // Nobody should come before there is a rank; a few may.
            None if self.early.len() < 1000 => self.early.push((client, tid, body)),
            None => {}
        }
    }

    /// Handles a message of another metadata server. The sender counts as the rank and incarnation of our
    /// map; without a rank there its message is dropped, and it repeats the message when both maps agree.
    fn peer_message(&mut self, now: Now, gid: Gid, msg: Msg, out: &mut Out) {
        let sender = self.map.mds_info.get(&gid).filter(|info| info.rank != MdsRank::NONE);
        let from = sender.map(|info| RankPeer { rank: info.rank, incarnation: info.inc });
        match (from, &mut self.rank, msg.body) {
            (Some(from), Some(rank), node::Body::Peer(body)) => rank.peer_message(now, from, body),
            _ => {
                let text = format!("the metadata server {} is no rank of ours", gid.0);
                out.push(Output::Event(Event::new(Level::Debug, "unexpected_message_seen", text)));
            }
        }
    }

    /// Carries out the outputs of the sub-machines and of the rank, until nothing follows.
    fn settle(&mut self, now: Now, out: &mut Out) {
        loop {
            let outs = std::mem::take(&mut self.cluster_out);
            let mut effects = Vec::new();
            if let Some(rank) = &mut self.rank {
                rank.settle(&mut effects);
            }
            if outs.is_empty() && effects.is_empty() {
                return;
            }
            for o in outs {
                self.cluster_told(now, o, out);
            }
            for effect in effects {
                self.effect(now, effect, out);
            }
        }
    }

    fn cluster_told(&mut self, now: Now, o: ClusterOut, out: &mut Out) {
        match o {
            ClusterOut::Net(net) => out.push(net.into()),
            ClusterOut::Mon(told) => self.mon_told(now, told, out),
            ClusterOut::Rados(RadosTold::Done { token, completion }) => {
                if let Some(rank) = &mut self.rank {
                    rank.io_done(now, IoId(token), objects::result(&completion));
                }
            }
            ClusterOut::Rados(RadosTold::Map(_)) => {
                let full = self.is_full();
                let osd_epoch = self.cluster.engine().map().epoch;
                if let Some(rank) = &mut self.rank {
                    rank.set_osd_epoch(osd_epoch);
                    rank.set_full(full);
                }
                self.tell_data_pools();
                self.follow_map(now, out);
                self.tell_ranks(now, out);
                self.finish_evictions(now);
                self.follow_blocklist(now);
            }
            ClusterOut::Rados(_) => {}
        }
    }

    fn mon_told(&mut self, now: Now, told: Told, out: &mut Out) {
        match told {
            Told::Session { .. } => self.send_beacon(now),
            Told::RotatingKeys(keys) => {
                let mut server = ServerKeys::new(EntityType::MDS, self.config.methods.clone());
                let text = format!("up to {}", keys.max_ver);
                out.push(Output::Event(Event::new(Level::Debug, "rotating_keys_fetched", text)));
                server.rotating.insert(EntityType::MDS, *keys);
                out.push(Output::Keys(Arc::new(server)));
            }
            Told::Tickets(_) => {
                out.push(Output::Event(Event::new(Level::Debug, "tickets_fetched", String::new())));
            }
            Told::Reply { token, body } if token >= SNAP_TOKEN => self.snap_answered(now, token, &body),
            Told::Reply { token, .. } => self.eviction_asked(now, token),
            Told::Message(Msg { body: node::Body::Client(Body::MdsMap(m)), .. }) => {
                self.take_map(now, &m, out)
            }
            Told::Message(Msg { body: node::Body::Client(Body::Config(m)), .. }) => {
                let changed = self.settings.set_central(m.config);
                if changed {
                    self.apply_settings();
                }
            }
            Told::Message(Msg { body: node::Body::Peer(peer::Body::MdsBeacon(m)), .. }) => {
                self.beacon_answered(now, &m, out);
            }
            Told::Message(Msg { body: node::Body::Peer(peer::Body::NacreMap(m)), .. }) => {
                let (levels, who) = (self.config.levels, format!("mds.{}", self.config.name));
                if let Some(why) = levels.refusal(&who, m.map.feature_level) {
                    self.stop(Output::Stop(Err(why)), out);
                }
            }
            Told::Denied => {
                let text = format!("the monitors refuse the key of mds.{}", self.config.name);
                out.push(Output::Event(Event::new(Level::Warn, "key_refused", text)));
            }
            _ => {}
        }
    }

    fn effect(&mut self, now: Now, effect: Effect, out: &mut Out) {
        if self.aside.is_some() {
            return;
        }
        match effect {
            Effect::Io(io) => {
                let token = io.id.0;
                let request = objects::request(io);
                self.with_cluster(|cluster, outs| {
                    cluster.rados(now, outs, |rados, o| rados.submit(now, token, request, o));
                });
            }
            // Another server may hold the rank by now, and have changed what this message says.
            Effect::Send(client, tid, body) => {
                if let Some((client, tid, body)) = self.lease.pass(now.mono, (client, tid, body)) {
                    self.send(client, tid, body, out);
                }
            }
            Effect::SendRank(rank, body) => self.send_rank(rank, body, out),
            Effect::TakeSnapId => self.ask_pool(now, pool_op::CREATE_UNMANAGED_SNAP, SnapId(0)),
            Effect::RemoveSnap(snap) => self.ask_pool(now, pool_op::DELETE_UNMANAGED_SNAP, snap),
            Effect::Evict(client, addrs) => self.ask_eviction(now, client, &addrs),
            Effect::Closed(client) => {
                if let Some(conn) = self.clients.remove(&client) {
                    self.conns.remove(&conn);
                    out.push(Output::Close { conn });
                }
            }
            Effect::Reached(stage) => self.reached(now, stage),
            Effect::Event(level, name, detail) => out.push(Output::Event(Event::new(level, name, detail))),
            Effect::Fail(text) => self.stop(Output::Stop(Err(text)), out),
            Effect::Behind => self.begin_anew("the journal was trimmed before it was read here", out),
            Effect::Replaced => self.refused_by_osds(now, out),
        }
    }

    fn send(&self, client: ClientId, tid: u64, body: Body, out: &mut Out) {
        if let Some(conn) = self.clients.get(&client) {
            out.push(Output::Send { conn: *conn, msg: Msg::new(tid, body) });
        }
    }

    /// Restarts as a standby: another server may hold our rank by now, and no state here is valid any more.
    fn begin_anew(&mut self, why: &str, out: &mut Out) {
        out.push(Output::Event(Event::new(Level::Warn, "begins_anew", why.to_owned())));
        self.stop(Output::Restart(why.to_owned()), out);
    }

    fn stop(&mut self, how: Output<Never>, out: &mut Out) {
        if !self.stopped {
            self.stopped = true;
            out.push(how);
        }
    }

    fn timer(&mut self, now: Now, out: &mut Out) {
        self.end_wait(now, out);
        self.with_cluster(|cluster, outs| cluster.timer(now, outs));
        if now.mono >= self.next_beacon && self.announced {
            self.send_beacon(now);
        }
        if let Some(rank) = &mut self.rank {
            rank.timer(now);
        }
    }
}

impl Node for Mds {
    type Request = Never;
    type Reply = Never;

    fn handle(&mut self, now: Now, input: Input<Never>, out: &mut Out) {
        if self.stopped {
            return;
        }
        match input {
            Input::Start => self.start(now, out),
            Input::Timer => self.timer(now, out),
            Input::Connected { conn, peer } => self.connected(now, conn, &peer, out),
            Input::Message { conn, msg } => self.message(now, conn, msg, out),
            Input::Closed { conn, reason } => self.closed(now, conn, reason),
            Input::Admin { id, command } => self.command(Asker::Admin(id), &command, out),
            Input::Load(load) => {
                self.load = load;
                self.follow_memory();
            }
            Input::Disk { .. } | Input::Request { .. } => {}
        }
        self.settle(now, out);
        self.answer_flushes(out);
    }

    fn deadline(&self) -> Option<Instant> {
        let beacon = self.announced.then_some(self.next_beacon);
        let rank = self.rank.as_ref().map(Rank::deadline);
        [self.cluster.deadline(), beacon, rank, self.aside_until()].into_iter().flatten().min()
    }
}
