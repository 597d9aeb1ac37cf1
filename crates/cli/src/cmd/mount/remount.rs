//! `mount -o remount,…`: what may be done in a mount is changed, which only Linux has to know. Whatever else
//! a mount is, such as its source, stays as it is.

use super::options::Options;
use rustix::mount::MountFlags;
use std::path::Path;

/// True if options of mount(8) ask for a change of a mount that exists.
pub(super) fn is_asked(options: &[String]) -> bool {
    items(options).any(|item| item == "remount")
}

/// Changes a mount. Linux refuses `ro` with EBUSY while a file is open for writing.
pub(super) fn remount(point: &Path, options: &[String]) -> Result<(), String> {
    rustix::mount::mount_remount(point, flags(options)?, "")
        .map_err(|errno| format!("cannot change {}: {errno}", point.display()))
}

fn items(options: &[String]) -> impl Iterator<Item = &str> {
    options.iter().flat_map(|text| text.split(',')).map(str::trim)
}

/// The flags that are to be set. mount(8) hands on all options that the mount has, with some of Linux's own.
fn flags(options: &[String]) -> Result<MountFlags, String> {
    let mut taken = Options::default();
    for item in items(options).filter(|item| *item != "remount") {
        taken.take(item, true)?;
    }
    let fuse::Flags { read_only, allow_other: _, suid, dev, exec, sync, dirsync } = taken.flags;
    let wanted = [
        (read_only, MountFlags::RDONLY),
        (!suid, MountFlags::NOSUID),
        (!dev, MountFlags::NODEV),
        (!exec, MountFlags::NOEXEC),
        (sync, MountFlags::SYNCHRONOUS),
        (dirsync, MountFlags::DIRSYNC),
    ];
    Ok(wanted.into_iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(options: &str) -> MountFlags {
        flags(&[options.to_owned()]).expect("options")
    }

    #[test]
    fn the_last_of_the_options_counts_and_those_of_linux_are_known() {
        assert!(is_asked(&["ro".to_owned(), "nosuid,remount".to_owned()]));
        assert!(!is_asked(&["ro,x-remount".to_owned()]));
        assert_eq!(of("remount"), MountFlags::empty());
        let all = "rw,noatime,user_id=0,group_id=0,default_permissions,allow_other,x-nacre,nosuid,remount,ro";
        assert_eq!(of(all), MountFlags::RDONLY | MountFlags::NOSUID);
        assert_eq!(of("ro,sync,dirsync,noexec,nodev,remount,rw"), {
            MountFlags::SYNCHRONOUS | MountFlags::DIRSYNC | MountFlags::NOEXEC | MountFlags::NODEV
        });
    }
}
