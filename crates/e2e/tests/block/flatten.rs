//! Clones that become independent, and removals that were cut short.

use super::rig::{ALL, Images, MIB, fill, has_tools};
use serde_json::json;

/// Makes the image `base` with the snapshot `s`, and clones of it. Returns what they have.
fn clones(images: &Images, names: &[&str]) -> Vec<u8> {
    let mut data = vec![0; 40 * MIB];
    fill(&mut data, 0, 20 * MIB, 1);
    fill(&mut data, 30 * MIB + 1000, 5 * MIB, 2);
    images.import(&data, "base");
    images.block(&["snap", "create", "rbd/base@s"]);
    names.iter().for_each(|name| drop(images.block(&["clone", "rbd/base@s", &format!("rbd/{name}")])));
    data
}

fn children(images: &Images) -> Vec<String> {
    let listed = images.rbd_json(&["children", "base@s"]);
    let name = |child: &serde_json::Value| child["image"].as_str().expect("a name").to_owned();
    listed.as_array().expect("a list").iter().map(name).collect()
}

fn is_clone(images: &Images, name: &str) -> bool {
    !images.rbd_json(&["info", name])["parent"].is_null()
}

#[test]
fn clones_are_flattened_by_whoever_has_them() {
    if !has_tools() {
        return;
    }
    let images = Images::start();
    let mut data = clones(&images, &["alone", "ours", "theirs"]);
    images.rbd(&["snap", "create", "--no-progress", "alone@then"]);
    assert_eq!(children(&images), ["alone", "ours", "theirs"]);

    // Nobody has it open.
    let said = images.block_json(&["flatten", "rbd/alone"]);
    assert_eq!(said["former_parent"], json!("rbd/base@s"));
    assert_eq!(said["shared_bytes"], json!(40 * MIB));
    assert_eq!(
        (is_clone(&images, "alone"), children(&images)),
        (false, vec!["ours".into(), "theirs".into()])
    );
    images.check("alone", &data);
    assert!(images.export("alone@then") == data, "its snapshot has everything too");
    images.refuses(&["flatten", "rbd/alone"], "no clone");

    // It is served, and written: the process that serves it does it, for us and for `rbd`.
    for (name, by_us) in [("ours", true), ("theirs", false)] {
        let mapped = images.map(&format!("rbd/{name}"));
        mapped.io(&["write -P 7 1M 64k"]);
        let owner = images.rbd_json(&["lock", "ls", name]).to_string();
        if by_us {
            images.block(&["flatten", &format!("rbd/{name}")]);
        } else {
            images.rbd(&["flatten", "--no-progress", name]);
        }
        assert_eq!(images.rbd_json(&["lock", "ls", name]).to_string(), owner, "it keeps the lock");
        assert!(!is_clone(&images, name));
        mapped.io(&["read -P 7 1M 64k", "read -P 1 2M 18M", "discard 4M 4M", "read -P 0 4M 4M"]);
        mapped.end();
    }
    assert_eq!(children(&images), [""; 0]);
    fill(&mut data, MIB, 64 << 10, 7);
    fill(&mut data, 4 * MIB, 4 * MIB, 0);
    ["ours", "theirs"].iter().for_each(|name| images.check(name, &data));
}

#[test]
fn the_last_clone_that_is_flattened_takes_a_snapshot_out_of_the_trash() {
    if !has_tools() {
        return;
    }
    let images = Images::start();
    let data = clones(&images, &["one", "two"]);
    images.block(&["snap", "rm", "rbd/base@s"]);
    images.block(&["flatten", "rbd/one"]);
    let all = |images: &Images| images.rbd_json(&["snap", "ls", "--all", "base"]).as_array().map(Vec::len);
    assert_eq!(all(&images), Some(1), "another clone needs it");
    // The process that serves the last one is asked by `rbd`, and cleans up beside its work.
    let mapped = images.map("rbd/two");
    mapped.io(&["write -P 1 0 4k"]);
    images.rbd(&["flatten", "--no-progress", "two"]);
    let began = std::time::Instant::now();
    while all(&images) != Some(0) {
        assert!(began.elapsed() < super::rig::PATIENCE, "the snapshot stays in the trash");
    }
    mapped.end();
    images.block(&["rm", "rbd/base"]);
    ["one", "two"].iter().for_each(|name| images.check(name, &data));
}

#[test]
fn what_a_removal_that_was_cut_short_has_left_is_removed_by_the_next() {
    if !has_tools() {
        return;
    }
    let images = Images::start();
    let rados = |args: &[&str]| images.cluster.client("rados", &[&["-p", "rbd"], args].concat()).ok();
    images.rbd(&["create", "i", "--size", "8M", "--image-feature", ALL]);
    let id = images.block_json(&["info", "rbd/i"])["id"].as_str().expect("an id").to_owned();
    // The name goes last.
    rados(&["rm", &format!("rbd_header.{id}")]);
    images.refuses(&["map", "rbd/i"], "header");
    images.block(&["rm", "rbd/i"]);
    images.refuses(&["rm", "rbd/i"], "there is no image `i`");

    // The parent knows nothing of the clone any more, and has gone meanwhile.
    clones(&images, &["child"]);
    let child = images.block_json(&["info", "rbd/child"])["id"].as_str().expect("an id").to_owned();
    rados(&["rm", &format!("rbd_object_map.{child}")]);
    images.block(&["snap", "rm", "rbd/base@s"]);
    let base = images.block_json(&["info", "rbd/base"])["id"].as_str().expect("an id").to_owned();
    rados(&["rm", &format!("rbd_header.{base}")]);
    images.block(&["rm", "rbd/base"]);
    images.block(&["rm", "rbd/child"]);
    assert_eq!(images.rbd_json(&["ls"]), json!([]));
    let left = rados(&["ls"]);
    let known = |object: &&str| !["rbd_directory", "rbd_info", "rbd_children"].contains(object);
    let left: Vec<&str> = left.lines().filter(known).filter(|o| !o.contains(&base)).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// A client that may not make the clone forget its parent. Returns how it is named in a command.
fn restricted(images: &Images) -> Vec<String> {
    let keyring = images.path("cut.keyring").to_str().expect("text").to_owned();
    let data = "allow rwx pool=clones object_prefix rbd_data.";
    let osd = format!("allow rwx pool=rbd, {data}, allow rw class-read pool=clones");
    let args = ["auth", "get-or-create", "client.cut", "mon", "profile rbd", "osd", &osd, "-o", &keyring];
    images.cluster.client("ceph", &args).ok();
    vec!["--name".into(), "client.cut".into(), "--keyring".into(), keyring]
}

/// Flattening that was cut short between the parent, which knows of no clone any more, and the clone, by us
/// and by `rbd`.
#[test]
fn a_clone_that_its_parent_has_forgotten_is_flattened_by_us_in_each_state() {
    if !has_tools() {
        return;
    }
    let images = Images::start();
    images.pool("clones");
    let who = restricted(&images);
    let who: Vec<&str> = who.iter().map(String::as_str).collect();
    let mut data = vec![0; 9 * MIB];
    fill(&mut data, 0, 3 * MIB, 1);
    fill(&mut data, 8 * MIB, MIB, 2);
    for (name, by_us) in [("ours", true), ("theirs", false)] {
        let (base, clone) = (format!("rbd/{name}"), format!("clones/{name}"));
        let snap = format!("{base}@s");
        let cut = |images: &Images| {
            images.rbd(&[
                "clone",
                "--rbd-default-clone-format",
                "2",
                "--image-feature",
                "layering",
                &snap,
                &clone,
            ]);
            if by_us {
                images.refuses(&[&who[..], &["flatten", &clone]].concat(), "detach");
            } else {
                images.cluster.client("rbd", &[&who[..], &["flatten", "--no-progress", &clone]].concat());
            }
            assert!(!images.rbd_json(&["info", &clone])["parent"].is_null());
            assert_eq!(images.rbd_json(&["children", &snap]), json!([]));
        };
        images.import(&data, &base);
        images.block(&["snap", "create", &snap]);
        // The parent is there: it is flattened again, or removed.
        cut(&images);
        images.block(&["flatten", &clone]);
        images.refuses(&["flatten", &clone], "no clone");
        images.check(&clone, &data);
        images.block(&["rm", &clone]);
        cut(&images);
        images.block(&["rm", &clone]);
        // The snapshot has gone. `rbd` can only remove the clone, which has all its data.
        cut(&images);
        images.block(&["snap", "rm", &snap]);
        assert_ne!(images.cluster.client("rbd", &["info", &clone]).code, 0);
        for command in ["map", "flatten"] {
            images.refuses(&[command, &clone], "--parent-is-gone");
        }
        assert_eq!(images.block_json(&["info", &clone])["size"], json!(9 * MIB));
        images.block(&["flatten", "--parent-is-gone", &clone]);
        assert!(images.rbd_json(&["info", &clone])["parent"].is_null());
        images.check(&clone, &data);
        images.block(&["rm", &base]);
        images.block(&["rm", &clone]);
    }
    // With a snapshot that is there for the clone alone, ours leaves it until the clone needs it no more.
    images.import(&data, "rbd/base");
    images.block(&["snap", "create", "rbd/base@s"]);
    images.block(&["clone", "rbd/base@s", "clones/last", "--features", "layering"]);
    images.block(&["snap", "rm", "rbd/base@s"]);
    images.refuses(&[&who[..], &["flatten", "clones/last"]].concat(), "detach");
    images.check("clones/last", &data);
    images.block(&["flatten", "clones/last"]);
    assert_eq!(images.rbd_json(&["snap", "ls", "--all", "base"]), json!([]));
    images.check("clones/last", &data);
}
