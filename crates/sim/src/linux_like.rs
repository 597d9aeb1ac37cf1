//! A client that treats metadata servers as Linux's does.
//!
//! It wraps our client, and changes the messages between that and the server:
//!
//! - it announces none of Nacre's extensions, and our client hears of none;
//! - after a fail-over it repeats ahead of its claims only flushes of what it has given up since, and the
//!   others once its session is open;
//! - what it changed and does not want any more after a close, it tells late (`late.rs`).
//!
//! One thing it has of ours: it believes a server that refuses its file locks. Linux does not hear of that.

mod late;

use fsclient::{Client, FsRequest, Reply, Request};
use late::{Late, Leaving};
use msgs::{Body, Caps, ClientCaps, cap_flag, session_metadata, session_op};
use node::{ConnId, Input, Msg, Node, Output};
use std::collections::BTreeMap;
use stdx::{Instant, Now};

/// Our client in Linux's clothes. It works with one rank.
pub(crate) struct LinuxLike {
    inner: Client,
    /// The connection on which a session was opened or capabilities were claimed.
    session: Option<ConnId>,
    /// Flushes that wait until the session is open.
    repeated: Vec<Leaving>,
    late: Late,
    /// What our client puts out.
    out: Vec<Output<Reply>>,
}

impl LinuxLike {
    pub(crate) fn new(inner: Client) -> Self {
        Self { inner, session: None, repeated: Vec::new(), late: Late::default(), out: Vec::new() }
    }

    /// Changes a message of a server to what our client is to see.
    fn arrives(&mut self, msg: &mut Msg, out: &mut Vec<Output<Reply>>) {
        let node::Body::Client(body) = &mut msg.body else { return };
        match body {
            Body::ClientSession(session) => {
                forget_extensions(&mut session.metadata);
                match session.head.op {
                    session_op::OPEN => self.repeated.drain(..).for_each(|flush| tell(flush, out)),
                    session_op::CLOSE | session_op::REJECT => self.late.forget(),
                    _ => {}
                }
            }
            Body::ClientCaps(caps) => self.late.arrives(caps),
            _ => {}
        }
    }

    /// Passes on what our client puts out.
    fn pass_on(&mut self, now: Now, out: &mut Vec<Output<Reply>>) {
        for output in std::mem::take(&mut self.out) {
            match output {
                Output::Send { conn, msg } => self.leaves(now, conn, msg, out),
                output => out.push(output),
            }
        }
    }

    /// Sends a message of our client as Linux would.
    fn leaves(&mut self, now: Now, conn: ConnId, msg: Msg, out: &mut Vec<Output<Reply>>) {
        let Msg { tid, body, hold } = msg;
        let body = match body {
            node::Body::Client(Body::ClientCaps(message)) => {
                let leaving = Leaving { conn, tid, message: *message };
                if self.session != Some(conn) {
                    return self.repeat(leaving, out);
                }
                let leaving = self.late.leaves(now.mono, leaving);
                return leaving.into_iter().for_each(|leaving| tell(leaving, out));
            }
            node::Body::Client(Body::ClientRequest(request)) if request.op.writes() => {
                self.tell_flushes(out);
                Body::ClientRequest(request)
            }
            node::Body::Client(Body::ClientSession(mut session)) => {
                forget_extensions(&mut session.metadata);
                match session.head.op {
                    session_op::REQUEST_OPEN => self.starts(conn),
                    session_op::REQUEST_CLOSE => self.late.forget(),
                    _ => {}
                }
                Body::ClientSession(session)
            }
            node::Body::Client(Body::ClientReconnect(claims)) => {
                self.late.forget();
                self.session = Some(conn);
                Body::ClientReconnect(claims)
            }
            body => return out.push(Output::Send { conn, msg: Msg { tid, body, hold } }),
        };
        out.push(Output::Send { conn, msg: Msg { tid, body: body.into(), hold } });
    }

    /// A session is opened anew.
    fn starts(&mut self, conn: ConnId) {
        self.late.forget();
        self.repeated.clear();
        self.session = Some(conn);
    }

    /// Repeats a flush for another server: at once if what it tells may be changed by others.
    fn repeat(&mut self, Leaving { conn, tid, message }: Leaving, out: &mut Vec<Output<Reply>>) {
        let holds = message.dirty & !message.caps == Caps::NONE;
        let flush = Leaving { conn, tid, message: ClientCaps { flags: 0, ..message } };
        self.repeated.retain(|other| other.conn == conn);
        if holds { self.repeated.push(flush) } else { tell(flush, out) }
    }

    /// Sends the flushes that wait: somebody waits for them.
    fn tell_flushes(&mut self, out: &mut Vec<Output<Reply>>) {
        self.late.take_flushes().into_iter().for_each(|leaving| tell(leaving, out));
    }
}

/// Sends a message about a capability.
fn tell(Leaving { conn, tid, mut message }: Leaving, out: &mut Vec<Output<Reply>>) {
    if message.dirty & !message.caps != Caps::NONE {
        // Only for who syncs Linux asks the server to hurry, not for who waits for the bits.
        message.flags &= !cap_flag::SYNC;
    }
    out.push(Output::Send { conn, msg: Msg::new(tid, Body::from(message)) });
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

impl Node for LinuxLike {
    type Request = Request;
    type Reply = Reply;

    fn handle(&mut self, now: Now, mut input: Input<Request>, out: &mut Vec<Output<Reply>>) {
        match &mut input {
            Input::Message { msg, .. } => self.arrives(msg, out),
            Input::Timer => {
                self.late.take_due(now.mono).into_iter().for_each(|leaving| tell(leaving, out));
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
