//! Codes of OSDs: away, slow, or on a device that fails.

use crate::operator::Operator;
use sim::cluster::Spec;
use sim::{Crash, Decay};
use std::time::Duration;

#[test]
fn a_dead_osd_is_started_again() {
    let mut op = Operator::new();
    op.c.osd(1).crash(Crash::Process);
    let seen = op.sees("OSD_DOWN");
    assert!(seen.contains("osd.1 (root=default,host=sim-1) is down"), "{seen}");
    op.follows("OSD_DOWN", "nacre osd --conf CONF --id N", &[("CONF", "ceph.conf"), ("N", "1")]);
    op.sees_no("OSD_DOWN");
    op.sees_health_ok();
}

#[test]
fn a_host_without_power_is_switched_on_again() {
    let mut op = Operator::new();
    op.c.osd(2).crash(Crash::Power);
    let seen = op.sees("OSD_HOST_DOWN");
    assert!(seen.contains("host sim-2 (1 osds) is down"), "{seen}");
    let tree = op.follows("OSD_HOST_DOWN", "ceph osd tree down", &[]);
    assert!(tree.contains("osd.2") && !tree.contains("osd.1"), "{tree}");
    op.c.osd(2).start();
    op.sees_no("OSD_HOST_DOWN");
    op.sees_health_ok();
}

#[test]
fn the_osd_of_a_disk_that_refuses_reads_is_taken_in_again_when_the_disk_is_sound() {
    let mut op = Operator::of(&Spec { osds: 5, ..Spec::default() });
    let block = |i: u8| (0..4096).map(|at| i ^ (at % 251) as u8).collect::<Vec<u8>>();
    let name = |i: u8| format!("o{i}");
    (0..60).for_each(|i| op.c.client(0).write(&name(i), &block(i).repeat(16)));
    let bad = op.acting("objects", "o0")[0];
    let led: Vec<u8> = (0..60).filter(|i| op.acting("objects", &name(*i))[0] == bad).collect();
    assert!(led.len() > 12, "{led:?}");
    let host = op.host(&format!("osd.{bad}"));
    op.c.osd(bad).crash(Crash::Process);
    let refuse = |i: &u8| assert!(op.c.world.disk(host, 0).decay(&block(*i), Decay::Unreadable) > 0);
    led.iter().for_each(refuse);
    op.c.osd(bad).start();
    op.sees_health_ok();
    // At once: what is refused before the monitors have looked counts too.
    for i in led {
        assert_eq!(op.c.client(1).read(&name(i)), Some(block(i).repeat(16)), "another OSD has it");
    }
    let seen = op.sees("DEVICE_HEALTH");
    assert!(seen.contains(&format!("osd.{bad} (")) && seen.contains("it refused"), "{seen}");
    // What it refused was written again, and can be read.
    op.follows("DEVICE_HEALTH", "ceph osd in OSD", &[("OSD", &format!("osd.{bad}"))]);
    op.sees_no("DEVICE_HEALTH");
    op.follows(
        "OSD_TOO_MANY_REPAIRS",
        "ceph tell OSD clear_shards_repaired",
        &[("OSD", &format!("osd.{bad}"))],
    );
    op.sees_health_ok();
}

#[test]
fn too_few_osds_for_new_pools_are_more_or_the_pools_have_fewer_copies() {
    let mut op = Operator::new();
    op.ceph("osd pool set objects size 2");
    op.c.osd(2).crash(Crash::Process);
    op.sees("OSD_DOWN");
    op.ceph("osd purge 2 --yes-i-really-mean-it");
    let seen = op.sees("TOO_FEW_OSDS");
    assert!(seen.contains("OSD count 2 < osd_pool_default_size 3"), "{seen}");
    op.follows("TOO_FEW_OSDS", "ceph config set global osd_pool_default_size N", &[("N", "2")]);
    op.sees_no("TOO_FEW_OSDS");
    op.c.world.run_for(Duration::from_secs(10));
    op.sees_health_ok();
}
