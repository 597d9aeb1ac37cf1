//! Operations beside the file system: whole objects, listings, watches, monitor commands, statistics.

use crate::api::{Answer, ObjectRequest, PoolRef, Reply, Request};
use crate::key::OpId;
use crate::op::{Attempt, Stage, Step, fail};
use crate::services::{Services, Token};
use maps::{HObject, ObjectLocator, SnapId};
use msgs::{Body, pool_op};
use rados::cursor_start;
use stdx::Bufs;
use wire::{Errno, Reader};

/// The owners that these operations need.
pub(crate) struct Objects<'a> {
    pub(crate) services: &'a mut Services,
    /// Operations that end because of this one.
    pub(crate) ended: &'a mut Vec<(OpId, Reply)>,
}

impl Objects<'_> {
    /// Attempts an operation: it asks once, and the answer is the operation's.
    pub(crate) fn step(&mut self, attempt: &mut Attempt<'_>) -> Step {
        match attempt.take_stage() {
            Stage::New => match self.ask(attempt) {
                Ok(()) => attempt.wait_at(Stage::Elsewhere),
                Err(errno) => fail(errno),
            },
            stage => attempt.wait_at(stage),
        }
    }

    fn ask(&mut self, attempt: &mut Attempt<'_>) -> Result<(), Errno> {
        let (now, op) = (attempt.now(), attempt.op());
        match attempt.request() {
            Request::Object(request) => self.object(attempt, request),
            Request::ListObjects { pool, namespace, cursor, max } => {
                let pool = self.pool(pool)?;
                let cursor = match cursor.as_slice() {
                    [] => cursor_start(pool),
                    cursor => Reader::new(cursor).get::<HObject>().map_err(|_| Errno::EINVAL)?,
                };
                self.services.ask_osds(now, op, attempt.out(), |rados, token, outs| {
                    rados.list(token, namespace, &cursor, *max as u64, outs);
                });
                Ok(())
            }
            Request::Watch { pool, namespace, name, cookie, timeout } => {
                let locator = ObjectLocator::new(self.pool(pool)?, namespace.as_slice());
                self.services.watch(now, op, *cookie, attempt.out(), |rados, outs| {
                    rados.watch(now, *cookie, locator, name, *timeout, outs);
                });
                Ok(())
            }
            Request::Unwatch { cookie } => {
                let registering = self.services.unwatch(now, op, *cookie, attempt.out());
                self.ended.extend(registering.map(|op| (op, Err(Errno::ECANCELED))));
                Ok(())
            }
            Request::Notify { pool, namespace, name, payload, timeout } => {
                let locator = ObjectLocator::new(self.pool(pool)?, namespace.as_slice());
                self.services.ask_osds(now, op, attempt.out(), |rados, token, outs| {
                    rados.notify(now, token, locator, name, payload.clone(), *timeout, outs);
                });
                Ok(())
            }
            Request::NewestMap => {
                self.services.ask_mon(now, op, attempt.out(), |monc, token, outs| {
                    monc.get_version(token, "osdmap", outs);
                });
                Ok(())
            }
            Request::Command { command, input } => {
                self.services.ask_mon(now, op, attempt.out(), |monc, token, outs| {
                    monc.command(token, command.clone(), input.clone(), outs);
                });
                Ok(())
            }
            Request::PoolSnap { pool, remove } => self.pool_snap(attempt, pool, *remove),
            Request::Fs(..) | Request::Tell { .. } | Request::Invalidated { .. } | Request::Unmount => {
                Err(Errno::EINVAL)
            }
        }
    }

    fn pool(&self, pool: &PoolRef) -> Result<i64, Errno> {
        match pool {
            PoolRef::Name(name) => self.services.pool_id(name).ok_or(Errno::ENOENT),
            PoolRef::Id(id) => Ok(*id),
        }
    }

    fn object(&mut self, attempt: &mut Attempt<'_>, request: &ObjectRequest) -> Result<(), Errno> {
        let pool = self.pool(&request.pool)?;
        let writes = request.ops.iter().any(|op| op.code().writes());
        let make = if writes { rados::Request::write } else { rados::Request::read };
        let message = make(pool, &request.namespace, request.name.clone(), request.ops.clone())
            .at_snap(request.snap)
            .with_snapc(request.snapc.clone())
            .with_flags(request.flags);
        let (now, op) = (attempt.now(), attempt.op());
        self.services.submit(now, Token::Whole { op }, message, attempt.out());
        Ok(())
    }

    fn pool_snap(
        &mut self,
        attempt: &mut Attempt<'_>,
        pool: &PoolRef,
        remove: Option<SnapId>,
    ) -> Result<(), Errno> {
        let pool = u32::try_from(self.pool(pool)?).unwrap_or(u32::MAX);
        let op = match remove {
            Some(_) => pool_op::DELETE_UNMANAGED_SNAP,
            None => pool_op::CREATE_UNMANAGED_SNAP,
        };
        let (fsid, snapid) = (self.services.cluster().monc().fsid(), remove.unwrap_or_default());
        let body = msgs::PoolOp { fsid, pool, op, snapid, crush_rule: -1, ..Default::default() };
        let (now, op) = (attempt.now(), attempt.op());
        self.services.ask_mon(now, op, attempt.out(), |monc, token, outs| {
            monc.request(token, |_| Body::from(body), outs);
        });
        Ok(())
    }
}

/// The answer to a command.
pub(crate) fn command_reply(code: i32, status: String, output: Bufs) -> Reply {
    Ok(Answer::Command { result: Errno::check(code).map(drop), status, output })
}

/// A monitor's message as the answer to an operation.
pub(crate) fn mon_reply(body: Body) -> Reply {
    match body {
        Body::MonCommandAck(ack) => command_reply(ack.r, ack.rs, ack.data),
        Body::PoolOpReply(reply) => {
            let snap = reply.data.and_then(|data| Reader::new(&data).get().ok());
            Ok(Answer::PoolSnap { result: Errno::check(reply.code).map(drop), snap })
        }
        _ => Err(Errno::EIO),
    }
}
