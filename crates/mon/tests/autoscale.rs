//! Numbers of PGs that follow what is in pools: when they are changed, by how much, and who is only told.

mod support;

use maps::Pool;
use node::ConnId;
use peer::level::{Build, Levels};
use std::time::Duration;
use support::{Rig, boot, osdmap, report_bytes};

const GIB: i64 = 1 << 30;

/// Three OSDs of 20 GiB, each on a host of its own.
fn cluster() -> (Rig, Vec<ConnId>) {
    let mut rig = Rig::with(&[("osd_pool_default_pg_autoscale_mode", "on")]);
    let conns = (0..3).map(|id| boot_on_host(&mut rig, id, Levels::default().newest)).collect();
    (rig, conns)
}

fn boot_on_host(rig: &mut Rig, id: i32, feature_level: u32) -> ConnId {
    let conn = rig.connect(&format!("osd.{id}"), "allow profile osd", 6000 + id as u64);
    let host = format!("host{id}");
    let place = [("host", host.as_str()), ("root", "default")];
    let crush_location = place.map(|(a, b)| (a.to_owned(), b.to_owned())).into();
    rig.send(conn, 0, peer::Body::from(peer::OsdBoot { crush_location, feature_level, ..boot(id, 9) }));
    conn
}

/// So much is in the pool.
fn report(rig: &mut Rig, conns: &[ConnId], bytes: i64) {
    let map = osdmap(rig);
    let pgs = i64::from(map.pools[&1].pg_num);
    report_bytes(rig, conns, &map, &|_| bytes / pgs);
}

fn create(rig: &mut Rig, more: &str) {
    rig.ok(&format!(r#"{{"prefix":"osd pool create","pool":"p"{more}}}"#));
}

fn set(rig: &mut Rig, var: &str, val: &str) {
    rig.ok(&format!(r#"{{"prefix":"osd pool set","pool":"p","var":"{var}","val":"{val}"}}"#));
}

fn pass(rig: &mut Rig, seconds: u64) {
    rig.pass(Duration::from_secs(seconds));
}

fn pool(rig: &mut Rig) -> Pool {
    osdmap(rig).pools[&1].clone()
}

fn status(rig: &mut Rig) -> serde_json::Value {
    rig.json(r#"{"prefix":"osd pool autoscale-status"}"#)[0].clone()
}

/// How many PGs the pool is to have after two more looks.
fn target(rig: &mut Rig, conns: &[ConnId], bytes: i64) -> u32 {
    for _ in 0..12 {
        report(rig, conns, bytes);
        pass(rig, 10);
    }
    pool(rig).pg_num_target
}

#[test]
fn a_pool_that_nobody_sizes_gets_more_pgs_as_it_fills_and_fewer_when_it_is_emptied() {
    let (mut rig, conns) = cluster();
    create(&mut rig, "");
    assert_eq!((pool(&mut rig).pg_num, pool(&mut rig).pg_autoscale_mode), (32, 2));
    assert_eq!(target(&mut rig, &conns, 5 * GIB), 32, "a quarter: right enough");
    assert_eq!(target(&mut rig, &conns, 19 * GIB + GIB / 2), 128);
    assert_eq!((pool(&mut rig).pg_num, pool(&mut rig).pgp_num_target), (128, 128));
    let said = rig.ok(r#"{"prefix":"log last","num":20}"#);
    assert!(said.contains("pool 'p': pg_num 32 is to be 128"), "{said}");
    assert_eq!(target(&mut rig, &conns, 0), 32);
}

#[test]
fn numbers_that_people_gave_are_changed_too_unless_they_forbid_it() {
    let (mut rig, conns) = cluster();
    create(&mut rig, r#","pg_num":8"#);
    set(&mut rig, "nopgchange", "1");
    assert_eq!(target(&mut rig, &conns, 0), 8);
    set(&mut rig, "nopgchange", "0");
    set(&mut rig, "pg_num_max", "8");
    assert_eq!(target(&mut rig, &conns, 0), 8);
    set(&mut rig, "pg_num_max", "0");
    rig.ok(r#"{"prefix":"osd pool set noautoscale"}"#);
    assert_eq!((target(&mut rig, &conns, 0), &status(&mut rig)["pg_autoscale_mode"]), (8, &"off".into()));
    assert_eq!(rig.command(r#"{"prefix":"osd pool get noautoscale"}"#).status, "noautoscale is on");
    rig.ok(r#"{"prefix":"osd pool unset noautoscale"}"#);
    rig.ok(r#"{"prefix":"osd pool set threshold","num":5}"#);
    assert_eq!(target(&mut rig, &conns, 0), 8, "four times as many is not enough");
    rig.ok(r#"{"prefix":"osd pool set threshold","num":3}"#);
    assert_eq!(target(&mut rig, &conns, 0), 32);
    assert_eq!(
        rig.command(r#"{"prefix":"osd pool set threshold","num":0.5}"#).code,
        wire::Errno::EINVAL.to_result_code()
    );
}

#[test]
fn who_only_wants_to_be_told_is_told() {
    let (mut rig, conns) = cluster();
    create(&mut rig, r#","pg_num":8,"autoscale_mode":"warn""#);
    let checks = |rig: &mut Rig| rig.json(r#"{"prefix":"health","detail":"detail"}"#)["checks"].clone();
    assert_eq!(target(&mut rig, &conns, 0), 8);
    let found = checks(&mut rig)["POOL_TOO_FEW_PGS"].clone();
    assert_eq!(found["summary"]["message"], "1 pool has too few placement groups");
    assert_eq!(found["detail"][0]["message"], "Pool p has 8 placement groups, should have 32");
    set(&mut rig, "pg_num", "128");
    assert_eq!(target(&mut rig, &conns, 0), 128);
    assert!(
        checks(&mut rig)["POOL_TOO_MANY_PGS"].is_object() && checks(&mut rig)["POOL_TOO_FEW_PGS"].is_null()
    );
    set(&mut rig, "pg_autoscale_mode", "off");
    assert!(checks(&mut rig)["POOL_TOO_MANY_PGS"].is_null());
    let wrong =
        rig.command(r#"{"prefix":"osd pool set","pool":"p","var":"pg_autoscale_mode","val":"maybe"}"#);
    assert_eq!(wrong.code, wire::Errno::EINVAL.to_result_code());
}

#[test]
fn what_a_pool_is_made_for_may_be_said() {
    let (mut rig, conns) = cluster();
    create(&mut rig, r#","pg_num_min":16,"pg_num_max":256,"target_size_ratio":0.5"#);
    assert_eq!(target(&mut rig, &conns, 0), 128, "it is alone");
    let said = status(&mut rig);
    let numbers = ["target_ratio", "effective_target_ratio", "capacity_ratio", "raw_used_rate", "bias"];
    assert_eq!(
        numbers.map(|key| said[key].as_f64()),
        [Some(0.5), Some(1.0), Some(1.0), Some(3.0), Some(1.0)]
    );
    assert_eq!((&said["pg_num_ideal"], &said["pg_num_final"]), (&100.into(), &128.into()));
    assert_eq!((&said["would_adjust"], &said["bulk"]), (&false.into(), &false.into()));
    let text = rig.ok(r#"{"prefix":"osd pool autoscale-status"}"#);
    let words: Vec<&str> = text.lines().nth(1).expect("a row").split_whitespace().collect();
    assert_eq!(
        words,
        ["p", "0", "B", "3.0", "60", "GiB", "1.0000", "0.5000", "1.0000", "1", "128", "on", "False"]
    );
    for more in [r#","pg_num_min":64"#, r#","pg_num_max":16"#] {
        let wrong = rig.command(&format!(r#"{{"prefix":"osd pool create","pool":"q"{more}}}"#));
        assert_eq!(wrong.code, wire::Errno::EINVAL.to_result_code(), "{more}");
    }
}

#[test]
fn nothing_is_changed_while_an_osd_or_pg_is_unknown() {
    let (mut rig, conns) = cluster();
    create(&mut rig, r#","pg_num":128"#);
    pass(&mut rig, 200);
    report(&mut rig, &conns[..2], 0);
    pass(&mut rig, 200);
    assert_eq!(pool(&mut rig).pg_num_target, 128);
    assert_eq!(target(&mut rig, &conns, 0), 32);
}

#[test]
fn pgs_are_merged_only_where_all_daemons_understand_it() {
    let before = Build { levels: Levels { oldest: 1, newest: 1 }, ..Build::default() };
    let mut rig = Rig::of_build(Default::default(), before);
    let newest = Levels::default().newest;
    for id in 0..3 {
        boot_on_host(&mut rig, id, newest);
    }
    create(&mut rig, r#","pg_num":8,"autoscale_mode":"off""#);
    let old = boot_on_host(&mut rig, 3, 1);
    assert!(osdmap(&mut rig).is_up(maps::OsdId(3)), "nothing is required yet");
    let lower = r#"{"prefix":"osd pool set","pool":"p","var":"pg_num","val":"4"}"#;
    let refused = rig.command(lower);
    assert_eq!(refused.code, wire::Errno::EPERM.to_result_code());
    assert!(refused.status.contains("needs feature level 2, and 1 is in use"), "{}", refused.status);
    assert_eq!(pool(&mut rig).pg_num_target, 8);
    rig.build = Build::default();
    rig.crash_and_restart();
    let finalize = r#"{"prefix":"finalize"}"#;
    let refused = rig.command(finalize);
    assert!(
        refused.status.contains(&format!("level {newest} is not for osd.3 (level 1)")),
        "{}",
        refused.status
    );
    rig.close(old);
    rig.ok(r#"{"prefix":"osd down","ids":["3"]}"#);
    let refused = rig.command(finalize);
    assert_eq!(refused.code, wire::Errno::EPERM.to_result_code(), "it is in");
    assert!(refused.status.contains("osd.3 (level 1, when it last ran)"), "{}", refused.status);
    boot_on_host(&mut rig, 3, newest);
    pass(&mut rig, 2);
    let would = rig.json(r#"{"prefix":"finalize","dry_run":true}"#);
    assert_eq!((&would["raised"], &would["possible"]), (&false.into(), &newest.into()));
    assert_eq!(rig.command(lower).code, wire::Errno::EPERM.to_result_code(), "nothing was changed");
    rig.ok(finalize);
    rig.ok(lower);
    assert_eq!(pool(&mut rig).pg_num_target, 4);

    rig.ok(r#"{"prefix":"osd down","ids":["3"]}"#);
    boot_on_host(&mut rig, 3, 1);
    pass(&mut rig, 2);
    assert!(osdmap(&mut rig).is_down(maps::OsdId(3)), "one that is older is not let in any more");
    let said = rig.ok(r#"{"prefix":"log last","num":20}"#);
    assert!(said.contains("and the build of osd.3 can do 1 at most: install a newer one"), "{said}");
    boot_on_host(&mut rig, 3, newest);
    pass(&mut rig, 2);
    assert!(osdmap(&mut rig).is_up(maps::OsdId(3)));
}
