//! The device against a temporary file.

use super::*;
use node::{DiskId, DiskOp};
use std::sync::mpsc;
use stdx::{Buf, Bufs};

const SIZE: u64 = 64 << 20;

fn spec(dir: &tempfile::TempDir) -> DiskSpec {
    DiskSpec { path: dir.path().join("block"), id: DiskId(0), create_size: Some(SIZE) }
}

fn run(disk: &FileDisk, op: DiskOp) -> DiskResult {
    let (tx, rx) = mpsc::channel();
    disk.start(op, Box::new(move |result| tx.send(result).expect("the test waits")));
    rx.recv().expect("done is called")
}

#[test]
fn what_is_written_in_parts_is_read_back_also_after_reopening() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let pool = DiskPool::new(2).expect("threads");
    let disk = open(&spec(&dir), &pool).expect("opens");
    assert_eq!(disk.info().size, SIZE);
    let whole = Buf::pattern(1, 3 * 4096);
    let mut data = Bufs::new();
    data.push(whole.slice(0..512));
    data.push(whole.slice(512..whole.len()));
    run(&disk, DiskOp::Write { disk: DiskId(0), offset: 8192, data }).expect("writes");
    run(&disk, DiskOp::Flush { disk: DiskId(0) }).expect("flushes");
    drop(disk);
    let disk = reopen(&dir, &pool);
    assert_eq!(
        run(&disk, DiskOp::Read { disk: DiskId(0), offset: 8192, len: whole.len() }).expect("reads"),
        whole
    );
    assert_eq!(
        run(&disk, DiskOp::Read { disk: DiskId(0), offset: 0, len: 512 }).expect("reads"),
        Buf::zeros(512)
    );
}

/// A thread of the pool may hold the last reference to the file for a moment after its operation has ended.
fn reopen(dir: &tempfile::TempDir, pool: &DiskPool) -> FileDisk {
    for _ in 0..1_000_000 {
        match open(&spec(dir), pool) {
            Err(DiskOpenError::Locked(_)) => std::thread::yield_now(),
            other => return other.expect("opens again"),
        }
    }
    panic!("the lock was never released");
}

#[test]
fn a_second_opener_is_told_that_another_process_has_it() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let pool = DiskPool::new(1).expect("threads");
    let _first = open(&spec(&dir), &pool).expect("opens");
    let error = open(&spec(&dir), &pool).map(|_| ()).expect_err("locked");
    let expected = format!("in use by another running nacre process, number {}", std::process::id());
    assert!(error.to_string().contains(&expected), "{error}");
}

#[test]
fn beyond_the_end_is_an_error_not_a_longer_file() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let pool = DiskPool::new(1).expect("threads");
    let disk = open(&spec(&dir), &pool).expect("opens");
    let data = Bufs::from(Buf::zeros(4096));
    let error = run(&disk, DiskOp::Write { disk: DiskId(0), offset: SIZE, data }).expect_err("refused");
    assert_eq!(error.errno, libc::EINVAL);
    assert_eq!(
        run(&disk, DiskOp::Read { disk: DiskId(0), offset: u64::MAX - 5, len: 512 })
            .expect_err("refused")
            .errno,
        libc::EINVAL
    );
}

#[test]
fn a_directory_is_refused_with_what_it_is() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let pool = DiskPool::new(1).expect("threads");
    let spec = DiskSpec { path: dir.path().to_owned(), id: DiskId(0), create_size: None };
    assert!(open(&spec, &pool).is_err());
}
