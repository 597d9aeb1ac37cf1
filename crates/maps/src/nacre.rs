//! What only our own daemons know; committed by the monitors with the same epoch as the OSD map, so that Ceph's
//! encodings carry no fields of ours (DESIGN, decision 10).

use crate::{Epoch, IntervalSet, OsdId};
use std::collections::BTreeMap;

wire::wire_structs! {
    /// The servers' own map.
    pub struct NacreMap[v 2/1] {
        /// The OSD map that it came with; it belongs to later ones too, until another one comes.
        pub epoch: Epoch,
        /// What OSDs have to understand to come up: raised when something is used for the first time that those of an older version do not.
        pub feature_level: u32,
        /// OSDs that are down and whose process is known to be gone, by the `up_from` of the incarnation: its leases need not
        /// be waited out. Of one that is up again, the OSD map says as much.
        pub dead: BTreeMap<OsdId, Epoch>,
        /// Snapshots that were removed and of which nothing is left, by pool: clients that have not learned of it may still name
        /// them.
        pub purged_snaps: BTreeMap<i64, IntervalSet> = since 2,
    }
}

impl NacreMap {
    /// Whether the incarnation of `osd` that came up in `up_from`, and with it every earlier one, is gone.
    pub fn is_dead(&self, osd: OsdId, up_from: Epoch) -> bool {
        self.dead.get(&osd).is_some_and(|dead| *dead >= up_from)
    }
}
