//! Calls of the machines, carried out by a cluster's client.

use block::{Answer, Call};
use client::{Errno, ObjectRequest, PoolRef, Reply, Request, Requests};
use stdx::Bufs;

/// Seconds that a watch outlives its client: so long another waits before it takes a lock over.
const WATCH_TIMEOUT: u32 = 30;

/// Carries out a call; `done` is called once, on the client's event loop.
pub(super) fn carry_out(requests: &Requests, call: Call, done: impl FnOnce(Answer) + Send + 'static) {
    let (request, answer): (Request, fn(Reply) -> Answer) = match call {
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
            (Request::Object(request), object)
        }
        Call::Watch { place, object, cookie } => {
            let (pool, namespace) = (PoolRef::Id(place.pool), place.namespace);
            (Request::Watch { pool, namespace, name: object, cookie, timeout: WATCH_TIMEOUT }, watching)
        }
        Call::Unwatch { cookie } => (Request::Unwatch { cookie }, plain),
        Call::Notify { place, object, payload, timeout } => {
            let (pool, namespace) = (PoolRef::Id(place.pool), place.namespace);
            let timeout = u32::try_from(timeout.as_secs()).unwrap_or(u32::MAX);
            (Request::Notify { pool, namespace, name: object, payload, timeout }, notified)
        }
        Call::Command(command) => (Request::Command { command, input: Bufs::new() }, command_ended),
        Call::PoolSnap { pool, remove } => {
            let request = Request::PoolSnap { pool: PoolRef::Id(pool), remove };
            let ended = move |reply: Reply| done(snap(remove, reply));
            return requests.submit(request, ended);
        }
        Call::NewestMap => (Request::NewestMap, plain),
    };
    requests.submit(request, move |reply| done(answer(reply)));
}

fn object(reply: Reply) -> Answer {
    match reply {
        Ok(client::Answer::Object { result, ops, .. }) => {
            Answer::Object { result, outputs: ops.into_iter().map(|(_, data)| data).collect() }
        }
        other => Answer::Object { result: Err(errno(&other)), outputs: Vec::new() },
    }
}

fn watching(reply: Reply) -> Answer {
    match reply {
        Ok(client::Answer::Watching { result, client }) => Answer::Watching(result.map(|()| client)),
        other => Answer::Watching(Err(errno(&other))),
    }
}

fn notified(reply: Reply) -> Answer {
    match reply {
        Ok(client::Answer::NotifyEnded { result, reply, .. }) => {
            let acks = reply.acks.into_iter().map(|(_, ack)| ack).filter(|ack| !ack.is_empty());
            Answer::Notified { result, acks: acks.collect() }
        }
        other => Answer::Notified { result: Err(errno(&other)), acks: Vec::new() },
    }
}

fn command_ended(reply: Reply) -> Answer {
    match reply {
        Ok(client::Answer::Command { result, status, output }) => {
            Answer::Command { result, status, output: output.to_vec() }
        }
        other => Answer::Command { result: Err(errno(&other)), status: String::new(), output: Vec::new() },
    }
}

fn snap(removed: Option<maps::SnapId>, reply: Reply) -> Answer {
    Answer::Snap(match reply {
        Ok(client::Answer::PoolSnap { result, snap }) => {
            result.and_then(|()| removed.or(snap).ok_or(Errno::EIO))
        }
        other => Err(errno(&other)),
    })
}

fn plain(reply: Reply) -> Answer {
    Answer::Done(match reply {
        Ok(client::Answer::Object { result, .. }) => result.map(drop),
        Ok(_) => Ok(()),
        Err(errno) => Err(errno),
    })
}

/// The error; an answer of another kind is none that makes sense.
fn errno(reply: &Reply) -> Errno {
    reply.as_ref().err().copied().unwrap_or(Errno::EIO)
}
