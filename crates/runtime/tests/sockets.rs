//! Nodes that meet over real sockets: messages arrive, and strangers who send garbage are counted and
//! disconnected.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests of the layer that has sockets"
)]

use auth::{Credentials, Initiator, Method, ServerKeys, Tickets};
use node::{CloseReason, ConnId, Input, Msg, Never, Node, Output, RequestId, Target};
use runtime::{EventLoop, Handle, Limits, Listener, NodeSpec, Notice};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use stdx::{Instant, Now, Rng};
use wire::{EntityAddr, EntityName, EntityType};

const NONCE: u32 = 77;

/// Sends back what it gets.
struct Echo;

impl Node for Echo {
    type Request = Never;
    type Reply = Never;

    fn handle(&mut self, _now: Now, input: Input<Never>, out: &mut Vec<Output<Never>>) {
        match input {
            Input::Start => {
                out.push(Output::Keys(Arc::new(ServerKeys::new(EntityType::OSD, vec![Method::None]))));
                out.push(Output::Ready);
            }
            Input::Message { conn, msg } => out.push(Output::Send { conn, msg }),
            _ => {}
        }
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }
}

/// Sends messages to an address and collects as many answers.
#[derive(Default)]
struct Caller {
    next_conn: u64,
    waiting: Option<(RequestId, usize, Vec<Msg>)>,
}

type Answer = Result<Vec<Msg>, CloseReason>;

impl Node for Caller {
    type Request = (SocketAddr, Vec<Msg>);
    type Reply = Answer;

    fn handle(&mut self, _now: Now, input: Input<Self::Request>, out: &mut Vec<Output<Answer>>) {
        match input {
            Input::Request { id, request: (addr, messages) } => {
                self.next_conn += 1;
                let conn = ConnId(self.next_conn);
                let credentials =
                    Credentials { name: EntityName::new(EntityType::CLIENT, "test"), key: None };
                let mut tickets = Tickets::default();
                tickets.global_id = 4242;
                let auth = Box::new(Initiator::service(credentials, tickets, EntityType::OSD));
                let addr = EntityAddr::msgr2(addr, NONCE);
                let to = Box::new(Target { service: EntityType::OSD, addr, lossless: false, auth });
                self.waiting = Some((id, messages.len(), Vec::new()));
                out.push(Output::Connect { conn, to });
                out.extend(messages.into_iter().map(|msg| Output::Send { conn, msg }));
            }
            Input::Message { conn, msg } => {
                let (_, wanted, got) = self.waiting.as_mut().expect("asked");
                got.push(msg);
                if got.len() == *wanted {
                    let (id, _, got) = self.waiting.take().expect("asked");
                    out.push(Output::Close { conn });
                    out.push(Output::Reply { id, reply: Ok(got) });
                }
            }
            Input::Closed { reason, .. } => {
                if let Some((id, ..)) = self.waiting.take() {
                    out.push(Output::Reply { id, reply: Err(reason) });
                }
            }
            _ => {}
        }
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }
}

struct Rig {
    addr: SocketAddr,
    echo: Handle<Never, Never>,
    caller: Handle<(SocketAddr, Vec<Msg>), Answer>,
    _loops: (EventLoop, EventLoop),
    notices: mpsc::Receiver<Notice>,
}

impl Rig {
    fn ask(&self, messages: &[Msg]) -> Vec<Msg> {
        let answer = self.caller.call((self.addr, messages.to_vec())).expect("runs");
        answer.unwrap_or_else(|reason| {
            let counters = [self.caller.metrics().to_json(), self.echo.metrics().to_json()];
            panic!("{reason}: {counters:?}")
        })
    }
}

fn rig(limits: Limits) -> Rig {
    let (tx, notices) = mpsc::channel();
    let loops = (EventLoop::start("one").expect("starts"), EventLoop::start("two").expect("starts"));
    let listener = Listener::bind(([127, 0, 0, 1], 0).into()).expect("binds");
    let addr = listener.addr();
    let spec = |name: &str, listener, limits| NodeSpec {
        name: EntityName::parse(name).expect("name"),
        number: None,
        listener,
        nonce: NONCE,
        disks: Vec::new(),
        admin_socket: None,
        limits,
        gets_load: false,
    };
    let echo = loops.0.spawn(spec("osd.0", Some(listener), limits), || Echo, tx.clone());
    let caller = loops.1.spawn(spec("client.test", None, Limits::default()), Caller::default, tx);
    assert!(matches!(notices.recv(), Ok(Notice::Ready(name)) if name.to_string() == "osd.0"));
    Rig { addr, echo, caller, _loops: loops, notices }
}

#[test]
fn every_kind_of_message_comes_back_as_it_was_sent() {
    let rig = rig(Limits::default());
    let mut rng = Rng::from_seed(1);
    let mut messages: Vec<Msg> = msgs::Body::samples(&mut rng).into_iter().map(|b| Msg::new(7, b)).collect();
    messages.extend(peer::Body::samples(&mut rng).into_iter().map(|b| Msg::new(8, b)));
    assert_eq!(rig.ask(&messages), messages);
}

#[test]
fn large_messages_pass_through_a_small_budget_one_after_another() {
    let rig = rig(Limits { client_bytes: 5 << 20, ..Limits::default() });
    let big = |i: u64| {
        let data = stdx::Buf::pattern(i, (4 << 20) + 1).into();
        Msg::new(i, peer::Body::from(peer::Push { data, ..Default::default() }))
    };
    let messages: Vec<Msg> = (1..20).map(big).collect();
    assert_eq!(rig.ask(&messages), messages);
}

#[test]
fn where_nobody_listens_the_reason_says_so() {
    let rig = rig(Limits::default());
    let free = Listener::bind(([127, 0, 0, 1], 0).into()).expect("binds").addr();
    let answer = rig.caller.call((free, vec![Msg::new(1, msgs::Body::from(msgs::Ping::default()))]));
    assert_eq!(answer.expect("runs"), Err(CloseReason::Refused));
}

#[test]
fn a_stopped_node_says_gone_to_its_callers() {
    let rig = rig(Limits::default());
    rig.caller.stop();
    assert!(
        matches!(rig.notices.recv(), Ok(Notice::Ended(name, Ok(()))) if name.to_string() == "client.test")
    );
    assert_eq!(rig.caller.call((rig.addr, Vec::new())).expect_err("gone"), runtime::Gone);
}

/// Sends `bytes` as a stranger and waits for the end of the connection.
fn stranger(addr: SocketAddr, bytes: &[u8]) {
    let mut stream = TcpStream::connect(addr).expect("connects");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
    // The other end may hang up in the middle, which is what it should do.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => panic!("the connection was kept"),
        _ => {}
    }
}

#[test]
fn strangers_with_nonsense_are_counted_and_gone() {
    let rig = rig(Limits::default());
    let banner = [&b"ceph v2\n"[..], &[16, 0], &[1, 0, 0, 0, 0, 0, 0, 0], &[1, 0, 0, 0, 0, 0, 0, 0]].concat();
    let mut rng = Rng::from_seed(2);
    let rounds = 100;
    for round in 0..rounds {
        let mut bytes = vec![0; rng.below(600) as usize];
        rng.fill(&mut bytes);
        if round % 2 == 1 {
            bytes = [&banner[..], &bytes].concat();
        }
        stranger(rig.addr, &bytes);
    }
    // A frame that claims the longest segment there is, with a correct checksum.
    let mut preamble = vec![1u8, 1];
    for len in [u32::MAX, 0, 0, 0] {
        preamble.extend_from_slice(&len.to_le_bytes());
        preamble.extend_from_slice(&8u16.to_le_bytes());
    }
    preamble.extend_from_slice(&[0, 0]);
    let crc = stdx::crc32c::update(0, &preamble);
    preamble.extend_from_slice(&crc.to_le_bytes());
    stranger(rig.addr, &[&banner[..], &preamble].concat());
    stranger(rig.addr, &banner[..5]);
    let metrics = rig.echo.metrics();
    let closed: u64 = ["banner", "frame", "crc", "oversize", "eof", "malformed", "unexpected"]
        .iter()
        .map(|reason| metrics.get(&format!("closed_{reason}")))
        .sum();
    assert_eq!(closed, rounds + 2, "{}", metrics.to_json());
    assert!(metrics.get("closed_oversize") > 0, "{}", metrics.to_json());
    let hello = vec![Msg::new(1, msgs::Body::from(msgs::Ping::default()))];
    assert_eq!(rig.ask(&hello), hello);
}
