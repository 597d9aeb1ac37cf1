//! Compare-and-write of block-device images by librbd: one vector with CMPEXT and WRITE on the OSD.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "these tests are about real files, processes and time"
)]

use e2e::{Cluster, Options, has, run};
use std::path::Path;

/// What Ceph 16.2 gives: the result, the offset of the first difference in the image, the content. The call
/// that waits returns the number of bytes, the other 0.
fn recorded(base: u64, bytes: impl Fn(u32) -> u32) -> Vec<String> {
    vec![
        format!("absent {} - right", bytes(512)),
        format!("absent-differs -84 {} right", base + (3 << 20)),
        format!("equal {} - right", bytes(512)),
        format!("differs -84 {} right", base + 100),
        format!("behind {} - right", bytes(512)),
        format!("part {} - right", bytes(7)),
    ]
}

#[test]
fn what_is_compared_and_written_is_one_step_as_with_ceph() {
    if !["ceph", "rbd", "python3"].into_iter().all(has) {
        return;
    }
    let cluster = Cluster::start(Options { separate: false, ..Options::default() });
    cluster.client("ceph", &["osd", "pool", "create", "rbd", "8"]).ok();
    cluster.client("rbd", &["pool", "init", "rbd"]).ok();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/workloads/compare_and_write.py");
    let said = run(cluster.command("python3").arg(source).arg(cluster.conf()).arg("rbd")).ok();
    let wanted = [recorded(0, |bytes| bytes), recorded(1 << 20, |_| 0), vec!["counted 90 0".to_owned()]];
    assert_eq!(said.lines().collect::<Vec<_>>(), wanted.concat());
}
