//! A node that listens nowhere takes another nonce: both ends know it by that from then on.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests of the layer that has sockets"
)]

use auth::{Credentials, Initiator, Method, ServerKeys, Tickets};
use node::{ConnId, Input, Never, Node, Output, RequestId, Target};
use runtime::{EventLoop, Listener, NodeSpec, Notice};
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use stdx::{Instant, Now};
use wire::{EntityAddr, EntityName, EntityType};

/// Tells by which address it knows each peer.
struct Server(mpsc::Sender<EntityAddr>);

impl Node for Server {
    type Request = Never;
    type Reply = Never;

    fn handle(&mut self, _now: Now, input: Input<Never>, out: &mut Vec<Output<Never>>) {
        match input {
            Input::Start => {
                out.push(Output::Keys(Arc::new(ServerKeys::new(EntityType::OSD, vec![Method::None]))));
                out.push(Output::Ready);
            }
            Input::Connected { peer, .. } => self.0.send(peer.addrs.front()).expect("the test listens"),
            _ => {}
        }
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }
}

/// Rebinds and connects for each request, and tells by which address the peer knows it.
#[derive(Default)]
struct Caller {
    conn: u64,
    waiting: Option<RequestId>,
}

impl Node for Caller {
    type Request = SocketAddr;
    type Reply = EntityAddr;

    fn handle(&mut self, _now: Now, input: Input<SocketAddr>, out: &mut Vec<Output<EntityAddr>>) {
        match input {
            Input::Request { id, request: addr } => {
                if self.conn > 0 {
                    out.push(Output::Close { conn: ConnId(self.conn) });
                    out.push(Output::Rebind);
                }
                (self.conn, self.waiting) = (self.conn + 1, Some(id));
                let credentials =
                    Credentials { name: EntityName::new(EntityType::CLIENT, "test"), key: None };
                let auth = Box::new(Initiator::service(credentials, Tickets::default(), EntityType::OSD));
                let addr = EntityAddr::msgr2(addr, 77);
                let to = Box::new(Target { service: EntityType::OSD, addr, lossless: false, auth });
                out.push(Output::Connect { conn: ConnId(self.conn), to });
            }
            Input::Connected { peer, .. } => {
                out.extend(self.waiting.take().map(|id| Output::Reply { id, reply: peer.ours }));
            }
            _ => {}
        }
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }
}

#[test]
fn a_node_that_rebinds_is_known_by_another_nonce() {
    let (tx, notices) = mpsc::channel();
    let (seen, seen_as) = mpsc::channel();
    let event_loop = EventLoop::start("one").expect("starts");
    let listener = Listener::bind(([127, 0, 0, 1], 0).into()).expect("binds");
    let addr = listener.addr();
    let name = EntityName::parse("osd.0").expect("a name");
    let spec = NodeSpec { listener: Some(listener), nonce: 77, ..NodeSpec::client(name) };
    let _server = event_loop.spawn(spec, || Server(seen), tx.clone());
    assert!(matches!(notices.recv(), Ok(Notice::Ready(_))));
    let spec = NodeSpec::client(EntityName::parse("client.test").expect("a name"));
    let first_nonce = spec.nonce;
    let caller = event_loop.spawn(spec, Caller::default, tx);
    let known: Vec<EntityAddr> = (0..3)
        .map(|_| {
            let ours = caller.call(addr).expect("runs");
            let known = seen_as.recv().expect("runs");
            assert_eq!((ours.addr, ours.nonce), (known.addr, known.nonce), "both ends know the same");
            assert_eq!(ours.addr, Some(([127, 0, 0, 1], 0).into()));
            ours
        })
        .collect();
    assert_eq!(known[0].nonce, first_nonce);
    assert!(known[1].nonce != known[0].nonce && known[2].nonce != known[1].nonce);
}
