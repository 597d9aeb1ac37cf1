//! Work on files' objects: cutting off what a truncation frees, storing data that are in the journal only,
//! and removing everything of an inode that has neither a name nor a capability. All are in the journal
//! before they begin (`truncate_from`, `packed`, the stray entry), so that a crash only repeats them; and so
//! are the snapshots for which they preserve objects, or a crash would leave clones of a snapshot that nobody
//! knows.

mod line;
mod objects;

use super::commit::{commit, commit_inode};
use super::effect::Stage;
use super::env::{Due, Env};
use super::sessions::Sessions;
use crate::authority::Hold;
use crate::cache::{Cache, DataWork, Inode, Work};
use crate::cut::{Cut, delays_clients};
use crate::io::IoWhy;
use crate::types::{Lsn, Need, SnapContext};
use fsfmt::{DentryKey, DirFrag, Ino, InodeData, InodeKey, Update};
use line::Line;
use node::Level;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use stdx::Instant;

/// Objects of one file that are worked on at once.
const MAX_OBJECTS_IN_FLIGHT: u32 = 8;
/// Files that are worked on at once.
const MAX_FILES: usize = 32;
/// Removed files for each of which that are left one more is purged at once while clients ask for something.
const PURGES_BEHIND: usize = 4096;
/// The time after a client's request in which others are expected.
const BUSY_FOR: Duration = Duration::from_millis(50);

/// Inodes looked at in one step, so that a step's cost does not depend on how many wait.
const MAX_LOOKS: usize = 128;

/// Files to purge, to truncate or to store.
///
/// Invariants: an inode has [`DataWork`] only while it is noted here; `under_way` counts those, at most
/// [`MAX_FILES`]; an inode that is noted is in a line or will be in a second or with a commit, or is being
/// worked on, or is noted again when what keeps it from being worked on has changed.
#[derive(Default)]
pub(super) struct Strays {
    /// Removed files and directories, whose objects go with the last capability.
    purges: BTreeSet<InodeKey>,
    /// Files whose objects are to be shortened.
    truncations: BTreeSet<InodeKey>,
    /// Those that may be due to be purged.
    to_purge: Line,
    /// Those that may be due to be shortened.
    to_cut: Line,
    /// Files of [`Cache::unstored`] that may be due to be stored: those that somebody waits for, and others.
    to_store: Line,
    to_store_later: Line,
    /// Inodes that may be due once this event is durable, if they are noted still.
    uncommitted: BTreeSet<(Lsn, InodeKey)>,
    /// Files truncated in this second and in the last one that nobody waits for, and those whose data came
    /// into the journal then. Often the former are written next, which cuts the objects, and the latter
    /// removed.
    recent: [BTreeSet<InodeKey>; 2],
    /// Time of the last request of a client.
    asked_at: Option<Instant>,
    /// Inodes that are being worked on, and those of them that are purged, and stored.
    under_way: usize,
    purging: usize,
    storing: usize,
    /// True if clients were absent at the last step, so that no purge was due.
    was_absent: bool,
    /// The last change of snapshots at the last step: what was kept for a removed one may be due.
    snaps_seen: Lsn,
    /// The omap key after which the search for the strays of others continues, in each directory of strays.
    next_page: BTreeMap<Ino, Vec<u8>>,
}

/// One of the lines.
type WhichLine = fn(&mut Strays) -> &mut Line;

impl Strays {
    /// Begins the search for strays of others in a directory of strays: of the predecessor, or of a rank that
    /// has handed it over.
    pub fn search(&mut self, env: &mut Env, dir: Ino) {
        env.due(Due::Load(stray_page(dir, Vec::new()), None));
    }

    /// A page of a directory of strays was loaded, up to `last` or to the end.
    pub fn page_loaded(&mut self, dir: Ino, last: Option<&DentryKey>) {
        match last {
            Some(last) => drop(self.next_page.insert(dir, last.to_omap())),
            None => drop(self.next_page.remove(&dir)),
        }
    }

    /// A subtree with these inodes is another rank's.
    pub fn subtree_left(&mut self, root: Ino, inodes: &[InodeKey]) {
        self.next_page.remove(&root);
        inodes.iter().for_each(|ino| self.forget(*ino));
    }

    /// An inode was changed, loaded or released: notes what is to be done about its objects.
    pub fn note(&mut self, ino: InodeKey, inode: &Inode) {
        let truncates = inode.data.truncate_from > 0;
        let purges = is_stray(inode) && inode.data.nlink == 0;
        let stores = inode.data.packed.is_some();
        if truncates {
            self.truncations.insert(ino);
        }
        if purges {
            self.purges.insert(ino);
            self.to_purge.insert(ino);
        }
        if truncates && is_awaited(inode) {
            self.to_cut.insert(ino);
        } else if truncates && !purges && !self.recent[1].contains(&ino) {
            self.recent[0].insert(ino);
        }
        if stores && inode.is_store_awaited() {
            self.to_store.insert(ino);
        } else if stores && !self.recent[1].contains(&ino) {
            self.recent[0].insert(ino);
        }
    }

    /// A second has passed.
    pub fn every_second(&mut self, cache: &Cache) {
        let due = std::mem::take(&mut self.recent[1]);
        self.to_cut.extend(due.intersection(&self.truncations));
        self.to_store_later.extend(due.iter().filter(|ino| cache.unstored.contains(**ino)));
        self.recent.swap(0, 1);
    }

    /// The data of a file that are in the journal only are to be stored, and what a truncation cut off is to
    /// be removed, although nobody waits for it.
    pub fn hurry(&mut self, ino: InodeKey, data: &InodeData) {
        if data.truncate_from > 0 {
            self.to_cut.insert(ino);
        }
        if data.packed.is_some() {
            self.to_store.insert(ino);
        }
    }

    /// A client asks for something: what nobody waits for is purged and stored slowly, lest all that was just
    /// removed or written is worked on while the answer is waited for.
    pub fn client_asks(&mut self, now: Instant) {
        self.asked_at = Some(now);
    }

    /// True if nobody has asked for anything for a while, or space is wanted.
    fn is_idle(&self, env: &Env) -> bool {
        env.cfg().full || self.asked_at.is_none_or(|at| env.now().since(at) >= BUSY_FOR)
    }

    /// The number of files that may be purged at once.
    fn purges_at_once(&self, env: &Env) -> usize {
        match self.is_idle(env) {
            true => MAX_FILES,
            false => (1 + self.purges.len() / PURGES_BEHIND).min(MAX_FILES),
        }
    }

    /// The number of files that nobody waits for and that may be stored at once: while clients ask for
    /// something it is one, until half of those that may be left are.
    fn stores_at_once(&self, env: &Env, cache: &Cache) -> usize {
        const HALF: usize = MAX_FILES / 2;
        if self.is_idle(env) {
            return MAX_FILES;
        }
        let level = cache.unstored.fill_level(MAX_FILES, cache.most_entries());
        (1 + 2 * level.saturating_sub(HALF)).min(MAX_FILES)
    }

    /// Starts work that is due: not before the rank serves, for what has no name may be open, and its
    /// capabilities not claimed yet; purges only if no client `is_absent`, for the same reason. The end of
    /// each work is an event: none begins while the journal `drains`, for which clients wait.
    pub fn advance(
        &mut self,
        env: &mut Env,
        cache: &mut Cache,
        sessions: &mut Sessions,
        is_absent: bool,
        drains: bool,
    ) {
        if env.stage() != Stage::Active {
            return;
        }
        let is_unseen = std::mem::replace(&mut self.snaps_seen, cache.snaps.lsn()) != cache.snaps.lsn();
        if std::mem::replace(&mut self.was_absent, is_absent) && !is_absent || is_unseen {
            self.to_purge.extend(&self.purges);
        }
        if self.purges.len() < MAX_FILES
            && let Some((dir, after)) = self.next_page.pop_first()
        {
            env.due(Due::Load(stray_page(dir, after), None));
        }
        self.follow_journal(cache, env.journal().durable());
        if drains {
            return;
        }
        let (purges, stores) = (self.purges_at_once(env), self.stores_at_once(env, cache));
        let lines: [(WhichLine, usize, usize); 4] = [
            (|strays| &mut strays.to_cut, MAX_FILES, MAX_FILES),
            (|strays| &mut strays.to_store, MAX_FILES, MAX_FILES),
            (|strays| &mut strays.to_store_later, MAX_FILES, stores),
            (|strays| &mut strays.to_purge, purges, MAX_FILES),
        ];
        for (line, purges, stores) in lines {
            for _ in 0..MAX_LOOKS.min(line(self).len()) {
                let has_room = self.under_way < MAX_FILES && self.purging < purges && self.storing < stores;
                let Some(ino) = has_room.then(|| line(self).next()).flatten() else { break };
                if self.start(env, cache, sessions, ino, is_absent) {
                    line(self).remove(ino);
                }
            }
        }
    }

    /// Events up to `durable` are: inodes that waited for them may be due.
    fn follow_journal(&mut self, cache: &Cache, durable: Lsn) {
        while let Some(next) = self.uncommitted.first().copied().filter(|(lsn, _)| *lsn <= durable) {
            self.uncommitted.remove(&next);
            if self.purges.contains(&next.1) {
                self.to_purge.insert(next.1);
            } else if self.truncations.contains(&next.1) {
                self.to_cut.insert(next.1);
            } else if cache.unstored.contains(next.1) {
                let is_awaited = cache.inodes.get(&next.1).is_some_and(|i| i.is_store_awaited());
                let line = if is_awaited { &mut self.to_store } else { &mut self.to_store_later };
                line.insert(next.1);
            }
        }
    }

    fn is_noted(&self, cache: &Cache, ino: InodeKey) -> bool {
        self.purges.contains(&ino) || self.truncations.contains(&ino) || cache.unstored.contains(ino)
    }

    /// Starts work on an inode if it is due. False if it may be due later although it is not noted again.
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
            return true;
        };
        if inode.under_way.data_work.is_some() {
            return true;
        }
        if is_leaving(cache, inode) && inode.data.nlink == 0 {
            return false;
        }
        let Some(work) = due_work(cache, inode, is_absent || cache.is_kept(&inode.data)) else {
            if inode.data.truncate_from == 0 && inode.data.packed.is_none() && inode.data.nlink > 0 {
                self.forget(ino);
            }
            return true;
        };
        let lsn = inode.change.lsn().max(cache.snaps.lsn());
        let is_stored = lsn <= env.journal().durable();
        if !is_stored {
            if is_awaited(inode) || inode.is_store_awaited() {
                env.want_durable(lsn);
            }
            self.uncommitted.insert((lsn, ino));
            return true;
        }
        if inode.data.is_dir() && cache.has_commit(ino.ino) {
            return false;
        }
        self.count(work.what, 1);
        let inode = cache.inodes.get_mut(&ino).expect("just looked at");
        inode.under_way.edit(|at| at.data_work = Some(work));
        self.continue_work(env, cache, sessions, ino);
        true
    }

    /// Counts work that begins (1) or ends (-1).
    fn count(&mut self, what: Work, change: isize) {
        let part = match what {
            Work::Purge => Some(&mut self.purging),
            Work::Store(_) => Some(&mut self.storing),
            Work::Cut(_) => None,
        };
        for count in part.into_iter().chain([&mut self.under_way]) {
            *count = count.saturating_add_signed(change);
        }
    }

    fn forget(&mut self, ino: InodeKey) {
        self.purges.remove(&ino);
        self.truncations.remove(&ino);
        self.to_purge.remove(ino);
        self.to_cut.remove(ino);
        self.to_store.remove(ino);
        self.to_store_later.remove(ino);
    }

    /// Issues further object operations, or ends the work.
    fn continue_work(&mut self, env: &mut Env, cache: &mut Cache, sessions: &mut Sessions, ino: InodeKey) {
        loop {
            let Some(inode) = cache.inodes.get_mut(&ino) else { return };
            let Some(work) = &inode.under_way.data_work else { return };
            let (what, number, snaps) = (work.what, work.next, work.snaps.clone());
            if work.next >= work.end {
                if work.in_flight == 0 {
                    self.end_work(env, cache, sessions, ino, what);
                }
                return;
            }
            if work.in_flight >= MAX_OBJECTS_IN_FLIGHT {
                return;
            }
            inode.under_way.edit(|at| {
                if let Some(work) = &mut at.data_work {
                    work.next += 1;
                    work.in_flight += 1;
                }
            });
            let object = objects::object(&inode.data, number, env.cfg().metadata_pool);
            let op = objects::op(what, &inode.data, number);
            env.start_io(object, snaps, vec![op], IoWhy::Data(ino));
        }
    }

    /// One object operation has ended; that the object was not there is as good, unless it was to be made.
    pub fn io_done(
        &mut self,
        env: &mut Env,
        cache: &mut Cache,
        sessions: &mut Sessions,
        ino: InodeKey,
        is_found: bool,
    ) {
        if let Some(inode) = cache.inodes.get_mut(&ino) {
            let work = inode.under_way.data_work.as_ref();
            if work.is_some_and(|work| matches!(work.what, Work::Store(_))) && !is_found {
                let text =
                    format!("the {} bytes of file {ino} can't be stored: its pool is gone", inode.data.size);
                env.log(Level::Error, "data_lost", text);
            }
            inode.under_way.edit(|at| at.data_work.iter_mut().for_each(|work| work.in_flight -= 1));
        }
        self.continue_work(env, cache, sessions, ino);
    }

    fn end_work(
        &mut self,
        env: &mut Env,
        cache: &mut Cache,
        sessions: &mut Sessions,
        ino: InodeKey,
        what: Work,
    ) {
        let Some(inode) = cache.inodes.get_mut(&ino) else { return };
        inode.under_way.edit(|at| at.data_work = None);
        self.count(what, -1);
        let (data, event) = match what {
            Work::Purge => {
                let (dir, key) = inode.place.clone().expect("a purged inode is a stray");
                let updates = vec![Update::Dentry { dir, key, value: None }, Update::Forget { inode: ino }];
                self.forget(ino);
                commit(env, cache, sessions, "purge", updates);
                return;
            }
            Work::Cut(cut) if cut.seq != inode.data.truncate_seq => {
                // The file was truncated once more meanwhile.
                self.to_cut.insert(ino);
                return;
            }
            Work::Store(version) if inode.data.packed.as_ref().is_some_and(|p| p.version != version) => {
                // Its client has sent the data once more.
                self.to_store.insert(ino);
                return;
            }
            Work::Cut(_) => {
                self.truncations.remove(&ino);
                (InodeData { truncate_from: 0, ..inode.data.clone() }, "truncated")
            }
            Work::Store(_) => (InodeData { packed: None, ..inode.data.clone() }, "data stored"),
        };
        commit_inode(env, cache, sessions, None, event, data, Vec::new());
        env.due(Due::CapsChanged(ino));
    }

    /// Asserts what holds between inputs.
    pub fn check(&self, cache: &Cache) {
        assert!(self.under_way <= MAX_FILES, "{} files are worked on at once", self.under_way);
        assert!(self.purging + self.storing <= self.under_way, "purges and stores are work, too");
        let noted = self.purges.len() + self.truncations.len() + cache.unstored.len();
        assert!(self.under_way <= noted && self.to_purge.len() <= noted, "only noted inodes are worked on");
        assert!(self.to_cut.len() <= noted, "only noted inodes are shortened");
    }

    /// Asserts the rest by a walk over all inodes.
    pub fn check_all(&self, cache: &Cache) {
        let under_way = cache.inodes.values().filter(|inode| inode.under_way.data_work.is_some()).count();
        assert_eq!(self.under_way, under_way, "inodes that are being worked on");
        for (ino, inode) in &cache.inodes {
            assert!(
                inode.under_way.data_work.is_none() || self.is_noted(cache, *ino),
                "{ino} is worked on and noted"
            );
        }
    }
}

/// The need for a page of a directory of strays, which is never split.
fn stray_page(dir: Ino, after: Vec<u8>) -> Need {
    Need::Page(DirFrag::whole(dir), after)
}

/// The snapshots for which an inode's data objects must be preserved. A directory's objects are not cut.
fn snaps_of_objects(cache: &Cache, inode: &Inode) -> SnapContext {
    if !inode.data.is_file() {
        return SnapContext::default();
    }
    let context = cache.snap_context(cache.realm_of(inode));
    let forgets = stdx::mutants::is_active("mds_purges_for_snapshots_too");
    if context.snaps.is_empty() || forgets { SnapContext::default() } else { context }
}

/// True if somebody waits for the end of a truncation.
fn is_awaited(inode: &Inode) -> bool {
    delays_clients(&inode.data) || !inode.under_way.waiters.is_empty()
}

fn is_stray(inode: &Inode) -> bool {
    inode.place.as_ref().is_some_and(|(dir, _)| dir.ino.is_stray())
}

/// True if the directory of strays that an inode is in is about to be handed over.
fn is_leaving(cache: &Cache, inode: &Inode) -> bool {
    let hold = inode.place.as_ref().and_then(|(dir, _)| cache.subtrees.hold(dir.ino));
    hold.is_some_and(|hold| hold != Hold::Own)
}

/// The work that is to be done on an inode's objects now.
fn due_work(cache: &Cache, inode: &Inode, is_absent: bool) -> Option<DataWork> {
    let data = &inode.data;
    let (what, objects) = if is_stray(inode) && data.nlink == 0 && inode.is_idle() && !is_absent {
        (Work::Purge, 0..objects::all_objects(data))
    } else if let Some(packed) = &data.packed {
        (Work::Store(packed.version), 0..1)
    } else {
        let (cut, objects) = Cut::of(data)?;
        (Work::Cut(cut), objects)
    };
    let snaps = snaps_of_objects(cache, inode);
    Some(DataWork { what, snaps, next: objects.start, end: objects.end, in_flight: 0 })
}
