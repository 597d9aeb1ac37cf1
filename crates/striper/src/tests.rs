//! Against a naive model that goes byte by byte.

use super::*;
use maps::FileLayout;
use std::collections::BTreeMap;
use stdx::{Buf, Bufs, Rng};

fn layout(stripe_unit: u32, stripe_count: u32, object_size: u32) -> FileLayout {
    FileLayout { stripe_unit, stripe_count, object_size, pool: 1, pool_ns: String::new() }
}

fn layouts() -> Vec<FileLayout> {
    vec![
        layout(4, 1, 4),
        layout(4, 1, 16),
        layout(4, 3, 12),
        layout(1, 5, 3),
        layout(8, 2, 8),
        layout(7, 4, 21),
    ]
}

/// Writes the file's bytes in order. Returns the place of each.
fn naive(layout: &FileLayout, size: u64) -> Vec<(u64, u64)> {
    let (unit, count, object) =
        (u64::from(layout.stripe_unit), u64::from(layout.stripe_count), u64::from(layout.object_size));
    let (mut set, mut column, mut fill) = (0, 0, vec![0; count as usize]);
    let mut out = Vec::new();
    while (out.len() as u64) < size {
        for _ in 0..unit {
            out.push((set * count + column, fill[column as usize]));
            fill[column as usize] += 1;
        }
        column += 1;
        if column == count {
            column = 0;
            if fill.iter().all(|f| *f == object) {
                set += 1;
                fill = vec![0; count as usize];
            }
        }
    }
    out.truncate(size as usize);
    out
}

#[test]
fn every_byte_is_where_the_model_puts_it() {
    for l in layouts() {
        let s = Striper::new(&l).expect("valid");
        for (offset, &(object_no, object_offset)) in naive(&l, 300).iter().enumerate() {
            assert_eq!(s.locate(offset as u64), (object_no, object_offset), "{l:?} at {offset}");
            assert_eq!(s.file_offset(object_no, object_offset), offset as u64);
        }
    }
}

#[test]
fn counts_and_lengths_of_objects_are_those_of_the_model() {
    for l in layouts() {
        let s = Striper::new(&l).expect("valid");
        for size in 0..200 {
            let mut lens = BTreeMap::new();
            for (object_no, object_offset) in naive(&l, size) {
                let len = lens.entry(object_no).or_insert(0);
                *len = object_offset + 1;
            }
            let count = lens.keys().max().map_or(0, |last| last + 1);
            assert_eq!(s.object_count(size), count, "{l:?} size {size}");
            for object_no in 0..count + 2 {
                let want = lens.get(&object_no).copied().unwrap_or(0);
                assert_eq!(s.object_len(object_no, size), want, "{l:?} size {size} object {object_no}");
            }
        }
    }
}

#[test]
fn random_writes_and_reads_through_pieces_equal_a_flat_file() {
    let mut rng = Rng::from_seed(5);
    for l in layouts() {
        let s = Striper::new(&l).expect("valid");
        let mut flat = vec![0u8; 400];
        let mut objects: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        for round in 0..200 {
            let offset = rng.below(300);
            let len = rng.below(100);
            let pieces = s.pieces(offset, len);
            let mut numbers: Vec<u64> = pieces.iter().map(|p| p.object_no).collect();
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(numbers.len(), pieces.len(), "one piece for each object");
            if rng.chance(1, 2) {
                let data = Bufs::from(Buf::pattern(round, len as usize));
                flat[offset as usize..(offset + len) as usize].copy_from_slice(&data.to_vec());
                for p in &pieces {
                    let object = objects.entry(p.object_no).or_default();
                    object.resize(object.len().max((p.offset + p.len) as usize), 0);
                    object[p.offset as usize..(p.offset + p.len) as usize]
                        .copy_from_slice(&p.gather(&data).to_vec());
                }
            } else {
                let read = |p: &Piece| -> Bufs {
                    let object = objects.get(&p.object_no).map_or(&[][..], |o| o);
                    let from = object.len().min(p.offset as usize);
                    let to = object.len().min((p.offset + p.len) as usize);
                    object[from..to].to_vec().into()
                };
                let reads: Vec<Bufs> = pieces.iter().map(read).collect();
                let got = assemble(&pieces, &reads, len);
                assert_eq!(got.to_vec(), &flat[offset as usize..(offset + len) as usize], "{l:?}");
            }
        }
    }
}

#[test]
fn names_are_those_of_ceph_and_parse_back() {
    assert_eq!(object_name(0x100_0000_01f7, 26), "100000001f7.0000001a");
    assert_eq!(parse_object_name("100000001f7.0000001a"), Some((0x100_0000_01f7, 26)));
    assert_eq!(parse_object_name("nonsense"), None);
}

#[test]
fn a_layout_that_makes_no_sense_is_refused() {
    for bad in [layout(0, 1, 4), layout(4, 0, 4), layout(4, 1, 0), layout(4, 1, 6)] {
        assert_eq!(Striper::new(&bad), None);
    }
}
