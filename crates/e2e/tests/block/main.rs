//! Block-device images as disks: `nacre block` beside the `rbd` command and QEMU's own driver.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "these tests are about real files, processes and time"
)]

mod flatten;
mod nbd;
mod rig;
mod soak;
mod tls;

use e2e::run;
use rig::{ALL, Images, MIB, PATIENCE, fill, has_tools, qemu_io};
use serde_json::json;
use std::io::Read;
use std::process::Command;
use std::time::Instant;

#[test]
fn images_of_rbd_are_written_through_nbd_and_read_by_rbd() {
    if !has_tools() {
        return;
    }
    let images = Images::start();
    for (image, features) in [("plain", "layering"), ("full", ALL)] {
        images.rbd(&["create", image, "--size", "64M", "--image-feature", features]);
        let mapped = images.map(&format!("rbd/{image}"));
        let mut data = vec![0; 64 * MIB];
        mapped.io(&[
            "write -P 1 0 12M",
            "write -P 2 3M 2M",
            "write -P 3 1000 4321",
            "write -P 4 60M 4M",
            "flush",
        ]);
        fill(&mut data, 0, 12 * MIB, 1);
        fill(&mut data, 3 * MIB, 2 * MIB, 2);
        fill(&mut data, 1000, 4321, 3);
        fill(&mut data, 60 * MIB, 4 * MIB, 4);
        // A whole object goes, the end of one, and a part of one.
        mapped.io(&["discard 4M 4M", "write -z -u 9M 3M", "write -z 2M 64k", "write -f -P 5 5M 512"]);
        fill(&mut data, 4 * MIB, 4 * MIB, 0);
        fill(&mut data, 9 * MIB, 3 * MIB, 0);
        fill(&mut data, 2 * MIB, 64 << 10, 0);
        fill(&mut data, 5 * MIB, 512, 5);
        mapped.io(&["read -P 1 0 1000", "read -P 3 1000 4321", "read -P 0 4M 1M", "read -P 5 5M 512"]);
        mapped.io(&["discard 16M 16M", "write -P 6 20M 4k", "discard 20M 4M", "read -P 0 16M 16M"]);
        mapped.end();
        images.check(image, &data);
    }
    // Random bytes, by several connections at once.
    images.rbd(&["create", "random", "--size", "40M", "--image-feature", ALL]);
    let mut data = vec![0; 40 * MIB];
    std::fs::File::open("/dev/urandom").and_then(|mut f| f.read_exact(&mut data)).expect("random bytes");
    let path = images.path("random");
    std::fs::write(&path, &data).expect("writes");
    let mapped = images.map("rbd/random");
    let mut convert = Command::new("qemu-img");
    convert.args(["convert", "-n", "-f", "raw", "-O", "raw", "-W", "-m", "8"]).arg(&path).arg(&mapped.url);
    run(&mut convert).ok();
    let mut compare = Command::new("qemu-img");
    run(compare.args(["compare", "-f", "raw", "-F", "raw"]).arg(&path).arg(&mapped.url)).ok();
    mapped.end();
    images.check("random", &data);
}

#[test]
fn images_are_made_listed_resized_and_removed_as_by_rbd() {
    if !has_tools() {
        return;
    }
    let images = Images::start();
    images.pool("data");
    images.block(&["create", "rbd/one", "--size", "30M"]);
    images.block(&["create", "rbd/two", "--size", "1G", "--object-size", "1M", "--data-pool", "data"]);
    let striped = ["--stripe-unit", "64K", "--stripe-count", "3"];
    images.block(&[&["create", "rbd/three", "--size", "20M"], &striped[..]].concat());
    assert_eq!(images.rbd_json(&["ls"]), json!(["one", "three", "two"]));
    let info = images.rbd_json(&["info", "one"]);
    assert_eq!((&info["size"], &info["order"]), (&json!(30 * MIB), &json!(22)));
    assert_eq!(info["features"], json!(ALL.split(',').collect::<Vec<_>>()));
    assert_eq!(images.rbd_json(&["info", "two"])["data_pool"], json!("data"));
    let ours = images.block_json(&["info", "rbd/three"]);
    assert_eq!((&ours["stripe_unit"], &ours["stripe_count"]), (&json!(65536), &json!(3)));
    let listed = images.block_json(&["ls", "rbd"]);
    assert_eq!(listed.as_array().map(Vec::len), Some(3));

    for image in ["two", "three"] {
        let size = images.rbd_json(&["info", image])["size"].as_u64().expect("a number") as usize;
        let mut data = vec![0; size];
        let mapped = images.map(&format!("rbd/{image}"));
        mapped.io(&["write -P 7 100k 7M", "discard 1M 2M", "write -z 500k 100k", "read -P 7 3M 1M"]);
        mapped.end();
        fill(&mut data, 100 << 10, 7 * MIB, 7);
        fill(&mut data, MIB, 2 * MIB, 0);
        fill(&mut data, 500 << 10, 100 << 10, 0);
        images.check(image, &data);
    }

    let mut data = vec![0; 30 * MIB];
    let mapped = images.map("rbd/one");
    mapped.io(&["write -P 8 0 30M"]);
    fill(&mut data, 0, 30 * MIB, 8);
    // Resized while it is mapped: who connects afterwards sees it.
    images.block(&["resize", "rbd/one", "--size", "50M"]);
    images.refuses(&["resize", "rbd/one", "--size", "9M"], "--allow-shrink");
    images.block(&["resize", "rbd/one", "--size", "9M", "--allow-shrink"]);
    images.rbd(&["resize", "--no-progress", "one", "--size", "20M"]);
    data.truncate(9 * MIB);
    data.resize(20 * MIB, 0);
    mapped.io(&["read -P 8 0 9M", "read -P 0 9M 11M", "write -P 9 19M 1M"]);
    fill(&mut data, 19 * MIB, MIB, 9);
    images.refuses(&["rm", "rbd/one"], "has the image open");
    mapped.end();
    images.check("one", &data);

    images.refuses(&["create", "rbd/one", "--size", "1M"], "there is an image `one` already");
    images.refuses(&["info", "rbd/none"], "there is no image `none`");
    images.refuses(&["info", "none/one"], "there is no pool `none`");
    ["one", "two", "three"].iter().for_each(|image| drop(images.block(&["rm", &format!("rbd/{image}")])));
    assert_eq!(images.rbd_json(&["ls"]), json!([]));
    for pool in ["rbd", "data"] {
        let left = images.cluster.client("rados", &["-p", pool, "ls"]).ok();
        let left: Vec<&str> = left.lines().filter(|o| !["rbd_directory", "rbd_info"].contains(o)).collect();
        assert!(left.is_empty(), "{pool}: {left:?}");
    }
}

/// Makes the image `base` with the snapshots `s`, by us, and `t`, by `rbd`. Returns what each of them has.
fn base_with_snapshots(images: &Images) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
    let mut base = vec![0; 24 * MIB];
    fill(&mut base, 0, 10 * MIB, 1);
    fill(&mut base, 13 * MIB, MIB, 2);
    images.import(&base, "base");
    images.block(&["snap", "create", "rbd/base@s"]);
    images.refuses(&["snap", "create", "rbd/base@s"], "already");
    let at_s = base.clone();
    let mapped = images.map("rbd/base");
    mapped.io(&["write -P 3 1M 1M", "discard 8M 4M"]);
    fill(&mut base, MIB, MIB, 3);
    fill(&mut base, 8 * MIB, 4 * MIB, 0);
    // By `rbd`, while we have the lock: it asks us.
    images.rbd(&["snap", "create", "--no-progress", "base@t"]);
    let at_t = base.clone();
    mapped.io(&["write -P 4 0 1M"]);
    fill(&mut base, 0, MIB, 4);
    mapped.end();
    images.check("base", &base);
    assert!(images.export("base@s") == at_s && images.export("base@t") == at_t);
    let snap = images.map("rbd/base@s");
    snap.io_with("-r", &["read -P 1 0 8M", "read -P 2 13M 1M"]);
    let refused = qemu_io(&snap.url, &["write -P 9 0 512"]);
    assert!(refused.code != 0 && refused.stderr.contains("Permission denied"), "{}", refused.stderr);
    snap.end();
    (base, at_s, at_t)
}

#[test]
fn snapshots_and_clones_share_data_until_they_change() {
    if !has_tools() {
        return;
    }
    let images = Images::start();
    let (base, at_s, at_t) = base_with_snapshots(&images);
    images.block(&["clone", "rbd/base@s", "rbd/child"]);
    images.rbd(&["snap", "create", "--no-progress", "child@before"]);
    images.rbd(&["clone", "--rbd-default-clone-format", "2", "base@t", "sister"]);
    let mut child = at_s.clone();
    let mapped = images.map("rbd/child");
    mapped.io(&[
        "read -P 1 0 8M",
        "write -P 5 2M 64k",
        "write -P 6 20M 4k",
        "discard 4M 4M",
        "write -z 13M 64k",
    ]);
    fill(&mut child, 2 * MIB, 64 << 10, 5);
    fill(&mut child, 20 * MIB, 4 << 10, 6);
    fill(&mut child, 4 * MIB, 4 * MIB, 0);
    fill(&mut child, 13 * MIB, 64 << 10, 0);
    mapped.io(&["read -P 0 4M 4M", "read -P 5 2M 64k", "read -P 2 13376k 960k"]);
    mapped.end();
    images.check("child", &child);
    assert!(images.export("child@before") == at_s, "the snapshot has the parent's data");
    images.rbd(&["object-map", "check", "--no-progress", "child@before"]);

    let mut sister = at_t.clone();
    let mapped = images.map("rbd/sister");
    mapped.io(&["write -P 7 512 512", "write -P 7 4M 4M"]);
    fill(&mut sister, 512, 512, 7);
    fill(&mut sister, 4 * MIB, 4 * MIB, 7);
    mapped.end();
    images.check("sister", &sister);

    images.block(&["snap", "rollback", "rbd/child@before"]);
    images.check("child", &at_s);
    images.block(&["snap", "rm", "rbd/child@before"]);
    images.check("child", &at_s);
    // A snapshot with clones goes to the trash, and away with the last of them.
    images.block(&["snap", "rm", "rbd/base@s"]);
    assert_eq!(images.block_json(&["snap", "ls", "rbd/base"]).as_array().map(Vec::len), Some(1));
    images.refuses(&["rm", "rbd/base"], "has snapshots (t)");
    images.block(&["rm", "rbd/child"]);
    images.rbd(&["flatten", "--no-progress", "sister"]);
    images.block(&["snap", "rm", "rbd/base@t"]);
    assert_eq!(images.rbd_json(&["snap", "ls", "--all", "base"]), json!([]));
    images.check("base", &base);
    images.check("sister", &sister);
    images.block(&["rm", "rbd/base"]);
    images.block(&["rm", "rbd/sister"]);
    assert_eq!(images.rbd_json(&["ls"]), json!([]));
}

#[test]
fn the_lock_goes_to_who_asks_for_it_and_from_who_has_died() {
    if !has_tools() {
        return;
    }
    let images = Images::start();
    images.rbd(&["create", "i", "--size", "32M", "--image-feature", ALL]);
    let mut data = vec![0; 32 * MIB];
    let mapped = images.map("rbd/i");
    let writes = ["write -P 1 0 8M", "write -P 3 10M 4k", "write -P 5 30M 4k"];
    let others = ["write -P 2 1M 1M", "write -P 4 20M 4k"];
    // To QEMU's driver, back, to it again, and back.
    mapped.io(&writes[..1]);
    images.qemu_rbd("rbd/i", &others[..1]).ok();
    mapped.io(&writes[1..2]);
    images.qemu_rbd("rbd/i", &others[1..]).ok();
    mapped.io(&writes[2..]);
    fill(&mut data, 0, 8 * MIB, 1);
    fill(&mut data, MIB, MIB, 2);
    for (at, byte) in [(10, 3), (20, 4), (30, 5)] {
        fill(&mut data, at * MIB, 4 << 10, byte);
    }
    let lock = images.rbd_json(&["lock", "ls", "i"]).to_string();
    assert!(lock.contains("auto "), "it is ours again: {lock}");

    // Ours dies with the lock: another of ours takes over, once the watch of the dead has timed out.
    rustix::process::kill_process(mapped.pid(), rustix::process::Signal::KILL).expect("it runs");
    let began = Instant::now();
    let second = images.map_at("rbd/i", images.path("second.sock"));
    second.io(&["read -P 1 0 1M", "write -P 6 25M 4k"]);
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
    fill(&mut data, 25 * MIB, 4 << 10, 6);
    let blocked = images.cluster.client("ceph", &["osd", "blocklist", "ls"]);
    let blocked = format!("{}{}", blocked.stdout, blocked.stderr);
    assert!(blocked.contains("127.0.0.1"), "{blocked}");
    drop(mapped);

    // It is cut off while it lives: it says so, and ends.
    let mut victim = second;
    let status = images.rbd_json(&["status", "i"]);
    let addr = status["watchers"][0]["address"].as_str().expect("an address").to_owned();
    images.cluster.client("ceph", &["osd", "blocklist", "add", &addr]).ok();
    let failed = qemu_io(&victim.url, &["write -P 9 0 512"]);
    assert!(failed.code != 0 || format!("{}{}", failed.stdout, failed.stderr).contains("failed"));
    let status = victim.child.wait().expect("it ends");
    let mut said = String::new();
    victim.child.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
    assert!(!status.success() && said.contains("blocklist"), "{said}");
    images.check("i", &data);
}

#[test]
fn what_is_mapped_is_listed_and_unmapped_and_what_is_not_supported_refused() {
    if !has_tools() {
        return;
    }
    let images = Images::start();
    images.block(&["create", "rbd/i", "--size", "8M"]);
    let said = images.block(&["map", "rbd/i", "--daemonize", "--listen", "127.0.0.1:0"]);
    let url = said.trim();
    assert!(url.starts_with("nbd://127.0.0.1:"), "{said}");
    let mapped = images.block_json(&["ls", "--mapped"]);
    assert_eq!(mapped[0]["image"], json!("rbd/i"));
    qemu_io(url, &["write -P 1 0 1M", "flush"]).ok();
    images.block(&["unmap", "rbd/i"]);
    assert_eq!(images.block_json(&["ls", "--mapped"]), json!([]));
    images.refuses(&["unmap", "rbd/i"], "is not mapped here");
    images.refuses(&["map", "rbd/i", "--listen", "0.0.0.0:0"], "--plain");
    assert_eq!(images.rbd_json(&["lock", "ls", "i"]), json!([]), "the lock is free");
    let mut data = vec![0; 8 * MIB];
    fill(&mut data, 0, MIB, 1);
    images.check("i", &data);

    images.rbd(&["create", "j", "--size", "8M", "--image-feature", "exclusive-lock,journaling"]);
    images.refuses(&["map", "rbd/j"], "journaling");
    images.refuses(&["create", "rbd/k", "--size", "1M", "--features", "journaling"], "journaling");
    images.refuses(&["create", "rbd/k", "--size", "1M", "--features", "object-map"], "exclusive-lock");
    images.rbd(&["lock", "add", "i", "by-hand"]);
    let mapped = images.map("rbd/i");
    let failed = qemu_io(&mapped.url, &["write -P 9 0 512"]);
    assert!(failed.code != 0 || format!("{}{}", failed.stdout, failed.stderr).contains("failed"));
    drop(mapped);
}
