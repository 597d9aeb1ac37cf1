//! `nacre inspect` on a file system whose metadata server is dead: everything is shown as text and as JSON,
//! and what is damaged is named.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests with real files and processes"
)]

use e2e::{Cluster, Mount, Options, Ran, has, nacre};
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

const POOL: &str = "cephfs_metadata";

fn inspect(cluster: &Cluster, words: &[&str]) -> Ran {
    let conf = cluster.conf();
    let conf = conf.to_str().expect("a path in UTF-8");
    nacre(&[&["inspect"], words, &["--conf", conf]].concat())
}

fn json(cluster: &Cluster, words: &[&str]) -> Value {
    let ran = inspect(cluster, &[words, &["--format", "json"]].concat());
    serde_json::from_str(&ran.stdout).unwrap_or_else(|e| panic!("{e}: {ran:?}"))
}

/// Text that has all of these, of a command that finds nothing damaged.
fn assert_shown(cluster: &Cluster, words: &[&str], parts: &[&str]) {
    let text = inspect(cluster, words).ok();
    parts.iter().for_each(|part| assert!(text.contains(part), "{words:?} lacks {part}:\n{text}"));
}

/// Text that has all of these, of a command that fails because something is damaged.
fn assert_damaged(cluster: &Cluster, words: &[&str], parts: &[&str]) {
    let ran = inspect(cluster, words);
    assert!(ran.code == 1 && ran.stderr.contains("damaged in "), "{ran:?}");
    parts
        .iter()
        .for_each(|part| assert!(ran.stdout.contains(part), "{words:?} lacks {part}:\n{}", ran.stdout));
}

fn make(path: &Path, content: &str) {
    fs::write(path, content).expect("writes");
    File::open(path).and_then(|file| file.sync_all()).expect("syncs");
}

fn sync(dir: &Path) {
    File::open(dir).and_then(|dir| dir.sync_all()).expect("syncs");
}

/// The entries of a listing: name, snapshot, and whether it is from the journal.
fn entries(listing: &Value) -> Vec<(String, String, bool)> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let frags = listing["frags"].as_array().expect("fragments").iter();
    let all = frags.flat_map(|frag| frag["dentries"].as_array().expect("entries"));
    let mut out: Vec<_> =
        all.map(|e| (text(&e["dname"]), text(&e["snap_last"]), e["from_journal"] == true)).collect();
    out.sort();
    out
}

/// Makes `/dir`, of which some is written back and the rest only in the journal. Returns the inode number of
/// `early`, and the mount, whose session is open.
fn fill(cluster: &Cluster) -> (u64, Mount) {
    let mount = Mount::new(cluster, "mount");
    let dir = mount.point().join("dir");
    fs::create_dir(&dir).expect("makes");
    make(&dir.join("early"), "12345");
    make(&dir.join("changed"), "1");
    fs::create_dir(dir.join(".snap/monday")).expect("makes a snapshot");
    make(&dir.join("changed"), "123");
    symlink("early", dir.join("symbolic")).expect("links");
    sync(&dir);
    let ino = fs::metadata(dir.join("early")).expect("is there").ino();
    // The session has ended then, and what it held is given back.
    nacre(&["umount", mount.point().to_str().expect("a path in UTF-8")]).ok();
    drop(mount);
    let mds = cluster.active_mds().expect("one serves");
    cluster.client("ceph", &["tell", &mds, "flush", "journal"]).ok();
    let mount = Mount::new(cluster, "mount");
    let dir = mount.point().join("dir");
    make(&dir.join("late"), "x");
    fs::hard_link(dir.join("late"), mount.point().join("second")).expect("links");
    fs::remove_file(dir.join("symbolic")).expect("removes");
    sync(&dir);
    sync(mount.point());
    (ino, mount)
}

#[test]
fn metadata_is_shown_without_a_metadata_server_and_damage_is_named() {
    if !Mount::is_possible() || !has("ceph") || !has("rados") {
        return;
    }
    let cluster = Cluster::start(Options { separate: true, ..Options::default() });
    let (ino, _mount) = fill(&cluster);
    cluster.kill("mds.a");

    let entry = |name: &str, snap: &str, journal| (name.to_owned(), snap.to_owned(), journal);
    let listing = json(&cluster, &["dir", "/dir"]);
    let snap = listing["inode"]["snaprealm"]["snaps"][0]["snapid"].to_string();
    let all = entries(&listing);
    assert!(all.contains(&entry("early", "head", false)), "{all:?}");
    assert!(all.contains(&entry("changed", &snap, false)), "{all:?}");
    assert!(all.contains(&entry("late", "head", true)), "{all:?}");
    assert!(!all.iter().any(|(name, ..)| name == "symbolic"), "{all:?}");
    assert_shown(&cluster, &["dir", "/dir"], &["stored  [0,head]", "file    primary", " early\n", "journal"]);
    assert_shown(&cluster, &["dir", "1", "--stored"], &[" dir\n", "directory 0x1 (1)"]);

    let found = json(&cluster, &["inode", &ino.to_string()]);
    assert_eq!((&found["path"], &found["inode"]["size"]), (&"/dir/early".into(), &5.into()));
    assert_eq!(found["backtrace"][1]["dname"], "dir");
    assert_shown(&cluster, &["inode", "/dir/late"], &["path         /dir/late", "as the journal changes it"]);
    assert_shown(&cluster, &["inode", "/second"], &["path         /dir/late", "  nlink            2"]);

    let journal = json(&cluster, &["journal"]);
    assert_eq!((&journal["integrity"], &journal["damage"]), (&"OK".into(), &Value::Array(Vec::new())));
    let events = journal["events"].as_array().expect("events");
    assert!(events.iter().any(|event| event.to_string().contains("\"late\"")), "{events:?}");
    assert_shown(&cluster, &["journal"], &["/late = ", "Overall journal integrity: OK"]);
    assert_shown(&cluster, &["journal", "--summary"], &["Events by type:\n", "write position: object "]);

    let sessions = json(&cluster, &["sessions"]);
    let name = &sessions["sessions"][0]["auth_name"];
    assert_eq!(name, "client.admin", "{sessions}");
    assert_shown(&cluster, &["sessions"], &["client.admin", "mount point /"]);
    assert_eq!(json(&cluster, &["tables"])["snaptable"]["snaps"][0]["name"], "monday");
    assert_shown(&cluster, &["tables"], &["the next number is 0x1", ": monday", "strays, 600.00000000: "]);

    let object = found["dentry"]["object"].as_str().expect("an object");
    let key = found["dentry"]["key"].as_str().expect("a key");
    damage_and_look(&cluster, object, key);
    damage_the_journal_and_look(&cluster, &events[0]);
}

/// Overwrites the entry of `early`.
fn damage_and_look(cluster: &Cluster, object: &str, key: &str) {
    cluster.client("rados", &["-p", POOL, "setomapval", object, key, "rubbish"]).ok();
    let at = format!("DAMAGED: {POOL}/{object} key {key}: it does not decode");
    let parts =
        [&at[..], "its 7 bytes are 72756262697368", "to do: ", "docs/damage.md", " changed\n", " late\n"];
    assert_damaged(cluster, &["dir", "/dir"], &parts);
    assert_damaged(cluster, &["inode", "/dir/early"], &[&at]);
    let listing = json(cluster, &["dir", "/dir"]);
    let damage = &listing["damage"][0];
    assert_eq!((&damage["damage_type"], &damage["key"]), (&"dentry".into(), &key.into()), "{damage}");
    assert!(entries(&listing).iter().all(|(name, ..)| name != "early"), "{listing}");
}

/// Changes a byte of the journal's first event.
fn damage_the_journal_and_look(cluster: &Cluster, first: &Value) {
    let object = format!("200.{:08x}", first["object"].as_u64().expect("a number"));
    let path = cluster.dir().join("journal-object");
    let file = path.to_str().expect("a path in UTF-8");
    cluster.client("rados", &["-p", POOL, "get", &object, file]).ok();
    let mut bytes = fs::read(&path).expect("was written");
    bytes[first["offset"].as_u64().expect("a number") as usize + 24] ^= 1;
    fs::write(&path, bytes).expect("writes");
    cluster.client("rados", &["-p", POOL, "put", &object, file]).ok();
    let at = format!("DAMAGED: {POOL}/{object}: bytes 0 to");
    let parts = [&at[..], "has a wrong checksum", "is missing", "/late = ", "integrity: DAMAGED"];
    assert_damaged(cluster, &["journal"], &parts);
    let journal = json(cluster, &["journal", "--summary"]);
    assert_eq!(
        (&journal["integrity"], &journal["damage"][0]["damage_type"]),
        (&"DAMAGED".into(), &"journal".into())
    );
}
