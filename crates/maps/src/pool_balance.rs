//! Balancing for who must not think for long: one pool, a few PGs at a time.

use crate::balance::{Pg, balance_pool};
use crate::{BalanceOptions, OsdId, OsdMap, PgId, Pool, Shares, UpmapChange};
use std::sync::Arc;

/// A pool whose PGs are being examined.
#[derive(Debug)]
pub struct PoolBalance {
    map: Arc<OsdMap>,
    pool: Pool,
    /// `None` if its rule is of a kind whose shares can't be determined.
    shares: Option<Shares>,
    /// PGs not examined yet, in reverse order.
    rest: Vec<PgId>,
    pgs: Vec<Pg>,
    idle: Vec<UpmapChange>,
}

impl PoolBalance {
    /// Starts with a pool; `None` if the map has no such pool.
    pub fn new(map: Arc<OsdMap>, id: i64) -> Option<Self> {
        let pool = map.pools.get(&id)?.clone();
        let shares = Shares::new(&map, &pool);
        let mut rest: Vec<PgId> = pool.pgs(id).collect();
        rest.reverse();
        Some(Self { map, pool, shares, rest, pgs: Vec::new(), idle: Vec::new() })
    }

    /// Examines `count` more PGs. Returns the unused part of `count`, more than 0 once all are done.
    pub fn look(&mut self, count: usize) -> usize {
        for looked in 0..count {
            let Some(pg) = self.rest.pop() else { return count - looked };
            let pg = Pg::new(&self.map, &self.pool, pg, None);
            self.idle.extend(self.without_idle(&pg));
            self.pgs.push(pg);
        }
        0
    }

    /// The exceptions without those that have no effect, or lead to an OSD on which the rule does not allow a
    /// copy: one that is out or gone, or in the failure domain of another copy. CRUSH's placement may have
    /// changed since they were made.
    pub fn idle(&mut self) -> Vec<UpmapChange> {
        std::mem::take(&mut self.idle)
    }

    fn without_idle(&self, pg: &Pg) -> Option<UpmapChange> {
        let items = self.map.pg_upmap_items.get(&pg.pg)?;
        let mut at = pg.raw.clone();
        let mut kept = Vec::new();
        for (from, to) in items {
            let allowed = match &self.shares {
                Some(shares) => shares.may_replace(&at, *from, *to),
                None => self.map.exists(*to),
            };
            let has = at.iter().position(|osd| osd == from).filter(|_| !at.contains(to) && allowed);
            if let Some(has) = has {
                at[has] = *to;
                kept.push((*from, *to));
            }
        }
        // There and back again.
        if at == pg.raw {
            kept.clear();
        }
        (kept != *items).then_some(UpmapChange { pg: pg.pg, items: kept })
    }

    /// The moves that bring the pool nearer to its shares. None if CRUSH leaves positions empty, or PGs are
    /// still being split: the balancer can't help there.
    pub fn moves(self, options: &BalanceOptions) -> Vec<UpmapChange> {
        let Self { map, pool, shares, pgs, .. } = self;
        let is_whole =
            |pg: &Pg| pg.raw.len() == usize::from(pool.size) && pg.raw.iter().all(|osd| *osd != OsdId::NONE);
        match shares {
            Some(shares) if pool.pg_num == pool.pgp_num && pgs.iter().all(is_whole) => {
                balance_pool(&map, &pool, &shares, pgs, &mut { *options })
            }
            _ => Vec::new(),
        }
    }
}
