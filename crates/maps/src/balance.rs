//! The balancer: exceptions to CRUSH (`pg_upmap_items`) that bring every OSD to its share and move as little
//! as that takes.
//!
//! CRUSH alone spreads PGs at random, and a change of one weight also shifts copies between buckets whose
//! weight hardly changed. So the balancer starts from the present places of the copies, not from CRUSH's, and
//! moves one copy at a time from the OSD with the largest excess to the one with the largest lack to which
//! the rule allows it.

use crate::{OsdId, OsdMap, PgId, Pool, Shares};
use std::collections::BTreeMap;

/// Limits of [`balance`].
#[derive(Clone, Copy, Debug)]
pub struct BalanceOptions {
    /// Copies moved at most, those left out that are kept from moving.
    pub max_moves: usize,
    /// The distance from its share that an OSD may keep, as a part of [`Shares::tolerance`]. Below 1 it
    /// leaves a margin for the small changes of all shares that follow from a change of one weight: nothing
    /// has to move for them.
    pub slack: f64,
    /// Copies that are examined for one that moves: a bound on the time, for callers that must not compute
    /// for long.
    pub effort: usize,
}

impl Default for BalanceOptions {
    fn default() -> Self {
        Self { max_moves: usize::MAX, slack: 1.0, effort: usize::MAX }
    }
}

/// A changed exception.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UpmapChange {
    /// The PG.
    pub pg: PgId,
    /// The new (from, to) pairs; empty to remove the exception.
    pub items: Vec<(OsdId, OsdId)>,
}

/// The changes after which every OSD is within one PG, or 1 %, of its share of each pool, as far as failure
/// domains allow.
///
/// `held` has the present places of copies, for PGs whose placement in the map has just changed; the others
/// are at their places in the map. PGs with an explicit `pg_upmap` and pools whose shares can't be determined
/// ([`Shares::new`]) stay as they are.
pub fn balance(
    map: &OsdMap,
    held: &BTreeMap<PgId, Vec<OsdId>>,
    options: &BalanceOptions,
) -> Vec<UpmapChange> {
    let mut out = Vec::new();
    let mut left = *options;
    for (id, pool) in &map.pools {
        if let Some(shares) = Shares::new(map, pool) {
            let pgs = pool.pgs(*id).map(|pg| Pg::new(map, pool, pg, held.get(&pg))).collect();
            out.extend(balance_pool(map, pool, &shares, pgs, &mut left));
        }
    }
    out
}

/// Balances one pool; `left` is what may still be done.
pub(crate) fn balance_pool(
    map: &OsdMap,
    pool: &Pool,
    shares: &Shares,
    pgs: Vec<Pg>,
    left: &mut BalanceOptions,
) -> Vec<UpmapChange> {
    let mut work = Work::new(map, pool, shares, pgs, left.effort);
    while left.max_moves > 0 && work.step(left.slack) {
        left.max_moves -= 1;
    }
    left.effort = work.effort;
    work.pgs.iter().filter_map(|pg| work.change(pg)).collect()
}

/// One PG.
#[derive(Debug)]
pub(crate) struct Pg {
    pub pg: PgId,
    /// Its placement by CRUSH alone.
    pub raw: Vec<OsdId>,
    /// Its placement in the map.
    up: Vec<OsdId>,
    /// The present places of its copies.
    held: Vec<OsdId>,
    /// Its wanted placement.
    wanted: Vec<OsdId>,
}

impl Pg {
    /// A PG whose copies are at `held`, or at their places in the map.
    pub fn new(map: &OsdMap, pool: &Pool, pg: PgId, held: Option<&Vec<OsdId>>) -> Self {
        let raw = map.pg_to_raw_osds(pg);
        let up = map.with_exceptions(pool, pg, &raw);
        let held = held.unwrap_or(&up).clone();
        Self { pg, raw, wanted: up.clone(), up, held }
    }
}

/// The PGs of one pool, and who holds them.
struct Work<'a> {
    map: &'a OsdMap,
    pool: &'a Pool,
    shares: &'a Shares,
    pgs: Vec<Pg>,
    /// By OSD, the indices of the PGs that are to be there.
    on: Vec<Vec<usize>>,
    /// Copies that may still be examined.
    effort: usize,
}

impl<'a> Work<'a> {
    fn new(map: &'a OsdMap, pool: &'a Pool, shares: &'a Shares, pgs: Vec<Pg>, effort: usize) -> Self {
        let on = vec![Vec::new(); map.osds.len()];
        let mut work = Self { map, pool, shares, pgs: Vec::new(), on, effort };
        for mut pg in pgs {
            pg.wanted = work.kept(&pg);
            for osd in pg.wanted.iter().filter_map(|osd| osd.index()) {
                if let Some(on) = work.on.get_mut(osd) {
                    on.push(work.pgs.len());
                }
            }
            work.pgs.push(pg);
        }
        work
    }

    fn is_fixed(&self, pg: &Pg) -> bool {
        self.map.pg_upmap.contains_key(&pg.pg)
    }

    /// The placement nearest to the copies' present places that the rule allows and exceptions can express.
    fn kept(&self, pg: &Pg) -> Vec<OsdId> {
        if self.is_fixed(pg) || pg.held == pg.up {
            return pg.up.clone();
        }
        let kept = match self.pool.is_erasure() || !self.shares.is_simple() {
            true => self.kept_by_position(pg),
            false => self.kept_as_set(pg),
        };
        if self.items(&pg.raw, &kept).is_some() { kept } else { pg.up.clone() }
    }

    /// Puts each copy back where it is, position by position, as long as that succeeds anywhere.
    fn kept_by_position(&self, pg: &Pg) -> Vec<OsdId> {
        let mut kept = pg.up.clone();
        loop {
            let back = kept.iter().zip(&pg.held).position(|(at, held)| {
                at != held && !kept.contains(held) && self.shares.may_replace(&kept, *at, *held)
            });
            match back {
                Some(at) => kept[at] = pg.held[at],
                None => return kept,
            }
        }
    }

    /// The copies that may stay, and for the others what CRUSH has.
    fn kept_as_set(&self, pg: &Pg) -> Vec<OsdId> {
        let mut set: Vec<OsdId> = Vec::new();
        for osd in pg.held.iter().chain(&pg.up) {
            let Some(domain) = self.shares.domain(*osd) else { continue };
            if set.len() < pg.up.len() && set.iter().all(|other| self.shares.domain(*other) != Some(domain)) {
                set.push(*osd);
            }
        }
        if set.len() < pg.up.len() {
            return pg.up.clone();
        }
        let mut new = set.iter().filter(|osd| !pg.up.contains(osd));
        let position = |old: &OsdId| if set.contains(old) { Some(*old) } else { new.next().copied() };
        pg.up.iter().filter_map(position).collect()
    }

    /// The excess of an OSD in copies.
    fn excess(&self, osd: OsdId) -> f64 {
        osd.index().map_or(0.0, |i| self.on[i].len() as f64) - self.shares.of(osd)
    }

    /// Moves one copy; `false` if nothing is left to do, or nothing helps.
    fn step(&mut self, slack: f64) -> bool {
        let mut order: Vec<(OsdId, f64)> = self.shares.osds().map(|osd| (osd, self.excess(osd))).collect();
        order.sort_by(|a, b| b.1.total_cmp(&a.1));
        let beyond = |(osd, excess): &(OsdId, f64)| excess.abs() > slack * self.shares.tolerance(*osd);
        let full: Vec<_> = order.iter().take_while(|o| o.1 > 0.0).filter(|o| beyond(o)).copied().collect();
        for source in &full {
            let mut helped = order.iter().rev().take_while(|target| helps(*source, **target));
            if let Some(found) = helped.find_map(|target| self.candidate(*source, *target)) {
                return self.apply(found);
            }
        }
        let poor: Vec<_> =
            order.iter().rev().take_while(|o| o.1 < 0.0).filter(|o| beyond(o)).copied().collect();
        for target in &poor {
            let mut helping = order.iter().take_while(|source| helps(**source, *target));
            if let Some(found) = helping.find_map(|source| self.candidate(*source, *target)) {
                return self.apply(found);
            }
        }
        false
    }

    /// The copy on one OSD that is cheapest to move to another, if that evens them out: first one that is
    /// only on its way there, then one that CRUSH wants there. (PG, from, to.)
    fn candidate(&mut self, from: (OsdId, f64), to: (OsdId, f64)) -> Option<(usize, OsdId, OsdId)> {
        if self.effort == 0 || !self.map.is_up(to.0) {
            return None;
        }
        self.effort = self.effort.saturating_sub(self.on[from.0.index()?].len().max(1));
        let mut best: Option<(u8, usize)> = None;
        for index in self.on[from.0.index()?].iter().copied() {
            let pg = &self.pgs[index];
            let cost = match () {
                () if !pg.held.contains(&from.0) => 0,
                () if pg.raw.contains(&to.0) => 1,
                () if !pg.raw.contains(&from.0) => 2,
                () => 3,
            };
            if best.is_none_or(|(least, _)| cost < least) && self.may_move(pg, from.0, to.0) {
                best = Some((cost, index));
                if cost == 0 {
                    break;
                }
            }
        }
        best.map(|(_, index)| (index, from.0, to.0))
    }

    fn may_move(&self, pg: &Pg, from: OsdId, to: OsdId) -> bool {
        if self.is_fixed(pg) || !self.shares.may_replace(&pg.wanted, from, to) {
            return false;
        }
        // True if exceptions can express it is a question only if positions matter.
        !self.pool.is_erasure() || self.items(&pg.raw, &replaced(&pg.wanted, from, to)).is_some()
    }

    fn apply(&mut self, (index, from, to): (usize, OsdId, OsdId)) -> bool {
        let pg = &mut self.pgs[index];
        pg.wanted = replaced(&pg.wanted, from, to);
        if let (Some(from), Some(to)) = (from.index(), to.index()) {
            self.on[from].retain(|pg| *pg != index);
            self.on[to].push(index);
        }
        true
    }

    /// The exceptions that lead from CRUSH's placement to `wanted`. `None` if none can: an exception has no
    /// effect if it leads to an OSD that holds another copy at that point.
    fn items(&self, raw: &[OsdId], wanted: &[OsdId]) -> Option<Vec<(OsdId, OsdId)>> {
        let mut pairs: Vec<(OsdId, OsdId)> = if self.pool.is_erasure() {
            raw.iter().copied().zip(wanted.iter().copied()).filter(|(from, to)| from != to).collect()
        } else {
            let gone = raw.iter().copied().filter(|osd| !wanted.contains(osd));
            let new: Vec<OsdId> = wanted.iter().copied().filter(|osd| !raw.contains(osd)).collect();
            gone.zip(new).collect()
        };
        let mut at = raw.to_vec();
        let mut items = Vec::new();
        while !pairs.is_empty() {
            let (from, to) = pairs.remove(pairs.iter().position(|(_, to)| !at.contains(to))?);
            *at.iter_mut().find(|osd| **osd == from)? = to;
            items.push((from, to));
        }
        self.is_same(&at, wanted).then_some(items)
    }

    /// True if two placements are equal; in a replicated pool their order does not matter.
    fn is_same(&self, a: &[OsdId], b: &[OsdId]) -> bool {
        if self.pool.is_erasure() {
            a == b
        } else {
            a.len() == b.len() && a.iter().all(|osd| b.contains(osd))
        }
    }

    /// The change of the map for a PG.
    fn change(&self, pg: &Pg) -> Option<UpmapChange> {
        let has = self.map.pg_upmap_items.contains_key(&pg.pg);
        let useless = has && self.is_same(&pg.raw, &pg.wanted);
        if self.is_fixed(pg) || self.is_same(&pg.up, &pg.wanted) && !useless {
            return None;
        }
        Some(UpmapChange { pg: pg.pg, items: self.items(&pg.raw, &pg.wanted)? })
    }
}

/// True if a copy's move from one OSD to another, each with its excess, evens them out.
fn helps(from: (OsdId, f64), to: (OsdId, f64)) -> bool {
    to.1 + 1.0 < from.1
}

fn replaced(osds: &[OsdId], from: OsdId, to: OsdId) -> Vec<OsdId> {
    osds.iter().map(|osd| if *osd == from { to } else { *osd }).collect()
}
