//! The names under which the kernel knows directories: it has one for each.
//!
//! Another client may move a directory. The kernel, which finds it under its new name then, moves it too,
//! unless the lookup is a part of rename(2) between two directories: that one holds the lock that this would
//! need, and fails with ESTALE, again and again, until somebody looks at the old name. So the old name is
//! dropped before a lookup is answered with a directory that the kernel has elsewhere.

use client::{Answer, FsRequest, Ino, Reply};
use std::collections::BTreeMap;

/// A directory and a name in it.
pub(crate) type Place = (Ino, Vec<u8>);

/// `RENAME_EXCHANGE` of renameat2(2).
const EXCHANGE: u32 = 2;

/// What a request says about names, if it succeeds.
#[derive(Debug)]
pub(crate) enum Naming {
    /// A name leads to what its answer tells, if anything.
    Leads(Place),
    /// A name is gone.
    Removed(Place),
    /// A name is another one now, or both are the other.
    Renamed { from: Place, to: Place, exchange: bool },
}

impl Naming {
    /// What a request says about names, if anything.
    pub(crate) fn of(request: &FsRequest) -> Option<Self> {
        match request {
            FsRequest::Lookup { parent, name } | FsRequest::Mkdir { parent, name, .. } => {
                Some(Self::Leads((*parent, name.clone())))
            }
            FsRequest::Rmdir { parent, name } => Some(Self::Removed((*parent, name.clone()))),
            FsRequest::Rename { parent, name, new_parent, new_name, flags } => Some(Self::Renamed {
                from: (*parent, name.clone()),
                to: (*new_parent, new_name.clone()),
                exchange: flags & EXCHANGE != 0,
            }),
            _ => None,
        }
    }
}

/// Where the kernel has directories.
///
/// Invariant: the two maps say the same.
#[derive(Debug, Default)]
pub(crate) struct Places {
    by_ino: BTreeMap<Ino, Place>,
    by_place: BTreeMap<Place, Ino>,
}

impl Places {
    /// Takes what the answer to a request says. Returns the name that the kernel still has for a directory
    /// which this answer tells it under another one.
    pub(crate) fn take(&mut self, naming: Naming, answer: &Reply) -> Option<Place> {
        match (naming, answer) {
            (Naming::Leads(place), Ok(Answer::Entry(entry))) if is_dir(entry.attr.mode) => {
                let former = self.by_ino.get(&entry.attr.ino).filter(|former| **former != place).cloned();
                self.put(entry.attr.ino, place);
                return former;
            }
            // The kernel drops whatever directory it has there.
            (Naming::Leads(place), _) | (Naming::Removed(place), Ok(_)) => drop(self.clear(&place)),
            (Naming::Renamed { from, to, exchange }, Ok(_)) => {
                let (moved, other) = (self.clear(&from), self.clear(&to));
                if let Some(ino) = moved {
                    self.put(ino, to);
                }
                if let Some(ino) = other.filter(|_| exchange) {
                    self.put(ino, from);
                }
            }
            (Naming::Removed(_) | Naming::Renamed { .. }, Err(_)) => {}
        }
        None
    }

    /// A listing tells the kernel of a directory. If the kernel has it elsewhere, it may leave it there.
    pub(crate) fn listed(&mut self, dir: Ino, name: &[u8], ino: Ino) {
        if !self.by_ino.contains_key(&ino) {
            self.put(ino, (dir, name.to_vec()));
        }
    }

    /// The kernel has forgotten an inode.
    pub(crate) fn forget(&mut self, ino: Ino) {
        if let Some(place) = self.by_ino.remove(&ino) {
            self.by_place.remove(&place);
        }
    }

    fn put(&mut self, ino: Ino, place: Place) {
        self.forget(ino);
        self.clear(&place);
        self.by_ino.insert(ino, place.clone());
        self.by_place.insert(place, ino);
    }

    fn clear(&mut self, place: &Place) -> Option<Ino> {
        let ino = self.by_place.remove(place)?;
        self.by_ino.remove(&ino);
        Some(ino)
    }
}

/// True for the mode of a directory.
pub(crate) fn is_dir(mode: u32) -> bool {
    mode & libc::S_IFMT == libc::S_IFDIR
}

#[cfg(test)]
mod tests {
    use super::*;
    use client::{Attr, Entry, Errno};

    fn lookup(parent: Ino, name: &str) -> FsRequest {
        FsRequest::Lookup { parent, name: name.into() }
    }

    fn rename(from: (Ino, &str), to: (Ino, &str), flags: u32) -> FsRequest {
        FsRequest::Rename {
            parent: from.0,
            name: from.1.into(),
            new_parent: to.0,
            new_name: to.1.into(),
            flags,
        }
    }

    fn dir(ino: Ino) -> Reply {
        let attr = Attr { ino, mode: libc::S_IFDIR | 0o755, ..Attr::default() };
        Ok(Answer::Entry(Entry { attr, ..Entry::default() }))
    }

    fn place(dir: Ino, name: &str) -> Option<Place> {
        Some((dir, name.into()))
    }

    fn take(places: &mut Places, request: &FsRequest, answer: &Reply) -> Option<Place> {
        let former = places.take(Naming::of(request).expect("it names something"), answer);
        assert_eq!(places.by_ino.len(), places.by_place.len());
        assert!(places.by_ino.iter().all(|(ino, place)| places.by_place.get(place) == Some(ino)));
        former
    }

    #[test]
    fn a_directory_that_is_found_elsewhere_has_a_former_name() {
        let mut places = Places::default();
        assert_eq!(take(&mut places, &lookup(2, "a"), &dir(7)), None);
        assert_eq!(take(&mut places, &lookup(2, "a"), &dir(7)), None, "the same one");
        assert_eq!(take(&mut places, &lookup(3, "b"), &dir(7)), place(2, "a"));
        assert_eq!(take(&mut places, &lookup(3, "b"), &dir(7)), None, "it was dropped");
        places.listed(4, b"c", 7);
        assert_eq!(take(&mut places, &lookup(4, "c"), &dir(7)), place(3, "b"), "a listing may move nothing");
        places.forget(7);
        assert_eq!(take(&mut places, &lookup(3, "b"), &dir(7)), None);
        places.listed(4, b"d", 8);
        assert_eq!(take(&mut places, &lookup(4, "e"), &dir(8)), place(4, "d"));
    }

    #[test]
    fn names_that_the_kernel_has_dropped_itself_are_not_dropped_again() {
        let absent: Reply = Err(Errno::ENOENT);
        for (request, answer) in [
            (lookup(2, "a"), absent.clone()),
            (lookup(2, "a"), dir(8)),
            (FsRequest::Mkdir { parent: 2, name: b"a".into(), mode: 0 }, dir(8)),
            (FsRequest::Rmdir { parent: 2, name: b"a".into() }, Ok(Answer::Done)),
            (rename((5, "file"), (2, "a"), 0), Ok(Answer::Done)),
        ] {
            let mut places = Places::default();
            take(&mut places, &lookup(2, "a"), &dir(7));
            assert_eq!(take(&mut places, &request, &answer), None, "{request:?}");
            assert_eq!(take(&mut places, &lookup(3, "b"), &dir(7)), None, "{request:?}");
        }
        let mut places = Places::default();
        take(&mut places, &lookup(2, "a"), &dir(7));
        take(&mut places, &FsRequest::Rmdir { parent: 2, name: b"a".into() }, &absent);
        assert_eq!(take(&mut places, &lookup(3, "b"), &dir(7)), place(2, "a"), "nothing was removed");
    }

    #[test]
    fn renames_of_the_kernel_s_own_are_followed() {
        let mut places = Places::default();
        take(&mut places, &lookup(2, "a"), &dir(7));
        take(&mut places, &lookup(2, "b"), &dir(8));
        take(&mut places, &rename((2, "a"), (3, "c"), 0), &Ok(Answer::Done));
        assert_eq!(take(&mut places, &lookup(3, "c"), &dir(7)), None);
        take(&mut places, &rename((3, "c"), (2, "b"), EXCHANGE), &Ok(Answer::Done));
        assert_eq!(take(&mut places, &lookup(2, "b"), &dir(7)), None);
        assert_eq!(take(&mut places, &lookup(3, "c"), &dir(8)), None);
        take(&mut places, &rename((3, "c"), (2, "b"), 0), &Err(Errno::ENOTEMPTY));
        assert_eq!(take(&mut places, &lookup(9, "x"), &dir(8)), place(3, "c"), "it has not moved");
    }
}
