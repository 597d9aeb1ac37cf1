//! Directories that another mount has moved can be renamed and removed, without a look at their old names.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests with real files")]

use e2e::{Cluster, Mount, Options, names};
use std::fs;
use std::path::Path;

/// How a mount gets to know directories before another moves them.
#[derive(Clone, Copy, Debug)]
enum Known {
    ByLookup,
    ByListing,
}

fn know(known: Known, dirs: &[&Path]) {
    for dir in dirs {
        match known {
            Known::ByLookup => assert!(fs::metadata(dir).expect("is there").is_dir()),
            Known::ByListing => assert!(!names(dir.parent().expect("below another")).is_empty()),
        }
    }
}

#[test]
fn a_directory_that_another_mount_has_moved_can_be_renamed() {
    if !Mount::is_possible() {
        return;
    }
    let cluster = Cluster::start(Options::default());
    let (a, b) = (Mount::new(&cluster, "a"), Mount::new(&cluster, "b"));
    for known in [Known::ByLookup, Known::ByListing] {
        for (n, to) in ["e/d", "d/b", "d/c", "c"].into_iter().enumerate() {
            let tree = format!("{known:?}-{n}");
            let (at, seen) = (a.point().join(&tree), b.point().join(&tree));
            fs::create_dir_all(at.join("d/b")).expect("makes");
            fs::create_dir(at.join("e")).expect("makes");
            fs::write(at.join("d/b/file"), to).expect("writes");
            know(known, &[&seen.join("d/b"), &seen.join("e")]);
            fs::rename(at.join("d/b"), at.join("b")).expect("one mount moves it");
            let moved = fs::rename(seen.join("b"), seen.join(to));
            moved.unwrap_or_else(|error| panic!("{known:?}, to {to}: {error}"));
            let file = format!("{to}/file");
            assert_eq!(fs::read_to_string(at.join(&file)).expect("reads"), to);
            assert_eq!(fs::read_to_string(seen.join(&file)).expect("reads"), to);
            assert!(!seen.join("b").exists() && !at.join("b").exists());
        }
    }
}

#[test]
fn a_directory_that_another_mount_has_moved_can_be_replaced_and_swapped() {
    if !Mount::is_possible() {
        return;
    }
    let cluster = Cluster::start(Options::default());
    let (a, b) = (Mount::new(&cluster, "a"), Mount::new(&cluster, "b"));
    let (at, seen) = (|name: &str| a.point().join(name), |name: &str| b.point().join(name));
    for name in ["d/one", "d/two", "e/new"] {
        fs::create_dir_all(at(name)).expect("makes");
    }
    know(Known::ByLookup, &[&seen("d/one"), &seen("d/two"), &seen("e/new")]);
    // Both are found elsewhere by one rename.
    fs::rename(at("d/one"), at("one")).expect("moves");
    fs::rename(at("d/two"), at("e/two")).expect("moves");
    fs::rename(seen("one"), seen("e/two")).expect("replaces");
    assert_eq!(
        (names(&seen("")), names(&seen("e"))),
        (vec!["d".into(), "e".into()], vec!["new".into(), "two".into()])
    );

    fs::rename(at("e/new"), at("d/new")).expect("moves");
    fs::create_dir(at("e/new")).expect("another one in its place");
    fs::write(at("e/new/file"), "of the second").expect("writes");
    fs::rename(seen("d/new"), seen("new")).expect("moves");
    assert_eq!(fs::read_to_string(seen("e/new/file")).expect("reads"), "of the second");
    fs::remove_dir(seen("new")).expect("removes");
    assert_eq!(names(&at("")), ["d", "e"]);
}
