//! Calls of the machines of crate `block` as requests to a simulated client, and its replies as their
//! answers.

use block::{Answer, Call};
use fsclient::{Answer as ClientAnswer, Errno, ObjectRequest, PoolRef, Reply, Request};
use maps::SnapId;
use stdx::Bufs;

/// The kind of a call, by which its reply is understood.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Object,
    Watch,
    Notify,
    Command,
    PoolSnap(Option<SnapId>),
    Plain,
}

/// The request of a call. `watch_timeout` is the time in seconds that a watch outlives its client.
pub(crate) fn request_of(call: Call, watch_timeout: u32) -> (Request, Kind) {
    match call {
        Call::Object(call) => {
            let flags = if call.writes() { msgs::osd_flag::WRITE } else { 0 };
            let request = ObjectRequest {
                pool: PoolRef::Id(call.place.pool),
                namespace: call.place.namespace,
                name: call.object,
                ops: call.ops,
                snap: call.snap,
                snapc: call.snapc,
                flags,
            };
            (Request::Object(request), Kind::Object)
        }
        Call::Watch { place, object, cookie } => {
            let (pool, namespace) = (PoolRef::Id(place.pool), place.namespace);
            let request = Request::Watch { pool, namespace, name: object, cookie, timeout: watch_timeout };
            (request, Kind::Watch)
        }
        Call::Unwatch { cookie } => (Request::Unwatch { cookie }, Kind::Plain),
        Call::Notify { place, object, payload, timeout } => {
            let (pool, namespace) = (PoolRef::Id(place.pool), place.namespace);
            let timeout = u32::try_from(timeout.as_secs()).unwrap_or(u32::MAX);
            (Request::Notify { pool, namespace, name: object, payload, timeout }, Kind::Notify)
        }
        Call::Command(command) => (Request::Command { command, input: Bufs::new() }, Kind::Command),
        Call::PoolSnap { pool, remove } => {
            (Request::PoolSnap { pool: PoolRef::Id(pool), remove }, Kind::PoolSnap(remove))
        }
        Call::NewestMap => (Request::NewestMap, Kind::Plain),
    }
}

/// The answer that a reply is.
pub(crate) fn answer_of(kind: Kind, reply: &Reply) -> Answer {
    let errno = || reply.as_ref().err().copied().unwrap_or(Errno::EIO);
    match (kind, reply) {
        (Kind::Object, Ok(ClientAnswer::Object { result, ops, .. })) => {
            Answer::Object { result: *result, outputs: ops.iter().map(|(_, data)| data.clone()).collect() }
        }
        (Kind::Object, _) => Answer::Object { result: Err(errno()), outputs: Vec::new() },
        (Kind::Watch, Ok(ClientAnswer::Watching { result, client })) => {
            Answer::Watching(result.map(|()| *client))
        }
        (Kind::Watch, _) => Answer::Watching(Err(errno())),
        (Kind::Notify, Ok(ClientAnswer::NotifyEnded { result, reply, .. })) => {
            let acks = reply.acks.iter().map(|(_, ack)| ack.clone()).filter(|ack| !ack.is_empty());
            Answer::Notified { result: *result, acks: acks.collect() }
        }
        (Kind::Notify, _) => Answer::Notified { result: Err(errno()), acks: Vec::new() },
        (Kind::Command, Ok(ClientAnswer::Command { result, status, output })) => {
            Answer::Command { result: *result, status: status.clone(), output: output.to_vec() }
        }
        (Kind::Command, _) => {
            Answer::Command { result: Err(errno()), status: String::new(), output: Vec::new() }
        }
        (Kind::PoolSnap(removed), Ok(ClientAnswer::PoolSnap { result, snap })) => {
            Answer::Snap(result.and_then(|()| removed.or(*snap).ok_or(Errno::EIO)))
        }
        (Kind::PoolSnap(_), _) => Answer::Snap(Err(errno())),
        (Kind::Plain, Ok(ClientAnswer::Object { result, .. })) => Answer::Done(result.map(drop)),
        (Kind::Plain, reply) => Answer::Done(reply.as_ref().map(drop).map_err(|errno| *errno)),
    }
}
