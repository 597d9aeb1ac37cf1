//! What each map means for a PG: its interval goes on, or a new round of peering begins.

use super::Members;
use crate::core::Core;
use crate::pg::Pg;
use crate::pg::backfill::Backfill;
use crate::pg::peering::round::PeeringRound;
use crate::pg::state::State;
use maps::{Epoch, OsdId, OsdMap};

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
        self.members.add_past(ended, self.local.info().history.last_epoch_clean);
        if !self.is_primary(core) {
            self.watches.clear();
        }
        self.watches.new_interval();
        self.reset(core);
        if bits != next_bits {
            self.begin_resize(old);
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
        self.members.add_past(ended, self.local.info().history.last_epoch_clean);
        self.reset(core);
        self.begin_resize(old);
        self.drop_all_ops(core);
    }

    /// The PG is to be split or merged. Its copy here is still that of a pool as the map `old` has it.
    fn begin_resize(&mut self, old: &OsdMap) {
        if let Some(pool) = old.pools.get(&self.id.pgid.pool) {
            self.local.begin_resize(pool.pg_num);
        }
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
