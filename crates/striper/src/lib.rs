//! Striping: the mapping of a file's bytes to objects, and back.
//!
//! A file is cut into stripe units. `stripe_count` objects take one unit each in turn until they are
//! `object_size` long, then the next set of objects begins. An object's name is its file's inode number and
//! its own number.

mod pieces;

pub use pieces::{Piece, assemble};

use maps::FileLayout;

/// The name of object `object_no` of the file with inode number `ino`.
pub fn object_name(ino: u64, object_no: u64) -> String {
    format!("{ino:x}.{object_no:08x}")
}

/// The inverse of [`object_name`].
pub fn parse_object_name(name: &str) -> Option<(u64, u64)> {
    let (ino, object_no) = name.split_once('.')?;
    Some((u64::from_str_radix(ino, 16).ok()?, u64::from_str_radix(object_no, 16).ok()?))
}

/// The three numbers of a layout, known to make sense.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Striper {
    /// Bytes written to one object before the next.
    stripe_unit: u64,
    /// Objects that take turns.
    stripe_count: u64,
    /// Stripe units in one object.
    units_per_object: u64,
}

impl Striper {
    /// `None` for a layout with a zero, or with objects that are no whole number of stripe units: only broken
    /// peers send such.
    pub fn new(layout: &FileLayout) -> Option<Self> {
        let (unit, count, object) =
            (u64::from(layout.stripe_unit), u64::from(layout.stripe_count), u64::from(layout.object_size));
        if unit == 0 || count == 0 || object == 0 || object % unit != 0 {
            return None;
        }
        Some(Self { stripe_unit: unit, stripe_count: count, units_per_object: object / unit })
    }

    /// Bytes in a full object.
    pub fn object_size(&self) -> u64 {
        self.stripe_unit * self.units_per_object
    }

    /// Bytes that go to one object before the next takes over.
    pub fn stripe_unit(&self) -> u64 {
        self.stripe_unit
    }

    /// Bytes in a full set of objects.
    pub fn set_size(&self) -> u64 {
        self.object_size() * self.stripe_count
    }

    /// The object and the offset in it that hold the byte at `offset` of the file.
    pub fn locate(&self, offset: u64) -> (u64, u64) {
        let (unit, within) = (offset / self.stripe_unit, offset % self.stripe_unit);
        let (stripe, column) = (unit / self.stripe_count, unit % self.stripe_count);
        let (set, row) = (stripe / self.units_per_object, stripe % self.units_per_object);
        (set * self.stripe_count + column, row * self.stripe_unit + within)
    }

    /// The inverse of [`Self::locate`]. `object_offset` must lie inside the object.
    pub fn file_offset(&self, object_no: u64, object_offset: u64) -> u64 {
        assert!(
            object_offset < self.object_size(),
            "offset {object_offset} of an object of {}",
            self.object_size()
        );
        let (set, column) = (object_no / self.stripe_count, object_no % self.stripe_count);
        let (row, within) = (object_offset / self.stripe_unit, object_offset % self.stripe_unit);
        let stripe = set * self.units_per_object + row;
        (stripe * self.stripe_count + column) * self.stripe_unit + within
    }

    /// Cuts the range into one piece for each object, in the order in which the file reaches them.
    pub fn pieces(&self, offset: u64, len: u64) -> Vec<Piece> {
        let mut out: Vec<Piece> = Vec::new();
        // Objects of one set are consecutive in the list, so an object's earlier piece is among the last
        // `stripe_count`.
        let mut done = 0;
        while done < len {
            let at = offset + done;
            let (object_no, object_offset) = self.locate(at);
            let n = (self.stripe_unit - at % self.stripe_unit).min(len - done);
            let recent = out.len().saturating_sub(usize::try_from(self.stripe_count).unwrap_or(usize::MAX));
            match out[recent..].iter_mut().find(|p| p.object_no == object_no) {
                Some(piece) => piece.extend(object_offset, done, n),
                None => out.push(Piece::new(object_no, object_offset, done, n)),
            }
            done += n;
        }
        out
    }

    /// The number of objects that a file of `size` bytes may have. Holes make some of them absent.
    pub fn object_count(&self, size: u64) -> u64 {
        if size == 0 {
            return 0;
        }
        // The last set is filled column by column: count all its columns that the last bytes reach.
        let sets_before = (size - 1) / self.set_size();
        let in_last_set = size - sets_before * self.set_size();
        sets_before * self.stripe_count + in_last_set.div_ceil(self.stripe_unit).min(self.stripe_count)
    }

    /// The number of bytes of object `object_no` that a file of `size` bytes covers.
    pub fn object_len(&self, object_no: u64, size: u64) -> u64 {
        let (set, column) = (object_no / self.stripe_count, object_no % self.stripe_count);
        let in_set = size.saturating_sub(set * self.set_size()).min(self.set_size());
        let stripe = self.stripe_unit * self.stripe_count;
        let (full, rest) = (in_set / stripe, in_set % stripe);
        full * self.stripe_unit + rest.saturating_sub(column * self.stripe_unit).min(self.stripe_unit)
    }
}

#[cfg(test)]
mod tests;
