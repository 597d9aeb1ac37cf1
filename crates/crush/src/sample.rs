//! Random maps for tests: everything that a map may hold and that a mapper or a decoder may stumble over.

use crate::types::{
    Bucket, BucketData, ChooseArg, ChooseArgMap, CrushMap, DEFAULT_CHOOSE_ARGS, Rule, RuleMask, Step,
    Tunables, WEIGHT_ONE,
};
use stdx::Rng;
use wire::Sample;

/// Devices at most; a map with more takes tools long to print.
const MAX_DEVICES: i32 = 300;

impl Sample for CrushMap {
    /// A map of up to five levels below one or two roots, with at least one device: buckets of all
    /// algorithms, weights from 0 to thousands, device classes with their shadow trees, any profile of
    /// tunables, weight sets (those of pool 0 or the default ones among them), rules of all steps under ids
    /// with holes.
    fn sample(rng: &mut Rng) -> Self {
        loop {
            let mut map = Tree::new(rng).grow();
            if map.max_devices > 0 {
                add_classes(rng, &mut map);
                set_algorithms(rng, &mut map);
                add_rules(rng, &mut map);
                add_choose_args(rng, &mut map);
                return map;
            }
        }
    }
}

/// A hierarchy under construction.
struct Tree<'a> {
    rng: &'a mut Rng,
    map: CrushMap,
    /// Type numbers from the hosts up.
    levels: Vec<u16>,
    /// The next device, and how weights are drawn.
    device: i32,
    weights: u64,
}

impl<'a> Tree<'a> {
    fn new(rng: &'a mut Rng) -> Self {
        let mut map = CrushMap { tunables: Tunables::sample(rng), ..CrushMap::new_default_types() };
        map.tunables.straw_calc_version = rng.below(2) as u8;
        let mut levels: Vec<u16> = (1..12).collect();
        rng.shuffle(&mut levels);
        levels.truncate(rng.range(1, 6) as usize);
        levels.sort_unstable();
        let weights = rng.below(5);
        Self { rng, map, levels, device: 0, weights }
    }

    fn grow(mut self) -> CrushMap {
        for _ in 0..self.rng.range(1, 3) {
            self.bucket(self.levels.len() - 1);
        }
        self.map.max_devices = self.device;
        self.map
    }

    /// Makes a bucket with all below it. Returns its id and weight.
    fn bucket(&mut self, level: usize) -> (i32, u32) {
        let id = self.map.new_bucket_id(|_| true);
        let mut bucket = Bucket::straw2(id, self.levels[level]);
        // Taken now, so that the buckets below get others.
        self.map.put_bucket(bucket.clone(), &format!("b{}", -id));
        let few = [9, 6, 5, 4, 3][level.min(self.levels.len() - 1)];
        let mut item_weights = Vec::new();
        for _ in 0..self.rng.below(few) {
            if self.device >= MAX_DEVICES {
                break;
            }
            // Devices of an uneven tree may be siblings of buckets.
            let (item, own) = match level {
                0 => self.device(),
                _ if self.rng.chance(1, 20) => self.device(),
                _ => self.bucket(level - 1),
            };
            bucket.items.push(item);
            // The weight in the parent follows the item's own, unless it is set explicitly.
            item_weights.push(if item < 0 && self.rng.chance(1, 12) { self.weight() } else { own });
        }
        bucket.weight = item_weights.iter().sum();
        let weight = bucket.weight;
        bucket.data = BucketData::Straw2 { item_weights };
        let slot = CrushMap::slot(id).expect("a bucket's id is negative");
        self.map.buckets[slot] = Some(bucket);
        (id, weight)
    }

    fn device(&mut self) -> (i32, u32) {
        // Ids of removed devices stay free.
        self.device += i32::from(self.rng.chance(1, 15));
        let device = self.device;
        self.device += 1;
        self.map.names.insert(device, format!("osd.{device}"));
        (device, self.weight())
    }

    fn weight(&mut self) -> u32 {
        match self.weights {
            0 => WEIGHT_ONE,
            1 => self.rng.below(0x4_0000) as u32,
            2 => [0, 1, 0x8000, WEIGHT_ONE, 0x12_0000][self.rng.below(5) as usize],
            3 => self.rng.range(1, 0x40) as u32, // lengths of straws that need all their bits
            _ => self.rng.range(WEIGHT_ONE.into(), 0x50_0000) as u32,
        }
    }
}

impl Sample for Tunables {
    fn sample(rng: &mut Rng) -> Self {
        match rng.below(8) {
            n @ 0..=4 => Self::profile(["argonaut", "bobtail", "firefly", "hammer", "jewel"][n as usize])
                .expect("a profile"),
            5 => Self::default(),
            _ => Self {
                choose_local_tries: rng.below(4) as u32,
                choose_local_fallback_tries: rng.below(6) as u32,
                choose_total_tries: rng.range(5, 60) as u32,
                chooseleaf_descend_once: rng.below(2) as u32,
                chooseleaf_vary_r: rng.below(5) as u8,
                chooseleaf_stable: rng.below(2) as u8,
                ..Self::default()
            },
        }
    }
}

/// Classes for some devices, and what follows from them.
fn add_classes(rng: &mut Rng, map: &mut CrushMap) {
    let classes = rng.below(4) as i32;
    if classes == 0 {
        return;
    }
    for (id, name) in (0..classes).zip(["hdd", "ssd", "nvme"]) {
        map.class_names.insert(id, name.to_owned());
    }
    let devices: Vec<i32> = map.names.keys().copied().filter(|id| *id >= 0).collect();
    for device in devices {
        if rng.chance(7, 8) {
            map.classes.insert(device, rng.below(classes as u64) as i32);
        }
    }
    map.rebuild_shadows();
}

fn set_algorithms(rng: &mut Rng, map: &mut CrushMap) {
    let legacy = rng.below(3);
    for bucket in map.buckets.iter_mut().flatten() {
        if legacy != 0 && rng.chance(legacy, 3) {
            let weights = (0..bucket.items.len()).map(|at| bucket.item_weight(at)).collect();
            bucket.data = data(rng, weights);
            bucket.weight = (0..bucket.items.len()).map(|at| bucket.item_weight(at)).sum();
        }
    }
}

/// Data of a bucket of a random algorithm for its items' weights.
fn data(rng: &mut Rng, item_weights: Vec<u32>) -> BucketData {
    match rng.below(5) {
        0 => BucketData::Uniform { item_weight: item_weights.first().copied().unwrap_or(0) },
        1 => BucketData::List { sum_weights: sums(&item_weights), item_weights },
        2 => BucketData::Tree { node_weights: node_weights(&item_weights) },
        3 => BucketData::Straw {
            straws: item_weights
                .iter()
                .map(|w| if *w == 0 { 0 } else { 0x1_0000 + rng.below(0x8000) as u32 })
                .collect(),
            item_weights,
        },
        _ => BucketData::Straw2 { item_weights },
    }
}

/// Sums of the weights up to each.
fn sums(weights: &[u32]) -> Vec<u32> {
    let sum = |sum: &mut u32, weight: &u32| {
        *sum += weight;
        Some(*sum)
    };
    weights.iter().scan(0, sum).collect()
}

/// The weights of a tree's nodes, of which item `i` is node `2i + 1`.
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

fn add_rules(rng: &mut Rng, map: &mut CrushMap) {
    for id in 0..rng.range(3, 6) as u8 {
        if rng.chance(1, 8) {
            map.rules.push(None);
            continue;
        }
        let firstn = rng.chance(1, 2);
        let (ty, min_size, max_size) = if firstn { (1, 1, 10) } else { (3, 1, 20) };
        let mask = RuleMask { ruleset: id, ty, min_size, max_size };
        map.rules.push(Some(Rule { mask, steps: steps(rng, map, firstn) }));
        map.rule_names.insert(i32::from(id), format!("rule{id}"));
    }
}

/// The steps of a rule from one or two starting points.
fn steps(rng: &mut Rng, map: &CrushMap, firstn: bool) -> Vec<Step> {
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
    let choose = |n, ty, leaf| match (firstn, leaf) {
        (true, true) => Step::ChooseleafFirstn { n, ty },
        (true, false) => Step::ChooseFirstn { n, ty },
        (false, true) => Step::ChooseleafIndep { n, ty },
        (false, false) => Step::ChooseIndep { n, ty },
    };
    let starts: Vec<i32> = map.buckets.iter().flatten().map(|b| b.id).collect();
    // Not only roots, shadows too, and now and then a device.
    let start = |rng: &mut Rng| match rng.below(12) {
        0 => rng.below(map.max_devices as u64) as i32,
        1 | 2 => *rng.pick(&starts),
        3..=6 => *starts.iter().rev().find(|id| map.is_shadow(**id)).unwrap_or(&starts[0]),
        _ => *rng.pick(&map.roots()),
    };
    let types: Vec<i32> = map.buckets.iter().flatten().map(|b| i32::from(b.ty)).collect();
    let ty = |rng: &mut Rng| *rng.pick(&types);
    let first = start(rng);
    match rng.below(7) {
        0 => steps.extend([Step::Take(first), choose(0, 0, false), Step::Emit]),
        1 | 2 => steps.extend([Step::Take(first), choose(0, ty(rng), true), Step::Emit]),
        3 => steps.extend([Step::Take(first), choose(rng.below(3) as i32 - 1, ty(rng), true), Step::Emit]),
        4 => {
            steps.extend([
                Step::Take(first),
                choose(2, ty(rng), false),
                choose(2, ty(rng), true),
                Step::Emit,
            ]);
        }
        5 => {
            let (outer, inner) = (ty(rng), ty(rng));
            steps.extend([Step::Take(first), choose(0, outer.max(inner), false)]);
            steps.extend([choose(1, outer.min(inner), false), choose(1, 0, false), Step::Emit]);
        }
        _ => {
            // The first copy here, the others there.
            let (ty, second) = (ty(rng), start(rng));
            steps.extend([Step::Take(first), choose(1, ty, true), Step::Emit]);
            steps.extend([Step::Take(second), choose(-1, ty, true), Step::Emit]);
        }
    }
    if rng.chance(1, 20) {
        steps.insert(0, Step::Noop);
    }
    steps
}

fn add_choose_args(rng: &mut Rng, map: &mut CrushMap) {
    if rng.chance(3, 5) {
        return;
    }
    for _ in 0..rng.range(1, 3) {
        let key = [0, DEFAULT_CHOOSE_ARGS, 1, 77][rng.below(4) as usize];
        let args = choose_args(rng, map);
        map.choose_args.insert(key, args);
    }
}

/// As in Ceph: for straw2 buckets only, with the same number of positions for all of a map.
fn choose_args(rng: &mut Rng, map: &CrushMap) -> ChooseArgMap {
    let mut args = ChooseArgMap::new();
    let positions = rng.range(1, 4);
    let straw2 = |b: &&Bucket| matches!(b.data, BucketData::Straw2 { .. });
    for bucket in map.buckets.iter().flatten().filter(straw2) {
        let weights = |rng: &mut Rng| bucket.items.iter().map(|_| rng.below(0x4_0000) as u32).collect();
        let sets = if rng.chance(1, 6) { 0 } else { positions };
        let weight_set: Vec<Vec<u32>> = (0..sets).map(|_| weights(rng)).collect();
        let mut ids = Vec::new();
        if rng.chance(1, 3) {
            ids = bucket.items.iter().map(|item| item + 1000).collect();
        }
        if rng.chance(3, 4) && !(weight_set.is_empty() && ids.is_empty()) {
            args.insert((-1 - bucket.id) as u32, ChooseArg { weight_set, ids });
        }
    }
    args
}
