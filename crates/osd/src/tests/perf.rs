//! The performance counters count what was done, once.

use super::cluster::{Cluster, write_full};
use msgs::{Extent, Op};
use serde_json::Value;
use std::time::Duration;

/// A counter of an OSD, by group and name.
fn counter(c: &mut Cluster, osd: usize, group: &str, name: &str) -> Value {
    let (code, output) = c.admin(osd, r#"{"prefix":"perf dump"}"#);
    assert_eq!(code, 0);
    let dump: Value = serde_json::from_str(&output).expect("JSON");
    dump[group][name].clone()
}

fn sum(c: &mut Cluster, name: &str) -> u64 {
    (0..3).map(|osd| counter(c, osd, "osd", name).as_u64().expect("a number")).sum()
}

#[test]
fn requests_count_by_what_they_do_and_updates_where_they_come() {
    let mut c = Cluster::new(3, 3, 2, 8);
    (0..4).for_each(|i| c.write(&format!("o{i}"), "12345678"));
    assert_eq!(c.read("o1"), Ok("12345678".into()));
    assert_eq!(c.read("never"), Err(-2));
    let both = vec![Op::Read(Extent::new(0, 5)), write_full("123")];
    assert_eq!(c.op("o2", both).result, 0);
    assert_eq!((sum(&mut c, "op_w"), sum(&mut c, "op_w_in_bytes")), (4, 32));
    assert_eq!((sum(&mut c, "op_r"), sum(&mut c, "op_r_out_bytes")), (2, 8));
    assert_eq!((sum(&mut c, "op_rw"), sum(&mut c, "op_rw_in_bytes")), (1, 3));
    assert_eq!((sum(&mut c, "op"), sum(&mut c, "op_in_bytes"), sum(&mut c, "op_wip")), (7, 35, 0));
    assert_eq!((sum(&mut c, "subop"), sum(&mut c, "subop_in_bytes")), (10, 70), "two replicas each");
    assert_eq!((sum(&mut c, "numpg"), sum(&mut c, "numpg_primary"), sum(&mut c, "numpg_stray")), (24, 8, 0));
    let primary = c.acting("o1")[0];
    let latency = counter(&mut c, primary, "osd", "op_w_latency");
    assert!(latency["avgcount"].as_u64() > Some(0) && latency["sum"].as_f64() > Some(0.0), "{latency}");
    let commits = counter(&mut c, primary, "bluestore", "txc_commit_lat");
    assert!(commits["avgcount"].as_u64() > Some(0), "{commits}");
    assert!(counter(&mut c, primary, "bluestore", "onode_hits").as_u64() > Some(0));
    assert!(counter(&mut c, primary, "bluefs", "wal_total_bytes").as_u64() > Some(0));
}

#[test]
fn recovery_counts_what_it_transfers_and_reports_it() {
    let mut c = Cluster::new(3, 3, 2, 4);
    let victim = c.acting("o3")[0];
    c.write("o3", "old");
    c.kill(victim);
    c.run(Duration::from_secs(1));
    (0..20).for_each(|i| c.write(&format!("o{i}"), "1234567890"));
    c.start(victim);
    c.run_until("it is up", |c| c.map.is_up(maps::OsdId(victim as i32)));
    c.check();
    let (transfers, recovered) = (sum(&mut c, "recovery_ops"), c.counted("objects_recovered"));
    assert!(transfers >= recovered && recovered >= 20, "{transfers} for {recovered}");
    let reported: (u64, u64) = (0..3).fold((0, 0), |sum, osd| {
        let all = c.osd(osd).pgs.values().map(|pg| pg.recovered());
        all.fold(sum, |sum, (objects, bytes)| (sum.0 + objects, sum.1 + bytes))
    });
    assert_eq!((reported.0, reported.1 >= 200), (recovered, true), "{reported:?}");
}
