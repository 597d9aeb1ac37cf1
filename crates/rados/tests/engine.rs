//! The engine from start to end: inputs in, exact outputs out.

mod common;

use common::{POOL, answer, at, conn, engine, full, fulls, map, osd_addr, primary, read, sent, show, write};
use maps::{Epoch, HObject, osd_flags, osd_state, pool_flags};
use msgs::op::input::{self, ListEntry, PgNlsReply};
use msgs::{Body, backoff_op, osd_flag};
use node::{CloseReason, Msg};
use rados::cursor_start;
use wire::Errno;

const NOTHING: [&str; 0] = [];

#[test]
fn an_operation_waits_for_a_map_then_goes_to_the_primary_and_ends_with_the_answer() {
    let (mut r, mut out) = (engine(), Vec::new());
    r.submit(at(0), 7, write("o"), &mut out);
    assert_eq!(show(&mut out), NOTHING);
    let m = map(5);
    r.osd_map(&full(&m), &mut out);
    let ops = sent(&out);
    let osd = primary(&m, "o");
    assert_eq!(
        show(&mut out),
        ["map 5".to_owned(), format!("connect 1 osd.{osd}"), "send 1 op 1 o e5".to_owned()]
    );
    let op = &ops[0].2;
    assert_eq!(op.flags, osd_flag::WRITE | osd_flag::ONDISK | osd_flag::KNOWN_REDIR);
    assert_eq!(op.pgid.pgid.seed, op.hash % 8);
    assert_eq!(op.mtime, at(0).wall.into());
    r.message(conn(1), answer(1, op, 0), &mut out);
    assert_eq!(show(&mut out), ["done 7 r=0"]);
    r.message(conn(1), answer(1, op, 0), &mut out);
    assert_eq!((show(&mut out), r.pending()), (vec![], 0), "a second answer means nothing");
}

#[test]
fn operations_on_one_osd_share_its_connection_and_keep_their_order_over_a_loss() {
    let (mut r, mut out, m) = (engine(), Vec::new(), map(5));
    r.osd_map(&full(&m), &mut out);
    r.submit(at(0), 1, write("o"), &mut out);
    r.submit(at(0), 2, write("o"), &mut out);
    r.submit(at(0), 3, read("o"), &mut out);
    out.clear();
    r.closed(at(1), conn(1), CloseReason::Lost, &mut out);
    assert_eq!(show(&mut out), ["want map 6"]);
    assert_eq!(r.deadline(), Some(at(1).mono), "the first retry comes at once");
    r.timer(at(1), &mut out);
    let lines = show(&mut out);
    assert!(lines[0].starts_with("connect 2"));
    assert_eq!(
        &lines[1..],
        ["send 2 op 1 o e5 retry 1", "send 2 op 2 o e5 retry 1", "send 2 op 3 o e5 retry 1"]
    );
    // A refused connection is retried, more slowly each time, until a map changes the OSD.
    r.closed(at(2), conn(2), CloseReason::Refused, &mut out);
    let first = r.deadline().expect("tries again").since(at(2).mono);
    assert!(first.as_millis() >= 50 && first.as_millis() <= 150, "{first:?}");
    r.timer(at(200), &mut out);
    r.closed(at(200), conn(3), CloseReason::Refused, &mut out);
    let second = r.deadline().expect("tries again").since(at(200).mono);
    assert!(second.as_millis() >= 100 && second.as_millis() <= 300, "{second:?}");
}

#[test]
fn an_answer_to_an_older_attempt_is_ignored() {
    let (mut r, mut out, m) = (engine(), Vec::new(), map(5));
    r.osd_map(&full(&m), &mut out);
    r.submit(at(0), 1, write("o"), &mut out);
    let first = sent(&out)[0].2.clone();
    r.closed(at(1), conn(1), CloseReason::Lost, &mut out);
    out.clear();
    r.timer(at(1), &mut out);
    let second = sent(&out)[0].2.clone();
    out.clear();
    r.message(conn(1), answer(1, &second, 0), &mut out);
    r.message(conn(2), answer(1, &first, 0), &mut out);
    assert_eq!(show(&mut out), NOTHING);
    r.message(conn(2), answer(1, &second, 0), &mut out);
    assert_eq!(show(&mut out), ["done 1 r=0"]);
}

#[test]
fn a_new_map_moves_only_what_it_sends_elsewhere() {
    let (mut r, mut out, m) = (engine(), Vec::new(), map(5));
    r.osd_map(&full(&m), &mut out);
    let names: Vec<String> = (0..20).map(|i| format!("o{i}")).collect();
    for (token, name) in names.iter().enumerate() {
        r.submit(at(0), token as u64, write(name), &mut out);
    }
    let downed = primary(&m, "o0");
    let down_conn = sent(&out)[0].0;
    out.clear();
    let mut next = map(6);
    next.osds[downed.0 as usize].state = osd_state::EXISTS;
    r.osd_map(&full(&next), &mut out);
    let resent: Vec<u64> = sent(&out).iter().map(|(_, tid, _)| *tid).collect();
    let moved: Vec<u64> =
        (0..20).filter(|i| primary(&m, &names[*i]) == downed).map(|i| i as u64 + 1).collect();
    assert_eq!(resent, moved, "just those, in order");
    assert!(moved.len() < 20);
    for (_, _, op) in sent(&out) {
        let name = String::from_utf8(op.oid.clone()).expect("text");
        assert_eq!((op.retry_attempt, op.epoch), (1, Epoch(6)), "{name}");
        assert_ne!(primary(&next, &name), downed);
    }
    let lines = show(&mut out);
    assert!(lines.contains(&format!("close {}", down_conn.0 & 0xff)), "{lines:?}");
}

/// Two maps at once: the first has another primary, the second the former one.
#[test]
fn what_a_primary_has_forgotten_is_sent_to_it_again_when_it_is_primary_again() {
    let (mut r, mut out, m) = (engine(), Vec::new(), map(5));
    r.osd_map(&full(&m), &mut out);
    let names: Vec<String> = (0..20).map(|i| format!("o{i}")).collect();
    for (token, name) in names.iter().enumerate() {
        r.submit(at(0), token as u64, read(name), &mut out);
    }
    out.clear();
    let pg = m.object_pg(&read("o3").locator, b"o3").expect("a pool");
    let mut away = map(6);
    away.primary_temp.insert(pg, m.pg_up_acting(pg).acting[1]);
    r.osd_map(&fulls([&away, &map(7)]), &mut out);
    let of_it = |name: &String| m.object_pg(&read(name).locator, name.as_bytes()) == Some(pg);
    let wanted: Vec<_> =
        names.iter().filter(|name| of_it(name)).map(|name| name.as_bytes().to_vec()).collect();
    let again: Vec<_> = sent(&out).into_iter().map(|(_, _, op)| op.oid).collect();
    assert_eq!(again, wanted, "and no others");
    assert!(wanted.len() < 20);
    out.clear();
    r.osd_map(&full(&map(8)), &mut out);
    assert_eq!(sent(&out).len(), 0, "nothing has changed");
    r.osd_map(&full(&map(11)), &mut out);
    assert_eq!(sent(&out).len(), 20, "who knows what was between");
}

#[test]
fn an_osd_that_restarted_at_another_address_is_connected_anew() {
    let (mut r, mut out, m) = (engine(), Vec::new(), map(5));
    r.osd_map(&full(&m), &mut out);
    r.submit(at(0), 1, write("o"), &mut out);
    out.clear();
    let mut next = map(6);
    let osd = primary(&m, "o");
    next.osds[osd.0 as usize].client_addrs = osd_addr(osd.0 as u16, 99).into();
    r.osd_map(&full(&next), &mut out);
    let connect = format!("connect 2 osd.{osd}");
    assert_eq!(show(&mut out), ["map 6", "close 1", connect.as_str(), "send 2 op 1 o e6 retry 1"]);
}

#[test]
fn a_pg_without_primary_waits() {
    let (mut r, mut out) = (engine(), Vec::new());
    let mut none = map(5);
    none.osds.iter_mut().for_each(|o| o.state = osd_state::EXISTS);
    r.osd_map(&full(&none), &mut out);
    r.submit(at(0), 1, read("o"), &mut out);
    assert_eq!(show(&mut out), ["map 5"]);
    r.osd_map(&full(&map(6)), &mut out);
    assert_eq!(show(&mut out).last().map(String::as_str), Some("send 1 op 1 o e6"));
}

#[test]
fn a_full_pool_holds_writes_but_not_reads_nor_those_that_may_try() {
    let (mut r, mut out) = (engine(), Vec::new());
    let mut m = map(5);
    m.pools.get_mut(&POOL).expect("there").flags |= pool_flags::FULL;
    r.osd_map(&full(&m), &mut out);
    r.submit(at(0), 1, write("o"), &mut out);
    r.submit(at(0), 2, read("o"), &mut out);
    r.submit(at(0), 3, write("o").with_flags(osd_flag::FULL_TRY), &mut out);
    let tids: Vec<u64> = sent(&out).iter().map(|(_, tid, _)| *tid).collect();
    assert_eq!(tids, [2, 3]);
    out.clear();
    r.osd_map(&full(&map(6)), &mut out);
    assert_eq!(show(&mut out), ["map 6", "send 1 op 1 o e6"]);
}

#[test]
fn a_write_that_an_osd_of_a_full_pool_passed_over_is_sent_again_when_there_is_room() {
    let (mut r, mut out) = (engine(), Vec::new());
    r.osd_map(&full(&map(5)), &mut out);
    r.submit(at(0), 1, write("o"), &mut out);
    assert_eq!(sent(&out).len(), 1);
    out.clear();
    let mut m = map(6);
    m.pools.get_mut(&POOL).expect("there").flags |= pool_flags::FULL;
    r.osd_map(&full(&m), &mut out);
    assert_eq!(show(&mut out), ["map 6"]);
    r.osd_map(&full(&map(7)), &mut out);
    assert_eq!(show(&mut out), ["map 7", "send 1 op 1 o e7 retry 1"]);
}

#[test]
fn paused_reads_and_writes_wait_for_their_flag() {
    let (mut r, mut out) = (engine(), Vec::new());
    let paused = maps::OsdMap { flags: osd_flags::PAUSERD | osd_flags::PAUSEWR, ..map(5) };
    r.osd_map(&full(&paused), &mut out);
    r.submit(at(0), 1, write("o"), &mut out);
    r.submit(at(0), 2, read("o"), &mut out);
    assert_eq!(show(&mut out), ["map 5"]);
    r.osd_map(&full(&maps::OsdMap { flags: osd_flags::PAUSEWR, ..map(6) }), &mut out);
    assert_eq!(sent(&out).len(), 1);
    out.clear();
    r.osd_map(&full(&map(7)), &mut out);
    assert_eq!(show(&mut out), ["map 7", "send 1 op 1 o e7"]);
}

#[test]
fn an_unknown_pool_fails_only_when_the_newest_map_does_not_have_it() {
    let (mut r, mut out) = (engine(), Vec::new());
    r.osd_map(&full(&map(5)), &mut out);
    out.clear();
    let mut other = write("o");
    other.locator.pool = 9;
    r.submit(at(0), 1, other.clone(), &mut out);
    r.submit(at(0), 2, other, &mut out);
    assert_eq!(show(&mut out), ["want newest epoch"], "asked once");
    r.newest_epoch(Epoch(6), &mut out);
    assert_eq!(show(&mut out), ["want map 6"]);
    r.osd_map(&full(&map(6)), &mut out);
    assert_eq!(show(&mut out), ["map 6", "done 1 r=-2", "done 2 r=-2"]);
}

#[test]
fn a_pool_that_a_map_removes_ends_its_operations_at_once() {
    let (mut r, mut out) = (engine(), Vec::new());
    r.osd_map(&full(&map(5)), &mut out);
    r.submit(at(0), 1, read("o"), &mut out);
    out.clear();
    let mut without = map(6);
    without.pools.clear();
    r.osd_map(&full(&without), &mut out);
    assert_eq!(show(&mut out), ["map 6", "done 1 r=-2"]);
}

#[test]
fn incrementals_are_applied_in_order_and_a_gap_is_asked_for() {
    let (mut r, mut out) = (engine(), Vec::new());
    r.osd_map(&full(&map(5)), &mut out);
    out.clear();
    let inc = |epoch: u32, flags: u32| {
        let inc = maps::OsdMapIncremental {
            epoch: Epoch(epoch),
            fsid: map(1).fsid,
            new_flags: flags as i32,
            ..Default::default()
        };
        (Epoch(epoch), wire::Writer::encode(&inc).into())
    };
    let message = |list: Vec<(Epoch, stdx::Buf)>| msgs::OsdMap {
        incrementals: list.into_iter().collect(),
        ..Default::default()
    };
    r.osd_map(&message(vec![inc(6, 1), inc(7, 3)]), &mut out);
    assert_eq!(show(&mut out), ["map 7"]);
    assert_eq!(r.map().flags, 3);
    r.osd_map(&message(vec![inc(6, 1)]), &mut out);
    assert_eq!(show(&mut out), NOTHING, "older ones mean nothing");
    r.osd_map(&message(vec![inc(9, 0)]), &mut out);
    assert_eq!(show(&mut out), ["want map 8"]);
    r.osd_map(&message(vec![(Epoch(8), vec![1, 2, 3].into())]), &mut out);
    assert_eq!(show(&mut out), ["want map 0"], "what does not decode is replaced by a whole map");
    let broken = msgs::OsdMap { fulls: [(Epoch(9), vec![1, 2, 3].into())].into(), ..Default::default() };
    r.osd_map(&broken, &mut out);
    assert_eq!(
        (show(&mut out), r.map().epoch),
        (vec![], Epoch(7)),
        "but one that is no better is not asked for again"
    );
}

#[test]
fn a_backoff_holds_its_range_until_it_ends() {
    let (mut r, mut out, m) = (engine(), Vec::new(), map(5));
    r.osd_map(&full(&m), &mut out);
    r.submit(at(0), 1, write("o"), &mut out);
    let op = sent(&out)[0].2.clone();
    out.clear();
    let backoff = |what: u8| {
        let m = msgs::OsdBackoff {
            pgid: op.pgid,
            epoch: Epoch(5),
            op: what,
            id: 3,
            begin: HObject::default(),
            end: HObject::max(),
        };
        Msg::new(0, Body::from(m))
    };
    r.message(conn(1), backoff(backoff_op::BLOCK), &mut out);
    r.submit(at(0), 2, write("o"), &mut out);
    assert_eq!(show(&mut out), ["send 1 osd_backoff"], "acknowledged, and nothing sent");
    r.message(conn(1), backoff(backoff_op::UNBLOCK), &mut out);
    assert_eq!(show(&mut out), ["send 1 op 1 o e5 retry 1", "send 1 op 2 o e5"]);
}

#[test]
fn operations_beyond_the_limit_wait_for_others_to_end() {
    let config = rados::RadosConfig { max_ops: 2, ..rados::RadosConfig::new(common::credentials(), 2) };
    let (mut r, mut out) = (rados::Rados::new(config, stdx::Rng::from_seed(1)), Vec::new());
    r.osd_map(&full(&map(5)), &mut out);
    for token in 1..=3 {
        r.submit(at(0), token, write("o"), &mut out);
    }
    let ops = sent(&out);
    assert_eq!((ops.len(), r.has_room(), r.pending()), (2, false, 3));
    out.clear();
    r.message(conn(1), answer(1, &ops[0].2, 0), &mut out);
    assert_eq!(show(&mut out), ["done 1 r=0", "send 1 op 3 o e5"]);
    r.cancel(2, &mut out);
    assert_eq!((r.pending(), r.has_room()), (1, true));
}

#[test]
fn an_operation_that_was_bounced_begins_again_under_a_new_number() {
    let (mut r, mut out) = (engine(), Vec::new());
    r.osd_map(&full(&map(5)), &mut out);
    r.submit(at(0), 1, write("o"), &mut out);
    let op = sent(&out)[0].2.clone();
    out.clear();
    r.message(conn(1), answer(1, &op, Errno::EAGAIN.to_result_code()), &mut out);
    assert_eq!(show(&mut out), ["send 1 op 2 o e5"]);
}

#[test]
fn a_listing_walks_all_pgs_in_order() {
    let (mut r, mut out) = (engine(), Vec::new());
    r.osd_map(&full(&map(5)), &mut out);
    out.clear();
    let mut cursor = Some(cursor_start(POOL));
    let (mut seeds, mut names) = (Vec::new(), Vec::new());
    while let Some(from) = cursor {
        let tid = seeds.len() as u64 + 1;
        r.list(tid, b"", &from, 10, &mut out);
        let (conn, _, op) = sent(&out)[0].clone();
        out.clear();
        let seed = op.pgid.pgid.seed;
        let entry = ListEntry { oid: format!("in{seed}").into_bytes(), ..Default::default() };
        let reply = PgNlsReply { handle: HObject::max(), entries: vec![entry] };
        let mut m = msgs::OsdOpReply::to(&op, 1, Epoch(5));
        m.ops[0].data = input::write(&reply);
        r.message(conn, Msg::new(tid, Body::from(m)), &mut out);
        let Some(rados::RadosOut::Told(rados::RadosTold::Listed { token, result: Ok(listing) })) = out.pop()
        else {
            panic!("{:?}", show(&mut out))
        };
        assert_eq!(token, tid);
        seeds.push(seed);
        names.extend(listing.entries.into_iter().map(|e| e.oid));
        cursor = listing.next;
    }
    assert_eq!(seeds, [0, 4, 2, 6, 1, 5, 3, 7]);
    assert_eq!(names.len(), 8);
}

#[test]
fn messages_of_connections_that_are_not_ours_mean_nothing() {
    let (mut r, mut out) = (engine(), Vec::new());
    r.osd_map(&full(&map(5)), &mut out);
    r.submit(at(0), 1, write("o"), &mut out);
    let op = sent(&out)[0].2.clone();
    out.clear();
    r.message(conn(77), answer(1, &op, 0), &mut out);
    r.closed(at(0), conn(77), CloseReason::Lost, &mut out);
    assert_eq!(show(&mut out), NOTHING);
    assert!(r.owns(conn(77)) && !r.owns(node::ConnId(1)));
}

#[test]
fn a_read_that_any_member_may_answer_goes_to_one_and_to_the_primary_if_that_will_not() {
    let (mut r, mut out, m) = (engine(), Vec::new(), map(5));
    r.osd_map(&full(&m), &mut out);
    for token in 0..4 {
        r.submit(at(0), token, read("o").with_flags(osd_flag::BALANCE_READS), &mut out);
    }
    r.submit(at(0), 4, write("o").with_flags(osd_flag::BALANCE_READS), &mut out);
    let ops = sent(&out);
    let (first, second) = (ops[0].0, ops[1].0);
    let conns: Vec<_> = ops.iter().map(|(conn, ..)| *conn).collect();
    let primary = format!("osd.{}", primary(&m, "o"));
    let lines = show(&mut out);
    let to_first = lines.iter().any(|l| *l == format!("connect {} {primary}", first.0 & 0xff));
    let (of_primary, other) = if to_first { (first, second) } else { (second, first) };
    assert_eq!(conns, [first, second, first, second, of_primary]);
    let (_, tid, op) = ops.iter().find(|(conn, ..)| *conn == other).expect("one of them").clone();
    r.message(other, answer(tid, &op, Errno::EAGAIN.to_result_code()), &mut out);
    let again = sent(&out);
    assert_eq!(again.len(), 1);
    assert_eq!((again[0].0, again[0].2.flags & osd_flag::BALANCE_READS), (of_primary, 0));
    r.message(of_primary, answer(again[0].1, &again[0].2, 0), &mut out);
    assert!(show(&mut out).last().is_some_and(|l| l.starts_with("done") && l.ends_with("r=0")));
}
