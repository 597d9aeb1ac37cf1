//! The manager between monitors, clients and its worker: exact outputs to given inputs.

use auth::{Credentials, Method, Tickets};
use decl::MgrCmd;
use maps::{Epoch, Gid, MgrMap, MonInfo, MonMap};
use mgr::{Mgr, MgrConfig, Notice, Outcome, Request};
use msgs::Body;
use node::{CloseReason, ConnId, Input, Msg, Node, Output, Peer, RequestId};
use std::collections::BTreeMap;
use stdx::{Instant, Now, Rng, Wall};
use wire::{AddrVec, EntityAddr, EntityId, EntityName, EntityType, Utime, Writer};

const GID: u64 = 4100;
const CLIENT: ConnId = ConnId(ConnId::ACCEPTED | 7);

struct World {
    mgr: Mgr,
    now: Now,
    mon: ConnId,
    out: Vec<Output<Notice>>,
}

fn addr(port: u16) -> EntityAddr {
    EntityAddr::msgr2(([127, 0, 0, 1], port).into(), 9)
}

fn peer(ty: EntityType, global_id: u64, caps: &str) -> Box<Peer> {
    let mut tickets = Tickets::default();
    tickets.global_id = global_id;
    Box::new(Peer {
        name: EntityName::new(ty, "x"),
        id: EntityId::new(ty, 0),
        global_id,
        addrs: AddrVec::from(addr(1)),
        socket_addr: addr(1),
        ours: addr(2),
        features: !0,
        caps: caps.to_owned(),
        tickets: Some(Box::new(tickets)),
    })
}

impl World {
    /// A manager with a session to a monitor, which has sent the map of epoch `epoch`.
    fn with_map(epoch: u32) -> Self {
        let config = MgrConfig {
            name: "a".into(),
            addrs: AddrVec::from(addr(6800)),
            credentials: Credentials { name: EntityName::new(EntityType::MDS, "a"), key: None },
            methods: vec![Method::None],
            monitors: vec![addr(3300)],
            hostname: String::new(),
            metadata: BTreeMap::new(),
        };
        let now = Now { wall: Wall(1_700_000_000_000_000_000), mono: Instant(1) };
        let mgr = Mgr::new(config, Rng::from_seed(1));
        let mut world = Self { mgr, now, mon: ConnId(0), out: Vec::new() };
        world.give(Input::Start);
        world.mon = world
            .out
            .iter()
            .find_map(|o| if let Output::Connect { conn, .. } = o { Some(*conn) } else { None })
            .expect("looks for a monitor");
        world.give(Input::Connected { conn: world.mon, peer: peer(EntityType::MON, GID, "") });
        let mut monmap = MonMap { epoch: 1, ..MonMap::default() };
        monmap.mons.insert("a".into(), MonInfo { addrs: AddrVec::from(addr(3300)), ..MonInfo::default() });
        world.mon_says(Body::from(msgs::MonMap { map: Writer::encode(&monmap) }));
        world.map(epoch, 0);
        world
    }

    /// One that is active, with a client that has these capabilities.
    fn active(caps: &str) -> Self {
        let mut world = Self::with_map(2);
        world.map(3, GID);
        world.give(Input::Connected { conn: CLIENT, peer: peer(EntityType::CLIENT, 5000, caps) });
        world.out.clear();
        world
    }

    fn give(&mut self, input: Input<Request>) {
        self.mgr.handle(self.now, input, &mut self.out);
    }

    fn mon_says(&mut self, body: Body) {
        self.give(Input::Message { conn: self.mon, msg: Msg::new(0, body) });
    }

    fn map(&mut self, epoch: u32, active: u64) {
        let active_change = Utime { sec: epoch, nsec: 0 };
        let map = MgrMap { epoch: Epoch(epoch), active_gid: Gid(active), active_change, ..MgrMap::default() };
        self.mon_says(Body::from(msgs::MgrMap { map: msgs::Rest(Writer::encode(&map)) }));
    }

    fn command(&mut self, tid: u64, text: &str) {
        let m = msgs::MgrCommand { cmd: vec![text.to_owned()], ..msgs::MgrCommand::default() };
        self.give(Input::Message { conn: CLIENT, msg: Msg::new(tid, Body::from(m)) });
    }

    fn beacons(&self) -> Vec<bool> {
        let beacon = |o: &Output<Notice>| match o {
            Output::Send { conn, msg: Msg { body: node::Body::Peer(peer::Body::MgrBeacon(m)), .. } } => {
                assert_eq!((*conn, m.gid, m.name.as_str()), (self.mon, Gid(GID), "a"));
                Some(m.available)
            }
            _ => None,
        };
        self.out.iter().filter_map(beacon).collect()
    }

    fn notices(&self) -> Vec<Notice> {
        let notice = |o: &Output<Notice>| match o {
            Output::Reply { id: RequestId(0), reply } => Some(reply.clone()),
            _ => None,
        };
        self.out.iter().filter_map(notice).collect()
    }

    /// Answers to the client: tid, code and status.
    fn answers(&self) -> Vec<(u64, i32, String)> {
        let answer = |o: &Output<Notice>| match o {
            Output::Send { conn: CLIENT, msg: Msg { tid, body: node::Body::Client(body), .. } } => match body
            {
                Body::MgrCommandReply(m) => Some((*tid, m.r, m.rs.clone())),
                Body::CommandReply(m) => Some((*tid, m.r, format!("old: {}", m.rs))),
                _ => None,
            },
            _ => None,
        };
        self.out.iter().filter_map(answer).collect()
    }

    fn has_closed(&self) -> bool {
        self.out.iter().any(|o| matches!(o, Output::Close { conn: CLIENT }))
    }
}

#[test]
fn beacons_begin_with_a_monitor_that_knows_managers_and_go_on() {
    let mut world = World::with_map(1);
    assert!(world.beacons().is_empty(), "an older monitor would not understand it");
    world.map(2, 0);
    assert_eq!(world.beacons(), [true]);
    world.out.clear();
    world.now.mono = Instant(2_100_000_000);
    world.give(Input::Timer);
    assert_eq!(world.beacons(), [true]);
}

#[test]
fn a_command_goes_to_the_worker_and_its_answer_comes_back() {
    let mut world = World::active("allow rw");
    world.command(11, r#"{"prefix":"fs subvolume ls","vol_name":"f"}"#);
    let notices = world.notices();
    let [Notice::Run { job, command: MgrCmd::SubvolumeLs, args }] = &notices[..] else {
        panic!("{notices:?}");
    };
    assert_eq!((args.str("vol_name"), world.answers()), ("f", vec![]));
    let outcome = Outcome { code: -2, status: "none".into(), ..Outcome::default() };
    world.give(Input::Request { id: RequestId(1), request: Request::Done { job: *job, outcome } });
    assert_eq!(world.answers(), [(11, -2, "none".to_owned())]);
}

#[test]
fn the_old_form_of_a_command_gets_the_old_answer() {
    let mut world = World::active("");
    let m = msgs::Command { cmd: vec![r#"{"prefix":"nosuch"}"#.into()], ..msgs::Command::default() };
    world.give(Input::Message { conn: CLIENT, msg: Msg::new(5, Body::from(m)) });
    let answers = world.answers();
    assert_eq!((answers[0].0, answers[0].1), (5, -22));
    assert!(answers[0].2.starts_with("old: command not known"));
}

#[test]
fn what_is_not_about_volumes_is_passed_on_to_the_monitors() {
    let mut world = World::active("allow r");
    world.command(3, r#"{"prefix":"pg stat"}"#);
    let sent = world.out.iter().find_map(|o| match o {
        Output::Send { conn, msg: Msg { tid, body: node::Body::Client(Body::MonCommand(m)), .. } } => {
            Some((*conn, *tid, m.cmd.concat()))
        }
        _ => None,
    });
    let (conn, tid, text) = sent.expect("is passed on");
    assert_eq!((conn, text.as_str()), (world.mon, r#"{"prefix":"pg stat"}"#));
    let ack = msgs::MonCommandAck { rs: "said".into(), ..msgs::MonCommandAck::default() };
    world.give(Input::Message { conn, msg: Msg::new(tid, Body::from(ack)) });
    assert_eq!(world.answers(), [(3, 0, "said".to_owned())]);
}

#[test]
fn an_answer_for_a_client_that_is_gone_goes_nowhere() {
    let mut world = World::active("allow rw");
    world.command(1, r#"{"prefix":"fs volume ls"}"#);
    world.give(Input::Closed { conn: CLIENT, reason: CloseReason::Lost });
    world.give(Input::Connected { conn: CLIENT, peer: peer(EntityType::CLIENT, 5000, "allow rw") });
    let outcome = Outcome::default();
    world.give(Input::Request { id: RequestId(1), request: Request::Done { job: 1, outcome } });
    assert_eq!(world.answers(), []);
}

#[test]
fn without_its_place_or_its_session_it_serves_nobody() {
    let mut world = World::active("allow rw");
    world.map(4, GID + 1);
    assert_eq!(world.notices(), [Notice::Active(false)]);
    assert!(world.has_closed(), "the client asks the other one");
    world.out.clear();
    world.give(Input::Connected { conn: CLIENT, peer: peer(EntityType::CLIENT, 5000, "allow rw") });
    assert!(world.has_closed());
    let mut world = World::active("allow rw");
    world.map(4, GID);
    let again = [Notice::Active(false), Notice::Active(true)];
    assert_eq!(world.notices(), again, "another one was active between two maps");
    let mut world = World::active("allow rw");
    world.give(Input::Closed { conn: world.mon, reason: CloseReason::Lost });
    assert_eq!(world.notices(), [Notice::Active(false)]);
}

#[test]
fn what_services_say_is_borne_and_their_farewell_answered() {
    let mut world = World::active("");
    let body = msgs::Rest(vec![1, 2, 3]);
    let said = [
        Body::from(msgs::MgrOpen { body: body.clone() }),
        Body::from(msgs::MgrReport { body: body.clone() }),
        Body::from(msgs::MgrUpdate { body: body.clone() }),
    ];
    for one in said {
        world.give(Input::Message { conn: CLIENT, msg: Msg::new(0, one) });
    }
    assert!(world.out.is_empty());
    let close = Body::from(msgs::MgrClose { body });
    world.give(Input::Message { conn: CLIENT, msg: Msg::new(8, close.clone()) });
    let sent = world.out.iter().any(
        |o| matches!(o, Output::Send { conn: CLIENT, msg } if msg.body == node::Body::Client(close.clone())),
    );
    assert!(sent && !world.has_closed());
    world.give(Input::Message { conn: CLIENT, msg: Msg::new(0, Body::from(msgs::MonGetMap {})) });
    assert!(world.has_closed(), "no message for a manager");
}
