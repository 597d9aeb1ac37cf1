//! The objects of a file or directory, for removing or shortening them.

use crate::cache::Work;
use crate::cut::{Cut, object_count};
use crate::io::{ObjOp, ObjectId};
use fsfmt::{DirFrag, InodeData, names};
use maps::FileLayout;

/// Bytes of object `number` that belong to the first `size` bytes of a file.
fn object_size(layout: &FileLayout, number: u64, size: u64) -> u64 {
    let (object, unit) = (u64::from(layout.object_size), u64::from(layout.stripe_unit));
    let stripes = u64::from(layout.stripe_count);
    let (set, position) = (number / stripes, number % stripes);
    let in_set = size.saturating_sub(set * object * stripes).min(object * stripes);
    let (whole, rest) = (in_set / (unit * stripes), in_set % (unit * stripes));
    whole * unit + rest.saturating_sub(position * unit).min(unit)
}

/// Objects that hold something of an inode without a name.
pub(super) fn all_objects(data: &InodeData) -> u64 {
    if data.is_file() {
        object_count(&data.layout, data.max_size_ever.max(data.size))
    } else {
        data.fragtree.leaves().len() as u64
    }
}

/// What work does to object `number`.
pub(super) fn op(what: Work, data: &InodeData, number: u64) -> ObjOp {
    match what {
        Work::Purge => ObjOp::Delete,
        Work::Cut(cut) => cut_op(cut, &data.layout, number),
        Work::Store(_) => {
            let packed = data.packed.as_ref().filter(|_| !forgets_data());
            let bytes = packed.map_or(Vec::new(), |packed| packed.inline.clone());
            ObjOp::Write { offset: 0, data: bytes }
        }
    }
}

/// Planted fault: data of the journal are taken for stored.
fn forgets_data() -> bool {
    stdx::mutants::is_active("mds_forgets_data_of_the_journal")
}

/// What a truncation does to object `number`.
fn cut_op(cut: Cut, layout: &FileLayout, number: u64) -> ObjOp {
    match object_size(layout, number, cut.size) {
        size if cut.is_aside => ObjOp::Cut { size, seq: cut.seq },
        0 => ObjOp::Delete,
        size => ObjOp::Truncate(size),
    }
}

/// An object of a file or directory.
pub(super) fn object(data: &InodeData, number: u64, metadata_pool: i64) -> ObjectId {
    if data.is_dir() {
        let frag = data.fragtree.leaves()[number as usize];
        let name = names::dir_object(DirFrag { ino: data.ino, frag });
        return ObjectId { pool: metadata_pool, ns: String::new(), name };
    }
    let name = names::data_object(data.ino, number);
    ObjectId { pool: data.layout.pool, ns: data.layout.pool_ns.clone(), name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_a_size_are_those_that_striping_uses() {
        let layout = FileLayout {
            stripe_unit: 64 << 10,
            stripe_count: 3,
            object_size: 256 << 10,
            ..FileLayout::new(1)
        };
        for size in [0u64, 1, 65_536, 65_537, 200_000, 786_432, 786_433, 5_000_000] {
            // A naive model: walk the bytes' last positions unit by unit.
            let mut model: Vec<u64> = Vec::new();
            let mut at = 0;
            while at < size {
                let len = (size - at).min(65_536);
                let block = at / 65_536;
                let (stripe, position) = (block / 3, block % 3);
                let (set, in_object) = (stripe / 4, stripe % 4);
                let number = (set * 3 + position) as usize;
                model.resize(model.len().max(number + 1), 0);
                model[number] = in_object * 65_536 + len;
                at += len;
            }
            let count = object_count(&layout, size);
            assert!(count >= model.len() as u64 && count < model.len() as u64 + 3, "{size}");
            for number in 0..count {
                let want = model.get(number as usize).copied().unwrap_or(0);
                assert_eq!(object_size(&layout, number, size), want, "size {size}, object {number}");
            }
        }
    }
}
