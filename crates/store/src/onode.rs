//! Entries of the index that describe an object: its onode, and cells (values of xattrs, omap entries, small
//! data).

use crate::api::ObjectKey;
use crate::key;
use crate::stop::{Stop, corrupt};
use crate::table::View;
use wire::{Reader, wire_structs};

wire_structs! {
    /// An object, without the entries under its id.
    pub(crate) struct Onode[v 1/1] {
        /// Never used for another object.
        pub id: u64,
        /// Bytes.
        pub size: u64,
        /// The id of its omap's entries; 0 if it never had any.
        pub omap: u64,
        /// Entries of the omap.
        pub omap_count: u64,
        /// Bytes of their keys and values.
        pub omap_bytes: u64,
        /// True if the index holds its data. It then has no extents and at most [`INLINE_DATA`] bytes.
        pub inline: bool,
    }
}

/// The largest object whose data the index holds, in bytes. A page holds three of them, as much as one and a
/// half blocks of the device would.
pub(crate) const INLINE_DATA: u64 = 2048;
/// The longest value that is stored in a page beside its key.
pub(crate) const INLINE_MAX: usize = 1024;
/// Longer values are cut into chunks of this many bytes.
pub(crate) const BLOB_CHUNK: usize = 2048;

/// A value as stored under its key: whole, or the id and length of the blob that holds it.
#[derive(Clone, Copy)]
pub(crate) enum Cell<'a> {
    Inline(&'a [u8]),
    Blob(u64, u32),
}

impl<'a> Cell<'a> {
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Stop> {
        match bytes.split_first() {
            Some((0, value)) => Ok(Self::Inline(value)),
            Some((1, rest)) if rest.len() == 12 => {
                let (id, len) = rest.split_at(8);
                let id = u64::from_le_bytes(id.try_into().expect("8 bytes"));
                Ok(Self::Blob(id, u32::from_le_bytes(len.try_into().expect("4 bytes"))))
            }
            _ => Err(corrupt("a value of an unknown kind in the index")),
        }
    }

    /// The length of the value.
    pub fn len(self) -> u64 {
        match self {
            Self::Inline(value) => value.len() as u64,
            Self::Blob(_, len) => u64::from(len),
        }
    }

    /// The blob that holds the value.
    pub fn blob(self) -> Option<u64> {
        match self {
            Self::Inline(_) => None,
            Self::Blob(id, _) => Some(id),
        }
    }

    /// The value itself.
    pub fn load(self, view: &View<'_>) -> Result<Vec<u8>, Stop> {
        match self {
            Self::Inline(value) => Ok(value.to_vec()),
            Self::Blob(id, len) => {
                let mut value = Vec::with_capacity(len as usize);
                let mut scan = view.scan(&key::blob(id, 0), &key::end_of(&key::prefixed(b'B', id)));
                while let Some((_, chunk)) = scan.next()? {
                    value.extend_from_slice(chunk);
                }
                if value.len() == len as usize {
                    Ok(value)
                } else {
                    Err(corrupt(format!("blob {id}: length")))
                }
            }
        }
    }
}

/// Decodes a value of the index; `what` names it in the error.
pub(crate) fn decode<T: wire::Decode>(bytes: &[u8], what: impl FnOnce() -> String) -> Result<T, Stop> {
    Reader::new(bytes).get().map_err(|e| corrupt(format!("{}: {e}", what())))
}

/// The onode of an object.
pub(crate) fn onode(view: &View<'_>, object: &ObjectKey) -> Result<Option<Onode>, Stop> {
    view.with(&key::object(object), |bytes| bytes.map(|b| decode(b, || key::describe(object))).transpose())?
}

/// The data of an object that the index holds. The object's size may exceed it; the rest is zeros.
pub(crate) fn inline_data(view: &View<'_>, onode: &Onode) -> Result<Vec<u8>, Stop> {
    if !onode.inline {
        return Ok(Vec::new());
    }
    match view.get(&key::inline(onode.id))? {
        Some(cell) => Cell::parse(&cell)?.load(view),
        None => Err(corrupt(format!("data of object id {}", onode.id))),
    }
}
