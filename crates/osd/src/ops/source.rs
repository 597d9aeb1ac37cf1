//! Other objects that an operation takes the content of its own from: the source of a copy, the target of a
//! rollback.

use super::called::OmapEntry;
use crate::snapset::{Shown, SnapSet};
use maps::{HObject, SnapId};
use stdx::Bufs;
use wire::Utime;

/// The source of a copy.
#[derive(Clone, PartialEq, Debug)]
pub struct CopySource {
    /// Name of the source object.
    pub object: HObject,
    /// Its version, if not 0.
    pub version: u64,
}

/// A whole object.
#[derive(Clone, Debug, Default)]
pub struct Copied {
    /// Its version for clients.
    pub user_version: u64,
    /// Time of its last change.
    pub mtime: Utime,
    /// Size in bytes.
    pub size: u64,
    /// Content of the object.
    pub data: Bufs,
    /// Xattrs set by clients.
    pub attrs: Vec<OmapEntry>,
    /// Header of its omap.
    pub omap_header: Vec<u8>,
    /// Entries of its omap.
    pub omap: Vec<OmapEntry>,
}

impl Copied {
    /// Memory that it takes: its whole data, and the omap read so far.
    pub(crate) fn bytes(&self) -> u64 {
        let entries = self.attrs.iter().chain(&self.omap);
        let entries: usize = entries.map(|(name, value)| name.len() + value.len()).sum();
        self.size + (entries + self.omap_header.len()) as u64
    }
}

/// Target of a ROLLBACK.
#[derive(Clone, Debug)]
pub enum Source {
    /// The object has not changed since.
    Head,
    /// A clone of this size.
    Clone(SnapId, u64),
    /// There was no such object.
    Nothing,
}

impl Source {
    /// The state that shows the object at `snap`.
    pub fn of(set: &SnapSet, snap: SnapId) -> Self {
        match set.at(snap) {
            Shown::Head => Self::Head,
            Shown::Nothing => Self::Nothing,
            Shown::Clone(id) => Self::Clone(id, set.clones.iter().find(|c| c.id == id).map_or(0, |c| c.size)),
        }
    }
}
