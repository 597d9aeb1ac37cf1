//! What is on a device: by the marks that file systems, partition tables and others leave, and by what the kernel says.

use anyhow::{Context, Result};
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::Path;

/// A mark: where, which bytes, what it stands for, where its label is and how long that may be.
type Mark = (u64, &'static [u8], &'static str, Option<(u64, usize)>);

/// From the formats' own descriptions; the ones that others contain come first.
const MARKS: [Mark; 16] = [
    (0, b"NACRESTO", "the store of an OSD or monitor", None),
    (0, b"bluestore block device", "a Ceph OSD (BlueStore)", None),
    (0, b"LUKS\xba\xbe", "an encrypted volume (LUKS)", None),
    (512, b"LABELONE", "an LVM physical volume", None),
    (4096, &[0xfc, 0x4e, 0x2b, 0xa9], "a member of a software RAID", None),
    (0, b"XFSB", "an XFS file system", Some((108, 12))),
    (1080, &[0x53, 0xef], "an ext2, ext3 or ext4 file system", Some((1144, 16))),
    (65_600, b"_BHRfS_M", "a Btrfs file system", Some((65_835, 64))),
    (4086, b"SWAPSPACE2", "swap space", Some((1052, 16))),
    (32_769, b"CD001", "an ISO 9660 file system", Some((32_808, 32))),
    (3, b"NTFS    ", "an NTFS file system", None),
    (3, b"EXFAT   ", "an exFAT file system", None),
    (82, b"FAT32", "a FAT file system", Some((71, 11))),
    (54, b"FAT1", "a FAT file system", Some((43, 11))),
    (512, b"EFI PART", "a partition table (GPT)", None),
    (510, &[0x55, 0xaa], "a partition table (MBR)", None),
];

/// So much of the beginning must be zeros for a device to be empty.
const LOOKED_AT: usize = 1 << 20;

/// Bytes of a file or block device.
pub(crate) fn size(mut file: &File) -> Result<u64> {
    Ok(file.seek(SeekFrom::End(0))?)
}

/// What a file or device holds; `None` where it is empty.
pub(crate) fn find(path: &Path) -> Result<Option<String>> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let mut head = vec![0; LOOKED_AT.min(size(&file)? as usize)];
    file.read_exact_at(&mut head, 0).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(recognise(&head))
}

fn recognise(head: &[u8]) -> Option<String> {
    let at = |offset: u64, len: usize| head.get(offset as usize..offset as usize + len);
    for (offset, mark, what, label) in MARKS {
        if at(offset, mark.len()) != Some(mark) {
            continue;
        }
        if mark == b"NACRESTO" {
            return Some(owner_of_store(head).unwrap_or_else(|| what.to_owned()));
        }
        let label = label.and_then(|(offset, len)| at(offset, len)).map(text).filter(|l| !l.is_empty());
        return Some(label.map_or(what.to_owned(), |label| format!("{what} with the label `{label}`")));
    }
    let first = head.iter().position(|b| *b != 0)?;
    Some(format!("data of an unknown kind, the first at byte {first}"))
}

/// Printable characters up to the first zero.
fn text(bytes: &[u8]) -> String {
    let bytes = bytes.split(|b| *b == 0).next().unwrap_or_default();
    String::from_utf8_lossy(bytes).trim().chars().filter(|c| !c.is_control()).collect()
}

fn owner_of_store(head: &[u8]) -> Option<String> {
    let mut read = |offset: u64, len: usize| {
        let bytes = head.get(offset as usize..offset as usize + len);
        bytes.map(stdx::Buf::copy_from).ok_or_else(|| "beyond what was read".to_owned())
    };
    let report = store::inspect(head.len() as u64, store::Depth::Outline, &mut read, &mut |_, _| {}).ok()?;
    let label = String::from_utf8_lossy(&report.identity?.label).into_owned();
    Some(format!("a store: {label}"))
}

/// Whether the kernel uses a block device, or a part of it, and for what.
pub(crate) fn in_use(path: &Path) -> Result<Option<String>> {
    let meta = std::fs::metadata(path)?;
    if !meta.file_type().is_block_device() {
        return Ok(None);
    }
    let number = |device: u64| format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let own = number(meta.rdev());
    let sys = Path::new("/sys/dev/block").join(&own);
    let mut numbers = vec![own];
    for part in std::fs::read_dir(&sys).into_iter().flatten().flatten() {
        if let Ok(number) = std::fs::read_to_string(part.path().join("dev")) {
            numbers.push(number.trim().to_owned());
        }
    }
    for mount in std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default().lines() {
        let fields: Vec<&str> = mount.split(' ').collect();
        if let [_, _, device, _, at, ..] = fields[..]
            && numbers.iter().any(|n| n == device)
        {
            return Ok(Some(format!("is mounted at {at}")));
        }
    }
    let holder = std::fs::read_dir(sys.join("holders")).into_iter().flatten().flatten().next();
    if let Some(holder) = holder {
        return Ok(Some(format!("is in use by {}", holder.file_name().to_string_lossy())));
    }
    if numbers.len() > 1 {
        let parts = numbers.len() - 1;
        return Ok(Some(format!("has {parts} partitions: give one of them, or remove them first")));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(marks: &[(usize, &[u8])]) -> Vec<u8> {
        let mut head = vec![0; LOOKED_AT];
        for (at, bytes) in marks {
            head[*at..*at + bytes.len()].copy_from_slice(bytes);
        }
        head
    }

    #[test]
    fn what_is_there_is_named_with_its_label() {
        let found = |marks: &[(usize, &[u8])]| recognise(&with(marks));
        assert_eq!(found(&[]), None);
        assert_eq!(
            found(&[(0, b"XFSB"), (108, b"backup")]).as_deref(),
            Some("an XFS file system with the label `backup`")
        );
        assert_eq!(found(&[(1080, &[0x53, 0xef])]).as_deref(), Some("an ext2, ext3 or ext4 file system"));
        assert_eq!(
            found(&[(510, &[0x55, 0xaa]), (512, b"EFI PART")]).as_deref(),
            Some("a partition table (GPT)")
        );
        assert_eq!(
            found(&[(70_000, b"x")]).as_deref(),
            Some("data of an unknown kind, the first at byte 70000")
        );
        assert_eq!(found(&[(0, b"NACRESTO")]).as_deref(), Some("the store of an OSD or monitor"));
    }
}
