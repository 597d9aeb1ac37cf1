//! The manager as a node: its session to the monitors, its place in the map, its clients.

use crate::commands::{Decision, decide};
use crate::sessions::{Asker, Form, Sessions};
use crate::{MgrConfig, Notice, Outcome, Request};
use auth::ServerKeys;
use maps::{Epoch, Gid, MgrMap};
use monc::{Monc, MoncConfig, MoncOut, Tells, Told};
use msgs::{Body, CommandReply};
use node::{ConnId, Event, Input, Level, Msg, Node, Output, RequestId};
use std::sync::Arc;
use std::time::Duration;
use stdx::{Bufs, Instant, Now, Rng};
use wire::{AddrType, EntityAddr, EntityType, Errno, Reader, Utime};

/// Interval between beacons.
const BEACONS: Duration = Duration::from_secs(2);
/// Monitors that know no managers send a map of epoch 1, and would not understand a beacon.
const SILENT_EPOCH: Epoch = Epoch(1);
/// The time that a metadata server has to answer a command of the worker.
const TELL_PATIENCE: Duration = Duration::from_secs(30);
/// This crate's shares of the node's connection numbers.
const MONC_SPACE: u8 = 1;
const TELL_SPACE: u8 = 2;

type Out = Vec<Output<Notice>>;

/// A manager.
pub struct Mgr {
    config: MgrConfig,
    monc: Monc,
    monc_out: Vec<MoncOut>,
    map: MgrMap,
    sessions: Sessions,
    tells: Tells,
    /// It has the keys with which clients are let in.
    has_keys: bool,
    /// The worker was told that it is active.
    is_active: bool,
    /// The time from which it is active by the map.
    active_since: Utime,
    next_beacon: Instant,
    /// Addresses of the worker's clients.
    clients: Vec<EntityAddr>,
}

impl Mgr {
    /// A manager; its first input is [`Input::Start`].
    pub fn new(config: MgrConfig, mut rng: Rng) -> Self {
        let monc = MoncConfig {
            credentials: config.credentials.clone(),
            mons: config.monitors.clone(),
            services: vec![EntityType::MDS],
            rotating_keys: Some(EntityType::MGR),
            space: MONC_SPACE,
            hostname: config.hostname.clone(),
        };
        Self {
            config,
            monc: Monc::new(monc, rng.fork()),
            monc_out: Vec::new(),
            map: MgrMap::default(),
            sessions: Sessions::default(),
            tells: Tells::new(TELL_SPACE),
            has_keys: false,
            is_active: false,
            active_since: Utime::default(),
            next_beacon: Instant(0),
            clients: Vec::new(),
        }
    }

    fn gid(&self) -> Gid {
        Gid(self.monc.global_id())
    }

    fn start(&mut self, now: Now, out: &mut Out) {
        if self.config.credentials.key.is_none() {
            out.push(Output::Keys(Arc::new(ServerKeys::new(EntityType::MGR, self.config.methods.clone()))));
            self.has_keys = true;
        }
        self.monc.subscribe("mgrmap", 0, false, &mut self.monc_out);
        self.monc.start(now, &mut self.monc_out);
    }

    /// Carries out what the session to the monitors gave, until nothing follows.
    fn settle(&mut self, now: Now, out: &mut Out) {
        while !self.monc_out.is_empty() {
            for one in std::mem::take(&mut self.monc_out) {
                match one {
                    MoncOut::Net(net) => out.push(net.into()),
                    MoncOut::Told(told) => self.told(now, told, out),
                }
            }
        }
    }

    fn told(&mut self, now: Now, told: Told, out: &mut Out) {
        match told {
            Told::Session { .. } => {
                self.send_beacon(now);
                self.follow_map(now, out);
            }
            // Another one may be active by now.
            Told::Lost => self.set_active(false, out),
            Told::RotatingKeys(keys) => {
                let mut server = ServerKeys::new(EntityType::MGR, self.config.methods.clone());
                server.rotating.insert(EntityType::MGR, *keys);
                out.push(Output::Keys(Arc::new(server)));
                if !std::mem::replace(&mut self.has_keys, true) {
                    self.send_beacon(now);
                }
            }
            Told::Reply { token, body: Body::MonCommandAck(ack) } => {
                let outcome = Outcome { code: ack.r, status: ack.rs, output: ack.data };
                self.answer(token, outcome, out);
            }
            Told::Message(Msg { body: node::Body::Client(Body::MgrMap(m)), .. }) => {
                self.take_map(now, &m, out);
            }
            Told::Denied => {
                let text = format!("the monitors refuse the key of {}", self.config.credentials.name);
                out.push(Output::Event(Event::new(Level::Warn, "key_refused", text)));
            }
            _ => {}
        }
    }

    fn take_map(&mut self, now: Now, m: &msgs::MgrMap, out: &mut Out) {
        let map: MgrMap = match Reader::new(&m.map.0).get() {
            Ok(map) => map,
            Err(e) => {
                out.push(Output::Event(Event::new(Level::Warn, "bad_map_seen", format!("mgrmap: {e}"))));
                return;
            }
        };
        self.monc.got("mgrmap", map.epoch.0.into());
        if map.epoch > self.map.epoch {
            self.map = map;
            self.follow_map(now, out);
        }
    }

    /// Acts on the place that the map gives us.
    fn follow_map(&mut self, now: Now, out: &mut Out) {
        let gid = self.gid();
        let is_known = self.map.active_gid == gid || self.map.standbys.contains_key(&gid);
        if !is_known {
            self.send_beacon(now);
        }
        if !self.monc.is_open() {
            return;
        }
        if std::mem::replace(&mut self.active_since, self.map.active_change) != self.map.active_change {
            // It may have lost its place between two maps, and its clients are blocklisted.
            self.set_active(false, out);
        }
        self.set_active(self.map.active_gid == gid && gid != Gid(0), out);
    }

    fn set_active(&mut self, is_active: bool, out: &mut Out) {
        if self.is_active == is_active {
            return;
        }
        self.is_active = is_active;
        out.push(Output::Reply { id: RequestId(0), reply: Notice::Active(is_active) });
        if is_active {
            let text = format!("mgr.{} is active", self.config.name);
            return out.push(Output::Event(Event::new(Level::Info, "mgr_activated", text)));
        }
        // Clients send unanswered commands again, to whoever is active.
        out.extend(self.sessions.take_all().into_iter().map(|conn| Output::Close { conn }));
        out.push(Output::Event(Event::new(Level::Info, "mgr_deactivated", self.config.name.clone())));
    }

    fn send_beacon(&mut self, now: Now) {
        if !self.monc.is_open() || self.map.epoch <= SILENT_EPOCH {
            return;
        }
        self.next_beacon = now.mono + BEACONS;
        let beacon = peer::MgrBeacon {
            fsid: self.monc.fsid(),
            gid: self.gid(),
            name: self.config.name.clone(),
            addrs: self.config.addrs.clone(),
            features: wire::FEATURES,
            available: self.has_keys,
            clients: self.clients.clone(),
            metadata: self.config.metadata.clone(),
        };
        self.monc.send(peer::Body::from(beacon), &mut self.monc_out);
    }

    fn request(&mut self, now: Now, id: RequestId, request: Request, out: &mut Out) {
        match request {
            Request::Done { job, outcome } => self.answer(job, outcome, out),
            Request::Clients(nonces) => self.set_clients(now, &nonces),
            Request::Tell { addr, command } => {
                return self.tells.send((id, now.mono + TELL_PATIENCE), addr, command, &self.monc, out);
            }
        }
        out.push(Output::Reply { id, reply: Notice::Active(self.is_active) });
    }

    /// Notes the worker's clients: they have our address, and nonces of their own.
    fn set_clients(&mut self, now: Now, nonces: &[u32]) {
        let own = self.config.addrs.front();
        let addr = own.addr.map(|mut addr| {
            addr.set_port(0);
            addr
        });
        self.clients =
            nonces.iter().map(|nonce| EntityAddr { ty: AddrType::ANY, nonce: *nonce, addr }).collect();
        self.send_beacon(now);
    }

    fn message(&mut self, now: Now, conn: ConnId, msg: Msg, out: &mut Out) {
        if self.monc.owns(conn) {
            return self.monc.message(now, conn, msg, &mut self.monc_out);
        }
        if self.tells.owns(conn) {
            let answer = self.tells.message(conn, msg, out);
            return told(answer, out);
        }
        let Msg { tid, body: node::Body::Client(body), .. } = msg else {
            return out.push(Output::Close { conn });
        };
        match body {
            Body::MgrCommand(m) => {
                self.command(Asker { conn, tid, form: Form::Mgr }, &m.cmd, m.data, out);
            }
            Body::Command(m) => self.command(Asker { conn, tid, form: Form::Old }, &m.cmd, m.data, out),
            Body::MgrClose(m) => out.push(Output::Send { conn, msg: Msg::new(tid, Body::from(*m)) }),
            // What services report has no reader.
            Body::MgrOpen(_) | Body::MgrReport(_) | Body::MgrUpdate(_) => {}
            _ => out.push(Output::Close { conn }),
        }
    }

    fn command(&mut self, asker: Asker, cmd: &[String], data: Bufs, out: &mut Out) {
        let Some(caps) = self.sessions.caps(asker.conn) else { return };
        let text = cmd.concat();
        let refused =
            |errno: Errno, status| Outcome { code: errno.to_result_code(), status, ..Outcome::default() };
        let decision = decide(&text, caps);
        let at_once = match &decision {
            Decision::Answer(output) => {
                Some(Outcome { output: output.clone().into_bytes().into(), ..Outcome::default() })
            }
            Decision::Refuse(errno, status) => Some(refused(*errno, status.clone())),
            Decision::Run(..) | Decision::PassOn => None,
        };
        if let Some(outcome) = at_once {
            return out.push(Output::Send { conn: asker.conn, msg: asker.answer(outcome) });
        }
        let Some(job) = self.sessions.begin(asker) else {
            let outcome = refused(Errno::EBUSY, "too many commands wait: try again later".to_owned());
            return out.push(Output::Send { conn: asker.conn, msg: asker.answer(outcome) });
        };
        match decision {
            Decision::Run(command, args) => {
                out.push(Output::Reply { id: RequestId(0), reply: Notice::Run { job, command, args } });
            }
            _ => self.monc.command(job, text, data, &mut self.monc_out),
        }
    }

    fn answer(&mut self, job: u64, outcome: Outcome, out: &mut Out) {
        if let Some(asker) = self.sessions.end(job) {
            out.push(Output::Send { conn: asker.conn, msg: asker.answer(outcome) });
        }
    }
}

/// Gives the worker the answers of metadata servers.
fn told(answers: impl IntoIterator<Item = (RequestId, CommandReply)>, out: &mut Out) {
    for (id, reply) in answers {
        let outcome = Outcome { code: reply.r, status: reply.rs, output: reply.data };
        out.push(Output::Reply { id, reply: Notice::Told(outcome) });
    }
}

impl Node for Mgr {
    type Request = Request;
    type Reply = Notice;

    fn handle(&mut self, now: Now, input: Input<Request>, out: &mut Out) {
        match input {
            Input::Start => self.start(now, out),
            Input::Timer => {
                self.monc.timer(now, &mut self.monc_out);
                told(self.tells.expire(now.mono, out), out);
                if now.mono >= self.next_beacon {
                    self.send_beacon(now);
                }
            }
            Input::Connected { conn, peer } if self.monc.owns(conn) => {
                self.monc.connected(now, conn, &peer, &mut self.monc_out);
            }
            Input::Connected { conn, .. } if self.tells.owns(conn) => {}
            Input::Connected { conn, peer } => match self.is_active {
                true => self.sessions.add(conn, &peer, &self.config.methods),
                // Its map is old: it will connect to the active one.
                false => out.push(Output::Close { conn }),
            },
            Input::Message { conn, msg } => self.message(now, conn, msg, out),
            Input::Closed { conn, reason } if self.monc.owns(conn) => {
                self.monc.closed(now, conn, reason, &mut self.monc_out);
            }
            Input::Closed { conn, .. } if self.tells.owns(conn) => told(self.tells.closed(conn), out),
            Input::Closed { conn, .. } => self.sessions.remove(conn),
            Input::Request { id, request } => self.request(now, id, request, out),
            Input::Admin { id, .. } => {
                let code = Errno::EINVAL.to_result_code();
                out.push(Output::AdminReply { id, code, output: "a manager has no such command".to_owned() });
            }
            Input::Disk { .. } | Input::Load(_) => {}
        }
        self.settle(now, out);
    }

    fn deadline(&self) -> Option<Instant> {
        let is_announced = self.monc.is_open() && self.map.epoch > SILENT_EPOCH;
        let beacon = is_announced.then_some(self.next_beacon);
        [self.monc.deadline(), self.tells.deadline(), beacon].into_iter().flatten().min()
    }
}
