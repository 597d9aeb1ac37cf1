//! A copy of a PG is exported from the store of an OSD that is stopped and imported into that of another one.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests with real sockets and processes"
)]

use e2e::{Cluster, Options, Ran, has, nacre};
use std::path::Path;

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// One line on standard error that contains each of `words`.
fn refuses(ran: Ran, words: &[&str]) {
    assert_ne!(ran.code, 0, "{}: {}", ran.line, ran.stdout);
    assert_eq!(ran.stderr.lines().count(), 1, "{}: {}", ran.line, ran.stderr);
    for word in words {
        assert!(ran.stderr.contains(word), "no `{word}` in: {}", ran.stderr);
    }
}

fn export(target: &Path, pg: &str, file: &Path) -> Ran {
    nacre(&["store", "export", text(target), "--pg", pg, text(file)])
}

fn import(target: &Path, file: &Path) -> Ran {
    nacre(&["store", "import", text(target), text(file)])
}

#[test]
fn the_only_copy_of_a_pg_serves_from_another_osd() {
    if ["ceph", "rados"].iter().any(|tool| !has(tool)) {
        return;
    }
    let cluster = Cluster::start(Options { separate: true, ..Options::default() });
    let ceph = |line: &str| cluster.client("ceph", &line.split(' ').collect::<Vec<_>>()).ok();
    let rados = |args: &[&str]| cluster.client("rados", &[&["-p", "single"], args].concat());
    ceph("osd pool create single 1 1 replicated --size 1 --autoscale-mode off");
    ceph("osd pool set single size 1 --yes-i-really-mean-it");
    ceph("osd pool set single min_size 1");
    let big: Vec<u8> = (0..3_000_000u32).map(|i| (i / 7) as u8).collect();
    std::fs::write(cluster.dir().join("big"), &big).expect("writes");
    let path = cluster.dir().join("big");
    rados(&["put", "big", text(&path)]).ok();
    rados(&["create", "small"]).ok();
    rados(&["setxattr", "small", "colour", "green"]).ok();
    for i in 0..50 {
        rados(&["setomapval", "small", &format!("key-{i}"), &format!("value-{i}")]).ok();
    }
    let found: serde_json::Value = serde_json::from_str(&ceph("osd map single big -f json")).expect("JSON");
    let (pg, from) = (found["pgid"].as_str().expect("a PG"), found["acting"][0].as_u64().expect("an OSD"));
    let to = (from + 1) % 3;
    let [source, target] = [from, to].map(|id| cluster.dir().join(format!("osd.{id}")));

    let file = cluster.dir().join("pg.export");
    refuses(export(&source, pg, &file), &["in use", &format!("osd.{from} of cluster")]);
    cluster.stop_daemon(&format!("osd.{from}"));
    refuses(export(&source, "9.0", &file), &[&format!("osd.{from} has no PG 9.0"), pg]);
    let said = export(&source, pg, &file).ok();
    assert!(said.contains(&format!("PG {pg} of osd.{from}")) && said.contains("2 objects"), "{said}");
    refuses(export(&source, pg, &file), &["cannot create", "pg.export"]);
    let again = cluster.dir().join("again.export");
    export(&source, pg, &again).ok();
    let bytes = std::fs::read(&file).expect("reads");
    assert!(bytes == std::fs::read(&again).expect("reads"), "the same copy gives the same file");

    // The cluster goes on without it, so that the importing OSD has newer maps than the export.
    cluster.wait_for("its absence", |status| status["osdmap"]["num_up_osds"] == 2);
    ceph("osd set noout");
    cluster.stop_daemon(&format!("osd.{to}"));
    let mut damaged = bytes.clone();
    damaged[bytes.len() / 2] ^= 16;
    let broken = cluster.dir().join("broken.export");
    std::fs::write(&broken, &damaged).expect("writes");
    refuses(import(&target, &broken), &["broken.export", "damaged", "checksum"]);
    std::fs::write(&broken, &bytes[..bytes.len() - 5]).expect("writes");
    refuses(import(&target, &broken), &["damaged", "too early"]);
    std::fs::write(&broken, [b"NACREPG\x07", &bytes[8..]].concat()).expect("writes");
    refuses(import(&target, &broken), &["format 7"]);
    refuses(import(&source, &file), &["has a copy of PG", "nothing was changed"]);
    let said = import(&target, &file).ok();
    assert!(said.contains(&format!("is at osd.{to} now: 2 objects")), "{said}");
    refuses(import(&target, &file), &["has a copy of PG"]);
    assert!(nacre(&["store", "check", text(&target)]).ok().contains("sound"));
    // The same objects, byte for byte; heads and the PG's records differ by the maps in between.
    let back = cluster.dir().join("back.export");
    assert!(export(&target, pg, &back).ok().contains("2 objects"));

    // The first OSD returns with an empty disk instead of the lost one: the PG is served from the copy.
    let _copy = cluster.start_daemon(&format!("osd.{to}"));
    ceph("osd unset noout");
    ceph(&format!("osd out {from}"));
    std::fs::rename(source.join("block"), cluster.dir().join("lost")).expect("renames");
    let _replaced = cluster.start_daemon(&format!("osd.{from}"));
    cluster.wait_for("all to be up", |status| status["osdmap"]["num_up_osds"] == 3);
    rados(&["get", "big", text(&back)]).ok();
    assert!(std::fs::read(&back).expect("reads") == big, "the content is that of the first OSD");
    assert_eq!(rados(&["getxattr", "small", "colour"]).ok().trim(), "green");
    assert_eq!(rados(&["listomapkeys", "small"]).ok().lines().count(), 50);
}
