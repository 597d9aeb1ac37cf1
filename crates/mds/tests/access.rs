//! What keys do not allow: refused with EACCES, counted each time, and said once with who and what.

mod world;

use mds::MdsOptions;
use msgs::{ClientRequest, MdsOp, cap};
use wire::Errno;
use world::World;
use world::client::{
    create, getattr, lookup, mkdir, open, readdir, request, setattr_mode, setattr_size, two,
};
use world::pair::{A, B};

const RDWR: u32 = 2;
const TRUNC: u32 = 0o1000;

/// A tree that A may change, and B with its own key.
fn world(caps: &str) -> World {
    let mut w = World::new(1, MdsOptions::default());
    w.connect(A);
    for made in
        [mkdir("mine"), mkdir("mine2"), mkdir("theirs"), create("mine/f", RDWR), create("theirs/f", RDWR)]
    {
        assert_eq!(w.call(A, made).result, 0);
    }
    w.connect_with(B, caps);
    w
}

fn by(uid: u32, gid: u32, request: ClientRequest) -> ClientRequest {
    ClientRequest { caller_uid: uid, caller_gid: gid, ..request }
}

/// All that changes something at a path.
fn changes(dir: &str) -> Vec<(&'static str, ClientRequest)> {
    let at = |name: &str| format!("{dir}/{name}");
    vec![
        ("create", create(&at("new"), RDWR)),
        ("mkdir", mkdir(&at("newdir"))),
        ("open for writing", open(&at("f"), RDWR)),
        ("open with O_TRUNC", open(&at("f"), TRUNC)),
        ("truncate", setattr_size(&at("f"), 0)),
        ("chmod", setattr_mode(&at("f"), 0o777)),
        ("rename", two(MdsOp::RENAME, &at("g"), &at("f"))),
        ("link", two(MdsOp::LINK, &at("g"), &at("f"))),
        ("unlink", request(MdsOp::UNLINK, &at("f"))),
        ("rmdir", request(MdsOp::RMDIR, dir)),
    ]
}

fn reads(dir: &str) -> Vec<(&'static str, ClientRequest)> {
    let file = format!("{dir}/f");
    vec![
        ("lookup", lookup(&file)),
        ("stat", getattr(&file, cap::FILE_SHARED)),
        ("readdir", readdir(dir, b"", 0)),
        ("open", open(&file, 0)),
    ]
}

fn refused(w: &mut World, requests: Vec<(&'static str, ClientRequest)>, caller: (u32, u32)) {
    for (what, request) in requests {
        assert_eq!(
            w.call(B, by(caller.0, caller.1, request)).result,
            Errno::EACCES.to_result_code(),
            "{what} by {caller:?}"
        );
    }
}

fn allowed(w: &mut World, requests: Vec<(&'static str, ClientRequest)>, caller: (u32, u32)) {
    for (what, request) in requests {
        assert_ne!(
            w.call(B, by(caller.0, caller.1, request)).result,
            Errno::EACCES.to_result_code(),
            "{what} by {caller:?}"
        );
    }
}

#[test]
fn a_key_that_only_reads_changes_nothing() {
    let mut w = world("allow r");
    allowed(&mut w, reads("mine"), (0, 0));
    refused(&mut w, changes("mine"), (0, 0));
}

#[test]
fn a_key_for_a_path_does_nothing_elsewhere() {
    let mut w = world("allow rw path=/mine");
    refused(&mut w, changes("theirs"), (1, 1));
    refused(&mut w, reads("theirs"), (1, 1));
    refused(&mut w, reads("mine2"), (1, 1));
    for (what, request) in [
        ("out of it", two(MdsOp::RENAME, "theirs/g", "mine/f")),
        ("into it", two(MdsOp::RENAME, "mine/g", "theirs/f")),
        ("a link into it", two(MdsOp::LINK, "mine/g", "theirs/f")),
    ] {
        assert_eq!(w.call(B, request).result, Errno::EACCES.to_result_code(), "{what}");
    }
    allowed(&mut w, reads("mine"), (1, 1));
    allowed(&mut w, changes("mine"), (1, 1));
}

#[test]
fn root_changes_nothing_where_it_is_squashed() {
    let mut w = world("allow rw root_squash");
    allowed(&mut w, reads("mine"), (0, 0));
    for root in [(0, 0), (0, 7), (7, 0)] {
        refused(&mut w, changes("mine"), root);
    }
    allowed(&mut w, changes("mine"), (7, 7));
}

#[test]
fn a_key_for_a_user_is_of_no_use_to_others() {
    let mut w = world("allow rw uid=7 gids=8,9");
    refused(&mut w, reads("mine"), (6, 8));
    refused(&mut w, reads("mine"), (7, 7));
    allowed(&mut w, reads("mine"), (7, 9));
    let more = ClientRequest { gid_list: vec![1, 8], ..by(7, 7, lookup("mine/f")) };
    assert_eq!(w.call(B, more).result, 0);
}

#[test]
fn a_refusal_is_said_once_with_who_and_counted_each_time() {
    let mut w = world("allow r");
    refused(&mut w, changes("mine"), (5, 6));
    let said: Vec<&String> = w.log.iter().filter(|l| l.starts_with("request_denied")).collect();
    assert_eq!(said.len(), changes("mine").len(), "each is an event, which is what is counted");
    assert!(said[0].contains("client.20") && said[0].contains("uid 5"), "{}", said[0]);
}

/// Linux maps ids of a mount with the owner, and asks in the name of the caller.
#[test]
fn a_new_inode_belongs_to_the_owner_that_its_request_names() {
    let mut w = World::new(1, MdsOptions::default());
    w.connect(A);
    for request in [mkdir("d"), create("f", RDWR)] {
        let request =
            by(1000, 1000, ClientRequest { head_version: 3, owner_uid: 7, owner_gid: 8, ..request });
        let made = w.call(A, request).trace.target.expect("a target");
        assert_eq!((made.uid, made.gid), (7, 8));
    }
}
