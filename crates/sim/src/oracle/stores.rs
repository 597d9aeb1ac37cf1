//! Checker `stores_sound`: on the disk of every store, every page and every block of data has its recorded
//! checksum, and exactly the referenced blocks are allocated: nothing is lost and nothing leaks, however
//! often the process was killed or its machine lost its power (docs/design.md, "The object store").

use crate::disk::SimDisk;
use store::Depth;

/// Checks the disks of stopped nodes.
pub fn check(disks: &[(String, SimDisk)]) -> Result<(), String> {
    for (name, disk) in disks {
        let mut read = |offset: u64, len: usize| match offset + len as u64 <= disk.size {
            true => Ok(disk.read(offset, len)),
            false => Err(format!("{len} bytes at {offset} of {}", disk.size)),
        };
        let report = store::inspect(disk.size, Depth::Data, &mut read, &mut |_, _| ())?;
        if let Some(first) = report.damage.first() {
            return Err(format!("{name}: {first}; {} findings", report.damage.len()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_without_a_store_is_a_finding() {
        let blank = SimDisk::new(1 << 20);
        let why = check(&[("osd.0".to_owned(), blank)]).expect_err("there is no store");
        assert!(why.starts_with("osd.0: "), "{why}");
    }
}
