//! The engine and the session to the monitors together.

mod common;

use common::{answer, at, credentials, full, map, show_net, show_told, write};
use maps::Epoch;
use monc::{MoncConfig, Net, Told};
use msgs::Body;
use node::{CloseReason, ConnId, Msg, Peer};
use rados::{Cluster, ClusterOut, RadosConfig, RadosTold};
use stdx::Rng;
use wire::{EntityAddr, EntityId, EntityName, EntityType, Utime, Writer};

fn cluster() -> Cluster {
    let monc = MoncConfig {
        credentials: credentials(),
        mons: vec![EntityAddr::msgr2(([127, 0, 0, 1], 6799).into(), 0)],
        services: Vec::new(),
        rotating_keys: None,
        space: 1,
        hostname: String::new(),
    };
    Cluster::new(monc, RadosConfig::new(credentials(), 2), &mut Rng::from_seed(3))
}

fn mon(n: u64) -> ConnId {
    ConnId(1 << 56 | n)
}

fn osd(n: u64) -> ConnId {
    common::conn(n)
}

fn peer() -> Peer {
    peer_of(4100)
}

/// A monitor that has given us this global id.
fn peer_of(global_id: u64) -> Peer {
    let mut tickets = auth::Tickets::default();
    tickets.global_id = global_id;
    Peer {
        name: EntityName::new(EntityType::MON, ""),
        id: EntityId::new(EntityType::MON, 0),
        global_id,
        addrs: Default::default(),
        socket_addr: EntityAddr::default(),
        ours: EntityAddr::default(),
        features: 0,
        caps: String::new(),
        tickets: Some(Box::new(tickets)),
    }
}

fn monmap() -> Msg {
    let mons = [("a".to_owned(), ([127, 0, 0, 1], 6799).into())];
    Msg::new(
        0,
        Body::from(msgs::MonMap {
            map: Writer::encode(&maps::MonMap::new(map(1).fsid, Utime::default(), &mons)),
        }),
    )
}

fn show(out: &mut Vec<ClusterOut>) -> Vec<String> {
    let subscribed = |m: &msgs::MonSubscribe| {
        m.what.iter().map(|(what, i)| format!("{what}>={}", i.start)).collect::<Vec<_>>().join(" ")
    };
    let line = |o: ClusterOut| match o {
        ClusterOut::Net(Net::Connect { conn, .. }) if conn == mon(1) || conn == mon(2) => {
            "connect mon".to_owned()
        }
        ClusterOut::Net(Net::Send {
            msg: Msg { body: node::Body::Client(Body::MonSubscribe(m)), .. },
            ..
        }) => {
            format!("subscribe {}", subscribed(&m))
        }
        ClusterOut::Net(net) => show_net(&net),
        ClusterOut::Mon(Told::Session { .. }) => "session".to_owned(),
        ClusterOut::Mon(Told::Lost) => "lost".to_owned(),
        ClusterOut::Mon(_) => "-".to_owned(),
        ClusterOut::Rados(told) => show_told(&told),
    };
    out.drain(..).map(line).filter(|l| l != "-").collect()
}

/// A cluster with a session and map 5.
fn opened() -> (Cluster, Vec<ClusterOut>) {
    let (mut c, mut out) = (cluster(), Vec::new());
    c.start(at(0), &mut out);
    c.connected(at(1), mon(1), &peer(), &mut out);
    c.message(at(1), mon(1), monmap(), &mut out);
    c.message(at(2), mon(1), Msg::new(0, Body::from(full(&map(5)))), &mut out);
    assert_eq!(show(&mut out), ["connect mon", "subscribe monmap>=0 osdmap>=0", "session", "map 5"]);
    (c, out)
}

#[test]
fn an_operation_submitted_before_everything_is_carried_out_when_all_is_there() {
    let (mut c, mut out) = (cluster(), Vec::new());
    c.rados(at(0), &mut out, |r, o| r.submit(at(0), 1, write("o"), o));
    c.start(at(0), &mut out);
    c.connected(at(1), mon(1), &peer(), &mut out);
    c.message(at(1), mon(1), monmap(), &mut out);
    out.clear();
    c.message(at(2), mon(1), Msg::new(0, Body::from(full(&map(5)))), &mut out);
    let sent = out.iter().find_map(|o| match o {
        ClusterOut::Net(Net::Send {
            conn,
            msg: Msg { tid, body: node::Body::Client(Body::OsdOp(m)), .. },
        }) => Some((*conn, *tid, m.clone())),
        _ => None,
    });
    let (conn, tid, op) = sent.expect("sent");
    assert!(c.owns(conn) && conn == osd(1));
    out.clear();
    c.message(at(3), conn, answer(tid, &op, 0), &mut out);
    assert_eq!(show(&mut out), ["done 1 r=0"]);
    assert_eq!(c.monc().global_id(), 4100);
}

#[test]
fn whether_a_pool_is_gone_is_asked_of_the_monitors() {
    let (mut c, mut out) = opened();
    let mut request = write("o");
    request.locator.pool = 9;
    c.rados(at(3), &mut out, |r, o| r.submit(at(3), 1, request, o));
    assert_eq!(show(&mut out), ["send 1 mon_get_version"]);
    let version = msgs::MonGetVersionReply { handle: 1, version: 5, oldest_version: 1 };
    c.message(at(4), mon(1), Msg::new(1, Body::from(version)), &mut out);
    assert_eq!(show(&mut out), ["done 1 r=-2"]);
}

#[test]
fn maps_from_osds_count_for_the_subscription() {
    let (mut c, mut out) = opened();
    c.rados(at(3), &mut out, |r, o| r.submit(at(3), 1, write("o"), o));
    out.clear();
    c.message(at(4), osd(1), Msg::new(0, Body::from(full(&map(8)))), &mut out);
    assert_eq!(show(&mut out), ["map 8", "send 1 op 1 o e8 retry 1"], "6 and 7 may have moved it");
    c.closed(at(5), mon(1), CloseReason::Lost, &mut out);
    c.connected(at(6), mon(2), &peer(), &mut out);
    assert_eq!(show(&mut out), ["lost", "connect mon", "subscribe monmap>=2 osdmap>=9", "session"]);
}

#[test]
fn a_gap_in_the_maps_is_asked_for_and_a_lost_osd_is_not_asked_about_twice() {
    let (mut c, mut out) = opened();
    let inc = maps::OsdMapIncremental { epoch: Epoch(9), fsid: map(1).fsid, ..Default::default() };
    let m =
        msgs::OsdMap { incrementals: [(Epoch(9), Writer::encode(&inc).into())].into(), ..Default::default() };
    c.message(at(3), mon(1), Msg::new(0, Body::from(m)), &mut out);
    assert_eq!(show(&mut out), ["subscribe osdmap>=6"]);
    c.rados(at(4), &mut out, |r, o| r.submit(at(4), 1, write("o"), o));
    out.clear();
    c.closed(at(5), osd(1), CloseReason::Lost, &mut out);
    assert_eq!(show(&mut out), [""; 0], "the next map is subscribed already");
    assert_eq!(c.deadline(), Some(at(5).mono));
    c.timer(at(5), &mut out);
    assert!(matches!(out.last(), Some(ClusterOut::Net(Net::Send { .. }))));
    assert!(!out.iter().any(|o| matches!(o, ClusterOut::Rados(RadosTold::Done { .. }))));
}

#[test]
fn an_instance_that_was_cut_off_ends_and_the_next_one_waits_for_the_map_that_says_so() {
    let (mut c, mut out) = opened();
    c.rados(at(3), &mut out, |r, o| r.submit(at(3), 1, write("o"), o));
    out.clear();
    c.cut_off(at(4), &mut out);
    assert_eq!(show(&mut out), ["close 1", "done 1 r=-108"], "it may have been carried out");
    c.rados(at(5), &mut out, |r, o| r.submit(at(5), 2, write("o"), o));
    c.message(at(6), mon(1), Msg::new(0, Body::from(full(&map(6)))), &mut out);
    assert_eq!(show(&mut out), ["map 6"], "nothing is sent under the former address");
    c.leave(at(7), &mut out);
    assert_eq!(show(&mut out), ["close 1", "lost"]);
    assert_eq!(c.monc().global_id(), 0);
    c.begin_anew(at(7), &mut out);
    c.connected(at(8), mon(2), &peer_of(4200), &mut out);
    let expected = ["connect mon", "subscribe monmap>=2 osdmap>=7", "send 2 mon_get_version", "session"];
    assert_eq!(show(&mut out), expected);
    assert_eq!((c.monc().global_id(), c.engine().is_held()), (4200, true));
    // The former instance's address is on the blocklist of epoch 9: an OSD that has only epoch 8 may still
    // carry out what it had sent.
    let version = msgs::MonGetVersionReply { handle: 1, version: 9, oldest_version: 1 };
    c.message(at(9), mon(2), Msg::new(1, Body::from(version)), &mut out);
    c.message(at(9), mon(2), Msg::new(0, Body::from(full(&map(8)))), &mut out);
    assert_eq!(show(&mut out), ["map 8"]);
    c.message(at(10), mon(2), Msg::new(0, Body::from(full(&map(9)))), &mut out);
    let lines = show(&mut out);
    assert_eq!((&lines[0][..], lines[2].contains("op 2 o e9")), ("map 9", true), "{lines:?}");
    assert!(!c.engine().is_held() && lines.iter().all(|line| !line.contains("op 1 ")));
}

#[test]
fn a_new_instance_that_has_the_newest_map_already_begins_at_once() {
    let (mut c, mut out) = opened();
    c.cut_off(at(4), &mut out);
    c.rados(at(5), &mut out, |r, o| r.submit(at(5), 2, write("o"), o));
    c.leave(at(7), &mut out);
    c.begin_anew(at(7), &mut out);
    c.connected(at(8), mon(2), &peer_of(4200), &mut out);
    out.clear();
    let version = msgs::MonGetVersionReply { handle: 1, version: 5, oldest_version: 1 };
    c.message(at(9), mon(2), Msg::new(1, Body::from(version)), &mut out);
    assert_eq!(show(&mut out)[1], "send 1 op 1 o e5");
}

#[test]
fn what_the_monitors_knew_before_an_instance_ended_is_not_what_the_next_one_waits_for() {
    let (mut c, mut out) = opened();
    let mut request = write("o");
    request.locator.pool = 9;
    c.rados(at(3), &mut out, |r, o| r.submit(at(3), 1, request, o));
    c.cut_off(at(4), &mut out);
    out.clear();
    let version = msgs::MonGetVersionReply { handle: 1, version: 5, oldest_version: 1 };
    c.message(at(5), mon(1), Msg::new(1, Body::from(version)), &mut out);
    assert!(c.engine().is_held());
}

#[test]
fn operations_wait_for_a_map_from_which_another_client_is_refused() {
    let (mut c, mut out) = opened();
    c.rados(at(3), &mut out, |r, o| r.wait_for_map(Epoch(5), o));
    assert_eq!(show(&mut out), [""; 0], "it is here");
    c.rados(at(3), &mut out, |r, o| r.wait_for_map(Epoch(8), o));
    c.rados(at(3), &mut out, |r, o| r.wait_for_map(Epoch(7), o));
    c.rados(at(3), &mut out, |r, o| r.submit(at(3), 1, write("o"), o));
    let lines = show(&mut out);
    assert!(lines.iter().all(|line| !line.contains("op ")), "{lines:?}");
    c.message(at(6), mon(1), Msg::new(0, Body::from(full(&map(7)))), &mut out);
    assert_eq!(show(&mut out)[0], "map 7");
    assert!(c.engine().is_held());
    c.message(at(7), mon(1), Msg::new(0, Body::from(full(&map(8)))), &mut out);
    let lines = show(&mut out);
    assert!(lines.iter().any(|line| line.contains("op 1 o e8")), "{lines:?}");
}
