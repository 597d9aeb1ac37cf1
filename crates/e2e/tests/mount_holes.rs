//! Holes of sparse files, and copies that the mount makes itself.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests with real files")]

use e2e::{Cluster, Mount, Options};
use rustix::fs::{FallocateFlags, SeekFrom, copy_file_range, fallocate, seek};
use rustix::io::Errno;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// The data of a file as (begin, end), found by turns.
fn data(file: &File) -> Vec<(u64, u64)> {
    let (mut ranges, mut at) = (Vec::new(), 0);
    loop {
        match seek(file, SeekFrom::Data(at)) {
            Ok(begin) => {
                at = seek(file, SeekFrom::Hole(begin)).expect("each range of data ends");
                ranges.push((begin, at));
            }
            Err(errno) => {
                assert_eq!(errno, Errno::NXIO);
                return ranges;
            }
        }
    }
}

const MIB: u64 = 1 << 20;

#[test]
fn programs_see_the_holes_of_a_sparse_file() {
    if !Mount::is_possible() {
        return;
    }
    let cluster = Cluster::start(Options::default());
    let (one, two) = (Mount::new(&cluster, "one"), Mount::new(&cluster, "two"));
    let open = |mount: &Mount| File::options().read(true).write(true).open(mount.point().join("f"));
    let file = File::create_new(one.point().join("f")).expect("makes a file");
    drop(file);
    let file = open(&one).expect("opens");
    file.set_len(100 * MIB).expect("extends");
    assert_eq!(data(&file), []);
    // Whole blocks, since the OSDs' extents are: at the start, over the end of an object, at the end.
    let pieces = [(0, MIB), (20 * MIB - 65536, 131_072), (100 * MIB - 65536, 65536)];
    for (at, len) in pieces {
        file.write_all_at(&vec![1; len as usize], at).expect("writes");
    }
    let expected: Vec<(u64, u64)> = pieces.iter().map(|(at, len)| (*at, at + len)).collect();
    assert_eq!(data(&file), expected, "also while it is buffered");
    file.sync_all().expect("syncs");
    assert_eq!(data(&file), expected);
    assert_eq!(data(&open(&two).expect("opens")), expected, "elsewhere");
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(&file, flags, 65536, MIB - 65536).expect("punches");
    assert_eq!(data(&file)[0], (0, 65536));
    assert_eq!(seek(&file, SeekFrom::Hole(20 * MIB)), Ok(20 * MIB + 65536));
    assert_eq!(seek(&file, SeekFrom::Data(100 * MIB)), Err(Errno::NXIO));
    // What is buffered is told of in the blocks that it will fill, and an object's end by the byte.
    file.write_all_at(b"few", 50 * MIB).expect("writes");
    assert_eq!(data(&file)[2], (50 * MIB, 50 * MIB + 4096));
    file.sync_all().expect("syncs");
    assert_eq!(data(&file)[2], (50 * MIB, 50 * MIB + 3));
}

#[test]
fn a_copy_of_a_range_is_made_by_the_mount() {
    if !Mount::is_possible() {
        return;
    }
    let cluster = Cluster::start(Options::default());
    let (one, two) = (Mount::new(&cluster, "one"), Mount::new(&cluster, "two"));
    let make = |name: &str| {
        let mut options = File::options();
        options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(one.point().join(name))
            .expect("opens")
    };
    let content: Vec<u8> = (0..9_500_000_u32).map(|n| (n / 5) as u8).collect();
    let (from, to) = (make("from"), make("to"));
    from.write_all_at(&content, 0).expect("writes");
    let (mut at, mut done) = (1000, 777);
    loop {
        let len = copy_file_range(&from, Some(&mut at), &to, Some(&mut done), 100 * MIB as usize);
        if len.expect("copies") == 0 {
            break;
        }
    }
    assert_eq!((at, done), (content.len() as u64, content.len() as u64 - 1000 + 777));
    let seen = std::fs::read(two.point().join("to")).expect("reads");
    assert!(seen[..777].iter().all(|byte| *byte == 0) && seen[777..] == content[1000..], "elsewhere");
    let mut again = vec![0; seen.len()];
    to.read_exact_at(&mut again, 0).expect("reads");
    assert!(again == seen, "the kernel has dropped what it had");
    // A program that copies by this call: the mount reads and writes, the program does neither.
    std::fs::copy(one.point().join("from"), one.point().join("copy")).expect("copies");
    assert!(std::fs::read(two.point().join("copy")).expect("reads") == content);
}
