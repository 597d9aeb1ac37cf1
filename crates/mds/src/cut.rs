//! The objects of a file that a truncation affects.

use fsfmt::InodeData;
use maps::FileLayout;
use std::ops::Range;

/// Objects of a file that has `size` bytes: all numbers below this.
pub(crate) fn object_count(layout: &FileLayout, size: u64) -> u64 {
    let (object, stripes) = (u64::from(layout.object_size.max(1)), u64::from(layout.stripe_count.max(1)));
    // A set of `stripes` objects fills together.
    size.div_ceil(object * stripes) * stripes
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
}

/// True if a truncation is under way for which clients have to wait.
pub(crate) fn delays_clients(data: &InodeData) -> bool {
    Cut::of(data).is_some_and(|(cut, _)| !cut.is_aside)
}
