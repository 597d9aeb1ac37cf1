//! Daemons and clients behind one type, so that one world can run them all.

use node::{Input, Never, Node, Output};
use stdx::{Instant, Now};

/// Gives a node without local callers the request and reply types of its world.
#[derive(Debug)]
pub struct Daemon<N, Request, Reply> {
    inner: N,
    out: Vec<Output<Never>>,
    types: std::marker::PhantomData<fn(Request) -> Reply>,
}

impl<N, Request, Reply> Daemon<N, Request, Reply> {
    /// Wraps a daemon.
    pub fn new(inner: N) -> Self {
        Self { inner, out: Vec::new(), types: std::marker::PhantomData }
    }

    fn put_out(&mut self, out: &mut Vec<Output<Reply>>) {
        out.extend(self.out.drain(..).map(|output| match output {
            Output::Connect { conn, to } => Output::Connect { conn, to },
            Output::Send { conn, msg } => Output::Send { conn, msg },
            Output::Close { conn } => Output::Close { conn },
            Output::Renew { conn, auth } => Output::Renew { conn, auth },
            Output::Rebind => Output::Rebind,
            Output::Disk { id, op } => Output::Disk { id, op },
            Output::AdminReply { id, code, output } => Output::AdminReply { id, code, output },
            Output::Reply { reply, .. } => match reply {},
            Output::Number(number) => Output::Number(number),
            Output::Keys(keys) => Output::Keys(keys),
            Output::GlobalIds(range) => Output::GlobalIds(range),
            Output::Event(event) => Output::Event(event),
            Output::Ready => Output::Ready,
            Output::Stop(result) => Output::Stop(result),
            Output::Restart(why) => Output::Restart(why),
            Output::ShutDown => Output::ShutDown,
        }));
    }
}

impl<N: Node<Request = Never, Reply = Never>, Request, Reply> Node for Daemon<N, Request, Reply> {
    type Request = Request;
    type Reply = Reply;

    fn handle(&mut self, now: Now, input: Input<Request>, out: &mut Vec<Output<Reply>>) {
        let input = match input {
            Input::Start => Input::Start,
            Input::Timer => Input::Timer,
            Input::Connected { conn, peer } => Input::Connected { conn, peer },
            Input::Message { conn, msg } => Input::Message { conn, msg },
            Input::Closed { conn, reason } => Input::Closed { conn, reason },
            Input::Disk { id, result } => Input::Disk { id, result },
            Input::Load(load) => Input::Load(load),
            Input::Admin { id, command } => Input::Admin { id, command },
            Input::Request { .. } => unreachable!("daemons have no local callers"),
        };
        self.inner.handle(now, input, &mut self.out);
        self.put_out(out);
    }

    fn batch_ended(&mut self, now: Now, out: &mut Vec<Output<Reply>>) {
        self.inner.batch_ended(now, &mut self.out);
        self.put_out(out);
    }

    fn shut_down(&mut self, now: Now, out: &mut Vec<Output<Reply>>) {
        self.inner.shut_down(now, &mut self.out);
        self.put_out(out);
    }

    fn deadline(&self) -> Option<Instant> {
        self.inner.deadline()
    }
}
