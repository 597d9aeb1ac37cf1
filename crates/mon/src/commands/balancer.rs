//! `ceph balancer …`: the commands of a module of Ceph's manager, on what the leading monitor does.

use crate::commands::reply::{Outcome, output, said, structured};
use crate::domain::config_log;
use crate::edit::Edit;
use crate::failure::{Failure, invalid};
use crate::view::View;
use decl::Args;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use wire::Errno;

pub fn status(view: &View<'_>, args: &Args) -> Outcome {
    let settings = view.balancer_settings();
    let balancer = &view.balancer;
    let started = balancer.started().map_or_else(String::new, |at| wire::Utime::from(at).iso8601());
    let json = json!({
        "active": settings.active,
        // Too short to tell: it is done between two messages.
        "last_optimize_duration": if started.is_empty() { "" } else { "0:00:00" },
        "last_optimize_started": started,
        "mode": settings.mode,
        "no_optimization_needed": balancer.is_even(),
        "optimize_result": balancer.result(),
        "plans": [],
    });
    structured(args, &json)
}

fn set(edit: &mut Edit<'_>, name: &str, value: &str) {
    let option = (String::from("mgr"), format!("mgr/balancer/{name}"));
    if edit.base.config.get(&option).map(String::as_str) != Some(value) {
        config_log::change(edit, vec![(option.0, option.1, Some(value.to_owned()))]);
    }
}

pub fn switch(edit: &mut Edit<'_>, on: bool) -> Outcome {
    set(edit, "active", if on { "true" } else { "false" });
    said("")
}

pub fn mode(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let mode = args.str("mode");
    if mode == "crush-compat" {
        let text =
            "crush-compat is not there: upmap is exact, and every client that can connect understands it";
        return Err(Failure::new(Errno::EOPNOTSUPP, text));
    }
    if mode == "upmap" && edit.osdmap().require_min_compat_client < maps::release::LUMINOUS {
        let text = "min_compat_client must be luminous or newer for pg-upmap: try `ceph osd set-require-min-compat-client luminous` before enabling this mode";
        return Err(Failure::new(Errno::EPERM, text));
    }
    set(edit, "mode", mode);
    said("")
}

pub fn eval(view: &View<'_>, args: &Args, verbose: bool) -> Outcome {
    let map = view.state.osdmap();
    let (pools, what): (BTreeSet<i64>, String) = match args.opt_str("option") {
        None => (map.pools.keys().copied().collect(), "current cluster".into()),
        Some(name) => match map.pool_by_name(name) {
            Some((id, _)) => ([id].into(), format!("pool \"{name}\"")),
            None => return invalid(format!("option \"{name}\" not a plan or a pool")),
        },
    };
    let roots = roots(view, &pools);
    let scores: Vec<[f64; 3]> = roots.values().map(Root::scores).collect();
    let sum: f64 = scores.iter().flatten().sum();
    let score = sum / (3 * scores.len().max(1)) as f64;
    let mut text = if verbose { format!("{what}\n") } else { format!("{what} ") };
    if verbose {
        for ((take, root), scores) in roots.iter().zip(&scores) {
            let name = map.crush.name(*take);
            for (kind, at) in [("pgs", 0), ("objects", 1), ("bytes", 2)] {
                let counts: BTreeMap<_, _> = root.counts.iter().map(|(osd, n)| (osd, n[at])).collect();
                text.push_str(&format!("{name} {kind} {counts:?} score {:.6}\n", scores[at]));
            }
            text.push_str(&format!("{name} target {:?}\n", root.targets));
        }
    }
    text.push_str(&format!("score {score:.6} (lower is better)\n"));
    output(text)
}

/// The OSDs below one starting point of rules.
#[derive(Default)]
struct Root {
    /// Share of everything that each OSD should hold.
    targets: BTreeMap<i32, f64>,
    /// PGs, objects and bytes that each OSD holds.
    counts: BTreeMap<i32, [f64; 3]>,
}

/// By starting point, the last reported content of the pools there.
fn roots(view: &View<'_>, pools: &BTreeSet<i64>) -> BTreeMap<i32, Root> {
    let map = view.state.osdmap();
    let mut roots: BTreeMap<i32, Root> = BTreeMap::new();
    let mut of_pool: BTreeMap<i64, BTreeSet<i32>> = BTreeMap::new();
    for id in pools {
        let rule = map.pools.get(id).and_then(|pool| map.crush.rule(u32::from(pool.crush_rule)));
        for step in rule.map_or(&[][..], |rule| &rule.steps) {
            let crush::Step::Take(take) = *step else { continue };
            of_pool.entry(*id).or_default().insert(take);
            roots.entry(take).or_insert_with(|| {
                let weight = |osd: i32, w: u32| {
                    f64::from(w) * f64::from(map.osd(maps::OsdId(osd)).map_or(0, |o| o.weight))
                };
                let below = map.crush.devices_below(take).into_iter();
                let mut targets: BTreeMap<i32, f64> =
                    below.map(|(osd, w)| (osd, weight(osd, w))).filter(|(_, w)| *w > 0.0).collect();
                let sum: f64 = targets.values().sum();
                targets.values_mut().for_each(|w| *w /= sum);
                let counts = targets.keys().map(|osd| (*osd, [0.0; 3])).collect();
                Root { targets, counts }
            });
        }
    }
    for (pg, stat) in view.pgs.pgs() {
        let Some(takes) = of_pool.get(&pg.pool) else { continue };
        let add = [1.0, stat.stats.num_objects.max(0) as f64, stat.stats.num_bytes.max(0) as f64];
        for osd in stat.up.iter().filter(|osd| osd.is_some()) {
            let root = takes.iter().find(|take| roots[*take].counts.contains_key(&osd.0)).copied();
            let count = root.and_then(|take| roots.get_mut(&take)?.counts.get_mut(&osd.0));
            if let Some(count) = count {
                count.iter_mut().zip(add).for_each(|(count, add)| *count += add);
            }
        }
    }
    roots
}

impl Root {
    /// Unevenness of PGs, objects and bytes: 0 if no OSD exceeds its share, approaching 1 the more they do.
    fn scores(&self) -> [f64; 3] {
        [0, 1, 2].map(|at| {
            let total: f64 = self.counts.values().map(|n| n[at]).sum();
            let num = self.targets.len().max(1) as f64;
            if total == 0.0 {
                return 0.0;
            }
            let average = total / num;
            let (mut score, mut weights) = (0.0, 0.0);
            for (osd, target) in &self.targets {
                let adjusted = self.counts[osd][at] / target / num;
                if adjusted > average {
                    score += target * erf((adjusted - average) / average / std::f64::consts::SQRT_2);
                    weights += target;
                }
            }
            score / f64::max(weights, 1.0)
        })
    }
}

/// The error function of a number that is not negative, to six digits (Abramowitz and Stegun, 7.1.26).
fn erf(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let poly = [0.254_829_592, -0.284_496_736, 1.421_413_741, -1.453_152_027, 1.061_405_429];
    let sum = poly.iter().rev().fold(0.0, |sum, c| (sum + c) * t);
    1.0 - sum * (-x * x).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_those_of_ceph() {
        for (x, y) in [(0.0, 0.0), (0.5, 0.520_499_9), (1.0, 0.842_700_8), (2.0, 0.995_322_3)] {
            assert!((erf(x) - y).abs() < 1e-6, "{x}");
        }
        let root = |counts: &[f64]| Root {
            targets: (0..).zip(counts).map(|(osd, _)| (osd, 1.0 / counts.len() as f64)).collect(),
            counts: (0..).zip(counts).map(|(osd, n)| (osd, [*n, 0.0, 0.0])).collect(),
        };
        assert_eq!(root(&[8.0, 8.0]).scores(), [0.0; 3]);
        // Half of the weight has half too much.
        let expected = 0.5 * erf(0.5 / std::f64::consts::SQRT_2);
        assert!((root(&[12.0, 4.0]).scores()[0] - expected).abs() < 1e-9);
    }
}
