//! `nacre fs bench` on a mount of ours.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests with real files and processes"
)]

use e2e::{Cluster, Mount, Options, nacre, names};
use std::fs;

#[test]
fn all_shapes_are_measured_and_nothing_stays() {
    if !Mount::is_possible() {
        return;
    }
    let cluster = Cluster::start(Options::default());
    let mount = Mount::new(&cluster, "mount");
    let dir = mount.point().to_str().expect("text");
    let (json, svg) = (cluster.dir().join("json"), cluster.dir().join("svg"));
    let mut line = vec!["fs", "bench", dir, "--threads", "3", "--files", "5", "--size", "1M", "--ops", "7"];
    line.extend(["--rounds", "2", "--format", "json", "--svg", svg.to_str().expect("text")]);
    let text = nacre(&line).ok();
    let result: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(result["file_system"], "fuse.nacre");
    let measured = result["results"].as_array().expect("a list");
    assert_eq!(measured.len(), 20 + 7 + 4 + 2 + 16);
    for one in measured {
        assert_eq!(one["rounds"].as_array().map(Vec::len), Some(2), "{one}");
        assert!(one["operations"].as_u64() >= Some(2 * 3), "{one}");
        let latency = |key: &str| one["latency_us"][key].as_f64().expect("a number");
        let sorted = ["p50", "p99", "p99.9", "max"].map(latency);
        assert!(sorted.is_sorted() && sorted[0] > 0.0, "{one}");
    }
    assert_eq!(names(mount.point()), Vec::<String>::new());
    let chart = fs::read_to_string(svg).expect("was drawn");
    assert!(chart.starts_with("<?xml") && chart.ends_with("</svg>\n"));
    fs::write(&json, text).expect("writes");
    let json = json.to_str().expect("text");
    let table = nacre(&["fs", "compare", json, json]).ok();
    assert!(table.matches("1.00").count() >= measured.len(), "{table}");
}
