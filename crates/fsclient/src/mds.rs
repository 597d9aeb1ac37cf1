//! The session with the metadata server: opening, renewing, requests in flight, and what happens when another MDS takes over.

use crate::cache::{ROOT, STAT_CAPS, path};
use crate::client::{Client, Outs};
use crate::inode::{Growth, Inode};
use maps::{Gid, MdsMap, MdsRank, MdsState};
use monc::ConnSpace;
use msgs::errno::ESTALE;
use msgs::{
    CapReconnect, ClientReconnect, ClientReply, ClientRequest, ClientSession, GetattrArgs, MdsOp,
    cephfs_feature, request_flag, session_op,
};
use node::{CloseReason, ConnId, Event, Level, Msg, Output, Target};
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::{Instant, Now};
use wire::{EntityType, Utime};

/// Feature bits 0 to 9, 11 and 12: what the replies that we read need, and nothing that adds duties (PROTOCOL.md 6.2).
const FEATURES: u64 = 0x1bff;
const _: () = assert!(FEATURES >> cephfs_feature::REPLY_ENCODING & 1 == 1);
/// How long after a broken session the map may take to tell us who is next.
const GIVE_UP_SESSION: Duration = Duration::from_secs(3);
/// The same where it is not known whether the MDS still has the session: by then it has dropped it.
const GIVE_UP_UNKNOWN: Duration = Duration::from_secs(60);
/// How long after an MDS could not be reached it is tried again.
const RETRY: Duration = Duration::from_millis(500);

/// Where the session stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// There is none, and the MDS map names no MDS that would open one.
    Closed,
    /// REQUEST_OPEN is on its way.
    Opening,
    /// It serves.
    Open,
    /// The MDS is gone; the map will name its successor.
    Lost,
    /// The successor has our claims.
    Reconnecting,
    /// REQUEST_CLOSE is on its way.
    Closing,
}

/// A request without its safe answer.
#[derive(Debug)]
pub(crate) struct InFlight {
    request: Box<ClientRequest>,
    /// The operation that waits for the answer.
    op: u64,
    /// In this session.
    sent: bool,
    /// How often it was sent, in all sessions.
    attempts: u32,
    /// The first, unsafe answer has come; kept until the safe one.
    answered: bool,
    recall: Recall,
}

/// Inodes are named by number. An MDS of Ceph finds one that it has dropped from its cache, because nobody has a capability on it,
/// only when it is asked for by LOOKUPINO; until then it answers ESTALE.
#[derive(Debug, Default)]
enum Recall {
    /// Nothing was looked up for the request.
    #[default]
    NotYet,
    /// This is the LOOKUPINO; then the request comes again, after those of further inodes.
    Finding(Box<ClientRequest>, Vec<u64>),
    /// Everything was: if it is stale again, it is.
    Done,
}

/// The session.
#[derive(Debug)]
pub(crate) struct Mds {
    pub(crate) map: MdsMap,
    pub(crate) state: State,
    pub(crate) space: ConnSpace,
    conn: Option<ConnId>,
    /// Whom the session is with.
    gid: Gid,
    next_tid: u64,
    in_flight: BTreeMap<u64, InFlight>,
    seq: u64,
    renew_at: Option<Instant>,
    give_up_at: Option<Instant>,
    /// Its process is dead: however late the map names another, what we have is still to be claimed from that one.
    is_dead: bool,
    /// It could not be reached with our claims: it waits for them, so they are sent to it again.
    claims_undelivered: bool,
}

impl Mds {
    pub(crate) fn new(space: u8) -> Self {
        Self {
            map: MdsMap::default(),
            state: State::Closed,
            space: ConnSpace::new(space),
            conn: None,
            gid: Gid::default(),
            next_tid: 1,
            in_flight: BTreeMap::new(),
            seq: 0,
            renew_at: None,
            give_up_at: None,
            is_dead: false,
            claims_undelivered: false,
        }
    }

    /// A session, as if it had been opened.
    #[cfg(test)]
    pub(crate) fn pretend_open(&mut self) -> ConnId {
        let conn = self.space.next_id();
        (self.conn, self.state) = (Some(conn), State::Open);
        conn
    }

    /// As if a successor had been sent our claims.
    #[cfg(test)]
    pub(crate) fn pretend_reconnecting(&mut self) -> ConnId {
        let conn = self.pretend_open();
        self.state = State::Reconnecting;
        conn
    }

    /// As if the map named an active MDS.
    #[cfg(test)]
    pub(crate) fn pretend_active(&mut self) {
        let addrs = wire::EntityAddr::msgr2(([127, 0, 0, 1], 6800).into(), 1).into();
        let info =
            maps::MdsInfo { state: MdsState::ACTIVE, rank: MdsRank(0), addrs, ..maps::MdsInfo::default() };
        self.map.mds_info.insert(self.gid, info);
        self.map.up.insert(MdsRank(0), self.gid);
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.renew_at.into_iter().chain(self.give_up_at).min()
    }

    /// The oldest request without an answer.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.in_flight.iter().find(|(_, r)| !r.answered).map(|(tid, _)| *tid)
    }

    /// Whether answers are outstanding that only a journal commit at the MDS brings.
    pub(crate) fn has_unsafe(&self) -> bool {
        self.in_flight.values().any(|r| r.answered)
    }

    pub(crate) fn send(&self, body: impl Into<node::Body>, tid: u64, out: &mut Outs) {
        if let Some(conn) = self.conn {
            out.push(Output::Send { conn, msg: Msg::new(tid, body) });
        }
    }

    fn serves(&self) -> bool {
        self.state == State::Open && self.map.state_of(MdsRank(0)) == MdsState::ACTIVE
    }

    fn transmit(&mut self, tid: u64, out: &mut Outs) {
        let oldest = self.in_flight.first_key_value().map_or(tid, |(t, _)| *t);
        let epoch = self.map.epoch;
        let Some(entry) = self.in_flight.get_mut(&tid) else { return };
        // An MDS of Ceph looks whether it was carried out before only where it is told that it may have been.
        entry.request.num_retry = entry.attempts;
        entry.attempts = entry.attempts.saturating_add(1);
        entry.sent = true;
        entry.request.oldest_client_tid = oldest;
        entry.request.mdsmap_epoch = epoch;
        let body = (*entry.request).clone();
        self.send(msgs::Body::from(body), tid, out);
    }

    /// Asks the server to commit its journal now, so that safe answers come soon.
    pub(crate) fn flush_journal(&mut self, out: &mut Outs) {
        self.seq += 1;
        self.send(msgs::Body::from(ClientSession::of(session_op::REQUEST_FLUSH_MDLOG, self.seq)), 0, out);
    }
}

impl Client {
    /// Sends a request for an operation; its answer is handed to the operation.
    pub(crate) fn ask_mds(&mut self, now: Now, op: u64, mut request: ClientRequest, out: &mut Outs) {
        request.head_version = 1;
        request.stamp = Utime::from(now.wall);
        self.enqueue(op, Box::new(request), Recall::NotYet, out);
    }

    fn enqueue(&mut self, op: u64, request: Box<ClientRequest>, recall: Recall, out: &mut Outs) {
        let tid = self.mds.next_tid;
        self.mds.next_tid += 1;
        self.mds
            .in_flight
            .insert(tid, InFlight { request, op, sent: false, attempts: 0, answered: false, recall });
        if self.mds.serves() {
            self.mds.transmit(tid, out);
        }
    }

    /// A newer MDS map.
    pub(crate) fn mds_map(&mut self, now: Now, map: MdsMap, out: &mut Outs) {
        if map.epoch <= self.mds.map.epoch {
            return;
        }
        self.mds.map = map;
        if !self.config.mount || self.mds.state == State::Closing {
            return;
        }
        let Some(holder) = self.mds.map.holder(MdsRank(0)) else {
            return self.lose_session(now, out);
        };
        let (gid, state) = (holder.gid, holder.state);
        if self.mds.state != State::Closed && gid != self.mds.gid {
            self.lose_session(now, out);
            self.mds.gid = gid;
            self.mds.give_up_at = None;
        }
        match (self.mds.state, state) {
            (State::Closed, MdsState::ACTIVE) => self.open_session(gid, out),
            (State::Lost, MdsState::RECONNECT) => self.reconnect_session(gid, out),
            // We were not there when claims were taken: the session and all that rests on it are gone.
            (State::Lost, MdsState::ACTIVE) if self.mds.give_up_at.is_none() => {
                self.forget_session("the MDS went on without us", out);
                self.open_session(gid, out);
            }
            (State::Open, MdsState::CLIENTREPLAY | MdsState::ACTIVE) => self.resend(state, out),
            _ => {}
        }
    }

    fn connect_mds(&mut self, gid: Gid, out: &mut Outs) -> bool {
        let Some(addr) = self.mds.map.mds_info.get(&gid).and_then(|info| info.addrs.msgr2()) else {
            return false;
        };
        if let Some(old) = self.mds.conn.take() {
            out.push(Output::Close { conn: old });
        }
        let conn = self.mds.space.next_id();
        let auth = self.cluster.monc().service_auth(EntityType::MDS);
        out.push(Output::Connect {
            conn,
            to: Box::new(Target { service: EntityType::MDS, addr, lossless: true, auth }),
        });
        (self.mds.conn, self.mds.gid) = (Some(conn), gid);
        true
    }

    /// New tickets: the connection may have to be dialled again when the one that it began with has ended.
    pub(crate) fn renew_mds(&self, out: &mut Outs) {
        if let Some(conn) = self.mds.conn {
            let auth = self.cluster.monc().service_auth(EntityType::MDS);
            out.push(Output::Renew { conn, auth });
        }
    }

    fn open_session(&mut self, gid: Gid, out: &mut Outs) {
        if !self.connect_mds(gid, out) {
            return;
        }
        self.mds.state = State::Opening;
        let text = |s: &str| s.to_owned();
        let metadata = BTreeMap::from([
            (text("hostname"), self.config.hostname.clone()),
            (text("entity_id"), self.config.credentials.name.id.clone()),
            (text("mount_point"), self.config.mount_point.clone()),
            (text("root"), text("/")),
        ]);
        let features = ClientSession::feature_bytes(FEATURES);
        let body = ClientSession { metadata, features, ..ClientSession::of(session_op::REQUEST_OPEN, 0) };
        self.mds.send(msgs::Body::from(body), 0, out);
    }

    fn reconnect_session(&mut self, gid: Gid, out: &mut Outs) {
        if !self.connect_mds(gid, out) {
            return;
        }
        self.mds.state = State::Reconnecting;
        let caps = self.inodes.values_mut().filter_map(|i| Some((i.ino, claim(i)?))).collect();
        self.mds.send(msgs::Body::from(ClientReconnect { caps, realms: Vec::new(), more: false }), 0, out);
    }

    fn lose_session(&mut self, now: Now, out: &mut Outs) {
        if let Some(conn) = self.mds.conn.take() {
            out.push(Output::Close { conn });
        }
        self.mds.renew_at = None;
        self.mds.state = match self.mds.state {
            State::Closed | State::Opening => State::Closed,
            _ => State::Lost,
        };
        self.mds.give_up_at = (self.mds.state == State::Lost).then(|| now.mono + GIVE_UP_SESSION);
        self.mds.claims_undelivered = false;
        self.suspend_caps(true);
    }

    /// While there is no session, what rests on shared bits is not believed.
    fn suspend_caps(&mut self, suspended: bool) {
        let inos: Vec<u64> = self.inodes.keys().copied().collect();
        for ino in inos {
            let inode = self.inodes.get_mut(&ino).expect("just listed");
            if suspended {
                inode.prepare_claim();
            }
            if let Some(cap) = &mut inode.cap {
                cap.is_suspended = suspended;
            }
            self.touch(ino);
        }
    }

    /// The session can't be had back: capabilities are void, and what was buffered under them is lost and said so.
    fn forget_session(&mut self, why: &str, out: &mut Outs) {
        self.mds.state = State::Closed;
        self.mds.give_up_at = None;
        let inos: Vec<u64> = self.inodes.keys().copied().collect();
        let mut lost = 0;
        for ino in inos {
            let inode = self.inodes.get_mut(&ino).expect("just listed");
            lost += u32::from(inode.lose_all());
            self.touch(ino);
        }
        self.dentries.clear();
        let level = if lost > 0 { Level::Error } else { Level::Warn };
        let detail = format!("{why}; files with lost writes: {lost}");
        out.push(Output::Event(Event::new(level, "mds_session_lost", detail)));
        for entry in self.mds.in_flight.values_mut() {
            entry.sent = false;
        }
        self.mds.in_flight.retain(|_, r| !r.answered);
    }

    /// After a reconnect: what was answered unsafely is replayed first, the rest once the MDS is active.
    fn resend(&mut self, state: MdsState, out: &mut Outs) {
        let active = state == MdsState::ACTIVE;
        let tids: Vec<u64> = self
            .mds
            .in_flight
            .iter()
            .filter(|(_, r)| !r.sent && r.answered != active)
            .map(|(t, _)| *t)
            .collect();
        for tid in tids {
            self.mds.transmit(tid, out);
        }
    }

    /// The connection is gone.
    pub(crate) fn mds_closed(&mut self, now: Now, conn: ConnId, reason: CloseReason, out: &mut Outs) {
        if self.mds.conn != Some(conn) {
            return;
        }
        self.mds.conn = None;
        match self.mds.state {
            State::Closing => self.session_closed(out),
            State::Opening | State::Closed => {
                self.mds.state = State::Closed;
                self.mds.give_up_at = Some(now.mono + RETRY);
            }
            was => {
                out.push(Output::Event(Event::new(Level::Info, "mds_connection_lost", reason.to_string())));
                self.lose_session(now, out);
                self.mds.is_dead = reason == CloseReason::Refused;
                // Denied where our tickets have expired meanwhile: by the next time there are new ones.
                self.mds.claims_undelivered = was == State::Reconnecting
                    && matches!(reason, CloseReason::TimedOut | CloseReason::Denied);
                if self.mds.claims_undelivered {
                    self.mds.give_up_at = Some(now.mono + RETRY);
                } else if reason != CloseReason::Reset {
                    self.mds.give_up_at = Some(now.mono + GIVE_UP_UNKNOWN);
                }
            }
        }
    }

    /// Timers of the session.
    pub(crate) fn mds_timer(&mut self, now: Now, out: &mut Outs) {
        if self.mds.renew_at.is_some_and(|at| at <= now.mono) {
            self.mds.seq += 1;
            self.mds.send(
                msgs::Body::from(ClientSession::of(session_op::REQUEST_RENEWCAPS, self.mds.seq)),
                0,
                out,
            );
            self.mds.renew_at = Some(now.mono + self.renew_every());
        }
        if self.mds.give_up_at.is_some_and(|at| at <= now.mono) {
            self.mds.give_up_at = None;
            let holder = self.mds.map.holder(MdsRank(0)).map(|h| (h.gid, h.state));
            if self.mds.state == State::Closing {
                return self.session_closed(out);
            }
            let buried = self.mds.is_dead && holder.is_some_and(|(gid, _)| gid == self.mds.gid);
            let claims_again =
                self.mds.claims_undelivered && holder.is_some_and(|(gid, _)| gid == self.mds.gid);
            match holder {
                // Until it gives up waiting it takes claims, in whatever state; then it answers them with CLOSE.
                Some((gid, _)) if self.mds.state == State::Lost && claims_again => {
                    self.reconnect_session(gid, out);
                }
                _ if self.mds.state == State::Lost && buried => {
                    self.mds.give_up_at = Some(now.mono + GIVE_UP_SESSION);
                }
                Some((gid, MdsState::ACTIVE)) => {
                    // The very MDS that we lost is still the one: it has dropped our session.
                    if self.mds.state == State::Lost {
                        self.forget_session("the MDS dropped the session", out);
                    }
                    self.open_session(gid, out);
                }
                _ if self.mds.state == State::Lost => self.mds.give_up_at = Some(now.mono + GIVE_UP_SESSION),
                _ => {}
            }
        }
    }

    fn renew_every(&self) -> Duration {
        Duration::from_secs(u64::from(self.mds.map.session_timeout.max(3)) / 3)
    }

    /// A session message.
    pub(crate) fn session_message(&mut self, now: Now, msg: &ClientSession, out: &mut Outs) {
        match msg.head.op {
            session_op::OPEN => {
                let state = self.mds.map.state_of(MdsRank(0));
                self.mds.state = State::Open;
                for entry in self.mds.in_flight.values_mut() {
                    if entry.sent && entry.answered {
                        entry.request.flags |= request_flag::REPLAY;
                    }
                    entry.sent = false;
                }
                self.mds.renew_at = Some(now.mono + self.renew_every());
                self.resend(state, out);
                self.say_ready(out);
                self.suspend_caps(false);
            }
            session_op::CLOSE if self.mds.state == State::Closing => self.session_closed(out),
            session_op::CLOSE | session_op::REJECT => {
                let why =
                    msg.metadata.get("error_string").map_or("closed by the MDS", String::as_str).to_owned();
                if let Some(conn) = self.mds.conn.take() {
                    out.push(Output::Close { conn });
                }
                self.forget_session(&why, out);
                self.mds.give_up_at = Some(now.mono + Duration::from_secs(1));
            }
            session_op::RECALL_STATE => self.trim_caps(msg.head.max_caps as usize, out),
            session_op::FLUSHMSG => {
                let ack = ClientSession::of(session_op::FLUSHMSG_ACK, msg.head.seq);
                self.mds.send(msgs::Body::from(ack), 0, out);
            }
            _ => {}
        }
    }

    /// The answer to a request.
    pub(crate) fn mds_reply(&mut self, now: Now, tid: u64, reply: ClientReply, out: &mut Outs) {
        let Some(entry) = self.mds.in_flight.get_mut(&tid) else { return };
        let (op, first, is_repeat) = (entry.op, !entry.answered, entry.attempts > 1);
        let mut ended = None;
        if reply.safe {
            ended = self.mds.in_flight.remove(&tid);
        } else {
            entry.answered = true;
            // For a replay: the inode number that it was given.
            entry.request.ino = reply.trace.target.as_ref().map_or(0, |t| t.ino);
        }
        if first {
            self.learn(now, &reply);
            let again = ended.is_some_and(|entry| self.asks_again(entry, reply.result, out));
            if !again {
                self.give_reply(op, reply, is_repeat);
            }
        }
        if !self.mds.has_unsafe() {
            self.wake_journal_waiters();
        }
    }

    /// Goes on with a request that needs more than one answer; gives whether it did.
    fn asks_again(&mut self, entry: InFlight, result: i32, out: &mut Outs) -> bool {
        let (request, mut bases) = match entry.recall {
            Recall::NotYet if result == -ESTALE => {
                let of = &entry.request;
                let unknown = |ino: &u64| *ino > ROOT && self.inodes.get(ino).is_none_or(|i| i.cap.is_none());
                let bases: Vec<u64> = [of.path.ino, of.path2.ino].into_iter().filter(unknown).collect();
                if bases.is_empty() {
                    return false;
                }
                (entry.request, bases)
            }
            Recall::Finding(request, rest) if result >= 0 => (request, rest),
            _ => return false,
        };
        match bases.pop() {
            Some(ino) => {
                let args = GetattrArgs { mask: STAT_CAPS };
                let lookup = ClientRequest {
                    op: MdsOp::LOOKUPINO,
                    path: path(ino),
                    args: args.into(),
                    head_version: request.head_version,
                    stamp: request.stamp,
                    ..ClientRequest::default()
                };
                self.enqueue(entry.op, Box::new(lookup), Recall::Finding(request, bases), out);
            }
            None => self.enqueue(
                entry.op,
                Box::new(ClientRequest { num_retry: 0, ..*request }),
                Recall::Done,
                out,
            ),
        }
        true
    }

    /// Gives the session back; [`Client::session_closed`] follows.
    pub(crate) fn close_session(&mut self, now: Now, out: &mut Outs) {
        if !matches!(self.mds.state, State::Open) {
            return self.session_closed(out);
        }
        self.mds.state = State::Closing;
        self.mds.renew_at = None;
        self.mds.give_up_at = Some(now.mono + GIVE_UP_SESSION);
        self.mds.seq += 1;
        self.mds.send(msgs::Body::from(ClientSession::of(session_op::REQUEST_CLOSE, self.mds.seq)), 0, out);
    }
}

impl Inode {
    /// The session is lost: the new MDS takes what we claim for issued and counts anew, and flushes that were not acknowledged are
    /// sent again. Until then we say that we hold what they were done under, so that nobody looks before.
    fn prepare_claim(&mut self) {
        let unacknowledged = std::mem::take(&mut self.flushing);
        if self.growth != Growth::Durable {
            self.growth = Growth::Untold;
        }
        // It has not heard what its predecessor was asked for.
        self.requested_max_size = 0;
        let Some(cap) = &mut self.cap else { return };
        (cap.seq, cap.issue_seq, cap.mseq) = (0, 0, 0);
        for caps in unacknowledged.into_values() {
            self.dirty_caps = self.dirty_caps | caps;
            cap.implemented = cap.implemented | caps;
        }
    }
}

/// What we say to a new MDS that we hold on an inode.
fn claim(inode: &mut Inode) -> Option<CapReconnect> {
    let wanted = inode.wanted();
    let cap = inode.cap.as_mut()?;
    // All that it knows of what we want is this.
    cap.wanted = wanted;
    Some(CapReconnect {
        path: Vec::new(),
        cap_id: cap.id,
        wanted: wanted.0,
        issued: cap.implemented.0,
        snaprealm: cap.realm,
        pathbase: inode.ino,
        flock: Vec::new(),
        snap_follows: maps::SnapId::default(),
    })
}
