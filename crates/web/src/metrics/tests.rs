//! The whole output, read as Prometheus would.

use super::of;
use crate::facts::Facts;
use crate::fake::Fake;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// Samples by name with labels, after a check of the format: each metric has one type before its samples, all
/// of its samples are together, and none comes twice.
fn parse(text: &str) -> BTreeMap<String, f64> {
    let (mut samples, mut types, mut current) = (BTreeMap::new(), BTreeSet::new(), String::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("name and type");
            assert!(["gauge", "counter", "untyped"].contains(&kind), "{line}");
            assert!(types.insert(name.to_owned()), "{name} has two types");
            current = name.to_owned();
            continue;
        }
        if line.starts_with("# HELP ") {
            continue;
        }
        let (name, value) = line.rsplit_once(' ').expect("name and value");
        let bare = name.split('{').next().expect("a name");
        assert_eq!(bare, current, "{line}");
        assert!(bare.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'), "{line}");
        check_labels(&name[bare.len()..]);
        assert!(
            samples.insert(name.to_owned(), value.parse().expect("a number")).is_none(),
            "{name} comes twice"
        );
    }
    samples
}

fn check_labels(text: &str) {
    let Some(mut rest) = text.strip_prefix('{').and_then(|t| t.strip_suffix('}')) else {
        return assert_eq!(text, "");
    };
    loop {
        let (name, value) = rest.split_once("=\"").expect("a label");
        assert!(!name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{text}");
        let mut escaped = false;
        let end = value.find(|c| match c {
            _ if escaped => {
                escaped = false;
                false
            }
            '\\' => {
                escaped = true;
                false
            }
            c => c == '"',
        });
        let end = end.unwrap_or_else(|| panic!("no end: {text}"));
        match value[end + 1..].strip_prefix(',') {
            Some(next) => rest = next,
            None => return assert_eq!(&value[end + 1..], "", "{text}"),
        }
    }
}

fn samples(fake: &Fake) -> BTreeMap<String, f64> {
    parse(&of(&Facts::read(fake, None).expect("facts")))
}

#[test]
fn names_labels_and_values_are_cephs() {
    let all = samples(&Fake::new(2, 4));
    for (name, value) in [
        ("ceph_health_status", 0.0),
        (r#"ceph_osd_up{ceph_daemon="osd.0"}"#, 1.0),
        (r#"ceph_osd_up{ceph_daemon="osd.1"}"#, 0.0),
        (r#"ceph_osd_in{ceph_daemon="osd.1"}"#, 1.0),
        (r#"ceph_osd_stat_bytes_used{ceph_daemon="osd.3"}"#, 250.0),
        (r#"ceph_osd_commit_latency_ms{ceph_daemon="osd.3"}"#, 3.0),
        ("ceph_osd_flag_noout", 1.0),
        ("ceph_osd_flag_nodeep_scrub", 0.0),
        (r#"ceph_mon_quorum_status{ceph_daemon="mon.b"}"#, 0.0),
        (r#"ceph_mgr_status{ceph_daemon="mgr.a"}"#, 1.0),
        (r#"ceph_pool_percent_used{pool_id="1"}"#, 0.25),
        (r#"ceph_pool_rd{pool_id="1"}"#, 7.0),
        (r#"ceph_pg_total{pool_id="1"}"#, 32.0),
        (r#"ceph_pg_active{pool_id="1"}"#, 32.0),
        (r#"ceph_pg_clean{pool_id="1"}"#, 30.0),
        (r#"ceph_pg_degraded{pool_id="1"}"#, 2.0),
        ("ceph_cluster_total_bytes", 1000.0),
        (r#"ceph_cluster_by_class_total_used_bytes{device_class="ssd"}"#, 250.0),
        ("ceph_num_objects_misplaced", 20.0),
        (r#"ceph_pool_recovering_bytes_per_sec{pool_id="1"}"#, 4096.0),
        (r#"ceph_pool_num_bytes_recovered{pool_id="1"}"#, 5000.0),
        (r#"ceph_pool_objects_repaired{pool_id="1"}"#, 1.0),
        (r#"ceph_fs_metadata{data_pools="1",fs_id="1",metadata_pool="1",name="cephfs"}"#, 1.0),
        (r#"ceph_daemon_health_metrics{type="SLOW_OPS",ceph_daemon="osd.2"}"#, 1.0),
    ] {
        assert_eq!(all.get(name), Some(&value), "{name}");
    }
    let pool = concat!(
        r#"ceph_pool_metadata{pool_id="1",name="a \"b\"\\",type="replicated","#,
        r#"description="replica: 3",compression_mode="none",application="Block"}"#
    );
    assert_eq!(all.get(pool), Some(&1.0));
    let disk = |name: &str, daemon: &str| {
        let labels =
            r#"device="/dev/sda",db_device="",wal_device="",instance="host0",devices="sda",device_ids="""#;
        format!("{name}{{ceph_daemon=\"{daemon}\",{labels}}}")
    };
    assert!(all.contains_key(&disk("ceph_disk_occupation", "osd.2")));
    assert!(all.contains_key(&disk("ceph_disk_occupation_human", "osd.0, osd.2")), "one for each disk");
    let mds = concat!(
        r#"ceph_mds_metadata{ceph_daemon="mds.b",fs_id="-1",hostname="host0","#,
        r#"public_addr="10.0.0.2:6900/1",rank="-1",ceph_version="nacre version 0.1.0"}"#
    );
    assert!(all.contains_key(mds), "{:?}", all.keys().filter(|k| k.contains("mds")).collect::<Vec<_>>());
}

#[test]
fn a_check_that_is_over_is_told_as_such() {
    let mut fake = Fake::new(1, 3);
    fake.health = json!({ "status": "HEALTH_WARN", "checks": {
        "SLOW_OPS": { "severity": "HEALTH_WARN", "summary": { "message": "7 slow ops", "count": 7 } },
    }});
    let facts = Facts::read(&fake, None).expect("facts");
    let all = parse(&of(&facts));
    let detail = r#"ceph_health_detail{name="SLOW_OPS",severity="HEALTH_WARN"}"#;
    assert_eq!((all[detail], all["ceph_healthcheck_slow_ops"], all["ceph_health_status"]), (1.0, 7.0, 1.0));
    fake.health = json!({ "status": "HEALTH_OK", "checks": {} });
    let all = parse(&of(&Facts::read(&fake, Some(&facts)).expect("facts")));
    assert_eq!((all[detail], all["ceph_healthcheck_slow_ops"]), (0.0, 0.0));
}

#[test]
fn a_monitor_that_says_nothing_is_no_failure() {
    struct Silent;
    impl crate::Monitors for Silent {
        fn command(&self, _: &serde_json::Value) -> Result<Vec<u8>, crate::Refused> {
            Ok(b"{}".to_vec())
        }

        fn tell(&self, _: &[(String, serde_json::Value)]) -> Vec<Result<Vec<u8>, crate::Refused>> {
            Vec::new()
        }
    }
    let facts = Facts::read(&Silent, None).expect("facts");
    assert!(parse(&of(&facts)).contains_key("ceph_health_status"));
}
