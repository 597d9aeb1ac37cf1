//! POSIX access control lists, as xattrs in the kernel's form. The kernel enforces them; here they are kept
//! in step with modes, and inherited.

use crate::mode::PERMISSIONS;
use std::collections::BTreeMap;
use wire::{Errno, Reader, Writer};

/// The list that rules the access to an inode.
pub(crate) const ACCESS: &[u8] = b"system.posix_acl_access";
/// The list that new entries of a directory inherit.
pub(crate) const DEFAULT: &[u8] = b"system.posix_acl_default";

const VERSION: u32 = 2;
/// The most entries: as many as fit into an xattr.
const MAX_ENTRIES: usize = (64 << 10) / 8;

const USER_OBJ: u16 = 1;
const USER: u16 = 2;
const GROUP_OBJ: u16 = 4;
const GROUP: u16 = 8;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

/// What somebody may do: bits of `rwx`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry {
    /// Who: the owner, a named user, …
    tag: u16,
    /// Bits of `rwx`.
    perm: u16,
    /// Number of a named user or group.
    id: u32,
}

/// A list. Invariant: it has exactly one entry for the owner, the group and the others each, and a mask if it
/// names somebody; entries are in the order of their tags.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Acl {
    entries: Vec<Entry>,
}

impl Acl {
    /// The list in an xattr's value.
    pub(crate) fn decode(value: &[u8]) -> Result<Self, Errno> {
        let mut r = Reader::new(value);
        let version: u32 = r.get().map_err(|_| Errno::EINVAL)?;
        if version != VERSION {
            return Err(Errno::EOPNOTSUPP);
        }
        let count = r.remaining() / 8;
        if !r.remaining().is_multiple_of(8) || count > MAX_ENTRIES {
            return Err(Errno::EINVAL);
        }
        let mut entries = Vec::with_capacity(count);
        for _ in 0..count {
            let mut field = || Ok::<_, wire::DecodeError>((r.get()?, r.get()?, r.get()?));
            let (tag, perm, id) = field().map_err(|_| Errno::EINVAL)?;
            entries.push(Entry { tag, perm, id });
        }
        let acl = Self { entries };
        if acl.is_valid() { Ok(acl) } else { Err(Errno::EINVAL) }
    }

    fn is_valid(&self) -> bool {
        let count = |tag| self.entries.iter().filter(|entry| entry.tag == tag).count();
        let names = count(USER) + count(GROUP);
        let known = [USER_OBJ, USER, GROUP_OBJ, GROUP, MASK, OTHER];
        self.entries.is_sorted_by_key(|entry| entry.tag)
            && self.entries.iter().all(|entry| entry.perm <= 7 && known.contains(&entry.tag))
            && [USER_OBJ, GROUP_OBJ, OTHER].iter().all(|tag| count(*tag) == 1)
            && (count(MASK) == 1 || names == 0 && count(MASK) == 0)
    }

    /// The value of an xattr.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.put(&VERSION);
        for Entry { tag, perm, id } in &self.entries {
            w.put(tag);
            w.put(perm);
            w.put(id);
        }
        w.into_vec()
    }

    /// True if a mode says the same.
    pub(crate) fn is_minimal(&self) -> bool {
        self.entries.len() == 3
    }

    fn perm(&self, tag: u16) -> Option<u16> {
        self.entries.iter().find(|entry| entry.tag == tag).map(|entry| entry.perm)
    }

    /// The permission bits of the mode: those of the group class are the mask, if there is one.
    pub(crate) fn mode(&self) -> u32 {
        let group = self.perm(MASK).or_else(|| self.perm(GROUP_OBJ));
        let bits = |perm: Option<u16>| u32::from(perm.unwrap_or(0));
        bits(self.perm(USER_OBJ)) << 6 | bits(group) << 3 | bits(self.perm(OTHER))
    }

    /// The list after a chmod.
    pub(crate) fn with_mode(&self, mode: u32) -> Self {
        let group = if self.perm(MASK).is_some() { MASK } else { GROUP_OBJ };
        let mut acl = self.clone();
        for entry in &mut acl.entries {
            match entry.tag {
                USER_OBJ => entry.perm = (mode >> 6 & 7) as u16,
                OTHER => entry.perm = (mode & 7) as u16,
                tag if tag == group => entry.perm = (mode >> 3 & 7) as u16,
                _ => {}
            }
        }
        acl
    }

    /// What an inode inherits that is made with `mode` in a directory with this default list: its list, and
    /// its mode.
    pub(crate) fn inherited(&self, mode: u32) -> (Self, u32) {
        let allowed = self.mode() & mode & PERMISSIONS;
        (self.with_mode(allowed), mode & !PERMISSIONS | allowed)
    }
}

/// The mode and the encoded xattrs of an inode that is made in a directory with this default list.
pub(crate) fn of_new(default: Option<&[u8]>, mode: u32, umask: u32, is_dir: bool) -> (u32, Vec<u8>) {
    let Some((value, default)) = default.and_then(|value| Some((value, Acl::decode(value).ok()?))) else {
        return (mode & !umask, Vec::new());
    };
    let (acl, mode) = default.inherited(mode);
    let mut xattrs = BTreeMap::new();
    if !acl.is_minimal() {
        xattrs.insert(ACCESS.to_vec(), acl.encode());
    }
    if is_dir {
        xattrs.insert(DEFAULT.to_vec(), value.to_vec());
    }
    (mode, if xattrs.is_empty() { Vec::new() } else { Writer::encode(&xattrs) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acl(entries: &[(u16, u16, u32)]) -> Acl {
        let entries =
            entries.iter().map(|(tag, perm, id)| Entry { tag: *tag, perm: *perm, id: *id }).collect();
        Acl { entries }
    }

    fn full() -> Acl {
        let none = u32::MAX;
        acl(&[
            (USER_OBJ, 7, none),
            (USER, 6, 1000),
            (GROUP_OBJ, 5, none),
            (GROUP, 7, 100),
            (MASK, 6, none),
            (OTHER, 1, none),
        ])
    }

    #[test]
    fn a_list_is_read_as_it_is_written() {
        let value = full().encode();
        assert_eq!(value.len(), 4 + 6 * 8);
        assert_eq!(Acl::decode(&value), Ok(full()));
        for len in 0..value.len() {
            assert!(Acl::decode(&value[..len]).is_err(), "{len}");
        }
        let mut other = value.clone();
        other[0] = 1;
        assert_eq!(Acl::decode(&other), Err(Errno::EOPNOTSUPP));
        for bad in [
            acl(&[(USER_OBJ, 7, 0), (GROUP_OBJ, 5, 0)]),
            acl(&[(GROUP_OBJ, 5, 0), (USER_OBJ, 7, 0), (OTHER, 0, 0)]),
            acl(&[(USER_OBJ, 7, 0), (USER, 6, 1), (GROUP_OBJ, 5, 0), (OTHER, 0, 0)]),
            acl(&[(USER_OBJ, 8, 0), (GROUP_OBJ, 5, 0), (OTHER, 0, 0)]),
        ] {
            assert_eq!(Acl::decode(&bad.encode()), Err(Errno::EINVAL), "{bad:?}");
        }
    }

    #[test]
    fn the_mask_is_the_group_class_of_the_mode() {
        assert_eq!(full().mode(), 0o761);
        let after = full().with_mode(0o640);
        assert_eq!((after.mode(), after.perm(GROUP_OBJ), after.perm(MASK)), (0o640, Some(5), Some(4)));
        let minimal = acl(&[(USER_OBJ, 7, 0), (GROUP_OBJ, 5, 0), (OTHER, 0, 0)]);
        assert!(minimal.is_minimal() && !full().is_minimal());
        assert_eq!(minimal.with_mode(0o604).mode(), 0o604);
    }

    #[test]
    fn what_is_made_gets_no_more_than_its_maker_asks_for() {
        let (list, mode) = full().inherited(0o100_644);
        assert_eq!((list.mode(), mode), (0o640, 0o100_640));
        assert_eq!((list.perm(USER), list.perm(GROUP_OBJ)), (Some(6), Some(5)), "the mask limits them");
        assert_eq!(of_new(None, 0o100_666, 0o022, false), (0o100_644, Vec::new()));
        assert_eq!(of_new(Some(b"no list"), 0o777, 0o022, true), (0o755, Vec::new()));
        let (mode, xattrs) = of_new(Some(&full().encode()), 0o40_777, 0o077, true);
        let xattrs: BTreeMap<Vec<u8>, Vec<u8>> = Reader::new(&xattrs).get().expect("a map");
        assert_eq!((mode, xattrs.len(), &xattrs[DEFAULT]), (0o40_761, 2, &full().encode()));
        let plain = acl(&[(USER_OBJ, 7, 0), (GROUP_OBJ, 5, 0), (OTHER, 0, 0)]).encode();
        assert_eq!(of_new(Some(&plain), 0o666, 0, false), (0o640, Vec::new()), "the mode says it all");
    }
}
