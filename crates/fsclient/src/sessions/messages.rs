//! The messages of MDSs: session messages, replies, forwards, capabilities and leases.

use super::{Env, SessionEvent, Sessions};
use crate::cache::Cache;
use crate::file_locks::Style;
use crate::key::{InodeKey, OpId};
use crate::mds_request;
use crate::promise::Promise;
use crate::requests::{Recall, Replied};
use crate::session::State;
use maps::MdsRank;
use msgs::{
    Body, ClientCaps, ClientLease, ClientReply, ClientRequest, ClientRequestForward, ClientSession,
    CreatedInode, MdsOp, RefusedLock, cap_op, lease_action, session_metadata, session_op,
};
use node::{ConnId, Event, Level, Msg, Output};
use std::collections::BTreeSet;
use wire::Errno;

impl Sessions {
    /// A message on a session's connection.
    pub(crate) fn message(&mut self, conn: ConnId, msg: Msg, env: &mut Env<'_>) {
        let (Some(rank), node::Body::Client(body)) = (self.rank_of_conn(conn), msg.body) else { return };
        let is_answer = is_answer(&body);
        match body {
            Body::ClientSession(session) => self.session_message(rank, &session, env),
            Body::ClientReply(reply) => self.reply(rank, msg.tid, *reply, env),
            Body::ClientRequestForward(forward) => self.forward(rank, msg.tid, &forward, env),
            Body::ClientCaps(caps) => {
                self.note_migration(rank, &caps);
                let inode = InodeKey::head(caps.ino);
                let is_moving = |cache: &Cache| cache.inode(inode).is_some_and(|inode| inode.is_moving());
                let was_moving = is_moving(env.cache);
                if caps.op == cap_op::IMPORT {
                    env.cache.catch_up(&caps);
                }
                if let Some(detail) = env.cache.cap_message(rank, msg.tid, &caps) {
                    env.out.push(Output::Event(Event::new(Level::Error, "writes_lost", detail)));
                }
                if caps.op == cap_op::IMPORT || was_moving && !is_moving(env.cache) {
                    for (tid, flush) in env.cache.repeat_flushes_of(inode) {
                        self.send(rank, Body::from(flush), tid, env.out);
                    }
                }
            }
            Body::ClientLease(lease) if lease.action == lease_action::REVOKE => {
                env.cache.forget_name(InodeKey::head(lease.ino), &lease.dname);
                let ack = ClientLease { action: lease_action::REVOKE_ACK, ..*lease };
                self.send(rank, Body::from(ack), 0, env.out);
            }
            Body::MdsMap(map) => {
                if let Ok(decoded) = wire::Reader::new(&map.map).get() {
                    self.take_map(decoded, env);
                }
            }
            Body::ClientSnap(snap) => env.cache.snap_message(&snap),
            Body::ClientQuota(quota) => env.cache.take_quota(&quota),
            _ => {}
        }
        self.send_releases(env.now, env.cache, env.out);
        // Of what an MDS asks for, others may wait for the end.
        if !is_answer {
            self.session(rank).send_gathered(env.out);
        }
    }

    /// A capability moves from one rank to another: a session with the other is needed.
    fn note_migration(&mut self, rank: MdsRank, caps: &ClientCaps) {
        let next = caps.next_authority().map(|next| MdsRank(next.mds));
        self.wanted.extend(next.filter(|next| *next != rank));
    }

    fn session_message(&mut self, rank: MdsRank, msg: &ClientSession, env: &mut Env<'_>) {
        match msg.head.op {
            session_op::OPEN => {
                let Self { sessions, map, .. } = self;
                if let Some(session) = sessions.get_mut(&rank) {
                    session.opened(env.now, map, &msg.metadata);
                }
                if let Some(refused) = msg.metadata.get(session_metadata::REFUSED_LOCKS) {
                    locks_refused(&RefusedLock::from_text(refused), env);
                }
                self.resend(rank, env.out);
                self.events.push_back(SessionEvent::Opened);
                env.cache.resume(rank);
            }
            session_op::CLOSE if self.session(rank).state() == State::Closing => self.session_left(rank),
            session_op::REJECT if is_blocklisted(msg) => {
                let conn = self.session(rank).disconnect();
                env.out.extend(conn.map(|conn| Output::Close { conn }));
                self.session(rank).failed_to_open(env.now);
                self.events.push_back(SessionEvent::Refused(said(msg).to_owned()));
            }
            session_op::CLOSE | session_op::REJECT => {
                let why = said(msg);
                let conn = self.session(rank).disconnect();
                env.out.extend(conn.map(|conn| Output::Close { conn }));
                self.forget_session(rank, why, env);
                self.session(rank).reopen_later(env.now);
            }
            session_op::RECALL_STATE => {
                env.cache.trim_caps(rank, msg.head.max_caps as usize);
                self.send_releases(env.now, env.cache, env.out);
                self.session(rank).send_releases(env.now, env.out);
            }
            session_op::FLUSHMSG => {
                let ack = ClientSession::of(session_op::FLUSHMSG_ACK, msg.head.seq);
                self.send(rank, Body::from(ack), 0, env.out);
            }
            _ => {}
        }
    }

    /// The answer to a request.
    fn reply(&mut self, rank: MdsRank, tid: u64, reply: ClientReply, env: &mut Env<'_>) {
        let Some(replied) = self.requests.answered(tid, rank, &reply) else { return };
        if let Some(promise) = &replied.promise {
            env.cache.end_promise(promise, reply.result >= 0);
        }
        self.take_numbers(rank, &reply);
        if replied.is_lost {
            self.lost += 1;
            let what = replied.ended.as_ref().map_or(MdsOp::default(), |(request, _)| request.op);
            let errno = Errno::from_result_code(reply.result).and_then(Errno::name).unwrap_or("an error");
            let detail = match &replied.promise {
                Some(_) => format!("{what} was promised to its caller, and the MDS refuses it: {errno}"),
                None => format!("{what} was carried out, but a crash of the MDS undid it: {errno}"),
            };
            env.out.push(Output::Event(Event::new(Level::Error, "change_lost", detail)));
        }
        if replied.first {
            env.cache.learn(env.now, rank, &reply);
            if let Some(Promise::Create { name: (dir, _), inode }) = &replied.promise {
                env.cache.drop_assumed(*inode);
                env.cache.note_layout_of_new_dir(*dir, *inode);
            }
            if let Some(op) = replied.op {
                self.answer(op, rank, replied, reply, env);
            }
        }
        self.wake_journal_waiters();
    }

    /// Hands the first answer to the operation that waits for it, or goes on with its request.
    fn answer(&mut self, op: OpId, rank: MdsRank, replied: Replied, reply: ClientReply, env: &mut Env<'_>) {
        let (is_repeat, result) = (replied.is_repeat, reply.result);
        let asks_again =
            replied.ended.is_some_and(|(request, recall)| self.ask_again(op, request, recall, result, env));
        if !asks_again {
            self.events.push_back(SessionEvent::Replied { op, rank, reply: Box::new(reply), is_repeat });
        }
    }

    /// Takes the inode numbers that an answer delegates.
    fn take_numbers(&mut self, rank: MdsRank, reply: &ClientReply) {
        if matches!(reply.op, MdsOp::CREATE | MdsOp::MKDIR)
            && let Ok(CreatedInode { delegated, .. }) = wire::Reader::new(&reply.extra).get()
        {
            self.session(rank).add_numbers(&delegated);
        }
    }

    /// A rank says that another is the authority: the request is sent there, over a session that may have to
    /// be opened.
    fn forward(&mut self, rank: MdsRank, tid: u64, forward: &ClientRequestForward, env: &mut Env<'_>) {
        // Even where a rank could pass a request on itself, the client sends it: the other rank expects it of
        // a session.
        let to = MdsRank(forward.dest_mds);
        if to.0 >= 0 && self.requests.forwarded(tid, rank, to, forward.num_fwd) {
            self.transmit(tid, env.out);
        }
    }

    /// Goes on with a request that needs more than one answer. Returns true if it does.
    fn ask_again(
        &mut self,
        op: OpId,
        request: Box<ClientRequest>,
        recall: Recall,
        result: i32,
        env: &mut Env<'_>,
    ) -> bool {
        let (request, mut bases) = match recall {
            Recall::NotYet
                if Errno::from_result_code(result) == Some(Errno::ESTALE)
                    && request.op != MdsOp::LOOKUPINO =>
            {
                let is_unknown = |key: &InodeKey| {
                    *key > InodeKey::ROOT && env.cache.inode(*key).is_none_or(|i| i.caps().cap().is_none())
                };
                let named = [request.path.ino, request.path2.ino].map(InodeKey::head);
                let bases: Vec<u64> = named.into_iter().filter(is_unknown).map(InodeKey::ino).collect();
                if bases.is_empty() {
                    return false;
                }
                (request, bases)
            }
            Recall::Finding(request, rest) if result >= 0 => (request, rest),
            _ => return false,
        };
        let (next, recall) = match bases.pop() {
            Some(ino) => {
                let lookup = ClientRequest {
                    op: MdsOp::LOOKUPINO,
                    head_version: request.head_version,
                    stamp: request.stamp,
                    ..mds_request::look_at(ino)
                };
                (lookup, Recall::Finding(request, bases))
            }
            None => (ClientRequest { num_retry: 0, num_fwd: 0, ..*request }, Recall::Done),
        };
        let rank = self.choose_rank(env.cache, &next);
        self.enqueue(Some(op), rank, Box::new(next), recall, env.out);
        true
    }
}

/// True for a message that only answers one of ours.
fn is_answer(body: &Body) -> bool {
    match body {
        Body::ClientReply(_) => true,
        Body::ClientCaps(caps) => caps.op == cap_op::FLUSH_ACK,
        _ => false,
    }
}

/// The words with which an MDS closes a session.
fn said(msg: &ClientSession) -> &str {
    msg.metadata.get("error_string").map_or("closed by the MDS", String::as_str)
}

/// True if an MDS refuses this client because of the blocklist, by the name that it had before Ceph 16 too.
fn is_blocklisted(msg: &ClientSession) -> bool {
    ["blocklisted", "blacklisted"].iter().any(|word| said(msg).contains(word))
}

/// An MDS has given to others what we claim: the owners get errors from now on, which is logged.
fn locks_refused(refused: &BTreeSet<RefusedLock>, env: &mut Env<'_>) {
    let refuse = |lock: &&RefusedLock| {
        let style = Style::of_rule(lock.rule);
        style.is_some_and(|style| env.locks.refuse(InodeKey::head(lock.ino), (style, lock.owner)))
    };
    let owners = refused.iter().filter(refuse).count();
    if owners > 0 {
        let detail = format!(
            "a new MDS refuses the locks of {owners} owners; what they locked by fails with EIO until it is \
             closed"
        );
        env.out.push(Output::Event(Event::new(Level::Warn, "file_locks_lost", detail)));
    }
}
