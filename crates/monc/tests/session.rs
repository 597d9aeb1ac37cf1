//! A session from start to end: inputs in, exact outputs out.

use monc::{Monc, MoncConfig, MoncOut, Net, Told};
use msgs::Body;
use node::{CloseReason, ConnId, Msg, Peer};
use std::time::Duration;
use stdx::{Bufs, Now, Rng, Wall};
use wire::{EntityAddr, EntityName, EntityType, Utime, Uuid, Writer};

const FSID: Uuid = Uuid([7; 16]);

fn at(ms: u64) -> Now {
    let ns = ms * 1_000_000;
    Now { mono: stdx::Instant(ns), wall: Wall(ns + 1_700_000_000_000_000_000) }
}

fn addr(port: u16) -> EntityAddr {
    EntityAddr::msgr2(([127, 0, 0, 1], port).into(), 0)
}

fn monc(ports: &[u16]) -> Monc {
    monc_of_seed(ports, 1)
}

fn monc_of_seed(ports: &[u16], seed: u64) -> Monc {
    let config = MoncConfig {
        credentials: auth::Credentials { name: EntityName::new(EntityType::CLIENT, "a"), key: None },
        mons: ports.iter().map(|p| addr(*p)).collect(),
        services: vec![EntityType::OSD],
        rotating_keys: None,
        space: 3,
        hostname: "host".to_owned(),
    };
    Monc::new(config, Rng::from_seed(seed))
}

fn peer(global_id: u64) -> Peer {
    let mut tickets = auth::Tickets::default();
    tickets.global_id = global_id;
    Peer {
        name: EntityName::new(EntityType::MON, ""),
        id: wire::EntityId::new(EntityType::MON, 0),
        global_id,
        addrs: addr(1).into(),
        socket_addr: addr(1),
        ours: EntityAddr::default(),
        features: 0,
        caps: String::new(),
        tickets: Some(Box::new(tickets)),
    }
}

/// An output in one line.
fn show(out: &mut Vec<MoncOut>) -> Vec<String> {
    let msg = |m: &Msg| match &m.body {
        node::Body::Client(Body::MonSubscribe(s)) => {
            let items = s
                .what
                .iter()
                .map(|(what, i)| format!("{what}>={}{}", i.start, if i.flags == 1 { "!" } else { "" }));
            format!("subscribe {}", items.collect::<Vec<_>>().join(" "))
        }
        node::Body::Client(body) => format!("{} tid {}", body.name(), m.tid),
        node::Body::Peer(body) => body.name().to_owned(),
    };
    let line = |o: MoncOut| match o {
        MoncOut::Net(Net::Connect { conn, to }) => {
            format!("connect {} {}", conn.0 & 0xff, to.addr.addr.expect("has an address").port())
        }
        MoncOut::Net(Net::Send { conn, msg: m }) => format!("send {} {}", conn.0 & 0xff, msg(&m)),
        MoncOut::Net(Net::Close { conn }) => format!("close {}", conn.0 & 0xff),
        MoncOut::Told(Told::Tickets(_)) => "tickets".to_owned(),
        MoncOut::Told(Told::Session { global_id }) => format!("session {global_id}"),
        MoncOut::Told(Told::Message(m)) => format!("message {}", msg(&m)),
        MoncOut::Told(Told::Reply { token, body }) => format!("reply {token} {}", body.name()),
        MoncOut::Told(Told::MonMap(m)) => format!("monmap {}", m.epoch),
        MoncOut::Told(other) => format!("{other:?}").to_lowercase(),
    };
    out.drain(..).map(line).collect()
}

fn conn(n: u64) -> ConnId {
    ConnId(3 << 56 | n)
}

fn monmap(epoch: u32, ports: &[u16]) -> Msg {
    let mons: Vec<_> = ports.iter().map(|p| (format!("m{p}"), ([127, 0, 0, 1], *p).into())).collect();
    let map = maps::MonMap { epoch, ..maps::MonMap::new(FSID, Utime::default(), &mons) };
    Msg::new(0, Body::from(msgs::MonMap { map: Writer::encode(&map) }))
}

/// A session with the only monitor, on connection 1.
fn open(m: &mut Monc) -> Vec<MoncOut> {
    let mut out = Vec::new();
    m.start(at(0), &mut out);
    m.connected(at(1), conn(1), &peer(4100), &mut out);
    m.message(at(1), conn(1), monmap(1, &[1]), &mut out);
    out.clear();
    out
}

#[test]
fn a_session_begins_with_subscriptions_and_what_waited() {
    let (mut m, mut out) = (monc(&[1]), Vec::new());
    m.subscribe("osdmap", 0, false, &mut out);
    m.send(msgs::GetConfig::default_body(), &mut out);
    m.get_version(9, "osdmap", &mut out);
    assert_eq!(show(&mut out), [""; 0], "nothing is sent without a session");
    m.start(at(0), &mut out);
    assert_eq!(show(&mut out), ["connect 1 1"]);
    m.connected(at(5), conn(1), &peer(4100), &mut out);
    assert_eq!(show(&mut out), ["tickets", "send 1 subscribe monmap>=0 osdmap>=0"]);
    assert!(!m.is_open(), "requests need the cluster's id");
    m.message(at(6), conn(1), monmap(1, &[1]), &mut out);
    let expected = ["monmap 1", "send 1 mon_get_version tid 2", "send 1 get_config tid 1", "session 4100"];
    assert_eq!(show(&mut out), expected);
    assert_eq!((m.global_id(), m.is_open()), (4100, true));
    assert_eq!(
        m.deadline(),
        Some(at(506).mono),
        "the monitor has to show that it lives while a request waits"
    );
}

#[test]
fn refused_monitors_are_tried_in_turn_then_after_a_pause() {
    let (mut m, mut out) = (monc(&[1, 2, 3]), Vec::new());
    m.start(at(0), &mut out);
    m.closed(at(1), conn(1), CloseReason::Refused, &mut out);
    m.closed(at(2), conn(2), CloseReason::Refused, &mut out);
    let mut lines = show(&mut out);
    assert_eq!(lines.len(), 3);
    lines.sort_by_key(|l| l.split(' ').nth(2).map(str::to_owned));
    let ports: Vec<_> = lines.iter().map(|l| &l[l.len() - 1..]).collect();
    assert_eq!(ports, ["1", "2", "3"], "each once");
    m.closed(at(3), conn(3), CloseReason::Refused, &mut out);
    assert_eq!(show(&mut out), [""; 0]);
    let again = m.deadline().expect("a pause ends");
    let pause = again.since(at(3).mono);
    assert!(Duration::from_millis(50) <= pause && pause <= Duration::from_millis(150), "{pause:?}");
    m.timer(Now { mono: again, ..at(3) }, &mut out);
    assert_eq!(show(&mut out).len(), 1);
}

#[test]
fn a_monitor_that_does_not_answer_is_given_up() {
    let (mut m, mut out) = (monc(&[1]), Vec::new());
    m.start(at(0), &mut out);
    assert_eq!(m.deadline(), Some(at(1000).mono));
    out.clear();
    m.timer(at(1000), &mut out);
    assert_eq!(show(&mut out), ["close 1"]);
    let again = Now { mono: m.deadline().expect("tries again"), ..at(1000) };
    m.timer(again, &mut out);
    m.connected(again, conn(2), &peer(4100), &mut out);
    out.clear();
    let give_up = Now { mono: m.deadline().expect("still waits for the map"), ..again };
    m.timer(give_up, &mut out);
    assert_eq!(show(&mut out), ["close 2"], "one that says nothing is no better");
}

#[test]
fn a_lost_session_is_replaced_and_requests_are_sent_again() {
    let mut m = monc(&[1]);
    let mut out = open(&mut m);
    m.command(5, "{}".to_owned(), Bufs::new(), &mut out);
    let MoncOut::Net(Net::Send {
        msg: Msg { body: node::Body::Client(Body::MonCommand(command)), .. }, ..
    }) = &out[0]
    else {
        panic!("{out:?}")
    };
    assert_eq!(command.fsid, FSID);
    assert_eq!(show(&mut out), ["send 1 mon_command tid 1"]);
    let osdmap = msgs::OsdMap { fulls: [(maps::Epoch(8), stdx::Buf::empty())].into(), ..Default::default() };
    m.subscribe("osdmap", 0, false, &mut out);
    m.message(at(9), conn(1), Msg::new(0, Body::from(osdmap)), &mut out);
    assert_eq!(show(&mut out), ["send 1 subscribe osdmap>=0", "message osd_map tid 0"]);
    m.closed(at(10), conn(1), CloseReason::Lost, &mut out);
    assert_eq!(show(&mut out), ["lost", "connect 2 1"]);
    m.connected(at(11), conn(2), &peer(4100), &mut out);
    let expected =
        ["tickets", "send 2 subscribe monmap>=2 osdmap>=9", "send 2 mon_command tid 1", "session 4100"];
    assert_eq!(show(&mut out), expected);
    let ack = || Msg::new(1, Body::from(msgs::MonCommandAck::default()));
    m.message(at(12), conn(1), ack(), &mut out);
    assert_eq!(show(&mut out), [""; 0], "nothing comes from a connection that is gone");
    m.message(at(12), conn(2), ack(), &mut out);
    assert_eq!(show(&mut out), ["reply 5 mon_command_ack"]);
    m.message(at(12), conn(2), ack(), &mut out);
    assert_eq!(show(&mut out), [""; 0], "answered once");
}

#[test]
fn a_subscription_once_ends_with_its_map_and_does_not_weaken_a_lasting_one() {
    let mut m = monc(&[1]);
    let mut out = open(&mut m);
    m.subscribe("fsmap", 0, true, &mut out);
    m.subscribe("fsmap", 0, true, &mut out);
    assert_eq!(show(&mut out), ["send 1 subscribe fsmap>=0!"]);
    let fsmap = msgs::FsMap { epoch: maps::Epoch(4), ..Default::default() };
    m.message(at(2), conn(1), Msg::new(0, Body::from(fsmap)), &mut out);
    m.subscribe("mdsmap", 3, false, &mut out);
    m.subscribe("mdsmap", 5, true, &mut out);
    assert_eq!(show(&mut out), ["message fs_map tid 0", "send 1 subscribe mdsmap>=3"]);
    m.closed(at(3), conn(1), CloseReason::Lost, &mut out);
    m.connected(at(4), conn(2), &peer(4100), &mut out);
    assert!(show(&mut out).contains(&"send 2 subscribe mdsmap>=3 monmap>=2".to_owned()));
}

#[test]
fn a_new_monmap_changes_where_to_look_and_a_removed_monitor_is_left() {
    let mut m = monc(&[1]);
    let mut out = open(&mut m);
    m.message(at(2), conn(1), monmap(3, &[1, 2]), &mut out);
    m.message(at(2), conn(1), monmap(3, &[1, 2]), &mut out);
    assert_eq!(show(&mut out), ["monmap 3"], "the same map is told once");
    assert_eq!(m.fsid(), FSID);
    m.closed(at(3), conn(1), CloseReason::Lost, &mut out);
    out.clear();
    // If one of the two is tried first, the other is next.
    m.closed(at(4), conn(2), CloseReason::Refused, &mut out);
    assert_eq!(show(&mut out).len(), 1);
    m.connected(at(5), conn(3), &peer(4100), &mut out);
    m.message(at(6), conn(3), monmap(4, &[9]), &mut out);
    let lines = show(&mut out);
    assert!(lines.contains(&"monmap 4".to_owned()), "{lines:?}");
}

#[test]
fn a_refused_key_is_reported_and_others_are_tried() {
    let (mut m, mut out) = (monc(&[1, 2]), Vec::new());
    m.start(at(0), &mut out);
    out.clear();
    m.closed(at(1), conn(1), CloseReason::Denied, &mut out);
    let lines = show(&mut out);
    assert_eq!(lines[0], "denied");
    assert!(lines[1].starts_with("connect 2"));
}

/// A body that needs no request machinery.
trait DefaultBody {
    fn default_body() -> Body;
}
impl DefaultBody for msgs::GetConfig {
    fn default_body() -> Body {
        Self::default().into()
    }
}

/// Three monitors, of which the first one tried was given up.
fn cut_off(m: &mut Monc, out: &mut Vec<MoncOut>) -> Vec<String> {
    m.timer(at(501), out);
    assert_eq!(show(out), ["send 1 mon_get_map tid 2"]);
    m.timer(at(2000), out);
    assert_eq!(show(out), [""; 0], "it has a second and a half");
    assert_eq!(m.deadline(), Some(at(2001).mono));
    m.timer(at(2001), out);
    show(out)
}

#[test]
fn a_silent_monitor_is_left_within_two_seconds_and_everything_is_asked_anew() {
    let mut m = monc(&[1, 2, 3]);
    let mut out = Vec::new();
    m.start(at(0), &mut out);
    let first = show(&mut out).remove(0);
    m.connected(at(1), conn(1), &peer(4100), &mut out);
    m.message(at(1), conn(1), monmap(1, &[1, 2, 3]), &mut out);
    m.subscribe("osdmap", 4, false, &mut out);
    m.command(5, "{}".to_owned(), Bufs::new(), &mut out);
    out.clear();
    let lines = cut_off(&mut m, &mut out);
    assert_eq!(lines[..2], ["close 1", "lost"]);
    assert!(lines[2].starts_with("connect 2") && lines[2][9..] != first[9..], "another one: {lines:?}");
    m.connected(at(2002), conn(2), &peer(4100), &mut out);
    let expected =
        ["tickets", "send 2 subscribe monmap>=2 osdmap>=4", "send 2 mon_command tid 1", "session 4100"];
    assert_eq!(show(&mut out), expected);
}

#[test]
fn the_monitor_that_fell_silent_is_tried_last() {
    for seed in 1..=8 {
        let mut m = monc_of_seed(&[1, 2, 3], seed);
        let mut out = Vec::new();
        m.start(at(0), &mut out);
        let first = show(&mut out).remove(0)[10..].to_owned();
        m.connected(at(1), conn(1), &peer(4100), &mut out);
        m.message(at(1), conn(1), monmap(1, &[1, 2, 3]), &mut out);
        m.command(5, "{}".to_owned(), Bufs::new(), &mut out);
        out.clear();
        let mut tried = cut_off(&mut m, &mut out).split_off(2);
        m.closed(at(2002), conn(2), CloseReason::Refused, &mut out);
        m.closed(at(2003), conn(3), CloseReason::Refused, &mut out);
        tried.extend(show(&mut out));
        let ports: Vec<&str> = tried.iter().map(|line| &line[10..]).collect();
        assert_eq!(ports.len(), 3);
        assert_eq!(ports[2], first, "{tried:?}");
    }
}

#[test]
fn any_word_of_the_monitor_is_a_sign_of_life() {
    let mut m = monc(&[1]);
    let mut out = open(&mut m);
    m.expect(at(400), "osdmap");
    assert_eq!(m.deadline(), Some(at(501).mono), "somebody has a newer map");
    m.timer(at(501), &mut out);
    assert_eq!(show(&mut out), ["send 1 mon_get_map tid 1"]);
    m.message(at(510), conn(1), monmap(1, &[1]), &mut out);
    assert_eq!(show(&mut out), [""; 0], "the map is not news");
    assert_eq!(m.deadline(), Some(at(1010).mono), "the map is still missing");
    let osdmap = msgs::OsdMap { fulls: [(maps::Epoch(8), stdx::Buf::empty())].into(), ..Default::default() };
    m.message(at(600), conn(1), Msg::new(0, Body::from(osdmap)), &mut out);
    assert_eq!(m.deadline(), Some(at(10_600).mono), "nothing is missing");
}

/// True for credentials of a client that has no global id yet.
fn is_new(auth: &auth::Initiator) -> bool {
    format!("{auth:?}").contains("global_id: 0")
}

#[test]
fn who_leaves_comes_back_as_a_new_client() {
    let mut m = monc(&[1]);
    let mut out = open(&mut m);
    m.command(5, "{}".to_owned(), Bufs::new(), &mut out);
    out.clear();
    m.leave(at(10), &mut out);
    assert_eq!(show(&mut out), ["close 1", "lost"]);
    assert_eq!((m.global_id(), m.is_open()), (0, false));
    m.start(at(10), &mut out);
    assert!(matches!(&out[0], MoncOut::Net(Net::Connect { to, .. }) if is_new(&to.auth)), "{out:?}");
    assert_eq!(show(&mut out), ["connect 2 1"]);
    m.connected(at(11), conn(2), &peer(4200), &mut out);
    let expected = ["tickets", "send 2 subscribe monmap>=2", "send 2 mon_command tid 1", "session 4200"];
    assert_eq!(show(&mut out), expected);
}
