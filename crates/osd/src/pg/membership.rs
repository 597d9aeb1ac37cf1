//! Intervals: the times in which a PG's membership does not change, and what each map means for them.

use super::backfill::Backfill;
use super::info::{Interval, add_past};
use super::member::ActingSet;
use super::meta::Members;
use super::peering::round::PeeringRound;
use super::state::State;
use super::{Pg, bits_of};
use crate::core::Core;
use maps::{Epoch, OsdId, OsdMap, PgId};

/// Bit of [`Members::grain`].
const PREMERGE: u8 = 0x80;

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
}

/// [`Members::grain`] of a PG that is not about to be merged.
pub fn grain(pgid: PgId, pg_num: u32) -> u8 {
    1 + bits_of(pgid.seed, pg_num) as u8
}

/// Epoch since which the present incarnation of `osd` is up.
pub fn up_from(map: &OsdMap, osd: OsdId) -> Epoch {
    map.osd(osd).map_or(Epoch(0), |o| o.info.up_from)
}

impl Pg {
    /// Takes the next map. `true` where a new interval begins; then [`Pg::begin`] is to be called once the
    /// newest map is reached.
    pub fn advance(&mut self, core: &mut Core, next: Members, old: &OsdMap) -> bool {
        let before: Vec<_> = self.lease_holders().collect();
        let (bits, next_bits) = (self.members.bits(), next.bits());
        let Some(ended) = self.members.advance(next, old) else {
            return false;
        };
        self.leases.remember(core, before.into_iter());
        add_past(&mut self.members.past, ended, self.info.history.last_epoch_clean);
        if !self.is_primary(core) {
            self.watches.clear();
        }
        self.watches.new_interval();
        self.reset(core);
        if bits != next_bits {
            self.pg_num_before = old.pools.get(&self.id.pgid.pool).map(|pool| pool.pg_num);
        }
        if bits < next_bits {
            // Clients ask again, the PG that has the object now.
            self.drop_all_ops(core);
        }
        true
    }

    /// With the next map the PG is a part of another one. Until that one has taken over what is known of it,
    /// it is kept as it ended.
    pub fn end(&mut self, core: &mut Core, old: &OsdMap) {
        let ended = self.members.ended(old);
        let before: Vec<_> = self.lease_holders().collect();
        self.leases.remember(core, before.into_iter());
        add_past(&mut self.members.past, ended, self.info.history.last_epoch_clean);
        self.reset(core);
        self.pg_num_before = old.pools.get(&self.id.pgid.pool).map(|pool| pool.pg_num);
        self.drop_all_ops(core);
    }

    /// The members that may serve reads by our promise, with their incarnations.
    fn lease_holders(&self) -> impl Iterator<Item = (OsdId, Epoch)> {
        let placed = self.members.acting.osds().iter().zip(&self.members.up_from);
        placed.filter(|(osd, _)| osd.is_some()).map(|(osd, up_from)| (*osd, *up_from))
    }

    /// Drops everything that belongs to a round of peering.
    pub fn reset(&mut self, core: &mut Core) {
        self.send_all_to_primary(core);
        self.drop_ahead(core);
        self.leases.forget_primary();
        self.set_state(core, State::Reset);
        self.round = PeeringRound::new(core.next_round());
        self.backfill = Backfill::default();
        self.replication.new_round();
        self.recovery_reset(core);
        self.trim_reset(core);
        self.scrub_reset(core);
        self.requests.start_over(core.now().mono);
    }

    /// Begins a round: asks around as primary, reports as anything else.
    pub fn begin(&mut self, core: &mut Core) {
        assert_eq!(self.state, State::Reset, "a round begins from a reset");
        if self.round.number() == 0 {
            // New here: 0 would be taken for a notice that nobody asked for.
            self.round = PeeringRound::new(core.next_round());
        }
        self.forget_refused(core);
        if self.is_primary(core) {
            let left = self.lease_left(core);
            self.leases.wait(core.now().mono, left);
            self.set_state(core, State::GetInfo);
            self.get_info(core);
        } else {
            self.drop_all_ops(core);
            self.set_state(core, State::Stray);
            self.notify_primary(core);
        }
    }

    /// A new round in the same interval.
    pub fn restart(&mut self, core: &mut Core) {
        self.reset(core);
        self.begin(core);
    }
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
