//! Quotas of trees: setting them, telling clients how much is used, and refusing more files.

mod world;

use msgs::{ClientRequest, MdsOp};
use std::time::Duration;
use wire::Errno;
use world::World;
use world::client::{create, mkdir, request, setattr_size, setxattr};
use world::pair::{A, B, fails, ino, ok, stat, two_clients};

fn set(path: &str, name: &str, value: &str) -> ClientRequest {
    setxattr(path, &format!("ceph.{name}"), value.as_bytes())
}

/// The limits that a reply tells of a directory.
fn limits(w: &mut World, client: u64, path: &str) -> (i64, i64) {
    let quota = stat(w, client, path).quota;
    (quota.max_bytes, quota.max_files)
}

#[test]
fn a_quota_is_set_changed_and_removed_and_outlives_a_crash() {
    let mut w = two_clients(1);
    for r in [mkdir("d"), create("d/f", 1), set("d", "quota.max_bytes", "1M")] {
        ok(&mut w, r);
    }
    ok(&mut w, set("d", "quota.max_files", "10"));
    w.crash(&[A, B]);
    assert_eq!(limits(&mut w, B, "d"), (1 << 20, 10));
    ok(&mut w, set("d", "quota", "max_bytes=5"));
    assert_eq!(limits(&mut w, B, "d"), (5, 10));
    let remove = ClientRequest { op: MdsOp::RMXATTR, ..set("d", "quota.max_files", "") };
    ok(&mut w, remove);
    assert_eq!(limits(&mut w, B, "d"), (5, 0));
    ok(&mut w, set("d", "quota", "0"));
    assert_eq!(limits(&mut w, B, "d"), (0, 0));
    ok(&mut w, set("", "quota.max_bytes", "100"));
    assert_eq!(limits(&mut w, B, ""), (100, 0));
    fails(&mut w, set("d", "quota.max_bytes", "-1"), Errno::EINVAL);
    fails(&mut w, set("d/f", "quota.max_bytes", "1"), Errno::EINVAL);
    fails(&mut w, set("d", "dir.other", "0"), Errno::EOPNOTSUPP);
}

#[test]
fn only_who_may_set_policies_sets_quotas() {
    let mut w = two_clients(2);
    ok(&mut w, mkdir("d"));
    for (client, caps, result) in [(30, "allow rw", Errno::EACCES.to_result_code()), (31, "allow rwp", 0)] {
        w.connect_with(client, caps);
        assert_eq!(w.call(client, set("d", "quota.max_files", "5")).result, result, "{caps}");
    }
}

#[test]
fn a_tree_with_a_quota_is_a_realm_in_which_the_same_snapshots_count() {
    let mut w = two_clients(3);
    for r in [mkdir("d"), mkdir("d/q"), create("d/q/before", 1)] {
        ok(&mut w, r);
    }
    let file = ino(&w.call(B, create("d/q/f", 2)));
    assert!(w.clients.get_mut(&B).expect("b").write_to(file, 1000), "it may write");
    ok(&mut w, set("d/q", "quota.max_bytes", "1M"));
    let (d, q) = (stat(&mut w, A, "d").ino, stat(&mut w, A, "d/q").ino);
    assert_eq!(stat(&mut w, A, "d/q/f").size, 1000, "it was told");
    assert_eq!(w.clients[&B].realm_of.get(&file).copied(), Some(q), "B knows the realm");
    assert_eq!(stat(&mut w, B, "d/q/f").cap.realm, q);
    ok(&mut w, request(MdsOp::MKSNAP, "d//one"));
    assert_eq!(w.clients[&A].realms[&d].1.len(), 1);
    ok(&mut w, setattr_size("d/q/f", 5));
    assert_eq!((stat(&mut w, A, "d//one/q/f").size, stat(&mut w, A, "d/q/f").size), (1000, 5));
    ok(&mut w, request(MdsOp::MKSNAP, "d/q//two"));
    ok(&mut w, request(MdsOp::UNLINK, "d/q/f"));
    w.crash(&[A, B]);
    assert_eq!(stat(&mut w, A, "d/q//two/f").size, 5);
    assert_eq!(stat(&mut w, A, "d//one/q/f").size, 1000);
    assert_eq!(stat(&mut w, B, "d/q/before").cap.realm, q, "also after a restart");
}

#[test]
fn holders_are_told_of_what_is_used() {
    let mut w = two_clients(4);
    for r in [mkdir("q"), mkdir("q/sub"), set("q", "quota.max_bytes", "1000")] {
        ok(&mut w, r);
    }
    let q = stat(&mut w, B, "q").ino;
    let file = ino(&w.call(A, create("q/sub/f", 2)));
    assert!(w.clients.get_mut(&A).expect("a").write_to(file, 900), "it may write");
    stat(&mut w, B, "q/sub/f");
    (0..10).for_each(|_| w.advance(Duration::from_secs(1)));
    w.quiet();
    let told = &w.clients[&B].quotas[&q];
    assert_eq!((told.rbytes, told.rfiles, told.quota.max_bytes), (900, 1, 1000));
    ok(&mut w, set("q", "quota", "0"));
    assert_eq!(w.clients[&B].quotas[&q].quota.max_bytes, 0, "that it has ended, too");
}

#[test]
fn no_more_files_are_made_than_allowed() {
    let mut w = two_clients(5);
    for r in [mkdir("q"), mkdir("q/sub"), set("q", "quota.max_files", "4"), create("q/1", 1)] {
        ok(&mut w, r);
    }
    // The directory itself and the one in it count as well.
    ok(&mut w, create("q/2", 1));
    fails(&mut w, create("q/3", 1), Errno::EDQUOT);
    fails(&mut w, mkdir("q/3"), Errno::EDQUOT);
    fails(&mut w, create("q/sub/3", 1), Errno::EDQUOT);
    ok(&mut w, create("3", 1));
    w.crash(&[A, B]);
    fails(&mut w, create("q/sub/3", 1), Errno::EDQUOT);
    ok(&mut w, request(MdsOp::UNLINK, "q/1"));
    ok(&mut w, create("q/sub/3", 1));
    ok(&mut w, set("q", "quota", "0"));
    ok(&mut w, create("q/4", 1));
}
