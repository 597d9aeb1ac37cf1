//! Data for our own daemons only. The monitors commit it with the same epoch as the OSD map, so that Ceph's
//! encodings carry no fields of ours (docs/design.md, decision 10).

use crate::{Epoch, IntervalSet, OsdId};
use std::collections::BTreeMap;

wire::wire_structs! {
    /// The servers' own map.
    pub struct NacreMap[v 2/1] {
        /// The OSD map that it came with; it belongs to later ones too, until another one comes.
        pub epoch: Epoch,
        /// The feature level in use, which each daemon needs to take part (docs/adr/0030-feature-level.md).
        pub feature_level: u32,
        /// OSDs that are down and whose process is known to be dead, by the `up_from` of the incarnation:
        /// nobody waits out its leases. For an OSD that is up again, the OSD map says as much.
        pub dead: BTreeMap<OsdId, Epoch>,
        /// Snapshots that were removed completely, by pool: clients that have not learned of it may still
        /// name them.
        pub purged_snaps: BTreeMap<i64, IntervalSet> = since 2,
    }
}

impl NacreMap {
    /// True if the incarnation of `osd` that came up in `up_from`, and so every earlier one, is dead.
    pub fn is_dead(&self, osd: OsdId, up_from: Epoch) -> bool {
        self.dead.get(&osd).is_some_and(|dead| *dead >= up_from)
    }
}
