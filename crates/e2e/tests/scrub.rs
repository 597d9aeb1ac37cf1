//! A byte decays on one OSD's device: scrub finds it, the tools show it, repair and reads mend it.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests with real sockets and processes"
)]

use e2e::{Administrator, Cluster, Options, has};
use rustix::fs::SeekFrom;
use serde_json::{Value, json};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Flips one bit at every place where a device has `pattern`. Returns their number.
fn rot(device: &Path, pattern: &[u8]) -> usize {
    let file = std::fs::OpenOptions::new().read(true).write(true).open(device).expect("opens");
    let (mut at, mut found) = (0, 0);
    while let Ok(data) = rustix::fs::seek(&file, SeekFrom::Data(at)) {
        let end = rustix::fs::seek(&file, SeekFrom::Hole(data)).expect("an end");
        let mut block = [0; 4096];
        let mut place = data / 4096 * 4096;
        while place < end && file.read_exact_at(&mut block, place).is_ok() {
            if block.starts_with(pattern) {
                file.write_all_at(&[block[100] ^ 1], place + 100).expect("writes");
                found += 1;
            }
            place += 4096;
        }
        at = end;
    }
    found
}

#[test]
#[expect(clippy::too_many_lines, reason = "one cluster, whose state each step builds on")]
fn a_decayed_byte_is_found_shown_and_mended() {
    if ["ceph", "rados"].iter().any(|tool| !has(tool)) {
        return;
    }
    let cluster = Cluster::start(Options { separate: true, ..Options::default() });
    let ceph = |line: &str| cluster.client("ceph", &line.split(' ').collect::<Vec<_>>()).ok();
    let rados = |line: &str| cluster.client("rados", &line.split(' ').collect::<Vec<_>>());
    let list = |what: &str, pg: &str| -> Value {
        serde_json::from_str(&rados(&format!("{what} {pg} --format=json")).ok()).expect("JSON")
    };
    let health = || -> Value { serde_json::from_str(&ceph("health detail -f json")).expect("JSON") };
    let message = |health: &Value, code: &str| health["checks"][code]["summary"]["message"].clone();

    ceph("osd pool create data 1 --autoscale-mode off");
    ceph("osd pool application enable data test");
    ceph("config set osd osd_scrub_auto_repair false");
    let names = ["one", "two", "three"];
    let content = |name: &str| format!("{name}: a line that is found on the device\n").repeat(2000);
    for name in names {
        std::fs::write(cluster.dir().join(name), content(name)).expect("writes");
        rados(&format!("-p data put {name} {name}")).ok();
    }
    let intact = |name: &str| {
        rados(&format!("-p data get {name} back")).ok();
        std::fs::read_to_string(cluster.dir().join("back")).expect("reads") == content(name)
    };
    let found: Value = serde_json::from_str(&ceph("osd map data one -f json")).expect("JSON");
    let pg = found["pgid"].as_str().expect("a PG");
    let acting: Vec<u64> =
        found["acting"].as_array().expect("OSDs").iter().filter_map(Value::as_u64).collect();
    assert_eq!(rados(&format!("list-inconsistent-obj {pg}")).code, 1);
    let unknown = rados(&format!("list-inconsistent-obj {pg}")).stderr;
    assert!(unknown.contains(&format!("No scrub information available for pg {pg}")), "{unknown}");

    let decay = |osd: u64, name: &str| {
        cluster.stop_daemon(&format!("osd.{osd}"));
        let device = cluster.dir().join(format!("osd.{osd}/block"));
        assert!(
            rot(&device, content(name).as_bytes().get(..64).expect("a line")) > 0,
            "{name} is on osd.{osd}"
        );
        let daemon = cluster.start_daemon(&format!("osd.{osd}"));
        cluster.wait_for("a clean PG", |s| {
            s["health"]["status"] == "HEALTH_OK" && s["osdmap"]["num_up_osds"] == 3
        });
        daemon
    };
    let scrubbed = |what: &str| {
        let stamp = || -> String {
            let query: Value = serde_json::from_str(&ceph("pg ls-by-pool data -f json")).expect("JSON");
            query["pg_stats"][0]["last_deep_scrub_stamp"].as_str().expect("a time").to_owned()
        };
        let before = stamp();
        let ran = cluster.client("ceph", &["pg", what, pg]);
        assert_eq!(ran.stderr.trim(), format!("instructing pg {pg} on osd.{} to {what}", acting[0]));
        cluster.wait_for("the scrub", |_| stamp() != before);
    };

    let _second = decay(acting[1], "one");
    scrubbed("deep-scrub");
    cluster.wait_for("HEALTH_ERR", |s| s["health"]["status"] == "HEALTH_ERR");
    let bad = health();
    assert_eq!(message(&bad, "OSD_SCRUB_ERRORS"), "1 scrub errors");
    assert_eq!(message(&bad, "PG_DAMAGED"), "Possible data damage: 1 pg inconsistent");
    assert_eq!(
        bad["checks"]["PG_DAMAGED"]["detail"][0]["message"],
        format!("pg {pg} is active+clean+inconsistent, acting [{},{},{}]", acting[0], acting[1], acting[2])
    );
    let pgs: Value = serde_json::from_str(&ceph("pg ls inconsistent -f json")).expect("JSON");
    assert_eq!(
        (pgs["pg_stats"].as_array().map(Vec::len), &pgs["pg_stats"][0]["pgid"]),
        (Some(1), &json!(pg))
    );
    let objects = list("list-inconsistent-obj", pg);
    let [object] = &objects["inconsistents"].as_array().expect("a list")[..] else { panic!("{objects:#}") };
    assert_eq!(object["object"]["name"], "one");
    assert_eq!(object["union_shard_errors"], json!(["read_error"]));
    assert_eq!(object["selected_object_info"]["size"], content("one").len());
    let bad_shard = |s: &&Value| s["errors"] == json!(["read_error"]);
    let shards: Vec<&Value> = object["shards"].as_array().expect("copies").iter().filter(bad_shard).collect();
    assert_eq!(shards.len(), 1);
    assert_eq!((&shards[0]["osd"], &shards[0]["primary"]), (&json!(acting[1]), &json!(false)));
    assert_eq!(list("list-inconsistent-snapset", pg)["inconsistents"], json!([]));
    assert!(intact("one"), "the primary's copy is whole");

    for code in ["OSD_SCRUB_ERRORS", "PG_DAMAGED"] {
        let listed = cluster.follows(code, "rados list-inconsistent-obj PG", &[("PG", pg)]);
        assert!(listed.contains("read_error"), "{listed}");
    }
    cluster.follows("OSD_SCRUB_ERRORS", "ceph pg repair PG", &[("PG", pg)]);
    cluster.sees_no("OSD_SCRUB_ERRORS");
    cluster.sees_no("PG_DAMAGED");
    cluster.wait_for("HEALTH_OK", |s| s["health"]["status"] == "HEALTH_OK");
    assert_eq!(list("list-inconsistent-obj", pg)["inconsistents"], json!([]));

    // At the primary a read finds it, and mends it at once.
    let _first = decay(acting[0], "two");
    assert!(intact("two"));
    scrubbed("deep-scrub");
    cluster.wait_for("HEALTH_OK", |s| s["health"]["status"] == "HEALTH_OK");

    // Without the option that this test has set the next one would be mended by any scrub.
    ceph("config rm osd osd_scrub_auto_repair");
    let _third = decay(acting[2], "three");
    scrubbed("deep-scrub");
    cluster.wait_for("HEALTH_OK", |s| s["health"]["status"] == "HEALTH_OK");
    assert_eq!(list("list-inconsistent-obj", pg)["inconsistents"], json!([]));
    let instructed = cluster.client("ceph", &["osd", "deep-scrub", "all"]).stderr;
    assert!(instructed.starts_with("instructed osd(s) 0,1,2 to deep-scrub"), "{instructed}");
    assert!(names.iter().all(|name| intact(name)));
}
