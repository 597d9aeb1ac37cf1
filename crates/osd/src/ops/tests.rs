//! Vectors on one object, against Ceph's results.

use super::{Caller, Limits, Loaded, Loads, execute};
use crate::object::ObjectInfo;
use crate::watch::Watches;
use maps::EVersion;
use msgs::op::{cmp_op, input, op_flag};
use msgs::{Extent, Op, OsdOp, SubOp, osd_flag};
use stdx::{Bufs, Wall};
use store::{ObjectKey, ObjectView, ReadReply, TxnOp};
use wire::{EntityAddr, EntityId, EntityType};

fn key() -> ObjectKey {
    ObjectKey::head(1, 7, b"", b"", b"o")
}

fn bufs(text: &str) -> Bufs {
    Bufs::from(text.as_bytes().to_vec())
}

fn request(ops: Vec<SubOp>) -> OsdOp {
    let writes = ops.iter().any(|o| o.op.code().writes());
    OsdOp { ops, flags: if writes { osd_flag::WRITE } else { osd_flag::READ }, ..OsdOp::default() }
}

/// Executes a vector on an object with this content (`None`: there is none).
fn run_on(content: Option<&str>, info: ObjectInfo, ops: Vec<SubOp>) -> super::Outcome {
    let request = request(ops);
    let limits = Limits::default();
    let loads = Loads::of(&request, &key(), &limits);
    let mut loaded = Loaded::default();
    if let Some(text) = content {
        let store::Read::Object { data, .. } = &loads.reads[0].1 else {
            panic!("the first read is of the object")
        };
        let cut = |(off, len): &(u64, u64)| {
            let (off, len) = (*off as usize, (*len).min(1 << 20) as usize);
            bufs(&text[off.min(text.len())..(off + len).min(text.len())])
        };
        let view = ObjectView {
            size: text.len() as u64,
            attrs: vec![(b"_".to_vec(), info.to_bytes()), (b"_a".to_vec(), b"1".to_vec())],
            data: data.iter().map(cut).collect(),
            ..ObjectView::default()
        };
        assert!(loads.take(0, ReadReply::Object(Some(view)), &mut loaded));
    }
    execute(&request, &key(), &loaded, &limits, caller(&Watches::default()))
}

fn caller(watches: &Watches) -> Caller<'_> {
    let (who, addr) = (EntityId::new(EntityType::CLIENT, 4), EntityAddr::default());
    Caller { who, addr, expired: false, now: Wall(0), version: EVersion::default(), notify_id: 100, watches }
}

fn run(content: Option<&str>, ops: Vec<Op>) -> super::Outcome {
    run_on(content, ObjectInfo::default(), ops.into_iter().map(SubOp::from).collect())
}

fn write(off: u64, text: &str) -> Op {
    Op::Write { extent: Extent::new(off, text.len() as u64), data: bufs(text) }
}

#[test]
fn reads_of_what_is_not_there_fail_and_zero_length_reads_all() {
    assert_eq!(run(None, vec![Op::Read(Extent::new(0, 0))]).result, -2);
    let out = run(
        Some("hello"),
        vec![Op::Read(Extent::new(0, 0)), Op::Read(Extent::new(3, 100)), Op::Read(Extent::new(9, 1))],
    );
    let data: Vec<Vec<u8>> = out.ops.iter().map(|o| o.data.to_vec()).collect();
    assert_eq!((out.result, data), (0, vec![b"hello".to_vec(), b"lo".to_vec(), vec![]]));
}

#[test]
fn a_vector_is_all_or_nothing() {
    let out = run(Some("hello"), vec![write(0, "x"), Op::AssertVer { ver: 5 }, Op::Delete]);
    assert_eq!((out.result, out.modified, out.txn.len(), out.exists), (-75, false, 0, true));
    assert_eq!(out.ops[1].rval, -75);
    assert_eq!(out.ops[2].rval, 0);
}

#[test]
fn failok_goes_on() {
    let bad = SubOp { flags: op_flag::FAILOK, op: Op::AssertVer { ver: 5 } };
    let out = run_on(Some("a"), ObjectInfo::default(), vec![bad, write(0, "b").into()]);
    assert_eq!((out.result, out.ops[0].rval, out.modified), (0, -75, true));
}

#[test]
fn stat_in_a_vector_sees_the_size_that_writes_before_it_left() {
    let out = run(None, vec![write(4, "data"), Op::Stat]);
    let (size, _): input::StatReply = input::read(&out.ops[1].data).expect("stat");
    assert_eq!((size, out.size, out.exists), (8, 8, true));
}

#[test]
fn exclusive_create_and_delete_say_what_is_there() {
    let create = SubOp { flags: op_flag::EXCL, op: Op::Create { data: Bufs::new() } };
    assert_eq!(run_on(Some("a"), ObjectInfo::default(), vec![create.clone()]).result, -17);
    assert!(run_on(None, ObjectInfo::default(), vec![create]).modified);
    assert_eq!(run(None, vec![Op::Delete]).result, -2);
    let out = run(Some("a"), vec![Op::Delete, write(0, "new")]);
    assert_eq!((out.exists, out.size), (true, 3));
    assert!(matches!(out.txn[..], [TxnOp::Remove(_), TxnOp::Touch(_), TxnOp::Write(..)]));
}

#[test]
fn cmpext_names_the_first_difference_and_counts_zeros_behind_the_end() {
    let cmp = |text: &str| Op::CmpExt { extent: Extent::new(0, text.len() as u64), data: bufs(text) };
    assert_eq!(run(Some("hello"), vec![cmp("help!")]).result, -(4095 + 3));
    assert_eq!(run(Some("hi"), vec![cmp("hi\0\0")]).result, 0);
    assert_eq!(run(Some("hi"), vec![cmp("hi!")]).result, -(4095 + 2));
}

#[test]
fn a_write_from_before_a_truncation_does_not_bring_the_end_back() {
    let info = ObjectInfo { truncate_seq: 5, truncate_size: 3, ..ObjectInfo::default() };
    let extent = Extent { truncate_seq: 4, ..Extent::new(2, 4) };
    let out = run_on(Some("abc"), info.clone(), vec![Op::Write { extent, data: bufs("wxyz") }.into()]);
    assert_eq!(out.size, 3);
    let extent = Extent { truncate_seq: 6, truncate_size: 1, ..Extent::new(2, 1) };
    let out = run_on(Some("abc"), info.clone(), vec![Op::Write { extent, data: bufs("z") }.into()]);
    assert_eq!((out.size, out.info.truncate_seq), (3, 6));
    assert!(matches!(out.txn[0], TxnOp::Truncate(_, 1)));
    let read = Extent { truncate_seq: 6, truncate_size: 1, ..Extent::new(0, 3) };
    let out = run_on(Some("abc"), info.clone(), vec![Op::Read(read).into()]);
    assert_eq!(out.ops[0].data.to_vec(), b"a");
    let old = Extent { truncate_seq: 5, truncate_size: 0, ..Extent::new(0, 0) };
    let out = run_on(Some("abc"), info, vec![Op::TrimTrunc(old).into()]);
    assert_eq!((out.size, out.modified), (3, false));
}

#[test]
fn a_file_that_was_never_truncated_says_so_and_is_written_whatever_made_its_object() {
    // The kernel's client first asks whether it may write by an exclusive CREATE of the object, without a
    // truncation.
    let never = Extent { truncate_seq: 1, truncate_size: u64::MAX, ..Extent::new(0, 3) };
    let out = run(Some(""), vec![Op::Write { extent: never, data: bufs("abc") }]);
    assert_eq!((out.result, out.size, out.info.truncate_seq), (0, 3, 0));
    assert_eq!(run(Some("abc"), vec![Op::Read(never)]).ops[0].data.to_vec(), b"abc");
    let out = run(Some("abcd"), vec![Op::Zero(never)]);
    assert_eq!((out.result, out.size), (0, 4));
    // Sent before a truncation that was carried out since, it does not bring back what was cut off.
    let info = ObjectInfo { truncate_seq: 2, truncate_size: 1, ..ObjectInfo::default() };
    let out = run_on(Some("a"), info, vec![Op::Write { extent: never, data: bufs("xyz") }.into()]);
    assert_eq!((out.result, out.size), (0, 1));
}

#[test]
fn limits_and_bad_arguments_are_refused() {
    let far = Op::Write { extent: Extent::new(128 << 20, 1), data: bufs("x") };
    assert_eq!(run(None, vec![far]).result, -27);
    let short = Op::Write { extent: Extent::new(0, 2), data: bufs("x") };
    assert_eq!(run(None, vec![short]).result, -22);
    assert_eq!(run(None, vec![Op::WriteSame { off: 0, len: 5, data: bufs("ab") }]).result, -22);
    assert_eq!(run(Some("abc"), vec![Op::Zero(Extent::new(1, 0))]).result, 0);
    let long = Op::SetXattr { name: vec![b'x'; 101], value: Bufs::new() };
    assert_eq!(run(None, vec![long]).result, -36);
    let unknown = Op::Call { class: "x".into(), method: "y".into(), input: Bufs::new() };
    assert_eq!(run(Some("a"), vec![unknown]).result, -1);
}

#[test]
fn xattrs_compare_as_strings_and_as_numbers() {
    let cmp =
        |value: &[u8], op, mode| Op::CmpXattr { name: b"a".to_vec(), value: value.to_vec().into(), op, mode };
    assert_eq!(run(Some("x"), vec![cmp(b"1", cmp_op::EQ, cmp_op::MODE_STRING)]).result, 1);
    assert_eq!(run(Some("x"), vec![cmp(b"2", cmp_op::EQ, cmp_op::MODE_STRING)]).result, -125);
    assert_eq!(run(Some("x"), vec![cmp(&5u64.to_le_bytes(), cmp_op::GT, cmp_op::MODE_U64)]).result, 1);
    assert_eq!(run(Some("x"), vec![Op::GetXattr { name: b"none".to_vec() }]).result, -61);
}

#[test]
fn truncate_of_nothing_makes_nothing() {
    let out = run(None, vec![Op::Truncate(Extent::new(5, 0))]);
    assert_eq!((out.result, out.modified, out.exists), (0, false, false));
    let out = run(
        Some("abc"),
        vec![Op::Truncate(Extent::new(5, 0)), Op::Append { extent: Extent::new(0, 1), data: bufs("z") }],
    );
    assert_eq!(out.size, 6);
}

#[test]
fn a_byte_that_is_written_again_and_again_makes_few_pieces() {
    let written = |data: &[u8], len: u64| {
        let out = run(None, vec![Op::WriteSame { off: 0, len, data: data.to_vec().into() }]);
        let whole = out.txn.iter().find_map(|op| match op {
            TxnOp::Write(_, 0, data) => Some(data.clone()),
            _ => None,
        });
        whole.unwrap_or_else(|| panic!("{:?}", out.result))
    };
    let bytes = written(b"x", 128 << 20);
    assert_eq!((bytes.len(), bytes.parts().len()), (128 << 20, 2048));
    for (unit, len) in [(7, 7), (7, 7 * 20_000), (70_000, 210_000), (4096, 4096 * 17)] {
        let data = stdx::Buf::pattern(unit, unit as usize).to_vec();
        assert_eq!(written(&data, len).to_vec(), data.repeat((len / unit) as usize), "{unit} in {len}");
    }
}
