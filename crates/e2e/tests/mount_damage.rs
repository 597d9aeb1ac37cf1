//! A directory whose object is gone: what is in it fails with EIO, the rest goes on, the cluster's health
//! says so, and an administrator makes it usable again.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests with real files, processes and time"
)]

use e2e::{Administrator, Cluster, Mount, Options, has};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

const EIO: i32 = 5;
/// The cluster's health follows in less.
const PATIENCE: Duration = Duration::from_secs(30);

/// A command for the active metadata server.
fn tell(cluster: &Cluster, words: &[&str]) -> Value {
    let mds = cluster.active_mds().expect("one serves");
    let args: Vec<&str> = ["tell", &mds].iter().copied().chain(words.iter().copied()).collect();
    let text = cluster.client("ceph", &args).ok();
    if text.trim().is_empty() { Value::Null } else { serde_json::from_str(&text).expect("JSON") }
}

/// Scrubs a path: the counts at the end.
fn scrub(cluster: &Cluster, path: &str, options: &str) -> Value {
    scrubbed(cluster, &tell(cluster, &["scrub", "start", path, options])["scrub_tag"])
}

/// Waits for the end of a scrub: its counts.
fn scrubbed(cluster: &Cluster, tag: &Value) -> Value {
    let began = Instant::now();
    loop {
        let status = tell(cluster, &["scrub", "status"]);
        if status["last"]["tag"] == *tag {
            return status["last"]["progress"].clone();
        }
        assert!(began.elapsed() < PATIENCE, "{status}");
    }
}

fn mds_name(cluster: &Cluster) -> String {
    cluster.active_mds().expect("one serves").trim_start_matches("mds.").to_owned()
}

/// Waits until a directory has counted all bytes below it.
fn wait_for_bytes(dir: &Path, bytes: &str) {
    let began = Instant::now();
    loop {
        let mut buffer = [0; 64];
        let len = rustix::fs::getxattr(dir, "ceph.dir.rbytes", &mut buffer).expect("a directory's bytes");
        if buffer[..len] == *bytes.as_bytes() {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{} bytes", buffer[..len].escape_ascii());
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn list(dir: &Path) -> Result<Vec<String>, Option<i32>> {
    let entries = fs::read_dir(dir).map_err(|e| e.raw_os_error())?;
    let name = |entry: std::io::Result<fs::DirEntry>| {
        entry.map(|e| e.file_name().to_string_lossy().into_owned()).map_err(|e| e.raw_os_error())
    };
    entries.map(name).collect()
}

#[test]
fn a_lost_directory_is_damaged_and_can_be_given_up() {
    if !Mount::is_possible() || !has("ceph") || !has("rados") {
        return;
    }
    let cluster = Cluster::start(Options::default());
    let mount = Mount::new(&cluster, "mount");
    let at = |name: &str| mount.point().join(name);
    for dir in ["lost", "fine"] {
        fs::create_dir(at(dir)).expect("makes a directory");
        (0..5).for_each(|i| fs::write(at(&format!("{dir}/f{i}")), "x").expect("writes"));
    }
    let ino = fs::metadata(at("lost")).expect("is there").ino();
    // What is counted later would be in the journal after it was flushed, and bring the removed object back.
    wait_for_bytes(mount.point(), "10");
    drop(mount);
    let clean = scrub(&cluster, "/", "recursive");
    assert_eq!(
        (&clean["damaged"], &clean["directories"], &clean["entries"]),
        (&0.into(), &3.into(), &12.into())
    );

    // A server that has nothing of it in memory.
    assert_eq!(tell(&cluster, &["flush", "journal"])["return_code"], 0);
    let mds = cluster.active_mds().expect("one serves");
    cluster.client("ceph", &["mds", "fail", mds.trim_start_matches("mds.")]).ok();
    cluster.client("rados", &["-p", "cephfs_metadata", "rm", &format!("{ino:x}.00000000")]).ok();
    let mount = Mount::new(&cluster, "mount");
    let at = |name: &str| mount.point().join(name);
    assert_eq!(list(&at("lost")), Err(Some(EIO)));
    assert_eq!(fs::write(at("lost/f1"), "new").err().and_then(|e| e.raw_os_error()), Some(EIO));
    assert_eq!(list(&at("fine")).expect("the rest goes on").len(), 5);
    fs::write(at("fine/more"), "y").expect("writes");
    let damage = tell(&cluster, &["damage", "ls"]);
    assert_eq!((&damage[0]["damage_type"], &damage[0]["path"]), (&"dir_frag".into(), &"/lost".into()));
    assert!(cluster.sees("MDS_DAMAGE").contains("Metadata damage detected"));
    let name = mds_name(&cluster);
    let listed = cluster.follows("MDS_DAMAGE", "ceph tell mds.NAME damage ls", &[("NAME", &name)]);
    assert!(listed.contains("/lost"), "{listed}");

    // Nothing is given up unless it is asked for.
    let advice = "ceph tell mds.NAME scrub start / recursive,repair";
    let started = cluster.follows("MDS_DAMAGE", advice, &[("NAME", &name)]);
    let started: Value = serde_json::from_str(&started).expect("JSON");
    assert_eq!(scrubbed(&cluster, &started["scrub_tag"])["repaired"], 0);
    assert_eq!(list(&at("lost")), Err(Some(EIO)));
    assert_eq!(scrub(&cluster, "/lost", "repair,force")["repaired"], 1);
    assert_eq!(list(&at("lost")), Ok(Vec::new()));
    fs::write(at("lost/f1"), "new").expect("it can be used again");
    let id = tell(&cluster, &["damage", "ls"])[0]["id"].to_string();
    let values = [("NAME", name.as_str()), ("ID", &id)];
    cluster.follows("MDS_DAMAGE", "ceph tell mds.NAME damage rm ID", &values);
    cluster.sees_no("MDS_DAMAGE");
    let after = scrub(&cluster, "/", "recursive");
    assert_eq!(after["damaged"], 0, "{after}");
}
