//! Bits that flip on the device: noticed when opening or reading, with what is damaged named; never wrong
//! data.

mod common;

use common::disk::SimDisk;
use common::model::Model;
use common::work::{Scale, any_txn, state};
use common::*;
use stdx::{Buf, Bufs, Rng};
use store::{Config, ObjectKey, OmapRange, Read, StoreError, TxnOp};

const SCALE: Scale = Scale { objects: 60, size: 200_000, write: 90_000, omap_keys: 60, value: 300 };

/// So that what the disk holds is what the store has written.
fn without_discards() -> Config {
    Config { discard_after: None, ..small() }
}

/// A store of 64 MiB with something of everything, closed in order.
fn populated() -> (SimDisk, Model) {
    let mut rng = Rng::from_seed(77);
    let mut bench = Bench::open(SimDisk::new(64 << 20, 512, 1), without_discards());
    let mut model = Model::default();
    while bench.committed.len() < 400 {
        let txn = any_txn(&mut rng, SCALE);
        if bench.store.fits(&txn).is_ok() {
            model.apply(&txn);
            bench.commit(txn);
        }
    }
    bench.assert_nothing_leaks();
    (bench.disk, model)
}

/// What the inspection finds.
fn inspected(disk: &SimDisk) -> Vec<String> {
    let mut read = |offset, len| Ok(disk.peek(offset, len));
    let report = store::inspect(disk.size(), store::Depth::Data, &mut read, &mut |_, _| {}).expect("reads");
    report.damage
}

/// Opens and reads everything; whether damage was reported. What is read without an error must be right.
fn look(disk: SimDisk, model: &Model) -> (SimDisk, bool) {
    let writes = disk.writes;
    let mut bench = Bench::start(disk, small(), 1);
    bench.run();
    let mut noticed = false;
    let mut check = |bench: &mut Bench, read: Read| match bench.read(read.clone()) {
        Ok(reply) => assert_eq!(reply, model.read(&read), "wrong data for {read:?}"),
        Err(StoreError::Corrupt(what)) => noticed |= !what.is_empty(),
        Err(other) => panic!("{other}"),
    };
    if bench.opened {
        let (from, to) =
            (ObjectKey::first_at(i64::MIN, -128, 0), ObjectKey::first_at(i64::MAX, 127, u32::MAX));
        check(&mut bench, Read::List { from, to, max: usize::MAX });
        for key in model.objects.keys() {
            check(
                &mut bench,
                Read::Object {
                    key: key.clone(),
                    attrs: true,
                    data: vec![(0, u64::MAX)],
                    omap_header: true,
                    omap_keys: vec![],
                    omap_range: Some(OmapRange {
                        max: usize::MAX,
                        max_bytes: usize::MAX,
                        ..OmapRange::default()
                    }),
                },
            );
        }
        bench.run();
    }
    noticed |= match &bench.failed {
        None => false,
        Some(StoreError::Corrupt(_) | StoreError::NotAStore(_)) => true,
        Some(other) => panic!("{other}"),
    };
    assert_eq!(bench.disk.writes, writes, "opening and reading change nothing");
    (bench.disk, noticed)
}

#[test]
fn a_changed_byte_is_noticed_or_harmless() {
    let (mut disk, model) = populated();
    let mut rng = Rng::from_seed(5 + first_seed());
    let sectors = disk.sectors();
    let mut noticed = 0;
    for _ in 0..seeds(150) {
        let at = *rng.pick(&sectors) * 512 + rng.below(512);
        let bits = 1 << rng.below(8);
        disk.flip(at, bits);
        let (back, found) = look(disk, &model);
        disk = back;
        noticed += u64::from(found);
        let damage = inspected(&disk);
        assert!(!found || !damage.is_empty(), "byte {at}: the inspection missed what a reader noticed");
        disk.flip(at, bits);
    }
    println!("{noticed} noticed");
    let (_, found) = look(disk, &model);
    assert!(noticed > 10 && !found, "{noticed} were noticed, none after repair");
}

#[test]
fn a_zeroed_or_exchanged_sector_is_noticed_or_harmless() {
    let (mut disk, model) = populated();
    let mut rng = Rng::from_seed(6 + first_seed());
    let sectors = disk.sectors();
    let mut noticed = 0;
    for _ in 0..seeds(100) {
        let (a, b) = (*rng.pick(&sectors), *rng.pick(&sectors));
        let old = disk.replace(a, vec![0; 512].into());
        let other = if rng.chance(1, 2) { Some(disk.replace(b, old.clone())) } else { None };
        if let Some(other) = &other {
            disk.replace(a, other.clone());
        }
        let (back, found) = look(disk, &model);
        disk = back;
        noticed += u64::from(found);
        if let Some(other) = other {
            disk.replace(b, other);
        }
        disk.replace(a, old);
    }
    assert!(noticed > 10, "{noticed}");
}

#[test]
fn a_log_record_before_the_last_that_is_damaged_refuses_to_open() {
    let mut bench = Bench::new(8);
    for i in 0..3 {
        bench.commit(txn(vec![TxnOp::SetAttr(key("a"), b"n".to_vec(), vec![i])]));
    }
    let mut disk = bench.disk;
    disk.flip((256 << 10) + 100, 1);
    let mut bench = Bench::start(disk, small(), 1);
    bench.run();
    let Some(StoreError::Corrupt(what)) = bench.failed else { panic!("refused") };
    assert!(what.contains("log record 1"), "{what}");
}

/// A store with two objects of 64 KiB, a and b, and the second one's content.
fn two_large_writes() -> (Bench, Buf) {
    let mut bench = Bench::new(8);
    bench.commit(txn(vec![TxnOp::Write(key("a"), 0, Buf::pattern(1, 64 << 10).into())]));
    let content = Buf::pattern(2, 64 << 10);
    bench.commit(txn(vec![TxnOp::Write(key("b"), 0, content.clone().into())]));
    (bench, content)
}

/// Where on the device an object's data begins.
fn place_of(disk: &SimDisk, content: &Buf) -> u64 {
    let block = content.slice(0..4096);
    (0..8 << 20).step_by(4096).find(|at| disk.peek(*at, 4096) == block).expect("it is there")
}

#[test]
fn a_large_write_of_the_last_record_that_cannot_be_read_costs_itself_and_not_the_store() {
    let (bench, content) = two_large_writes();
    let mut disk = bench.disk;
    let place = place_of(&disk, &content);
    disk.unreadable = place + 512..place + 1024;
    let mut bench = Bench::open(disk, small());
    assert_eq!(bench.data("a", 0, 64 << 10), Ok(Buf::pattern(1, 64 << 10).to_vec()));
    let error = bench.data("b", 0, 64 << 10).expect_err("it is damaged").to_string();
    assert!(error.contains("b (head)") || error.contains("unreadable"), "{error}");
    bench.disk.unreadable = 0..0;
    assert_eq!(bench.data("b", 0, 64 << 10), Ok(content.to_vec()), "it was acknowledged");
}

/// What follows was being written when the process died, which it only is once the record is durable.
#[test]
fn a_large_write_of_the_last_whole_record_that_has_decayed_costs_itself_and_not_the_store() {
    let (mut bench, content) = two_large_writes();
    bench.commit(txn(vec![TxnOp::SetAttr(key("c"), b"n".to_vec(), vec![3; 6000])]));
    let mut disk = bench.disk;
    let sectors = ((256 << 10) / 512..((256 + 512) << 10) / 512).rev();
    let end =
        sectors.into_iter().find(|s| disk.peek(s * 512, 512).iter().any(|b| *b != 0)).expect("a record");
    disk.replace(end, vec![0; 512].into());
    let place = place_of(&disk, &content);
    disk.flip(place + 700, 2);
    let mut bench = Bench::open(disk, small());
    assert_eq!(bench.data("a", 0, 64 << 10), Ok(Buf::pattern(1, 64 << 10).to_vec()));
    let error = bench.data("b", 0, 64 << 10).expect_err("it is damaged").to_string();
    assert!(error.contains("b (head)"), "{error}");
    assert_eq!(bench.read(Read::attrs_of(&key("c"))), Ok(store::ReadReply::Object(None)), "it was torn");
}

/// A write to a part of a block that can't be read so many times.
fn changed_in_part(unreadable_times: u32) -> (Result<Vec<u8>, StoreError>, Vec<u8>) {
    let (bench, content) = two_large_writes();
    let place = place_of(&bench.disk, &content);
    // With nothing in memory.
    let mut bench = Bench::open(bench.disk, small());
    (bench.disk.unreadable, bench.disk.unreadable_times) = (place + 512..place + 1024, unreadable_times);
    bench.commit(txn(vec![TxnOp::Write(key("b"), 100, Bufs::from(b"new".to_vec()))]));
    bench.run();
    bench.disk.unreadable = 0..0;
    let mut wanted = content.to_vec();
    wanted[100..103].copy_from_slice(b"new");
    (bench.data("b", 0, 64 << 10), wanted)
}

#[test]
fn a_block_that_could_not_be_read_for_a_moment_is_not_damaged_by_a_write_to_a_part_of_it() {
    let (found, wanted) = changed_in_part(3);
    assert_eq!(found, Ok(wanted));
    let error = changed_in_part(u32::MAX).0.expect_err("nobody knows the rest of it").to_string();
    assert!(error.contains("b (head)"), "{error}");
}

#[test]
fn the_last_log_record_rotten_is_told_from_torn() {
    let mut bench = Bench::new(8);
    for i in 0..3 {
        bench.commit(txn(vec![TxnOp::SetAttr(key("a"), b"n".to_vec(), vec![i; 6000])]));
    }
    let disk = bench.disk;
    // Records of two blocks each.
    let last = (256 << 10) + 2 * 8192;
    for at in [0, 100, 511, 512, 5000, 8191] {
        let mut disk = disk.copy();
        disk.flip(last + at, 4);
        let mut bench = Bench::start(disk, small(), 1);
        bench.run();
        let Some(StoreError::Corrupt(what)) = bench.failed else { panic!("refused: byte {at}") };
        assert!(what.contains("log record 3"), "{what}");
    }
    // As a power loss leaves it: some sectors were never written.
    let mut disk = disk;
    disk.replace((last + 512) / 512, vec![0; 512].into());
    let mut bench = Bench::open(disk, small());
    let model = state(&mut bench);
    assert_eq!(model.objects[&key("a")].attrs[&b"n"[..]], vec![1; 6000]);
}

#[test]
fn a_record_that_the_superblock_knows_to_be_durable_is_missed() {
    // Where a checkpoint ends while transactions come after it, its superblock knows that they are durable.
    let refused = (100..300).filter(|count| {
        let disk = SimDisk::new(8 << 20, 512, *count);
        let mut bench = Bench::open(disk, Config { batched: false, ..small() });
        for i in 0..*count {
            bench.submit(txn(vec![TxnOp::Write(key(&format!("{i}")), 0, Buf::pattern(i, 3000).into())]));
            while bench.committed.len() as u64 + 4 < i {
                assert!(bench.step());
            }
        }
        bench.run();
        let mut disk = bench.disk;
        disk.submit(op_id(1), node::DiskOp::Flush { disk: node::DiskId(0) });
        while disk.end_one().is_some() {}
        let log = (256 << 10) / 512..((256 + 512) << 10) / 512;
        for sector in disk.sectors().into_iter().filter(|s| log.contains(s)) {
            disk.replace(sector, vec![0; 512].into());
        }
        let mut bench = Bench::start(disk, small(), 1);
        bench.run();
        match bench.failed {
            Some(StoreError::Corrupt(what)) => {
                assert!(what.contains("it was durable and is not there"), "{what}");
                true
            }
            None => false,
            Some(other) => panic!("{other}"),
        }
    });
    assert!(refused.count() > 10, "the case comes about");
}

#[test]
fn a_partial_overwrite_does_not_heal_a_damaged_block_a_whole_one_does() {
    let mut bench = Bench::open(SimDisk::new(8 << 20, 512, 1), without_discards());
    bench.commit(txn(vec![TxnOp::Write(key("a"), 0, Buf::pattern(1, 8192).into())]));
    bench.clean();
    let mut disk = bench.disk;
    let place = disk.sectors().into_iter().find(|s| is_data(&mut disk, *s)).expect("the data");
    disk.flip(place * 512, 1);
    let mut bench = Bench::open(disk, small());
    let error = bench.data("a", 0, 8192).expect_err("damaged").to_string();
    assert!(error.contains(":a (head)") && error.contains("byte 0"), "{error}");
    assert_eq!(bench.data("a", 4096, 4096).expect("the other block"), &Buf::pattern(1, 8192)[4096..]);
    bench.commit(txn(vec![TxnOp::Write(key("a"), 100, Buf::from(vec![1; 100]).into())]));
    for _ in 0..2 {
        bench.data("a", 0, 1).expect_err("still damaged");
        bench.clean();
        bench = bench.reopen(small());
    }
    bench.commit(txn(vec![TxnOp::Write(key("a"), 0, Buf::pattern(2, 4096).into())]));
    assert_eq!(bench.data("a", 0, 4096).expect("whole again"), &Buf::pattern(2, 4096)[..]);
    assert_eq!(state(&mut bench).objects.len(), 1);
}

#[test]
fn what_has_decayed_under_the_cache_is_found_by_reading_past_it() {
    let mut bench = Bench::open(SimDisk::new(8 << 20, 512, 1), without_discards());
    bench.commit(txn(vec![TxnOp::Write(key("a"), 0, Buf::pattern(1, 8192).into())]));
    bench.clean();
    let whole = || Read::Object {
        key: key("a"),
        attrs: false,
        data: vec![(0, 8192)],
        omap_header: false,
        omap_keys: Vec::new(),
        omap_range: None,
    };
    let found = bench.read(whole()).expect("whole");
    assert_eq!(bench.read_device(whole()), Ok(found.clone()));
    let place = bench.disk.sectors().into_iter().find(|s| is_data(&mut bench.disk, *s)).expect("the data");
    bench.disk.flip(place * 512, 1);
    assert_eq!(bench.read(whole()), Ok(found), "it is in memory");
    assert!(matches!(bench.read_device(whole()), Err(StoreError::Corrupt(_))));
}

/// True if this sector begins with the first bytes of the pattern.
fn is_data(disk: &mut SimDisk, sector: u64) -> bool {
    let bytes = disk.replace(sector, vec![0; 512].into());
    let found = bytes[..] == Buf::pattern(1, 8192)[..512] && sector * 512 >= (256 << 10) + (512 << 10);
    disk.replace(sector, bytes);
    found
}
