//! The mapper and the encoding against crushtool of Ceph 16.2, on random maps of every kind
//! (`CrushMap::sample`). `NACRE_CRUSH_MAPS=10000 NACRE_CRUSH_SEED=1 cargo test --release -p crush --test
//! mapping` checks that many maps; the totals are logged in `docs/crush-log.md`.

mod common;

use common::{Case, Crushtool, Mapping, decode, have_crushtool, ours};
use crush::{Bucket, BucketData, CrushMap};
use stdx::{Rng, crc32c};
use wire::{Reader, Sample, Writer};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/mappings.bin");
/// Inputs for each rule of a map.
const INPUTS: u32 = 100;

fn checksum(mappings: &[Mapping]) -> u32 {
    mappings.iter().fold(!0, |crc, (_, _, devices)| crc32c::update(crc, &Writer::encode(devices)))
}

/// Writes what crushtool answers on 64 maps: `NACRE_BLESS=1 cargo test -p crush`.
fn bless() {
    let mut rng = Rng::from_seed(4242);
    let mut w = Writer::new();
    for _ in 0..64 {
        let map = CrushMap::sample(&mut rng);
        let case = Case::random(&mut rng, &map, 256);
        w.sized(|w| w.put(&map));
        w.put(&case.size);
        w.put(&case.weights);
        w.put(&case.first);
        w.put(&case.inputs);
        w.put(&checksum(&Crushtool::new(&map).mappings(&map, &case).0));
    }
    std::fs::write(GOLDEN, w.as_slice()).expect("written");
}

#[test]
fn maps_as_crushtool_did() {
    if std::env::var_os("NACRE_BLESS").is_some() {
        bless();
    }
    let file = std::fs::read(GOLDEN).expect("the golden mappings");
    let mut r = Reader::new(&file);
    let mut maps = 0;
    while !r.is_empty() {
        let bytes = r.blob().expect("a map");
        let map = decode(bytes);
        assert_eq!(Writer::encode(&map), bytes, "map {maps}");
        let size = r.get().expect("a number");
        let weights = r.get().expect("weights");
        let (first, inputs) = (r.get().expect("a number"), r.get().expect("a number"));
        let case = Case { size, weights, first, inputs };
        let expected: u32 = r.get().expect("a checksum");
        assert_eq!(checksum(&ours(&map, &case)), expected, "map {maps}, {case:?}");
        maps += 1;
    }
    assert_eq!(maps, 64);
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().expect("a number"))
}

/// Each map from its own seed, so that one that differs can be made again alone.
#[test]
fn maps_as_crushtool_does_where_it_is_installed() {
    let (maps, first) = (number("NACRE_CRUSH_MAPS", 60), number("NACRE_CRUSH_SEED", 7));
    let (mut mappings, mut compiled) = (0, 0);
    for seed in first..first + maps {
        let mut rng = Rng::from_seed(seed);
        let map = CrushMap::sample(&mut rng);
        let case = Case::random(&mut rng, &map, INPUTS);
        let expected = ours(&map, &case);
        assert_eq!(decode(&Writer::encode(&map)), map, "seed {seed}");
        if !have_crushtool() {
            continue;
        }
        let tool = Crushtool::new(&map);
        let (count, bytes) = check(&format!("seed {seed}"), &tool, &map, &case, &expected);
        assert!(bytes == Writer::encode(&map), "seed {seed}: crushtool writes the map otherwise\n{map:#?}");
        mappings += count;
        if seed % 4 == 0
            && let Some(bytes) = tool.recompiled()
        {
            let map = decode(&bytes);
            assert_eq!(Writer::encode(&map), bytes, "seed {seed}, compiled");
            compiled += 1;
            if !has_sound_trees(&map) {
                continue;
            }
            let tool = Crushtool::new(&map);
            mappings += check(&format!("seed {seed}, compiled"), &tool, &map, &case, &ours(&map, &case)).0;
        }
    }
    println!(
        "{maps} maps from seed {first}, {compiled} of them recompiled: {mappings} mappings, none differs"
    );
}

/// True if each node of the trees weighs as much as its two children, and every way down ends at an item.
/// When crushtool 16.2 compiles a map with classes, the shadows of tree buckets contain uninitialized memory,
/// and its mapper then reads beyond their items.
fn has_sound_trees(map: &CrushMap) -> bool {
    let sound = |bucket: &Bucket| {
        let BucketData::Tree { node_weights } = &bucket.data else { return true };
        let weight = |node: usize| node_weights.get(node).copied().unwrap_or(0);
        let leaves = (0..node_weights.len() / 2).all(|at| weight(2 * at + 1) == bucket.item_weight(at));
        let inner = (2..node_weights.len()).step_by(2).all(|node| {
            let half = 1 << (node.trailing_zeros() - 1);
            weight(node) == weight(node - half).wrapping_add(weight(node + half))
        });
        // From a root without weight the way leads to the last leaf, behind which there may be no item.
        let root = weight(node_weights.len() / 2);
        leaves && inner && (root > 0 || 2 * bucket.items.len() >= node_weights.len())
    };
    map.buckets.iter().flatten().all(sound)
}

/// Compares each mapping. Returns their number, and the map as crushtool writes it.
fn check(
    what: &str,
    tool: &Crushtool,
    map: &CrushMap,
    case: &Case,
    expected: &[Mapping],
) -> (usize, Vec<u8>) {
    let (theirs, bytes) = tool.mappings(map, case);
    if case.weights.iter().all(|weight| *weight == 0) {
        assert_eq!(theirs, [], "{what}: crushtool maps nothing where all devices are out");
    } else {
        assert_eq!(theirs.len(), expected.len(), "{what}");
    }
    for (ours, theirs) in expected.iter().zip(&theirs) {
        assert_eq!(ours, theirs, "{what}, {case:?}\n{map:#?}");
    }
    (theirs.len(), bytes)
}
