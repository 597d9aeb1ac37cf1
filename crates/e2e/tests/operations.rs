//! Operations on objects side by side with Ceph's (see `e2e::recorded`): programs that use librados in
//! several ways do whatever these can do, and print one line a case, or are compared line by line.
//! - `data/operations.py`: librados' C interface.
//! - `data/bindings.py`: Ceph's module for Python.
//! - `data/tool.py`: the `rados` command.
//! - `data/pools.py`: the module for Python, while its pool changes.
//! - `data/rbd_class.py`: methods of the class `rbd`, through the module for Python.
//! - `data/cut_clones.py`: the `rbd` command, whose client may not do all of an operation.
//! - [`vectors`]: vectors as the wire has them, with what librados keeps from programs in C.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "these tests are about real files, processes and time"
)]

#[path = "data/vectors.rs"]
mod vectors;

use e2e::recorded::{Case, cases, compare, differences, record, reference};
use e2e::{Cluster, Options, has, run};
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Debian's, which has Ceph's modules.
const PYTHON: &str = "/usr/bin/python3";

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn make_pool(conf: &Path, pool: &str) {
    let mut create = Command::new("ceph");
    create.arg("-c").arg(conf).args(["--connect-timeout", "20", "osd", "pool", "create", pool, "8", "8"]);
    run(&mut create).ok();
}

/// Compares, or records, the `results` of a new pool of a cluster.
fn side_by_side(name: &str, at_least: usize, results: impl Fn(&Path, &str) -> Vec<Case>) {
    if !has("ceph") || !has("rados") {
        return;
    }
    let file = data(&format!("{name}.txt"));
    if let Some(conf) = reference() {
        let pool = format!("{name}-{}", std::process::id());
        make_pool(&conf, &pool);
        return record(&file, results(&conf, &pool));
    }
    let cluster = Cluster::start(Options::default());
    make_pool(&cluster.conf(), name);
    compare(&file, at_least, results(&cluster.conf(), name));
}

/// The output of a program, a line a case.
fn program(name: &str) -> impl Fn(&Path, &str) -> Vec<Case> {
    move |conf, pool| cases(&run(Command::new(PYTHON).arg(data(name)).arg(conf).arg(pool)).ok())
}

#[test]
fn librados_gets_what_a_cluster_of_ceph_gives_it() {
    side_by_side("operations", 650, program("operations.py"));
}

#[test]
fn the_python_module_gets_what_a_cluster_of_ceph_gives_it() {
    side_by_side("bindings", 220, program("bindings.py"));
}

#[test]
fn the_rados_command_gets_what_a_cluster_of_ceph_gives_it() {
    side_by_side("tool", 130, program("tool.py"));
}

#[test]
fn programs_live_through_changes_of_their_pool_as_with_a_cluster_of_ceph() {
    side_by_side("pools", 22, program("pools.py"));
}

#[test]
fn methods_of_block_devices_give_what_those_of_a_cluster_of_ceph_do() {
    side_by_side("rbd_class", 820, program("rbd_class.py"));
}

#[test]
fn clones_that_were_flattened_in_part_go_on_as_with_a_cluster_of_ceph() {
    // A program of these takes no longer than a program may.
    let first_letters = ["f", "r", "u", "o", "l", "s", "p"];
    side_by_side("cut_clones", 39, |conf, pool| {
        let some = |letter: &&str| {
            let mut command = Command::new(PYTHON);
            cases(&run(command.arg(data("cut_clones.py")).arg(conf).arg(pool).arg(letter)).ok())
        };
        first_letters.iter().flat_map(some).collect()
    });
}

#[test]
fn every_difference_is_documented() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations.md");
    let docs = std::fs::read_to_string(docs).expect("docs/operations.md");
    let names = ["operations", "bindings", "tool", "pools", "rbd_class", "cut_clones", "vectors"];
    let rows: Vec<String> =
        names.iter().flat_map(|name| differences(&data(&format!("{name}.txt")))).collect();
    let documented: Vec<&str> =
        docs.lines().filter(|line| line.starts_with("| `") && line.matches('|').count() > 4).collect();
    assert_eq!(documented, rows, "\nthe table should be:\n{}", rows.join("\n"));
}

#[test]
fn vectors_get_what_a_cluster_of_ceph_gives_them() {
    side_by_side("vectors", 240, vectors::results);
}

#[test]
fn the_rados_command_watches_notifies_and_locks() {
    if !has("rados") {
        return;
    }
    let mut cluster = Cluster::start(Options { separate: false, ..Options::default() });
    cluster.client("ceph", &["osd", "pool", "create", "p", "8"]).ok();
    let rados = |cluster: &Cluster, args: &[&str]| cluster.client("rados", &[&["-p", "p"], args].concat());
    rados(&cluster, &["create", "o"]).ok();
    let mut watch = Command::new("rados");
    watch.arg("-c").arg(cluster.conf()).args(["-p", "p", "watch", "o"]);
    let mut watch = watch.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("rados runs");
    let mut said = BufReader::new(watch.stdout.take().expect("piped")).lines().map_while(Result::ok);
    assert!(said.next().expect("a line").contains("press enter to exit"));
    let watchers = rados(&cluster, &["listwatchers", "o"]).ok();
    assert!(watchers.contains("watcher=") && watchers.lines().count() == 1, "{watchers}");
    let answered = rados(&cluster, &["notify", "o", "hello"]).ok();
    assert!(answered.contains("reply client."), "{answered}");
    assert!(said.by_ref().any(|line| line.starts_with("NOTIFY")), "the watcher was told");
    // The watch is there after a crash of all, and the watcher comes back to it.
    cluster.kill_and_restart();
    let again = rados(&cluster, &["listwatchers", "o"]).ok();
    assert_eq!(again, watchers);
    let answered = rados(&cluster, &["notify", "o", "again"]).ok();
    assert!(answered.contains("reply client."), "{answered}");
    watch.stdin.take().expect("piped").write_all(b"\n").expect("it reads");
    assert!(watch.wait().expect("it ends").success());
    assert_eq!(rados(&cluster, &["listwatchers", "o"]).ok(), "");

    let get = ["lock", "get", "o", "L", "--lock-cookie", "c"];
    rados(&cluster, &get).ok();
    assert_ne!(rados(&cluster, &get).code, 0, "somebody else has it");
    let list = rados(&cluster, &["lock", "list", "o", "--format", "json"]).ok();
    assert!(list.contains("\"L\""), "{list}");
    let info = rados(&cluster, &["lock", "info", "o", "L", "--format", "json"]).ok();
    let info: serde_json::Value = serde_json::from_str(&info).expect("JSON");
    let locker = info["lockers"][0]["name"].as_str().expect("a locker").to_owned();
    rados(&cluster, &["lock", "break", "o", "L", &locker, "--lock-cookie", "c"]).ok();
    rados(&cluster, &get).ok();
}
