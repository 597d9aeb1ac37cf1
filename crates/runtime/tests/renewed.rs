//! A lossless connection breaks when the ticket that it was opened with has expired: it resumes with the
//! newest one, nothing is lost, and refusals in between are counted.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests of the layer that has sockets"
)]

use auth::{
    AuthStep, ConMode, Credentials, EntityAuth, GlobalIds, Initiator, InitiatorStep, Key, Method,
    MonAuthenticator, RotatingKeys, ServerKeys, Tickets,
};
use node::{CloseReason, ConnId, Input, Msg, Node, Output, RequestId, Target};
use runtime::{EventLoop, Handle, Limits, Listener, NodeSpec};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use stdx::{Instant, Now, Rng};
use wire::{EntityAddr, EntityName, EntityType};

const NONCE: u32 = 77;
const DAY: Duration = Duration::from_secs(24 * 3600);

/// A cluster's secrets, as its monitor has them.
struct Secrets {
    rng: Rng,
    credentials: Credentials,
    mon: ServerKeys,
    ids: Arc<GlobalIds>,
}

impl Secrets {
    fn new() -> Self {
        let mut rng = Rng::from_seed(1);
        let now = runtime::now();
        let name = EntityName::parse("client.a").expect("a name");
        let key = Key::generate(now.wall, &mut rng);
        let mut mon = ServerKeys::new(EntityType::MON, vec![Method::Cephx]);
        let caps = ["mon", "mds"].map(|service| (service.to_owned(), "allow *".to_owned())).into();
        mon.entities.insert(name.clone(), EntityAuth { key: key.clone(), caps });
        for service in [EntityType::AUTH, EntityType::MDS] {
            mon.rotating.insert(service, RotatingKeys::default().rotated(now.wall, DAY, &mut rng));
        }
        let ids = Arc::new(GlobalIds::new());
        assert!(ids.push(5000..6000));
        Self { rng, credentials: Credentials { name, key: Some(key) }, mon, ids }
    }

    /// All keys of the metadata servers are new.
    fn rotate(&mut self) {
        let mut keys = self.mon.rotating[&EntityType::MDS].clone();
        keys.secrets.clear();
        self.mon.rotating.insert(EntityType::MDS, keys.rotated(runtime::now().wall, DAY, &mut self.rng));
    }

    fn server(&self) -> Arc<ServerKeys> {
        let mut keys = ServerKeys::new(EntityType::MDS, vec![Method::Cephx]);
        keys.rotating.insert(EntityType::MDS, self.mon.rotating[&EntityType::MDS].clone());
        Arc::new(keys)
    }

    /// A handshake with the monitor, which keeps the global id of `old`.
    fn tickets(&mut self, old: Tickets) -> Tickets {
        let (now, rng) = (runtime::now(), &mut self.rng);
        let mut client = Initiator::mon(self.credentials.clone(), old, vec![EntityType::MDS]);
        let mut server = MonAuthenticator::new(Arc::new(self.mon.clone()), self.ids.clone());
        let (method, payload) = client.start(now, rng).expect("starts");
        let AuthStep::More(challenge) = server.request(method, ConMode::Crc, &payload, now, rng) else {
            panic!("a challenge comes first")
        };
        let InitiatorStep::More(answer) = client.reply_more(&challenge, now, rng).expect("answers") else {
            panic!("an answer")
        };
        let AuthStep::Done(done) = server.more(&answer, now, rng) else { panic!("accepted") };
        client.done(done.global_id, ConMode::Crc, &done.blob, now).expect("opens").tickets.expect("tickets")
    }

    fn proof(&self, tickets: &Tickets) -> Box<Initiator> {
        Box::new(Initiator::service(self.credentials.clone(), tickets.clone(), EntityType::MDS))
    }
}

/// Sends back what it gets; its keys change when it is asked.
struct Echo(Arc<ServerKeys>);

impl Node for Echo {
    type Request = Arc<ServerKeys>;
    type Reply = ();

    fn handle(&mut self, _now: Now, input: Input<Arc<ServerKeys>>, out: &mut Vec<Output<()>>) {
        match input {
            Input::Start => out.push(Output::Keys(self.0.clone())),
            Input::Message { conn, msg } => out.push(Output::Send { conn, msg }),
            Input::Request { id, request } => {
                out.push(Output::Keys(request));
                out.push(Output::Reply { id, reply: () });
            }
            _ => {}
        }
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }
}

enum Ask {
    Connect(SocketAddr, Box<Initiator>),
    Renew(Box<Initiator>),
    /// Answered when it has come back.
    Echo(u64),
}

/// Has one lossless connection.
#[derive(Default)]
struct Caller {
    waiting: Option<RequestId>,
}

const CONN: ConnId = ConnId(1);

impl Node for Caller {
    type Request = Ask;
    type Reply = Result<u64, CloseReason>;

    fn handle(&mut self, _now: Now, input: Input<Ask>, out: &mut Vec<Output<Self::Reply>>) {
        match input {
            Input::Request { id, request: Ask::Connect(addr, auth) } => {
                let addr = EntityAddr::msgr2(addr, NONCE);
                let to = Target { service: EntityType::MDS, addr, lossless: true, auth };
                out.push(Output::Connect { conn: CONN, to: Box::new(to) });
                out.push(Output::Reply { id, reply: Ok(0) });
            }
            Input::Request { id, request: Ask::Renew(auth) } => {
                out.push(Output::Renew { conn: CONN, auth });
                out.push(Output::Reply { id, reply: Ok(0) });
            }
            Input::Request { id, request: Ask::Echo(tid) } => {
                self.waiting = Some(id);
                let msg = Msg::new(tid, msgs::Body::from(msgs::MonGetMap {}));
                out.push(Output::Send { conn: CONN, msg });
            }
            Input::Message { msg, .. } => {
                if let Some(id) = self.waiting.take() {
                    out.push(Output::Reply { id, reply: Ok(msg.tid) });
                }
            }
            Input::Closed { reason, .. } => {
                if let Some(id) = self.waiting.take() {
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

/// Passes bytes on until it is cut.
#[derive(Clone)]
struct Cable {
    addr: SocketAddr,
    plugged: Arc<Mutex<Vec<TcpStream>>>,
}

impl Cable {
    fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("binds");
        let cable =
            Self { addr: listener.local_addr().expect("bound"), plugged: Arc::new(Mutex::new(Vec::new())) };
        let plugged = cable.plugged.clone();
        std::thread::spawn(move || {
            for near in listener.incoming() {
                let (near, far) = (near.expect("accepts"), TcpStream::connect(target).expect("connects"));
                for (mut from, mut to) in [(&near, &far), (&far, &near)]
                    .map(|(a, b)| (a.try_clone().expect("a socket"), b.try_clone().expect("a socket")))
                {
                    std::thread::spawn(move || {
                        // Either end may hang up at any time.
                        let _ = std::io::copy(&mut from, &mut to);
                        let _ = to.shutdown(Shutdown::Write);
                    });
                }
                plugged.lock().expect("no panic").extend([near, far]);
            }
        });
        cable
    }

    fn cut(&self) {
        for socket in self.plugged.lock().expect("no panic").drain(..) {
            // It may be closed already.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

struct Rig {
    secrets: Secrets,
    tickets: Tickets,
    echo: Handle<Arc<ServerKeys>, ()>,
    caller: Handle<Ask, Result<u64, CloseReason>>,
    cable: Cable,
    _loops: (EventLoop, EventLoop),
}

fn rig() -> Rig {
    let mut secrets = Secrets::new();
    let (tx, _) = mpsc::channel();
    let loops = (EventLoop::start("one").expect("starts"), EventLoop::start("two").expect("starts"));
    let listener = Listener::bind(([127, 0, 0, 1], 0).into()).expect("binds");
    let cable = Cable::to(listener.addr());
    let spec = |name: &str, listener| NodeSpec {
        name: EntityName::parse(name).expect("name"),
        number: None,
        listener,
        nonce: NONCE,
        disks: Vec::new(),
        admin_socket: None,
        limits: Limits::default(),
        gets_load: false,
    };
    let keys = secrets.server();
    let echo = loops.0.spawn(spec("mds.a", Some(listener)), move || Echo(keys), tx.clone());
    let caller = loops.1.spawn(spec("client.a", None), Caller::default, tx);
    let tickets = secrets.tickets(Tickets::default());
    let connect = Ask::Connect(cable.addr, secrets.proof(&tickets));
    assert_eq!(caller.call(connect).expect("runs"), Ok(0));
    let rig = Rig { secrets, tickets, echo, caller, cable, _loops: loops };
    assert_eq!(rig.says(1), Ok(1));
    rig
}

impl Rig {
    fn says(&self, tid: u64) -> Result<u64, CloseReason> {
        self.caller.call(Ask::Echo(tid)).expect("runs")
    }

    /// The keys change at the server, and the old ticket is of no use.
    fn rotate(&mut self) {
        self.secrets.rotate();
        self.echo.call(self.secrets.server()).expect("runs");
    }

    fn renew(&mut self) {
        let tickets = self.secrets.tickets(self.tickets.clone());
        assert_eq!(tickets.global_id, self.tickets.global_id);
        let renew = Ask::Renew(self.secrets.proof(&tickets));
        assert_eq!(self.caller.call(renew).expect("runs"), Ok(0));
    }
}

#[test]
fn a_session_is_resumed_with_the_newest_ticket() {
    let mut rig = rig();
    rig.rotate();
    rig.renew();
    for tid in 2..5 {
        rig.cable.cut();
        assert_eq!(rig.says(tid), Ok(tid), "{}", rig.echo.metrics().to_json());
    }
    assert!(rig.echo.metrics().get("sessions_resumed") > 0, "{}", rig.echo.metrics().to_json());
    assert_eq!(rig.echo.metrics().get("closed_auth"), 0);
}

#[test]
fn a_session_waits_for_a_new_ticket_where_the_old_one_is_refused() {
    let mut rig = rig();
    rig.rotate();
    rig.cable.cut();
    let began = std::time::Instant::now();
    while rig.echo.metrics().get("auth_denied_unknown_ticket_key") < 2 {
        assert!(began.elapsed() < Duration::from_secs(20), "{}", rig.echo.metrics().to_json());
        std::thread::yield_now();
    }
    rig.renew();
    assert_eq!(rig.says(2), Ok(2), "{}", rig.echo.metrics().to_json());
    let metrics = rig.echo.metrics();
    assert!(metrics.get("closed_auth") >= 2 && metrics.get("sessions_resumed") == 1, "{}", metrics.to_json());
}
