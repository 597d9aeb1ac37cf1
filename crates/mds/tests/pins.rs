//! Directories that are distributed over ranks by what is set on one above them.

mod world;

use msgs::{ClientRequest, MdsOp};
use std::collections::BTreeMap;
use std::time::Duration;
use wire::{Errno, Reader};
use world::client::{mkdir, request, setxattr};
use world::ranks::{A, Ranks};

const CHILDREN: usize = 24;

fn child(i: usize) -> String {
    format!("home/u{i:02}")
}

/// A directory at rank 0 with some in it, and one below each of them.
fn homes(seed: u64, count: u32) -> Ranks {
    let mut r = Ranks::of(seed, count);
    r.ok(0, mkdir("home"));
    for i in 0..CHILDREN {
        r.ok(0, mkdir(&child(i)));
        r.ok(0, mkdir(&format!("{}/sub", child(i))));
    }
    r
}

fn seconds(r: &mut Ranks, seconds: u64) {
    for _ in 0..seconds {
        for rank in 0..r.count() {
            r.with(rank, |w| w.advance(Duration::from_secs(1)));
        }
        r.settle();
    }
}

/// The rank that has each of the children.
fn holders(r: &Ranks) -> BTreeMap<String, usize> {
    let holder = |i| match r.authorities(&format!("/{}", child(i)))[..] {
        [rank] => (child(i), rank),
        ref other => panic!("{} is served by {other:?}", child(i)),
    };
    (0..CHILDREN).map(holder).collect()
}

fn counts(holders: &BTreeMap<String, usize>, ranks: usize) -> Vec<usize> {
    (0..ranks).map(|rank| holders.values().filter(|holder| **holder == rank).count()).collect()
}

fn exports(r: &Ranks) -> usize {
    r.worlds.iter().flat_map(|w| &w.log).filter(|line| line.contains("subtree_exported")).count()
}

fn shown(r: &mut Ranks, path: &str, name: &str) -> String {
    let path2 = msgs::FilePath { ino: 0, path: name.as_bytes().to_vec() };
    let reply = r.ok(0, ClientRequest { path2, ..request(MdsOp::GETVXATTR, path) });
    Reader::new(&reply.extra).versioned(1, |_, r| r.get::<String>()).expect("a value")
}

#[test]
fn the_children_of_a_directory_are_distributed_over_all_ranks_and_stay_there() {
    let mut r = homes(1, 3);
    assert_eq!(shown(&mut r, "home", "ceph.dir.pin.distributed"), "0");
    assert_eq!(r.moves(0, setxattr("home", "ceph.dir.pin.distributed", b"1")).result, 0);
    assert_eq!(shown(&mut r, "home", "ceph.dir.pin.distributed"), "1");
    seconds(&mut r, 3);
    let spread = holders(&r);
    assert!(counts(&spread, 3).iter().all(|count| *count >= 4), "{spread:?}");
    assert_eq!(r.authorities("/home"), [0]);
    // Whoever is made later is distributed too, and what has a pin of its own is where that says.
    r.ok(0, mkdir("home/new"));
    let moved = spread.iter().find(|(_, rank)| **rank == 0).expect("one is at rank 0").0.clone();
    r.ok(0, setxattr(&moved, "ceph.dir.pin", b"2"));
    seconds(&mut r, 3);
    assert_eq!(r.authorities(&format!("/{moved}")), [2]);
    let moves = exports(&r);
    seconds(&mut r, 60);
    assert_eq!(exports(&r), moves, "they stay");
}

#[test]
fn a_rank_that_stops_or_starts_gets_its_part_and_nothing_else_moves() {
    let mut r = homes(2, 3);
    assert_eq!(r.moves(0, setxattr("home", "ceph.dir.pin.distributed", b"1")).result, 0);
    seconds(&mut r, 3);
    let before = holders(&r);
    r.stop();
    r.until_stopped();
    seconds(&mut r, 10);
    let without = holders(&r);
    assert_eq!(counts(&without, 3)[2], 0);
    assert!(before.iter().all(|(dir, rank)| *rank == 2 || without[dir] == *rank), "{before:?} {without:?}");
    r.start();
    seconds(&mut r, 10);
    assert_eq!(holders(&r), before);
}

/// It was moved by hand before.
#[test]
fn setting_and_taking_it_away_brings_everything_back_first() {
    let mut r = homes(3, 2);
    r.export(0, &format!("/{}", child(5)), 1);
    r.settle();
    assert_eq!(r.moves(0, setxattr("home", "ceph.dir.pin.distributed", b"1")).result, 0);
    assert_eq!(r.authorities(&format!("/{}", child(5))), [0]);
    seconds(&mut r, 10);
    assert!(counts(&holders(&r), 2).iter().all(|count| *count >= 6));
    assert_eq!(r.moves(0, setxattr("home", "ceph.dir.pin.distributed", b"0")).result, 0);
    seconds(&mut r, 10);
    assert_eq!(counts(&holders(&r), 2), [CHILDREN, 0]);
}

#[test]
fn a_part_of_all_directories_below_one_is_pinned_at_random() {
    let mut r = Ranks::of(4, 2);
    r.ok(0, setxattr("", "ceph.dir.pin.random", b"0.01"));
    for i in 0..20 {
        r.ok(0, mkdir(&format!("d{i}")));
        (0..30).for_each(|j| drop(r.ok(0, mkdir(&format!("d{i}/e{j}")))));
    }
    seconds(&mut r, 5);
    let list = r.worlds[0].rank.subtree_list();
    let drawn = list.as_array().expect("a list").iter().filter(|one| one["random_ephemeral_pin"] == true);
    let drawn = drawn.count();
    assert!((1..=10).contains(&drawn), "of 620, those of the other rank: {drawn}");
    assert!(list.as_array().expect("a list").iter().all(|one| one["export_pin_target"] != 0));
}

#[test]
fn values_that_are_no_pins_are_refused() {
    let mut r = Ranks::of(5, 2);
    r.ok(0, mkdir("d"));
    let cases = [
        ("ceph.dir.pin.distributed", "2", Errno::EINVAL),
        ("ceph.dir.pin.distributed", "", Errno::EINVAL),
        ("ceph.dir.pin.random", "x", Errno::EINVAL),
        ("ceph.dir.pin.random", "-0.1", Errno::EDOM),
        ("ceph.dir.pin.random", "1.5", Errno::EDOM),
        ("ceph.dir.pin.random", "0.02", Errno::EINVAL),
        ("ceph.dir.pin", "256", Errno::EDOM),
    ];
    for (name, value, errno) in cases {
        let reply = r.with(0, |w| w.call(A, setxattr("d", name, value.as_bytes())));
        assert_eq!(reply.result, errno.to_result_code(), "{name} {value}");
    }
    assert_eq!(r.moves(0, setxattr("d", "ceph.dir.pin.random", b"0.001")).result, 0);
    assert_eq!(shown(&mut r, "d", "ceph.dir.pin.random"), "0.001");
    let path2 = msgs::FilePath { ino: 0, path: b"ceph.dir.pin.random".to_vec() };
    r.ok(0, ClientRequest { path2, ..request(MdsOp::RMXATTR, "d") });
    assert_eq!(shown(&mut r, "d", "ceph.dir.pin.random"), "0");
}
