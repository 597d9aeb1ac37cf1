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
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::sync::atomic::{AtomicBool, Ordering};

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
fn what_is_written_lazily_is_seen_by_another_mount_after_a_sync() {
    /// `CEPH_IOC_LAZYIO` of Linux, and a command that no file system has.
    const COMMANDS: [libc::Ioctl; 2] = [0x9704, 0x97ff];
    if !Mount::is_possible() {
        return;
    }
    let cluster = Cluster::start(Options::default());
    let (one, two) = (Mount::new(&cluster, "one"), Mount::new(&cluster, "two"));
    let open = |mount: &Mount| {
        let path = mount.point().join("file");
        fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).expect("opens")
    };
    let files = [open(&one), open(&two)];
    for file in &files {
        // SAFETY: neither command has an argument.
        let results = COMMANDS.map(|command| unsafe { libc::ioctl(file.as_raw_fd(), command) });
        assert_eq!(results, [0, -1]);
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::ENOTTY));
    }
    for n in 0..20 {
        let (writer, reader) = if n % 2 == 0 { (0, 1) } else { (1, 0) };
        for at in 0..200 {
            files[writer].write_all_at(&[n], at * 100 + writer as u64).expect("writes");
        }
        files[writer].sync_data().expect("syncs");
        for at in 0..200 {
            let mut seen = [0xff];
            files[reader].read_exact_at(&mut seen, at * 100 + writer as u64).expect("reads");
            assert_eq!(seen, [n], "at {at} in round {n}");
        }
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

#[test]
fn a_file_that_two_mounts_have_open_is_the_same_to_both() {
    if !Mount::is_possible() {
        return;
    }
    let cluster = Cluster::start(Options::default());
    let mounts = [Mount::new(&cluster, "one"), Mount::new(&cluster, "two")];
    let open = |mount: &Mount| {
        let mut options = fs::OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        options.open(mount.point().join("file")).expect("opens")
    };
    // The first opens it alone, and is let keep its pages for a while.
    let files = mounts.each_ref().map(open);
    let mut rng = stdx::Rng::from_seed(7);
    let mut content = Vec::new();
    let read_all = |file: &fs::File, len: usize| {
        let mut seen = vec![0; len + 100];
        let mut end = 0;
        while let n @ 1.. = file.read_at(&mut seen[end..], end as u64).expect("reads") {
            end += n;
        }
        seen.truncate(end);
        seen
    };
    for n in 0..150 {
        let (writer, reader) = if n % 2 == 0 { (&files[0], &files[1]) } else { (&files[1], &files[0]) };
        let offset = rng.below(40_000) as usize;
        if rng.chance(1, 5) {
            writer.set_len(offset as u64).expect("truncates");
            content.resize(offset, 0);
        } else {
            let piece = vec![n as u8 + 1; 1 + rng.below(9000) as usize];
            writer.write_all_at(&piece, offset as u64).expect("writes");
            content.resize(content.len().max(offset + piece.len()), 0);
            content[offset..offset + piece.len()].copy_from_slice(&piece);
        }
        for file in [reader, writer] {
            assert_eq!(file.metadata().expect("is there").len(), content.len() as u64, "size at step {n}");
            assert!(read_all(file, content.len()) == content, "content at step {n}");
        }
    }
}

#[test]
fn a_change_of_names_is_seen_at_once_by_a_mount_that_knew_older_ones() {
    if !Mount::is_possible() {
        return;
    }
    let cluster = Cluster::start(Options::default());
    let (one, two) = (Mount::new(&cluster, "one"), Mount::new(&cluster, "two"));
    fs::create_dir_all(one.point().join("d/e")).expect("makes directories");
    for n in 0..40 {
        let (writer, reader) = if n % 2 == 0 { (&one, &two) } else { (&two, &one) };
        let (dir, seen) = (writer.point().join("d"), reader.point().join("d"));
        assert!(!seen.join("a").exists(), "round {n}");
        fs::write(dir.join("a"), "a").expect("writes");
        let ino = fs::metadata(seen.join("a")).expect("was made").ino();
        // A listing brings names and attributes into the kernel.
        assert_eq!(fs::read_dir(&seen).expect("lists").count(), 2);
        fs::rename(dir.join("a"), dir.join("b")).expect("renames");
        assert!(!seen.join("a").exists(), "the old name, round {n}");
        assert_eq!(fs::metadata(seen.join("b")).expect("has the new name").ino(), ino);
        fs::write(dir.join("a"), "other").expect("writes");
        assert_ne!(fs::metadata(seen.join("a")).expect("is another").ino(), ino);
        fs::rename(dir.join("a"), dir.join("b")).expect("replaces");
        assert_ne!(fs::metadata(seen.join("b")).expect("is the other").ino(), ino);
        fs::remove_file(dir.join("b")).expect("removes");
        assert!(!seen.join("b").exists(), "the removed name, round {n}");
        // A directory on the way.
        fs::write(dir.join("e/f"), "f").expect("writes");
        assert!(seen.join("e/f").exists());
        fs::rename(dir.join("e"), dir.join("g")).expect("renames a directory");
        assert!(!seen.join("e/f").exists() && seen.join("g/f").exists(), "the moved directory, round {n}");
        fs::rename(dir.join("g"), dir.join("e")).expect("renames it back");
        fs::remove_file(dir.join("e/f")).expect("removes");
    }
}

#[test]
fn names_that_the_kernel_believes_change_at_once_while_it_makes_others_beside_them() {
    if !Mount::is_possible() {
        return;
    }
    let cluster = Cluster::start(Options::default());
    let (one, two) = (Mount::new(&cluster, "one"), Mount::new(&cluster, "two"));
    // Each directory is shared for the first time: names in it are believed until then.
    for round in 0..30 {
        let name = format!("d{round}");
        let (dir, seen) = (one.point().join(&name), two.point().join(&name));
        fs::create_dir(&seen).expect("makes a directory");
        (0..10).for_each(|n| fs::write(seen.join(format!("k{n}")), "k").expect("writes"));
        assert!((0..10).all(|n| seen.join(format!("k{n}")).exists()) && !seen.join("new").exists());
        let stop = AtomicBool::new(false);
        std::thread::scope(|threads| {
            for maker in 0..3 {
                let (seen, stop) = (&seen, &stop);
                threads.spawn(move || {
                    let names = (0..).map(|n| seen.join(format!("m{maker}-{n}")));
                    for path in names.take_while(|_| !stop.load(Ordering::Relaxed)) {
                        fs::write(path, "m").expect("writes");
                    }
                });
            }
            fs::write(dir.join("new"), "n").expect("writes");
            assert!(seen.join("new").exists(), "made by the other mount, round {round}");
            for n in 0..5 {
                fs::remove_file(dir.join(format!("k{n}"))).expect("removes");
                assert!(!seen.join(format!("k{n}")).exists(), "removed by the other mount, round {round}");
            }
            fs::rename(dir.join("k5"), dir.join("k6")).expect("renames");
            assert!(!seen.join("k5").exists(), "renamed by the other mount, round {round}");
            stop.store(true, Ordering::Relaxed);
        });
    }
}

#[test]
fn a_removed_file_is_opened_again_by_a_descriptor_that_opened_nothing() {
    if !Mount::is_possible() {
        return;
    }
    let cluster = Cluster::start(Options::default());
    let mount = Mount::new(&cluster, "one");
    for n in 0..6 {
        let path = mount.point().join(format!("file{n}"));
        fs::write(&path, vec![b'x'; 5000]).expect("writes");
        let held = rustix::fs::open(&path, OFlags::PATH, Mode::empty()).expect("opens");
        fs::remove_file(&path).expect("removes");
        std::thread::sleep(std::time::Duration::from_millis(40 * n));
        // What Linux keeps in memory of it proves nothing.
        fs::write("/proc/sys/vm/drop_caches", "1").expect("forgets");
        let content = fs::read(format!("/proc/self/fd/{}", held.as_raw_fd())).expect("opens again");
        assert!(content.len() == 5000 && content.iter().all(|byte| *byte == b'x'), "file {n}");
    }
}
