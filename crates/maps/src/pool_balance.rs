//! Balancing for who must not think for long: one pool, a few PGs at a time.

use crate::balance::{Pg, balance_pool};
use crate::{BalanceOptions, OsdId, OsdMap, PgId, Pool, Shares, UpmapChange};
use std::sync::Arc;

/// A pool whose PGs are being looked at.
#[derive(Debug)]
pub struct PoolBalance {
    map: Arc<OsdMap>,
    pool: Pool,
    /// `None` where its rule is of a kind whose shares cannot be told.
    shares: Option<Shares>,
    /// PGs not yet looked at, the next one last.
    rest: Vec<PgId>,
    pgs: Vec<Pg>,
    idle: Vec<UpmapChange>,
}

impl PoolBalance {
    /// Begins with a pool; `None` where the map has none of that number.
    pub fn new(map: Arc<OsdMap>, id: i64) -> Option<Self> {
        let pool = map.pools.get(&id)?.clone();
        let shares = Shares::new(&map, &pool);
        let mut rest: Vec<PgId> = pool.pgs(id).collect();
        rest.reverse();
        Some(Self { map, pool, shares, rest, pgs: Vec::new(), idle: Vec::new() })
    }

    /// Looks at so many PGs more; gives how many it had not to look at, more than 0 once all are done.
    pub fn look(&mut self, count: usize) -> usize {
        for looked in 0..count {
            let Some(pg) = self.rest.pop() else { return count - looked };
            let pg = Pg::new(&self.map, &self.pool, pg, None);
            self.idle.extend(self.without_idle(&pg));
            self.pgs.push(pg);
        }
        0
    }

    /// The exceptions without those that lead nowhere, or to where the rule does not allow a copy: to an OSD that is out or gone,
    /// or into the failure domain of another copy. Placement by CRUSH may have changed since they were made.
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

    /// The moves that bring the pool nearer to its shares. None where CRUSH leaves places empty, or PGs are still being
    /// split: then it is not the balancer that is needed.
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
