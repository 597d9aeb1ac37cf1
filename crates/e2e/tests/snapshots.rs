//! Snapshots through librados: unmodified clients see what they see of Ceph 16.2, whose answers are in
//! `data/snapshots.txt`.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests with real sockets and processes"
)]

use e2e::{Cluster, Options, has, run};
use std::path::Path;
use std::process::Command;

/// Debian's, which has Ceph's modules.
const PYTHON: &str = "/usr/bin/python3";

/// Lines in which Nacre differs: Ceph's, Nacre's, why.
const DIFFERENCES: &[(&str, &str, &str)] = &[(
    "listed: ['a', 'b']",
    "listed: ['b']",
    "Ceph lists deleted objects that have snapshots; nobody can open them",
)];

#[test]
fn clients_see_of_snapshots_what_they_see_of_ceph() {
    if !has("ceph") || !has("rados") {
        return;
    }
    let cluster = Cluster::start(Options::default());
    for pool in ["managed", "pooled"] {
        cluster.client("ceph", &["osd", "pool", "create", pool, "8"]).ok();
    }
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let mut python = Command::new(PYTHON);
    python.arg(data.join("snapshots.py")).arg(cluster.conf()).args(["managed", "pooled"]);
    let said = run(python.current_dir(cluster.dir())).ok();
    let expected = std::fs::read_to_string(data.join("snapshots.txt")).expect("the reference's answers");
    let ours = |line: &str| {
        DIFFERENCES.iter().find(|(ceph, ..)| *ceph == line).map(|(_, ours, _)| (*ours).to_owned())
    };
    let expected: String = expected.lines().map(|l| ours(l).unwrap_or_else(|| l.to_owned()) + "\n").collect();
    let differing = said.lines().zip(expected.lines()).position(|(a, b)| a != b);
    assert_eq!(said, expected, "from line {:?} on", differing.map(|line| line + 1));
}
