//! Keys by which directory fragments and their entries are known, in memory and in what is stored.

use crate::{Frag, Ino, InodeKey};
use maps::{SnapId, ceph_str_hash_rjenkins};
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;
use stdx::Rng;
use wire::{Decode, DecodeError, Encode, Reader, Sample, Writer};

/// A fragment of a directory. Entries of all snapshots are in the same fragment as the live ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct DirFrag {
    /// The directory.
    pub ino: Ino,
    /// Which part of it.
    pub frag: Frag,
}

impl DirFrag {
    /// All fragments that a directory can have, as a range of keys.
    pub fn all_of(ino: Ino) -> std::ops::RangeInclusive<Self> {
        Self { ino, frag: Frag::WHOLE }..=Self { ino, frag: Frag::MAX }
    }

    /// The only fragment of a directory that is not split.
    pub fn whole(ino: Ino) -> Self {
        Self { ino, frag: Frag::WHOLE }
    }

    /// The directory's live inode.
    pub fn inode(self) -> InodeKey {
        self.ino.head()
    }

    /// True if it is where its directory keeps this name.
    pub fn contains(self, key: &DentryKey) -> bool {
        self.frag.contains(key.hash)
    }

    /// True if a name of a directory is in it.
    pub fn has_name(self, dir: Ino, name: &[u8]) -> bool {
        self.ino == dir && self.frag.contains(ceph_str_hash_rjenkins(name))
    }

    /// True if a fragment is a part of this one, or the same.
    pub fn contains_frag(self, part: Self) -> bool {
        self.ino == part.ino && self.frag.bits() <= part.frag.bits() && self.frag.contains(part.frag.value())
    }

    /// Its 2^`bits` parts, in the order of hashes.
    pub fn parts(self, bits: u32) -> impl Iterator<Item = Self> {
        self.frag.parts(bits).map(move |frag| Self { frag, ..self })
    }

    /// The one of its 2^`bits` parts that holds names of a hash.
    pub fn part_of(self, hash: u32, bits: u32) -> Self {
        Self { frag: self.frag.part_of(hash, bits), ..self }
    }
}

impl fmt::Display for DirFrag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.frag == Frag::WHOLE {
            write!(f, "{}", self.ino)
        } else {
            write!(f, "{}.{}", self.ino, self.frag)
        }
    }
}

impl fmt::Debug for DirFrag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Encode for DirFrag {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.ino);
        w.put(&self.frag);
    }
}

impl Decode for DirFrag {
    const MIN_SIZE: usize = 12;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { ino: r.get()?, frag: r.get()? })
    }
}

impl Sample for DirFrag {
    fn sample(rng: &mut Rng) -> Self {
        Self { ino: Sample::sample(rng), frag: Sample::sample(rng) }
    }
}

/// The key of an entry in its fragment: the name, and the last snapshot that the entry is in.
///
/// Keys sort by the lower 24 bits of the name's hash, then by name, which is the order in which clients page
/// through a directory: a page is one range scan of the omap. The live entry of a name comes first, then its
/// snapshots.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct DentryKey {
    /// Lower 24 bits of the name's hash.
    pub hash: u32,
    /// The name; copies of a key share it.
    pub name: Arc<[u8]>,
    /// [`SnapId::HEAD`] for the live entry, else the last snapshot that the entry is in. Filled by snapshots.
    pub snap: SnapId,
}

impl DentryKey {
    /// The bits of a hash that order a directory.
    pub const HASH_MASK: u32 = 0xff_ffff;

    /// The key of a live entry.
    pub fn new(name: &[u8]) -> Self {
        Self { hash: ceph_str_hash_rjenkins(name) & Self::HASH_MASK, name: name.into(), snap: SnapId::HEAD }
    }

    /// A key that sorts before all entries of `hash`.
    pub fn start_of(hash: u32) -> Self {
        Self { hash, name: Arc::default(), snap: SnapId::HEAD }
    }

    /// True for the live entry of a name.
    pub fn is_head(&self) -> bool {
        self.snap == SnapId::HEAD
    }

    /// The omap key: six hex digits, `_`, the name. The entry of a snapshot adds a zero byte, which no name
    /// has, and the snapshot in 16 hex digits.
    pub fn to_omap(&self) -> Vec<u8> {
        let mut key = format!("{:06x}_", self.hash).into_bytes();
        key.extend_from_slice(&self.name);
        if !self.is_head() {
            key.push(0);
            key.extend_from_slice(format!("{:016x}", self.snap.0).as_bytes());
        }
        key
    }

    /// An omap key that sorts before all entries of `hash`.
    pub fn omap_start_of(hash: u32) -> Vec<u8> {
        format!("{hash:06x}").into_bytes()
    }

    /// Parses an omap key.
    pub fn from_omap(key: &[u8]) -> Option<Self> {
        let hex = |digits: &[u8]| u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
        let (hash, rest) = (key.get(..6)?, key.get(7..)?);
        if key[6] != b'_' {
            return None;
        }
        let (name, snap) = match rest.iter().position(|b| *b == 0) {
            Some(end) if rest.len() - end == 17 => (&rest[..end], SnapId(hex(&rest[end + 1..])?)),
            Some(_) => return None,
            None => (rest, SnapId::HEAD),
        };
        Some(Self { hash: u32::try_from(hex(hash)?).ok()?, name: name.into(), snap })
    }
}

impl Ord for DentryKey {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_name = self.hash.cmp(&other.hash).then_with(|| self.name.cmp(&other.name));
        by_name.then_with(|| (!self.is_head(), self.snap).cmp(&(!other.is_head(), other.snap)))
    }
}

impl PartialOrd for DentryKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for DentryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:06x}_{}", self.hash, self.name.escape_ascii())?;
        if self.is_head() { Ok(()) } else { write!(f, "@{}", self.snap) }
    }
}

impl Encode for DentryKey {
    fn encode(&self, w: &mut Writer) {
        w.count(self.name.len());
        w.raw(&self.name);
        w.put(&(!self.is_head()).then_some(self.snap));
    }
}

impl Decode for DentryKey {
    const MIN_SIZE: usize = 5;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let key = Self::new(&r.get::<Vec<u8>>()?);
        Ok(Self { snap: r.get::<Option<SnapId>>()?.unwrap_or(SnapId::HEAD), ..key })
    }
}

impl Sample for DentryKey {
    fn sample(rng: &mut Rng) -> Self {
        let snap = if rng.chance(1, 4) { SnapId(rng.below(1000)) } else { SnapId::HEAD };
        Self { snap, ..Self::new(&Vec::<u8>::sample(rng)) }
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
        let of_snap = |key: &DentryKey, snap| DentryKey { snap: SnapId(snap), ..key.clone() };
        by_key.extend(by_key.clone().iter().flat_map(|key| [3, 17, 2].map(|snap| of_snap(key, snap))));
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
        assert_eq!(DentryKey::from_omap(b"000001_x\x000000000000000002y"), None);
    }

    #[test]
    fn entries_of_one_hash_sort_by_name() {
        let long = |name: &str| DentryKey { name: name.as_bytes().into(), ..DentryKey::start_of(7) };
        let mut keys = [long("b"), long("a!"), long("a"), long("a_")];
        let mut omap: Vec<_> = keys.iter().map(DentryKey::to_omap).collect();
        keys.sort();
        omap.sort();
        assert_eq!(keys.iter().map(DentryKey::to_omap).collect::<Vec<_>>(), omap);
    }
}
