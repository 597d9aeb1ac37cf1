//! A client that treats metadata servers as Linux's does.
//!
//! It wraps our client, and changes the messages between that and the server:
//!
//! - it announces none of Nacre's extensions, and our client hears of none;
//! - after a fail-over it repeats flushes ahead of its claims (`flushes.rs`);
//! - what it changed and does not want any more after a close, it tells late (`late.rs`).
//!
//! One thing it has of ours: it believes a server that refuses its file locks. Linux does not hear of that.

mod flushes;
mod late;

use flushes::Flushes;
use fsclient::{Client, FsRequest, Reply, Request};
use late::{Late, Leaving};
use msgs::{
    Body, ClientCaps, ClientReply, InodeStat, MdsOp, ReaddirReply, cap_op, session_metadata, session_op,
};
use node::{ConnId, Input, Msg, Node, Output};
use std::collections::BTreeMap;
use stdx::{Instant, Now};

/// Our client in Linux's clothes. It works with one rank.
pub(crate) struct LinuxLike {
    inner: Client,
    flushes: Flushes,
    late: Late,
    /// Messages to our client that no server sent.
    acks: Vec<(ConnId, Msg)>,
    /// What our client puts out.
    out: Vec<Output<Reply>>,
}

impl LinuxLike {
    pub(crate) fn new(inner: Client) -> Self {
        Self { inner, flushes: Flushes::default(), late: Late::default(), acks: Vec::new(), out: Vec::new() }
    }

    /// Changes a message of a server to what our client is to see.
    fn arrives(&mut self, msg: &mut Msg) {
        let node::Body::Client(body) = &mut msg.body else { return };
        match body {
            Body::ClientSession(session) => {
                forget_extensions(&mut session.metadata);
                if matches!(session.head.op, session_op::CLOSE | session_op::REJECT) {
                    self.forget();
                }
            }
            Body::ClientCaps(caps) if caps.op == cap_op::FLUSH_ACK => {
                msg.tid = self.flushes.acknowledged(msg.tid);
            }
            Body::ClientCaps(caps) => {
                self.flushes.has(caps.ino, caps.caps.0);
                self.late.arrives(caps);
            }
            Body::ClientReply(reply) => {
                given_by(reply, |stat| self.flushes.has(stat.ino, stat.cap.caps));
            }
            _ => {}
        }
    }

    fn forget(&mut self) {
        self.flushes.forget();
        self.late.forget();
    }

    /// Passes on what our client puts out, and tells it what follows from that.
    fn pass_on(&mut self, now: Now, out: &mut Vec<Output<Reply>>) {
        loop {
            for output in std::mem::take(&mut self.out) {
                match output {
                    Output::Send { conn, msg } => self.leaves(now, conn, msg, out),
                    output => out.push(output),
                }
            }
            if self.acks.is_empty() {
                return;
            }
            for (conn, msg) in std::mem::take(&mut self.acks) {
                self.inner.handle(now, Input::Message { conn, msg }, &mut self.out);
            }
        }
    }

    /// Sends a message of our client as Linux would.
    fn leaves(&mut self, now: Now, conn: ConnId, msg: Msg, out: &mut Vec<Output<Reply>>) {
        let Msg { tid, body, hold } = msg;
        let body = match body {
            node::Body::Client(Body::ClientCaps(message)) => {
                let leaving = self.late.leaves(now.mono, Leaving { conn, tid, message: *message });
                return leaving.into_iter().for_each(|leaving| self.tell(leaving, out));
            }
            node::Body::Client(Body::ClientRequest(request)) if request.op.writes() => {
                self.tell_flushes(out);
                Body::ClientRequest(request)
            }
            node::Body::Client(Body::ClientSession(mut session)) => {
                forget_extensions(&mut session.metadata);
                if matches!(session.head.op, session_op::REQUEST_OPEN | session_op::REQUEST_CLOSE) {
                    self.forget();
                }
                Body::ClientSession(session)
            }
            node::Body::Client(Body::ClientReconnect(mut claims)) => {
                self.late.forget();
                for (tid, flush) in self.flushes.claim(&mut claims) {
                    out.push(Output::Send { conn, msg: Msg::new(tid, Body::from(flush)) });
                }
                Body::ClientReconnect(claims)
            }
            body => return out.push(Output::Send { conn, msg: Msg { tid, body, hold } }),
        };
        out.push(Output::Send { conn, msg: Msg { tid, body: body.into(), hold } });
    }

    /// Sends the flushes that wait: somebody waits for them.
    fn tell_flushes(&mut self, out: &mut Vec<Output<Reply>>) {
        self.late.take_flushes().into_iter().for_each(|leaving| self.tell(leaving, out));
    }

    /// Sends a message about a capability.
    fn tell(&mut self, leaving: Leaving, out: &mut Vec<Output<Reply>>) {
        let Leaving { conn, mut tid, mut message } = leaving;
        if let Some(done) = self.flushes.leaves(&mut tid, &mut message) {
            let (op, ino, cap_id) = (cap_op::FLUSH_ACK, message.ino, message.cap_id);
            let ack = ClientCaps { op, ino, cap_id, ..ClientCaps::default() };
            self.acks.push((conn, Msg::new(done, Body::from(ack))));
        }
        out.push(Output::Send { conn, msg: Msg::new(tid, Body::from(message)) });
    }
}

/// True if a caller waits until something is durable.
fn syncs(request: &Request) -> bool {
    matches!(request, Request::Unmount | Request::Fs(_, FsRequest::Sync | FsRequest::Fsync { .. }))
}

/// Forgets what Ceph's servers and Linux do not announce.
fn forget_extensions(metadata: &mut BTreeMap<String, String>) {
    const ALL: [&str; 3] =
        [session_metadata::RENAME_FLAGS, session_metadata::ASYNC_DIRS, session_metadata::SMALL_FILES];
    metadata.retain(|name, _| !ALL.contains(&name.as_str()));
}

/// Goes through the inodes that come with a reply.
fn given_by(reply: &ClientReply, mut each: impl FnMut(&InodeStat)) {
    let dentry = reply.trace.dentry.as_deref();
    dentry.map(|dentry| &dentry.dir).into_iter().chain(reply.trace.target.as_deref()).for_each(&mut each);
    if matches!(reply.op, MdsOp::READDIR | MdsOp::LSSNAP)
        && let Ok(listed) = wire::Reader::new(&reply.extra).get::<ReaddirReply>()
    {
        listed.entries.iter().for_each(|entry| each(&entry.inode));
    }
}

impl Node for LinuxLike {
    type Request = Request;
    type Reply = Reply;

    fn handle(&mut self, now: Now, mut input: Input<Request>, out: &mut Vec<Output<Reply>>) {
        match &mut input {
            Input::Message { msg, .. } => self.arrives(msg),
            Input::Timer => {
                self.late.take_due(now.mono).into_iter().for_each(|leaving| self.tell(leaving, out));
            }
            Input::Request { request, .. } if syncs(request) => self.tell_flushes(out),
            _ => {}
        }
        self.inner.handle(now, input, &mut self.out);
        self.pass_on(now, out);
    }

    fn batch_ended(&mut self, now: Now, out: &mut Vec<Output<Reply>>) {
        self.inner.batch_ended(now, &mut self.out);
        self.pass_on(now, out);
    }

    fn deadline(&self) -> Option<Instant> {
        self.inner.deadline().into_iter().chain(self.late.deadline()).min()
    }

    fn shut_down(&mut self, now: Now, out: &mut Vec<Output<Reply>>) {
        self.inner.shut_down(now, &mut self.out);
        self.pass_on(now, out);
    }
}
