//! Intervals: the times in which a PG's membership does not change, and what each map means for them.

mod steps;

use super::info::{Interval, add_past, merge_past, trim_past};
use super::member::ActingSet;
use super::range::bits_of;
use maps::{Epoch, OsdId, OsdMap, PgId};
use wire::wire_structs;

/// Bit of `Members::grain`.
const PREMERGE: u8 = 0x80;

wire_structs! {
    /// Membership of the PG over time, up to the newest processed map.
    ///
    /// Invariants: the present interval changes by maps alone; of the past it keeps what began before.
    pub struct Members[v 3/3] {
        /// The present interval began at this epoch.
        interval: Epoch,
        /// The OSDs that CRUSH and upmaps choose.
        up: ActingSet,
        /// Who serves it.
        acting: ActingSet,
        /// Since when each position of `acting` is up: a restart begins a new interval.
        up_from: Vec<Epoch>,
        /// The pool's replicas wanted.
        size: u8,
        /// Number of replicas below which the PG does not serve.
        min_size: u8,
        /// Earlier intervals, since the PG was last clean.
        past: Vec<Interval>,
        /// One more than the number of bits of the hash that tell its objects; 0 in records from before there
        /// were splits. And 128 while the PG is about to be merged.
        grain: u8 = since 2,
    }
}

impl Members {
    /// The membership of `pgid` by `map`, as if an interval began with it. `None` if the pool is gone.
    pub fn of(pgid: PgId, map: &OsdMap) -> Option<Self> {
        let pool = map.pools.get(&pgid.pool).filter(|p| pgid.seed < p.pg_num)?;
        let placed = map.pg_up_acting(pgid);
        let acting = ActingSet::of(pool, placed.acting, placed.acting_primary);
        let up_from = acting.osds().iter().map(|o| up_from(map, *o)).collect();
        Some(Self {
            interval: map.epoch,
            up: ActingSet::of(pool, placed.up, placed.up_primary),
            acting,
            up_from,
            size: pool.size,
            min_size: pool.min_size,
            past: Vec::new(),
            grain: grain(pgid, pool.pg_num) | if pool.is_premerge(pgid.seed) { PREMERGE } else { 0 },
        })
    }

    /// The epoch at which the present interval began.
    pub fn interval(&self) -> Epoch {
        self.interval
    }

    /// The OSDs that CRUSH and upmaps choose.
    pub fn up(&self) -> &ActingSet {
        &self.up
    }

    /// The OSDs that serve the PG.
    pub fn acting(&self) -> &ActingSet {
        &self.acting
    }

    /// The number of copies that the pool wants.
    pub fn size(&self) -> usize {
        self.size.into()
    }

    /// The number of copies below which the PG does not serve.
    pub fn min_size(&self) -> usize {
        self.min_size.into()
    }

    /// Earlier intervals, since the PG was last clean.
    pub fn past(&self) -> &[Interval] {
        &self.past
    }

    /// True if the PG is about to be merged with another one. No update is ordered and no client is served in
    /// such an interval, so that all writes to both are known when it ends.
    pub fn is_premerge(&self) -> bool {
        self.grain & PREMERGE != 0
    }

    /// One more than the number of bits of the hash that tell its objects.
    pub fn bits(&self) -> u8 {
        self.grain & !PREMERGE
    }

    /// True if both belong to one interval.
    fn same_interval(&self, next: &Self) -> bool {
        let of = |m: &Self| (m.acting.clone(), m.up.clone(), m.up_from.clone(), m.size, m.min_size, m.grain);
        of(self) == of(next)
    }

    /// The interval that ended with `old`, the last map of it. Writes can have been acknowledged only if
    /// there were enough members and the primary had the monitors record that it was up, which it does before
    /// it activates.
    fn ended(&self, old: &OsdMap) -> Interval {
        let recorded = self
            .acting
            .primary()
            .and_then(|p| old.osd(p.osd))
            .is_some_and(|o| o.info.up_thru >= self.interval);
        let maybe_rw = recorded && self.acting.count() >= usize::from(self.min_size.max(1));
        Interval { first: self.interval, last: old.epoch, acting: self.acting.clone(), maybe_rw }
    }

    /// Moves on to the next map: `Some` and the interval that ended where a new one begins.
    pub fn advance(&mut self, next: Self, old: &OsdMap) -> Option<Interval> {
        if self.same_interval(&next) {
            return None;
        }
        let ended = self.ended(old);
        let past = std::mem::take(&mut self.past);
        *self = Self { past, ..next };
        Some(ended)
    }

    /// An interval is over. The PG was last clean at `clean`.
    pub fn add_past(&mut self, ended: Interval, clean: Epoch) {
        add_past(&mut self.past, ended, clean);
    }

    /// Takes over what another OSD knows of the past. Whether that changed anything.
    pub fn learn_past(&mut self, theirs: &[Interval]) -> bool {
        merge_past(&mut self.past, theirs)
    }

    /// All members were clean at `clean`: earlier intervals do not count any more.
    pub fn trim_past(&mut self, clean: Epoch) {
        trim_past(&mut self.past, clean);
    }

    /// The PG is clean: no earlier interval counts.
    pub fn forget_past(&mut self) {
        self.past.clear();
    }

    /// The membership of a PG that was split off from that of `parent`, whose past is its own.
    pub fn of_child(self, parent: &Self) -> Self {
        Self { past: parent.past.clone(), ..self }
    }

    /// The membership as it was found in a record, which may be from before there were splits.
    pub fn found(self, pgid: PgId, pg_num: u32) -> Self {
        let grain = if self.grain == 0 { grain(pgid, pg_num) } else { self.grain };
        Self { grain, ..self }
    }
}

/// `Members::grain` of a PG that is not about to be merged.
pub fn grain(pgid: PgId, pg_num: u32) -> u8 {
    1 + bits_of(pgid.seed, pg_num) as u8
}

/// Epoch since which the present incarnation of `osd` is up.
pub fn up_from(map: &OsdMap, osd: OsdId) -> Epoch {
    map.osd(osd).map_or(Epoch(0), |o| o.info.up_from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(acting: &[i32], up_from: u32) -> Members {
        let up_from = vec![Epoch(up_from); acting.len()];
        let acting = ActingSet::replicated(acting.iter().map(|o| OsdId(*o)).collect());
        Members {
            interval: Epoch(10),
            up: acting.clone(),
            up_from,
            acting,
            size: 3,
            min_size: 2,
            past: Vec::new(),
            grain: 1,
        }
    }

    #[test]
    fn an_interval_ends_when_members_change_or_restart() {
        let old = OsdMap { epoch: Epoch(12), ..OsdMap::default() };
        let mut m = members(&[0, 1], 3);
        assert_eq!(m.clone().advance(members(&[0, 1], 3), &old), None);
        let ended = m.clone().advance(members(&[0, 1], 4), &old).expect("a restart");
        assert_eq!((ended.first, ended.last, ended.maybe_rw), (Epoch(10), Epoch(12), false));
        assert!(m.advance(members(&[1], 3), &old).is_some());
    }

    #[test]
    fn only_a_primary_whose_up_thru_reaches_the_interval_can_have_written() {
        let mut old = OsdMap { epoch: Epoch(12), ..OsdMap::default() };
        old.osds = vec![Default::default(); 2];
        old.osds[0].state = 3;
        old.osds[0].info.up_thru = Epoch(9);
        assert!(!members(&[0, 1], 3).ended(&old).maybe_rw);
        old.osds[0].info.up_thru = Epoch(10);
        assert!(members(&[0, 1], 3).ended(&old).maybe_rw);
        assert!(!members(&[0], 3).ended(&old).maybe_rw, "below min_size");
    }
}
