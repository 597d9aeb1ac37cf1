//! Work on files' objects: cutting off what a truncation frees, and removing everything of an inode that has
//! neither a name nor a capability. Both are in the journal before they begin (`truncate_from`, the stray
//! entry), so that a crash only repeats them.

mod objects;

use super::commit::{commit, commit_inode};
use super::effect::Stage;
use super::env::{Due, Env};
use super::sessions::Sessions;
use crate::cache::{Cache, DataWork, Inode};
use crate::io::IoWhy;
use crate::types::Need;
use fsfmt::{DentryKey, DirFrag, Ino, InodeKey, Update};
use std::collections::BTreeSet;

/// Objects of one file that are worked on at once.
const MAX_OBJECTS_IN_FLIGHT: u32 = 8;
/// Files that are worked on at once.
const MAX_FILES: usize = 32;

/// Files to purge or to truncate.
///
/// Invariant: an inode has [`DataWork`] only while it is noted here.
#[derive(Default)]
pub(super) struct Strays {
    /// Removed files and directories, whose objects go with the last capability.
    purges: BTreeSet<InodeKey>,
    /// Files whose objects are to be shortened.
    truncations: BTreeSet<InodeKey>,
    /// The omap key behind which the search for the predecessor's strays goes on.
    next_page: Option<Vec<u8>>,
}

impl Strays {
    /// Begins the search for the predecessor's strays.
    pub fn search(&mut self, env: &mut Env) {
        env.due(Due::Load(stray_page(env, Vec::new()), None));
    }

    /// A page of the directory of strays was loaded, up to `last` or to the end.
    pub fn page_loaded(&mut self, last: Option<&DentryKey>) {
        self.next_page = last.map(DentryKey::to_omap);
    }

    /// An inode was changed or loaded: notes what is to be done about its objects.
    pub fn note(&mut self, env: &Env, ino: InodeKey, inode: &Inode) {
        if inode.data.truncate_from > 0 {
            self.truncations.insert(ino);
        }
        if is_stray(env, inode) && inode.data.nlink == 0 {
            self.purges.insert(ino);
        }
    }

    /// Starts work that is due: not before the rank serves, for what has no name may be open, and its
    /// capabilities not claimed yet; purges only if no client `is_absent`, for the same reason.
    pub fn advance(&mut self, env: &mut Env, cache: &mut Cache, sessions: &mut Sessions, is_absent: bool) {
        if env.stage() != Stage::Active {
            return;
        }
        if self.purges.len() < MAX_FILES
            && let Some(after) = self.next_page.take()
        {
            env.due(Due::Load(stray_page(env, after), None));
        }
        let mut due: Vec<InodeKey> = self.truncations.iter().copied().collect();
        if !is_absent {
            due.extend(self.purges.difference(&self.truncations));
        }
        let mut started = 0;
        for ino in due {
            if started >= MAX_FILES {
                break;
            }
            started += usize::from(self.start(env, cache, sessions, ino, is_absent));
        }
    }

    /// Starts work on an inode if it is due; true if it is under way.
    fn start(
        &mut self,
        env: &mut Env,
        cache: &mut Cache,
        sessions: &mut Sessions,
        ino: InodeKey,
        is_absent: bool,
    ) -> bool {
        let Some(inode) = cache.inodes.get(&ino) else {
            self.forget(ino);
            return false;
        };
        if inode.data_work.is_some() {
            return true;
        }
        if inode.lsn > env.journal().durable() {
            return false;
        }
        let Some(work) = due_work(env, inode, is_absent) else {
            if inode.data.truncate_from == 0 && inode.data.nlink > 0 {
                self.forget(ino);
            }
            return false;
        };
        if inode.data.is_dir() && cache.has_commit(ino.ino) {
            return false;
        }
        cache.inodes.get_mut(&ino).expect("just looked at").data_work = Some(work);
        self.continue_work(env, cache, sessions, ino);
        true
    }

    fn forget(&mut self, ino: InodeKey) {
        self.purges.remove(&ino);
        self.truncations.remove(&ino);
    }

    /// Issues further object operations, or ends the work.
    fn continue_work(&mut self, env: &mut Env, cache: &mut Cache, sessions: &mut Sessions, ino: InodeKey) {
        loop {
            let Some(inode) = cache.inodes.get_mut(&ino) else { return };
            let (next, end, in_flight, purge) = match &mut inode.data_work {
                Some(DataWork::Truncate { next, end, in_flight }) => (next, *end, in_flight, false),
                Some(DataWork::Purge { next, end, in_flight }) => (next, *end, in_flight, true),
                None => return,
            };
            if *next >= end {
                if *in_flight == 0 {
                    self.end_work(env, cache, sessions, ino, purge);
                }
                return;
            }
            if *in_flight >= MAX_OBJECTS_IN_FLIGHT {
                return;
            }
            let number = *next;
            *next += 1;
            *in_flight += 1;
            let (object, op) = objects::object_op(&inode.data, number, purge, env.cfg().metadata_pool);
            env.start_io(object, vec![op], IoWhy::Data(ino));
        }
    }

    /// One object operation has ended; that the object was not there is as good.
    pub fn io_done(&mut self, env: &mut Env, cache: &mut Cache, sessions: &mut Sessions, ino: InodeKey) {
        if let Some(inode) = cache.inodes.get_mut(&ino)
            && let Some(DataWork::Truncate { in_flight, .. } | DataWork::Purge { in_flight, .. }) =
                &mut inode.data_work
        {
            *in_flight -= 1;
        }
        self.continue_work(env, cache, sessions, ino);
    }

    fn end_work(
        &mut self,
        env: &mut Env,
        cache: &mut Cache,
        sessions: &mut Sessions,
        ino: InodeKey,
        purge: bool,
    ) {
        self.truncations.remove(&ino);
        let Some(inode) = cache.inodes.get_mut(&ino) else { return };
        inode.data_work = None;
        if purge {
            let (dir, key) = inode.place.clone().expect("a purged inode is a stray");
            let updates = vec![Update::Dentry { dir, key, value: None }, Update::Forget { ino: ino.ino }];
            self.purges.remove(&ino);
            commit(env, cache, sessions, "purge", updates);
            return;
        }
        let mut data = inode.data.clone();
        data.truncate_from = 0;
        commit_inode(env, cache, sessions, "truncated", data, Vec::new());
        env.due(Due::CapsChanged(ino));
    }

    /// Asserts the invariant by a walk over all inodes.
    pub fn check_all(&self, cache: &Cache) {
        for (ino, inode) in &cache.inodes {
            let is_noted = self.purges.contains(ino) || self.truncations.contains(ino);
            assert!(inode.data_work.is_none() || is_noted, "{ino} is worked on and noted");
        }
    }
}

/// The need for a page of the directory of strays, which is never split.
fn stray_page(env: &Env, after: Vec<u8>) -> Need {
    Need::Page(DirFrag::whole(Ino::stray(env.cfg().rank)), after)
}

fn is_stray(env: &Env, inode: &Inode) -> bool {
    inode.place.as_ref().is_some_and(|(dir, _)| dir.ino == Ino::stray(env.cfg().rank))
}

/// The work that is to be done on an inode's objects now.
fn due_work(env: &Env, inode: &Inode, is_absent: bool) -> Option<DataWork> {
    let data = &inode.data;
    if is_stray(env, inode) && data.nlink == 0 && inode.is_idle() && !is_absent {
        return Some(DataWork::Purge { next: 0, end: objects::all_objects(data), in_flight: 0 });
    }
    if data.truncate_from == 0 {
        return None;
    }
    let end = objects::object_count(&data.layout, data.truncate_from);
    Some(DataWork::Truncate { next: objects::first_cut(data), end, in_flight: 0 })
}
