//! Directory entries and the header of a directory fragment.

use crate::{Ino, InodeData};
use maps::ceph_str_hash_rjenkins;
use stdx::Rng;
use wire::{Decode, DecodeError, Encode, Reader, Sample, Writer};

/// The order of entries in a fragment: by the lower 24 bits of the name's hash, then by name. That is the order in
/// which clients page through a directory, so that a page is one range scan of the omap.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct DentryKey {
    /// Lower 24 bits of the name's hash.
    pub hash: u32,
    /// The name.
    pub name: Vec<u8>,
}

impl DentryKey {
    /// The bits of a hash that order a directory.
    pub const HASH_MASK: u32 = 0xff_ffff;

    /// The key of a name.
    pub fn new(name: &[u8]) -> Self {
        Self { hash: ceph_str_hash_rjenkins(name) & Self::HASH_MASK, name: name.to_vec() }
    }

    /// The omap key: six hex digits, `_`, the name. Snapshots of the entry add a zero byte, which no name has, and
    /// the last snapshot in 16 hex digits.
    pub fn to_omap(&self) -> Vec<u8> {
        let mut key = format!("{:06x}_", self.hash).into_bytes();
        key.extend_from_slice(&self.name);
        key
    }

    /// An omap key that lies just before all entries of `hash`.
    pub fn omap_start_of(hash: u32) -> Vec<u8> {
        format!("{hash:06x}").into_bytes()
    }

    /// Parses an omap key of a head entry; `None` for anything else.
    pub fn from_omap(key: &[u8]) -> Option<Self> {
        let (hash, name) = (key.get(..6)?, key.get(7..)?);
        let hash = u32::from_str_radix(std::str::from_utf8(hash).ok()?, 16).ok()?;
        (key[6] == b'_' && !name.contains(&0)).then(|| Self { hash, name: name.to_vec() })
    }
}

impl Encode for DentryKey {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.name);
    }
}

impl Decode for DentryKey {
    const MIN_SIZE: usize = 4;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self::new(&r.get::<Vec<u8>>()?))
    }
}

impl Sample for DentryKey {
    fn sample(rng: &mut Rng) -> Self {
        Self::new(&Vec::<u8>::sample(rng))
    }
}

/// What a name leads to.
#[derive(Clone, PartialEq, Debug)]
pub enum Link {
    /// The inode itself is here.
    Primary(Box<InodeData>),
    /// A further hard link: the inode is where the inode index says.
    Remote {
        /// Its number.
        ino: Ino,
        /// Its type, DT_REG and so on.
        dtype: u8,
    },
}

impl Link {
    const PRIMARY: u8 = 1;
    const REMOTE: u8 = 2;

    /// The inode's number.
    pub fn ino(&self) -> Ino {
        match self {
            Self::Primary(inode) => inode.ino,
            Self::Remote { ino, .. } => *ino,
        }
    }
}

impl Default for Link {
    fn default() -> Self {
        Self::Remote { ino: Ino(0), dtype: 0 }
    }
}

impl Encode for Link {
    fn encode(&self, w: &mut Writer) {
        match self {
            Self::Primary(inode) => {
                w.put(&Self::PRIMARY);
                w.put(&**inode);
            }
            Self::Remote { ino, dtype } => {
                w.put(&Self::REMOTE);
                w.put(ino);
                w.put(dtype);
            }
        }
    }
}

impl Decode for Link {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match r.get::<u8>()? {
            Self::PRIMARY => Ok(Self::Primary(r.get()?)),
            Self::REMOTE => Ok(Self::Remote { ino: r.get()?, dtype: r.get()? }),
            other => Err(r.error(format!("link kind {other}"))),
        }
    }
}

impl Sample for Link {
    fn sample(rng: &mut Rng) -> Self {
        if rng.chance(1, 2) {
            Self::Primary(Sample::sample(rng))
        } else {
            Self::Remote { ino: Sample::sample(rng), dtype: Sample::sample(rng) }
        }
    }
}

wire::wire_structs! {
    /// A directory entry: the value under its key.
    pub struct Dentry[v 1/1] {
        /// The first snapshot that it is in; 2 for a life before any.
        pub first: u64,
        /// The last one; `u64::MAX - 1` (head) while it lives.
        pub last: u64,
        /// What it leads to.
        pub link: Link,
    }

    /// The omap header of a directory fragment.
    pub struct Fnode[v 1/1] {
        /// Increases with each commit.
        pub version: u64,
        /// The journal's last event that this commit contains.
        pub event: u64,
    }
}

impl Dentry {
    /// A live entry.
    pub fn head(link: Link) -> Self {
        Self { first: 2, last: u64::MAX - 1, link }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn omap_keys_sort_as_directories_page() {
        let mut names: Vec<Vec<u8>> = (0..500u32).map(|i| format!("f{i}").into_bytes()).collect();
        names.extend([b"a".to_vec(), b"a!".to_vec(), b"a_head".to_vec(), vec![0xff, 0xfe]]);
        let mut by_key: Vec<DentryKey> = names.iter().map(|n| DentryKey::new(n)).collect();
        let mut by_omap = by_key.clone();
        by_key.sort();
        by_omap.sort_by_key(DentryKey::to_omap);
        assert_eq!(by_key, by_omap);
        for key in by_key {
            assert_eq!(DentryKey::from_omap(&key.to_omap()), Some(key.clone()));
            assert!(DentryKey::omap_start_of(key.hash) < key.to_omap());
        }
        assert_eq!(DentryKey::from_omap(b"00001_x"), None);
        assert_eq!(DentryKey::from_omap(b"000001_x\x00000000000000002"), None);
    }

    #[test]
    fn entries_of_one_hash_sort_by_name() {
        let long = |name: &str| DentryKey { hash: 7, name: name.as_bytes().to_vec() };
        let mut keys = [long("b"), long("a!"), long("a"), long("a_")];
        let mut omap: Vec<_> = keys.iter().map(DentryKey::to_omap).collect();
        keys.sort();
        omap.sort();
        assert_eq!(keys.iter().map(DentryKey::to_omap).collect::<Vec<_>>(), omap);
    }
}
