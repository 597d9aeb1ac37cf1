//! Attributes and data between two mounts, and reads beside many buffered writes.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests with real files, processes and time"
)]

use e2e::{Cluster, Mount, Options};
use rustix::fs::{Mode, OFlags};
use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};

#[test]
fn a_change_of_attributes_is_seen_at_once_by_a_mount_that_believes_older_ones() {
    if !Mount::is_possible() {
        return;
    }
    let cluster = Cluster::start(Options::default());
    let (one, two) = (Mount::new(&cluster, "one"), Mount::new(&cluster, "two"));
    let at = |mount: &Mount| mount.point().join("file");
    fs::write(at(&one), "x").expect("writes");
    for n in 1..40 {
        let (writer, reader) = if n % 2 == 0 { (&one, &two) } else { (&two, &one) };
        // The second one is answered by the kernel.
        for _ in 0..2 {
            assert_eq!(fs::metadata(at(reader)).expect("is there").len(), n);
        }
        let mut file = fs::OpenOptions::new().append(true).open(at(writer)).expect("opens");
        file.write_all(b"x").expect("writes");
        drop(file);
        assert_eq!(fs::metadata(at(reader)).expect("is there").len(), n + 1, "bytes after write {n}");
        assert_eq!(fs::read(at(reader)).expect("reads").len() as u64, n + 1);
        let mode = 0o600 + n as u32 % 8;
        fs::set_permissions(at(writer), fs::Permissions::from_mode(mode)).expect("changes the mode");
        assert_eq!(fs::metadata(at(reader)).expect("is there").mode() & 0o777, mode, "mode {n}");
        let link = writer.point().join("link");
        fs::hard_link(at(writer), &link).expect("links");
        assert_eq!(fs::metadata(at(reader)).expect("is there").nlink(), 2, "links {n}");
        fs::remove_file(link).expect("removes");
        assert_eq!(fs::metadata(at(reader)).expect("is there").nlink(), 1, "names left {n}");
    }
}

#[test]
fn direct_writes_are_seen_by_another_mount_while_the_file_is_open() {
    if !Mount::is_possible() {
        return;
    }
    let cluster = Cluster::start(Options::default());
    let (one, two) = (Mount::new(&cluster, "one"), Mount::new(&cluster, "two"));
    let path = one.point().join("file");
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::DIRECT;
    let file = fs::File::from(rustix::fs::open(&path, flags, Mode::from(0o644)).expect("opens"));
    // Direct access needs aligned memory.
    let mut page = stdx::BufMut::zeroed(4096);
    for n in 0..20_u8 {
        page.as_mut_slice().fill(n);
        file.write_all_at(page.as_mut_slice(), u64::from(n) * 8192).expect("writes");
        let seen = fs::read(two.point().join("file")).expect("reads");
        assert_eq!(seen.len(), usize::from(n) * 8192 + 4096);
        assert!(seen[usize::from(n) * 8192..].iter().all(|byte| *byte == n), "page {n}");
    }
}
