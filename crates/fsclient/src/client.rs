//! The client as a node: one table of operations in progress, each tried again from its own state when what it waited for
//! has changed; inodes and names with the rights that they rest on; sub-machines for monitors, objects and the MDS.
//!
//! After each input the client settles: operations that may go on do, then every inode that was touched gives back, asks for
//! and flushes what it should, until nothing is left to do.

use crate::api::{Answer, Caller, Errno, Fh, FsRequest, Ino, Reply, Request};
use crate::cache::Dentry;
use crate::config::ClientConfig;
use crate::dir::DirHandle;
use crate::inode::Inode;
use crate::io::FileIo;
use crate::mds::Mds;
use maps::OsdMap;
use monc::{Monc, MoncConfig, MoncOut, Stuck, Told};
use msgs::{Body, ClientReply};
use node::{CloseReason, Event, Input, Level, Msg, Node, Output, RequestId};
use rados::{Cluster, ClusterOut, Completion, Listing, RadosConfig, RadosTold};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use stdx::{FastMap, Instant, Now, Rng};
use wire::{EntityType, Reader};

pub(crate) type Outs = Vec<Output<Reply>>;

/// Connection numbers of the sub-machines.
const SPACE_MONC: u8 = 1;
const SPACE_RADOS: u8 = 2;
const SPACE_MDS: u8 = 3;
/// How long written data may stay here when nobody asks for it to be written.
pub(crate) const WRITE_BACK_AFTER: Duration = Duration::from_secs(2);

/// How an operation stands after an attempt.
pub(crate) enum Step {
    /// It has its answer.
    Done(Reply),
    /// Something that it waits for will wake it.
    Wait,
}

/// An error as an answer.
pub(crate) fn fail(errno: i32) -> Step {
    Step::Done(Err(Errno(errno)))
}

/// An operation in progress.
#[derive(Debug)]
pub(crate) struct Op {
    pub(crate) id: RequestId,
    pub(crate) request: Request,
    pub(crate) stage: Stage,
    /// The MDS was asked more than once: it may have done it long ago, and others since then something else.
    pub(crate) is_repeat: bool,
}

/// How far an operation has come.
#[derive(Debug, Default)]
pub(crate) enum Stage {
    /// Nothing was asked of anybody yet, or it begins anew.
    #[default]
    New,
    /// The MDS was asked.
    AtMds,
    /// The MDS has answered.
    Answered(Box<ClientReply>),
    /// The size that the MDS knows was learnt after the operation began.
    Sized,
    /// A read or write of file data.
    Io(FileIo),
    /// The data were taken; the writer waits for room.
    Written(u32),
    /// A monitor or an OSD was asked; its answer is the operation's.
    Elsewhere,
    /// The answer is known.
    Ready(Reply),
    /// Everything is written back; the session closes.
    Leaving,
}

/// What an answer of the object engine or the monitor session is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Token {
    /// Piece `piece` of an operation's file I/O.
    Piece { op: u64, piece: usize },
    /// The buffered extent at `offset`.
    Flight { ino: Ino, offset: u64 },
    /// The whole answer of an operation.
    Whole { op: u64 },
}

/// An answer of a sub-machine.
#[derive(Debug)]
enum Arrived {
    Object(u64, Box<Completion>),
    Listing(u64, Result<Box<Listing>, i32>),
    Monitor(u64, Body),
    Watched(u64, i32),
    /// Of a notification: the answer as callers get it.
    Notified(u64, Box<Answer>),
}

/// An open file.
#[derive(Debug)]
pub(crate) struct FileHandle {
    pub(crate) ino: Ino,
    pub(crate) reads: bool,
    pub(crate) writes: bool,
    pub(crate) append: bool,
}

/// The file system client.
pub struct Client {
    pub(crate) config: ClientConfig,
    pub(crate) cluster: Cluster,
    pub(crate) mds: Mds,
    stuck: Stuck,
    pub(crate) inodes: FastMap<Ino, Inode>,
    pub(crate) dentries: BTreeMap<(Ino, Vec<u8>), Dentry>,
    pub(crate) files: FastMap<Fh, FileHandle>,
    pub(crate) dirs: FastMap<Fh, DirHandle>,
    next_fh: Fh,
    ops: BTreeMap<u64, Op>,
    next_op: u64,
    runnable: VecDeque<u64>,
    /// Answers of sub-machines, taken one after another: an operation must not be changed from within its own attempt.
    arrived: VecDeque<Arrived>,
    pub(crate) touched: BTreeSet<Ino>,
    /// Inodes whose waiters may go on.
    pub(crate) changed: BTreeSet<Ino>,
    pub(crate) tokens: FastMap<u64, Token>,
    next_token: u64,
    /// Requests to watch, by cookie.
    pub(crate) registering: BTreeMap<u64, u64>,
    /// Operations that wait for safe answers.
    pub(crate) journal_waiters: BTreeSet<u64>,
    /// Writers that wait for buffered bytes to leave.
    pub(crate) room_waiters: BTreeSet<u64>,
    /// Files with buffered writes or unflushed attributes, with when they were first so.
    pub(crate) dirty_since: BTreeMap<Ino, Instant>,
    /// Bytes waiting and flying, over all files.
    pub(crate) dirty_bytes: u64,
    pub(crate) next_flush_tid: u64,
    pub(crate) next_invalidation: u64,
    pub(crate) invalidations: BTreeMap<u64, Ino>,
    /// Locks that were taken, by file and owner, to be dropped when the owner closes.
    pub(crate) locks: BTreeSet<(Ino, u64)>,
    pub(crate) use_counter: u64,
    pub(crate) closed: bool,
    ready: bool,
}

impl Client {
    /// A client that does nothing before [`Input::Start`].
    pub fn new(config: ClientConfig, mut rng: Rng) -> Self {
        let mut services = vec![EntityType::MON, EntityType::OSD];
        if config.mount {
            services.push(EntityType::MDS);
        }
        let monc = MoncConfig {
            credentials: config.credentials.clone(),
            mons: config.mons.clone(),
            services,
            rotating_keys: false,
            space: SPACE_MONC,
            hostname: config.hostname.clone(),
        };
        Self {
            cluster: Cluster::new(monc, RadosConfig::new(config.credentials.clone(), SPACE_RADOS), &mut rng),
            mds: Mds::new(SPACE_MDS),
            stuck: Stuck::default(),
            config,
            inodes: FastMap::default(),
            dentries: BTreeMap::new(),
            files: FastMap::default(),
            dirs: FastMap::default(),
            next_fh: 1,
            ops: BTreeMap::new(),
            next_op: 1,
            runnable: VecDeque::new(),
            arrived: VecDeque::new(),
            touched: BTreeSet::new(),
            changed: BTreeSet::new(),
            tokens: FastMap::default(),
            next_token: 1,
            registering: BTreeMap::new(),
            journal_waiters: BTreeSet::new(),
            room_waiters: BTreeSet::new(),
            dirty_since: BTreeMap::new(),
            dirty_bytes: 0,
            next_flush_tid: 1,
            next_invalidation: 1,
            invalidations: BTreeMap::new(),
            locks: BTreeSet::new(),
            use_counter: 0,
            closed: false,
            ready: false,
        }
    }

    /// A new handle's number.
    pub(crate) fn next_fh(&mut self) -> Fh {
        self.next_fh += 1;
        self.next_fh
    }

    /// A number by which an answer finds back.
    pub(crate) fn token(&mut self, token: Token) -> u64 {
        self.next_token += 1;
        self.tokens.insert(self.next_token, token);
        self.next_token
    }

    /// Lets an operation try again.
    pub(crate) fn wake(&mut self, op: u64) {
        self.runnable.push_back(op);
    }

    /// Something about the inode changed: whoever waits for it tries again, and it is tended.
    pub(crate) fn touch(&mut self, ino: Ino) {
        self.changed.insert(ino);
        self.touched.insert(ino);
    }

    /// An operation wants something of the inode and waits: it is tended, and nobody is woken for it.
    pub(crate) fn attend(&mut self, ino: Ino) {
        self.touched.insert(ino);
    }

    pub(crate) fn wake_journal_waiters(&mut self) {
        for op in std::mem::take(&mut self.journal_waiters) {
            self.wake(op);
        }
    }

    /// The MDS has answered an operation.
    pub(crate) fn give_reply(&mut self, op: u64, reply: ClientReply, is_repeat: bool) {
        if let Some(entry) = self.ops.get_mut(&op) {
            entry.is_repeat |= is_repeat;
            entry.stage = Stage::Answered(Box::new(reply));
            self.wake(op);
        }
    }

    /// Puts an answer into an operation, which gives it at its next attempt.
    pub(crate) fn resolve(&mut self, op: u64, reply: Reply) {
        if let Some(entry) = self.ops.get_mut(&op) {
            entry.stage = Stage::Ready(reply);
            self.wake(op);
        }
    }

    pub(crate) fn op_mut(&mut self, op: u64) -> Option<&mut Op> {
        self.ops.get_mut(&op)
    }

    /// What there is to wait for is there: local callers may come.
    pub(crate) fn say_ready(&mut self, out: &mut Outs) {
        let mounted = !self.config.mount || self.mds.state == crate::mds::State::Open;
        if !self.ready && self.osdmap().epoch.0 > 0 && mounted {
            self.ready = true;
            out.push(Output::Ready);
        }
    }

    /// The session is closed, or there was none: the client ends.
    pub(crate) fn session_closed(&mut self, out: &mut Outs) {
        self.closed = true;
        let waiting: Vec<u64> =
            self.ops.iter().filter(|(_, op)| matches!(op.stage, Stage::Leaving)).map(|(n, _)| *n).collect();
        for number in waiting {
            let op = self.ops.remove(&number).expect("just listed");
            out.push(Output::Reply { id: op.id, reply: Ok(Answer::Done) });
        }
        out.push(Output::Stop(Ok(())));
    }

    fn request(&mut self, id: RequestId, request: Request, out: &mut Outs) {
        match request {
            Request::Invalidated { id } => self.invalidated(id),
            Request::Fs(_, FsRequest::Forget { ino, count }) => self.forget(ino, count),
            request => return self.begin(id, request),
        }
        out.push(Output::Reply { id, reply: Ok(Answer::Done) });
    }

    /// An operation that may have to wait.
    fn begin(&mut self, id: RequestId, request: Request) {
        let number = self.next_op;
        self.next_op += 1;
        self.ops.insert(number, Op { id, request, stage: Stage::New, is_repeat: false });
        self.wake(number);
    }

    fn run(&mut self, now: Now, number: u64, out: &mut Outs) {
        let Some(mut op) = self.ops.remove(&number) else { return };
        let stage = std::mem::take(&mut op.stage);
        let step = match (stage, &op.request) {
            (Stage::Ready(reply), _) => Step::Done(reply),
            (stage, Request::Fs(caller, request)) => {
                let (caller, request) = (caller.clone(), request.clone());
                self.fs_step(now, number, &mut op, stage, &caller, &request, out)
            }
            (stage, _) => self.other_step(now, number, &mut op, stage, out),
        };
        match step {
            Step::Done(reply) => out.push(Output::Reply { id: op.id, reply }),
            Step::Wait => {
                self.ops.insert(number, op);
            }
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of one operation, taken apart for the borrow checker"
    )]
    fn fs_step(
        &mut self,
        now: Now,
        number: u64,
        op: &mut Op,
        stage: Stage,
        caller: &Caller,
        request: &FsRequest,
        out: &mut Outs,
    ) -> Step {
        if !self.config.mount {
            return fail(libc_errno::ENOTCONN);
        }
        use FsRequest as R;
        match request {
            R::Read { .. } | R::Write { .. } | R::Fallocate { .. } => {
                self.data_step(now, number, op, stage, request, out)
            }
            R::Fsync { fh, data_only } => self.fsync(number, *fh, *data_only, out),
            R::Flush { .. } | R::Release { .. } | R::Getlk { .. } | R::Setlk { .. } => {
                self.handle_step(now, number, op, stage, caller, request, out)
            }
            R::Opendir { .. } | R::Readdir { .. } | R::Releasedir { .. } | R::Fsyncdir { .. } => {
                self.dir_step(now, number, op, stage, caller, request, out)
            }
            R::Sync => self.sync_all(number, out),
            R::Statfs => self.statfs(now, number, op, out),
            _ => self.namespace_step(now, number, op, stage, caller, request, out),
        }
    }

    fn settle(&mut self, now: Now, out: &mut Outs) {
        loop {
            while let Some(arrived) = self.arrived.pop_front() {
                match arrived {
                    Arrived::Object(token, completion) => self.object_answer(token, *completion),
                    Arrived::Listing(token, result) => self.listing_answer(token, result),
                    Arrived::Monitor(token, body) => self.monitor_answer(token, body),
                    Arrived::Watched(cookie, result) => self.watched(cookie, result),
                    Arrived::Notified(token, answer) => self.notify_ended(token, *answer),
                }
            }
            if let Some(number) = self.runnable.pop_front() {
                self.run(now, number, out);
                continue;
            }
            if let Some(ino) = self.touched.pop_first() {
                self.tend(now, ino, out);
            } else if let Some(ino) = self.changed.pop_first() {
                let waiters =
                    self.inodes.get_mut(&ino).map(|i| std::mem::take(&mut i.waiters)).unwrap_or_default();
                self.runnable.extend(waiters);
            } else if self.arrived.is_empty() {
                break;
            }
        }
    }

    fn told(&mut self, now: Now, told: Told, out: &mut Outs) {
        match told {
            Told::Denied => {
                let name = &self.config.credentials.name;
                let why = format!("the monitors do not accept the key of {name}: check the keyring");
                out.push(Output::Stop(Err(why)));
            }
            Told::MonMap(map) if self.config.fsid.is_some_and(|fsid| fsid != map.fsid) => {
                let theirs = map.fsid;
                let why = format!(
                    "the monitors serve cluster {theirs}, the configuration says another fsid: check `fsid` and `mon host`"
                );
                out.push(Output::Stop(Err(why)));
            }
            Told::Tickets(_) => {
                out.push(Output::Event(Event::new(Level::Debug, "tickets_fetched", String::new())));
                self.renew_mds(out);
            }
            Told::Reply { token, body } => self.arrived.push_back(Arrived::Monitor(token, body)),
            Told::Message(Msg { body: node::Body::Client(Body::MdsMap(map)), .. }) => {
                if let Ok(decoded) = Reader::new(&map.map).get() {
                    self.with_mon(now, out, |monc, _| monc.got("mdsmap", u64::from(map.epoch.0)));
                    self.mds_map(now, decoded, out);
                }
            }
            _ => {}
        }
    }

    fn carry(&mut self, now: Now, outs: Vec<ClusterOut>, out: &mut Outs) {
        for item in outs {
            match item {
                ClusterOut::Net(net) => out.push(net.into()),
                ClusterOut::Mon(told) => self.told(now, told, out),
                ClusterOut::Rados(RadosTold::Map(_)) => self.say_ready(out),
                ClusterOut::Rados(RadosTold::Done { token, completion }) => {
                    self.arrived.push_back(Arrived::Object(token, completion));
                }
                ClusterOut::Rados(RadosTold::Listed { token, result }) => {
                    self.arrived.push_back(Arrived::Listing(token, result));
                }
                ClusterOut::Rados(RadosTold::Watched { cookie, result }) => {
                    self.arrived.push_back(Arrived::Watched(cookie, result));
                }
                ClusterOut::Rados(RadosTold::NotifyEnded { token, result, reply, attempts }) => {
                    let answer = Box::new(Answer::NotifyEnded { result, reply, attempts });
                    self.arrived.push_back(Arrived::Notified(token, answer));
                }
                ClusterOut::Rados(RadosTold::Notified { cookie, notify_id, notifier, payload }) => {
                    let reply = Ok(Answer::Notified { cookie, notify_id, notifier, payload });
                    out.push(Output::Reply { id: RequestId(0), reply });
                }
                ClusterOut::Rados(RadosTold::WatchBroken { cookie, result, alive_at }) => {
                    let reply = Ok(Answer::WatchBroken { cookie, result, alive_at });
                    out.push(Output::Reply { id: RequestId(0), reply });
                }
                ClusterOut::Rados(_) => {}
            }
        }
    }

    /// The current OSD map; of epoch 0 before there is one.
    pub(crate) fn osdmap(&self) -> &OsdMap {
        self.cluster.engine().map()
    }

    /// Calls the monitor session and carries out what follows.
    pub(crate) fn with_mon(
        &mut self,
        now: Now,
        out: &mut Outs,
        call: impl FnOnce(&mut Monc, &mut Vec<MoncOut>),
    ) {
        self.with_cluster(now, out, |cluster, outs| cluster.mon(now, outs, call));
    }

    /// Calls sessions to monitors and OSDs and carries out what follows.
    pub(crate) fn with_cluster(
        &mut self,
        now: Now,
        out: &mut Outs,
        call: impl FnOnce(&mut Cluster, &mut Vec<ClusterOut>),
    ) {
        let mut outs = Vec::new();
        call(&mut self.cluster, &mut outs);
        self.carry(now, outs, out);
    }

    /// Submits an object operation.
    pub(crate) fn submit(&mut self, now: Now, token: Token, request: rados::Request, out: &mut Outs) {
        let token = self.token(token);
        self.with_cluster(now, out, |cluster, outs| {
            cluster.rados(now, outs, |rados, outs| rados.submit(now, token, request, outs));
        });
    }
}

/// Error numbers that are not the protocol's but a local caller's.
pub(crate) mod libc_errno {
    pub(crate) const ENOTCONN: i32 = 107;
}

impl Node for Client {
    type Request = Request;
    type Reply = Reply;

    fn handle(&mut self, now: Now, input: Input<Request>, out: &mut Outs) {
        match input {
            Input::Start => self.with_cluster(now, out, |cluster, outs| {
                cluster.start(now, outs);
                cluster.mon(now, outs, |monc, outs| monc.subscribe("mdsmap", 0, false, outs));
            }),
            Input::Timer => {
                if self.stuck.is_due(now.mono) {
                    self.with_mon(now, out, |monc, _| monc.expect(now, "mdsmap"));
                }
                self.with_cluster(now, out, |cluster, outs| cluster.timer(now, outs));
                self.mds_timer(now, out);
                self.write_back_old(now);
            }
            Input::Connected { conn, peer } => {
                self.with_cluster(now, out, |cluster, outs| {
                    if cluster.owns(conn) {
                        cluster.connected(now, conn, &peer, outs);
                    }
                });
            }
            Input::Closed { conn, reason } if self.cluster.owns(conn) => {
                self.with_cluster(now, out, |cluster, outs| cluster.closed(now, conn, reason, outs));
            }
            Input::Closed { conn, reason } => {
                if reason == CloseReason::Denied {
                    self.with_mon(now, out, |monc, outs| monc.tickets_refused(now, outs));
                }
                self.mds_closed(now, conn, reason, out);
            }
            Input::Message { conn, msg } if self.cluster.owns(conn) => {
                self.with_cluster(now, out, |cluster, outs| cluster.message(now, conn, msg, outs));
            }
            Input::Message { conn, msg } => self.mds_message(now, conn, msg, out),
            Input::Request { id, request } => self.request(id, request, out),
            Input::Admin { id, command } => out.push(self.admin(id, &command)),
            Input::Disk { .. } => {}
        }
        if !self.closed {
            self.settle(now, out);
        }
        self.stuck.follow(now.mono, self.mds.oldest(), self.mds.map.epoch);
    }

    fn deadline(&self) -> Option<Instant> {
        let write_back = self.dirty_since.values().min().map(|at| *at + WRITE_BACK_AFTER);
        let parts = [self.cluster.deadline(), self.mds.deadline(), self.stuck.deadline(), write_back];
        parts.into_iter().flatten().min()
    }
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
