//! The directory that is mounted: the kernel calls it 1, whatever number it has in the file system.

use client::{Answer, Caller, Fs, FsRequest, Ino};
use std::io;

/// The kernel's number of the root, and the file system's number of its own.
const ROOT: Ino = 1;
/// The bits of a mode that tell the type of a file, and those of a directory.
const TYPE: u32 = 0o170_000;
const DIRECTORY: u32 = 0o040_000;

/// The directory that is mounted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Root(Ino);

impl Default for Root {
    fn default() -> Self {
        Self(ROOT)
    }
}

impl Root {
    /// A directory by its number.
    #[cfg(test)]
    pub(crate) fn of(ino: Ino) -> Self {
        Self(ino)
    }

    /// Finds a directory by its path. The references to the directories on the way are kept: the client knows
    /// by them which quotas are in force.
    pub(crate) fn find(fs: &Fs, path: &str) -> io::Result<Self> {
        let mut at = ROOT;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            let lookup = FsRequest::Lookup { parent: at, name: name.as_bytes().to_vec() };
            let fails = |kind, why: String| io::Error::new(kind, format!("{path} of the file system: {why}"));
            let entry = match fs.call(Caller::default(), lookup) {
                Ok(Answer::Entry(entry)) => entry,
                Ok(_) => return Err(fails(io::ErrorKind::NotFound, format!("there is no `{name}`"))),
                Err(errno) => {
                    let error = io::Error::from_raw_os_error(errno.get());
                    return Err(fails(error.kind(), format!("`{name}`: {error}")));
                }
            };
            if entry.attr.mode & TYPE != DIRECTORY {
                return Err(fails(io::ErrorKind::NotADirectory, format!("`{name}` is no directory")));
            }
            at = entry.attr.ino;
        }
        Ok(Self(at))
    }

    /// Its number in the file system.
    pub(crate) fn ino(self) -> Ino {
        self.0
    }

    /// The file system's number for one of the kernel's.
    pub(crate) fn inner(self, node: u64) -> Ino {
        if node == ROOT { self.0 } else { node }
    }

    /// The kernel's number for an inode that was found by its number, which may be any: none for the root of
    /// the file system if another directory is mounted, for it is outside, and its number is taken.
    pub(crate) fn found(self, ino: Ino) -> Option<u64> {
        let node = self.outer(ino);
        (node != ROOT || ino == self.0).then_some(node)
    }

    /// The kernel's number for one of the file system's.
    pub(crate) fn outer(self, ino: Ino) -> u64 {
        if ino == self.0 { ROOT } else { ino }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_root_has_two_numbers() {
        let root = Root(0x100);
        assert_eq!((root.inner(1), root.inner(0x100), root.inner(7)), (0x100, 0x100, 7));
        assert_eq!((root.outer(0x100), root.outer(7)), (1, 7));
        assert_eq!([1, 0x100, 7].map(|ino| root.found(ino)), [None, Some(1), Some(7)]);
        let whole = Root::default();
        assert_eq!([1, 7].map(|ino| whole.found(ino)), [Some(1), Some(7)]);
        assert_eq!((whole.inner(1), whole.outer(1), whole.inner(7), whole.outer(7)), (1, 1, 7, 7));
    }
}
