//! The objects of a file or directory, for removing or shortening them.

use crate::io::{ObjOp, ObjectId};
use fsfmt::{DirFrag, InodeData, names};
use maps::FileLayout;
use std::ops::Range;

/// Objects of a file that has `size` bytes: all numbers below this.
pub(crate) fn object_count(layout: &FileLayout, size: u64) -> u64 {
    let (object, stripes) = (u64::from(layout.object_size.max(1)), u64::from(layout.stripe_count.max(1)));
    // A set of `stripes` objects fills together.
    size.div_ceil(object * stripes) * stripes
}

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
pub(crate) fn all_objects(data: &InodeData) -> u64 {
    if data.is_file() {
        object_count(&data.layout, data.max_size_ever.max(data.size))
    } else {
        data.fragtree.leaves().len() as u64
    }
}

/// Objects that are cut or removed beside clients that write. More than these are removed, instead of cut and
/// left behind empty, so nobody may write meanwhile.
const MAX_CUT_ASIDE: u64 = 16;

/// A truncation of a file's objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cut {
    /// Its number.
    pub seq: u32,
    /// Bytes of the file that it keeps.
    pub size: u64,
    /// True if clients need not wait for it: each of their requests carries its number, and an object that it
    /// has not reached yet is cut before a write, and read as if it were.
    pub is_aside: bool,
}

impl Cut {
    /// The truncation under way, if there is one, and the objects that it affects.
    pub(crate) fn of(data: &InodeData) -> Option<(Self, Range<u64>)> {
        let stripes = u64::from(data.layout.stripe_count.max(1));
        let set = u64::from(data.layout.object_size.max(1)) * stripes;
        let first = data.truncate_size / set * stripes;
        let end = object_count(&data.layout, data.truncate_from);
        let is_aside = end.saturating_sub(first) <= MAX_CUT_ASIDE;
        let cut = Self { seq: data.truncate_seq, size: data.truncate_size, is_aside };
        (data.truncate_from > 0).then_some((cut, first..end))
    }

    /// What it does to object `number`.
    pub(crate) fn op(self, layout: &FileLayout, number: u64) -> ObjOp {
        match object_size(layout, number, self.size) {
            size if self.is_aside => ObjOp::Cut { size, seq: self.seq },
            0 => ObjOp::Delete,
            size => ObjOp::Truncate(size),
        }
    }
}

/// True if a truncation is under way for which clients have to wait.
pub(crate) fn delays_clients(data: &InodeData) -> bool {
    Cut::of(data).is_some_and(|(cut, _)| !cut.is_aside)
}

/// An object of a file or directory.
pub(crate) fn object(data: &InodeData, number: u64, metadata_pool: i64) -> ObjectId {
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
