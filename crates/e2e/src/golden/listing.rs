//! What a cluster holds, as text: one line for each thing, the same as long as nobody changes it.

use super::common::{connected, mounted};
use super::objects::{list_more_objects, list_objects};
use crate::cluster::Cluster;
use crate::mount::names;
use rustix::fs::{getxattr, listxattr};
use serde_json::Value;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use stdx::crc32c;

/// Attributes of files and directories that no listing of attributes names.
const VIRTUAL: [&str; 2] = ["ceph.quota.max_files", "ceph.dir.layout"];

/// Everything that can be read.
pub(super) fn of(cluster: &Cluster) -> String {
    let mut lines = rows(cluster);
    images(cluster, &mut lines);
    let client = connected(cluster);
    for pool in ["golden", "rbd"] {
        list_objects(pool, &client.pool(pool), &mut lines);
    }
    list_objects("golden/ns", &client.pool("golden").in_namespace(b"ns"), &mut lines);
    for (name, id) in pool_snapshots(cluster) {
        let (at, gone) = (client.pool("golden").at_snap(id), format!("{name}-gone").into_bytes());
        list_more_objects(&format!("golden@{name}"), &at, vec![gone], &mut lines);
    }
    client.shut_down().expect("ends in order");
    let mount = mounted(cluster);
    files(mount.point(), &mut lines);
    lines.sort();
    lines.join("\n") + "\n"
}

/// What monitors keep.
fn rows(cluster: &Cluster) -> Vec<String> {
    let ceph = |args: &[&str]| cluster.client("ceph", args).ok();
    let json = |args: &[&str]| -> Value {
        serde_json::from_str(&ceph(&[args, &["-f", "json"]].concat())).expect("JSON")
    };
    let mut lines = Vec::new();
    for key in json(&["config-key", "ls"]).as_array().expect("keys") {
        let key = key.as_str().expect("a name");
        if key.starts_with("golden/") {
            let value = ceph(&["config-key", "get", key]);
            lines.push(format!("config-key {key} {:08x}", crc32c::update(!0, value.as_bytes())));
        }
    }
    for user in json(&["auth", "ls"])["auth_dump"].as_array().expect("users") {
        lines.push(format!("auth {} {} {}", user["entity"], user["key"], user["caps"]));
    }
    for option in json(&["config", "dump"]).as_array().expect("options") {
        lines.push(format!("config {} {} {}", option["section"], option["name"], option["value"]));
    }
    for rule in json(&["osd", "crush", "rule", "ls"]).as_array().expect("rules") {
        lines.push(format!("rule {rule}"));
    }
    for pool in json(&["osd", "pool", "ls", "detail"]).as_array().expect("pools") {
        let (name, size) = (&pool["pool_name"], &pool["size"]);
        lines.push(format!("pool {name} {} {size} {}", pool["pool_id"], pool["application_metadata"]));
    }
    for fs in json(&["fs", "ls"]).as_array().expect("file systems") {
        lines.push(format!("fs {} {} {}", fs["name"], fs["metadata_pool"], fs["data_pools"]));
    }
    lines
}

fn pool_snapshots(cluster: &Cluster) -> Vec<(String, maps::SnapId)> {
    let dump = cluster.client("ceph", &["osd", "dump", "-f", "json"]).ok();
    let dump: Value = serde_json::from_str(&dump).expect("JSON");
    let pools = dump["pools"].as_array().expect("pools");
    let golden = pools.iter().find(|pool| pool["pool_name"] == "golden").expect("the pool");
    let snaps = golden["pool_snaps"].as_array().expect("snapshots").iter();
    snaps
        .map(|s| (s["name"].as_str().expect("a name").to_owned(), s["snapid"].as_u64().expect("a number")))
        .map(|(name, id)| (name, maps::SnapId(id)))
        .collect()
}

/// Images and their snapshots, by `rbd`.
fn images(cluster: &Cluster, lines: &mut Vec<String>) {
    let rbd = |args: &[&str]| cluster.client("rbd", args).ok();
    let listed: Value = serde_json::from_str(&rbd(&["ls", "-l", "rbd", "--format", "json"])).expect("JSON");
    for one in listed.as_array().expect("images") {
        let image = one["image"].as_str().expect("a name");
        let whole = match one["snapshot"].as_str() {
            Some(snapshot) => format!("rbd/{image}@{snapshot}"),
            None => format!("rbd/{image}"),
        };
        let file = cluster.dir().join("exported");
        rbd(&["export", "--no-progress", &whole, file.to_str().expect("UTF-8")]);
        let data = std::fs::read(&file).expect("reads");
        std::fs::remove_file(&file).expect("removes");
        let (size, crc) = (data.len(), crc32c::update(!0, &data));
        lines.push(format!("image {whole} {size} {crc:08x} {} {}", one["parent"], one["protected"]));
    }
}

/// Files, directories and their snapshots.
fn files(root: &Path, lines: &mut Vec<String>) {
    let mut todo = vec![root.to_path_buf()];
    while let Some(path) = todo.pop() {
        let meta = path.symlink_metadata().expect("is there");
        let kind = meta.file_type();
        let name = path.strip_prefix(root).expect("below it").display();
        let (mode, uid, gid) = (meta.mode(), meta.uid(), meta.gid());
        let mut line = format!("file /{name} {mode:o} {uid}:{gid} {}.{:09}", meta.mtime(), meta.mtime_nsec());
        if kind.is_symlink() {
            line += &format!(" {}", std::fs::read_link(&path).expect("reads").display());
        } else if kind.is_dir() {
            todo.extend(below(&path));
        } else if !kind.is_fifo() {
            let data = std::fs::read(&path).expect("reads");
            let crc = crc32c::update(!0, &data);
            line += &format!(" {} {} {crc:08x}", meta.nlink(), data.len());
        }
        if !kind.is_symlink() {
            line += &attributes(&path);
        }
        lines.push(line);
    }
}

/// What is in a directory, and its own snapshots.
fn below(dir: &Path) -> Vec<PathBuf> {
    let mut out: Vec<PathBuf> = names(dir).into_iter().map(|name| dir.join(name)).collect();
    if !dir.components().any(|part| part.as_os_str() == ".snap") {
        let snaps = dir.join(".snap");
        // Those with an underscore belong to a directory above.
        let own = names(&snaps).into_iter().filter(|name| !name.starts_with('_'));
        out.extend(own.map(|name| snaps.join(name)));
    }
    out
}

fn attributes(path: &Path) -> String {
    let mut buffer = vec![0; 64 << 10];
    let len = listxattr(path, &mut buffer).expect("lists");
    let listed = String::from_utf8_lossy(&buffer[..len]).into_owned();
    let mut all: Vec<&str> = listed.split('\0').filter(|name| name.starts_with("user.")).collect();
    all.extend(VIRTUAL);
    let mut out = String::new();
    for name in all {
        // Directories without a quota or layout of their own have no such attribute.
        if let Ok(len) = getxattr(path, name, &mut buffer) {
            out += &format!(" {name}={}", buffer[..len].escape_ascii());
        }
    }
    out
}
