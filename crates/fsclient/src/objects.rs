//! What is not the file system: whole objects, listings, monitor commands, statistics, unmounting.

use crate::api::{Answer, Errno, ObjectRequest, Reply, Request, Statfs};
use crate::client::{Client, Op, Outs, Stage, Step, Token, fail};
use crate::io::is_dirty;
use maps::{HObject, ObjectLocator};
use msgs::errno::{ECANCELED, EINVAL, EIO, ENOENT};
use msgs::{Body, Paxos, pool_op};
use node::{AdminId, Output};
use rados::{Completion, Listing, cursor_start};
use stdx::Now;
use wire::{Reader, Writer};

/// Unit of statfs, as Ceph's clients report.
const STATFS_BLOCK: u32 = 4 << 20;

impl Client {
    /// One attempt at a request that is not a file system's.
    pub(crate) fn other_step(
        &mut self,
        now: Now,
        number: u64,
        op: &mut Op,
        stage: Stage,
        out: &mut Outs,
    ) -> Step {
        match (stage, &op.request) {
            (Stage::Leaving, _) => self.leave(now, number, op, out),
            (Stage::New, Request::Unmount) => self.leave(now, number, op, out),
            (Stage::New, Request::Object(request)) => {
                let request = request.clone();
                op.stage = Stage::Elsewhere;
                self.object(now, number, &request, out)
            }
            (Stage::New, Request::ListObjects { pool, namespace, cursor, max }) => {
                let Some((pool, _)) = self.osdmap().pool_by_name(pool) else { return fail(ENOENT) };
                let cursor = if cursor.is_empty() {
                    Ok(cursor_start(pool))
                } else {
                    Reader::new(cursor).get::<HObject>()
                };
                let Ok(cursor) = cursor else { return fail(EINVAL) };
                let (namespace, max) = (namespace.clone(), *max as u64);
                op.stage = Stage::Elsewhere;
                let token = self.token(Token::Whole { op: number });
                self.with_cluster(now, out, |cluster, outs| {
                    cluster.rados(now, outs, |rados, outs| rados.list(token, &namespace, &cursor, max, outs));
                });
                Step::Wait
            }
            (Stage::New, Request::Watch { .. } | Request::Unwatch { .. } | Request::Notify { .. }) => {
                let request = op.request.clone();
                op.stage = Stage::Elsewhere;
                self.linger(now, number, request, out)
            }
            (Stage::New, Request::Command { command, input }) => {
                let (command, input) = (command.clone(), input.clone());
                op.stage = Stage::Elsewhere;
                let token = self.token(Token::Whole { op: number });
                self.with_mon(now, out, |monc, outs| monc.command(token, command, input, outs));
                Step::Wait
            }
            (Stage::New, Request::PoolSnap { pool, remove }) => {
                let Some((pool, _)) = self.osdmap().pool_by_name(pool) else { return fail(ENOENT) };
                let (pool, remove) = (u32::try_from(pool).unwrap_or(u32::MAX), *remove);
                op.stage = Stage::Elsewhere;
                let token = self.token(Token::Whole { op: number });
                let fsid = self.cluster.monc().fsid();
                let code = if remove.is_some() {
                    pool_op::DELETE_UNMANAGED_SNAP
                } else {
                    pool_op::CREATE_UNMANAGED_SNAP
                };
                let snapid = remove.unwrap_or_default();
                let body =
                    msgs::PoolOp { fsid, pool, op: code, snapid, crush_rule: -1, ..Default::default() };
                self.with_mon(now, out, |monc, outs| monc.request(token, |_| Body::from(body), outs));
                Step::Wait
            }
            (stage, _) => {
                op.stage = stage;
                Step::Wait
            }
        }
    }

    fn object(&mut self, now: Now, number: u64, request: &ObjectRequest, out: &mut Outs) -> Step {
        let Some((pool, _)) = self.osdmap().pool_by_name(&request.pool) else { return fail(ENOENT) };
        let writes = request.ops.iter().any(|op| op.code().writes());
        let make = if writes { rados::Request::write } else { rados::Request::read };
        let message = make(pool, &request.namespace, request.name.clone(), request.ops.clone())
            .at_snap(request.snap)
            .with_snapc(request.snapc.clone())
            .with_flags(request.flags);
        self.submit(now, Token::Whole { op: number }, message, out);
        Step::Wait
    }

    /// Begins or ends what lingers.
    fn linger(&mut self, now: Now, number: u64, request: Request, out: &mut Outs) -> Step {
        let named = |client: &Self, pool: &str| client.osdmap().pool_by_name(pool).map(|(pool, _)| pool);
        match request {
            Request::Watch { pool, name, cookie, timeout } => {
                let Some(pool) = named(self, &pool) else { return fail(ENOENT) };
                self.registering.insert(cookie, number);
                self.with_cluster(now, out, |cluster, outs| {
                    cluster.rados(now, outs, |rados, outs| {
                        rados.watch(now, cookie, ObjectLocator::new(pool, ""), &name, timeout, outs);
                    });
                });
            }
            Request::Unwatch { cookie } => {
                if let Some(watching) = self.registering.remove(&cookie) {
                    self.resolve(watching, Err(Errno(ECANCELED)));
                }
                let token = self.token(Token::Whole { op: number });
                self.with_cluster(now, out, |cluster, outs| {
                    cluster.rados(now, outs, |rados, outs| rados.unwatch(now, token, cookie, outs));
                });
            }
            Request::Notify { pool, name, payload, timeout } => {
                let Some(pool) = named(self, &pool) else { return fail(ENOENT) };
                let token = self.token(Token::Whole { op: number });
                self.with_cluster(now, out, |cluster, outs| {
                    cluster.rados(now, outs, |rados, outs| {
                        let locator = ObjectLocator::new(pool, "");
                        rados.notify(now, token, locator, &name, payload, timeout, outs);
                    });
                });
            }
            _ => return fail(EINVAL),
        }
        Step::Wait
    }

    /// A watch is registered, or can't be.
    pub(crate) fn watched(&mut self, cookie: u64, result: i32) {
        let Some(op) = self.registering.remove(&cookie) else { return };
        let client = self.cluster.monc().global_id();
        self.resolve(op, Ok(Answer::Watching { result, client }));
    }

    /// A notification has ended.
    pub(crate) fn notify_ended(&mut self, token: u64, answer: Answer) {
        if let Some(Token::Whole { op }) = self.tokens.remove(&token) {
            self.resolve(op, Ok(answer));
        }
    }

    /// An object operation has ended.
    pub(crate) fn object_answer(&mut self, token: u64, done: Completion) {
        match self.tokens.remove(&token) {
            Some(Token::Piece { op, piece }) => {
                let data = done.ops.into_iter().next().map(|o| o.data).unwrap_or_default();
                self.piece_done(op, piece, done.result, data);
            }
            Some(Token::Flight { ino, offset }) => self.landed(ino, offset, done.result),
            Some(Token::Whole { op }) => {
                let ops = done.ops.into_iter().map(|o| (o.rval, o.data)).collect();
                self.resolve(op, Ok(Answer::Object { result: done.result, ops, version: done.version }));
            }
            None => {}
        }
    }

    /// A step of a listing has ended.
    pub(crate) fn listing_answer(&mut self, token: u64, result: Result<Box<Listing>, i32>) {
        let Some(Token::Whole { op }) = self.tokens.remove(&token) else { return };
        let reply = match result {
            Ok(listing) => {
                let names = listing.entries.into_iter().map(|e| (e.oid, e.locator)).collect();
                let cursor = listing.next.map(|next| Writer::encode(&next)).unwrap_or_default();
                Ok(Answer::Objects { names, cursor })
            }
            Err(errno) => Err(Errno(-errno)),
        };
        self.resolve(op, reply);
    }

    /// A monitor has answered.
    pub(crate) fn monitor_answer(&mut self, token: u64, body: Body) {
        let Some(Token::Whole { op }) = self.tokens.remove(&token) else { return };
        let reply: Reply = match body {
            Body::MonCommandAck(ack) => Ok(Answer::Command { code: ack.r, status: ack.rs, output: ack.data }),
            Body::PoolOpReply(reply) => {
                let snap = reply.data.and_then(|data| Reader::new(&data).get().ok());
                Ok(Answer::PoolSnap { code: reply.code, snap })
            }
            Body::StatfsReply(reply) => {
                let blocks = |kb: u64| kb * 1024 / u64::from(STATFS_BLOCK);
                let files =
                    self.inodes.get(&crate::cache::ROOT).map_or(0, |root| root.nfiles + root.nsubdirs);
                Ok(Answer::Statfs(Statfs {
                    block: STATFS_BLOCK,
                    blocks: blocks(reply.st.kb),
                    free: blocks(reply.st.kb_avail),
                    files,
                }))
            }
            _ => Err(Errno(EIO)),
        };
        self.resolve(op, reply);
    }

    /// statfs(2) of the mount: that of its data pool.
    pub(crate) fn statfs(&mut self, now: Now, number: u64, op: &mut Op, out: &mut Outs) -> Step {
        op.stage = Stage::Elsewhere;
        let token = self.token(Token::Whole { op: number });
        let data_pool = self.mds.map.data_pools.first().copied();
        let fsid = self.cluster.monc().fsid();
        self.with_mon(now, out, |monc, outs| {
            let body = |_tid| Body::from(msgs::Statfs { paxos: Paxos::default(), fsid, data_pool });
            monc.request(token, body, outs);
        });
        Step::Wait
    }

    /// Writes everything back, then closes the session; [`Client::session_closed`] gives the answer.
    fn leave(&mut self, now: Now, number: u64, op: &mut Op, out: &mut Outs) -> Step {
        op.stage = Stage::Leaving;
        let dirty: Vec<u64> = self.inodes.values().filter(|i| is_dirty(i)).map(|i| i.ino).collect();
        if dirty.is_empty() {
            if self.mds.state != crate::mds::State::Closing {
                self.close_session(now, out);
            }
            return Step::Wait;
        }
        for ino in dirty {
            let inode = self.inodes.get_mut(&ino).expect("just listed");
            inode.sync_wanted = true;
            inode.waiters.insert(number);
            self.attend(ino);
        }
        Step::Wait
    }

    /// An admin command.
    pub(crate) fn admin(&self, id: AdminId, _command: &str) -> Output<Reply> {
        let output = format!(
            "{{\"inodes\":{},\"caps\":{},\"dirty_bytes\":{},\"mds_state\":\"{:?}\",\"osdmap_epoch\":{}}}",
            self.inodes.len(),
            self.inodes.values().filter(|i| i.cap.is_some()).count(),
            self.dirty_bytes,
            self.mds.state,
            self.osdmap().epoch
        );
        Output::AdminReply { id, code: 0, output }
    }
}
