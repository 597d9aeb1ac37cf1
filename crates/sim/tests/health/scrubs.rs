//! Codes of scrubs that do not happen, and of copies that rot.

use crate::operator::Operator;
use sim::{Crash, Decay};
use std::time::Duration;

/// The PGs that the lines of a code name.
fn pgs(seen: &str) -> Vec<String> {
    let pg = |line: &str| {
        line.trim().strip_prefix("pg ").and_then(|rest| rest.split(' ').next()).map(str::to_owned)
    };
    seen.lines().filter_map(pg).collect()
}

#[test]
fn pgs_that_nobody_scrubs_are_scrubbed_by_hand_or_when_the_flag_is_gone() {
    for (code, flag, interval, advice) in [
        ("PG_NOT_SCRUBBED", "noscrub", "osd_scrub_max_interval", "ceph pg scrub PG"),
        ("PG_NOT_DEEP_SCRUBBED", "nodeep-scrub", "osd_deep_scrub_interval", "ceph pg deep-scrub PG"),
    ] {
        let mut op = Operator::new();
        ["noscrub", "nodeep-scrub"].iter().for_each(|flag| drop(op.ceph(&format!("osd set {flag}"))));
        op.ceph(&format!("config set global {interval} 300"));
        let seen = op.sees_within(code, Duration::from_secs(1200));
        assert_eq!(pgs(&seen).len(), 4, "{seen}");
        // What somebody orders is done in spite of the flag, which is why it happened.
        for pg in pgs(&seen) {
            op.follows(code, advice, &[("PG", &pg)]);
        }
        op.sees_no(code);
        let other = if flag == "noscrub" { "nodeep-scrub" } else { "noscrub" };
        op.follows("OSDMAP_FLAGS", "ceph osd unset FLAG", &[("FLAG", flag)]);
        op.ceph(&format!("osd unset {other}"));
        op.c.world.run_for(Duration::from_secs(1200));
        op.sees_health_ok();
    }
}

#[test]
fn an_osd_that_gave_wrong_data_begins_anew_with_a_sound_device() {
    let mut op = Operator::new();
    op.ceph("config set global mon_osd_warn_num_repaired 1");
    let block = |i: u8| (0..4096).map(|at| i ^ (at % 251) as u8).collect::<Vec<u8>>();
    (0..3).for_each(|i| op.c.client(0).write(&format!("o{i}"), &block(i).repeat(32)));
    op.c.osd(1).crash(Crash::Process);
    let host = op.host("osd.1");
    for i in 0..3 {
        assert!(op.c.world.disk(host, 0).decay(&block(i), Decay::Flipped) > 0, "o{i} is there");
    }
    op.c.osd(1).start();
    op.sees_health_ok();
    op.ceph("osd deep-scrub all");
    let seen = op.sees("OSD_TOO_MANY_REPAIRS");
    assert!(seen.contains("osd.1 had "), "{seen}");
    op.follows("OSD_TOO_MANY_REPAIRS", "ceph tell OSD clear_shards_repaired", &[("OSD", "osd.1")]);
    op.sees_no("OSD_TOO_MANY_REPAIRS");
    op.sees_health_ok();
}
