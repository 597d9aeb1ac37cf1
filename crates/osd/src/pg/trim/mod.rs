//! Snapshot trimming: what shows only removed snapshots goes, in the background, one clone after another,
//! each by an update of its head like a client's.
//!
//! The map's queue of removed snapshots says what is to be done; the index of clones by snapshot says where.
//! Nothing else is remembered: a new primary looks through its own index again. A snapshot that the index has
//! nothing of any more is reported as purged; when all PGs of the pool have said so, the monitors take it out
//! of the queue.

mod steps;

use crate::pg::meta::{snap_index, snap_prefix};
use maps::{IntervalSet, OsdMap, SnapId};
use std::collections::VecDeque;
use std::time::Duration;
use stdx::Instant;
use store::{ObjectKey, TxnOp};

/// Clones that a PG trims at once (Ceph's `osd_pg_max_concurrent_snap_trims`).
const AT_ONCE: usize = 2;
/// PGs of an OSD that trim at once (Ceph's `osd_max_trimming_pgs`).
const PGS_AT_ONCE: usize = 2;
/// Entries of the index read at once.
const PAGE: usize = 64;
/// Pause after a failure.
const AGAIN_AFTER: Duration = Duration::from_secs(5);
/// The longest pause between two.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Progress of a PG's trimming.
#[derive(Debug, Default)]
pub struct SnapTrim {
    /// Removed snapshots that no clone shows any more, on any member.
    purged: IntervalSet,
    /// The one at work.
    current: Option<SnapId>,
    /// Its index is being read.
    reading: bool,
    /// Clones under it that were not looked at.
    found: VecDeque<ObjectKey>,
    in_flight: usize,
    /// It is one of the PGs that trim.
    active: bool,
    /// It pauses until then.
    pause: Option<Instant>,
}

impl SnapTrim {
    /// Removed snapshots that no clone shows any more, on any member.
    pub fn purged(&self) -> &IntervalSet {
        &self.purged
    }

    /// The end of the present pause.
    pub fn paused_until(&self) -> Option<Instant> {
        self.pause
    }
}

/// True if a planted fault has trimmed clones kept.
fn keeps_trimmed_clones() -> bool {
    stdx::mutants::is_active("osd_keeps_trimmed_clones")
}

/// Snapshots are purged everywhere: what the indexes still say of them nobody will ask for.
pub fn forget_snaps(map: &OsdMap, ops: &mut Vec<TxnOp>) {
    for (pool, purged) in &map.new_purged_snaps {
        for (first, len) in purged.iter() {
            let (from, to) = (snap_prefix(SnapId(first)), snap_prefix(SnapId(first.saturating_add(len))));
            ops.push(TxnOp::OmapRemoveRange(snap_index(*pool), from, to));
        }
    }
}
