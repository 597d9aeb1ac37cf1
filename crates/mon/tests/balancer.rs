//! The balancer at work: what it changes, how much at a time, and when it keeps still.

mod support;

use maps::{OsdId, OsdMap, PgId, Shares};
use node::ConnId;
use std::collections::BTreeSet;
use std::time::Duration;
use support::{Rig, osdmap, report_clean};

/// OSDs on hosts, with a pool of three copies on different hosts.
fn cluster(hosts: i32, osds: i32, pg_num: u32) -> (Rig, Vec<ConnId>) {
    // A single host can't be a failure domain.
    let ty = if hosts == 1 { "0" } else { "1" };
    let mut rig = Rig::with(&[("osd_crush_chooseleaf_type", ty)]);
    let mut conns = Vec::new();
    for id in 0..osds {
        let conn = rig.connect(&format!("osd.{id}"), "allow profile osd", 6000 + id as u64);
        let host = format!("host{}", id % hosts);
        let place = [("host", host.as_str()), ("root", "default")];
        let boot = peer::OsdBoot {
            crush_location: place.map(|(a, b)| (a.to_owned(), b.to_owned())).into(),
            ..support::boot(id, 9)
        };
        rig.send(conn, 0, peer::Body::from(boot));
        conns.push(conn);
    }
    rig.ok(&format!(r#"{{"prefix":"osd pool create","pool":"p","pg_num":{pg_num}}}"#));
    report(&mut rig, &conns);
    (rig, conns)
}

fn report(rig: &mut Rig, conns: &[ConnId]) {
    let map = osdmap(rig);
    report_clean(rig, conns, &map);
}

fn seconds(rig: &mut Rig, n: u64) {
    rig.pass(Duration::from_secs(n));
}

/// PGs with exceptions that differ.
fn changed(a: &OsdMap, b: &OsdMap) -> usize {
    let all: BTreeSet<PgId> = a.pg_upmap_items.keys().chain(b.pg_upmap_items.keys()).copied().collect();
    all.iter().filter(|pg| a.pg_upmap_items.get(pg) != b.pg_upmap_items.get(pg)).count()
}

/// How far an OSD is from its share at most, in units of what is allowed.
fn spread(map: &OsdMap) -> f64 {
    let pool = map.pools.values().next().expect("a pool");
    let shares = Shares::new(map, pool).expect("shares");
    let id = *map.pools.keys().next().expect("a pool");
    let held: Vec<Vec<OsdId>> = pool.pgs(id).map(|pg| map.pg_up_acting(pg).up).collect();
    let off = |osd: OsdId| {
        let has = held.iter().filter(|up| up.contains(&osd)).count() as f64;
        (has - shares.of(osd)).abs() / shares.tolerance(osd)
    };
    shares.osds().map(off).fold(0.0, f64::max)
}

fn status(rig: &mut Rig) -> serde_json::Value {
    rig.json(r#"{"prefix":"balancer status"}"#)
}

#[test]
fn every_osd_comes_to_its_share_a_few_placement_groups_at_a_time() {
    let (mut rig, conns) = cluster(4, 12, 128);
    assert!(spread(&osdmap(&mut rig)) > 2.0);
    let score = |rig: &mut Rig| rig.ok(r#"{"prefix":"balancer eval"}"#);
    let before = score(&mut rig);
    let mut rounds = 0;
    let mut old = osdmap(&mut rig);
    loop {
        seconds(&mut rig, 10);
        let new = osdmap(&mut rig);
        let count = changed(&old, &new);
        assert!(count <= 10, "{count} at once");
        // Nobody has reported what came of it: nothing more is changed.
        seconds(&mut rig, 60);
        assert_eq!(osdmap(&mut rig).epoch, new.epoch);
        if count == 0 {
            break;
        }
        report(&mut rig, &conns);
        (old, rounds) = (new, rounds + 1);
        assert!(rounds < 30, "{}", spread(&old));
    }
    assert!(rounds > 1 && spread(&old) <= 1.0, "after {rounds} rounds: {}", spread(&old));
    for pg in old.pools[&1].pgs(1) {
        let up = old.pg_up_acting(pg).up;
        let hosts: BTreeSet<_> = up.iter().map(|osd| osd.0 % 4).collect();
        assert_eq!(hosts.len(), 3, "{pg}: {up:?}");
    }
    let said = status(&mut rig);
    assert_eq!((&said["active"], &said["mode"]), (&true.into(), &"upmap".into()));
    assert_eq!(said["no_optimization_needed"], true, "{said}");
    let after = score(&mut rig);
    assert!(after < before && after.starts_with("current cluster score 0.0"), "{before} {after}");
    seconds(&mut rig, 600);
    assert_eq!(osdmap(&mut rig).epoch, old.epoch, "nothing is left to do");
}

#[test]
fn three_osds_with_three_copies_are_left_alone() {
    for (hosts, pg_num) in [(3, 64), (3, 1), (2, 32), (1, 64)] {
        let (mut rig, conns) = cluster(hosts, 3, pg_num);
        let commands = [
            r#"{"prefix":"health"}"#,
            r#"{"prefix":"osd reweight","id":0,"weight":0.5}"#,
            r#"{"prefix":"osd out","ids":["1"]}"#,
            r#"{"prefix":"osd in","ids":["1"]}"#,
            r#"{"prefix":"osd crush reweight","name":"osd.2","weight":3}"#,
            r#"{"prefix":"osd reweight","id":0,"weight":1.0}"#,
        ];
        for command in commands {
            rig.ok(command);
            for _ in 0..3 {
                report(&mut rig, &conns);
                seconds(&mut rig, 10);
            }
            let items = osdmap(&mut rig).pg_upmap_items;
            assert!(items.is_empty(), "{hosts} hosts, after {command}: {items:?}");
        }
    }
}

#[test]
fn it_keeps_still_while_something_else_goes_on_or_it_is_told_to() {
    let (mut rig, conns) = cluster(4, 12, 128);
    let off = |rig: &mut Rig| rig.ok(r#"{"prefix":"balancer off"}"#);
    off(&mut rig);
    let still = |rig: &mut Rig, why: &str| {
        let before = osdmap(rig);
        seconds(rig, 30);
        assert_eq!(changed(&before, &osdmap(rig)), 0, "{why}");
        let said = status(rig)["optimize_result"].as_str().unwrap_or_default().to_owned();
        assert!(said.contains(why), "{said}, not {why}");
    };
    let before = osdmap(&mut rig);
    seconds(&mut rig, 30);
    assert!(changed(&before, &osdmap(&mut rig)) == 0);
    assert_eq!(status(&mut rig)["active"], false);
    rig.ok(r#"{"prefix":"osd set","key":"norebalance"}"#);
    rig.ok(r#"{"prefix":"balancer on"}"#);
    report(&mut rig, &conns);
    still(&mut rig, "norebalance");
    rig.ok(r#"{"prefix":"osd unset","key":"norebalance"}"#);
    rig.ok(r#"{"prefix":"osd pool create","pool":"q","pg_num":8}"#);
    still(&mut rig, "unknown");
    let ill = |rig: &mut Rig, bits: u64| {
        let map = osdmap(rig);
        report_clean(rig, &conns, &map);
        let pg = PgId::new(1, 0);
        let at = map.pg_up_acting(pg);
        let primary = at.acting_primary.expect("a primary");
        let stat = peer::PgStat {
            pgid: pg,
            state: peer::pg_state::ACTIVE | bits,
            reported_epoch: map.epoch,
            reported_seq: 5,
            up: at.up,
            acting: at.acting,
            ..peer::PgStat::default()
        };
        let stats = peer::PgStats { osd: primary, epoch: map.epoch, pgs: vec![stat], ..Default::default() };
        rig.send(conns[primary.0 as usize], 0, peer::Body::from(stats));
    };
    ill(&mut rig, peer::pg_state::UNDERSIZED | peer::pg_state::DEGRADED);
    still(&mut rig, "degraded");
    rig.ok(r#"{"prefix":"config set","who":"mgr","name":"target_max_misplaced_ratio","value":"0.001"}"#);
    ill(&mut rig, peer::pg_state::REMAPPED | peer::pg_state::BACKFILLING);
    still(&mut rig, "misplaced");
    rig.ok(r#"{"prefix":"balancer mode","mode":"none"}"#);
    report(&mut rig, &conns);
    let before = osdmap(&mut rig);
    seconds(&mut rig, 30);
    assert_eq!(changed(&before, &osdmap(&mut rig)), 0);
    assert_eq!(rig.command(r#"{"prefix":"balancer mode","mode":"crush-compat"}"#).code, -95);
    rig.ok(r#"{"prefix":"balancer mode","mode":"upmap"}"#);
    rig.crash_and_restart();
    assert_eq!(status(&mut rig)["mode"], "upmap", "settings are kept");
    assert!(rig.ok(r#"{"prefix":"config log"}"#).contains("mgr/mgr/balancer/mode"));
}

#[test]
fn exceptions_that_lead_nowhere_are_removed_and_others_stay() {
    let (mut rig, conns) = cluster(4, 12, 32);
    rig.ok(r#"{"prefix":"balancer off"}"#);
    let map = osdmap(&mut rig);
    let mut pgs = map.pools[&1].pgs(1).map(|pg| (pg, map.pg_to_raw_osds(pg)));
    let mut next = || pgs.next().expect("a PG");
    let other = |raw: &[OsdId], same_host_as: Option<OsdId>| {
        let hosts: Vec<i32> = raw.iter().map(|osd| osd.0 % 4).collect();
        let fits = |osd: &OsdId| match same_host_as {
            Some(of) => osd.0 % 4 == of.0 % 4 && !raw.contains(osd),
            None => !hosts.contains(&(osd.0 % 4)),
        };
        (0..12).map(OsdId).find(fits).expect("an OSD")
    };
    let mut set = |pg: PgId, from: OsdId, to: OsdId| {
        rig.ok(&format!(r#"{{"prefix":"osd pg-upmap-items","pgid":"{pg}","id":["{from}","{to}"]}}"#));
    };
    let (good, raw) = next();
    set(good, raw[0], other(&raw, None));
    let (swap, raw) = next();
    set(swap, raw[0], other(&raw, Some(raw[0])));
    let (absent, raw) = next();
    set(absent, other(&raw, None), other(&raw, Some(raw[0])));
    let (doubled, raw) = next();
    set(doubled, raw[0], other(&raw, Some(raw[1])));
    report(&mut rig, &conns);
    seconds(&mut rig, 5);
    let kept: Vec<PgId> = osdmap(&mut rig).pg_upmap_items.keys().copied().collect();
    assert_eq!(kept, [good, swap]);
    // One OSD is out, another one is gone from the hierarchy.
    let map = osdmap(&mut rig);
    let out = map.pg_upmap_items[&good][0].1;
    rig.ok(&format!(r#"{{"prefix":"osd out","ids":["{out}"]}}"#));
    report(&mut rig, &conns);
    seconds(&mut rig, 5);
    assert!(!osdmap(&mut rig).pg_upmap_items.contains_key(&good));
}
