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
