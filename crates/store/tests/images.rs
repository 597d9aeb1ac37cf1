//! Images of stores that earlier versions have made: they must open, or be refused by the number of their
//! format.
//!
//! `images/N.blocks` holds the blocks of an image of format N that are not zero, each behind its number (u64,
//! little-endian); `images/N.digest` its size, and the checksum of what must be read. `STORE_WRITE_IMAGE=N`
//! makes one.

mod common;

use common::disk::SimDisk;
use common::model::Model;
use common::work::{Scale, any_txn, state};
use common::*;
use std::path::{Path, PathBuf};
use stdx::{Buf, Rng, crc32c};

const BYTES: u64 = 4 << 20;

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/images").join(name)
}

/// A checksum of everything that can be read.
fn digest(model: &Model) -> String {
    let mut crc = !0;
    for (key, object) in &model.objects {
        crc = crc32c::update(crc, format!("{key:?}").as_bytes());
        crc = crc32c::update(crc, &object.data);
        crc =
            crc32c::update(crc, format!("{:?}{:?}{:?}", object.attrs, object.header, object.omap).as_bytes());
    }
    format!("{} objects {crc:08x}\n", model.objects.len())
}

/// A store with something of everything: what is in its place and what is only in the log.
fn make(format: &str) {
    let scale = Scale { objects: 12, size: 30_000, write: 20_000, omap_keys: 40, value: 200 };
    let mut rng = Rng::from_seed(1);
    let mut bench = Bench::open(SimDisk::new(BYTES, 4096, 1), small());
    let mut model = Model::default();
    while bench.committed.len() < 150 {
        let txn = any_txn(&mut rng, scale);
        if bench.store.fits(&txn).is_ok() {
            model.apply(&txn);
            bench.commit(txn);
        }
        if bench.committed.len() == 120 {
            bench.clean();
        }
    }
    bench.run();
    let mut blocks = Vec::new();
    for block in 0..BYTES / 4096 {
        let bytes = bench.disk.peek(block * 4096, 4096);
        if bytes.iter().any(|b| *b != 0) {
            blocks.extend_from_slice(&block.to_le_bytes());
            blocks.extend_from_slice(&bytes);
        }
    }
    std::fs::write(path(&format!("{format}.blocks")), blocks).expect("writes");
    std::fs::write(path(&format!("{format}.digest")), digest(&model)).expect("writes");
}

fn load(format: &str) -> SimDisk {
    let blocks = std::fs::read(path(&format!("{format}.blocks"))).expect("an image");
    let mut disk = SimDisk::new(BYTES, 4096, 1);
    for entry in blocks.chunks(8 + 4096) {
        let block = u64::from_le_bytes(entry[..8].try_into().expect("8 bytes"));
        disk.fill(block * 4096, Buf::copy_from(&entry[8..]));
    }
    disk
}

#[test]
fn images_of_every_format_from_1_on_open() {
    if let Ok(format) = std::env::var("STORE_WRITE_IMAGE") {
        make(&format);
    }
    let mut seen = 0;
    for format in 1..=1 {
        let expected = std::fs::read_to_string(path(&format!("{format}.digest"))).expect("a digest");
        // As it is, and on a device that has grown since.
        let (same, larger) = (load(&format.to_string()), load(&format.to_string()).grown(3 * BYTES));
        for disk in [same, larger] {
            let mut bench = Bench::open(disk, small());
            assert_eq!(digest(&state(&mut bench)), expected, "format {format}");
            bench.assert_nothing_leaks();
        }
        seen += 1;
    }
    assert!(seen > 0);
}

#[test]
fn a_store_of_format_0_is_refused_by_its_number() {
    let mut disk = load("1");
    for copy in [0, 128 << 10] {
        // The version of the superblock's structure, under a right checksum.
        let mut sector = disk.peek(copy, 512).to_vec();
        (sector[16], sector[17]) = (1, 1);
        sector[8..12].fill(0);
        let crc = crc32c::update(!0, &sector);
        sector[8..12].copy_from_slice(&crc.to_le_bytes());
        sector.resize(4096, 0);
        disk.fill(copy, Buf::from(sector));
    }
    let mut bench = Bench::start(disk, small(), 1);
    bench.run();
    let error = bench.failed.expect("refused").to_string();
    assert!(error.contains("format 0"), "{error}");
}
