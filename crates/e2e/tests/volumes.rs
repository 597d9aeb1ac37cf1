//! Subvolumes, clones and snapshot schedules through the active manager: Ceph's `ceph` command, and
//! programs that send what ceph-csi sends with `rados_mgr_command`.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "these tests are about real files, processes and time"
)]

use e2e::{Cluster, Options, Ran, has};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Debian's, which has Ceph's modules.
const PYTHON: &str = "/usr/bin/python3";
const SCRIPT: &str = include_str!("data/volumes.py");

fn is_possible() -> bool {
    has("ceph") && has("python3")
}

/// Runs steps of `data/volumes.py`, as `name` with its keyring if it is given.
fn steps_as(cluster: &Cluster, who: Option<(&str, &Path)>, steps: &[Value]) -> Vec<Value> {
    let mut command = cluster.command(PYTHON);
    command.arg("-c").arg(SCRIPT).arg(cluster.conf());
    if let Some((name, keyring)) = who {
        command.arg(name).arg(keyring);
    }
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("starts");
    let text = Value::from(steps.to_vec()).to_string();
    child.stdin.take().expect("piped").write_all(text.as_bytes()).expect("is read");
    let out = child.wait_with_output().expect("ends");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).expect("results")
}

fn steps(cluster: &Cluster, all: &[Value]) -> Vec<Value> {
    steps_as(cluster, None, all)
}

/// The output of a command that has succeeded.
fn output(result: &Value) -> String {
    assert_eq!(result[0], 0, "{result}");
    result[1].as_str().expect("text").to_owned()
}

fn parsed(result: &Value) -> Value {
    serde_json::from_str(&output(result)).expect("JSON")
}

/// The line that a command has put out.
fn line(result: &Value) -> String {
    output(result).trim_end().to_owned()
}

fn ceph(cluster: &Cluster, line: &str) -> Ran {
    cluster.client("ceph", &line.split_whitespace().collect::<Vec<_>>())
}

fn wait_for_manager(cluster: &Cluster) {
    cluster.wait_for("a manager", |status| status["mgrmap"]["available"] == true);
}

#[test]
fn the_ceph_command_finds_the_manager() {
    if !is_possible() {
        return;
    }
    let cluster = Cluster::start(Options::default());
    wait_for_manager(&cluster);
    assert_eq!(
        ceph(&cluster, "fs volume ls").ok().replace(char::is_whitespace, ""),
        r#"[{"name":"cephfs"}]"#
    );
    assert!(ceph(&cluster, "-s").ok().contains("mgr: a(active, since"));
    let stat: Value = serde_json::from_str(&ceph(&cluster, "mgr stat").ok()).expect("JSON");
    assert_eq!((&stat["available"], &stat["active_name"]), (&json!(true), &json!("a")));
    assert!(ceph(&cluster, "versions").ok().contains("mgr"));
    assert!(ceph(&cluster, "tell mgr pg stat").ok().contains("pgs"));
    assert!(ceph(&cluster, "tell mgr help").ok().contains("fs subvolume create"));

    ceph(&cluster, "fs subvolumegroup create cephfs g --mode 750").ok();
    ceph(&cluster, "fs subvolume create cephfs s 1048576 g --mode 700 --uid 5 --gid 6 --namespace-isolated")
        .ok();
    let path = ceph(&cluster, "fs subvolume getpath cephfs s g").ok();
    assert!(path.trim().starts_with("/volumes/g/s/"), "{path}");
    let info: Value =
        serde_json::from_str(&ceph(&cluster, "fs subvolume info cephfs s g").ok()).expect("JSON");
    let keys: BTreeSet<&str> = info.as_object().expect("an object").keys().map(String::as_str).collect();
    // Those of Ceph 16.2, and `flavor` of later releases.
    let cephs = [
        "atime",
        "bytes_pcent",
        "bytes_quota",
        "bytes_used",
        "created_at",
        "ctime",
        "data_pool",
        "features",
        "flavor",
        "gid",
        "mode",
        "mon_addrs",
        "mtime",
        "path",
        "pool_namespace",
        "state",
        "type",
        "uid",
    ];
    assert_eq!(keys, cephs.into_iter().collect());
    assert_eq!((&info["uid"], &info["gid"], &info["mode"]), (&json!(5), &json!(6), &json!(0o040_700)));
    assert_eq!(
        (&info["bytes_quota"], &info["pool_namespace"]),
        (&json!(1_048_576), &json!("fsvolumens__g_s"))
    );
    assert_eq!(info["mon_addrs"], json!([format!("127.0.0.1:{}", cluster.port())]));
    ceph(&cluster, "fs subvolume create cephfs s 1048576 g --mode 700").ok();
    assert_eq!(ceph(&cluster, "fs subvolume create cephfs s 1 nosuch").code, 2);
    let refused = ceph(&cluster, "fs subvolume getpath cephfs x g");
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("subvolume 'x' does not exist"), "{}", refused.stderr);
    assert_eq!(ceph(&cluster, "fs subvolume ls nosuch").code, 2);
    assert_eq!(ceph(&cluster, "fs subvolumegroup rm cephfs g").code, 39, "it is not empty");
    ceph(&cluster, "fs subvolume rm cephfs s g").ok();
    assert_eq!(ceph(&cluster, "fs subvolume rm cephfs s g").code, 2);
    ceph(&cluster, "fs subvolume rm cephfs s g --force").ok();
    ceph(&cluster, "fs subvolumegroup rm cephfs g").ok();
    assert_eq!(ceph(&cluster, "fs subvolumegroup ls cephfs").ok().trim(), "[]");
}

/// `fs subvolume COMMAND` with the arguments that ceph-csi gives to each.
fn sub(command: &str, more: Value) -> Value {
    let mut step = json!({
        "prefix": format!("fs subvolume {command}"), "vol_name": "cephfs", "group_name": "csi",
        "format": "json",
    });
    for (key, value) in more.as_object().expect("an object") {
        step[key] = value.clone();
    }
    step
}

#[test]
fn the_life_of_a_volume_of_kubernetes() {
    if !is_possible() {
        return;
    }
    let cluster = Cluster::start(Options::default());
    wait_for_manager(&cluster);
    let group = json!({
        "prefix": "fs subvolumegroup create", "vol_name": "cephfs", "group_name": "csi", "format": "json",
    });
    let create = sub("create", json!({ "sub_name": "v", "size": 1 << 20, "mode": "777" }));
    let value = json!({ "sub_name": "v", "key_name": "csi/pv", "value": "pv = 1%" });
    let found = steps(
        &cluster,
        &[
            json!({ "mgr": group }),
            json!({ "mgr": create }),
            json!({ "mgr": create }),
            json!({ "mgr": sub("getpath", json!({ "sub_name": "v" })) }),
            json!({ "mgr": sub("resize", json!({ "sub_name": "v", "new_size": "2097152" })) }),
            json!({ "mgr": sub("metadata set", value) }),
            json!({ "mgr": sub("metadata ls", json!({ "sub_name": "v" })) }),
        ],
    );
    let path = line(&found[3]);
    assert_eq!(parsed(&found[4])[1]["bytes_quota"], 2_097_152);
    assert_eq!(parsed(&found[6]), json!({ "csi/pv": "pv = 1%" }));
    let snap = json!({ "sub_name": "v", "snap_name": "snap" });
    let clone = json!({
        "sub_name": "v", "snap_name": "snap", "target_sub_name": "copy", "target_group_name": "csi",
    });
    let status = json!({
        "prefix": "fs clone status", "vol_name": "cephfs", "clone_name": "copy", "group_name": "csi",
        "format": "json",
    });
    let found = steps(
        &cluster,
        &[
            json!({ "write": format!("{path}/file"), "text": "before" }),
            json!({ "mgr": sub("snapshot create", snap.clone()) }),
            json!({ "write": format!("{path}/file"), "text": "after" }),
            json!({ "mgr": sub("snapshot info", snap.clone()) }),
            json!({ "mgr": sub("snapshot clone", clone.clone()) }),
            json!({ "mgr": sub("snapshot clone", clone) }),
            json!({ "until": status, "has": "complete" }),
            json!({ "mgr": sub("getpath", json!({ "sub_name": "copy" })) }),
            json!({ "mgr": sub("info", json!({ "sub_name": "copy" })) }),
            json!({ "mgr": sub("rm", json!({ "sub_name": "v" })) }),
            json!({ "mgr": sub("rm", json!({ "sub_name": "v", "force": true, "retain_snapshots": true })) }),
            json!({ "mgr": sub("info", json!({ "sub_name": "v" })) }),
            json!({ "mgr": sub("getpath", json!({ "sub_name": "v" })) }),
            json!({ "mgr": sub("snapshot ls", json!({ "sub_name": "v" })) }),
        ],
    );
    assert_eq!((parsed(&found[3])["has_pending_clones"].as_str(), &found[5][0]), (Some("no"), &json!(-17)));
    assert_eq!(parsed(&found[6]), json!({ "status": { "state": "complete" } }));
    let (copy, info) = (line(&found[7]), parsed(&found[8]));
    assert_eq!((&info["type"], &info["bytes_quota"]), (&json!("clone"), &json!(2_097_152)));
    assert_eq!((&found[9][0], &found[10][0]), (&json!(-39), &json!(0)), "it has a snapshot");
    assert_eq!(parsed(&found[11])["state"], "snapshot-retained");
    assert_eq!((&found[12][0], parsed(&found[13])), (&json!(-2), json!([{ "name": "snap" }])));
    is_copied_and_then_nothing_is_left(&cluster, &copy);
}

/// The clone at `copy` has the content of the snapshot; when both are removed, nothing is left.
fn is_copied_and_then_nothing_is_left(cluster: &Cluster, copy: &str) {
    let gone = json!({ "sub_name": "v", "snap_name": "snap", "force": true });
    let info = json!({ "prefix": "fs volume info", "vol_name": "cephfs", "format": "json" });
    let found = steps(
        cluster,
        &[
            json!({ "read": format!("{copy}/file") }),
            json!({ "mgr": sub("snapshot rm", gone) }),
            json!({ "mgr": sub("rm", json!({ "sub_name": "copy", "force": true })) }),
            json!({ "until": info, "has": "\"pending_subvolume_deletions\": 0" }),
            json!({ "mgr": sub("ls", json!({})) }),
            json!({ "list": "/volumes/_deleting" }),
            json!({ "list": "/volumes/csi" }),
        ],
    );
    assert_eq!(found[0], "before");
    assert_eq!(found[4..].iter().map(Value::to_string).collect::<Vec<_>>(), [r#"[0,"[]\n",""]"#, "[]", "[]"]);
}

#[test]
fn a_key_may_what_its_capabilities_say() {
    if !is_possible() {
        return;
    }
    let cluster = Cluster::start(Options::default());
    wait_for_manager(&cluster);
    let add = ["auth", "get-or-create", "client.csi", "mon", "allow r", "mgr", "allow r"];
    let keyring = cluster.dir().join("csi.keyring");
    std::fs::write(&keyring, cluster.client("ceph", &add).ok()).expect("writes");
    let run = |steps: &[Value]| steps_as(&cluster, Some(("client.csi", &keyring)), steps);
    let create = json!({ "prefix": "fs subvolume create", "vol_name": "cephfs", "sub_name": "a" });
    let found = run(&[
        json!({ "mgr": create }),
        json!({ "mgr": { "prefix": "fs subvolume ls", "vol_name": "cephfs" } }),
        json!({ "mgr": { "prefix": "auth ls" } }),
        json!({ "mon": { "prefix": "fs subvolume ls", "vol_name": "cephfs" } }),
    ]);
    let codes: Vec<i64> = found.iter().filter_map(|r| r[0].as_i64()).collect();
    assert_eq!(codes, [-13, 0, -22, -22], "{found:?}");
    ceph_ok(&cluster, &["auth", "caps", "client.csi", "mon", "allow r", "mgr", "allow rw"]);
    assert_eq!(run(&[json!({ "mgr": create })])[0][0], 0);

    let authorize = json!({
        "prefix": "fs subvolume authorize", "vol_name": "cephfs", "sub_name": "a", "auth_id": "guest",
        "tenant_id": "t", "access_level": "r",
    });
    let list = json!({ "prefix": "fs subvolume authorized_list", "vol_name": "cephfs", "sub_name": "a" });
    let evict = json!({
        "prefix": "fs subvolume evict", "vol_name": "cephfs", "sub_name": "a", "auth_id": "guest",
    });
    let deauthorize = json!({
        "prefix": "fs subvolume deauthorize", "vol_name": "cephfs", "sub_name": "a", "auth_id": "guest",
    });
    let found = run(&[json!({ "mgr": authorize }), json!({ "mgr": list })]);
    let secret = line(&found[0]);
    assert_eq!(parsed(&found[1]), json!([{ "guest": "r" }]));
    let caps = ceph(&cluster, "auth get client.guest").ok();
    assert!(caps.contains(&secret) && caps.contains("allow r path=/volumes/_nogroup/a/"), "{caps}");
    let found = run(&[json!({ "mgr": deauthorize }), json!({ "mgr": list }), json!({ "mgr": evict })]);
    assert_eq!((parsed(&found[1]), &found[2][0]), (json!([]), &json!(0)), "{found:?}");
    assert_eq!(ceph(&cluster, "auth get client.guest").code, 2);
}

fn ceph_ok(cluster: &Cluster, args: &[&str]) -> String {
    cluster.client("ceph", args).ok()
}

#[test]
fn schedules_take_snapshots_and_remove_old_ones() {
    if !is_possible() {
        return;
    }
    let cluster = Cluster::start(Options::default());
    wait_for_manager(&cluster);
    let path = {
        ceph(&cluster, "fs subvolume create cephfs s").ok();
        ceph(&cluster, "fs subvolume getpath cephfs s").ok().trim().to_owned()
    };
    let add = |what: &str, more: &[&str]| {
        let mut args = vec!["fs", "snap-schedule"];
        args.extend(what.split(' '));
        args.push(&path);
        args.extend(more);
        cluster.client("ceph", &args)
    };
    // An hour ago, but for a moment: the first is due in a few seconds.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let start = wire::Utime { sec: (now.as_secs() - 3600 + 5) as u32, nsec: 0 }.iso8601();
    add("add", &["1h", &start[..19]]).ok();
    assert_eq!(add("add", &["1h", &start[..19]]).code, 17);
    add("retention add", &["n", "2"]).ok();
    assert_eq!(add("list", &[]).ok().trim(), format!("{path} 1h 2n"));
    let taken = json!({ "prefix": "fs snap-schedule status", "path": path, "format": "json" });
    let found = steps(
        &cluster,
        &[
            json!({ "until": taken, "has": "\"created_count\":1" }),
            json!({ "list": format!("{path}/.snap") }),
        ],
    );
    assert_eq!(parsed(&found[0])[0]["active"], true);
    let names = found[1].as_array().expect("a list");
    let name = names.iter().filter_map(Value::as_str).find(|name| name.starts_with("scheduled-"));
    assert!(name.is_some_and(|name| name.ends_with("_UTC")), "{names:?}");
    add("deactivate", &[]).ok();
    add("remove", &[]).ok();
    assert_eq!(add("list", &[]).code, 2);
}

#[test]
fn another_manager_answers_when_the_active_one_is_killed() {
    if !is_possible() {
        return;
    }
    let cluster = Cluster::start(Options { separate: true, mds: 2, ..Options::default() });
    cluster.wait_for("two managers", |status| {
        status["mgrmap"]["available"] == true && status["mgrmap"]["num_standbys"] == 1
    });
    ceph(&cluster, "fs subvolume create cephfs kept").ok();
    ceph(&cluster, "fs snap-schedule add / 1d").ok();
    let active = || -> String {
        let stat: Value = serde_json::from_str(&ceph(&cluster, "mgr stat").ok()).expect("JSON");
        stat["active_name"].as_str().unwrap_or_default().to_owned()
    };
    let first = active();
    let began = Instant::now();
    cluster.kill(&format!("mds.{first}"));
    let list = ceph(&cluster, "fs subvolume ls cephfs").ok();
    assert!(list.contains("kept"), "{list}");
    // Metadata servers do not wait for the sessions of the one that is gone.
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    let second = active();
    assert_ne!(first, second);
    assert!(ceph(&cluster, "fs snap-schedule list /").ok().contains("/ 1d"));
    let _again = cluster.start_daemon(&format!("mds.{first}"));
    cluster.wait_for("a standby", |status| status["mgrmap"]["num_standbys"] == 1);
    assert_eq!(active(), second, "who is active stays so");
    ceph(&cluster, "mgr fail").ok();
    cluster
        .wait_for("the first one again", |status| status["mgrmap"]["available"] == true && active() == first);
    assert!(ceph(&cluster, "fs subvolume ls cephfs").ok().contains("kept"));
}
