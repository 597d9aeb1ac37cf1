//! Number of PGs that a pool should have for its content (Ceph: the manager's `pg_autoscaler`). Each OSD
//! should hold about `mon_target_pg_per_osd` copies of PGs. A pool gets a share of them according to the
//! space that it takes, or that an administrator expects it to take. Pools with the flag `bulk` divide the
//! rest evenly.
//!
//! A number changes only if it is wrong by a factor of three, so that it stays stable, and only on complete
//! data: while an OSD or PG has not reported, sums would be too small. For a pool whose mode is `warn`, the
//! monitor only raises a warning.

use crate::crush_edit;
use crate::domain::pool::ON;
use crate::view::View;
use maps::{OsdId, Pool, PoolOpt, pool_flags, pool_opt};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Minimum number of PGs of a pool without `pg_num_min`.
const LEAST: u32 = 32;

/// Maximum number of PGs of a pool.
const MOST: u32 = 65_536;

/// Options of all pools.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Settings {
    /// `ceph osd pool set noautoscale`.
    pub off: bool,
    per_osd: u64,
    threshold: f64,
    /// Interval between checks of all pools.
    pub period: Duration,
}

impl Settings {
    pub fn of(view: &View<'_>) -> Self {
        Self {
            off: view.mgr_option("mgr/pg_autoscaler/noautoscale"),
            per_osd: view.option("mon_target_pg_per_osd"),
            threshold: view.mgr_option::<f64>("mgr/pg_autoscaler/threshold").max(1.0),
            period: view.mgr_option("mgr/pg_autoscaler/sleep_interval"),
        }
    }

    /// Autoscale mode of a pool.
    pub fn mode(&self, pool: &Pool) -> u8 {
        if self.off { 0 } else { pool.pg_autoscale_mode.min(ON) }
    }

    /// Decides the pools' numbers of PGs: each gets the part of `left` given by its ratio, or all the same
    /// part. The sum is subtracted from `left`.
    fn decide(&self, pools: &mut [Scale], even: Option<f64>, left: &mut f64) {
        let mut used = 0.0;
        for pool in pools {
            let ratio = even.unwrap_or(pool.ratio);
            pool.wanted = ratio * *left / pool.rate * pool.bias;
            pool.ideal = nearest_power_of_two(pool.wanted).max(pool.bounds.0).min(pool.bounds.1);
            let (now, ideal) = (f64::from(pool.pg_num), f64::from(pool.ideal));
            let far = ideal > now * self.threshold || ideal < now / self.threshold;
            pool.differs = far && (0.0..=1.0).contains(&ratio);
            used += ideal * pool.rate;
        }
        *left = (*left - used).max(0.0);
    }
}

/// Present and recommended size of a pool.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Scale {
    pub id: i64,
    /// CRUSH item at which its rule starts.
    pub root: i32,
    /// Bytes that users stored.
    pub stored: u64,
    /// Bytes that an administrator expects.
    pub target_bytes: u64,
    /// Bytes on devices for each stored byte.
    pub rate: f64,
    /// Bytes of the devices under its rule.
    pub capacity: u64,
    /// Part of the capacity that it uses.
    pub actual_ratio: f64,
    /// The same, or the part that it is expected to use.
    pub ratio: f64,
    /// The ratio that an administrator expects, and its share among the expectations of all pools.
    pub target_ratio: f64,
    pub effective_ratio: f64,
    pub bias: f64,
    pub bulk: bool,
    /// Fewest and most PGs.
    pub bounds: (u32, u32),
    /// Number of PGs, counting changes in progress.
    pub pg_num: u32,
    /// Recommended number of PGs,
    pub wanted: f64,
    /// rounded to a power of two within `bounds`.
    pub ideal: u32,
    /// True if `ideal` is far from `pg_num`.
    pub differs: bool,
}

/// Pools under one root of CRUSH.
#[derive(Debug, Default)]
struct Root {
    devices: BTreeSet<OsdId>,
    /// Number of `devices` that are in.
    osds: usize,
    capacity: u64,
    /// All OSDs and PGs of it were reported.
    is_known: bool,
    pools: Vec<Scale>,
}

impl Root {
    fn new(view: &View<'_>, id: i32) -> Self {
        let map = view.state.osdmap();
        let devices: BTreeSet<OsdId> = crush_edit::devices(&map.crush, id).into_iter().map(OsdId).collect();
        let sizes: Vec<u64> = devices
            .iter()
            .filter(|osd| map.is_in(**osd))
            .map(|osd| view.pgs.osd(*osd).map_or(0, |stat| stat.store.total))
            .collect();
        Self {
            osds: sizes.len(),
            capacity: sizes.iter().sum(),
            is_known: !sizes.is_empty() && sizes.iter().all(|size| *size > 0),
            devices,
            pools: Vec::new(),
        }
    }

    fn add(&mut self, view: &View<'_>, root: i32, (id, pool): (i64, &Pool)) {
        let sum = view.pgs.pool(id);
        self.is_known &= sum.pgs == pool.pg_num as usize;
        let bias = number(pool, pool_opt::PG_AUTOSCALE_BIAS);
        let bound = |key| Some(number(pool, key) as u32).filter(|n| *n > 0);
        self.pools.push(Scale {
            id,
            root,
            stored: sum.stats.num_bytes.max(0) as u64,
            target_bytes: number(pool, pool_opt::TARGET_SIZE_BYTES) as u64,
            rate: f64::from(pool.size.max(1)),
            capacity: self.capacity,
            target_ratio: number(pool, pool_opt::TARGET_SIZE_RATIO),
            bias: if bias > 0.0 { bias } else { 1.0 },
            bulk: pool.has_flag(pool_flags::BULK),
            bounds: (
                bound(pool_opt::PG_NUM_MIN).unwrap_or(LEAST),
                bound(pool_opt::PG_NUM_MAX).unwrap_or(MOST).min(MOST),
            ),
            pg_num: pool.pg_num_target,
            ..Scale::default()
        });
    }

    /// Decides the numbers of PGs of all pools under this root.
    fn share(&mut self, settings: &Settings) {
        let capacity = self.capacity as f64;
        let of_all = |bytes: f64| if capacity > 0.0 { bytes / capacity } else { 0.0 };
        let sum = |of: &dyn Fn(&Scale) -> f64| self.pools.iter().map(of).sum::<f64>();
        let ratios = sum(&|pool| pool.target_ratio);
        let bytes =
            sum(&|pool| if pool.target_ratio > 0.0 { 0.0 } else { pool.target_bytes as f64 * pool.rate });
        for pool in &mut self.pools {
            // A target ratio is relative to those of all pools, and applies to the space that sizes in bytes
            // leave.
            if ratios > 0.0 {
                pool.effective_ratio = pool.target_ratio / ratios * (1.0 - of_all(bytes).min(1.0));
            }
            pool.actual_ratio = of_all(pool.stored as f64 * pool.rate);
            let expected = of_all(pool.stored.max(pool.target_bytes) as f64 * pool.rate);
            pool.ratio = expected.max(pool.effective_ratio);
        }
        let mut left = self.osds as f64 * settings.per_osd as f64;
        let (bulk, mut small): (Vec<_>, Vec<_>) = self.pools.drain(..).partition(|pool| pool.bulk);
        settings.decide(&mut small, None, &mut left);
        let even = 1.0 / bulk.len().max(1) as f64;
        let (mut large, mut rest): (Vec<_>, Vec<_>) = bulk.into_iter().partition(|pool| pool.ratio > even);
        settings.decide(&mut large, None, &mut left);
        let even = 1.0 / rest.len().max(1) as f64;
        settings.decide(&mut rest, Some(even), &mut left);
        self.pools = small.into_iter().chain(large).chain(rest).collect();
        self.pools.iter_mut().for_each(|pool| pool.differs &= self.is_known);
    }
}

/// All replicated pools whose OSDs are reached by rules of one root only: with several roots, a share would
/// be ambiguous.
pub(crate) fn scales(view: &View<'_>) -> Vec<Scale> {
    let map = view.state.osdmap();
    let settings = Settings::of(view);
    let mut roots: BTreeMap<i32, Root> = BTreeMap::new();
    for (id, pool) in map.pools.iter().filter(|(_, pool)| !pool.is_erasure()) {
        let Some(root) = crush_edit::rule_root(&map.crush, pool.crush_rule.into()) else { continue };
        roots.entry(root).or_insert_with(|| Root::new(view, root)).add(view, root, (*id, pool));
    }
    let mut of_osd: BTreeMap<OsdId, usize> = BTreeMap::new();
    for osd in roots.values().flat_map(|root| &root.devices) {
        *of_osd.entry(*osd).or_default() += 1;
    }
    roots.retain(|_, root| root.capacity > 0 && root.devices.iter().all(|osd| of_osd[osd] == 1));
    roots.values_mut().for_each(|root| root.share(&settings));
    let mut out: Vec<Scale> = roots.into_values().flat_map(|root| root.pools).collect();
    out.sort_by_key(|scale| scale.id);
    out
}

/// A numeric option of a pool; 0 if it is not set.
fn number(pool: &Pool, key: i32) -> f64 {
    match pool.opts.get(&key) {
        Some(PoolOpt::Int(n)) => *n as f64,
        Some(PoolOpt::Double(x)) => *x,
        _ => 0.0,
    }
}

fn nearest_power_of_two(x: f64) -> u32 {
    let n = x.clamp(1.0, f64::from(MOST)) as u32;
    let above = n.next_power_of_two();
    let below = above / 2;
    if below > 0 && above - n > n - below { below } else { above }
}

/// True if no change of a pool's PG numbers is in progress.
pub(crate) fn rests(pool: &Pool) -> bool {
    pool.pg_num == pool.pg_num_target
        && pool.pgp_num == pool.pgp_num_target
        && pool.pg_num_pending == pool.pg_num
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIB: u64 = 1 << 40;

    fn settings() -> Settings {
        Settings { off: false, per_osd: 100, threshold: 3.0, period: Duration::ZERO }
    }

    fn pool(id: i64, pg_num: u32, stored: u64) -> Scale {
        Scale { id, pg_num, stored, rate: 3.0, bias: 1.0, bounds: (LEAST, MOST), ..Scale::default() }
    }

    /// Of ten OSDs of 3 TiB: a whole share is 1000 copies, 333 PGs.
    fn share(pools: Vec<Scale>) -> Vec<(u32, bool)> {
        let mut root = Root { osds: 10, capacity: 30 * TIB, is_known: true, pools, ..Root::default() };
        root.share(&settings());
        root.pools.sort_by_key(|pool| pool.id);
        root.pools.iter().map(|pool| (pool.ideal, pool.differs)).collect()
    }

    #[test]
    fn a_power_of_two_is_nearest_and_the_larger_one_of_two() {
        let cases = [(0.0, 1), (1.9, 1), (3.0, 4), (5.0, 4), (6.0, 8), (95.0, 64), (96.0, 128), (1e9, MOST)];
        for (x, expected) in cases {
            assert_eq!(nearest_power_of_two(x), expected, "{x}");
        }
    }

    #[test]
    fn pools_get_shares_by_their_bytes_and_change_only_where_far_off() {
        // Half of the space is in one, nothing in the others.
        let pools = vec![pool(1, 32, 5 * TIB), pool(2, 32, 0), pool(3, 128, 0), pool(4, 64, 0)];
        assert_eq!(share(pools), [(128, true), (32, false), (32, true), (32, false)]);
        assert_eq!(share(vec![pool(1, 64, 5 * TIB)]), [(128, false)], "a factor of two is no reason");
    }

    #[test]
    fn what_people_expect_counts_like_bytes_and_bounds_hold() {
        let with = |change: &dyn Fn(&mut Scale)| {
            let mut one = pool(1, 32, 0);
            change(&mut one);
            share(vec![one])[0]
        };
        assert_eq!(with(&|p| p.target_bytes = 5 * TIB), (128, true));
        assert_eq!(with(&|p| p.target_ratio = 0.1), (256, true), "alone, any ratio is all");
        assert_eq!(with(&|p| (p.stored, p.bias) = (5 * TIB, 4.0)), (512, true));
        assert_eq!(with(&|p| (p.stored, p.bounds.1) = (5 * TIB, 100)), (100, true));
        assert_eq!(with(&|p| p.bounds.0 = 256), (256, true));
        assert_eq!(with(&|p| p.bounds.0 = 8), (8, true));
        assert!(!with(&|p| p.target_bytes = 11 * TIB).1, "more than there is");
        let mut pools = vec![pool(1, 32, 0), pool(2, 32, 0), pool(3, 32, 0)];
        (pools[0].target_ratio, pools[1].target_ratio, pools[2].target_bytes) = (1.0, 3.0, 5 * TIB);
        // Half is for the third, of the rest the second gets three parts.
        assert_eq!(share(pools), [(32, false), (128, true), (128, true)]);
    }

    #[test]
    fn bulk_pools_share_evenly_what_others_leave() {
        let bulk = |id, stored| Scale { bulk: true, ..pool(id, 32, stored) };
        assert_eq!(share(vec![bulk(1, 0)]), [(256, true)]);
        assert_eq!(share(vec![bulk(1, 0), bulk(2, 0)]), [(128, true), (128, true)]);
        // A half and 64 copies are gone.
        assert_eq!(share(vec![pool(1, 32, 5 * TIB), bulk(2, 0)]), [(128, true), (256, true)]);
        // One has more than its even part.
        assert_eq!(share(vec![bulk(1, 8 * TIB), bulk(2, 0)]), [(256, true), (64, false)]);
    }

    #[test]
    fn nothing_is_decided_on_sums_that_are_not_whole() {
        let mut root = Root { osds: 10, capacity: 30 * TIB, pools: vec![pool(1, 256, 0)], ..Root::default() };
        root.share(&settings());
        assert_eq!((root.pools[0].ideal, root.pools[0].differs), (32, false));
    }
}
