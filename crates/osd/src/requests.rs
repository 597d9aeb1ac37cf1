//! Incoming messages: their senders, permissions, and the map that they need.

use crate::cls;
use crate::core::Core;
use crate::object::key_of;
use crate::ops::may_write;
use crate::osd::Osd;
use crate::pg::Pg;
use crate::pg::balanced::may_be_balanced;
use crate::pg::member::Member;
use crate::pg::request::ClientOp;
use crate::session::Session;
use crate::snapset::SnapContext;
use crate::waiting::Held;
use auth::OsdTarget;
use maps::{Epoch, HObject, OsdId, PgId, SnapId, Spg, pool_flags};
use msgs::op::watch_op;
use msgs::{Op, OsdBackoff, OsdOp, OsdOpReply, backoff_op, osd_flag};
use node::{Body, ConnId, Level, Msg};
use std::time::Duration;
use stdx::Hold;
use wire::Errno;

/// A client's message with a newer map than ours is kept for this long: the epoch is only the client's claim,
/// and the memory is shared by all. An honest client reconnects and asks again; by then we have the map, or
/// wait once more.
const NEWER_MAP_TIMEOUT: Duration = Duration::from_secs(15);

/// The outcome of the checks before a client's request is served.
enum Admission {
    Serve,
    /// The client will ask again, or ask another OSD.
    Drop,
    Refuse(Errno),
    /// The client's key does not allow it.
    Deny,
}

impl Osd {
    /// Handles messages that waited for a map.
    pub(crate) fn go_on_waiting(&mut self) {
        for held in self.waiting.take() {
            if self.must_wait(held.conn, held.epoch) {
                // It waits no longer than it would have without this map.
                self.await_map(held.epoch);
                self.waiting.keep(held);
                continue;
            }
            let Msg { tid, body, hold } = held.msg;
            match body {
                Body::Client(body) => self.client_message(held.conn, tid, body, hold),
                Body::Peer(body) => self.peer_message(held.conn, tid, body),
            }
        }
    }

    /// Closes connections of clients whose requests have waited too long for the map that they name.
    pub(crate) fn waiting_due(&mut self) {
        let now = self.core.now().mono;
        while let Some(first) = self.waiting.overdue(now) {
            let (conn, epoch) = (first.conn, first.epoch);
            if let Some(peer) = self.core.session(conn).map(Session::peer) {
                let text = format!(
                    "{} ({}) at {} asks by map {epoch}, which has not come for {} s: this OSD has {}",
                    peer.name,
                    peer.id,
                    peer.socket_addr,
                    NEWER_MAP_TIMEOUT.as_secs(),
                    self.core.epoch()
                );
                self.event(Level::Info, "client_ahead_of_maps", text);
            }
            self.core.close(conn);
            self.session_gone(conn);
        }
    }

    /// True if a message waits for a newer map.
    #[cfg(test)]
    pub(crate) fn waits_for_map(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn must_wait(&self, conn: ConnId, epoch: Epoch) -> bool {
        epoch > self.core.epoch() || self.waiting.holds(conn)
    }

    fn hold(&mut self, epoch: Epoch, conn: ConnId, msg: Msg) {
        let until = match self.core.session(conn) {
            Some(session) => (!session.is_osd()).then_some(self.core.now().mono + NEWER_MAP_TIMEOUT),
            None if self.core.links().owns(conn) => None,
            // Sent before its sender knew that we closed the connection.
            None => return self.core.count("messages_ignored", 1),
        };
        self.waiting.keep(Held { epoch, conn, msg, until });
        self.await_map(epoch);
    }

    /// Handles a message of the client protocol.
    pub(crate) fn client_message(&mut self, conn: ConnId, tid: u64, body: msgs::Body, hold: Hold) {
        match body {
            msgs::Body::OsdOp(op) if self.must_wait(conn, op.epoch) => {
                self.hold(op.epoch, conn, Msg { hold, ..Msg::new(tid, msgs::Body::OsdOp(op)) });
            }
            msgs::Body::OsdOp(op) => self.client_op(conn, tid, op, hold),
            msgs::Body::Command(command) => self.tell(conn, tid, &command),
            msgs::Body::OsdOpReply(reply) if self.core.links().of(conn).is_some() => {
                self.copy_answer(tid, &reply)
            }
            // Earlier messages of the connection were sent before the client knew.
            msgs::Body::OsdBackoff(m) if self.must_wait(conn, m.epoch) => {
                self.hold(m.epoch, conn, Msg::new(tid, msgs::Body::OsdBackoff(m)));
            }
            msgs::Body::OsdBackoff(m) => self.backoff_message(conn, &m),
            msgs::Body::OsdMap(maps) if self.sender(conn).is_some() => self.take_shared_maps(&maps),
            // Clients get their maps from monitors and from us.
            _ => self.core.count("messages_ignored", 1),
        }
    }

    /// Handles a client's operation; `hold` is the memory for the answer.
    fn client_op(&mut self, conn: ConnId, tid: u64, op: Box<OsdOp>, hold: Hold) {
        let admission = self.admit(conn, &op);
        self.share_maps(conn, op.epoch);
        match admission {
            Admission::Drop => self.core.count("requests_dropped", 1),
            Admission::Refuse(errno) => self.refuse(conn, tid, &op, errno),
            Admission::Deny => {
                self.note_denied(conn, &op);
                self.refuse(conn, tid, &op, Errno::EPERM);
            }
            Admission::Serve => {
                let Some(session) = self.core.session(conn) else { return };
                let client = session.client();
                let object = HObject {
                    hash: op.hash,
                    ..HObject::head(op.pgid.pgid.pool, &op.locator.ns, &op.locator.key, &op.oid)
                };
                if self.core.backoffs().holds(op.pgid, conn, &object) {
                    return self.core.count("requests_backed_off", 1);
                }
                let now = self.core.now().mono;
                let id = self.core.next_op();
                if let Some(pg) = self.pgs.get_mut(&op.pgid) {
                    let key = key_of(op.pgid.shard, &object);
                    let mut op = ClientOp::new(conn, tid, client, op, key, now);
                    op.hold = hold;
                    pg.on_client_op(&mut self.core, id, op);
                }
            }
        }
    }

    /// Handles a client's acknowledgement of a backoff.
    fn backoff_message(&mut self, conn: ConnId, m: &OsdBackoff) {
        if m.op == backoff_op::ACK_BLOCK {
            self.core.backoff_acknowledged(m.pgid, conn, m.id);
        }
    }

    fn refuse(&mut self, conn: ConnId, tid: u64, op: &OsdOp, errno: Errno) {
        let reply = OsdOpReply::to(op, errno.to_result_code(), self.core.epoch());
        self.core.send(conn, tid, msgs::Body::from(reply));
    }

    /// Counts a denied request, and logs the first of each session with its sender.
    fn note_denied(&mut self, conn: ConnId, op: &OsdOp) {
        let core = &mut self.core;
        let level = if core.refuse(conn) { Level::Info } else { Level::Debug };
        let Some(session) = core.session(conn) else { return };
        let pool = op.pgid.pgid.pool;
        let names: Vec<String> = op.ops.iter().map(|sub| sub.op.code().to_string()).collect();
        let (who, from) = (&session.peer().name, session.peer().socket_addr);
        let text = format!(
            "{} on pool {} by {who} from {from}: its key does not allow it",
            names.join("+"),
            core.map().pool_name(pool)
        );
        core.event(level, "request_denied", text);
    }

    /// Checks whether a client's request may be served here.
    fn admit(&self, conn: ConnId, op: &OsdOp) -> Admission {
        let map = self.core.map();
        let Some(session) = self.core.session(conn) else { return Admission::Drop };
        if map.is_blocklisted(&session.peer().addrs.front()) {
            return Admission::Refuse(Errno::ESHUTDOWN);
        }
        let pgid = op.pgid.pgid;
        let Some(pool) = map.pools.get(&pgid.pool).filter(|p| pgid.seed < p.pg_num) else {
            return Admission::Drop;
        };
        if !pool.has_shard(op.pgid.shard) {
            return Admission::Refuse(Errno::EINVAL);
        }
        let is_pg_op = op.flags & osd_flag::PGOP != 0 || op.ops.iter().any(|o| o.op.code().is_pg_op());
        let placed = pool.raw_pg_to_pg(PgId::new(pgid.pool, op.hash));
        // Another member decides itself if it can answer.
        let balanced = |pg: &Pg| may_be_balanced(op) && pg.members().acting().contains(pg.us(&self.core));
        let serves = self.pgs.get(&op.pgid).is_some_and(|pg| pg.is_primary(&self.core) || balanced(pg));
        if !serves || !is_pg_op && placed != pgid {
            // A client that may ask any member does not ask again while its map shows us as one.
            return if may_be_balanced(op) { Admission::Refuse(Errno::EAGAIN) } else { Admission::Drop };
        }
        let target = OsdTarget {
            pool: map.pool_name(pgid.pool),
            applications: &pool.application_metadata,
            namespace: &op.locator.ns,
            object: match (is_pg_op, op.locator.key.is_empty()) {
                (true, _) => b"",
                (false, true) => &op.oid,
                (false, false) => &op.locator.key,
            },
        };
        let reads = op.ops.iter().any(|o| o.op.code().reads());
        let calls = match calls(op) {
            Ok(calls) => calls,
            Err(errno) => return Admission::Refuse(errno),
        };
        if !session.caps().allows(&target, reads, writes(op), &calls) {
            return Admission::Deny;
        }
        if pool.has_flag(pool_flags::EIO) {
            return Admission::Refuse(Errno::EIO);
        }
        match limits(&self.core, op).or_else(|| bad_snapshot(op)) {
            Some(errno) => Admission::Refuse(errno),
            None => Admission::Serve,
        }
    }

    /// The OSD at the other end of a connection, if it is one.
    pub(crate) fn sender(&self, conn: ConnId) -> Option<OsdId> {
        self.core.osd_at(conn)
    }

    /// Handles a message of another daemon.
    pub(crate) fn peer_message(&mut self, conn: ConnId, tid: u64, body: peer::Body) {
        let from = match self.core.links().of(conn) {
            Some((_, osd)) => Some(osd),
            None if !self.core.session(conn).is_some_and(Session::is_osd) => {
                return self.core.count("messages_ignored", 1);
            }
            None => {
                if let peer::Body::Hello(hello) = &body {
                    let osd = i32::try_from(hello.from.num).ok().map(OsdId);
                    return self.core.greeted(conn, osd, hello.epoch);
                }
                self.core.sessions().osd(conn)
            }
        };
        if let peer::Body::OsdPing(ping) = &body {
            return self.ping_message(conn, ping);
        }
        let (Some(from), Some(head)) = (from, body.pg_head().copied()) else {
            return self.core.count("messages_ignored", 1);
        };
        if self.must_wait(conn, head.epoch) {
            return self.hold(head.epoch, conn, Msg::new(tid, body));
        }
        self.core.has_at_least(from, head.epoch);
        let pool = self.core.map().pools.get(&head.pgid.pgid.pool);
        if pool.is_some_and(|pool| !pool.has_shard(head.pgid.shard) || !pool.has_shard(head.from)) {
            return self.core.count("messages_of_no_shard", 1);
        }
        self.pg_message(conn, Member { osd: from, shard: head.from }, tid, head.pgid, body);
    }

    fn pg_message(&mut self, conn: ConnId, from: Member, tid: u64, pgid: Spg, body: peer::Body) {
        let Some(pg) = self.pgs.get_mut(&pgid) else {
            return self.no_such_pg(conn, tid, body);
        };
        let core = &mut self.core;
        if is_background(&body) {
            core.note_background();
        }
        match body {
            peer::Body::PgQuery(m) => pg.on_query(core, conn, tid, &m),
            peer::Body::PgNotify(m) => match wire::Reader::new(&m.info).get() {
                Ok(notice) if m.head.epoch >= pg.members().interval() => {
                    pg.on_notice(core, from, tid, m.exists, notice)
                }
                Ok(_) => {}
                Err(error) => core.event(Level::Warn, "notice_undecodable", format!("pg {pgid}: {error}")),
            },
            peer::Body::PgLog(m) if m.activate => pg.on_activate(core, conn, tid, &m),
            peer::Body::PgLog(m) => pg.on_log_reply(core, from, tid, &m),
            peer::Body::PgInfo(m) if m.activate => pg.on_member_activated(core, from, tid),
            peer::Body::PgInfo(m) => pg.on_primary_info(core, tid, &m),
            peer::Body::RepData(m) => pg.on_rep_data(core, tid, &m),
            peer::Body::RepOp(m) => pg.on_rep_op(core, conn, tid, &m),
            peer::Body::RepOpReply(m) => pg.on_rep_op_reply(core, from, tid, &m),
            peer::Body::Push(m) => pg.on_push(core, conn, tid, &m),
            peer::Body::PushReply(m) => pg.on_push_reply(core, from, tid, &m),
            peer::Body::Pull(m) => pg.on_pull(core, conn, tid, &m),
            peer::Body::PgScan(m) => pg.on_scan(core, conn, tid, &m),
            peer::Body::PgScanReply(m) => pg.on_scan_reply(core, from, tid, &m),
            peer::Body::PgScrub(m) => pg.on_scrub(core, conn, tid, &m),
            peer::Body::PgScrubMap(m) => pg.on_scrub_map(core, from, tid, &m),
            peer::Body::PgScrubbed(m) => pg.on_scrubbed(core, from, &m),
            peer::Body::PgReserve(m) => pg.on_reserve(core, (conn, from), tid, &m),
            peer::Body::PgRemove(m) if pg.is_useless(core, from, m.head.interval) => self.remove_copy(pgid),
            peer::Body::PgRemove(_) => {}
            _ => core.count("messages_ignored", 1),
        }
    }

    /// Answers a former member's question about a PG of which nothing is here.
    fn no_such_pg(&mut self, conn: ConnId, tid: u64, body: peer::Body) {
        let peer::Body::PgQuery(query) = body else { return };
        let PgId { pool, seed } = query.head.pgid.pgid;
        if self.core.map().pools.get(&pool).is_some_and(|pool| seed >= pool.pg_num) {
            // It was merged, and the asker will learn that; our copy remains.
            return;
        }
        let feature_level = self.core.options().levels.newest;
        let notice = crate::pg::info::Notice { feature_level, ..Default::default() };
        let body = peer::PgNotify {
            head: query.head.answer(self.core.epoch()),
            exists: false,
            info: wire::Writer::encode(&notice),
        };
        self.core.send(conn, tid, peer::Body::from(body));
    }
}

/// The methods that a request calls, or the error if one can't be called.
fn calls(op: &OsdOp) -> Result<Vec<auth::ClassCall<'_>>, Errno> {
    let calls = op.ops.iter().filter_map(|sub| match &sub.op {
        Op::Call { class, method, .. } => Some((class, method)),
        _ => None,
    });
    let known = calls.map(|(class, method)| {
        let m = cls::find(class, method)?;
        Ok(auth::ClassCall { class, method, read: m.access.reads, write: m.access.writes })
    });
    known.collect()
}

/// True if a request writes other than by class methods, which are checked one by one.
fn writes(op: &OsdOp) -> bool {
    op.ops.iter().any(|sub| match &sub.op {
        Op::Watch { op: watch_op::PING, .. } => false,
        op => op.code().writes(),
    })
}

fn limits(core: &Core, op: &OsdOp) -> Option<Errno> {
    let limits = &core.options().limits;
    let data: u64 = op.ops.iter().map(|sub| sub.op.to_raw(0).1.len() as u64).sum();
    if op.oid.len() > limits.name_len
        || op.locator.key.len() > limits.name_len
        || op.locator.ns.len() > limits.namespace_len
    {
        return Some(Errno::ENAMETOOLONG);
    }
    (data > limits.write_size).then_some(Errno::EMSGSIZE)
}

/// Rejects writes to snapshots, contexts out of order, and listings of snapshots anywhere but at their
/// directory.
fn bad_snapshot(op: &OsdOp) -> Option<Errno> {
    let context = SnapContext { seq: op.snap_seq, snaps: op.snaps.clone() };
    let writes_badly = may_write(op) && (op.snapid != SnapId::HEAD || !context.is_valid());
    let lists = op.ops.iter().any(|sub| matches!(sub.op, Op::ListSnaps));
    (writes_badly || lists && op.snapid != SnapId::DIR).then_some(Errno::EINVAL)
}

/// True for messages of recovery and scrub, which raise the latency of clients' writes at sender and
/// receiver.
fn is_background(body: &peer::Body) -> bool {
    matches!(
        body,
        peer::Body::Push(_)
            | peer::Body::PushReply(_)
            | peer::Body::Pull(_)
            | peer::Body::PgScan(_)
            | peer::Body::PgScanReply(_)
            | peer::Body::PgScrub(_)
            | peer::Body::PgScrubMap(_)
    )
}
