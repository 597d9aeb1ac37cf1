//! Object maps.

use super::super::bit_vector::BitVector;
use super::{Object, put};
use wire::{Encode, Writer};

fn vector(values: &[u8]) -> BitVector {
    let mut vector = BitVector::default();
    vector.resize(values.len() as u64);
    values.iter().enumerate().for_each(|(i, value)| vector.set(i as u64, *value));
    vector
}

fn map(values: &[u8]) -> Object {
    let mut o = Object::default();
    o.done("object_map_save", Writer::encode(&vector(values)));
    o
}

fn states(o: &mut Object) -> Vec<u8> {
    let loaded: BitVector = o.gives("object_map_load", vec![]);
    (0..loaded.len()).map(|i| loaded.get(i)).collect()
}

fn update(o: &mut Object, range: (u64, u64), new: u8, current: Option<u8>) -> Result<Vec<u8>, i32> {
    o.call("object_map_update", put((range, (new, current))))
}

#[test]
fn a_map_is_stored_with_checksums_and_sent_without() {
    let mut o = map(&[1, 2, 3]);
    assert_eq!(o.data, vector(&[1, 2, 3]).with_checksums());
    assert_eq!(o.call("object_map_load", vec![]), Ok(Writer::encode(&vector(&[1, 2, 3]))));
    o.done("object_map_save", vector(&[3]).with_checksums());
    assert_eq!(states(&mut o), [3]);
    assert_eq!(Object::default().call("object_map_load", vec![]), Err(-2));
    o.data[18] ^= 64;
    assert_eq!(o.call("object_map_load", vec![]), Err(-22));
    assert_eq!(update(&mut o, (0, 1), 0, None), Err(-22));
}

#[test]
fn a_map_grows_and_shrinks_with_its_image() {
    let mut o = Object::default();
    o.done("object_map_resize", put((5u64, 2u8)));
    assert_eq!(states(&mut o), [2; 5]);
    assert_eq!(o.data, vector(&[2; 5]).with_checksums());
    o.done("object_map_resize", put((7u64, 0u8)));
    assert_eq!(states(&mut o), [2, 2, 2, 2, 2, 0, 0]);
    assert_eq!(o.call("object_map_resize", put((4u64, 0u8))), Err(-116));
    o.done("object_map_resize", put((5u64, 0u8)));
    assert_eq!(states(&mut o), [2; 5]);
    assert_eq!(o.call("object_map_resize", put((256_000_001u64, 0u8))), Err(-22));
}

#[test]
fn states_change_where_they_are_as_expected() {
    let mut o = map(&[0, 1, 2, 3, 1]);
    assert_eq!(update(&mut o, (0, 4), 2, Some(1)), Ok(vec![]));
    assert_eq!(states(&mut o), [0, 2, 2, 2, 1], "a clean one exists, too");
    assert_eq!(update(&mut o, (0, 2), 3, None), Ok(vec![]));
    assert_eq!(o.data, vector(&[3, 3, 2, 2, 1]).with_checksums());
    let before = o.version;
    assert_eq!(update(&mut o, (0, 2), 1, Some(0)), Ok(vec![]));
    assert_eq!(o.version, before, "nothing changed");
    assert_eq!([update(&mut o, (2, 2), 1, None), update(&mut o, (4, 6), 1, None)], [Err(-34), Err(-34)]);
    assert_eq!(update(&mut Object::default(), (0, 1), 1, None), Err(-2));
}

#[test]
fn updates_of_a_large_map_touch_its_blocks_only() {
    let mut values = vec![0u8; 70_000];
    let mut o = map(&values);
    for (start, end) in [(0, 1), (16_383, 16_385), (40_000, 69_999), (69_999, 70_000)] {
        assert_eq!(update(&mut o, (start, end), 1, Some(0)), Ok(vec![]));
        values[start as usize..end as usize].fill(1);
        assert_eq!(o.data, vector(&values).with_checksums(), "{start}..{end}");
    }
}

#[test]
fn snapshots_make_objects_clean_and_their_removal_dirty() {
    let mut o = map(&[0, 1, 2, 3]);
    o.done("object_map_snap_add", vec![]);
    assert_eq!(states(&mut o), [0, 3, 2, 3]);
    let mut gone = Writer::new();
    vector(&[1, 3, 1]).encode(&mut gone);
    o.done("object_map_snap_remove", gone.into_vec());
    assert_eq!(states(&mut o), [0, 3, 2, 1], "the snapshot's map was shorter");
    o.done("object_map_snap_remove", put(vector(&[0, 1, 0, 0])));
    assert_eq!(states(&mut o), [0, 1, 2, 1]);
    assert_eq!(Object::default().call("object_map_snap_add", vec![]), Err(-2));
}
