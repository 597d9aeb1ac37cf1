//! COPY_FROM: objects that become copies of others, wherever these are.

use super::cluster::{Cluster, POOL, append};
use maps::{ObjectLocator, SnapId};
use msgs::op::input;
use msgs::{Extent, Op};
use std::time::Duration;
use stdx::{Buf, Bufs};
use wire::Writer;

fn copy_of(name: &str, version: u64, truncation: Option<(u32, u64)>) -> Op {
    let mut w = Writer::new();
    w.put(&name.as_bytes().to_vec());
    w.put(&ObjectLocator { pool: POOL, ..Default::default() });
    let flags = if let Some(truncation) = truncation {
        w.put(&truncation);
        0x20
    } else {
        0
    };
    let (snap, data) = (SnapId::HEAD, w.into_vec().into());
    Op::CopyFrom2 { snap, src_version: version, flags, src_fadvise: 0, data }
}

#[test]
fn a_copy_has_all_that_its_source_has() {
    let mut c = Cluster::new(4, 3, 2, 8);
    let data = Bufs::from(Buf::pattern(3, (9 << 20) + 5));
    let whole = Op::WriteFull { extent: Extent::new(0, data.len() as u64), data: data.clone() };
    let values: input::OmapValues =
        (0..2500u32).map(|i| (format!("k{i:05}").into_bytes(), vec![7; 30])).collect();
    let set = Op::OmapSetVals { data: input::write(&values) };
    let header = Op::OmapSetHeader { data: b"head".to_vec().into() };
    let attr = Op::SetXattr { name: b"a".to_vec(), value: b"b".to_vec().into() };
    let version = c.op("source", vec![whole, set, header, attr]).user_version;
    // Copies in all PGs: their sources are in the same PG, on the same OSD, on others.
    for i in 0..6 {
        let name = format!("copy{i}");
        c.write(&name, "what was here before");
        c.op(&name, vec![Op::SetXattr { name: b"old".to_vec(), value: Bufs::new() }]);
        let reply = c.op(&name, vec![copy_of("source", 0, Some((3, 9)))]);
        assert_eq!((reply.result, reply.user_version), (0, version));
        let ask = input::OmapGetVals { start_after: b"k01499".to_vec(), max: 9999, ..Default::default() };
        let reads = vec![
            Op::Read(Extent::new(0, 0)),
            Op::GetXattrs,
            Op::OmapGetHeader,
            Op::OmapGetVals { data: input::write(&ask) },
        ];
        let reply = c.op(&name, reads);
        assert_eq!((reply.result, reply.user_version), (0, version));
        assert_eq!(reply.ops[0].data, data);
        let attrs: input::OmapValues = input::read(&reply.ops[1].data).expect("xattrs");
        assert_eq!(attrs, input::OmapValues::from([(b"a".to_vec(), b"b".to_vec())]));
        assert_eq!(reply.ops[2].data.to_vec(), b"head");
        let (found, more): input::OmapValuesReply = input::read(&reply.ops[3].data).expect("values");
        assert_eq!((found.len(), more), (1000, false));
        assert_eq!(c.op(&name, vec![append("x")]).user_version, c.op(&name, vec![Op::Stat]).user_version);
    }
    c.check();
}

#[test]
fn what_can_not_be_copied_is_an_error() {
    let mut c = Cluster::new(3, 3, 2, 8);
    assert_eq!(c.op("x", vec![copy_of("absent", 0, None)]).result, -2);
    assert_eq!(c.read("x"), Err(-2));
    c.write("x", "a");
    assert_eq!(c.op("x", vec![copy_of("x", 0, None)]).result, -22, "itself");
    c.write("y", "b");
    c.write("y", "c");
    let version = c.op("y", vec![Op::Stat]).user_version;
    assert_eq!(c.op("x", vec![copy_of("y", version - 1, None)]).result, -34);
    assert_eq!(c.op("x", vec![copy_of("y", version + 1, None)]).result, -75);
    assert_eq!(c.op("x", vec![copy_of("y", version, None), append("d")]).result, 0);
    let bad =
        Op::CopyFrom2 { snap: SnapId::HEAD, src_version: 0, flags: 0x40, src_fadvise: 0, data: Bufs::new() };
    assert_eq!(c.op("x", vec![bad]).result, -22);
    c.check();
}

#[test]
fn two_copies_in_opposite_directions_do_not_wait_for_each_other() {
    let mut c = Cluster::new(3, 3, 2, 8);
    c.write("x", "x");
    c.write("y", "y");
    let (x, y) = (c.acting("x")[0], c.acting("y")[0]);
    let a = c.send_op(x, None, "x", vec![copy_of("y", 0, None)]);
    let b = c.send_op(y, None, "y", vec![copy_of("x", 0, None)]);
    c.run_until("both are answered", |c| c.replies.contains_key(&a) && c.replies.contains_key(&b));
    assert!(c.read("x").is_ok() && c.read("y").is_ok());
    c.check();
}

#[test]
fn a_copy_goes_on_when_an_osd_dies() {
    let mut c = Cluster::new(4, 3, 2, 8);
    c.write("source", "text");
    let source = c.acting("source")[0];
    let name = (0..).map(|i| format!("o{i}")).find(|n| c.acting(n)[0] != source).expect("some");
    let target = c.acting(&name)[0];
    c.filter = Some(Box::new(move |from, to, _| from == source && to == target));
    let ops = vec![copy_of("source", 0, None)];
    let tid = c.send_op(target, None, &name, ops.clone());
    c.run(Duration::from_millis(50));
    c.filter = None;
    c.kill(source);
    assert_eq!(c.finish(tid, &name, ops).result, 0);
    assert_eq!(c.read(&name), Ok("text".into()));
    c.start(source);
    c.run(Duration::from_secs(1));
    c.check();
}

#[test]
fn copies_of_large_objects_take_turns() {
    let mut c = Cluster::new(3, 3, 2, 8);
    let sizes = [5u64 << 20, 9 << 20, 21 << 20];
    for (i, size) in sizes.into_iter().enumerate() {
        let data = Bufs::from(Buf::pattern(i as u64, size as usize));
        c.op(&format!("source{i}"), vec![Op::WriteFull { extent: Extent::new(0, size), data }]);
    }
    let copies: Vec<(String, u64)> = (0..12usize)
        .map(|i| {
            let (name, source) = (format!("copy{i}"), format!("source{}", i % sizes.len()));
            let osd = c.acting(&name)[0];
            let tid = c.send_op(osd, None, &name, vec![copy_of(&source, 0, None)]);
            (name, tid)
        })
        .collect();
    let most = std::cell::Cell::new(0);
    c.run_until("answers", |c| {
        let held = (0..3).map(|osd| c.osd(osd).copies.held()).max().unwrap_or(0);
        most.set(held.max(most.get()));
        copies.iter().all(|(_, tid)| c.replies.contains_key(tid))
    });
    assert_eq!(most.get(), 21 << 20, "the largest alone");
    assert!((0..3).all(|osd| c.osd(osd).copies.held() == 0));
    for (i, (name, tid)) in copies.iter().enumerate() {
        assert_eq!(c.replies[tid][0].result, 0);
        let read = c.op(name, vec![Op::Read(Extent::new(0, 0))]);
        assert_eq!(read.ops[0].data.len() as u64, sizes[i % sizes.len()]);
    }
    c.check();
}
