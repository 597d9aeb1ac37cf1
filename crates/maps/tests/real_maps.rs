//! Maps that real 16.2.15 monitors wrote, decoded and written again to the same bytes.

use maps::{FsMap, MgrMap, MonMap, OsdMap, OsdMapIncremental};
use wire::{Decode, Encode, Reader, Writer};

/// A file of several samples, each with a u32 length before it.
fn samples(file: &[u8]) -> Vec<&[u8]> {
    let mut r = Reader::new(file);
    let mut out = Vec::new();
    while !r.is_empty() {
        out.push(r.blob().expect("a sample"));
    }
    out
}

fn round_trip<T: Decode + Encode>(bytes: &[u8]) -> T {
    let mut r = Reader::new(bytes);
    let value: T = r.get().expect("decodes");
    r.finish().expect("nothing is left");
    let again = Writer::encode(&value);
    let differs = again.iter().zip(bytes).position(|(a, b)| a != b);
    assert_eq!((differs, again.len()), (None, bytes.len()), "first difference, length");
    value
}

#[test]
fn osd_maps_re_encode_to_the_same_bytes_and_checksum() {
    let files = samples(include_bytes!("data/osdmap_full.bin"));
    assert_eq!(files.len(), 5);
    for file in files {
        let map: OsdMap = round_trip(file);
        assert_eq!(map.encode_with_crc().1.to_le_bytes(), file[file.len() - 4..]);
    }
}

#[test]
fn incrementals_re_encode_to_the_same_bytes() {
    for file in samples(include_bytes!("data/osdmap_incrementals.bin")) {
        round_trip::<OsdMapIncremental>(file);
    }
}

/// 62 changes of every kind, from a cluster's first map on: pools, snapshots, OSDs up, down, out, new and
/// gone, exceptions of placement, blocklist, CRUSH. After each, the map's checksum equals the real monitor's.
#[test]
fn incrementals_lead_to_the_maps_that_real_monitors_made() {
    let mut map = OsdMap::default();
    let incrementals = samples(include_bytes!("data/osdmap_incrementals.bin"));
    assert_eq!(incrementals.len(), 63);
    for bytes in incrementals {
        let inc: OsdMapIncremental = Reader::new(bytes).get().expect("decodes");
        map.apply(&inc).expect("applies");
        assert_eq!(map.encode_with_crc().1, inc.full_crc, "epoch {}", inc.epoch);
    }
    assert_eq!(map.epoch.0, 63);
}

#[test]
fn mon_and_fs_maps_re_encode_to_the_same_bytes() {
    let mon: MonMap = round_trip(include_bytes!("data/monmap.bin"));
    assert_eq!(mon.ranks, ["a"]);
    for file in samples(include_bytes!("data/fsmap.bin")) {
        let fs: FsMap = round_trip(file);
        assert!(fs.epoch.0 >= 1);
    }
}

#[test]
fn of_a_real_managers_map_the_parts_for_clients_are_read() {
    let mgr: MgrMap = Reader::new(include_bytes!("data/mgrmap.bin")).get().expect("decodes");
    assert_eq!((mgr.epoch.0, mgr.active_gid.0, mgr.available), (1, 0, false));
}
