//! Codes of pools: copies, applications, quotas, numbers of PGs.

use crate::operator::{Operator, request, write};
use msgs::osd_flag;
use sim::cluster::Spec;
use std::time::Duration;

#[test]
fn a_pool_with_one_copy_gets_more() {
    let mut op = Operator::new();
    op.ceph("osd pool set objects size 1 --yes-i-really-mean-it");
    let seen = op.sees("POOL_NO_REDUNDANCY");
    assert!(seen.contains("pool 'objects' has no replicas configured"), "{seen}");
    op.follows("POOL_NO_REDUNDANCY", "ceph osd pool set POOL size 3", &[("POOL", "objects")]);
    op.sees_no("POOL_NO_REDUNDANCY");
    op.sees_health_ok();
}

#[test]
fn a_pool_in_use_is_told_what_for() {
    let mut op = Operator::new();
    op.ceph("osd pool create mine 4");
    op.asks(request("mine", "a", write(10), 0));
    let seen = op.sees("POOL_APP_NOT_ENABLED");
    assert!(seen.contains("application not enabled on pool 'mine'"), "{seen}");
    let advice = "ceph osd pool application enable POOL cephfs|rbd|rgw|NAME";
    op.follows("POOL_APP_NOT_ENABLED", advice, &[("POOL", "mine"), ("cephfs|rbd|rgw|NAME", "rbd")]);
    op.sees_no("POOL_APP_NOT_ENABLED");
    op.sees_health_ok();
}

#[test]
fn a_pool_at_its_quota_gets_a_larger_one_or_loses_objects() {
    let mut op = Operator::new();
    op.ceph("osd pool set-quota objects max_objects 3");
    (0..3).for_each(|i| op.c.client(0).write(&format!("o{i}"), b"x"));
    let seen = op.sees("POOL_FULL");
    assert!(seen.contains("pool 'objects' is full (running out of quota)"), "{seen}");
    let with_value = "ceph osd pool set-quota POOL max_bytes|max_objects N";
    let values = [("POOL", "objects"), ("max_bytes|max_objects", "max_objects"), ("N", "5")];
    op.follows("POOL_FULL", with_value, &values);
    op.sees_no("POOL_FULL");
    (3..5).for_each(|i| op.c.client(0).write(&format!("o{i}"), b"x"));
    op.sees("POOL_FULL");
    // As `rados rm --force-full` does.
    for i in 0..2 {
        op.asks(request("objects", &format!("o{i}"), msgs::Op::Delete, osd_flag::FULL_TRY));
    }
    op.sees_no("POOL_FULL");
    op.sees_health_ok();
}

#[test]
fn pools_with_the_wrong_number_of_pgs_are_left_to_the_autoscaler() {
    let mut op = Operator::new();
    op.ceph("config set global mgr/pg_autoscaler/sleep_interval 5");
    for (code, pool, pgs) in [("POOL_TOO_FEW_PGS", "few", 1), ("POOL_TOO_MANY_PGS", "many", 128)] {
        op.ceph(&format!("osd pool create {pool} {pgs} --autoscale-mode=warn"));
        op.ceph(&format!("osd pool application enable {pool} test"));
        let seen = op.sees(code);
        assert!(seen.contains(&format!("Pool {pool} has {pgs} placement groups, should have ")), "{seen}");
        op.follows(code, "ceph osd pool autoscale-status", &[]);
        op.follows(code, "ceph osd pool set POOL pg_autoscale_mode on", &[("POOL", pool)]);
        op.sees_no(code);
        op.c.world.run_for(Duration::from_secs(60));
        op.sees_health_ok();
    }
}

#[test]
fn more_pgs_than_osds_should_have_become_fewer() {
    let mut op = Operator::of(&Spec { osds: 4, ..Spec::default() });
    op.ceph("config set global mon_max_pg_per_osd 55");
    op.ceph("osd pool create p 64");
    op.ceph("osd pool application enable p test");
    op.ceph("osd out 3");
    let seen = op.sees("TOO_MANY_PGS");
    assert!(seen.contains("too many PGs per OSD (68 > max 55)"), "{seen}");
    op.follows("TOO_MANY_PGS", "ceph osd pool autoscale-status", &[]);
    op.follows("TOO_MANY_PGS", "ceph osd pool set POOL pg_num N", &[("POOL", "p"), ("N", "32")]);
    op.sees_no_within("TOO_MANY_PGS", Duration::from_secs(600));
    op.c.world.run_for(Duration::from_secs(300));
    op.sees_health_ok();
}
