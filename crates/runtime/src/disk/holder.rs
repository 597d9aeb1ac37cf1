//! The holder of a device: another process, or the kernel for a mount, swap, or a volume above it.

use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A text that the device is in use, and by whom, as far as this user may know.
pub fn in_use(path: &Path) -> String {
    let shown = path.display();
    match lock_owner(path).or_else(|| opener(path)) {
        Some(pid) if !lives(pid) => {
            format!("{shown} is in use by process {pid}, which has ended but has not let go of it")
        }
        Some(pid) => match command(pid) {
            Some(line) => format!("{shown} is in use by process {pid} (`{line}`)"),
            None => format!("{shown} is in use by process {pid}"),
        },
        None => match kernel_use(path) {
            Some(what) => format!("{shown} {what}"),
            None => format!("{shown} is in use by another process"),
        },
    }
}

/// True if a device will stay in use: by a living process, or by the kernel.
pub(super) fn is_kept(path: &Path) -> bool {
    match lock_owner(path).or_else(|| opener(path)) {
        Some(pid) => lives(pid),
        None => kernel_use(path).is_some(),
    }
}

/// The kernel's use of a device, of a part of it, or of the disk that it is a part of: `is mounted at /mnt`.
/// `None` without one. For a file: swap space, or the file behind a loop device.
pub fn kernel_use(path: &Path) -> Option<String> {
    let meta = std::fs::metadata(path).ok()?;
    let kin = Kin::of(&meta);
    kin.iter()
        .find_map(mounted)
        .or_else(|| swap(&meta, &kin))
        .or_else(|| kin.iter().find_map(holder))
        .or_else(|| {
            let (name, _) = loops().into_iter().find(|(_, file)| is_same(file, &meta))?;
            Some(format!("is what /dev/{name} shows"))
        })
}

/// The names of the partitions that the kernel knows of a disk.
pub fn partitions(path: &Path) -> Vec<String> {
    let kin = std::fs::metadata(path).map(|meta| Kin::of(&meta)).unwrap_or_default();
    kin.into_iter().filter(|k| k.relation == Relation::Part).map(|k| k.name).collect()
}

/// Lets the kernel read a disk's partition table again.
pub fn forget_partitions(disk: &std::fs::File) -> std::io::Result<()> {
    use std::os::fd::AsRawFd;
    const BLKRRPART: libc::c_ulong = 0x125f;
    // SAFETY: the call takes no argument; the descriptor is open.
    match unsafe { libc::ioctl(disk.as_raw_fd(), BLKRRPART as _) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Relation {
    Itself,
    Part,
    Whole,
}

/// A block device that shares space with the one that is asked for.
struct Kin {
    relation: Relation,
    rdev: u64,
    name: String,
    sys: PathBuf,
}

impl Kin {
    fn of(meta: &Metadata) -> Vec<Self> {
        if !meta.file_type().is_block_device() {
            return Vec::new();
        }
        let number = |rdev| format!("{}:{}", rustix::fs::major(rdev), rustix::fs::minor(rdev));
        let link = Path::new("/sys/dev/block").join(number(meta.rdev()));
        let Ok(sys) = std::fs::canonicalize(link) else { return Vec::new() };
        let mut found = vec![(Relation::Itself, sys.clone())];
        let below = std::fs::read_dir(&sys).into_iter().flatten().flatten().map(|entry| entry.path());
        found.extend(below.filter(|dir| dir.join("partition").exists()).map(|dir| (Relation::Part, dir)));
        if sys.join("partition").exists()
            && let Some(whole) = sys.parent()
        {
            found.push((Relation::Whole, whole.to_owned()));
        }
        let kin = |(relation, sys): (Relation, PathBuf)| {
            let text = std::fs::read_to_string(sys.join("dev")).ok()?;
            let (major, minor) = text.trim().split_once(':')?;
            let rdev = rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?);
            Some(Self { relation, rdev, name: sys.file_name()?.to_str()?.to_owned(), sys })
        };
        let mut out: Vec<Self> = found.into_iter().filter_map(kin).collect();
        out.sort_by(|a, b| (a.relation as u8, &a.name).cmp(&(b.relation as u8, &b.name)));
        out
    }

    /// Applies `what` to the name of the device that was asked for.
    fn says(&self, what: &str) -> String {
        match self.relation {
            Relation::Itself => what.to_owned(),
            Relation::Part => format!("has the partition {}, which {what}", self.name),
            Relation::Whole => format!("is a part of {}, which {what}", self.name),
        }
    }
}

fn mounted(kin: &Kin) -> Option<String> {
    let table = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let number = format!("{}:{}", rustix::fs::major(kin.rdev), rustix::fs::minor(kin.rdev));
    table.lines().find_map(|line| {
        // 36 35 98:0 /root /mnt rw,noatime shared:1 - ext3 /dev/sda1 rw; some file systems give a number that
        // is no device's.
        let (before, after) = line.split_once(" - ")?;
        let fields: Vec<&str> = before.split(' ').collect();
        let source = || after.split(' ').nth(1).map(unescaped).filter(|s| s.starts_with('/'));
        let by_source = || {
            let meta = std::fs::metadata(source()?).ok()?;
            (meta.file_type().is_block_device() && meta.rdev() == kin.rdev).then_some(())
        };
        if *fields.get(2)? != number {
            by_source()?;
        }
        Some(kin.says(&format!("is mounted at {}", unescaped(fields.get(4)?))))
    })
}

/// The kernel writes white space in its tables as octal numbers.
fn unescaped(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .into_iter()
        .fold(text.to_owned(), |text, (code, plain)| text.replace(code, plain))
}

fn swap(meta: &Metadata, kin: &[Kin]) -> Option<String> {
    let table = std::fs::read_to_string("/proc/swaps").ok()?;
    table.lines().skip(1).find_map(|line| {
        let found = std::fs::metadata(unescaped(line.split_whitespace().next()?)).ok()?;
        if found.file_type().is_block_device() {
            return kin.iter().find(|k| k.rdev == found.rdev()).map(|k| k.says("is swap space in use"));
        }
        (found.dev() == meta.dev() && found.ino() == meta.ino()).then(|| "is swap space in use".to_owned())
    })
}

/// A volume, RAID or encrypted device above it.
fn holder(kin: &Kin) -> Option<String> {
    let entry = std::fs::read_dir(kin.sys.join("holders")).ok()?.flatten().next()?;
    let name = entry.file_name().to_string_lossy().into_owned();
    let known = std::fs::read_to_string(entry.path().join("dm/name")).ok();
    let known = known.map_or(String::new(), |n| format!(" ({})", n.trim()));
    Some(kin.says(&format!("is in use by {name}{known}")))
}

/// Loop devices, and what they show.
fn loops() -> Vec<(String, PathBuf)> {
    let blocks = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let backed = |entry: std::fs::DirEntry| {
        let file = std::fs::read_to_string(entry.path().join("loop/backing_file")).ok()?;
        Some((entry.file_name().to_string_lossy().into_owned(), PathBuf::from(file.trim_end_matches('\n'))))
    };
    blocks.filter_map(backed).collect()
}

fn is_same(path: &Path, meta: &Metadata) -> bool {
    let Ok(found) = std::fs::metadata(path) else { return false };
    if meta.file_type().is_block_device() && found.file_type().is_block_device() {
        return found.rdev() == meta.rdev();
    }
    (found.dev(), found.ino()) == (meta.dev(), meta.ino())
}

/// The process that holds a lock on a file, as the host lists them.
fn lock_owner(path: &Path) -> Option<u32> {
    let meta = std::fs::metadata(path).ok()?;
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    let device = format!("{:02x}:{:02x}", rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()));
    let of_inode = locks.lines().filter_map(|line| {
        // 1: FLOCK  ADVISORY  WRITE 12345 fd:01:678 0 EOF
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, _, pid, file, ..] = fields[..] else { return None };
        let (on, inode) = file.rsplit_once(':')?;
        let pid: u32 = pid.parse().ok()?;
        (pid > 0 && inode.parse() == Ok(meta.ino())).then_some((on == device, pid))
    });
    // Some file systems list another number than the one that programs see.
    of_inode.max_by_key(|(exact, _)| *exact).map(|(_, pid)| pid)
}

/// Another process that has a block device open, as far as this user may know.
fn opener(path: &Path) -> Option<u32> {
    let meta = std::fs::metadata(path).ok().filter(|m| m.file_type().is_block_device())?;
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    numbers.filter(|pid| *pid != std::process::id()).find(|pid| {
        let open = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        open.filter_map(|fd| std::fs::metadata(fd.path()).ok())
            .any(|found| found.file_type().is_block_device() && found.rdev() == meta.rdev())
    })
}

/// True if a process exists and is not exiting.
fn lives(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| runs(&stat))
}

/// The same, from the content of its `stat` file.
fn runs(stat: &str) -> bool {
    const ENDING: u32 = 0x4;
    // 12345 (name of any kind) S 1 12345 12345 0 -1 4194560 …: the state, and as sixth after it the flags.
    let Some((_, fields)) = stat.rsplit_once(')') else { return false };
    let mut fields = fields.split_whitespace();
    let state = fields.next();
    let flags = fields.nth(5).and_then(|flags| flags.parse::<u32>().ok());
    !matches!(state, None | Some("Z" | "X")) && flags.is_none_or(|flags| flags & ENDING == 0)
}

/// The command line of a process.
fn command(pid: u32) -> Option<String> {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let mut words: Vec<&str> = text.split('\0').filter(|word| !word.is_empty()).collect();
    let program = words.first_mut()?;
    *program = program.rsplit('/').next().unwrap_or(program);
    Some(words.join(" ").chars().filter(|c| !c.is_control()).take(200).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_in_the_kernels_tables_is_read() {
        assert_eq!(unescaped("/mnt/a\\040b\\134040"), "/mnt/a b\\040");
    }

    #[test]
    fn who_is_gone_or_about_to_go_does_not_live() {
        let stat = |state: &str, flags: u32| format!("77 (a (b) Z) {state} 1 77 77 0 -1 {flags} 0 0 0\n");
        assert!(runs(&stat("S", 0x400140)) && runs(&stat("D", 0)) && runs(&stat("T", 0)));
        assert!(!runs(&stat("Z", 0x400140)) && !runs(&stat("X", 0)), "dead");
        assert!(!runs(&stat("R", 0x40014c)), "it is closing what it had open");
        assert!(!runs(""));
        assert!(lives(std::process::id()) && !lives(u32::MAX));
    }

    #[test]
    fn what_is_mounted_is_named_with_the_place() {
        let table = std::fs::read_to_string("/proc/self/mountinfo").expect("a table of mounts");
        let of_devices = table.lines().filter_map(|line| line.split_once(" - ")?.1.split(' ').nth(1));
        for device in
            of_devices.filter(|d| std::fs::metadata(d).is_ok_and(|m| m.file_type().is_block_device()))
        {
            let found = kernel_use(Path::new(device)).expect("it is mounted");
            assert!(found.contains("is mounted at /"), "{device}: {found}");
        }
        let file = tempfile::NamedTempFile::new().expect("a file");
        assert_eq!(kernel_use(file.path()), None);
    }
}
