//! The partition of the name space over ranks, as it is stored: a record for each subtree that has an
//! authority of its own. All else belongs to the authority of the directory above, and the root to rank 0
//! (docs/adr/0021-authority-moves-by-one-write.md).

use crate::sparse::sparse_structs;
use crate::{DirFrag, Ino, InodeData};
use maps::{MdsRank, SnapId};

/// What the keys of what is counted of subtrees begin with.
const BORDER_PREFIX: &str = "border.";
/// What the keys of directories begin with of which other ranks may have replicas.
const REPLICA_PREFIX: &str = "replica.";

wire::wire_structs! {
    /// A directory above a subtree: its inode, and its name in the directory above it.
    pub struct PrefixEntry[v 2/1] {
        /// The fragment that has its name; none for the root of the file system.
        pub dir: Option<DirFrag>,
        /// Its name.
        pub name: Vec<u8>,
        /// Its inode, as it was when the subtree got its authority: what matters below it changes only when
        /// the subtree has come back.
        pub inode: InodeData,
        /// The first snapshot that its entry is in.
        pub first: SnapId = since 2,
    }
}

sparse_structs! {
    /// The authority over a subtree, under the inode number of its root.
    pub struct SubtreeRecord[v 2/1, u8] {
        /// The rank that has the authority.
        pub rank: MdsRank,
        /// The rank that had it before, as long as it has not handed over what clients hold there.
        pub from: Option<MdsRank>,
        /// That rank had stored the root's inode alone, too.
        pub was_alone: bool,
        /// The fragment that has the root's name.
        pub dir: DirFrag,
        /// Its name there.
        pub name: Vec<u8>,
        /// The directories above it, the root of the file system first.
        pub prefix: Vec<PrefixEntry>,
        /// The first snapshot that the root's entry is in.
        pub first: SnapId,
    }
}

impl SubtreeRecord {
    /// True if the subtree is below a directory, or in a shard.
    pub fn is_below(&self, root: Ino) -> bool {
        match root.as_shard() {
            None => self.dir.ino == root || self.prefix.iter().any(|entry| entry.inode.ino == root),
            Some(shard) => self.names().any(|(dir, name)| shard.has_name(dir, name)),
        }
    }

    /// The names that lead to the subtree, each with its directory. A shard itself has none.
    fn names(&self) -> impl Iterator<Item = (Ino, &[u8])> {
        let above = self.prefix.iter().filter_map(|entry| Some((entry.dir?.ino, &*entry.name)));
        above.chain(Some((self.dir.ino, &*self.name)).filter(|(_, name)| !name.is_empty()))
    }
}

/// The omap key of a subtree.
pub fn subtree_key(root: Ino) -> Vec<u8> {
    format!("{:016x}", root.0).into_bytes()
}

/// The omap key under which the partition says what the directory above a subtree counts of it.
pub fn border_key(root: Ino) -> Vec<u8> {
    format!("{BORDER_PREFIX}{:016x}", root.0).into_bytes()
}

/// The root of the subtree that has such a key.
pub fn parse_border_key(key: &[u8]) -> Option<Ino> {
    parse_subtree_key(key.strip_prefix(BORDER_PREFIX.as_bytes())?)
}

/// The omap key under which the partition says that other ranks may have a replica of a directory; the value
/// is the rank that has the authority.
pub fn replica_key(dir: Ino) -> Vec<u8> {
    format!("{REPLICA_PREFIX}{:016x}", dir.0).into_bytes()
}

/// The directory that has such a key.
pub fn parse_replica_key(key: &[u8]) -> Option<Ino> {
    parse_subtree_key(key.strip_prefix(REPLICA_PREFIX.as_bytes())?)
}

/// The root of the subtree that has an omap key.
pub fn parse_subtree_key(key: &[u8]) -> Option<Ino> {
    u64::from_str_radix(std::str::from_utf8(key).ok()?, 16).ok().map(Ino)
}
