//! A pool gets fewer PGs: what is done in which order, and what is taken back.

mod support;

use maps::{EVersion, Epoch, OsdMap, PgId, Pool};
use node::ConnId;
use std::time::Duration;
use support::{Rig, osdmap, report_clean};

/// Three OSDs with a pool of so many PGs, all of them clean.
fn cluster(pg_num: u32) -> (Rig, Vec<ConnId>) {
    let mut rig = Rig::new();
    let mut conns = Vec::new();
    for id in 0..3 {
        let conn = rig.connect(&format!("osd.{id}"), "allow profile osd", 6000 + id as u64);
        let host = format!("host{id}");
        let place = [("host", host.as_str()), ("root", "default")];
        let crush_location = place.map(|(a, b)| (a.to_owned(), b.to_owned())).into();
        rig.send(conn, 0, peer::Body::from(peer::OsdBoot { crush_location, ..support::boot(id, 9) }));
        conns.push(conn);
    }
    rig.ok(&format!(r#"{{"prefix":"osd pool create","pool":"p","pg_num":{pg_num}}}"#));
    report(&mut rig, &conns);
    (rig, conns)
}

fn report(rig: &mut Rig, conns: &[ConnId]) -> OsdMap {
    let map = osdmap(rig);
    report_clean(rig, conns, &map);
    osdmap(rig)
}

fn pass(rig: &mut Rig, seconds: u64) {
    rig.pass(Duration::from_secs(seconds));
}

fn pool(map: &OsdMap) -> &Pool {
    &map.pools[&1]
}

fn lower(rig: &mut Rig, pg_num: u32) {
    rig.ok(&format!(r#"{{"prefix":"osd pool set","pool":"p","var":"pg_num","val":"{pg_num}"}}"#));
}

/// Goes on until two PGs take no requests.
fn until_pending(rig: &mut Rig, conns: &[ConnId]) -> OsdMap {
    for _ in 0..60 {
        let map = osdmap(rig);
        if pool(&map).pg_num_pending < pool(&map).pg_num {
            return map;
        }
        report(rig, conns);
        pass(rig, 1);
    }
    panic!("no merge is begun: {:?}", pool(&osdmap(rig)));
}

#[test]
fn pgs_move_together_and_are_merged_one_after_the_other() {
    let (mut rig, conns) = cluster(8);
    lower(&mut rig, 3);
    let mut merges = Vec::new();
    let mut old = osdmap(&mut rig);
    for _ in 0..120 {
        let new = report(&mut rig, &conns);
        let (was, is) = (pool(&old), pool(&new));
        assert!(is.pgp_num <= was.pgp_num && is.pg_num <= was.pg_num);
        if is.pg_num < was.pg_num {
            assert_eq!((is.pg_num, is.pg_num_pending), (was.pg_num_pending, was.pg_num_pending));
            assert_eq!(is.pgp_num, 3, "all lie together before");
            let meta = &is.last_pg_merge_meta;
            let source = is.pg_num;
            let target = maps::stable_mod(source, source, maps::stable_mod_mask(source));
            assert_eq!(meta.source_pgid, PgId::new(1, source));
            let version = |seed: u32| EVersion::new(Epoch(1), 100 + u64::from(seed));
            assert_eq!((meta.source_version, meta.target_version), (version(source), version(target)));
            assert!(meta.ready_epoch >= was.last_change && meta.ready_epoch < new.epoch);
            assert_eq!(meta.last_epoch_clean, meta.ready_epoch);
            merges.push(source);
        }
        old = new;
        pass(&mut rig, 1);
        let new = osdmap(&mut rig);
        assert_eq!(pool(&new).pg_num, pool(&old).pg_num, "not without reports");
        old = new;
    }
    assert_eq!(merges, [7, 6, 5, 4, 3]);
    let end = pool(&old);
    assert_eq!((end.pg_num, end.pgp_num, end.pg_num_pending, end.pg_num_target), (3, 3, 3, 3));
    assert_eq!(rig.json(r#"{"prefix":"pg stat"}"#)["pg_summary"]["num_pgs"], 3);
}

#[test]
fn pgs_that_are_not_ready_serve_again_and_are_tried_later() {
    let (mut rig, conns) = cluster(4);
    lower(&mut rig, 2);
    let map = until_pending(&mut rig, &conns);
    pass(&mut rig, 4);
    assert_eq!(osdmap(&mut rig).epoch, map.epoch, "they have some seconds");
    pass(&mut rig, 5);
    let back = osdmap(&mut rig);
    assert_eq!((pool(&back).pg_num_pending, pool(&back).pg_num, pool(&back).pg_num_target), (4, 4, 2));
    for _ in 0..10 {
        report(&mut rig, &conns);
        pass(&mut rig, 1);
    }
    assert_eq!(pool(&osdmap(&mut rig)).pg_num, 4, "not at once");
    let again = until_pending(&mut rig, &conns);
    let done = report(&mut rig, &conns);
    assert_eq!((pool(&again).pg_num, pool(&done).pg_num), (4, 3));
}

#[test]
fn what_was_said_of_a_merge_that_was_taken_back_does_not_count() {
    let (mut rig, conns) = cluster(2);
    lower(&mut rig, 1);
    let first = until_pending(&mut rig, &conns);
    pass(&mut rig, 10);
    let back = osdmap(&mut rig);
    assert_eq!(pool(&back).pg_num_pending, 2);
    let second = until_pending(&mut rig, &conns);
    // Late, from the first time.
    report_clean(&mut rig, &conns, &first);
    pass(&mut rig, 2);
    assert_eq!(osdmap(&mut rig).epoch, second.epoch);
    assert_eq!(pool(&report(&mut rig, &conns)).pg_num, 1);
}

#[test]
fn an_osd_that_goes_down_and_another_wish_take_a_merge_back() {
    let (mut rig, conns) = cluster(4);
    lower(&mut rig, 1);
    until_pending(&mut rig, &conns);
    rig.ok(r#"{"prefix":"osd down","ids":["2"]}"#);
    pass(&mut rig, 2);
    let back = osdmap(&mut rig);
    assert_eq!((pool(&back).pg_num_pending, pool(&back).pg_num), (4, 4));
    report(&mut rig, &conns);
    pass(&mut rig, 60);
    assert_eq!(pool(&report(&mut rig, &conns)).pg_num_pending, 4, "not while copies are missing");

    let (mut rig, conns) = cluster(4);
    lower(&mut rig, 1);
    until_pending(&mut rig, &conns);
    lower(&mut rig, 4);
    pass(&mut rig, 2);
    let back = osdmap(&mut rig);
    assert_eq!((pool(&back).pg_num_pending, pool(&back).pg_num, pool(&back).pg_num_target), (4, 4, 4));
}

#[test]
fn a_merge_that_has_begun_is_ended_after_a_restart() {
    let (mut rig, conns) = cluster(4);
    lower(&mut rig, 3);
    until_pending(&mut rig, &conns);
    rig.crash_and_restart();
    let conns: Vec<ConnId> =
        (0..3).map(|id| rig.connect(&format!("osd.{id}"), "allow profile osd", 6000 + id)).collect();
    pass(&mut rig, 1);
    assert_eq!(pool(&report(&mut rig, &conns)).pg_num, 3);
}
