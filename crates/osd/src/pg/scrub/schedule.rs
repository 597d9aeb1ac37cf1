//! When a PG is scrubbed next, and how.

use super::run::Wanted;
use crate::core::Core;
use crate::pg::Pg;
use crate::pg::state::State;
use maps::{Pool, PoolOpt, osd_flags, pool_flags, pool_opt};
use std::time::Duration;
use stdx::Wall;
use wire::Utime;

/// A setting of the pool in seconds, or else of the OSD.
fn interval(pool: Option<&Pool>, key: i32, default: Duration) -> Duration {
    match pool.and_then(|pool| pool.opts.get(&key)) {
        Some(PoolOpt::Double(secs)) => Duration::try_from_secs_f64(*secs).unwrap_or(default),
        _ => default,
    }
}

impl Pg {
    /// Fraction of an interval by which this PG's schedule is shifted, so that not all are due at once.
    fn scrub_spread(&self) -> f64 {
        let name = self.id.to_string();
        f64::from(stdx::crc32c::update(u32::MAX, name.as_bytes())) / f64::from(u32::MAX)
    }

    /// Times at which a light and a deep scrub are due.
    pub fn scrub_due(&self, core: &Core) -> (Wall, Wall) {
        let options = &core.options().scrub;
        let pool = core.map().pools.get(&self.id.pgid.pool);
        let light = interval(pool, pool_opt::SCRUB_MIN_INTERVAL, options.min_interval);
        let deep = interval(pool, pool_opt::DEEP_SCRUB_INTERVAL, options.deep_interval);
        let spread = self.scrub_spread();
        // A stamp of the future is a clock's that was wrong.
        let from = |stamp: Utime| wall(stamp).min(core.now().wall);
        let longest = interval(pool, pool_opt::SCRUB_MAX_INTERVAL, options.max_interval);
        let light = light.mul_f64(1.0 + options.randomize_ratio * spread).min(longest);
        let deep = deep.mul_f64(0.8 + 0.2 * spread);
        (from(self.scrub.record.last) + light, from(self.scrub.record.last_deep) + deep)
    }

    /// The scrub to do now, and the time since which it is due.
    pub fn scrub_wanted(&self, core: &Core) -> Option<(Wanted, Wall)> {
        let may = self.state == State::Clean && self.is_serving() && self.is_primary(core);
        if !may || self.scrub.run.is_some() || self.scrub.again_at.is_some_and(|at| at > core.now().mono) {
            return None;
        }
        if let Some(ordered) = self.scrub.ordered {
            return Some((ordered, Wall(0)));
        }
        if self.scrub.record.last == Utime::default() {
            return None;
        }
        let pool = core.map().pools.get(&self.id.pgid.pool)?;
        let no_light = core.map().has_flag(osd_flags::NOSCRUB) || pool.has_flag(pool_flags::NOSCRUB);
        let no_deep = core.map().has_flag(osd_flags::NODEEP_SCRUB) || pool.has_flag(pool_flags::NODEEP_SCRUB);
        let (light, deep) = self.scrub_due(core);
        let wanted = |deep| Wanted { deep, repair: false, ordered: false };
        let now = core.now().wall;
        if self.scrub_to_confirm() && !no_deep {
            return Some((wanted(true), Wall(0)));
        }
        match (light <= now && !no_light, deep <= now && !no_deep) {
            (_, true) => Some((wanted(true), deep)),
            (true, false) => Some((wanted(false), light)),
            _ => None,
        }
    }

    /// True if damage is on record that no scrub of this membership has seen. A disk may be readable again,
    /// and an object may have been rewritten or removed. Without a scrub the PG would stay inconsistent until
    /// its next turn.
    fn scrub_to_confirm(&self) -> bool {
        let found = &self.scrub.found;
        self.scrub.record.errors() > 0 && (found.unconfirmed || found.interval != self.members.interval())
    }

    /// An administrator orders a scrub. It begins when nothing else is in its way.
    pub fn scrub_order(&mut self, core: &mut Core, deep: bool, repair: bool) {
        let before = self.scrub.ordered.unwrap_or(Wanted { deep: false, repair: false, ordered: true });
        self.scrub.ordered =
            Some(Wanted { deep: before.deep | deep | repair, repair: before.repair | repair, ordered: true });
        self.scrub.again_at = None;
        core.look_for_scrubs();
    }
}

fn wall(stamp: Utime) -> Wall {
    Wall(u64::from(stamp.sec) * 1_000_000_000 + u64::from(stamp.nsec))
}
