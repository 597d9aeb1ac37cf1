//! Codes of placement groups that lack members or objects.

use crate::operator::Operator;
use sim::Crash;
use sim::cluster::Spec;
use std::time::Duration;

const START: &str = "nacre osd --conf CONF --id N";

/// The values of the command that starts an OSD.
fn osd(id: &str) -> [(&'static str, &str); 2] {
    [("CONF", "ceph.conf"), ("N", id)]
}

#[test]
fn pgs_with_too_few_members_serve_again_when_one_is_back() {
    let mut op = Operator::new();
    op.c.osd(1).crash(Crash::Process);
    op.c.osd(2).crash(Crash::Process);
    op.c.world.run_for(Duration::from_secs(10));
    let seen = op.sees("PG_AVAILABILITY");
    assert!(seen.contains("acting [0]"), "{seen}");
    let away = op.follows("PG_AVAILABILITY", "ceph osd tree down", &[]);
    assert!(away.contains("osd.1") && away.contains("osd.2"), "{away}");
    op.follows("OSD_DOWN", START, &osd("1"));
    op.sees_no("PG_AVAILABILITY");
    op.c.client(0).write("a", b"x");
    op.follows("OSD_DOWN", START, &osd("2"));
    op.sees_health_ok();
}

#[test]
fn pgs_that_lack_copies_get_them_from_an_osd_that_is_back_or_from_others() {
    let mut op = Operator::of(&Spec { osds: 4, ..Spec::default() });
    (0..20).for_each(|i| op.c.client(0).write(&format!("o{i}"), &[1; 5000]));
    op.c.osd(3).crash(Crash::Process);
    op.sees("PG_DEGRADED");
    let away = op.follows("PG_DEGRADED", "ceph osd tree down", &[]);
    assert!(away.contains("osd.3"), "{away}");
    op.follows("OSD_DOWN", START, &osd("3"));
    op.sees_no("PG_DEGRADED");
    op.sees_health_ok();
    // This time it does not come back, and nobody does anything while copies are made elsewhere.
    op.c.osd(3).crash(Crash::Process);
    op.sees("PG_DEGRADED");
    op.follows("PG_DEGRADED", "ceph -s", &[]);
    op.sees_no_within("PG_DEGRADED", Duration::from_secs(900));
    op.sees_health_ok();
}

/// Two copies, of which one is enough. Objects are written while one OSD is away; when that one is back and
/// knows of them, the other dies before it has sent all. Returns who has them, and who has not.
fn unfound(op: &mut Operator) -> (usize, usize) {
    op.ceph("osd pool set objects size 2");
    op.ceph("osd pool set objects min_size 1");
    op.ceph("config set osd osd_recovery_max_active 1");
    op.sees_health_ok();
    let [has, lacks] = op.acting("objects", "o0")[..] else { panic!("two copies") };
    op.c.osd(lacks).crash(Crash::Process);
    op.sees("OSD_DOWN");
    (0..20).for_each(|i| op.c.client(0).write(&format!("o{i}"), &[2; 100_000]));
    // Its disk takes what it is sent late.
    let disk = op.host(&format!("osd.{lacks}"));
    op.c.world.set_disk_slowness(disk, 20_000);
    op.c.osd(lacks).start();
    let recovers = |state: &str| state.starts_with("active+recover");
    for _ in 0..2000 {
        let pg = op.json("pg ls")["pg_stats"][0].clone();
        if pg["state"].as_str().is_some_and(recovers) && pg["acting"].as_array().map(Vec::len) == Some(2) {
            break;
        }
        op.c.world.run_for(Duration::from_millis(100));
    }
    op.c.osd(has).crash(Crash::Process);
    op.c.world.set_disk_slowness(disk, 1);
    (has, lacks)
}

#[test]
fn an_object_that_nobody_has_is_there_again_with_its_osd() {
    let mut op = Operator::of(&Spec { pgs: 1, ..Spec::default() });
    op.c.client(0).write("o0", b"old");
    let (has, _) = unfound(&mut op);
    let seen = op.sees("OBJECT_UNFOUND");
    assert!(seen.contains("/20 objects unfound") && seen.contains(" unfound objects"), "{seen}");
    let away = op.follows("OBJECT_UNFOUND", "ceph osd tree down", &[]);
    assert!(away.contains(&format!("osd.{has}")), "{away}");
    op.follows("OSD_DOWN", START, &osd(&has.to_string()));
    op.sees_no("OBJECT_UNFOUND");
    op.sees_health_ok();
    assert_eq!(op.c.client(1).read("o19"), Some(vec![2; 100_000]));
}

#[test]
fn the_newest_version_of_an_object_is_given_up_with_the_osd_that_is_lost() {
    let mut op = Operator::of(&Spec { pgs: 1, ..Spec::default() });
    op.c.client(0).write("o0", b"old");
    let (has, lacks) = unfound(&mut op);
    let seen = op.sees("OBJECT_UNFOUND");
    let pg = seen.lines().find_map(|line| line.trim().strip_prefix("pg ")).expect("a PG").split(' ').next();
    let pg = pg.expect("its id").to_owned();
    op.follows("OBJECT_UNFOUND", "ceph osd lost N --yes-i-really-mean-it", &[("N", &has.to_string())]);
    op.c.world.run_for(Duration::from_secs(3));
    let primary = format!("osd.{lacks}");
    op.follows(
        "OBJECT_UNFOUND",
        "ceph tell OSD mark_unfound_lost PG revert",
        &[("OSD", &primary), ("PG", &pg)],
    );
    op.sees_no("OBJECT_UNFOUND");
    assert!(op.c.client(1).read("o0").is_some());
}
