//! What a scrub compares.

use crate::cache::{Cache, SlotLink};
use crate::ops::shift;
use fsfmt::{BackPointer, DentryKey, DirFrag, Ino, InodeData, InodeKey, NestStat};

/// What the entries of a directory amount to.
#[derive(Clone, Debug, Default)]
pub(super) struct Sum {
    files: u64,
    subdirs: u64,
    nest: NestStat,
}

/// The live inodes of a page.
#[derive(Default)]
pub(super) struct Seen {
    /// Those that live there, each with its name.
    pub primary: Vec<(InodeKey, DentryKey)>,
    /// The directories among them.
    pub dirs: Vec<Ino>,
    /// Names of inodes that live elsewhere.
    pub remote: Vec<(InodeKey, DentryKey)>,
}

impl Sum {
    /// Adds the cached live entries of a fragment after an omap key, up to `last`.
    pub fn add_page(&mut self, cache: &Cache, dir: DirFrag, after: &[u8], last: Option<&DentryKey>) -> Seen {
        let mut seen = Seen::default();
        let Some(d) = cache.dirs.get(&dir) else { return seen };
        for (key, slot) in d.page(after, last).filter(|(key, _)| key.is_head()) {
            match slot.link(key) {
                SlotLink::Null => {}
                SlotLink::Remote { ino, .. } => {
                    self.files += 1;
                    seen.remote.push((ino.head(), key.clone()));
                }
                SlotLink::Primary(ino) => {
                    let Some(inode) = cache.inodes.get(&ino) else { continue };
                    let is_dir = inode.data.is_dir();
                    *(if is_dir { &mut self.subdirs } else { &mut self.files }) += 1;
                    shift(&mut self.nest, &NestStat::default(), &cache.counted(inode).rstat());
                    seen.primary.push((ino, key.clone()));
                    if is_dir {
                        seen.dirs.push(ino.ino);
                    }
                }
            }
        }
        seen
    }

    /// The directory with its statistics put right, if they are wrong, and what was wrong.
    pub fn correct(&self, data: &InodeData) -> Option<(InodeData, String)> {
        let mut dirstat = data.dirstat.clone();
        dirstat.edit(|stat| (stat.nfiles, stat.nsubdirs) = (self.files, self.subdirs));
        let NestStat { rbytes, rfiles, rsubdirs, .. } = self.nest;
        let rstat = NestStat { rbytes, rfiles, rsubdirs: rsubdirs + 1, ..data.rstat.clone() };
        let right = InodeData { dirstat, rstat, ..data.clone() };
        let text = |d: &InodeData| {
            let (own, all) = (&d.dirstat, &d.rstat);
            format!(
                "{} files and {} directories, below {} bytes, {} files, {} directories",
                own.nfiles, own.nsubdirs, all.rbytes, all.rfiles, all.rsubdirs
            )
        };
        let why = format!("statistics say {}, entries {}", text(data), text(&right));
        (right != *data).then_some((right, why))
    }
}

/// A file with its own statistics put right, if they are wrong, and what was wrong.
pub(super) fn correct_file(data: &InodeData) -> Option<(InodeData, String)> {
    let rstat = NestStat { rbytes: data.size, rfiles: 1, rsubdirs: 0, ..data.rstat.clone() };
    let right = InodeData { rstat, ..data.clone() };
    let why = format!(
        "statistics say {} bytes, the inode {}; and {} files instead of 1",
        data.rstat.rbytes, data.size, data.rstat.rfiles
    );
    (right != *data).then_some((right, why))
}

/// What is wrong with the inode index's entry of an inode that lives at a name.
pub(super) fn index_fault(stored: Option<&BackPointer>, dir: Ino, key: &DentryKey) -> Option<String> {
    let place = |dir: Ino, name: &[u8]| format!("{dir}/{}", name.escape_ascii());
    match stored {
        Some(back) if back.dir == dir && *back.name == *key.name => None,
        Some(back) => Some(format!(
            "the inode index says {}, the inode is at {}",
            place(back.dir, &back.name),
            place(dir, &key.name)
        )),
        None => Some(format!("the inode index has no entry; the inode is at {}", place(dir, &key.name))),
    }
}
