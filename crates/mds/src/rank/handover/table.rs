//! The table of snapshots is read again, because rank 0 has changed it.

use super::Rank;
use crate::io::{IoWhy, ObjOp};
use crate::rank::migration::{ForTable, Read};
use crate::rank::replay::SNAPS_PER_READ;
use fsfmt::names;
use node::Level;
use std::collections::BTreeMap;

impl Rank {
    /// Reads the table on, after what is known of it.
    pub(super) fn read_table(&mut self, why: ForTable, known: BTreeMap<Vec<u8>, Vec<u8>>) {
        let after = known.keys().next_back().cloned().unwrap_or_default();
        let ops = vec![ObjOp::OmapList { after, max: SNAPS_PER_READ }];
        let id = self.env.start_metadata_io(names::snap_table(), ops, IoWhy::PartitionRead);
        self.migration.reads.insert(id, Read::Snaps(why, known));
    }

    /// A part of the table was read. One that is older than what it is read for is read again when that is
    /// repeated.
    pub(super) fn table_read(&mut self, why: ForTable, known: BTreeMap<Vec<u8>, Vec<u8>>, has_more: bool) {
        if let ForTable::Fence { asked, .. } = why
            && self.migration.fence.asked != asked
        {
            // It may have changed while it was read.
            return;
        }
        if has_more {
            return self.read_table(why, known);
        }
        let ignores_it = stdx::mutants::is_active("mds_learns_of_no_snapshots");
        if let Err(e) = if ignores_it { Ok(()) } else { self.cache.snaps.renew(&known) } {
            let text = format!("the table of snapshots (mds_snaptable) can't be read: {e}");
            return self.env.log(Level::Warn, "damaged_snap_table_seen", text);
        }
        let found = self.cache.snaps.version();
        match why {
            ForTable::Offer(offer, record) if ignores_it || found >= offer.content.snap_table => {
                self.checked(offer, record.as_ref());
            }
            ForTable::Fence { version, .. } if ignores_it || found >= version => self.leave_fence(),
            ForTable::Offer(..) | ForTable::Fence { .. } => {}
        }
    }
}
