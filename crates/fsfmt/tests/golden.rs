//! Golden samples: bytes that this version and all later ones must read, each with the value that they stand
//! for.
//!
//! `tests/golden/NAME.txt` has a pair of lines for each sample: the bytes in hex, and the decoded value. A
//! test that fails here found a change of a stored format. While nothing is released, samples may be made
//! again (`FSFMT_GOLDEN=write cargo test -p fsfmt --test golden`), with a line in the changelog that says so.

use fsfmt::journal::JournalHeader;
use fsfmt::tables::{InoTable, LockRecord, SessionRecord};
use fsfmt::{
    Ancestor, BackPointer, ClientRange, Counted, Dentry, DentryKey, DirFrag, DirStat, Event, Fnode, Frag,
    FragTree, Ino, InoRange, InodeData, InodeKey, Link, NestStat, OldInode, PackRecord, PackedData, Pin,
    PrefixEntry, PreparedTxn, Quota, Realm, SnapInfo, SnapRecord, SnapTable, Subtree, SubtreeRecord, TxnId,
    Update,
};
use std::fmt::Debug;
use std::path::PathBuf;
use stdx::Rng;
use wire::{Decode, Encode, Reader, Sample, Writer};

/// Samples of each structure.
const SAMPLES: usize = 4;
/// Samples of updates: enough that each kind has some.
const UPDATES: usize = 120;

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.txt"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2)
        .map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).expect("hex digits"))
        .collect()
}

fn write<T: Encode + Sample + Debug>(name: &str, count: usize) {
    let mut rng = Rng::from_seed(name.bytes().map(u64::from).sum());
    let mut text = String::new();
    for _ in 0..count {
        let value = T::sample(&mut rng);
        text += &format!("{}\n{value:?}\n", hex(&Writer::encode(&value)));
    }
    let path = file(name);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder for samples");
    std::fs::write(&path, text).expect("samples are written");
}

fn check<T: Encode + Decode + Debug>(name: &str) {
    let text =
        std::fs::read_to_string(file(name)).unwrap_or_else(|e| panic!("{name}: no golden samples: {e}"));
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.len() >= 2, "{name}: no samples");
    for pair in lines.chunks(2) {
        let bytes = unhex(pair[0]);
        let mut r = Reader::new(&bytes);
        let value: T = r.get().unwrap_or_else(|e| panic!("{name}: {e} in {}", pair[0]));
        r.finish().unwrap_or_else(|e| panic!("{name}: {e} in {}", pair[0]));
        assert_eq!(format!("{value:?}"), pair[1], "{name}");
        assert_eq!(hex(&Writer::encode(&value)), pair[0], "{name}: encodes as it was read");
    }
}

fn run<T: Encode + Decode + Sample + Debug>(name: &str, count: usize) {
    if std::env::var_os("FSFMT_GOLDEN").is_some_and(|v| v == "write") {
        write::<T>(name, count);
    }
    check::<T>(name);
}

macro_rules! golden {
    ($($type:ident)*) => {
        #[test]
        fn stored_formats_read_their_golden_samples() {
            $( run::<$type>(stringify!($type), SAMPLES); )*
            run::<Update>("Update", UPDATES);
            let text = std::fs::read_to_string(file("Update")).expect("golden samples of updates");
            let kinds = text.lines().step_by(2).map(|line| &line[..2]);
            let kinds: std::collections::BTreeSet<&str> = kinds.collect();
            assert_eq!(kinds.len(), 22, "each kind of update has a sample: {kinds:?}");
        }
    };
}

golden! {
    Ancestor BackPointer ClientRange Counted Dentry DentryKey DirFrag DirStat Event Fnode Frag FragTree Ino
    InoRange InoTable InodeData InodeKey JournalHeader Link LockRecord NestStat OldInode PackRecord
    PackedData Pin PrefixEntry PreparedTxn Quota Realm SessionRecord SnapInfo SnapRecord SnapTable Subtree
    SubtreeRecord TxnId
}

#[test]
fn no_cut_and_no_flipped_bit_panics() {
    let mut rng = Rng::from_seed(5);
    for _ in 0..200 {
        let bytes = Writer::encode(&Event::sample(&mut rng));
        for cut in (0..bytes.len()).step_by(7) {
            assert!(Reader::new(&bytes[..cut]).get::<Event>().is_err(), "cut at {cut}");
        }
        for _ in 0..50 {
            let mut bad = bytes.clone();
            bad[rng.below(bytes.len() as u64) as usize] ^= 1 << rng.below(8);
            let _ = Reader::new(&bad).get::<Event>();
        }
    }
}
