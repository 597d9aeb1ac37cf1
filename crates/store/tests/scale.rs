//! Many objects in little memory, and a device that fills up.

mod common;

use common::disk::SimDisk;
use common::*;
use stdx::{Buf, Rng};
use store::{Config, ObjectKey, Read, ReadReply, Refusal, TxnOp};

#[test]
fn a_hundred_thousand_objects_open_and_run_in_a_few_megabytes() {
    const OBJECTS: u32 = 100_000;
    let config = Config { cache_bytes: 2 << 20, table_bytes: 3 << 20, log_bytes: Some(4 << 20), ..small() };
    let bound = 2 * (3 << 20) + (2 << 20) + (3 << 20);
    let mut bench = Bench::open(SimDisk::new(512 << 20, 4096, 1), config.clone());
    let name = |i: u32| key(&format!("{i:x}.00000000"));
    let value = |i: u32| i.to_le_bytes().repeat(10);
    for i in (0..OBJECTS).step_by(50) {
        let ops = (i..i + 50).map(|i| TxnOp::SetAttr(name(i), b"_".to_vec(), value(i))).collect();
        bench.commit(txn(ops));
    }
    bench.clean();
    let usage = bench.store.usage();
    assert_eq!(usage.objects, u64::from(OBJECTS));
    assert!(bench.most_memory < bound, "{} bytes of {bound}", bench.most_memory);

    let mut bench = bench.reopen(config);
    let mut rng = Rng::from_seed(4);
    for _ in 0..300 {
        let i = rng.below(u64::from(OBJECTS)) as u32;
        let read = Read::Object {
            key: name(i),
            attrs: true,
            data: vec![],
            omap_header: false,
            omap_keys: vec![],
            omap_range: None,
        };
        let Ok(ReadReply::Object(Some(view))) = bench.read(read) else { panic!("object {i}") };
        assert_eq!(view.attrs, [(b"_".to_vec(), value(i))]);
    }
    let (mut from, to) = (ObjectKey::first_at(1, -1, 0), ObjectKey::first_at(2, -1, 0));
    let mut seen = 0;
    loop {
        let Ok(ReadReply::List(keys)) =
            bench.read(Read::List { from: from.clone(), to: to.clone(), max: 5000 })
        else {
            panic!("a list");
        };
        let Some(last) = keys.last() else { break };
        assert!(keys.is_sorted() && keys[0] >= from);
        seen += keys.len();
        from = ObjectKey { generation: u64::MAX, snap: u64::MAX, ..last.clone() };
    }
    assert_eq!(seen, OBJECTS as usize);
    assert!(bench.most_memory < bound, "{} bytes of {bound} after opening", bench.most_memory);
}

#[test]
fn a_full_device_refuses_data_takes_removals_and_is_as_good_as_new_after() {
    let mut bench = Bench::new(8);
    let mut filled = Vec::new();
    for round in 0..3 {
        let mut count = 0;
        let large = round != 1;
        loop {
            let len = if large { 200_000 } else { 3000 };
            let name = key(&format!("{round}-{count}"));
            let write = txn(vec![TxnOp::Write(name, 0, Buf::pattern(count, len).into())]);
            match bench.store.fits(&write) {
                Ok(()) => bench.commit(write),
                Err(refusal) => {
                    assert_eq!(refusal, Refusal::NoSpace);
                    break;
                }
            }
            count += 1;
        }
        let usage = bench.store.usage();
        assert!(usage.available < 1 << 20, "round {round}: {usage:?}");
        let len = if large { 200_000 } else { 3000 };
        assert_eq!(bench.data(&format!("{round}-{}", count - 1), 0, len).expect("reads").len() as u64, len);
        for i in 0..count {
            bench.commit(txn(vec![TxnOp::Remove(key(&format!("{round}-{i}")))]));
        }
        bench.clean();
        assert_eq!((bench.store.usage().objects, bench.store.usage().allocated), (0, 0));
        filled.push(count);
    }
    assert_eq!(filled[0], filled[2], "nothing is lost by having been full");
    assert!(filled[0] * 200_000 > 4 << 20, "most of the device can be used: {filled:?}");
}

fn omap_entry(i: u64) -> (Vec<u8>, Vec<u8>) {
    (format!("{i:08}").into_bytes(), vec![i as u8; if i.is_multiple_of(50) { 1500 } else { 80 }])
}

/// A cache and a table of a few dozen pages.
fn tight() -> Config {
    Config { cache_bytes: 512 << 10, table_bytes: 400 << 10, log_bytes: Some(2 << 20), ..small() }
}

/// Makes an object with an omap of so many entries.
fn fill_omap(bench: &mut Bench, entries: u64) {
    for i in (0..entries).step_by(200) {
        bench.commit(txn(vec![TxnOp::OmapSet(key("a"), (i..i + 200).map(omap_entry).collect())]));
    }
}

/// All parts of an object at once, with a small cache and none of its pages in it.
#[test]
fn a_read_of_omap_and_data_gives_both_whole() {
    let mut bench = Bench::open(SimDisk::new(64 << 20, 4096, 1), small());
    fill_omap(&mut bench, 5000);
    // Not in a row, so that there are many extents.
    for i in 0..600u64 {
        let write = TxnOp::Write(key("a"), (i * 7 % 600) * 8192, Buf::pattern(i * 7 % 600, 4096).into());
        bench.commit(txn(vec![write]));
    }
    bench.clean();
    let mut bench = bench.reopen(small());
    let named: Vec<Vec<u8>> = (0..6000).step_by(100).map(|i| omap_entry(i).0).collect();
    let read = Read::Object {
        key: key("a"),
        attrs: false,
        data: vec![(0, 600 * 8192)],
        omap_header: false,
        omap_keys: named.clone(),
        omap_range: Some(store::OmapRange { max: 3000, max_bytes: usize::MAX, ..Default::default() }),
    };
    let Ok(ReadReply::Object(Some(view))) = bench.read(read) else { panic!("an object") };
    let expected: Vec<_> = (0..5000).map(omap_entry).collect();
    assert!(view.omap_values.iter().eq(expected.iter().step_by(100)));
    assert!(view.omap_entries == expected[..3000] && view.omap_more);
    let data = view.data[0].to_buf();
    for (i, part) in data.chunks(8192).enumerate() {
        assert!(part[..4096] == Buf::pattern(i as u64, 4096)[..] && part[4096..].iter().all(|b| *b == 0));
    }
}

fn omap_of(bench: &mut Bench, name: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    let all = store::OmapRange { max: usize::MAX, max_bytes: usize::MAX, ..store::OmapRange::default() };
    let read = Read::Object {
        key: key(name),
        attrs: false,
        data: vec![],
        omap_header: false,
        omap_keys: vec![],
        omap_range: Some(all),
    };
    match bench.read(read) {
        Ok(ReadReply::Object(Some(view))) => view.omap_entries,
        other => panic!("an object, not {other:?}"),
    }
}

#[test]
fn a_large_omap_is_cloned_in_little_memory_whole_or_not_at_all() {
    const ENTRIES: u64 = 10_000;
    let mut bench = Bench::open(SimDisk::new(64 << 20, 4096, 1), small());
    fill_omap(&mut bench, ENTRIES);
    bench.clean();
    let mut cuts = 0;
    loop {
        bench.most_memory = 0;
        bench.submit(txn(vec![TxnOp::Clone(key("a"), key("b")), TxnOp::Clone(key("a"), key("c"))]));
        (0..cuts * 150).for_each(|_| {
            bench.step();
        });
        assert!(bench.most_memory < 1 << 20, "{} bytes", bench.most_memory);
        let mut disk = bench.disk;
        disk.lose_power(cuts);
        bench = Bench::open(disk, small());
        bench.assert_nothing_leaks();
        assert!(bench.most_memory < 1 << 20, "{} bytes", bench.most_memory);
        match bench.store.usage().objects {
            1 => cuts += 1,
            3 => break,
            other => panic!("{other} objects: neither whole nor not at all"),
        }
    }
    assert!(cuts > 0, "it was cut at least once before it was logged");
    let expected: Vec<_> = (0..ENTRIES).map(omap_entry).collect();
    for name in ["a", "b", "c"] {
        assert!(omap_of(&mut bench, name) == expected, "{name}");
        bench.commit(txn(vec![TxnOp::Remove(key(name))]));
    }
    bench.assert_nothing_leaks();
    assert_eq!(bench.assert_sound().pages, Vec::<u64>::new(), "nothing is left in the index");
}

#[test]
fn the_entries_of_a_large_omap_that_a_transaction_changes_are_looked_up_together() {
    const ENTRIES: u64 = 20_000;
    let config = Config { cache_bytes: 4 << 20, table_bytes: 2 << 20, log_bytes: Some(4 << 20), ..small() };
    let mut bench = Bench::open(SimDisk::new(64 << 20, 4096, 1), config.clone());
    fill_omap(&mut bench, ENTRIES);
    bench.clean();
    let spread = || (0..ENTRIES).step_by(100).map(omap_entry);
    let names = || spread().map(|(name, _)| name).collect();
    for op in [TxnOp::OmapSet(key("a"), spread().collect()), TxnOp::OmapRemove(key("a"), names())] {
        bench = bench.reopen(config.clone());
        bench.submit(txn(vec![op]));
        let mut most = 0;
        while bench.step() {
            most = most.max(bench.disk.under_way());
        }
        assert!(most > 50, "{most} pages at once");
        bench.clean();
    }
    assert_eq!(omap_of(&mut bench, "a").len(), (ENTRIES - ENTRIES / 100) as usize);
}

#[test]
fn a_large_omap_that_is_removed_is_passed_over_once() {
    const ENTRIES: u64 = 20_000;
    let config = Config { table_bytes: 8 << 20, log_bytes: Some(8 << 20), ..small() };
    let mut bench = Bench::open(SimDisk::new(64 << 20, 4096, 1), config.clone());
    fill_omap(&mut bench, ENTRIES);
    bench.clean();
    let mut bench = bench.reopen(config);
    let before = bench.disk.reads;
    bench.commit(txn(vec![TxnOp::Remove(key("a"))]));
    bench.clean();
    let reads = bench.disk.reads - before;
    assert!(reads < ENTRIES / 20, "{reads} reads");
    assert_eq!(bench.assert_sound().pages, Vec::<u64>::new(), "nothing is left in the index");
}

#[test]
fn a_clone_repeats_what_its_transaction_did_before_to_the_original() {
    let mut bench = Bench::open(SimDisk::new(32 << 20, 4096, 1), small());
    fill_omap(&mut bench, 2000);
    bench.commit(txn(vec![
        TxnOp::OmapRemove(key("a"), vec![omap_entry(7).0, omap_entry(50).0]),
        TxnOp::OmapSet(key("a"), vec![(b"new".to_vec(), vec![1; 2000]), (omap_entry(100).0, vec![3])]),
        TxnOp::Clone(key("a"), key("b")),
        TxnOp::OmapSet(key("a"), vec![(b"newer".to_vec(), vec![2])]),
        TxnOp::Clone(key("a"), key("c")),
    ]));
    let mut expected: std::collections::BTreeMap<_, _> = (0..2000).map(omap_entry).collect();
    expected.remove(&omap_entry(7).0);
    expected.remove(&omap_entry(50).0);
    expected.insert(b"new".to_vec(), vec![1; 2000]);
    expected.insert(omap_entry(100).0, vec![3]);
    assert!(omap_of(&mut bench, "b").into_iter().eq(expected.clone()));
    expected.insert(b"newer".to_vec(), vec![2]);
    assert!(omap_of(&mut bench, "c").into_iter().eq(expected.clone()));
    assert!(omap_of(&mut bench, "a").into_iter().eq(expected));
    bench.assert_nothing_leaks();
}

#[test]
fn a_large_object_is_gone_at_once_and_its_space_soon() {
    let mut bench = Bench::open(SimDisk::new(96 << 20, 4096, 1), small());
    for i in 0..400u64 {
        // Not in a row, so that there are many extents.
        let write = TxnOp::Write(key("a"), (i * 7 % 400) * 131_072, Buf::pattern(i, 100_000).into());
        bench.commit(txn(vec![write]));
    }
    bench.commit(txn(vec![TxnOp::Clone(key("a"), key("b"))]));
    bench.clean();
    bench.most_memory = 0;
    bench.commit(txn(vec![TxnOp::Remove(key("a"))]));
    assert_eq!(bench.store.usage().objects, 1);
    bench.assert_nothing_leaks();
    assert!(bench.most_memory < 1 << 20, "{} bytes", bench.most_memory);
    assert_eq!(bench.data("b", 131_072, 100_000).expect("shared")[..], Buf::pattern(343, 100_000)[..]);
    bench.commit(txn(vec![TxnOp::Remove(key("b"))]));
    bench.assert_nothing_leaks();
    assert_eq!(bench.store.usage().allocated, 0);
}

#[test]
fn random_removals_from_an_omap_much_larger_than_the_cache_read_each_page_once() {
    const ENTRIES: u64 = 60_000;
    const REMOVED: usize = 6_000;
    let config = tight();
    for at_once in [20, 60, 200] {
        let mut bench = Bench::open(SimDisk::new(256 << 20, 4096, 1), config.clone());
        fill_omap(&mut bench, ENTRIES);
        bench.clean();
        let mut names: Vec<Vec<u8>> = (0..ENTRIES).map(|i| omap_entry(i).0).collect();
        Rng::from_seed(7).shuffle(&mut names);
        let before = bench.disk.reads;
        for names in names[..REMOVED].chunks_mut(at_once) {
            names.sort();
            bench.commit(txn(vec![TxnOp::OmapRemove(key("a"), names.to_vec())]));
        }
        bench.clean();
        // One for each, and those that checkpoints read.
        let reads = bench.disk.reads - before;
        assert!(reads < 2 * REMOVED as u64, "{reads} reads, {at_once} at once");
    }
}

#[test]
fn transactions_of_more_entries_than_the_cache_has_pages_read_each_page_once_beside_a_checkpoint() {
    const ENTRIES: u64 = 60_000;
    const REMOVED: usize = 12_000;
    let config = tight();
    let bound = 2 * config.table_bytes + config.cache_bytes + (1 << 20);
    let mut bench = Bench::open(SimDisk::new(256 << 20, 4096, 1), config);
    fill_omap(&mut bench, ENTRIES);
    bench.clean();
    let mut names: Vec<Vec<u8>> = (0..ENTRIES).map(|i| omap_entry(i).0).collect();
    Rng::from_seed(7).shuffle(&mut names);
    let before = bench.disk.reads;
    bench.most_memory = 0;
    for names in names[..REMOVED].chunks(400) {
        bench.submit(txn(vec![TxnOp::OmapRemove(key("a"), names.to_vec())]));
    }
    bench.clean();
    // One for each, and those that checkpoints read.
    let reads = bench.disk.reads - before;
    assert!(reads < 2 * REMOVED as u64, "{reads} reads");
    assert!(bench.most_memory < bound, "{} bytes of {bound}", bench.most_memory);
    assert_eq!(omap_of(&mut bench, "a").len(), ENTRIES as usize - REMOVED);
}

#[test]
fn a_transaction_waits_for_a_part_of_a_checkpoint_and_never_for_a_whole_one() {
    const ENTRIES: u64 = 60_000;
    let mut bench = Bench::open(SimDisk::new(256 << 20, 4096, 1), tight());
    fill_omap(&mut bench, ENTRIES);
    bench.clean();
    let mut rng = Rng::from_seed(7);
    // Operations of the disk that each waits for.
    let mut waits: Vec<usize> = Vec::new();
    let mut begun = std::collections::VecDeque::new();
    let mut steps = 0;
    for _ in 0..400 {
        let names = (0..100).map(|_| omap_entry(rng.below(ENTRIES)).0).collect();
        begun.push_back((bench.submit(txn(vec![TxnOp::OmapRemove(key("a"), names)])), steps));
        while begun.len() > 4 {
            let ended = bench.step_batch(32);
            assert!(ended > 0, "commits: {:?}", bench.failed);
            steps += ended;
            while let Some((_, from)) = begun.front().filter(|b| bench.committed.last() >= Some(&b.0)) {
                waits.push(steps - from);
                begun.pop_front();
            }
        }
    }
    let (sum, most) = (waits.iter().sum::<usize>(), *waits.iter().max().expect("some"));
    // 180 where transactions wait for the end of a checkpoint.
    assert!(most * 200 < sum, "{most} operations of {sum}");
}
