//! The engine: operations in flight, sessions to OSDs, the map.

use crate::backoff::within;
use crate::linger::Lingers;
use crate::maps_in::{self, Took};
use crate::op::{InFlight, Kind};
use crate::session::OsdSession;
use crate::target::{Place, Placement, is_paused};
use crate::{Completion, RadosOut, RadosTold, Request, list};
use auth::{Credentials, Initiator, Tickets};
use maps::{Epoch, HObject, OsdId, OsdMap, pool_flags};
use monc::{ConnSpace, Net};
use msgs::{Body, OsdBackoff, OsdOpReply, backoff_op};
use node::{CloseReason, ConnId, Msg, Target};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use stdx::{Instant, Now, Rng};
use wire::{EntityType, Errno, Utime};

/// Configuration of an engine.
#[derive(Clone, Debug)]
pub struct RadosConfig {
    /// Our name and key.
    pub credentials: Credentials,
    /// Our share of the node's connection numbers.
    pub space: u8,
    /// The most operations in flight; more wait in order.
    pub max_ops: usize,
    /// The most bytes of payload in flight; a single larger operation passes.
    pub max_bytes: usize,
}

impl RadosConfig {
    /// The limits of Ceph's clients: 1024 operations, 100 MiB.
    pub fn new(credentials: Credentials, space: u8) -> Self {
        Self { credentials, space, max_ops: 1024, max_bytes: 100 << 20 }
    }
}

/// An operation that was submitted but not yet admitted.
pub(crate) type Waiting = (u64, Kind, Place, Request);

/// The object operation engine. The owner hands it maps, and what concerns its connections ([`Self::owns`]).
#[derive(Debug)]
pub struct Rados {
    config: RadosConfig,
    rng: Rng,
    conns: ConnSpace,
    tickets: Tickets,
    pub(crate) map: Arc<OsdMap>,
    placement: Placement,
    next_tid: u64,
    /// By tid, which is the order of submission.
    pub(crate) ops: BTreeMap<u64, InFlight>,
    bytes: usize,
    pub(crate) waiting: VecDeque<Waiting>,
    pub(crate) lingers: Lingers,
    sessions: BTreeMap<OsdId, OsdSession>,
    /// The monitors were asked for the newest epoch.
    epoch_asked: bool,
    hold: Hold,
    /// Operations that read and that write, since the start.
    begun: (u64, u64),
}

/// Whether operations may be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Hold {
    #[default]
    None,
    /// This instance is cut off, and the next one has not begun.
    CutOff,
    /// It waits for this map: the OSDs that have it refuse the former instance, or another client.
    Until(Epoch),
}

impl Rados {
    /// An engine without a map.
    pub fn new(config: RadosConfig, rng: Rng) -> Self {
        Self {
            rng,
            conns: ConnSpace::new(config.space),
            config,
            tickets: Tickets::default(),
            map: Arc::new(OsdMap::default()),
            placement: Placement::default(),
            next_tid: 0,
            ops: BTreeMap::new(),
            bytes: 0,
            waiting: VecDeque::new(),
            lingers: Lingers::default(),
            sessions: BTreeMap::new(),
            epoch_asked: false,
            hold: Hold::None,
            begun: (0, 0),
        }
    }

    /// True if inputs about `conn` are for this machine.
    pub fn owns(&self, conn: ConnId) -> bool {
        self.conns.owns(conn)
    }

    /// The newest map; epoch 0 before the first.
    pub fn map(&self) -> &Arc<OsdMap> {
        &self.map
    }

    /// Operations that have not ended.
    pub fn pending(&self) -> usize {
        self.ops.len() + self.waiting.len()
    }

    /// Operations that were submitted since the start: those that read, and those that write.
    pub fn begun(&self) -> (u64, u64) {
        self.begun
    }

    /// The oldest operation without an answer.
    pub fn oldest(&self) -> Option<u64> {
        self.ops.keys().next().copied()
    }

    /// True if a further operation would be sent without waiting for others to complete.
    pub fn has_room(&self) -> bool {
        self.waiting.is_empty() && self.ops.len() < self.config.max_ops && self.bytes < self.config.max_bytes
    }

    /// New tickets: used for connections from now on.
    pub fn set_tickets(&mut self, tickets: Tickets) {
        self.tickets = tickets;
    }

    /// Submits an operation; ends in [`RadosTold::Done`].
    pub fn submit(&mut self, now: Now, token: u64, mut request: Request, out: &mut Vec<RadosOut>) {
        *(if request.writes() { &mut self.begun.1 } else { &mut self.begun.0 }) += 1;
        if request.writes() && request.mtime == Utime::default() {
            request.mtime = now.wall.into();
        }
        self.waiting.push_back((token, Kind::Plain, Place::Object, request));
        self.admit(out);
    }

    /// Lists at most `max` objects after `cursor` (see [`crate::cursor_start`]); ends in
    /// [`RadosTold::Listed`].
    pub fn list(
        &mut self,
        token: u64,
        namespace: &[u8],
        cursor: &HObject,
        max: u64,
        out: &mut Vec<RadosOut>,
    ) {
        let request = list::request(cursor.pool, namespace, cursor, max);
        self.waiting.push_back((token, Kind::List, Place::Hash(cursor.hash), request));
        self.admit(out);
    }

    /// Drops the operations with this token, without a completion. It is then unknown if a write is carried
    /// out.
    pub fn cancel(&mut self, token: u64, out: &mut Vec<RadosOut>) {
        let is_it = |kind: &Kind, t: u64| t == token && !matches!(kind, Kind::Linger(_));
        self.waiting.retain(|(t, kind, ..)| !is_it(kind, *t));
        let ops = self.ops.iter().filter(|(_, op)| is_it(&op.kind, op.token));
        let tids: Vec<u64> = ops.map(|(tid, _)| *tid).collect();
        tids.iter().for_each(|tid| drop(self.remove(*tid)));
        self.admit(out);
    }

    /// The OSDs refuse this instance of the client: all its operations end with `EBLOCKLISTED`, writes too,
    /// which may or may not have been carried out. What is submitted from now on waits for the next instance,
    /// which begins with [`Self::newest_epoch`].
    pub fn cut_off(&mut self, out: &mut Vec<RadosOut>) {
        (self.hold, self.epoch_asked, self.tickets) = (Hold::CutOff, false, Tickets::default());
        let conns = std::mem::take(&mut self.sessions).into_values().filter_map(|session| session.conn);
        out.extend(conns.map(|conn| RadosOut::from(Net::Close { conn })));
        self.end_lingers(Errno::EBLOCKLISTED, out);
        let tids: Vec<u64> = self.ops.keys().copied().collect();
        tids.into_iter().for_each(|tid| self.finish_without_osd(tid, Errno::EBLOCKLISTED, out));
        for (token, kind, ..) in std::mem::take(&mut self.waiting) {
            self.finish(token, kind, Errno::EBLOCKLISTED, out);
        }
    }

    /// Operations are sent from now on with this map or a later one. From it on OSDs refuse another client,
    /// of which we have what it had: what that one has on its way is carried out before ours or not at all.
    pub fn wait_for_map(&mut self, epoch: Epoch, out: &mut Vec<RadosOut>) {
        let is_later = match self.hold {
            Hold::None => self.map.epoch < epoch,
            // The next instance begins with the newest map.
            Hold::CutOff => false,
            Hold::Until(other) => other < epoch,
        };
        if is_later {
            self.hold = Hold::Until(epoch);
            self.want_next_map(out);
        }
    }

    /// True from [`Self::cut_off`], or while a map is waited for, until operations are sent again.
    pub fn is_held(&self) -> bool {
        self.hold != Hold::None
    }

    /// Goes on once the map is here that it waits for.
    fn check_hold(&mut self) {
        if let Hold::Until(epoch) = self.hold
            && self.map.epoch >= epoch
        {
            self.hold = Hold::None;
        }
    }

    /// The time at which [`Self::timer`] is wanted.
    pub fn deadline(&self) -> Option<Instant> {
        self.sessions.values().filter_map(|s| s.retry_at).chain(self.lingers.deadline()).min()
    }

    /// Time has passed.
    pub fn timer(&mut self, now: Now, out: &mut Vec<RadosOut>) {
        let due = |s: &OsdSession| s.retry_at.is_some_and(|at| at <= now.mono);
        let osds: Vec<OsdId> = self.sessions.iter().filter(|(_, s)| due(s)).map(|(osd, _)| *osd).collect();
        for osd in &osds {
            self.session_mut(*osd).retry_at = None;
        }
        self.dispatch_unsent(out);
        self.ping_watches(now, out);
        // A session without a connection, a retry or operations is dropped.
        self.sessions.retain(|_, s| s.conn.is_some() || s.retry_at.is_some());
    }

    /// A connection is gone or was never made.
    pub fn closed(&mut self, now: Now, conn: ConnId, _reason: CloseReason, out: &mut Vec<RadosOut>) {
        let Some(osd) = self.osd_of(conn) else { return };
        self.sessions.get_mut(&osd).expect("found by its connection").lost(now.mono, &mut self.rng);
        self.unsend(|op| op.target.is_some_and(|t| t.osd == Some(osd)));
        self.lingers.session_lost(osd);
        self.register_lost(out);
        // Most often the OSD is down, and the map that says so is on its way.
        self.want_next_map(out);
    }

    /// A message on one of our connections.
    pub fn message(&mut self, conn: ConnId, msg: Msg, out: &mut Vec<RadosOut>) {
        let Some(osd) = self.osd_of(conn) else { return };
        self.session_mut(osd).worked();
        match msg.body {
            node::Body::Client(Body::OsdOpReply(reply)) => self.reply(osd, msg.tid, *reply, out),
            node::Body::Client(Body::OsdMap(m)) => {
                let epoch = m.newest_contained();
                self.osd_map(&m, out);
                if self.map.epoch >= epoch {
                    out.push(RadosTold::GotMap(self.map.epoch).into());
                }
            }
            node::Body::Client(Body::OsdBackoff(m)) => self.backoff(osd, conn, &m, out),
            node::Body::Client(Body::WatchNotify(m)) => self.watch_notify(*m, out),
            _ => {} // nothing else is for a client
        }
    }

    /// Maps, from a monitor or an OSD.
    pub fn osd_map(&mut self, m: &msgs::OsdMap, out: &mut Vec<RadosOut>) {
        let before = self.map.epoch;
        let Self { map, lingers, ops, placement, .. } = self;
        let took = maps_in::take(map, m, |map, whole| {
            lingers.follow(map, whole);
            placement.clear();
            ops.iter_mut().for_each(|(tid, op)| op.follow(*tid, map, placement, whole));
        });
        if let Took::Gap(from) = took {
            out.push(RadosTold::WantMap(from).into());
        }
        if self.map.epoch > before {
            self.check_hold();
            out.push(RadosTold::Map(self.map.clone()).into());
            self.drop_dead_sessions(out);
            self.register_lost(out);
            self.fail_without_pool(out);
            self.dispatch_unsent(out);
            self.admit(out);
        }
    }

    /// The monitors' answer to [`RadosTold::WantNewestEpoch`], or to the same question of an instance that
    /// begins.
    pub fn newest_epoch(&mut self, newest: Epoch, out: &mut Vec<RadosOut>) {
        self.epoch_asked = false;
        if self.hold == Hold::CutOff {
            self.hold = Hold::Until(newest);
            self.check_hold();
            self.dispatch_unsent(out);
        }
        for op in self.ops.values_mut().filter(|op| op.target.is_none()) {
            op.gone_if_at = Some(op.gone_if_at.map_or(newest, |at| at.max(newest)));
        }
        if newest > self.map.epoch {
            self.want_next_map(out);
        }
        self.fail_without_pool(out);
        self.admit(out);
    }

    fn session_mut(&mut self, osd: OsdId) -> &mut OsdSession {
        self.sessions.get_mut(&osd).expect("the caller has just found it")
    }

    fn osd_of(&self, conn: ConnId) -> Option<OsdId> {
        self.sessions.iter().find(|(_, s)| s.conn == Some(conn)).map(|(osd, _)| *osd)
    }

    fn want_next_map(&self, out: &mut Vec<RadosOut>) {
        let from = if self.map.epoch.0 == 0 { Epoch(0) } else { self.map.epoch.next() };
        out.push(RadosTold::WantMap(from).into());
    }

    /// Takes waiting operations as far as the limits allow.
    pub(crate) fn admit(&mut self, out: &mut Vec<RadosOut>) {
        while let Some((_, _, _, request)) = self.waiting.front() {
            let bytes = request.data_len();
            let fits = self.ops.is_empty()
                || self.ops.len() < self.config.max_ops && self.bytes + bytes <= self.config.max_bytes;
            if !fits {
                return;
            }
            let (token, kind, place, request) = self.waiting.pop_front().expect("looked at above");
            self.next_tid += 1;
            let tid = self.next_tid;
            let target = self.placement.target(&self.map, &request, &place, tid);
            let op = InFlight {
                token,
                kind,
                request,
                place,
                target,
                attempts: 0,
                sent: false,
                bytes,
                gone_if_at: None,
            };
            self.bytes += bytes;
            self.ops.insert(tid, op);
            self.dispatch(tid, out);
        }
    }

    pub(crate) fn remove(&mut self, tid: u64) -> Option<InFlight> {
        let op = self.ops.remove(&tid)?;
        self.bytes -= op.bytes;
        Some(op)
    }

    /// Sends an operation, unless it was sent or is held back.
    fn dispatch(&mut self, tid: u64, out: &mut Vec<RadosOut>) {
        let Some(op) = self.ops.get(&tid) else { return };
        if op.sent || self.map.epoch.0 == 0 || self.is_held() {
            return;
        }
        let pool = op.request.locator.pool;
        let Some(target) = op.target else {
            self.check_pool(tid, out);
            return;
        };
        if self.map.pools.get(&pool).is_some_and(|p| p.has_flag(pool_flags::EIO)) {
            self.finish_without_osd(tid, Errno::EIO, out);
            return;
        }
        let Some(osd) = target.osd else { return };
        if is_paused(&self.map, pool, op.request.flags) {
            return;
        }
        let Some(conn) = self.connection(osd, out) else { return };
        let op = self.ops.get_mut(&tid).expect("found above");
        let backoffs = &self.sessions[&osd].backoffs;
        if !backoffs.is_empty() && backoffs.blocks(target.spg, &op.position()) {
            return;
        }
        let message = op.message(self.map.epoch);
        out.push(Net::Send { conn, msg: Msg::new(tid, Body::from(message)) }.into());
    }

    /// Sends all unsent operations, in order of submission.
    fn dispatch_unsent(&mut self, out: &mut Vec<RadosOut>) {
        let tids: Vec<u64> = self.ops.iter().filter(|(_, op)| !op.sent).map(|(tid, _)| *tid).collect();
        tids.into_iter().for_each(|tid| self.dispatch(tid, out));
    }

    fn unsend(&mut self, which: impl Fn(&InFlight) -> bool) {
        self.ops.values_mut().filter(|op| which(op)).for_each(|op| op.sent = false);
    }

    /// The connection to an OSD, opened if there is none; `None` during the pause before a retry.
    fn connection(&mut self, osd: OsdId, out: &mut Vec<RadosOut>) -> Option<ConnId> {
        let addr = self.map.client_addrs(osd)?.msgr2()?;
        let session = self.sessions.entry(osd).or_insert_with(|| OsdSession::new(addr));
        if session.conn.is_none() && session.retry_at.is_none() {
            let conn = self.conns.next_id();
            let RadosConfig { credentials, .. } = &self.config;
            let auth = Initiator::service(credentials.clone(), self.tickets.clone(), EntityType::OSD);
            let to = Target { service: EntityType::OSD, addr, lossless: false, auth: Box::new(auth) };
            out.push(Net::Connect { conn, to: Box::new(to) }.into());
            session.conn = Some(conn);
        }
        session.conn
    }

    /// Ends sessions with OSDs that are down or have another address in the map.
    fn drop_dead_sessions(&mut self, out: &mut Vec<RadosOut>) {
        let map = self.map.clone();
        let alive =
            |osd: OsdId, addr| map.is_up(osd) && map.client_addrs(osd).and_then(|a| a.msgr2()) == Some(addr);
        let mut dead = Vec::new();
        self.sessions.retain(|osd, session| {
            let keep = alive(*osd, session.addr);
            if !keep {
                dead.push(*osd);
                out.extend(session.conn.map(|conn| RadosOut::from(Net::Close { conn })));
            }
            keep
        });
        dead.iter().for_each(|osd| self.lingers.session_lost(*osd));
        self.unsend(|op| op.target.is_some_and(|t| t.osd.is_some_and(|osd| dead.contains(&osd))));
    }

    /// There is no such pool on our map: find out whether there is on the newest.
    fn check_pool(&mut self, tid: u64, out: &mut Vec<RadosOut>) {
        let op = &self.ops[&tid];
        match op.gone_if_at {
            Some(at) if self.map.epoch >= at => self.finish_without_osd(tid, Errno::ENOENT, out),
            Some(_) => {} // the map that decides is on its way
            None if self.epoch_asked => {}
            None => {
                self.epoch_asked = true;
                out.push(RadosTold::WantNewestEpoch.into());
            }
        }
    }

    fn fail_without_pool(&mut self, out: &mut Vec<RadosOut>) {
        let gone =
            |op: &InFlight| op.target.is_none() && op.gone_if_at.is_some_and(|at| self.map.epoch >= at);
        let tids: Vec<u64> = self.ops.iter().filter(|(_, op)| gone(op)).map(|(tid, _)| *tid).collect();
        tids.into_iter().for_each(|tid| self.finish_without_osd(tid, Errno::ENOENT, out));
    }

    fn finish_without_osd(&mut self, tid: u64, errno: Errno, out: &mut Vec<RadosOut>) {
        if let Some(op) = self.remove(tid) {
            self.finish(op.token, op.kind, errno, out);
        }
    }

    fn finish(&mut self, token: u64, kind: Kind, errno: Errno, out: &mut Vec<RadosOut>) {
        let told = match kind {
            Kind::Plain => {
                let completion = Box::new(Completion::failed(errno));
                RadosTold::Done { token, completion }
            }
            Kind::List => RadosTold::Listed { token, result: Err(errno) },
            Kind::Linger(attempt) => {
                return self.attempted(attempt, &Completion::failed(errno), out);
            }
        };
        out.push(told.into());
    }

    fn reply(&mut self, osd: OsdId, tid: u64, reply: OsdOpReply, out: &mut Vec<RadosOut>) {
        let Some(op) = self.ops.get(&tid) else { return };
        let Some(target) = op.target.filter(|t| op.sent && t.osd == Some(osd)) else { return };
        // The answer to an attempt that was sent again since may be followed by another.
        if reply.retry_attempt >= 0 && reply.retry_attempt != op.attempts - 1 {
            return;
        }
        let Some(mut op) = self.remove(tid) else { return };
        let result = Errno::check(reply.result);
        if result == Err(Errno::EAGAIN) {
            op.request.leave_to_primary();
            // Not carried out: submitted again as a new operation, before the waiting ones. It fits into the
            // limits, as before.
            self.waiting.push_front((op.token, op.kind, op.place, op.request));
            self.admit(out);
            return;
        }
        let pool = op.request.locator.pool;
        if op.kind == Kind::List {
            let result = list::parse(pool, &target, &reply);
            out.push(RadosTold::Listed { token: op.token, result }.into());
            return self.admit(out);
        }
        let completion = Completion { result, ops: reply.ops, version: reply.user_version };
        match op.kind {
            Kind::Linger(attempt) => self.attempted(attempt, &completion, out),
            _ => out.push(RadosTold::Done { token: op.token, completion: Box::new(completion) }.into()),
        }
        self.admit(out);
    }

    fn backoff(&mut self, osd: OsdId, conn: ConnId, m: &OsdBackoff, out: &mut Vec<RadosOut>) {
        let session = self.session_mut(osd);
        match m.op {
            backoff_op::BLOCK => {
                let ack = session.backoffs.block(m);
                out.push(Net::Send { conn, msg: Msg::new(0, Body::from(ack)) }.into());
                // The OSD has dropped what it had of this range.
                self.unsend(|op| {
                    let to_it = op.target.is_some_and(|t| t.osd == Some(osd) && t.spg == m.pgid);
                    to_it && within(&op.position(), &m.begin, &m.end)
                });
            }
            backoff_op::UNBLOCK => {
                session.backoffs.unblock(m.id);
                self.dispatch_unsent(out);
            }
            _ => {}
        }
    }
}
