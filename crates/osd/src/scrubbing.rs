//! The order in which the PGs of an OSD are scrubbed.

use crate::osd::Osd;
use crate::pg::scrub::Wanted;
use maps::{PgId, Spg};
use std::cmp::Reverse;
use std::time::Duration;
use stdx::Wall;

/// Interval between searches for a PG that is due.
const LOOK_EVERY: Duration = Duration::from_secs(1);

impl Osd {
    /// Handles an administrator's order of scrubs.
    pub(crate) fn scrub_ordered(&mut self, m: &peer::OsdScrub) {
        for pgid in &m.pgs {
            self.scrub_order(*pgid, m.deep, m.repair);
        }
    }

    /// Orders a scrub; `false` if we are not the PG's primary.
    pub(crate) fn scrub_order(&mut self, pgid: PgId, deep: bool, repair: bool) -> bool {
        let Some((pg, core)) = self.shard_here(pgid).and_then(|pgid| self.pg(pgid)) else { return false };
        let leads = pg.is_primary(core);
        if leads {
            pg.scrub_order(core, deep, repair);
        }
        leads
    }

    /// Handles the passage of time.
    pub(crate) fn scrub_tick(&mut self) {
        let now = self.core.now().mono;
        for pg in self.pgs.values_mut().filter(|pg| pg.scrub_paused_until().is_some_and(|at| at <= now)) {
            pg.scrub_go_on(&mut self.core);
        }
        if self.is_scrub_look_due(LOOK_EVERY) {
            self.core.look_for_scrubs();
        }
    }

    /// Begins what is due: what was ordered first, then what has waited for longest.
    pub(crate) fn scrub_more(&mut self) {
        self.pgs.values_mut().for_each(|pg| pg.scrub_go_on(&mut self.core));
        while self.core.has_free_scrub() {
            let due = self.pgs.values().filter_map(|pg| Some((pg.id(), pg.scrub_wanted(&self.core)?)));
            let rank = |(id, (what, since)): &(Spg, (Wanted, Wall))| (Reverse(what.ordered), *since, *id);
            let Some((pgid, (what, _))) = due.min_by_key(rank) else { break };
            let Some((pg, core)) = self.pg(pgid) else { break };
            pg.scrub_begin(core, what);
        }
    }
}
