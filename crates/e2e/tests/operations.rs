//! Operations on objects side by side with Ceph's: `data/operations.py` does through librados whatever librados can do, and prints
//! one line a case; `data/operations.txt` holds what it printed on a cluster of Ceph 16.2. Where Nacre differs, the line
//! behind it says so: `  nacre: RESULT -- REASON`.
//!
//! To record anew, start a reference cluster with 3 OSDs and run this test with `NACRE_REFERENCE=/path/to/its/ceph.conf`.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "these tests are about real files, processes and time"
)]

use e2e::{Cluster, Options, has, run};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

const RECORDED: &str = include_str!("data/operations.txt");

/// What a case gives at the reference, and in Nacre where that is something else.
struct Expected {
    reference: String,
    ours: Option<String>,
}

/// By case, in the order of the file.
fn recorded() -> Vec<(String, Expected)> {
    let mut out: Vec<(String, Expected)> = Vec::new();
    for line in RECORDED.lines().filter(|l| !l.starts_with('#')) {
        if let Some(ours) = line.strip_prefix("  nacre: ") {
            assert!(ours.contains(" -- "), "a difference needs a reason: {line}");
            out.last_mut().expect("behind a case").1.ours = Some(ours.to_owned());
        } else {
            let (name, result) = line.split_once(": ").unwrap_or_else(|| panic!("no case: {line}"));
            out.push((name.to_owned(), Expected { reference: result.to_owned(), ours: None }));
        }
    }
    out
}

/// What the program prints on a new pool of a cluster.
fn results(conf: &Path, pool: &str) -> Vec<(String, String)> {
    let mut create = Command::new("ceph");
    create.arg("-c").arg(conf).args(["--connect-timeout", "20", "osd", "pool", "create", pool, "8", "8"]);
    run(&mut create).ok();
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/operations.py");
    let printed = run(Command::new("python3").arg(program).arg(conf).arg(pool)).ok();
    let split = |line: &str| line.split_once(": ").map(|(a, b)| (a.to_owned(), b.to_owned()));
    printed.lines().map(|line| split(line).unwrap_or_else(|| panic!("no case: {line}"))).collect()
}

fn record(conf: &Path) {
    let known: BTreeMap<String, Expected> = recorded().into_iter().collect();
    let header = RECORDED.lines().filter(|l| l.starts_with('#'));
    let mut out: String = header.map(|l| format!("{l}\n")).collect();
    for (name, result) in results(conf, &format!("operations-{}", std::process::id())) {
        let _ = writeln!(out, "{name}: {result}");
        if let Some(ours) = known.get(&name).and_then(|e| e.ours.as_ref()) {
            let _ = writeln!(out, "  nacre: {ours}");
        }
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/operations.txt");
    std::fs::write(file, out).expect("writes");
}

#[test]
fn librados_gets_what_a_cluster_of_ceph_gives_it() {
    if !has("ceph") || !has("python3") {
        return;
    }
    if let Some(conf) = std::env::var_os("NACRE_REFERENCE") {
        return record(Path::new(&conf));
    }
    let cluster = Cluster::start(Options::default());
    let results: BTreeMap<String, String> = results(&cluster.conf(), "operations").into_iter().collect();
    let mut wrong = String::new();
    let expected = recorded();
    for (name, Expected { reference, ours }) in &expected {
        let wanted = ours.as_deref().and_then(|o| o.split_once(" -- ")).map_or(reference.as_str(), |o| o.0);
        let got = results.get(name).map_or("nothing", String::as_str);
        if got != wanted {
            let _ = writeln!(wrong, "{name}: {got}\n  expected {wanted}");
        }
        if ours.is_some() && wanted == reference {
            let _ = writeln!(wrong, "{name}: no difference any more");
        }
    }
    for name in results.keys().filter(|name| !expected.iter().any(|(n, _)| n == *name)) {
        let _ = writeln!(wrong, "{name}: not recorded");
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(expected.len() > 400, "{} cases", expected.len());
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
