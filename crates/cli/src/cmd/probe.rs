//! The content of a device, by the signatures that file systems, partition tables and others leave.

use anyhow::{Context, Result};
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A signature: its offset and bytes, the content that it stands for, the offset and length of the label.
type Mark = (u64, &'static [u8], &'static str, Option<(u64, usize)>);

const STORE: &[u8] = b"NACRESTO";
const LVM: &[u8] = b"LABELONE";
const LUKS: &[u8] = b"LUKS\xba\xbe";
const EXT: &[u8] = &[0x53, 0xef];
const GPT: &[u8] = b"EFI PART";
const RAID: &[u8] = &[0xfc, 0x4e, 0x2b, 0xa9];
const BCACHE: &[u8] =
    &[0xc6, 0x85, 0x73, 0xf6, 0x4e, 0x1a, 0x45, 0xca, 0x82, 0x65, 0xf5, 0x7f, 0x48, 0xba, 0x6d, 0x81];

/// Signatures from the formats' own descriptions; formats that others contain come first.
const MARKS: [Mark; 26] = [
    (0, STORE, "the store of an OSD or monitor", None),
    (0, b"bluestore block device", "a Ceph OSD (BlueStore)", None),
    (0, LUKS, "an encrypted volume (LUKS)", None),
    (3, b"-FVE-FS-", "an encrypted volume (BitLocker)", None),
    (0, LVM, "an LVM physical volume", None),
    (512, LVM, "an LVM physical volume", None),
    (1024, LVM, "an LVM physical volume", None),
    (1536, LVM, "an LVM physical volume", None),
    (0, RAID, "a member of a software RAID", Some((32, 32))),
    (4096, RAID, "a member of a software RAID", Some((4096 + 32, 32))),
    (4096 + 24, BCACHE, "a device of a bcache", Some((4096 + 72, 32))),
    (0, b"XFSB", "an XFS file system", Some((108, 12))),
    (1080, EXT, "an ext2 file system", Some((1144, 16))),
    (65_600, b"_BHRfS_M", "a Btrfs file system", Some((65_835, 256))),
    (1024, &[0x10, 0x20, 0xf5, 0xf2], "an F2FS file system", None),
    (131_072, &[0x0c, 0xb1, 0xba, 0, 0, 0, 0, 0], "a member of a ZFS pool", None),
    (4086, b"SWAPSPACE2", "swap space", Some((1052, 16))),
    (32_769, b"CD001", "an ISO 9660 file system", Some((32_808, 32))),
    (3, b"NTFS    ", "an NTFS file system", None),
    (3, b"EXFAT   ", "an exFAT file system", None),
    (82, b"FAT32", "a FAT file system", Some((71, 11))),
    (54, b"FAT16", "a FAT file system", Some((43, 11))),
    (54, b"FAT12", "a FAT file system", Some((43, 11))),
    (512, GPT, "a partition table (GPT)", None),
    (4096, GPT, "a partition table (GPT)", None),
    (510, &[0x55, 0xaa], "a partition table (MBR)", None),
];

/// The range at the beginning and at the end that is all zeros on an empty device, in bytes.
const LOOKED_AT: u64 = 1 << 20;

/// The file or device that a target names.
pub(crate) fn device_of(target: &Path) -> PathBuf {
    if target.is_dir() { target.join("block") } else { target.to_owned() }
}

/// The size of a file or block device, in bytes.
pub(crate) fn size(mut file: &File) -> Result<u64> {
    Ok(file.seek(SeekFrom::End(0))?)
}

/// The content of a file or device; `None` if it is empty.
pub(crate) fn find(file: &File, path: &Path) -> Result<Option<String>> {
    let size = size(file)?;
    let read = |from: u64, to: u64| {
        let mut bytes = vec![0; (to - from) as usize];
        file.read_exact_at(&mut bytes, from).with_context(|| format!("cannot read {}", path.display()))?;
        anyhow::Ok(bytes)
    };
    let head = read(0, LOOKED_AT.min(size))?;
    if let Some(found) = recognise(&head) {
        return Ok(Some(found));
    }
    let from = LOOKED_AT.max(size.saturating_sub(LOOKED_AT)).min(size);
    Ok(recognise_end(&read(from, size)?, size))
}

/// The owner of the store on a file or device, if there is one.
pub(crate) fn owner(file: &File) -> Option<String> {
    let mut read = |offset: u64, len: usize| {
        let mut bytes = stdx::BufMut::zeroed(len);
        file.read_exact_at(bytes.as_mut_slice(), offset).map_err(|e| e.to_string())?;
        Ok(bytes.freeze())
    };
    let found = store::identify(size(file).ok()?, &mut read)?;
    Some(String::from_utf8_lossy(&found.label).into_owned())
}

/// The error that a device is in use, with its user and the owner of its store.
pub(crate) fn held(path: &Path) -> String {
    let by = runtime::in_use(path);
    match File::open(path).ok().as_ref().and_then(owner) {
        Some(owner) => format!("{by}; it holds the store of {owner}"),
        None => by,
    }
}

fn recognise(head: &[u8]) -> Option<String> {
    let at = |offset: u64, len: usize| head.get(offset as usize..offset as usize + len);
    let label_at = |offset, len| at(offset, len).map(text).filter(|l| !l.is_empty());
    for (offset, mark, what, label) in MARKS {
        if at(offset, mark.len()) != Some(mark) {
            continue;
        }
        let (what, label) = match mark {
            STORE => {
                return Some(
                    owner_of_head(head).map_or(what.to_owned(), |owner| format!("the store of {owner}")),
                );
            }
            LVM => {
                let group = volume_group(head).map(|name| format!("{what} of the group `{name}`"));
                return Some(group.unwrap_or_else(|| what.to_owned()));
            }
            // Only the second version has a label; the field of the first is a cipher.
            LUKS => (what, Some((24, 48)).filter(|_| at(6, 2) == Some(&[0, 2]))),
            EXT => (ext(head), label),
            _ => (what, label),
        };
        let label = label.and_then(|(offset, len)| label_at(offset, len)).filter(|l| l != "NO NAME");
        return Some(label.map_or(what.to_owned(), |label| format!("{what} with the label `{label}`")));
    }
    let first = head.iter().position(|b| *b != 0)?;
    Some(format!("data of an unknown kind, the first at byte {first}"))
}

/// Formats whose only signature is at the end of a device.
fn recognise_end(end: &[u8], size: u64) -> Option<String> {
    let first = end.iter().position(|b| *b != 0)?;
    let at = |offset: u64, mark: &[u8]| {
        let from = offset.checked_sub(size - end.len() as u64).unwrap_or(u64::MAX) as usize;
        from < end.len() && end[from..].starts_with(mark)
    };
    let raid = [(size / 512).saturating_sub(16) / 8 * 8 * 512, (size / 65536 * 65536).saturating_sub(65536)];
    if raid.into_iter().any(|offset| at(offset, RAID)) {
        return Some("a member of a software RAID".to_owned());
    }
    if [512, 4096].into_iter().any(|sector| at(size.saturating_sub(sector), GPT)) {
        return Some("the second copy of a partition table (GPT), at its end".to_owned());
    }
    Some(format!("data of an unknown kind, at byte {}", size - end.len() as u64 + first as u64))
}

/// Printable characters up to the first zero.
fn text(bytes: &[u8]) -> String {
    let bytes = bytes.split(|b| *b == 0).next().unwrap_or_default();
    String::from_utf8_lossy(bytes).trim().chars().filter(|c| !c.is_control()).collect()
}

fn owner_of_head(head: &[u8]) -> Option<String> {
    let mut read = |offset: u64, len: usize| {
        let bytes = head.get(offset as usize..offset as usize + len);
        bytes.map(stdx::Buf::copy_from).ok_or_else(|| "beyond what was read".to_owned())
    };
    let found = store::identify(head.len() as u64, &mut read)?;
    Some(String::from_utf8_lossy(&found.label).into_owned())
}

/// The version of an ext file system, by the features that the younger ones added.
fn ext(head: &[u8]) -> &'static str {
    const JOURNAL: u32 = 4;
    /// Extents, 64 bits, flexible groups.
    const FOURTH: u32 = 0x40 | 0x80 | 0x200;
    let word = |at: usize| head.get(at..at + 4).map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    match (word(1024 + 92) & JOURNAL, word(1024 + 96) & FOURTH) {
        (_, 1..) => "an ext4 file system",
        (1.., 0) => "an ext3 file system",
        (0, 0) => "an ext2 file system",
    }
}

/// The name of an LVM group: the text of its description begins with it.
fn volume_group(head: &[u8]) -> Option<String> {
    const AREA: &[u8] = b" LVM2 x[5A%r0N*>";
    let area = head.windows(AREA.len()).position(|w| w == AREA)?.checked_sub(4)?;
    let start = head.get(area + 40..area + 48)?;
    let at = area.checked_add(usize::try_from(u64::from_le_bytes(start.try_into().ok()?)).ok()?)?;
    let name = head.get(at..at.checked_add(128)?)?.split(|b| *b == b' ').next()?;
    Some(text(name)).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(marks: &[(usize, &[u8])]) -> Vec<u8> {
        let mut head = vec![0; LOOKED_AT as usize];
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
        for (feature, name) in [(0, "ext2"), (0x40, "ext4")] {
            let ext = found(&[(1080, EXT), (1024 + 96, &[feature])]);
            assert_eq!(ext, Some(format!("an {name} file system")));
        }
        assert_eq!(found(&[(1080, EXT), (1024 + 92, &[4])]).as_deref(), Some("an ext3 file system"));
        assert_eq!(
            found(&[(65_600, b"_BHRfS_M"), (65_835, b"pool")]).as_deref(),
            Some("a Btrfs file system with the label `pool`")
        );
        assert_eq!(
            found(&[(82, b"FAT32"), (71, b"NO NAME    "), (510, &[0x55, 0xaa])]).as_deref(),
            Some("a FAT file system")
        );
        assert_eq!(found(&[(510, &[0x55, 0xaa]), (512, GPT)]).as_deref(), Some("a partition table (GPT)"));
        assert_eq!(found(&[(510, &[0x55, 0xaa])]).as_deref(), Some("a partition table (MBR)"));
        assert_eq!(
            found(&[(70_000, b"x")]).as_deref(),
            Some("data of an unknown kind, the first at byte 70000")
        );
        assert_eq!(found(&[(0, STORE)]).as_deref(), Some("the store of an OSD or monitor"));
        // The cipher of an old LUKS volume is no label.
        assert_eq!(
            found(&[(0, b"LUKS\xba\xbe\0\x01"), (24, b"aes")]).as_deref(),
            Some("an encrypted volume (LUKS)")
        );
    }

    #[test]
    fn what_is_only_at_the_end_is_found_too() {
        let size = 256 << 20;
        let end = |at: usize, mark: &[u8]| recognise_end(&with(&[(LOOKED_AT as usize - at, mark)]), size);
        assert_eq!(recognise_end(&with(&[]), size), None);
        assert_eq!(end(512, GPT).as_deref(), Some("the second copy of a partition table (GPT), at its end"));
        assert_eq!(end(8192, RAID).as_deref(), Some("a member of a software RAID"));
        assert_eq!(end(65536, RAID).as_deref(), Some("a member of a software RAID"));
        let unknown = format!("data of an unknown kind, at byte {}", size - 3);
        assert_eq!(end(3, b"x"), Some(unknown));
    }
}
