//! Id newtypes of the maps.

use stdx::Rng;
use wire::{Decode, DecodeError, Encode, Reader, Sample, Writer};

stdx::ids! {
    /// The number of a map.
    pub struct Epoch(u32) = "{}";
    /// An OSD, by number; [`OsdId::NONE`] is a hole in an erasure-coded placement.
    pub struct OsdId(i32) = "{}";
    /// A snapshot, or one of [`SnapId::HEAD`] and [`SnapId::DIR`].
    pub struct SnapId(u64) = "{:x}";
    /// A file system, by number.
    pub struct Fscid(i32) = "{}";
    /// The rank of an MDS in its file system.
    pub struct MdsRank(i32) = "{}";
    /// The `global_id` of a daemon's or client's session.
    pub struct Gid(u64) = "{}";
}

macro_rules! codec {
    ($($name:ident($inner:ty))*) => {$(
        impl Encode for $name {
            fn encode(&self, w: &mut Writer) {
                w.put(&self.0);
            }
        }
        impl Decode for $name {
            const MIN_SIZE: usize = size_of::<$inner>();
            fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
                r.get().map(Self)
            }
        }
        impl Sample for $name {
            fn sample(rng: &mut Rng) -> Self {
                Self(Sample::sample(rng))
            }
        }
    )*};
}
codec! { Epoch(u32) OsdId(i32) SnapId(u64) Fscid(i32) MdsRank(i32) Gid(u64) }

impl Epoch {
    /// The epoch after this one.
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl OsdId {
    /// No OSD at this position (`CRUSH_ITEM_NONE`).
    pub const NONE: Self = Self(crush::ITEM_NONE);

    /// True if it names an OSD.
    pub fn is_some(self) -> bool {
        self.0 >= 0 && self != Self::NONE
    }

    /// As an index; `None` for holes and negative numbers.
    pub fn index(self) -> Option<usize> {
        self.is_some().then_some(self.0 as usize)
    }
}

impl SnapId {
    /// The object itself, not a snapshot of it (`CEPH_NOSNAP`).
    pub const HEAD: Self = Self(u64::MAX - 1);
    /// A snapshot directory, or in listings of snapshots all clones (`CEPH_SNAPDIR`).
    pub const DIR: Self = Self(u64::MAX);
    /// The highest id of a snapshot (`CEPH_MAXSNAP`).
    pub const MAX: Self = Self(u64::MAX - 2);
}

impl MdsRank {
    /// A standby's rank.
    pub const NONE: Self = Self(-1);
}

impl Fscid {
    /// No file system.
    pub const NONE: Self = Self(-1);
}
