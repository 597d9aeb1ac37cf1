//! Every structure: a random value survives encoding, cut-off and damaged bytes never panic.

use maps::*;
use stdx::Rng;
use wire::{Decode, Encode, Reader, Sample, Writer};

fn round_trips<T: Sample + Encode + Decode + PartialEq + std::fmt::Debug>(name: &str) {
    let mut rng = Rng::from_seed(11);
    for _ in 0..40 {
        let value = T::sample(&mut rng);
        let bytes = Writer::encode(&value);
        let mut r = Reader::new(&bytes);
        assert_eq!(r.get::<T>().as_ref(), Ok(&value), "{name}");
        r.finish().expect(name);
        for _ in 0..20 {
            let cut = rng.below(bytes.len() as u64 + 1) as usize;
            let _ = Reader::new(&bytes[..cut]).get::<T>();
            let mut damaged = bytes.clone();
            if let Some(byte) = damaged.get_mut(cut) {
                *byte = rng.u32() as u8;
                let _ = Reader::new(&damaged).get::<T>();
            }
        }
    }
}

#[test]
fn random_values_survive_and_damaged_bytes_never_panic() {
    macro_rules! all {
        ($($t:ident)*) => { $( round_trips::<$t>(stringify!($t)); )* };
    }
    all!(Epoch OsdId SnapId Fscid MdsRank Gid PgId Spg EVersion ReqId HObject ObjectLocator IntervalSet
        FeatureBits CompatSet FileLayout LegacyFileLayout ObjectStatSum StatCollection StoreStatfs PoolStat
        NacreMap MonMap MonInfo MgrMap MdsInfo MdsMap FsMap FsMapUser Filesystem Pool PoolSnap
        MergeMeta OsdInfo OsdXinfo);
}

#[test]
fn defaults_are_legal_maps() {
    fn legal<T: Default + Encode + Decode + PartialEq + std::fmt::Debug>() {
        let bytes = Writer::encode(&T::default());
        assert_eq!(Reader::new(&bytes).get::<T>(), Ok(T::default()));
    }
    legal::<OsdMap>();
    legal::<OsdMapIncremental>();
    legal::<MonMap>();
    legal::<MgrMap>();
    legal::<MdsMap>();
    legal::<FsMap>();
    legal::<NacreMap>();
    legal::<Pool>();
}

#[test]
fn damaged_osd_maps_are_refused_by_their_checksum() {
    let whole = include_bytes!("data/osdmap_incrementals.bin");
    let mut r = Reader::new(whole);
    let inc = r.blob().expect("the first");
    let mut rng = Rng::from_seed(5);
    let mut map = OsdMap::default();
    map.apply(&Reader::new(inc).get().expect("decodes")).expect("applies");
    let full = Writer::encode(&map);
    for bytes in [inc, &full[..]] {
        for cut in 0..bytes.len() {
            assert!(Reader::new(&bytes[..cut]).get::<OsdMap>().is_err());
            assert!(Reader::new(&bytes[..cut]).get::<OsdMapIncremental>().is_err());
        }
        for _ in 0..500 {
            let mut damaged = bytes.to_vec();
            damaged[rng.below(bytes.len() as u64) as usize] ^= 1 << rng.below(8);
            let _ = Reader::new(&damaged).get::<OsdMapIncremental>();
            let _ = Reader::new(&damaged).get::<OsdMap>();
        }
    }
    let at = full.len() / 2;
    let mut damaged = full.clone();
    damaged[at] ^= 1;
    assert!(Reader::new(&damaged).get::<OsdMap>().is_err());
}

#[test]
fn an_incremental_that_does_not_fit_changes_nothing() {
    let mut map = OsdMap { epoch: Epoch(4), ..OsdMap::default() };
    let before = map.clone();
    let mut inc = OsdMapIncremental { epoch: Epoch(6), ..Default::default() };
    assert!(matches!(map.apply(&inc), Err(ApplyError::Epoch { .. })));
    inc.epoch = Epoch(5);
    inc.new_weight.insert(OsdId(3), WEIGHT_IN);
    assert_eq!(map.apply(&inc), Err(ApplyError::Osd(OsdId(3))));
    inc.new_max_osd = 4;
    inc.crush = vec![1, 2, 3];
    assert!(matches!(map.apply(&inc), Err(ApplyError::Decode(_))));
    inc.crush.clear();
    inc.fsid.0[0] = 1;
    assert!(matches!(map.apply(&inc), Err(ApplyError::Fsid(_))));
    assert_eq!(map, before);
    inc.fsid = map.fsid;
    map.apply(&inc).expect("fits");
    assert!(map.is_in(OsdId(3)) && !map.is_up(OsdId(3)) && map.max_osd() == 4);
}

#[test]
fn real_samples_re_encode_to_the_same_bytes() {
    let mut r = Reader::new(include_bytes!("data/pool_stat.bin"));
    let mut used = 0;
    while !r.is_empty() {
        let bytes = r.blob().expect("a sample");
        let stat: PoolStat = Reader::new(bytes).get().expect("decodes");
        assert_eq!(Writer::encode(&stat), bytes);
        used += stat.stats.sum.num_objects;
    }
    assert_eq!(used, 23);
    let bytes = include_bytes!("data/mdsmap.bin");
    let map: MdsMap = Reader::new(bytes).get().expect("decodes");
    assert_eq!(Writer::encode(&map), bytes);
    assert_eq!(map.state_of(MdsRank(0)), MdsState::ACTIVE);
}

#[test]
fn objects_are_ordered_by_pool_then_reversed_hash() {
    let mut names: Vec<HObject> =
        (0..200u32).map(|i| HObject::head(i64::from(i % 3), b"", b"", format!("o{i}").as_bytes())).collect();
    names.push(HObject::default());
    names.push(HObject::max());
    names.sort();
    assert!(names[0].is_min() && names[201].max);
    let keys: Vec<(i64, u64)> = names[1..201].iter().map(|o| (o.pool, o.bitwise_key())).collect();
    assert!(keys.is_sorted());
}

#[test]
fn a_shard_is_parsed_from_what_it_is_printed_as() {
    for shard in [Spg::NO_SHARD, 0, 11] {
        let spg = Spg { pgid: PgId::new(3, 0x2f), shard };
        assert_eq!(Spg::parse(&spg.to_string()), Some(spg));
    }
    for text in ["", "3", "3.2fs", "3.2fs-1", "3.2fs300", "3.zs1"] {
        assert_eq!(Spg::parse(text), None, "{text}");
    }
}
