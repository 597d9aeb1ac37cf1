//! Clients that ask for more than there is memory for, and do not take it.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests of the layer that has sockets"
)]

use auth::{Credentials, Initiator, Method, ServerKeys, Tickets};
use msgr::{Conn, ConnectConfig, Event, Want};
use msgs::{Extent, Op, OsdOp, OsdOpReply};
use node::{Body, ConnId, Input, Msg, Never, Node, Output, Target};
use runtime::{EventLoop, Limits, Listener, NodeSpec, Notice};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, mpsc};
use stdx::{Buf, Instant, Now, Rng};
use wire::{AddrVec, EntityAddr, EntityName, EntityType};

const NONCE: u32 = 77;
/// More than the host takes of an answer that nobody reads.
const LARGE: u64 = 8 << 20;
/// The number of them that may be held.
const HELD: usize = 3;

/// Answers each read at once.
#[derive(Default)]
struct Shelf {
    /// Connections that have asked for a large read. Each asks for one, and only one of them reads.
    large: BTreeSet<ConnId>,
}

impl Node for Shelf {
    type Request = Never;
    type Reply = Never;

    fn handle(&mut self, _now: Now, input: Input<Never>, out: &mut Vec<Output<Never>>) {
        match input {
            Input::Start => {
                out.push(Output::Keys(Arc::new(ServerKeys::new(EntityType::OSD, vec![Method::None]))));
                out.push(Output::Ready);
            }
            Input::Message { conn, msg: Msg { tid, body: Body::Client(msgs::Body::OsdOp(op)), hold } } => {
                let [Op::Read(extent)] = [&op.ops[0].op] else { panic!("only reads") };
                if extent.len == LARGE {
                    self.large.insert(conn);
                    assert!(self.large.len() <= HELD, "as many as there is memory for");
                }
                let mut reply = OsdOpReply::to(&op, 0, op.epoch);
                reply.ops[0].data = Buf::pattern(tid, extent.len as usize).into();
                out.push(Output::Send { conn, msg: Msg { hold, ..Msg::new(tid, msgs::Body::from(reply)) } });
            }
            Input::Closed { conn, .. } => drop(self.large.remove(&conn)),
            _ => {}
        }
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }
}

fn read(tid: u64, len: u64) -> Msg {
    let ops = vec![Op::Read(Extent::new(0, len)).into()];
    Msg::new(tid, msgs::Body::from(OsdOp { ops, ..OsdOp::default() }))
}

fn initiator(global_id: u64) -> Initiator {
    let credentials = Credentials { name: EntityName::new(EntityType::CLIENT, "test"), key: None };
    let mut tickets = Tickets::default();
    tickets.global_id = global_id;
    Initiator::service(credentials, tickets, EntityType::OSD)
}

/// A connection that asks and never reads what comes.
fn deaf(addr: SocketAddr, number: u64) -> TcpStream {
    let mut stream = TcpStream::connect(addr).expect("connects");
    let now = runtime::now();
    let any = EntityAddr { ty: wire::AddrType::ANY, nonce: 1, addr: Some(([0, 0, 0, 0], 0).into()) };
    let target = EntityAddr::msgr2(addr, NONCE);
    let common = msgr::Common::new(EntityType::CLIENT, -1, AddrVec::from(any), target);
    let auth = initiator(1000 + number);
    let config = ConnectConfig { common, auth, peer_type: EntityType::OSD, target, lossy: true };
    let mut conn = Conn::connect(config, None, now, Rng::from_seed(number));
    let mut asked = false;
    loop {
        while let Some(event) = conn.poll_event() {
            assert!(matches!(event, Event::Ready(_)), "{event:?}");
            conn.send(read(1, LARGE).to_raw());
            asked = true;
        }
        while let Some(bufs) = conn.poll_write() {
            bufs.parts().iter().for_each(|part| stream.write_all(part).expect("writes"));
        }
        if asked {
            return stream;
        }
        let Want::Read(memory) = conn.want() else { panic!("no message comes during the handshake") };
        let n = stream.read(memory).expect("reads");
        conn.filled(n, now);
    }
}

/// Sends reads one after another and reports each answer.
struct Reader {
    addr: SocketAddr,
    lens: Vec<u64>,
    told: mpsc::Sender<usize>,
}

const CONN: ConnId = ConnId(1);

impl Node for Reader {
    type Request = Never;
    type Reply = Never;

    fn handle(&mut self, _now: Now, input: Input<Never>, out: &mut Vec<Output<Never>>) {
        let first = matches!(input, Input::Start);
        match input {
            Input::Start => {
                let addr = EntityAddr::msgr2(self.addr, NONCE);
                let auth = Box::new(initiator(4242));
                let to = Box::new(Target { service: EntityType::OSD, addr, lossless: false, auth });
                out.push(Output::Connect { conn: CONN, to });
            }
            Input::Message { msg: Msg { body: Body::Client(msgs::Body::OsdOpReply(reply)), .. }, .. } => {
                // The waiting test may have failed.
                let _ = self.told.send(reply.ops[0].data.len());
            }
            Input::Connected { .. } => return,
            other => panic!("{other:?}"),
        }
        if let Some(len) = self.lens.pop() {
            out.push(Output::Send { conn: CONN, msg: read(1 + u64::from(first), len) });
        }
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }
}

#[test]
fn who_takes_no_answers_has_little_memory_and_is_closed_where_others_wait_for_it() {
    let (tx, notices) = mpsc::channel();
    let loops = (EventLoop::start("one").expect("starts"), EventLoop::start("two").expect("starts"));
    let listener = Listener::bind(([127, 0, 0, 1], 0).into()).expect("binds");
    let addr = listener.addr();
    let name = |text: &str| EntityName::parse(text).expect("name");
    let client = NodeSpec::client(name("client.test"));
    let limits = Limits { answer_bytes: HELD as u64 * LARGE, ..Limits::of_osd() };
    let spec = NodeSpec {
        name: name("osd.0"),
        number: Some(0),
        listener: Some(listener),
        nonce: NONCE,
        limits,
        ..NodeSpec::client(name("osd.0"))
    };
    let shelf = loops.0.spawn(spec, Shelf::default, tx.clone());
    assert!(matches!(notices.recv(), Ok(Notice::Ready(name)) if name.to_string() == "osd.0"));
    let streams: Vec<TcpStream> = (0..2 * HELD as u64).map(|i| deaf(addr, i)).collect();
    let (told, answers) = mpsc::channel();
    // From the last to the first: small ones pass, the large one comes when others have been closed.
    let mut lens = vec![LARGE];
    lens.resize(50, 64 << 10);
    let wanted = lens.clone();
    let reader = loops.1.spawn(client, move || Reader { addr, lens, told }, tx);
    let got: Vec<usize> = wanted.iter().map(|_| answers.recv().expect("an answer")).collect();
    assert!(got.iter().map(|len| *len as u64).eq(wanted.iter().rev().copied()));
    assert!(shelf.metrics().get("peers_stalled") >= HELD as u64, "{}", shelf.metrics().to_json());
    assert!(matches!(notices.try_recv(), Err(mpsc::TryRecvError::Empty)), "nobody has failed");
    drop((reader, streams));
}
