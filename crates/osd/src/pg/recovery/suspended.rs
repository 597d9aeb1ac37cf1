//! Flags of the cluster that suspend recovery (`norecover`) and backfill (`nobackfill`, `norebalance`), with
//! Ceph's meaning. What clients wait for is sent all the same, and so is what a primary's own copy lacks that
//! is too old for the log: without it the PG serves nobody.

use crate::core::Core;
use crate::pg::Pg;
use crate::pg::member::Member;
use maps::{OsdMap, osd_flags};

/// The flags of a map that suspend something.
pub fn flags(map: &OsdMap) -> u32 {
    map.flags & (osd_flags::NORECOVER | osd_flags::NOBACKFILL | osd_flags::NOREBALANCE)
}

impl Pg {
    /// True if no objects are recovered by the log but those that clients wait for.
    pub(in crate::pg) fn recovery_is_suspended(core: &Core) -> bool {
        core.map().has_flag(osd_flags::NORECOVER)
    }

    /// True if no copies are compared. `norebalance` leaves PGs alone that have copies enough, some of them
    /// in the wrong place.
    pub(in crate::pg) fn backfill_is_suspended(&self, core: &Core) -> bool {
        let map = core.map();
        map.has_flag(osd_flags::NORECOVER | osd_flags::NOBACKFILL)
            || map.has_flag(osd_flags::NOREBALANCE) && self.is_only_misplaced()
    }

    /// True if a member's copy may be compared and filled now.
    pub(in crate::pg) fn may_fill(&self, core: &Core, member: Member) -> bool {
        !self.backfill_is_suspended(core) || self.backfill.is_hurried(member)
    }
}
