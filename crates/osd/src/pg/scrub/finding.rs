//! What copies of objects have, and what is found to be wrong with them.

use crate::object::{INFO_ATTR, ObjectInfo};
use crate::pg::member::Member;
use maps::{EVersion, SnapId};
use msgs::op::scrub::{object_error, shard_error};
use std::collections::{BTreeMap, BTreeSet};
use store::ObjectKey;
use wire::wire_structs;

wire_structs! {
    /// A head or clone as one copy has it.
    #[derive(Eq)]
    pub struct Scanned[v 1/1] {
        /// Key of the object.
        pub key: ObjectKey,
        /// Read errors: bits of [`shard_error`].
        pub errors: u64,
        /// Size in bytes.
        pub size: u64,
        /// Xattrs in the order of names.
        pub attrs: Vec<(Vec<u8>, Vec<u8>)>,
        /// Checksum of the data; deep scrubs only.
        pub data_digest: Option<u32>,
        /// The same of omap, header included.
        pub omap_digest: Option<u32>,
    }
}

impl Scanned {
    /// Its versions; `None` if there are none or they can't be decoded.
    pub fn info(&self) -> Option<ObjectInfo> {
        self.attrs.iter().find(|(name, _)| name == INFO_ATTR).and_then(|(_, value)| ObjectInfo::parse(value))
    }
}

/// One copy of an object.
#[derive(Clone, Debug, Default)]
pub struct Shard {
    /// Bits of [`shard_error`].
    pub errors: u64,
    /// Its object; `None` if it has none.
    pub object: Option<Scanned>,
}

/// An object whose copies differ, or are damaged.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The object concerned.
    pub key: ObjectKey,
    /// Bits of [`object_error`].
    pub errors: u64,
    /// By OSD.
    pub shards: BTreeMap<Member, Shard>,
    /// Copies that are right; none where nobody knows.
    pub good: BTreeSet<Member>,
    /// Version of the good copies.
    pub version: EVersion,
}

/// A set of clones that is not as its head says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SnapFinding {
    /// Head of the object.
    pub head: ObjectKey,
    /// Bits of [`msgs::op::scrub::snapset_error`].
    pub errors: u64,
    /// Clones that the set does not know.
    pub extra: Vec<SnapId>,
    /// Clones that are not there.
    pub missing: Vec<SnapId>,
}

impl Finding {
    /// Copies to be replaced.
    pub fn bad(&self) -> Vec<Member> {
        self.shards.keys().filter(|member| !self.good.contains(member)).copied().collect()
    }

    /// True if there is a right copy.
    pub fn can_be_mended(&self) -> bool {
        !self.good.is_empty()
    }

    /// Errors as they are counted: those that a light scrub sees, and the others.
    pub fn count(&self) -> (u32, u32) {
        let all_deep = self.errors & object_error::DEEP != 0;
        let damaged = self
            .shards
            .iter()
            .filter(|(member, s)| s.errors != 0 || !self.good.is_empty() && !self.good.contains(member));
        let deep = |s: &Shard| s.errors & shard_error::DEEP != 0 || s.errors == 0 && all_deep;
        let (deep, light): (Vec<_>, Vec<_>) = damaged.partition(|(_, s)| deep(s));
        match (light.len(), deep.len()) {
            (0, 0) if all_deep => (0, 1),
            (0, 0) => (1, 0),
            (light, deep) => (light as u32, deep as u32),
        }
    }
}

/// What each copy has of one object; `None` where it has nothing.
pub type Shards<'a> = BTreeMap<Member, Option<&'a Scanned>>;

/// What a comparison of one object comes to: what is wrong, if anything is, and the content that is believed.
pub type Believed<'a> = (Option<Finding>, Option<&'a Scanned>);
