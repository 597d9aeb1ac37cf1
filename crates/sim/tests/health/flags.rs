//! Flags that somebody has set and forgotten.

use crate::operator::Operator;

#[test]
fn flags_of_the_cluster_are_cleared() {
    let mut op = Operator::new();
    let all = [
        "pause",
        "noup",
        "nodown",
        "noout",
        "noin",
        "nobackfill",
        "norebalance",
        "norecover",
        "noscrub",
        "nodeep-scrub",
        "notieragent",
        "nosnaptrim",
        "full",
    ];
    // `pause` is two flags in the map.
    for flag in all {
        op.ceph(&format!("osd set {flag} --yes-i-really-mean-it"));
        let seen = op.sees("OSDMAP_FLAGS");
        // The names as it shows them are those that the command takes.
        let shown = seen.split("OSDMAP_FLAGS: ").nth(1).and_then(|rest| rest.split(' ').next());
        for shown in shown.expect("flags").split(',') {
            op.follows("OSDMAP_FLAGS", "ceph osd unset FLAG", &[("FLAG", shown)]);
        }
        op.sees_no("OSDMAP_FLAGS");
    }
    op.sees_health_ok();
}

#[test]
fn flags_of_an_osd_a_host_and_a_class_are_cleared() {
    let mut op = Operator::new();
    for who in ["osd.1", "sim-0", "ssd"] {
        op.ceph(&format!("osd set-group noout,noin {who}"));
        let seen = op.sees("OSD_FLAGS");
        assert!(seen.contains(who), "{seen}");
        op.follows("OSD_FLAGS", "ceph osd unset-group FLAGS WHO", &[("FLAGS", "noout,noin"), ("WHO", who)]);
        op.sees_no("OSD_FLAGS");
    }
    op.sees_health_ok();
}
