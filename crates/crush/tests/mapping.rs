//! The mapper against crushtool of Ceph 16.2, on random maps with buckets of all kinds, rules of all steps,
//! random tunables, weight sets, and devices that are out or half out.

mod common;

use common::{Case, have_crushtool, ours, random_case, random_map, theirs};
use crush::CrushMap;
use stdx::{Rng, crc32c};
use wire::{Reader, Writer};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/mappings.bin");

fn checksum(mappings: &[Vec<i32>]) -> u32 {
    mappings.iter().fold(!0, |crc, devices| crc32c::update(crc, &Writer::encode(devices)))
}

/// Writes what crushtool answers on 48 maps: `NACRE_BLESS=1 cargo test -p crush`.
fn bless() {
    let mut rng = Rng::from_seed(4242);
    let mut w = Writer::new();
    for _ in 0..48 {
        let map = random_map(&mut rng);
        w.sized(|w| w.put(&map));
        let cases: Vec<Case> = (0..4).map(|_| random_case(&mut rng, &map, 1024)).collect();
        w.count(cases.len());
        for case in cases {
            w.put(&case.rule);
            w.put(&case.size);
            w.put(&case.weights);
            w.put(&case.inputs);
            w.put(&checksum(&theirs(&map, &case)));
        }
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
    let (mut maps, mut cases) = (0, 0);
    while !r.is_empty() {
        let bytes = r.blob().expect("a map");
        let map: CrushMap = Reader::new(bytes).get().expect("decodes");
        assert_eq!(Writer::encode(&map), bytes, "map {maps}");
        for _ in 0..r.get::<u32>().expect("a count") {
            let mut next = || r.get::<u32>().expect("a number");
            let (rule, size) = (next(), next());
            let weights = r.get().expect("weights");
            let case = Case { rule, size, weights, inputs: r.get().expect("a number") };
            let expected: u32 = r.get().expect("a checksum");
            assert_eq!(checksum(&ours(&map, &case)), expected, "map {maps}, {case:?}");
            cases += 1;
        }
        maps += 1;
    }
    assert_eq!((maps, cases), (48, 192));
}

#[test]
fn maps_as_crushtool_does_where_it_is_installed() {
    let mut rng = Rng::from_seed(7);
    for n in 0..24 {
        let map = random_map(&mut rng);
        let case = random_case(&mut rng, &map, 512);
        let ours = ours(&map, &case);
        assert_eq!(ours.len(), 512);
        if have_crushtool() {
            for (x, (a, b)) in ours.iter().zip(theirs(&map, &case)).enumerate() {
                assert_eq!(*a, b, "map {n}, x {x}, {case:?}\n{map:#?}");
            }
        }
    }
}
