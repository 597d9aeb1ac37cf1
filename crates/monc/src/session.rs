//! The session itself: hunting, opening, what arrives, what is sent.

use crate::hunt::Hunt;
use crate::requests::Requests;
use crate::subs::Subs;
use crate::tickets::{Keeper, Renewed};
use crate::watch::{Look, Wait, Watch};
use crate::{ConnSpace, MoncConfig, MoncOut, Net, Told};
use auth::{Initiator, Tickets};
use maps::MonMap;
use msgs::Body;
use node::{CloseReason, ConnId, Msg, Peer, Target};
use std::sync::Arc;
use stdx::{Bufs, Instant, Now, Rng};
use wire::{EntityAddr, EntityType, Reader, Uuid};

#[derive(Debug)]
enum State {
    /// No connection; the next round of hunting begins at this time.
    Paused(Instant),
    /// One monitor is being tried until this moment.
    Connecting(ConnId, EntityAddr, Instant),
    /// It has answered, but we do not know the cluster's id yet, without which it takes no requests.
    Opening(ConnId, EntityAddr, Instant),
    /// There is a session.
    Open(ConnId, EntityAddr),
}

/// A session to a monitor. Inputs: [`Self::connected`], [`Self::message`], [`Self::closed`], [`Self::timer`]
/// and the owner's requests. [`Self::deadline`] is the time of the next timer.
#[derive(Debug)]
pub struct Monc {
    config: MoncConfig,
    rng: Rng,
    conns: ConnSpace,
    state: State,
    hunt: Hunt,
    keeper: Keeper,
    subs: Subs,
    requests: Requests,
    monmap: Option<Arc<MonMap>>,
    /// Handshakes refused since the last that was not.
    denials: u32,
    watch: Watch,
    /// The owner waits for any sign of life.
    awaits_sign: bool,
}

/// After this many refusals the old tickets may be the reason: monitors may no longer have the keys that open
/// them.
const DENIALS: u32 = 3;

impl Monc {
    /// No connection is made before [`Self::start`] or the first timer.
    pub fn new(config: MoncConfig, rng: Rng) -> Self {
        let mut subs = Subs::default();
        subs.want("monmap", 0, false, &config.hostname);
        Self {
            rng,
            conns: ConnSpace::new(config.space),
            state: State::Paused(Instant::default()),
            hunt: Hunt::new(config.mons.clone()),
            keeper: Keeper::new(),
            subs,
            requests: Requests::default(),
            monmap: None,
            denials: 0,
            watch: Watch::new(config.credentials.name.ty == EntityType::CLIENT),
            awaits_sign: false,
            config,
        }
    }

    /// Starts to hunt for a monitor.
    pub fn start(&mut self, now: Now, out: &mut Vec<MoncOut>) {
        if let State::Paused(_) = self.state {
            self.hunt.begin_round(None, &mut self.rng);
            self.try_next(now, out);
        }
    }

    /// Gives the session up, and with it our global id and tickets: the next [`Self::start`] is that of a new
    /// client. What is subscribed and asked stays so.
    pub fn leave(&mut self, now: Now, out: &mut Vec<MoncOut>) {
        match self.state {
            State::Paused(_) => {}
            State::Connecting(conn, ..) | State::Opening(conn, ..) => out.push(Net::Close { conn }.into()),
            State::Open(conn, _) => {
                out.push(Net::Close { conn }.into());
                out.push(Told::Lost.into());
            }
        }
        self.state = State::Paused(now.mono);
        (self.keeper, self.denials, self.awaits_sign) = (Keeper::new(), 0, false);
        self.hunt.reset();
    }

    /// True if inputs about `conn` are for this machine.
    pub fn owns(&self, conn: ConnId) -> bool {
        self.conns.owns(conn)
    }

    /// True if a session is open.
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Open(..))
    }

    /// The monitors' map, once known.
    pub fn monmap(&self) -> Option<&Arc<MonMap>> {
        self.monmap.as_ref()
    }

    /// The cluster's id, once known; zeros before.
    pub fn fsid(&self) -> Uuid {
        self.monmap.as_ref().map(|m| m.fsid).unwrap_or_default()
    }

    /// Our global id, 0 before the first session.
    pub fn global_id(&self) -> u64 {
        self.keeper.tickets.global_id
    }

    /// The tickets that it holds.
    pub fn tickets(&self) -> &Tickets {
        &self.keeper.tickets
    }

    /// Our half of the authentication towards an OSD or MDS.
    pub fn service_auth(&self, service: EntityType) -> Box<Initiator> {
        Box::new(Initiator::service(self.config.credentials.clone(), self.keeper.tickets.clone(), service))
    }

    /// The time at which [`Self::timer`] is due.
    pub fn deadline(&self) -> Option<Instant> {
        match self.state {
            State::Paused(at) | State::Connecting(_, _, at) | State::Opening(_, _, at) => Some(at),
            State::Open(..) => {
                let watch = self.watch.deadline(self.wait());
                Some(self.keeper.deadline().map_or(watch, |renewal| renewal.min(watch)))
            }
        }
    }

    /// The owner's present wait.
    fn wait(&self) -> Wait {
        match self.subs.expected_since() {
            _ if self.awaits_sign || self.requests.any_waiting() => Wait::Answer,
            Some(since) => Wait::News(since),
            None => Wait::Nothing,
        }
    }

    /// Time has passed.
    pub fn timer(&mut self, now: Now, out: &mut Vec<MoncOut>) {
        match self.state {
            State::Paused(at) if at <= now.mono => {
                self.hunt.begin_round(None, &mut self.rng);
                self.try_next(now, out);
            }
            State::Connecting(conn, _, at) | State::Opening(conn, _, at) if at <= now.mono => {
                out.push(Net::Close { conn }.into());
                self.try_next(now, out);
            }
            State::Open(conn, _) => match self.watch.look(now.mono, self.wait()) {
                Look::Silent => {
                    out.push(Net::Close { conn }.into());
                    self.lose(now, out);
                }
                look => {
                    if look == Look::Ask {
                        let tid = self.requests.tid();
                        self.send_now(Msg::new(tid, Body::from(msgs::MonGetMap {})), out);
                    }
                    self.renew(now, out);
                }
            },
            _ => {}
        }
    }

    /// A connection is there.
    pub fn connected(&mut self, now: Now, conn: ConnId, peer: &Peer, out: &mut Vec<MoncOut>) {
        let State::Connecting(ours, addr, give_up_at) = self.state else { return };
        if ours != conn {
            return;
        }
        self.state = State::Opening(conn, addr, give_up_at);
        self.denials = 0;
        self.keeper.begin_session(&self.config, peer.tickets.as_deref(), now);
        if peer.tickets.is_some() {
            out.push(Told::Tickets(Box::new(self.keeper.tickets.clone())).into());
        }
        if let Some(subscribe) = self.subs.all(&self.config.hostname) {
            out.push(Net::Send { conn, msg: Msg::new(0, Body::from(subscribe)) }.into());
        }
        if self.monmap.is_some() {
            self.open(now, out);
        }
    }

    /// A monitor has answered and the cluster's id is known.
    fn open(&mut self, now: Now, out: &mut Vec<MoncOut>) {
        let State::Opening(conn, addr, _) = self.state else { return };
        self.state = State::Open(conn, addr);
        self.hunt.reset();
        self.watch.heard(now.mono);
        for msg in self.requests.for_new_session(self.fsid()) {
            self.send_now(msg, out);
        }
        out.push(Told::Session { global_id: self.global_id() }.into());
        self.renew(now, out);
    }

    /// A connection is gone or was never made.
    pub fn closed(&mut self, now: Now, conn: ConnId, reason: CloseReason, out: &mut Vec<MoncOut>) {
        match self.state {
            State::Connecting(ours, ..) | State::Opening(ours, ..) if ours == conn => {
                if reason == CloseReason::Denied {
                    out.push(Told::Denied.into());
                    self.denials += 1;
                    if self.denials >= DENIALS {
                        self.keeper.forget();
                    }
                }
                self.try_next(now, out);
            }
            State::Open(ours, _) if ours == conn => self.lose(now, out),
            _ => {}
        }
    }

    /// An OSD or metadata server refused our ticket: fetches new ones, unless that was tried a moment ago.
    pub fn tickets_refused(&mut self, now: Now, out: &mut Vec<MoncOut>) {
        self.keeper.service_refused(&self.config, now);
        self.renew(now, out);
    }

    /// A message on one of our connections.
    pub fn message(&mut self, now: Now, conn: ConnId, msg: Msg, out: &mut Vec<MoncOut>) {
        if !matches!(self.state, State::Open(ours, _) | State::Opening(ours, ..) if ours == conn) {
            return;
        }
        self.watch.heard(now.mono);
        self.awaits_sign = false;
        let body = match &msg.body {
            node::Body::Client(body) => body,
            node::Body::Peer(peer::Body::MonLeader(_)) => {
                // The session stays, but who listens at its end is new.
                if self.is_open() {
                    out.push(Told::Session { global_id: self.global_id() }.into());
                }
                return;
            }
            node::Body::Peer(body) => {
                if let peer::Body::NacreMap(m) = body {
                    self.subs.got("nacremap", m.map.epoch.0.into());
                }
                out.push(Told::Message(msg).into());
                return;
            }
        };
        match body {
            Body::MonMap(m) => self.take_monmap(now, &m.map, out),
            Body::AuthReply(m) => self.take_auth_reply(now, m, out),
            Body::MonSubscribeAck(_) => {}
            Body::OsdMap(m) => {
                self.subs.got("osdmap", m.newest_contained().0.into());
                out.push(Told::Message(msg).into());
            }
            Body::MdsMap(m) => {
                self.subs.got_mdsmap(m.epoch.0.into());
                out.push(Told::Message(msg).into());
            }
            Body::FsMap(m) => {
                self.subs.got("fsmap", m.epoch.0.into());
                out.push(Told::Message(msg).into());
            }
            Body::FsMapUser(m) => {
                self.subs.got("fsmap.user", m.epoch.0.into());
                out.push(Told::Message(msg).into());
            }
            _ => match self.requests.answered(msg.tid, body) {
                Some(token) => out.push(Told::Reply { token, body: body.clone() }.into()),
                // To a request that was cancelled, or answered by another monitor.
                None if is_reply(body) => {}
                None => out.push(Told::Message(msg).into()),
            },
        }
    }

    /// Subscribes to `what` (`osdmap`, `mdsmap`, `mdsmap.FSCID`, `fsmap`, `fsmap.user`, `config`, …) from
    /// epoch `start` on, once or lastingly.
    pub fn subscribe(&mut self, what: &str, start: u64, once: bool, out: &mut Vec<MoncOut>) {
        if let Some(subscribe) = self.subs.want(what, start, once, &self.config.hostname)
            && let State::Open(conn, _) | State::Opening(conn, ..) = self.state
        {
            out.push(Net::Send { conn, msg: Msg::new(0, Body::from(subscribe)) }.into());
        }
    }

    /// Asks for `what` from `start` on once more: what the subscription should have brought is known to exist
    /// and has not come.
    pub fn ask_again(&mut self, what: &str, start: u64, out: &mut Vec<MoncOut>) {
        self.subs.forget(what);
        self.subscribe(what, start, false, out);
    }

    /// Wants `what` no more.
    pub fn unsubscribe(&mut self, what: &str) {
        self.subs.forget(what);
    }

    /// Expects a newer `what` than the owner has, because a peer has mentioned it or a report should lead to
    /// it. Until it arrives, the monitor has to show that it is alive.
    pub fn expect(&mut self, now: Now, what: &str) {
        self.subs.expect(now.mono, what);
    }

    /// A report of the owner that monitors acknowledge has no answer yet: the monitor has to show soon that
    /// it is alive, so that the next report can go to another one.
    pub fn expect_sign(&mut self) {
        self.awaits_sign = true;
    }

    /// The owner has epoch `epoch` of `what` from elsewhere: a new session asks for what comes after it.
    pub fn got(&mut self, what: &str, epoch: u64) {
        self.subs.got(what, epoch);
    }

    /// Sends a message, or keeps it until there is a session. It may be lost with a session.
    pub fn send(&mut self, body: impl Into<node::Body>, out: &mut Vec<MoncOut>) {
        let msg = Msg::new(self.requests.tid(), body);
        if self.is_open() {
            self.send_now(msg, out);
        } else {
            self.requests.queue(msg);
        }
    }

    /// Sends a command, one JSON object. Ends in [`Told::Reply`] with a `MonCommandAck`. If the session
    /// breaks, it is sent again to another monitor: commands must tolerate that.
    pub fn command(&mut self, token: u64, json: String, data: Bufs, out: &mut Vec<MoncOut>) {
        let fsid = self.fsid();
        self.request(
            token,
            |_| msgs::MonCommand { fsid, cmd: vec![json], data, ..Default::default() }.into(),
            out,
        );
    }

    /// Asks for the newest epoch of `what`. Ends in [`Told::Reply`] with a `MonGetVersionReply`.
    pub fn get_version(&mut self, token: u64, what: &str, out: &mut Vec<MoncOut>) {
        self.request(token, |handle| msgs::MonGetVersion { handle, what: what.to_owned() }.into(), out);
    }

    /// Sends any other request that a monitor answers: `Statfs`, `GetPoolStats`, `PoolOp`. `body` gets the
    /// message's tid; the cluster's id in it is filled in.
    pub fn request(&mut self, token: u64, body: impl FnOnce(u64) -> Body, out: &mut Vec<MoncOut>) {
        let msg = self.requests.add(token, self.fsid(), body);
        if self.is_open() {
            self.send_now(msg, out);
        }
    }

    /// Forgets a request; its answer is dropped.
    pub fn cancel(&mut self, token: u64) {
        self.requests.cancel(token);
    }

    fn send_now(&self, msg: Msg, out: &mut Vec<MoncOut>) {
        let State::Open(conn, _) = self.state else { panic!("only an open session sends") };
        out.push(Net::Send { conn, msg }.into());
    }

    /// Tries the next monitor of the round, or pauses.
    fn try_next(&mut self, now: Now, out: &mut Vec<MoncOut>) {
        let Some(addr) = self.hunt.next_addr() else {
            self.state = State::Paused(self.hunt.next_round_at(now.mono, &mut self.rng));
            return;
        };
        let conn = self.conns.next_id();
        let MoncConfig { credentials, services, .. } = &self.config;
        let auth = Initiator::mon(credentials.clone(), self.keeper.tickets.clone(), services.clone());
        let to = Target { service: EntityType::MON, addr, lossless: false, auth: Box::new(auth) };
        out.push(Net::Connect { conn, to: Box::new(to) }.into());
        self.state = State::Connecting(conn, addr, self.hunt.give_up_at(now.mono));
    }

    /// The session is gone: look for another monitor at once.
    fn lose(&mut self, now: Now, out: &mut Vec<MoncOut>) {
        out.push(Told::Lost.into());
        let last = match self.state {
            State::Open(_, addr) => Some(addr),
            _ => None,
        };
        self.hunt.begin_round(last, &mut self.rng);
        self.try_next(now, out);
    }

    fn renew(&mut self, now: Now, out: &mut Vec<MoncOut>) {
        let State::Open(conn, _) = self.state else { return };
        match self.keeper.due(&self.config, now, &mut self.rng) {
            Ok(Some(auth)) => {
                let tid = self.requests.tid();
                self.send_now(Msg::new(tid, Body::from(auth)), out);
            }
            Ok(None) => {}
            Err(()) => {
                // The AUTH ticket itself has expired: only a handshake gets another.
                out.push(Net::Close { conn }.into());
                self.lose(now, out);
            }
        }
    }

    fn take_auth_reply(&mut self, now: Now, reply: &msgs::AuthReply, out: &mut Vec<MoncOut>) {
        match self.keeper.reply(&self.config, reply, now) {
            Renewed::Tickets => out.push(Told::Tickets(Box::new(self.keeper.tickets.clone())).into()),
            Renewed::RotatingKeys(keys) => out.push(Told::RotatingKeys(Box::new(keys)).into()),
            Renewed::Failed => {}
        }
        self.renew(now, out);
    }

    fn take_monmap(&mut self, now: Now, bytes: &[u8], out: &mut Vec<MoncOut>) {
        // A map that cannot be read is left aside: the addresses that we have brought us here.
        let Ok(map) = Reader::new(bytes).get::<MonMap>() else { return };
        self.subs.got("monmap", map.epoch.into());
        if self.monmap.as_ref().is_some_and(|old| old.epoch >= map.epoch) {
            return;
        }
        let addrs: Vec<EntityAddr> = map.mons.values().filter_map(|mon| mon.addrs.msgr2()).collect();
        if !addrs.is_empty() {
            self.hunt.set_all(addrs.clone());
        }
        let map = Arc::new(map);
        self.monmap = Some(map.clone());
        out.push(Told::MonMap(map).into());
        self.open(now, out);
        // A monitor that was removed knows nothing new.
        if let State::Open(conn, addr) = self.state
            && !addrs.is_empty()
            && !addrs.iter().any(|a| a.addr == addr.addr)
            && !self.config.mons.contains(&addr)
        {
            out.push(Net::Close { conn }.into());
            self.lose(now, out);
        }
    }
}

fn is_reply(body: &Body) -> bool {
    matches!(
        body,
        Body::MonGetVersionReply(_)
            | Body::MonCommandAck(_)
            | Body::StatfsReply(_)
            | Body::GetPoolStatsReply(_)
            | Body::PoolOpReply(_)
    )
}
