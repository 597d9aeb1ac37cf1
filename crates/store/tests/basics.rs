//! What an owner relies on, one situation each.

mod common;

use common::disk::SimDisk;
use common::*;
use stdx::{Buf, Bufs};
use store::{Config, ObjectKey, OmapRange, Read, ReadReply, Refusal, StoreError, TxnOp};

fn write(name: &str, offset: u64, bytes: impl Into<Bufs>) -> TxnOp {
    TxnOp::Write(key(name), offset, bytes.into())
}

#[test]
fn a_blank_device_becomes_a_store_that_keeps_what_was_committed() {
    let mut bench = Bench::new(16);
    assert_eq!(bench.store.identity().label, b"osd.7 of a test");
    let big = Buf::pattern(5, 300_000);
    bench.commit(txn(vec![
        write("a", 10, Buf::from(b"hello".to_vec())),
        write("big", 4096, big.clone()),
        TxnOp::SetAttr(key("a"), b"_".to_vec(), b"info".to_vec()),
        TxnOp::OmapSet(key("a"), vec![(b"k".to_vec(), b"v".to_vec())]),
    ]));
    for _ in 0..2 {
        assert_eq!(bench.data("a", 0, 100).expect("reads"), [&[0; 10][..], b"hello"].concat());
        assert_eq!(bench.data("big", 4000, 400_000).expect("reads")[96..], big[..]);
        let usage = bench.store.usage();
        assert_eq!((usage.objects, usage.data, usage.omap), (2, 15 + 304_096, 2));
        bench = bench.reopen(small());
    }
}

#[test]
fn without_leave_to_make_one_a_blank_device_is_refused() {
    let mut disk = SimDisk::new(16 << 20, 512, 1);
    let info = node::DiskInfo { id: node::DiskId(0), size: disk.size(), sector: 512 };
    let mut store = store::Store::new(small(), info, stdx::Rng::from_seed(1));
    let mut out = Vec::new();
    store.open(None, &mut out);
    let mut error = None;
    while error.is_none() {
        for o in std::mem::take(&mut out) {
            match o {
                store::StoreOut::Disk(id, op) => disk.submit(id, op),
                store::StoreOut::Failed(e) => error = Some(e),
                other => panic!("{other:?}"),
            }
        }
        if let Some((id, result)) = disk.end_one() {
            store.disk_done(id, result, &mut out);
        }
    }
    assert_eq!(error, Some(StoreError::NotAStore("the device is blank".to_owned())));
}

#[test]
fn something_else_on_the_device_is_refused_with_what_was_found() {
    let mut disk = SimDisk::new(16 << 20, 512, 1);
    let op = node::DiskOp::Write {
        disk: node::DiskId(0),
        offset: 0,
        data: Buf::from(vec![b'#'; 4096]).into(),
        through: false,
    };
    disk.submit(op_id(1), op);
    disk.end_one();
    let mut bench = Bench::start(disk, small(), 1);
    bench.run();
    let Some(StoreError::NotAStore(what)) = bench.failed else { panic!("refused") };
    assert!(what.contains("23"), "{what}");
}

#[test]
fn what_is_submitted_is_read_at_once_and_commits_come_in_order() {
    let mut bench = Bench::new(16);
    let a = bench.submit(txn(vec![write("a", 0, Buf::from(b"one".to_vec()))]));
    let b = bench.submit(txn(vec![write("a", 0, Buf::from(b"two".to_vec()))]));
    let read = bench.ask(object(key("a"), vec![(0, 9)]));
    assert!(
        bench.committed.is_empty() && bench.replies.len() == 1,
        "from memory, before the disk did anything"
    );
    let Ok(ReadReply::Object(Some(view))) = bench.answer(read) else { panic!("an object") };
    assert_eq!(view.data[0].to_vec(), b"two");
    bench.run();
    assert_eq!(bench.committed, [a, b]);
}

#[test]
fn transactions_of_a_batch_and_those_that_come_while_one_is_written_share_a_flush() {
    for (batched, flushes) in [(true, 1), (false, 2)] {
        let mut bench = Bench::open(SimDisk::new(16 << 20, 512, 1), Config { batched, ..small() });
        let before = bench.disk.flushes;
        for i in 0..100 {
            bench.submit(txn(vec![write("a", i * 10, Buf::from(vec![1; 10]))]));
        }
        bench.run();
        assert_eq!((bench.committed.len(), bench.disk.flushes - before), (100, flushes));
    }
}

#[test]
fn a_clone_shares_its_blocks_until_one_is_written() {
    let mut bench = Bench::new(16);
    bench.commit(txn(vec![write("a", 0, Buf::pattern(1, 1 << 20))]));
    let before = bench.store.usage().allocated;
    assert_eq!(before, 1 << 20);
    bench.commit(txn(vec![TxnOp::Clone(key("a"), key("b"))]));
    assert_eq!(bench.store.usage().allocated, before);
    bench.commit(txn(vec![write("b", 0, Buf::pattern(2, 4096))]));
    assert_eq!(bench.store.usage().allocated, before + 4096);
    assert_eq!(bench.data("a", 0, 1 << 20).expect("reads"), &Buf::pattern(1, 1 << 20)[..]);
    for name in ["a", "b"] {
        bench.commit(txn(vec![TxnOp::Remove(key(name))]));
    }
    bench.clean();
    assert_eq!((bench.store.usage().allocated, bench.store.usage().objects), (0, 0));
}

#[test]
fn a_large_read_leaves_nothing_in_the_hosts_memory_however_many_its_places() {
    let config = || Config { host_cache: true, cache_bytes: 4 << 20, ..small() };
    let mut bench = Bench::open(SimDisk::new(16 << 20, 512, 1), config());
    let size = 2 << 20;
    bench.commit(txn(vec![write("a", 0, Buf::pattern(1, size))]));
    let mut wanted = Buf::pattern(1, size).to_vec();
    for block in (0..size).step_by(100 << 10).map(|at| at / 4096 * 4096) {
        bench.commit(txn(vec![write("a", block as u64, Buf::pattern(2, 4096))]));
        wanted[block..block + 4096].copy_from_slice(&Buf::pattern(2, 4096));
    }
    bench = bench.reopen(config());
    let mut asked = |offset: usize, len: usize| {
        let before = bench.disk.host_reads;
        let found = bench.data("a", offset as u64, len as u64).expect("reads");
        assert!(found == wanted[offset..offset + len]);
        bench.disk.host_reads - before
    };
    // The index is in memory afterwards.
    asked(0, size);
    assert_eq!(asked(0, size), 0);
    assert!(asked(300 << 10, 300 << 10) > 1);
}

#[test]
fn holes_read_as_zeros_and_take_no_space() {
    let mut bench = Bench::new(16);
    bench.commit(txn(vec![write("a", 1 << 30, Buf::from(vec![7; 10])), TxnOp::Zero(key("b"), 0, 1 << 40)]));
    assert_eq!(bench.store.usage().allocated, 4096);
    assert_eq!(bench.data("a", (1 << 30) - 5, 100).expect("reads"), [&[0; 5][..], &[7; 10]].concat());
    let extents = bench.read(Read::Extents { key: key("a"), offset: 0, len: u64::MAX }).expect("reads");
    assert_eq!(extents, ReadReply::Extents(Some(vec![(1 << 30, 10)])));
    let extents = bench.read(Read::Extents { key: key("b"), offset: 0, len: u64::MAX }).expect("reads");
    assert_eq!(extents, ReadReply::Extents(Some(vec![])));
}

#[test]
fn names_and_sizes_beyond_the_limits_are_refused_before() {
    let bench = Bench::new(16);
    let fits = |op| bench.store.fits(&txn(vec![op]));
    let long = vec![b'x'; 2048];
    let object = ObjectKey::head(1, 5, &[], &[], &long);
    assert_eq!(fits(TxnOp::Touch(object)), Ok(()));
    assert_eq!(fits(TxnOp::Touch(ObjectKey::head(1, 5, &long, &[], &long))), Err(Refusal::NameTooLong));
    assert_eq!(fits(TxnOp::OmapSet(key("a"), vec![(vec![1; 3000], vec![])])), Err(Refusal::NameTooLong));
    assert_eq!(fits(TxnOp::Truncate(key("a"), u64::MAX)), Err(Refusal::ObjectTooLarge));
    assert_eq!(fits(TxnOp::OmapSetHeader(key("a"), vec![0; 300_000])), Err(Refusal::TooLarge));
    assert_eq!(fits(write("a", 0, Buf::zeros(20 << 20))), Err(Refusal::NoSpace));
}

#[test]
fn a_large_omap_is_gone_at_once_and_its_space_soon() {
    let mut bench = Bench::new(32);
    for i in 0..100u32 {
        let entries = (0..100u32).map(|j| (format!("{i:03}{j:03}").into_bytes(), vec![1; 30])).collect();
        bench.commit(txn(vec![TxnOp::OmapSet(key("a"), entries)]));
    }
    assert_eq!(bench.store.usage().omap, 10_000 * 36);
    bench.clean();
    let full = bench.store.usage().metadata;
    bench.commit(txn(vec![TxnOp::OmapClear(key("a"))]));
    let range = OmapRange { max: 10, max_bytes: 1000, ..OmapRange::default() };
    let read = Read::Object {
        key: key("a"),
        attrs: false,
        data: vec![],
        omap_header: false,
        omap_keys: vec![],
        omap_range: Some(range),
    };
    let Ok(ReadReply::Object(Some(view))) = bench.read(read) else { panic!("an object") };
    assert!(view.omap_entries.is_empty() && !view.omap_more);
    bench.clean();
    assert!(bench.store.usage().metadata < full, "{full}");
    assert!(bench.store.memory().tables < 1000);
}

#[test]
fn caches_keep_to_budgets_that_change() {
    let mut bench = Bench::new(32);
    let names: Vec<String> = (0..600).map(|i| format!("object-{i}")).collect();
    for name in &names {
        bench.commit(txn(vec![write(name, 0, vec![7; 8192])]));
    }
    bench.clean();
    let mut held_after_reads = |cache: usize, data: usize| {
        bench.store.set_caches(cache, data);
        for name in &names {
            let read = Read::Object {
                key: key(name),
                attrs: false,
                data: vec![(0, 8192)],
                omap_header: false,
                omap_keys: vec![],
                omap_range: None,
            };
            let Ok(ReadReply::Object(Some(view))) = bench.read(read) else { panic!("an object") };
            assert_eq!(view.data[0].to_vec(), vec![7; 8192]);
        }
        bench.store.memory().cache
    };
    let small = held_after_reads(300 << 10, 100 << 10);
    assert!(small <= 400 << 10, "{small}");
    let large = held_after_reads(8 << 20, 8 << 20);
    assert!(large > 600 * 8192, "everything is kept: {large}");
    let small = held_after_reads(300 << 10, 0);
    assert!(small <= 300 << 10, "what is too much is given back: {small}");
}

#[test]
fn a_disk_error_stops_the_store_and_nothing_is_acknowledged_after() {
    // Five pieces of data, the record, the flush.
    for after in 0..7 {
        let mut bench = Bench::new(16);
        bench.disk.fail_after = Some(after);
        for i in 0..5u64 {
            bench.submit(txn(vec![write("a", i << 16, Buf::pattern(i, 70_000))]));
        }
        bench.run();
        let failed = bench.failed.clone();
        assert!(
            matches!(failed, Some(StoreError::Io(ref e)) if e.errno == wire::Errno::EIO),
            "{after}: {failed:?}"
        );
        let committed = bench.committed.len();
        bench.submit(txn(vec![TxnOp::Touch(key("b"))]));
        bench.run();
        assert_eq!(bench.committed.len(), committed, "it does nothing any more");
    }
}

#[test]
fn what_another_store_left_in_the_place_of_the_log_is_erased() {
    let mut disk = SimDisk::new(8 << 20, 512, 1);
    disk.fill(256 << 10, Buf::pattern(3, 512 * 600));
    let mut bench = Bench::open(disk, small());
    bench.commit(txn(vec![TxnOp::SetAttr(key("a"), b"n".to_vec(), b"v".to_vec())]));
    // Not closed in order: the log is read, and nothing in it looks damaged.
    let bench = bench.reopen(small());
    assert_eq!(bench.store.usage().objects, 1);
    assert_eq!(bench.assert_sound().damage, Vec::<String>::new());
}
