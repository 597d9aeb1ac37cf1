//! Bytes that an operation costs in the journal: each changed inode is in its event whole, so a field that
//! every inode encodes is paid twice for each create.

mod world;

use mds::MdsOptions;
use msgs::MdsOp;
use world::World;
use world::client::{create, mkdir, request};

const A: u64 = 10;
const FILES: u64 = 100;

/// Mean bytes of an event while `request` is sent for each of 100 files of one directory.
fn mean(w: &mut World, mut call: impl FnMut(&str) -> msgs::ClientRequest) -> u64 {
    let before = w.rank.journal_bytes();
    for i in 0..FILES {
        assert_eq!(w.call(A, call(&format!("d/file{i:04}"))).result, 0);
    }
    (w.rank.journal_bytes() - before) / FILES
}

#[test]
fn events_of_common_operations_stay_small() {
    let mut w =
        World::new(1, MdsOptions { cache_inodes: 10_000, journal_bytes: 64 << 20, ..MdsOptions::default() });
    w.connect(A);
    assert_eq!(w.call(A, mkdir("d")).result, 0);
    let creates = mean(&mut w, |path| create(path, 1));
    let unlinks = mean(&mut w, |path| request(MdsOp::UNLINK, path));
    let mkdirs = mean(&mut w, mkdir);
    println!("bytes of an event: create {creates}, unlink {unlinks}, mkdir {mkdirs}");
    assert!(creates <= 540 && unlinks <= 550 && mkdirs <= 475, "{creates} {unlinks} {mkdirs}");
}
