//! Names of the metadata pool's objects.

use crate::{DirFrag, Ino};

/// A directory fragment: inode and fragment in hex.
pub fn dir_object(dir: DirFrag) -> String {
    format!("{:x}.{}", dir.ino.0, dir.frag)
}

/// An inode that is stored alone.
pub fn base_object(ino: Ino) -> String {
    format!("{:x}.00000000.inode", ino.0)
}

/// A file's data object, in the pool of its layout.
pub fn data_object(ino: Ino, number: u64) -> String {
    format!("{:x}.{number:08x}", ino.0)
}

/// The objects of a rank's journal; number 0 is its header.
pub fn journal_object(rank: u32, number: u64) -> String {
    format!("{:x}.{number:08x}", 0x200 + rank)
}

/// The sessions of a rank.
pub fn session_table(rank: u32) -> String {
    format!("mds{rank}_sessionmap")
}

/// The inode numbers of a rank.
pub fn ino_table(rank: u32) -> String {
    format!("mds{rank}_inotable")
}

/// The partition: the subtrees that have an authority of their own, with a record of each.
pub fn partition() -> String {
    "mds_partition".to_owned()
}

/// Prepared transactions of a rank that its journal holds no more. Used by operations over several ranks.
pub fn prepared_table(rank: u32) -> String {
    format!("mds{rank}_prepared")
}

/// Packs of small files that a rank fills. Used by packed small files.
pub fn pack_table(rank: u32) -> String {
    format!("mds{rank}_packs")
}

/// A pack of small files, in the pool of its record.
pub fn pack_object(pack: u64) -> String {
    format!("pack.{pack:016x}")
}

/// The table of snapshots. Used by snapshots.
pub fn snap_table() -> String {
    "mds_snaptable".to_owned()
}

/// Inodes that share one object of the inode index.
pub const INDEX_SPAN: u64 = 1 << 12;

/// The object of the inode index that has the place of `ino`: its omap has a back pointer for each inode.
pub fn index_object(ino: Ino) -> String {
    format!("inoindex.{:x}", ino.0 / INDEX_SPAN)
}

/// The key of `ino` in its object of the inode index.
pub fn index_key(ino: Ino) -> Vec<u8> {
    format!("{:016x}", ino.0).into_bytes()
}
