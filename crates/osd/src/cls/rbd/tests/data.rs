//! Data objects.

use super::{Object, put};
use crate::snapset::{CloneEntry, SnapSet};
use maps::SnapId;
use std::collections::BTreeMap;

fn object(data: &[u8]) -> Object {
    Object { exists: true, data: data.to_vec(), ..Object::default() }
}

#[test]
fn data_of_the_parent_do_not_replace_any() {
    let mut o = Object::default();
    o.done("copyup", b"parent".to_vec());
    o.done("copyup", b"again".to_vec());
    assert_eq!(o.data, b"parent");
    let sparse = |ranges: &[(u64, u64)], data: &[u8]| {
        put((ranges.iter().copied().collect::<BTreeMap<_, _>>(), data.to_vec()))
    };
    o.done("sparse_copyup", sparse(&[(0, 1)], b"x"));
    assert_eq!(o.data, b"parent");
    let mut o = Object::default();
    assert_eq!(o.call("sparse_copyup", sparse(&[(0, 2), (9, 1)], b"ab")), Err(-22));
    assert_eq!(o.call("sparse_copyup", sparse(&[(0, u64::MAX)], b"ab")), Err(-22));
    o.done("sparse_copyup", sparse(&[(1, 2), (5, 1)], b"abc"));
    assert_eq!(o.data, b"\0ab\0\0c");
    let mut o = Object::default();
    o.done("sparse_copyup", sparse(&[], b""));
    assert_eq!((o.exists, o.data.len()), (true, 0));
}

#[test]
fn a_writer_asserts_that_it_knows_a_newer_snapshot() {
    let assert = |o: &mut Object, seq: u64, relation: u8| o.call("assert_snapc_seq", put((seq, relation)));
    let mut o = object(b"x");
    o.info.snapset = SnapSet { seq: SnapId(5), clones: Vec::new() };
    assert_eq!([assert(&mut o, 6, 0), assert(&mut o, 5, 0)], [Ok(vec![]), Err(-34)]);
    assert_eq!([assert(&mut o, 6, 1), assert(&mut o, 5, 1)], [Err(-34), Ok(vec![])]);
    assert_eq!(assert(&mut o, 6, 2), Err(-95));
    let mut none = Object::default();
    assert_eq!([assert(&mut none, 0, 0), assert(&mut none, 0, 1)], [Ok(vec![]), Err(-34)]);
    // A deleted object with clones still has its snapshots.
    o.info.whiteout = true;
    assert_eq!(assert(&mut o, 5, 1), Err(-34));
    o.info.snapset.clones.push(CloneEntry::default());
    assert_eq!(assert(&mut o, 5, 1), Ok(vec![]));
}

#[test]
fn blocks_of_zeros_are_taken_out() {
    let sparsify = |o: &mut Object, block: u64, remove: bool| o.call("sparsify", put((block, remove)));
    let mut o = object(b"ab\0\0\0\0cd\0\0");
    assert_eq!(sparsify(&mut o, 2, false), Ok(vec![]));
    assert_eq!(o.data, b"ab\0\0\0\0cd");
    let before = o.version;
    assert_eq!(sparsify(&mut o, 100, false), Ok(vec![]));
    assert_eq!(o.version, before, "nothing to do");
    let mut zeros = object(&[0; 9]);
    assert_eq!(sparsify(&mut zeros, 4, false), Ok(vec![]));
    assert_eq!((zeros.exists, zeros.data.len()), (true, 0));
    assert_eq!(sparsify(&mut zeros, 4, true), Ok(vec![]));
    assert!(!zeros.exists);
    assert_eq!(sparsify(&mut zeros, 4, true), Err(-2));
    assert_eq!(sparsify(&mut o, 0, true), Err(-22));
    let mut crumbs = object(&b"\0x".repeat(20_000));
    assert_eq!(sparsify(&mut crumbs, 1, true), Err(-22), "too many pieces");
}
