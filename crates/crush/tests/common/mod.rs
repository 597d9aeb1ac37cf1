//! Random maps and the reference mapper.

use crush::*;
use std::process::Command;
use stdx::Rng;
use wire::Writer;

fn node_weights(weights: &[u32]) -> Vec<u32> {
    let depth = match weights.len() {
        0 => return vec![0],
        n => usize::BITS - (n - 1).leading_zeros() + 1,
    };
    let mut nodes = vec![0u32; 1 << depth];
    for (i, weight) in weights.iter().enumerate() {
        let mut node = 2 * i + 1;
        nodes[node] = *weight;
        while node != nodes.len() / 2 {
            let step = 1 << node.trailing_zeros();
            node = if node & (step << 1) != 0 { node - step } else { node + step };
            nodes[node] += weight;
        }
    }
    nodes
}

fn bucket(rng: &mut Rng, id: i32, ty: u16, items: Vec<i32>, weights: Vec<u32>) -> Bucket {
    let sums = |weights: &[u32]| {
        let mut sum = 0;
        weights
            .iter()
            .map(|w| {
                sum += w;
                sum
            })
            .collect::<Vec<u32>>()
    };
    let weight = weights.iter().sum();
    let data = match rng.below(9) {
        0 => BucketData::Uniform { item_weight: weights.first().copied().unwrap_or(0) },
        1 => BucketData::List { sum_weights: sums(&weights), item_weights: weights },
        2 => BucketData::Tree { node_weights: node_weights(&weights) },
        3 => BucketData::Straw {
            straws: weights.iter().map(|w| w / 2 + rng.below(0x8000) as u32).collect(),
            item_weights: weights,
        },
        _ => BucketData::Straw2 { item_weights: weights },
    };
    Bucket { id, ty, hash: 0, weight, items, data }
}

fn tunables(rng: &mut Rng) -> Tunables {
    match rng.below(3) {
        0 => Tunables::default(),
        1 => Tunables::legacy(),
        _ => Tunables {
            choose_local_tries: rng.below(4) as u32,
            choose_local_fallback_tries: rng.below(6) as u32,
            choose_total_tries: rng.range(5, 60) as u32,
            chooseleaf_descend_once: rng.below(2) as u32,
            chooseleaf_vary_r: rng.below(5) as u8,
            chooseleaf_stable: rng.below(2) as u8,
            ..Tunables::default()
        },
    }
}

fn rule(rng: &mut Rng, root: i32) -> Rule {
    let firstn = rng.chance(1, 2);
    let mut steps = Vec::new();
    for make in [
        Step::SetChooseTries,
        Step::SetChooseleafTries,
        Step::SetChooseLocalTries,
        Step::SetChooseLocalFallbackTries,
        Step::SetChooseleafVaryR,
        Step::SetChooseleafStable,
    ] {
        if rng.chance(1, 6) {
            steps.push(make(rng.below(6) as i32));
        }
    }
    steps.push(Step::Take(root));
    let choose = |n, ty, leaf| match (firstn, leaf) {
        (true, true) => Step::ChooseleafFirstn { n, ty },
        (true, false) => Step::ChooseFirstn { n, ty },
        (false, true) => Step::ChooseleafIndep { n, ty },
        (false, false) => Step::ChooseIndep { n, ty },
    };
    match rng.below(5) {
        0 => steps.push(choose(0, 0, false)),
        1 => steps.push(choose(0, 1, true)),
        2 => steps.push(choose(rng.below(3) as i32 - 1, 2, true)),
        3 => steps.extend([choose(2, 2, false), choose(2, 1, true)]),
        _ => steps.extend([choose(0, 2, false), choose(1, 1, false), choose(1, 0, false)]),
    }
    steps.push(Step::Emit);
    let ty = if firstn { 1 } else { 3 };
    Rule { mask: RuleMask { ruleset: 0, ty, min_size: 1, max_size: 10 }, steps }
}

fn choose_args(rng: &mut Rng, map: &CrushMap) -> ChooseArgMap {
    let mut args = ChooseArgMap::new();
    for bucket in map.buckets.iter().flatten() {
        if rng.chance(1, 4) {
            continue;
        }
        let weights = |rng: &mut Rng| bucket.items.iter().map(|_| rng.below(0x4_0000) as u32).collect();
        let weight_set: Vec<Vec<u32>> = (0..rng.range(1, 4)).map(|_| weights(rng)).collect();
        let mut ids = Vec::new();
        if rng.chance(1, 3) {
            ids = bucket.items.iter().map(|item| item + 1000).collect();
        }
        args.insert((-1 - bucket.id) as u32, ChooseArg { weight_set, ids });
    }
    args
}

/// A map of racks, hosts and devices with buckets of all kinds; not without a device, of which crushtool says
/// nothing at all.
pub fn random_map(rng: &mut Rng) -> CrushMap {
    loop {
        let map = random_tree(rng);
        if map.max_devices > 0 {
            return map;
        }
    }
}

fn random_tree(rng: &mut Rng) -> CrushMap {
    let mut map = CrushMap { tunables: tunables(rng), ..CrushMap::new_default_types() };
    map.types = [(0, "osd"), (1, "host"), (2, "rack"), (3, "root")].map(|(n, s)| (n, s.to_owned())).into();
    let (racks, uneven) = (rng.range(1, 6), rng.chance(1, 2));
    let (mut device, mut next_id) = (0, -2);
    let (mut rack_ids, mut rack_weights) = (Vec::new(), Vec::new());
    let mut buckets = Vec::new();
    let mut new_id = || {
        next_id -= 1;
        next_id + 1
    };
    for _ in 0..racks {
        let (mut host_ids, mut host_weights) = (Vec::new(), Vec::new());
        for _ in 0..rng.below(5) {
            let items: Vec<i32> = (device..device + rng.below(6) as i32).collect();
            device += items.len() as i32;
            let weight = |rng: &mut Rng| if uneven { rng.below(0x3_0000) as u32 } else { 0x1_0000 };
            let weights: Vec<u32> = items.iter().map(|_| weight(rng)).collect();
            let host = bucket(rng, new_id(), 1, items, weights);
            host_ids.push(host.id);
            host_weights.push(host.weight);
            buckets.push(host);
        }
        let rack = bucket(rng, new_id(), 2, host_ids, host_weights);
        rack_ids.push(rack.id);
        rack_weights.push(rack.weight);
        buckets.push(rack);
    }
    buckets.push(bucket(rng, -1, 3, rack_ids, rack_weights));
    map.max_devices = device;
    map.names = (0..device).map(|d| (d, format!("osd.{d}"))).collect();
    map.buckets = vec![None; (-1 - next_id).max(1) as usize];
    for b in buckets {
        map.names.insert(b.id, format!("b{}", -b.id));
        let slot = (-1 - b.id) as usize;
        map.buckets[slot] = Some(b);
    }
    for id in 0..3u8 {
        let mut rule = rule(rng, -1);
        rule.mask.ruleset = id;
        map.rules.push(Some(rule));
        map.rule_names.insert(i32::from(id), format!("rule{id}"));
    }
    if rng.chance(1, 3) {
        let args = choose_args(rng, &map);
        // crushtool asks for the weight sets of pool 0.
        map.choose_args.insert(if rng.chance(1, 2) { 0 } else { DEFAULT_CHOOSE_ARGS }, args);
    }
    map
}

/// One question to a mapper: rule, size, device weights, inputs from 0 on.
#[derive(Clone, Debug)]
pub struct Case {
    pub rule: u32,
    pub size: u32,
    pub weights: Vec<u32>,
    pub inputs: u32,
}

pub fn random_case(rng: &mut Rng, map: &CrushMap, inputs: u32) -> Case {
    let weights = (0..map.max_devices)
        .map(|_| if rng.chance(1, 6) { rng.below(4) as u32 * 0x4000 } else { WEIGHT_ONE })
        .collect();
    Case { rule: rng.below(3) as u32, size: rng.range(1, 7) as u32, weights, inputs }
}

pub fn ours(map: &CrushMap, case: &Case) -> Vec<Vec<i32>> {
    let args = map.choose_args_for(0);
    (0..case.inputs).map(|x| map.do_rule(case.rule, x, case.size as usize, &case.weights, args)).collect()
}

/// Whether Ceph's tools are installed.
pub fn have_crushtool() -> bool {
    Command::new("crushtool").arg("--version").output().is_ok()
}

/// What crushtool answers.
pub fn theirs(map: &CrushMap, case: &Case) -> Vec<Vec<i32>> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("map");
    std::fs::write(&file, Writer::encode(map)).expect("written");
    let mut tool = Command::new("crushtool");
    tool.arg("-i").arg(&file).args(["--test", "--show-mappings", "--min-x", "0"]);
    tool.args(["--max-x", &(case.inputs - 1).to_string(), "--rule", &case.rule.to_string()]);
    tool.args(["--num-rep", &case.size.to_string()]);
    for (device, weight) in case.weights.iter().enumerate().filter(|(_, w)| **w != WEIGHT_ONE) {
        tool.args(["--weight", &device.to_string(), &(f64::from(*weight) / 65536.0).to_string()]);
    }
    let out = tool.output().expect("crushtool runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = [out.stdout, out.stderr].concat();
    let text = String::from_utf8(text).expect("text");
    let list = |line: &str| -> Option<Vec<i32>> {
        let list = line.strip_prefix("CRUSH rule ")?.split_once('[')?.1.strip_suffix(']')?;
        Some(list.split(',').filter(|n| !n.is_empty()).map(|n| n.parse().expect("a number")).collect())
    };
    text.lines().filter_map(list).collect()
}
