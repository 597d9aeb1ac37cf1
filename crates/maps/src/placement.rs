//! From an object to the OSDs that hold it (docs/protocol.md 4.3): what every client computes for itself.

use crate::{AFFINITY_DEFAULT, ObjectLocator, OsdId, OsdMap, PgId, Pool, Spg, UpActing};

impl OsdMap {
    /// The PG of an object; `None` if there is no such pool.
    pub fn object_pg(&self, locator: &ObjectLocator, name: &[u8]) -> Option<PgId> {
        Some(self.pools.get(&locator.pool)?.raw_pg_to_pg(self.object_raw_pg(locator, name)))
    }

    /// The raw PG of an object, whose seed is its whole hash.
    pub fn object_raw_pg(&self, locator: &ObjectLocator, name: &[u8]) -> PgId {
        PgId { pool: locator.pool, seed: locator.hash_of(name) }
    }

    /// The up and acting sets of a PG. `pg` may be a raw PG. Empty if there is no such pool.
    pub fn pg_up_acting(&self, pg: PgId) -> UpActing {
        let Some(pool) = self.pools.get(&pg.pool) else { return UpActing::default() };
        let (mut up, pps) = self.pg_to_raw_osds_of(pool, pg);
        self.apply_upmap(pool, pg, &mut up);
        self.only_up(pool, &mut up);
        let up_primary = self.apply_affinity(pool, pps, &mut up);

        let (temp, temp_primary) = self.temp_osds(pool, pg);
        let (acting, default_primary) =
            if temp.is_empty() { (up.clone(), up_primary) } else { (temp, temp_primary) };
        UpActing { up, up_primary, acting, acting_primary: temp_primary.or(default_primary) }
    }

    /// The OSDs that CRUSH gives a PG, without exceptions, up or not.
    pub fn pg_to_raw_osds(&self, pg: PgId) -> Vec<OsdId> {
        self.pools.get(&pg.pool).map(|pool| self.pg_to_raw_osds_of(pool, pg).0).unwrap_or_default()
    }

    /// The shard that clients address: the position of the acting primary in an erasure-coded pool.
    pub fn primary_shard(&self, pg: PgId) -> Option<(Spg, OsdId)> {
        let pool = self.pools.get(&pg.pool)?;
        let pgid = pool.raw_pg_to_pg(pg);
        let up_acting = self.pg_up_acting(pgid);
        let primary = up_acting.acting_primary?;
        if !pool.is_erasure() {
            return Some((Spg::replicated(pgid), primary));
        }
        let shard = up_acting.acting.iter().position(|osd| *osd == primary)?;
        Some((Spg { pgid, shard: i8::try_from(shard).ok()? }, primary))
    }

    /// The rule of a pool. Clients up to Pacific, and Linux, look for a rule that was made for pools of this
    /// type and size; a rule of the same number for others does not count.
    pub fn rule_of(&self, pool: &Pool) -> Option<u32> {
        let fits = |rule: &crush::Rule| {
            let mask = &rule.mask;
            (mask.ruleset, mask.ty) == (pool.crush_rule, pool.ty)
                && (mask.min_size..=mask.max_size).contains(&pool.size)
        };
        (0..).zip(&self.crush.rules).find(|(_, rule)| rule.as_ref().is_some_and(fits)).map(|(id, _)| id)
    }

    /// The placement of a PG if all its OSDs were up: CRUSH's, with the exceptions.
    pub fn pg_up_when_all_are_up(&self, pg: PgId) -> Vec<OsdId> {
        let Some(pool) = self.pools.get(&pg.pool) else { return Vec::new() };
        let (mut osds, _) = self.pg_to_raw_osds_of(pool, pg);
        self.apply_upmap(pool, pg, &mut osds);
        osds
    }

    fn pg_to_raw_osds_of(&self, pool: &Pool, pg: PgId) -> (Vec<OsdId>, u32) {
        let pps = pool.pps(pg);
        let Some(rule) = self.rule_of(pool) else { return (Vec::new(), pps) };
        let weight = |osd: usize| self.osds.get(osd).map_or(0, |osd| osd.weight);
        let args = self.crush.choose_args_for(pg.pool);
        let raw = self.crush.do_rule_by(rule, pps, usize::from(pool.size), &weight, args);
        let mut osds: Vec<OsdId> = raw.into_iter().map(OsdId).collect();
        keep(pool, &mut osds, |osd| self.exists(osd));
        (osds, pps)
    }

    /// The placement of a PG by its exceptions, given CRUSH's `raw`.
    pub(crate) fn with_exceptions(&self, pool: &Pool, pg: PgId, raw: &[OsdId]) -> Vec<OsdId> {
        let mut osds = raw.to_vec();
        self.apply_upmap(pool, pg, &mut osds);
        osds
    }

    /// True if an exception may not lead to this OSD: the map has it, and it is out.
    fn is_marked_out(&self, osd: OsdId) -> bool {
        osd.index().and_then(|i| self.osds.get(i)).is_some_and(|o| o.weight == 0)
    }

    fn apply_upmap(&self, pool: &Pool, pg: PgId, osds: &mut Vec<OsdId>) {
        let pg = pool.raw_pg_to_pg(pg);
        if let Some(explicit) = self.pg_upmap.get(&pg) {
            if explicit.iter().any(|osd| self.is_marked_out(*osd)) {
                return;
            }
            osds.clone_from(explicit);
        }
        for (from, to) in self.pg_upmap_items.get(&pg).into_iter().flatten() {
            if osds.contains(to) || self.is_marked_out(*to) {
                continue;
            }
            if let Some(osd) = osds.iter_mut().find(|osd| *osd == from) {
                *osd = *to;
            }
        }
        if let Some(primary) = self.pg_upmap_primaries.get(&pg)
            && primary.index().is_some_and(|i| i < self.osds.len())
            && !self.is_marked_out(*primary)
            && let Some(at) = osds.iter().skip(1).position(|osd| osd == primary)
        {
            osds.swap(0, at + 1);
        }
    }

    fn only_up(&self, pool: &Pool, osds: &mut Vec<OsdId>) {
        keep(pool, osds, |osd| self.is_up(osd));
    }

    /// The primary of `up`, passing over OSDs that do not like to be one; a replicated pool has it first.
    fn apply_affinity(&self, pool: &Pool, pps: u32, up: &mut [OsdId]) -> Option<OsdId> {
        let likes = |osd: OsdId| {
            let affinity = self.affinity(osd);
            affinity >= AFFINITY_DEFAULT || crush::hash32_2(pps, osd.0 as u32) >> 16 < affinity
        };
        let candidates = || up.iter().enumerate().filter(|(_, osd)| osd.is_some());
        let (at, primary) = candidates().find(|(_, osd)| likes(**osd)).or_else(|| candidates().next())?;
        let primary = *primary;
        if !pool.is_erasure() {
            up[..=at].rotate_right(1);
        }
        Some(primary)
    }

    fn temp_osds(&self, pool: &Pool, pg: PgId) -> (Vec<OsdId>, Option<OsdId>) {
        let pg = pool.raw_pg_to_pg(pg);
        let mut temp = self.pg_temp.get(&pg).cloned().unwrap_or_default();
        keep(pool, &mut temp, |osd| self.is_up(osd));
        let primary = match self.primary_temp.get(&pg) {
            Some(osd) => Some(*osd),
            None => temp.iter().copied().find(|osd| osd.is_some()),
        };
        (temp, primary.filter(|osd| osd.0 >= 0))
    }
}

/// Drops the OSDs that fail `ok`; if positions matter they leave a hole.
fn keep(pool: &Pool, osds: &mut Vec<OsdId>, ok: impl Fn(OsdId) -> bool) {
    if pool.is_erasure() {
        osds.iter_mut().filter(|osd| !ok(**osd)).for_each(|osd| *osd = OsdId::NONE);
    } else {
        osds.retain(|osd| ok(*osd));
    }
}
