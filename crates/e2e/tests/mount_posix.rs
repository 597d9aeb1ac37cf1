//! What POSIX and Linux promise beyond reads and writes: renames with flags, access control lists, birth
//! times, link counts of directories.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests with real files")]

use e2e::{Cluster, Mount, Options, names};
use rustix::fs::{
    AtFlags, CWD, RenameFlags, StatxFlags, XattrFlags, getxattr, listxattr, renameat_with, setxattr, statx,
};
use rustix::io::Errno;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";
/// For the mode's classes: no number.
const NOBODY: u32 = u32::MAX;

/// A list of these entries: tag, permissions and number.
fn list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for (tag, perm, id) in entries {
        bytes.extend_from_slice(&tag.to_le_bytes());
        bytes.extend_from_slice(&perm.to_le_bytes());
        bytes.extend_from_slice(&id.to_le_bytes());
    }
    bytes
}

/// A list that lets a user read and write, within a mask.
fn for_user(mask: u16) -> Vec<u8> {
    let classes = |owner, user, group, mask, others| {
        list(&[
            (1, owner, NOBODY),
            (2, user, 1000),
            (4, group, NOBODY),
            (0x10, mask, NOBODY),
            (0x20, others, NOBODY),
        ])
    };
    classes(7, 6, 5, mask, 0)
}

fn xattr(path: &Path, name: &str) -> Result<Vec<u8>, Errno> {
    let mut buffer = [0; 1 << 16];
    getxattr(path, name, &mut buffer).map(|len| buffer[..len].to_vec())
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("is there").permissions().mode() & 0o7777
}

#[test]
fn renames_with_flags_are_atomic_between_mounts() {
    if !Mount::is_possible() {
        return;
    }
    let cluster = Cluster::start(Options::default());
    let (one, two) = (Mount::new(&cluster, "one"), Mount::new(&cluster, "two"));
    let (at, seen) = (|name: &str| one.point().join(name), |name: &str| two.point().join(name));
    let rename = |from: &str, to: &str, flags| renameat_with(CWD, at(from), CWD, at(to), flags);
    fs::write(at("a"), "of a").expect("writes");
    fs::create_dir_all(at("d/sub")).expect("makes");
    fs::write(seen("of two"), "of the other mount").expect("writes");
    // The kernel of this mount does not know of the other one's file.
    assert_eq!(rename("a", "of two", RenameFlags::NOREPLACE), Err(Errno::EXIST));
    assert_eq!(rename("a", "b", RenameFlags::NOREPLACE), Ok(()));
    assert_eq!(rename("b", "d/none", RenameFlags::EXCHANGE), Err(Errno::NOENT));
    assert_eq!(rename("d", "d/sub", RenameFlags::EXCHANGE), Err(Errno::INVAL));
    assert_eq!(rename("b", "d/sub", RenameFlags::EXCHANGE), Ok(()));
    for root in [one.point(), two.point()] {
        assert_eq!(fs::read_to_string(root.join("d/sub")).expect("a file now"), "of a");
        assert!(fs::metadata(root.join("b")).expect("is there").is_dir());
        assert_eq!(names(root), ["b", "d", "of two"]);
        assert_eq!(fs::metadata(root.join("d")).expect("is there").nlink(), 2);
    }
    fs::remove_dir(seen("b")).expect("it is empty");
    fs::remove_file(at("d/sub")).expect("removes");
    fs::remove_dir(at("d")).expect("it is empty");
}

#[test]
fn a_directory_that_loses_a_subdirectory_counts_one_less() {
    if !Mount::is_possible() {
        return;
    }
    let cluster = Cluster::start(Options::default());
    let mount = Mount::new(&cluster, "m");
    let at = |name: &str| mount.point().join(name);
    fs::create_dir_all(at("from/sub")).expect("makes");
    fs::create_dir(at("to")).expect("makes");
    let links = || [at("from"), at("to")].map(|dir| fs::metadata(dir).expect("is there").nlink());
    assert_eq!(links(), [3, 2]);
    fs::rename(at("from/sub"), at("to/sub")).expect("renames");
    assert_eq!(links(), [2, 3]);
}

#[test]
fn access_lists_follow_modes_and_are_inherited() {
    if !Mount::is_possible() {
        return;
    }
    let cluster = Cluster::start(Options::default());
    let (one, two) = (Mount::new(&cluster, "one"), Mount::new(&cluster, "two"));
    let (at, seen) = (|name: &str| one.point().join(name), |name: &str| two.point().join(name));
    fs::write(at("f"), "text").expect("writes");
    assert_eq!(xattr(&at("f"), ACCESS), Err(Errno::NODATA));
    setxattr(at("f"), ACCESS, &for_user(6), XattrFlags::empty()).expect("sets a list");
    assert_eq!((mode(&at("f")), mode(&seen("f"))), (0o760, 0o760));
    fs::set_permissions(seen("f"), PermissionsExt::from_mode(0o740)).expect("changes the mode");
    assert_eq!(xattr(&at("f"), ACCESS), Ok(for_user(4)), "the mask is the mode's group");
    let plain = list(&[(1, 6, NOBODY), (4, 4, NOBODY), (0x20, 4, NOBODY)]);
    setxattr(at("f"), ACCESS, &plain, XattrFlags::empty()).expect("sets a list");
    assert_eq!((mode(&seen("f")), xattr(&seen("f"), ACCESS)), (0o644, Err(Errno::NODATA)));

    fs::create_dir(at("d")).expect("makes");
    setxattr(at("d"), DEFAULT, &for_user(7), XattrFlags::empty()).expect("sets a list");
    fs::create_dir(seen("d/sub")).expect("makes");
    fs::write(seen("d/sub/f"), "text").expect("writes");
    assert_eq!(xattr(&at("d/sub"), DEFAULT), Ok(for_user(7)));
    assert_eq!(mode(&at("d/sub/f")), 0o660, "no umask");
    let inherited = xattr(&at("d/sub/f"), ACCESS).expect("it has a list");
    assert_eq!(inherited[4..12], list(&[(1, 6, NOBODY)])[4..], "no more than open(2) asks for");
    let mut listed = [0; 1024];
    let len = listxattr(at("d/sub/f"), &mut listed).expect("lists");
    assert_eq!(&listed[..len], format!("{ACCESS}\0").as_bytes());
}

#[test]
fn files_know_when_they_were_born() {
    if !Mount::is_possible() {
        return;
    }
    let cluster = Cluster::start(Options::default());
    let mount = Mount::new(&cluster, "m");
    let file = mount.point().join("f");
    fs::write(&file, "text").expect("writes");
    let born = || statx(CWD, &file, AtFlags::empty(), StatxFlags::BTIME | StatxFlags::BASIC_STATS);
    let first = born().expect("is there");
    if first.stx_mask & StatxFlags::BTIME.bits() == 0 {
        return eprintln!("skipped: this kernel does not ask a FUSE mount for birth times");
    }
    assert!(first.stx_btime.tv_sec > 1_000_000_000);
    fs::write(&file, "other text").expect("writes");
    let second = born().expect("is there");
    assert_eq!(second.stx_btime.tv_sec, first.stx_btime.tv_sec);
    assert_eq!(second.stx_size, 10);
}
