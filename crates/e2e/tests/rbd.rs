//! Block-device images, as Ceph's `rbd` command has them: everything that it does with images of format 2.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "these tests are about real files, processes and time"
)]

use e2e::{Cluster, Options, Ran, has, run};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

const MIB: u64 = 1 << 20;

/// A cluster with the pool `rbd`.
struct Rbd {
    cluster: Cluster,
}

impl Rbd {
    fn start() -> Self {
        let cluster = Cluster::start(Options { separate: false, ..Options::default() });
        let rbd = Self { cluster };
        rbd.pool("rbd");
        rbd
    }

    fn pool(&self, name: &str) {
        self.cluster.client("ceph", &["osd", "pool", "create", name, "8"]).ok();
        self.ok(&["pool", "init", name]);
    }

    fn run(&self, args: &[&str]) -> Ran {
        self.cluster.client("rbd", args)
    }

    fn ok(&self, args: &[&str]) -> String {
        self.run(args).ok()
    }

    /// Fails with this exit status.
    fn fails(&self, args: &[&str], code: i32) {
        let ran = self.run(args);
        assert_eq!(ran.code, code, "{}\n{}{}", ran.line, ran.stdout, ran.stderr);
    }

    fn json(&self, args: &[&str]) -> Value {
        let text = self.ok(&[args, &["--format", "json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{args:?}: {e}: {text}"))
    }

    /// A key of each entry of a list.
    fn list(&self, args: &[&str], key: &str) -> Vec<String> {
        let list = self.json(args);
        let list = list.as_array().unwrap_or_else(|| panic!("{args:?}: {list}"));
        list.iter().map(|entry| entry[key].as_str().expect("a text").to_owned()).collect()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.cluster.dir().join(name)
    }

    /// Makes an image of some random bytes, and gives them.
    fn import(&self, image: &str, mib: u64) -> Vec<u8> {
        let mut data = vec![0; (mib * MIB) as usize];
        std::fs::File::open("/dev/urandom").and_then(|mut f| f.read_exact(&mut data)).expect("random bytes");
        // Some objects are not there, and one ends early.
        data[4 * MIB as usize..9 * MIB as usize].fill(0);
        let path = self.path("import");
        std::fs::write(&path, &data).expect("writes");
        self.ok(&["import", path.to_str().expect("text"), image]);
        data
    }

    fn export(&self, spec: &str) -> Vec<u8> {
        let path = self.path("export");
        // It does not replace a file.
        let _ = std::fs::remove_file(&path);
        self.ok(&["export", spec, path.to_str().expect("text")]);
        std::fs::read(path).expect("reads")
    }

    fn features(&self, image: &str) -> Vec<String> {
        let info = self.json(&["info", image]);
        let features = info["features"].as_array().expect("a list");
        features.iter().map(|f| f.as_str().expect("a text").to_owned()).collect()
    }

    /// Writes to an image, sequentially from its start.
    fn write(&self, image: &str, size: &str) {
        let how = ["--io-type", "write", "--io-size", "64K", "--io-threads", "1", "--io-total", size];
        let said = self.ok(&[&["bench", image], &how[..]].concat());
        assert!(said.contains("elapsed:"), "{said}");
    }

    /// A client that watches an image until its input ends.
    fn watcher(&self, image: &str) -> Child {
        let mut command = Command::new("rbd");
        command.arg("-c").arg(self.cluster.conf()).args(["watch", image]);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().expect("rbd runs")
    }
}

#[test]
fn images_are_made_filled_resized_and_removed() {
    if !has("ceph") || !has("rbd") {
        return;
    }
    let rbd = Rbd::start();
    assert_eq!(rbd.json(&["ls"]), json!([]));
    rbd.ok(&["create", "plain", "--size", "100M", "--image-feature", "layering"]);
    let all = "layering,exclusive-lock,object-map,fast-diff,deep-flatten";
    rbd.ok(&["create", "full", "--size", "64M", "--image-feature", all]);
    rbd.fails(&["create", "full", "--size", "1M"], 17);
    rbd.fails(&["info", "none"], 2);
    assert_eq!(rbd.features("plain"), ["layering"]);
    assert_eq!(rbd.features("full").join(","), all);
    let info = rbd.json(&["info", "plain"]);
    assert_eq!(
        (&info["size"], &info["objects"], &info["order"]),
        (&json!(100 * MIB), &json!(25), &json!(22))
    );

    let data = rbd.import("data", 20);
    assert_eq!(rbd.list(&["ls", "-l"], "image"), ["data", "full", "plain"]);
    assert!(rbd.export("data") == data, "what was written is read");
    let du = rbd.json(&["du", "data"]);
    let du = &du["images"][0];
    assert_eq!((&du["provisioned_size"], &du["used_size"]), (&json!(20 * MIB), &json!(16 * MIB)));
    let extents = rbd.json(&["diff", "data"]);
    let extents: Vec<_> = extents.as_array().expect("a list").iter().map(|e| e["offset"].as_u64()).collect();
    assert_eq!(extents, [0, 8, 12, 16].map(|mib| Some(mib * MIB)));

    rbd.ok(&["resize", "data", "--size", "30M"]);
    rbd.fails(&["resize", "data", "--size", "10M"], 22);
    rbd.ok(&["resize", "data", "--size", "10M", "--allow-shrink"]);
    assert!(rbd.export("data") == data[..10 * MIB as usize]);
    rbd.ok(&["resize", "data", "--size", "20M"]);
    let tail = rbd.export("data").split_off(10 * MIB as usize);
    assert!(tail.iter().all(|byte| *byte == 0), "what was cut off is gone");
    rbd.ok(&["rename", "data", "renamed"]);
    rbd.fails(&["rename", "plain", "renamed"], 17);
    rbd.ok(&["copy", "renamed", "copied"]);
    assert!(rbd.export("copied")[..10 * MIB as usize] == data[..10 * MIB as usize]);

    rbd.write("full", "16M");
    rbd.ok(&["object-map", "check", "full"]);
    rbd.ok(&["object-map", "rebuild", "full"]);
    assert_eq!(rbd.json(&["du", "full"])["images"][0]["used_size"], json!(16 * MIB));
    rbd.ok(&["feature", "disable", "full", "fast-diff", "object-map", "deep-flatten"]);
    assert_eq!(rbd.features("full"), ["layering", "exclusive-lock"]);
    rbd.ok(&["feature", "enable", "full", "object-map", "fast-diff"]);
    assert_eq!(rbd.json(&["info", "full"])["flags"], json!(["object map invalid", "fast diff invalid"]));
    rbd.ok(&["object-map", "rebuild", "full"]);
    assert_eq!(rbd.json(&["info", "full"])["flags"], json!([]));
    rbd.fails(&["feature", "enable", "full", "deep-flatten"], 22);

    rbd.pool("other");
    let striped = ["--size", "32M", "--stripe-unit", "65536", "--stripe-count", "4", "--data-pool", "other"];
    rbd.ok(&[&["create", "striped"], &striped[..]].concat());
    rbd.write("striped", "4M");
    let info = rbd.json(&["info", "striped"]);
    assert_eq!((&info["stripe_unit"], &info["stripe_count"]), (&json!(65_536), &json!(4)));
    assert_eq!(info["data_pool"], json!("other"));
    for image in ["plain", "full", "renamed", "copied", "striped"] {
        rbd.ok(&["rm", image]);
    }
    let left = rbd.cluster.client("rados", &["-p", "other", "ls"]).ok();
    assert_eq!(left, "rbd_info\n", "no data are left");
    assert_eq!(rbd.json(&["ls"]), json!([]));
}

#[test]
fn snapshots_are_kept_cloned_and_compared() {
    if !has("ceph") || !has("rbd") {
        return;
    }
    let rbd = Rbd::start();
    let data = rbd.import("a", 12);
    rbd.ok(&["snap", "create", "a@one"]);
    rbd.fails(&["snap", "create", "a@one"], 17);
    rbd.write("a", "4M");
    rbd.ok(&["snap", "create", "a@two"]);
    assert_eq!(rbd.list(&["snap", "ls", "a"], "name"), ["one", "two"]);
    assert!(rbd.export("a@one") == data && rbd.export("a@two") != data);
    let changed = rbd.json(&["diff", "a@two", "--from-snap", "one"]);
    assert_eq!(changed, json!([{ "offset": 0, "length": 4 * MIB, "exists": "true" }]));
    let used: Vec<Value> = rbd.json(&["du", "a"])["images"].as_array().expect("a list").clone();
    let used: Vec<_> = used.iter().map(|i| i["used_size"].as_u64().map(|bytes| bytes / MIB)).collect();
    assert_eq!(used, [Some(8), Some(4), Some(0)]);

    // A copy by differences alone.
    let (first, second) = (rbd.path("first"), rbd.path("second"));
    let [first, second] = [first, second].map(|path| path.to_str().expect("text").to_owned());
    rbd.ok(&["export-diff", "a@one", &first]);
    rbd.ok(&["export-diff", "a@two", "--from-snap", "one", &second]);
    rbd.ok(&["create", "b", "--size", "12M"]);
    rbd.ok(&["import-diff", &first, "b"]);
    rbd.ok(&["import-diff", &second, "b"]);
    assert!(rbd.export("b@one") == data && rbd.export("b") == rbd.export("a@two"));
    rbd.ok(&["deep", "copy", "a", "deep"]);
    assert!(rbd.export("deep@one") == data && rbd.export("deep@two") == rbd.export("a@two"));

    rbd.ok(&["snap", "rollback", "a@one"]);
    assert!(rbd.export("a") == data);
    rbd.ok(&["snap", "rename", "a@two", "a@three"]);
    rbd.ok(&["snap", "limit", "set", "a", "--limit", "2"]);
    rbd.fails(&["snap", "create", "a@more"], 122);
    rbd.ok(&["snap", "limit", "clear", "a"]);

    // Clones of both formats: one needs a protected snapshot, the other keeps the snapshot.
    rbd.fails(&["clone", "a@one", "c1", "--rbd-default-clone-format", "1"], 22);
    rbd.ok(&["snap", "protect", "a@one"]);
    rbd.fails(&["snap", "rm", "a@one"], 16);
    rbd.ok(&["clone", "a@one", "c1", "--rbd-default-clone-format", "1"]);
    rbd.ok(&["clone", "a@three", "c2", "--rbd-default-clone-format", "2"]);
    assert_eq!(rbd.list(&["children", "a@one"], "image"), ["c1"]);
    assert_eq!(rbd.list(&["children", "a"], "image"), ["c1", "c2"]);
    let parent = &rbd.json(&["info", "c2"])["parent"];
    assert_eq!(
        (&parent["image"], &parent["snapshot"], &parent["overlap"]),
        (&json!("a"), &json!("three"), &json!(12 * MIB))
    );
    assert_eq!(rbd.json(&["info", "c2"])["op_features"], json!(["clone-child"]));
    assert!(rbd.export("c1") == data && rbd.export("c2") == rbd.export("a@three"));
    rbd.write("c1", "1M");
    assert!(rbd.export("c1")[MIB as usize..] == data[MIB as usize..], "the rest of the object was copied");
    rbd.fails(&["snap", "unprotect", "a@one"], 16);
    rbd.ok(&["snap", "rm", "a@three"]);
    assert_eq!(rbd.list(&["snap", "ls", "a"], "name"), ["one"]);
    assert_eq!(
        rbd.json(&["snap", "ls", "a", "--all"]).as_array().map(Vec::len),
        Some(2),
        "kept for its clone"
    );
    rbd.ok(&["flatten", "c1"]);
    rbd.ok(&["flatten", "c2"]);
    assert!(rbd.export("c1")[MIB as usize..] == data[MIB as usize..]);
    assert!(rbd.export("c2") == rbd.export("b"));
    assert_eq!(rbd.json(&["snap", "ls", "a", "--all"]).as_array().map(Vec::len), Some(1), "removed with it");
    assert_eq!(rbd.json(&["info", "c2"]).get("parent"), None);
    rbd.ok(&["snap", "unprotect", "a@one"]);
    rbd.ok(&["snap", "purge", "a"]);
    assert_eq!(rbd.json(&["snap", "ls", "a"]), json!([]));
    for image in ["a", "c1", "c2"] {
        rbd.ok(&["object-map", "check", image]);
        rbd.ok(&["rm", image]);
    }
    rbd.fails(&["rm", "deep"], 39);
}

#[test]
fn the_trash_namespaces_groups_and_metadata() {
    if !has("ceph") || !has("rbd") {
        return;
    }
    let rbd = Rbd::start();
    let data = rbd.import("a", 10);
    rbd.ok(&["create", "b", "--size", "8M"]);
    rbd.ok(&["trash", "mv", "a"]);
    rbd.fails(&["info", "a"], 2);
    assert_eq!(rbd.list(&["trash", "ls"], "name"), ["a"]);
    let id = rbd.list(&["trash", "ls"], "id").remove(0);
    rbd.ok(&["trash", "restore", &id]);
    assert!(rbd.export("a") == data);
    rbd.ok(&["create", "gone", "--size", "4M"]);
    rbd.ok(&["trash", "mv", "gone"]);
    rbd.ok(&["trash", "purge"]);
    assert_eq!(rbd.json(&["trash", "ls"]), json!([]));

    rbd.ok(&["namespace", "create", "rbd/ns"]);
    rbd.fails(&["namespace", "create", "rbd/ns"], 17);
    assert_eq!(rbd.list(&["namespace", "ls", "rbd"], "name"), ["ns"]);
    rbd.ok(&["create", "rbd/ns/inside", "--size", "4M"]);
    assert_eq!((rbd.json(&["ls", "rbd/ns"]), rbd.json(&["ls"])), (json!(["inside"]), json!(["a", "b"])));
    rbd.fails(&["namespace", "rm", "rbd/ns"], 16);
    rbd.ok(&["rm", "rbd/ns/inside"]);
    rbd.ok(&["namespace", "rm", "rbd/ns"]);
    assert_eq!(rbd.json(&["namespace", "ls", "rbd"]), json!([]));

    rbd.ok(&["group", "create", "g"]);
    rbd.ok(&["group", "image", "add", "g", "a"]);
    rbd.ok(&["group", "image", "add", "g", "b"]);
    assert_eq!(rbd.list(&["group", "image", "ls", "g"], "image"), ["a", "b"]);
    assert_eq!(rbd.json(&["info", "a"])["group"], json!("rbd/g"));
    rbd.ok(&["group", "snap", "create", "g@then"]);
    rbd.ok(&["group", "snap", "rename", "g@then", "when"]);
    assert_eq!(rbd.list(&["group", "snap", "ls", "g"], "snapshot"), ["when"]);
    rbd.write("a", "2M");
    rbd.ok(&["group", "snap", "rollback", "g@when"]);
    assert!(rbd.export("a") == data);
    rbd.ok(&["group", "snap", "rm", "g@when"]);
    rbd.ok(&["group", "image", "rm", "g", "a"]);
    rbd.ok(&["group", "rename", "g", "h"]);
    assert_eq!(rbd.json(&["group", "ls"]), json!(["h"]));
    rbd.ok(&["group", "rm", "h"]);
    assert_eq!(rbd.features("a").last().map(String::as_str), Some("deep-flatten"), "no trace of the group");

    rbd.ok(&["image-meta", "set", "a", "key", "value"]);
    assert_eq!(rbd.ok(&["image-meta", "get", "a", "key"]), "value\n");
    assert_eq!(rbd.json(&["image-meta", "ls", "a"]), json!({ "key": "value" }));
    rbd.ok(&["image-meta", "rm", "a", "key"]);
    rbd.fails(&["image-meta", "get", "a", "key"], 2);

    rbd.ok(&["feature", "enable", "b", "journaling"]);
    rbd.write("b", "4M");
    let journal = rbd.json(&["journal", "status", "--image", "b"]);
    let positions = &journal["registered_clients"][0]["commit_position"]["object_positions"];
    assert_eq!(positions.as_array().map(Vec::len), Some(4), "{journal}");
    assert!(rbd.ok(&["journal", "inspect", "--image", "b"]).contains(", 0 errors"));
    rbd.ok(&["snap", "create", "b@journaled"]);
    rbd.ok(&["snap", "rm", "b@journaled"]);
    rbd.ok(&["feature", "disable", "b", "journaling"]);
    rbd.fails(&["journal", "info", "--image", "b"], 22);

    rbd.ok(&["sparsify", "a"]);
    assert!(rbd.export("a") == data);
    rbd.pool("other");
    rbd.ok(&["migration", "prepare", "a", "other/m"]);
    rbd.ok(&["migration", "execute", "other/m"]);
    rbd.ok(&["migration", "commit", "other/m"]);
    assert_eq!((rbd.json(&["ls"]), rbd.json(&["ls", "other"])), (json!(["b"]), json!(["m"])));
    assert!(rbd.export("other/m") == data);
}

#[test]
fn clients_share_an_image() {
    if !has("ceph") || !has("rbd") {
        return;
    }
    let mut rbd = Rbd::start();
    rbd.ok(&["create", "a", "--size", "32M"]);
    rbd.ok(&["lock", "add", "a", "mine"]);
    let locks = rbd.json(&["lock", "ls", "a"]);
    let locker = locks[0]["locker"].as_str().expect("a locker").to_owned();
    assert_eq!(locks[0]["id"], json!("mine"));
    rbd.fails(&["lock", "add", "a", "other"], 16);
    rbd.ok(&["lock", "rm", "a", "mine", &locker]);
    assert_eq!(rbd.json(&["lock", "ls", "a"]), json!([]));

    // A watched image can not be removed; the watch outlives a crash of all OSDs.
    let mut watcher = rbd.watcher("a");
    let watchers = |rbd: &Rbd| rbd.json(&["status", "a"])["watchers"].as_array().map_or(0, Vec::len);
    while watchers(&rbd) == 0 {}
    rbd.fails(&["rm", "a"], 16);
    rbd.write("a", "4M");
    rbd.cluster.kill_and_restart();
    assert_eq!(watchers(&rbd), 1);
    rbd.ok(&["object-map", "check", "a"]);
    watcher.stdin.take().expect("piped").write_all(b"\n").expect("it reads");
    assert!(watcher.wait().expect("it ends").success());

    // A writer hands its lock to others, and takes it back.
    let write =
        ["bench", "a", "--io-type", "write", "--io-size", "4K", "--io-total", "16M", "--io-threads", "4"];
    let writers: Vec<Child> = (0..2)
        .map(|_| {
            let mut command = Command::new("rbd");
            command.arg("-c").arg(rbd.cluster.conf()).args(write);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command.spawn().expect("rbd runs")
        })
        .collect();
    rbd.ok(&["snap", "create", "a@while"]);
    rbd.ok(&["resize", "a", "--size", "40M"]);
    for mut writer in writers {
        assert!(writer.wait().expect("it ends").success());
    }
    rbd.ok(&["object-map", "check", "a"]);
    assert_eq!(rbd.json(&["info", "a"])["flags"], json!([]));
    assert_eq!(rbd.list(&["snap", "ls", "a"], "name"), ["while"]);

    // The key of a virtual machine, which may do everything in its pool, and nothing else.
    let keyring = rbd.path("vm.keyring");
    let caps = ["mon", "profile rbd", "osd", "profile rbd pool=rbd", "-o"];
    let mut create = rbd.cluster.command("ceph");
    create
        .arg("-c")
        .arg(rbd.cluster.conf())
        .args(["auth", "get-or-create", "client.vm"])
        .args(caps)
        .arg(&keyring);
    run(&mut create).ok();
    let machine = ["--id", "vm", "--keyring", keyring.to_str().expect("text")];
    let by_machine = |args: &[&str]| rbd.run(&[args, &machine].concat());
    by_machine(&["create", "rbd/vm", "--size", "8M"]).ok();
    by_machine(&["bench", "rbd/vm", "--io-type", "write", "--io-size", "64K", "--io-total", "1M"]).ok();
    by_machine(&["snap", "create", "rbd/vm@s"]).ok();
    by_machine(&["snap", "rm", "rbd/vm@s"]).ok();
    by_machine(&["rm", "rbd/vm"]).ok();
    rbd.pool("secret");
    assert_eq!(by_machine(&["create", "secret/vm", "--size", "8M"]).code, 1);
}
