//! The device against a temporary file, reached in each way that this host has.

use super::*;
use node::{DiskId, DiskOp};
use std::sync::mpsc;
use std::time::Duration;
use stdx::{BLOCK, Buf, Bufs, Rng};

const SIZE: u64 = 64 << 20;
const DISK: DiskId = DiskId(0);
const WAYS: [Access; 3] = [Access::Best, Access::Threads, Access::Buffered];

fn spec(dir: &tempfile::TempDir, access: Access) -> DiskSpec {
    DiskSpec { path: dir.path().join("block"), id: DISK, create_size: Some(SIZE), access }
}

fn temp() -> tempfile::TempDir {
    tempfile::tempdir().expect("temporary directory")
}

/// Starts all operations at once. Returns the results in the same order.
fn run_all(disk: &FileDisk, ops: Vec<DiskOp>) -> Vec<DiskResult> {
    let (tx, rx) = mpsc::channel();
    let mut results: Vec<Option<DiskResult>> = ops.iter().map(|_| None).collect();
    for (i, op) in ops.into_iter().enumerate() {
        let tx = tx.clone();
        disk.start(op, Box::new(move |result| tx.send((i, result)).expect("the test waits")));
    }
    let by_reaping = disk.completions().expect("a descriptor").is_some();
    for _ in 0..results.len() {
        let (i, result) = loop {
            match rx.try_recv() {
                Ok(found) => break found,
                // Operations that the ring does not do complete on another thread.
                Err(_) if by_reaping => {
                    disk.wait();
                    std::thread::yield_now();
                }
                Err(_) => break rx.recv().expect("done is called"),
            }
        };
        assert!(results[i].replace(result).is_none(), "done is called once");
    }
    results.into_iter().map(|result| result.expect("all have ended")).collect()
}

fn run(disk: &FileDisk, op: DiskOp) -> DiskResult {
    run_all(disk, vec![op]).remove(0)
}

fn read(offset: u64, len: usize) -> DiskOp {
    DiskOp::Read { disk: DISK, offset, len, cached: false }
}

/// May come from what is kept.
fn cached(offset: u64, len: usize) -> DiskOp {
    DiskOp::Read { disk: DISK, offset, len, cached: true }
}

fn write(offset: u64, data: impl Into<Bufs>) -> DiskOp {
    DiskOp::Write { disk: DISK, offset, data: data.into(), through: false }
}

const FLUSH: DiskOp = DiskOp::Flush { disk: DISK };

#[test]
fn this_host_has_every_way_to_reach_a_disk() {
    for (access, way) in WAYS.into_iter().zip(["direct, io_uring", "direct, threads", "page cache, threads"])
    {
        let dir = temp();
        let disk = open(&spec(&dir, access), &DiskPool::new(2)).expect("opens");
        // Outside CI the test reports a way that it could not try; in CI all are there.
        if disk.describe() != way && std::env::var_os("CI").is_none() {
            eprintln!("skipped: {way}: this host gives {}", disk.describe());
            continue;
        }
        assert_eq!(disk.describe(), way);
    }
}

#[test]
fn what_is_written_in_parts_is_read_back_also_after_reopening_in_another_way() {
    let dir = temp();
    let pool = DiskPool::new(2);
    let whole = Buf::pattern(1, 3 * BLOCK);
    for (i, access) in WAYS.into_iter().cycle().take(6).enumerate() {
        let disk = open(&spec(&dir, access), &pool).expect("opens: the one before has let go of it");
        assert_eq!(disk.info().size, SIZE);
        if i > 0 {
            let before = (i as u64 - 1) * 65536;
            assert_eq!(run(&disk, read(before, whole.len())).expect("reads"), whole, "{access:?}");
        }
        // Parts that direct access can't write from where they are.
        let mut data = Bufs::new();
        [0..512, 512..5000, 5000..whole.len()].into_iter().for_each(|part| data.push(whole.slice(part)));
        run(&disk, write(i as u64 * 65536, data)).expect("writes");
        run(&disk, FLUSH).expect("flushes");
        let blank = run(&disk, read(SIZE - BLOCK as u64, BLOCK)).expect("reads");
        assert_eq!(blank, Buf::zeros(BLOCK));
    }
}

#[test]
fn many_at_once_end_each_with_its_own_result() {
    for access in WAYS {
        let dir = temp();
        let disk = open(&spec(&dir, access), &DiskPool::new(3)).expect("opens");
        let mut rng = Rng::from_seed(7);
        let mut places: Vec<u64> = (0..700).collect();
        rng.shuffle(&mut places);
        let content = |place: u64| Buf::pattern(place, BLOCK * (1 + place as usize % 3));
        let at = |place: u64| place * 4 * BLOCK as u64;
        let writes = places.iter().map(|p| write(at(*p), content(*p))).collect();
        assert!(run_all(&disk, writes).into_iter().all(|result| result.is_ok()), "{access:?}");
        // Some of them wrong, some with nothing to do.
        let mut ops: Vec<_> = places.iter().map(|p| read(at(*p), content(*p).len())).collect();
        ops.push(read(SIZE, BLOCK));
        ops.push(read(0, 0));
        ops.push(FLUSH);
        ops.push(DiskOp::Discard { disk: DISK, offset: 32 << 20, len: 1 << 20 });
        ops.push(DiskOp::Discard { disk: DISK, offset: 0, len: BLOCK as u64 });
        let mut results = run_all(&disk, ops);
        let rest = results.split_off(places.len());
        for (place, result) in places.iter().zip(results) {
            assert_eq!(result.expect("reads"), content(*place), "{access:?}: {place}");
        }
        assert_eq!(rest.iter().map(Result::is_ok).collect::<Vec<_>>(), [false, true, true, true, true]);
    }
}

#[test]
fn what_is_kept_is_what_was_written_last() {
    const PLACES: u64 = 40;
    for access in WAYS {
        let dir = temp();
        let mut disk = open(&spec(&dir, access), &DiskPool::new(3)).expect("opens");
        disk.keep(1 << 20);
        let mut rng = Rng::from_seed(9);
        let mut content: Vec<u64> = (0..PLACES).collect();
        let at = |place: usize| place as u64 * 2 * BLOCK as u64;
        let bytes = |seed: u64| Buf::pattern(seed, 2 * BLOCK);
        run_all(&disk, (0..PLACES as usize).map(|p| write(at(p), bytes(content[p]))).collect());
        for round in 1..200 {
            // As a store does: what is being written is not read.
            let mut places: Vec<usize> = (0..PLACES as usize).collect();
            rng.shuffle(&mut places);
            let (written, read) = places.split_at(PLACES as usize / 4);
            written.iter().for_each(|p| content[*p] = round * PLACES + *p as u64);
            let writes = written.iter().map(|p| write(at(*p), bytes(content[*p])));
            let reads = read.iter().map(|p| cached(at(*p), 2 * BLOCK));
            let results = run_all(&disk, writes.chain(reads).collect()).split_off(written.len());
            for (place, result) in read.iter().zip(results) {
                assert_eq!(result.expect("reads"), bytes(content[*place]), "{access:?}: {place}");
            }
        }
        run(&disk, DiskOp::Discard { disk: DISK, offset: 0, len: 1 << 20 }).expect("discards");
        let (kept, there) = (run(&disk, cached(0, BLOCK)), run(&disk, read(0, BLOCK)));
        assert_eq!(kept.expect("reads"), there.expect("reads"), "{access:?}: what was discarded");
    }
}

#[test]
fn a_ring_says_when_there_is_something_to_reap() {
    let dir = temp();
    let disk = open(&spec(&dir, Access::Best), &DiskPool::new(1)).expect("opens");
    let Some(event) = disk.completions().expect("a descriptor") else {
        assert!(std::env::var_os("CI").is_none(), "no io_uring here");
        return eprintln!("skipped: no io_uring here");
    };
    let is_readable = |patience: Duration| {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut fds = [PollFd::new(&event, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::try_from(patience).expect("short"))).expect("polls") == 1
    };
    assert!(!is_readable(Duration::ZERO));
    let (tx, rx) = mpsc::channel();
    disk.start(write(0, Buf::pattern(1, BLOCK)), Box::new(move |result| tx.send(result).expect("heard")));
    disk.submit();
    assert!(is_readable(Duration::from_secs(60)));
    disk.reap();
    assert_eq!(rx.try_recv().expect("done"), Ok(Buf::empty()));
}

#[test]
fn what_is_in_flight_when_it_is_dropped_touches_no_memory_afterwards() {
    let pool = DiskPool::new(2);
    let dir = temp();
    for round in 0..8 {
        let disk = open(&spec(&dir, Access::Best), &pool).expect("opens: the one before has let go of it");
        for i in 0..16 {
            disk.start(write(i << 20, Buf::pattern(round, 1 << 20)), Box::new(|_| ()));
            disk.start(read(i << 20, 1 << 20), Box::new(|_| ()));
        }
        disk.submit();
    }
}

#[test]
fn a_second_opener_is_told_that_another_process_has_it() {
    let dir = temp();
    let pool = DiskPool::new(1);
    let _first = open(&spec(&dir, Access::Best), &pool).expect("opens");
    let error = open(&spec(&dir, Access::Best), &pool).map(|_| ()).expect_err("locked");
    let expected = format!("is in use by process {} (`", std::process::id());
    assert!(error.to_string().contains(&expected), "{error}");
}

#[test]
fn beyond_the_end_or_parts_of_blocks_are_errors() {
    for access in WAYS {
        let dir = temp();
        let disk = open(&spec(&dir, access), &DiskPool::new(1)).expect("opens");
        let block = Buf::zeros(BLOCK);
        let last = u64::MAX - u64::MAX % BLOCK as u64;
        for op in [
            write(SIZE, block.clone()),
            write(512, block.clone()),
            write(0, block.slice(0..512)),
            read(last, BLOCK),
            read(0, 100),
            DiskOp::Discard { disk: DISK, offset: SIZE, len: 1 << 20 },
        ] {
            let what = format!("{access:?}: {op:?}");
            assert_eq!(run(&disk, op).map_err(|e| e.errno), Err(wire::Errno::EINVAL), "{what}");
        }
    }
}

#[test]
fn a_directory_is_refused_with_what_it_is() {
    let dir = temp();
    let spec =
        DiskSpec { path: dir.path().to_owned(), id: DISK, create_size: None, access: Access::default() };
    assert!(open(&spec, &DiskPool::new(1)).is_err());
}

/// A loop device of [`SIZE`] bytes over a file in `dir`. `None`, with a message, if this user may not make
/// one.
fn loop_device(dir: &tempfile::TempDir, sector: u32) -> Option<LoopDevice> {
    let file = dir.path().join("disk");
    std::fs::File::create(&file).and_then(|f| f.set_len(SIZE)).expect("creates");
    let mut command = std::process::Command::new("losetup");
    let out = command.args(["--find", "--show", "--sector-size", &sector.to_string()]).arg(&file).output();
    match out {
        Ok(out) if out.status.success() => {
            Some(LoopDevice(String::from_utf8(out.stdout).expect("UTF-8").trim().to_owned()))
        }
        other => {
            assert!(std::env::var_os("CI").is_none(), "no loop devices here: {other:?}");
            eprintln!("skipped: no loop devices here");
            None
        }
    }
}

struct LoopDevice(String);

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = std::process::Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

#[test]
fn a_block_device_tells_its_sectors_and_is_opened_by_one_at_a_time_under_any_name() {
    let pool = DiskPool::new(2);
    for sector in [512, 4096] {
        let dir = temp();
        let Some(device) = loop_device(&dir, sector) else { return };
        for access in WAYS.into_iter().cycle().take(9) {
            let spec = DiskSpec { path: device.0.clone().into(), id: DISK, create_size: Some(SIZE), access };
            let disk = open(&spec, &pool).expect("opens: the one before has let go of it");
            assert_eq!((disk.info().size, disk.info().sector), (SIZE, sector));
            let data = Buf::pattern(sector.into(), 3 * BLOCK);
            run(&disk, write(BLOCK as u64, data.clone())).expect("writes");
            run(&disk, FLUSH).expect("flushes");
            assert_eq!(run(&disk, read(BLOCK as u64, data.len())).expect("reads"), data, "{access:?}");
            let error = open(&spec, &pool).map(|_| ()).expect_err("in use").to_string();
            assert!(error.contains(&format!("in use by process {}", std::process::id())), "{error}");
        }
    }
}

/// Bytes that a file takes of its file system.
fn taken(path: &std::path::Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).expect("it is there").blocks() * 512
}

/// Fills some MiB and discards half of that. Returns the allocated bytes of `file` before and after.
fn write_and_discard(disk: &FileDisk, file: &std::path::Path) -> (u64, u64) {
    run(disk, write(8 << 20, Buf::pattern(1, 8 << 20))).expect("writes");
    run(disk, FLUSH).expect("flushes");
    let before = taken(file);
    run(disk, DiskOp::Discard { disk: DISK, offset: 12 << 20, len: 4 << 20 }).expect("ends");
    run(disk, FLUSH).expect("flushes");
    let kept = run(disk, read(8 << 20, 4 << 20)).expect("reads");
    assert_eq!(kept, Buf::pattern(1, 8 << 20).slice(0..4 << 20), "what is beside it stays");
    (before, taken(file))
}

#[test]
fn discarded_space_goes_back_to_the_host_but_for_a_file_that_was_allocated() {
    let pool = DiskPool::new(2);
    for access in WAYS {
        let dir = temp();
        let file = dir.path().join("block");
        let disk = open(&spec(&dir, access), &pool).expect("opens");
        assert_eq!(disk.describe_discards(), "free space becomes holes");
        let (before, after) = write_and_discard(&disk, &file);
        assert!(before >= 8 << 20 && after <= before - (4 << 20), "{access:?}: {before}, then {after}");
        drop(disk);
        let allocated = std::fs::File::options().write(true).open(&file).expect("opens");
        rustix::fs::fallocate(&allocated, rustix::fs::FallocateFlags::empty(), 0, SIZE).expect("allocates");
        let disk = open(&spec(&dir, access), &pool).expect("opens");
        assert_eq!(disk.describe_discards(), "free space stays allocated");
        let (before, after) = write_and_discard(&disk, &file);
        assert!(before >= SIZE && after >= SIZE, "{access:?}: {before}, then {after}");
    }
    for access in WAYS {
        let dir = temp();
        let Some(device) = loop_device(&dir, 512) else { return };
        let spec = DiskSpec { path: device.0.clone().into(), id: DISK, create_size: None, access };
        let disk = open(&spec, &pool).expect("opens");
        assert_eq!(disk.describe_discards(), "free space is discarded");
        let (before, after) = write_and_discard(&disk, &dir.path().join("disk"));
        assert!(before >= 8 << 20 && after <= before - (4 << 20), "{access:?}: {before}, then {after}");
    }
}
