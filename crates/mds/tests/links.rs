//! Files with several names, of which the first goes.

mod world;

use fsfmt::{DentryKey, DirFrag, Ino, names};
use msgs::{ClientRequest, MdsOp, cap};
use std::collections::BTreeSet;
use std::time::Duration;
use world::World;
use world::client::{create, getattr, mkdir, request, setattr_size, two};
use world::pair::{A, B, caps, ino, ok, stat, two_clients};

fn link(new: &str, to: &str) -> ClientRequest {
    two(MdsOp::LINK, new, to)
}

fn unlink(path: &str) -> ClientRequest {
    request(MdsOp::UNLINK, path)
}

/// The inodes in the stored directory of strays.
fn strays(w: &mut World) -> BTreeSet<String> {
    w.rank.flush_journal();
    w.quiet();
    let name = names::dir_object(DirFrag::whole(Ino::stray(0)));
    let keys = w.objects.iter().filter(|(object, _)| object.name == name).flat_map(|(_, o)| o.omap.keys());
    let keys = keys.filter_map(|key| DentryKey::from_omap(key));
    keys.map(|key| String::from_utf8_lossy(&key.name).into_owned()).collect()
}

fn purged(w: &mut World, file: u64) -> bool {
    w.give_everything_back(A);
    w.advance(Duration::from_secs(60));
    w.quiet();
    !w.objects.keys().any(|object| object.name.starts_with(&format!("{file:x}.")))
}

/// A client sees the same file under all of these names.
fn check(w: &mut World, file: u64, names: &[&str]) {
    for name in names {
        let seen = stat(w, B, name);
        assert_eq!((seen.ino, seen.nlink as usize), (file, names.len()), "{name}");
    }
}

fn file(w: &mut World) -> u64 {
    for dir in ["d", "e"] {
        ok(w, mkdir(dir));
    }
    let file = ino(&w.call(A, create("d/a", 2)));
    ok(w, setattr_size("d/a", 1000));
    file
}

#[test]
fn another_name_takes_the_place_of_the_first() {
    for restarts in [false, true] {
        let mut w = two_clients(1);
        let file = file(&mut w);
        ok(&mut w, link("e/b", "d/a"));
        ok(&mut w, link("e/c", "e/b"));
        ok(&mut w, two(MdsOp::RENAME, "e/moved", "e/c"));
        for (gone, left) in [("d/a", vec!["e/b", "e/moved"]), ("e/moved", vec!["e/b"])] {
            ok(&mut w, unlink(gone));
            if restarts {
                w.restart(&[A, B]);
            }
            assert_eq!(strays(&mut w), BTreeSet::new(), "{gone}");
            check(&mut w, file, &left);
        }
        ok(&mut w, two(MdsOp::RENAME, "d/z", "e/b"));
        check(&mut w, file, &["d/z"]);
        ok(&mut w, unlink("d/z"));
        w.give_everything_back(B);
        assert!(purged(&mut w, file));
        assert_eq!(strays(&mut w), BTreeSet::new());
    }
}

#[test]
fn it_is_counted_where_its_first_name_is_now() {
    let mut w = two_clients(2);
    file(&mut w);
    ok(&mut w, link("e/b", "d/a"));
    let counted = |w: &mut World, dir: &str| {
        (0..20).for_each(|_| w.advance(Duration::from_secs(1)));
        w.quiet();
        let seen = stat(w, A, dir);
        (seen.rfiles, seen.rbytes)
    };
    assert_eq!((counted(&mut w, "d"), counted(&mut w, "e")), ((1, 1000), (0, 0)));
    ok(&mut w, unlink("d/a"));
    assert_eq!((counted(&mut w, "d"), counted(&mut w, "e")), ((0, 0), (1, 1000)));
}

#[test]
fn a_rename_over_the_first_name_leaves_the_others() {
    let mut w = two_clients(3);
    let file = file(&mut w);
    ok(&mut w, link("e/b", "d/a"));
    ok(&mut w, create("d/new", 1));
    ok(&mut w, two(MdsOp::RENAME, "d/a", "d/new"));
    check(&mut w, file, &["e/b"]);
    assert_eq!(strays(&mut w), BTreeSet::new());
}

/// It could have removed something of which the other name is in a directory of the first client.
#[test]
fn a_client_that_works_alone_where_another_name_is_is_not_waited_for() {
    let mut w = two_clients(6);
    assert_eq!(w.call(B, getattr("", 0)).result, 0);
    w.want_alone(B, 1);
    ok(&mut w, mkdir("d"));
    let file = ino(&w.call(A, create("d/a", 2)));
    let e = ino(&w.call(B, mkdir("e")));
    for request in [create("e/x", 2), link("e/b", "d/a"), create("e/y", 2)] {
        assert_eq!(w.call(B, request).result, 0);
    }
    w.want_alone(B, e);
    assert!(caps(&w, B, e) & cap::DIR_ASYNC != 0);
    ok(&mut w, unlink("d/a"));
    assert!(caps(&w, B, e) & cap::DIR_ASYNC != 0, "it keeps the directory");
    assert_eq!(strays(&mut w), [format!("{file:x}")].into());
    check(&mut w, file, &["e/b"]);
}

/// Of many names the newest are noted. Without one the inode stays among the strays, as long as it has names.
#[test]
fn of_many_names_some_are_not_known() {
    let mut w = two_clients(4);
    let file = file(&mut w);
    let all: Vec<String> = (0..12).map(|i| format!("e/n{i:02}")).collect();
    for name in &all {
        ok(&mut w, link(name, "d/a"));
    }
    // The newest go first.
    for name in all[3..].iter().rev() {
        ok(&mut w, unlink(name));
    }
    ok(&mut w, unlink("d/a"));
    assert_eq!(strays(&mut w), [format!("{file:x}")].into());
    check(&mut w, file, &["e/n00", "e/n01", "e/n02"]);
    for name in &all[..3] {
        ok(&mut w, unlink(name));
    }
    w.give_everything_back(B);
    assert!(purged(&mut w, file));
    assert_eq!(strays(&mut w), BTreeSet::new());
}

/// Backups that share unchanged files: each is made of the one before it, and the oldest is removed.
#[test]
fn rotated_backups_leave_no_strays() {
    let mut w = two_clients(5);
    for i in 0..15 {
        ok(&mut w, mkdir(&format!("b{i}")));
        for f in 0..4 {
            let new = format!("b{i}/f{f}");
            ok(&mut w, if i == 0 { create(&new, 1) } else { link(&new, &format!("b{}/f{f}", i - 1)) });
        }
        if i >= 10 {
            let oldest = i - 10;
            (0..4).for_each(|f| ok(&mut w, unlink(&format!("b{oldest}/f{f}"))));
            ok(&mut w, request(MdsOp::RMDIR, &format!("b{oldest}")));
        }
        w.give_everything_back(A);
    }
    assert_eq!(strays(&mut w), BTreeSet::new());
    assert_eq!(stat(&mut w, A, "b14/f3").nlink, 10);
}
