//! The end of removed snapshots: their ids are given back to the data pool, whose OSDs then trim the clones,
//! and the copies of entries that only they contained are removed by a walk over what they contained.
//!
//! Both begin when the removal is durable, and are repeated after a crash. What moves out of the directory
//! during the walk may keep a copy that nobody sees.

use super::commit::commit;
use super::effect::{Effect, Stage};
use super::env::{Due, Env, Loaded};
use super::sessions::Sessions;
use crate::cache::{Cache, SlotLink};
use crate::types::Need;
use fsfmt::{DentryKey, DirFrag, Ino, InodeKey, Update};
use maps::SnapId;
use node::Level;
use std::collections::BTreeSet;
use wire::Errno;

/// Directories or pages of them that are looked through in one step.
const MAX_STEPS: usize = 16;

/// Removed snapshots.
///
/// Invariants: at most one load of the walk is in flight; only what no live snapshot contains is removed.
#[derive(Default)]
pub(super) struct Trimming {
    /// Snapshots whose removal the monitors were asked for.
    asked: BTreeSet<SnapId>,
    /// Those that they have removed.
    given_back: BTreeSet<SnapId>,
    walk: Option<Walk>,
}

/// The walk over what a snapshot contained.
struct Walk {
    snap: SnapId,
    left: Vec<Step>,
    waits_for: Option<Need>,
}

/// A part of the walk that is left. The live inode of a directory tells which snapshots are left when its
/// entries are looked at: clients make others meanwhile.
#[derive(Clone)]
enum Step {
    Dir(Ino),
    /// The entries of a fragment after an omap key.
    Entries(DirFrag, Vec<u8>),
}

impl Step {
    fn dir(&self) -> Ino {
        match self {
            Self::Dir(ino) => *ino,
            Self::Entries(dir, _) => dir.ino,
        }
    }
}

impl Trimming {
    /// The monitors have removed a snapshot from the data pool, or refuse to.
    pub fn given_back(&mut self, env: &mut Env, snap: SnapId, failure: Option<Errno>) {
        if let Some(errno) = failure {
            let why = errno.name().unwrap_or("an unknown error");
            let text = format!("the monitors do not remove snapshot {snap} from the data pool: {why}");
            env.log(Level::Error, "snapshot_not_removed", text);
        }
        self.given_back.insert(snap);
    }

    /// True if it is walking over directories.
    pub fn is_walking(&self) -> bool {
        self.walk.is_some()
    }

    /// Goes on with what is due.
    pub fn advance(
        &mut self,
        env: &mut Env,
        cache: &mut Cache,
        sessions: &mut Sessions,
        takes_changes: bool,
    ) {
        // Nothing moves while this goes on. What rank 0 has trimmed, another rank's table does not tell.
        let is_first = env.cfg().rank == 0;
        if !is_first || env.stage() != Stage::Active || cache.snaps.lsn() > env.journal().durable() {
            return;
        }
        for (snap, _) in cache.snaps.trimming() {
            if stdx::mutants::is_active("mds_keeps_clones_of_removed_snapshots") {
                self.given_back.insert(snap);
            } else if self.asked.insert(snap) {
                env.effect(Effect::RemoveSnap(snap));
            }
        }
        if !takes_changes {
            return;
        }
        if self.walk.is_none() {
            let next = cache.snaps.trimming().find(|(snap, _)| self.given_back.contains(snap));
            self.walk = next.map(|(snap, record)| Walk {
                snap,
                left: vec![Step::Dir(record.info.ino)],
                waits_for: None,
            });
        }
        let Some(walk) = &mut self.walk else { return };
        for _ in 0..MAX_STEPS {
            if walk.waits_for.is_some() {
                return;
            }
            let Some(step) = walk.left.pop() else {
                let snap = walk.snap;
                self.walk = None;
                self.asked.remove(&snap);
                self.given_back.remove(&snap);
                let updates = vec![Update::Snapshot { snap, record: None }];
                commit(env, cache, sessions, "snapshot trimmed", updates);
                return;
            };
            walk.take(env, cache, sessions, step);
        }
    }

    /// A load has ended.
    pub fn loaded(&mut self, env: &mut Env, cache: &mut Cache, sessions: &mut Sessions, loaded: &Loaded) {
        let Some(walk) = self.walk.as_mut().filter(|walk| walk.waits_for.as_ref() == Some(&loaded.need))
        else {
            return;
        };
        walk.waits_for = None;
        let Some(step) = walk.left.pop() else { return };
        let has_inode = cache.inodes.contains_key(&step.dir().head());
        match (step, &loaded.need, &loaded.page) {
            // Without an inode a directory is gone with all that was in it.
            (_, Need::Inode(_), _) if !has_inode => {}
            (Step::Entries(dir, after), Need::Page(..), Some(page)) if has_inode => {
                walk.take_page(env, cache, sessions, (dir, &after), page.last.as_ref());
            }
            // A damaged page: its copies stay.
            (Step::Entries(..), Need::Page(..), None) => {}
            (step, ..) => walk.left.push(step),
        }
    }
}

impl Walk {
    fn take(&mut self, env: &mut Env, cache: &mut Cache, sessions: &mut Sessions, step: Step) {
        let Some(inode) = cache.inodes.get(&step.dir().head()) else {
            return self.fetch(env, Need::Inode(step.dir().head()), step);
        };
        match &step {
            Step::Dir(ino) => {
                let entries = |frag| Step::Entries(DirFrag { ino: *ino, frag }, Vec::new());
                self.left.extend(inode.data.fragtree.leaves().into_iter().map(entries));
            }
            Step::Entries(dir, after) => {
                if after.is_empty() && cache.dirs.get(dir).is_some_and(|d| d.complete) {
                    self.take_page(env, cache, sessions, (*dir, after), None);
                } else {
                    self.fetch(env, Need::Page(*dir, after.clone()), step);
                }
            }
        }
    }

    fn fetch(&mut self, env: &mut Env, need: Need, step: Step) {
        self.left.push(step);
        self.waits_for = Some(need.clone());
        env.due(Due::Load(need, None));
    }

    /// Looks through the entries after a key up to `last`, which are cached, as is the directory's inode.
    fn take_page(
        &mut self,
        env: &mut Env,
        cache: &mut Cache,
        sessions: &mut Sessions,
        (dir, after): (DirFrag, &[u8]),
        last: Option<&DentryKey>,
    ) {
        if let Some(last) = last {
            self.left.push(Step::Entries(dir, last.to_omap()));
        }
        let (Some(d), Some(inode)) = (cache.dirs.get(&dir), cache.inodes.get(&dir.ino.head())) else {
            return;
        };
        let left = cache.snap_context(cache.realm_of(inode)).snaps;
        let mut updates = Vec::new();
        for (key, slot) in d.page(after, last) {
            let SlotLink::Primary(state) = slot.link(key) else {
                if !slot.is_null() && is_dead(key, slot.first(), &left) {
                    updates.push(Update::Dentry { dir, key: key.clone(), value: None });
                }
                continue;
            };
            if slot.first() <= self.snap && self.snap <= key.snap && is_dir(cache, state) {
                self.left.push(Step::Dir(state.ino));
            }
            if is_dead(key, slot.first(), &left) {
                updates.push(Update::Dentry { dir, key: key.clone(), value: None });
                updates.push(Update::Forget { inode: state });
            }
        }
        if !updates.is_empty() {
            commit(env, cache, sessions, "trim snapshot", updates);
        }
    }
}

fn is_dir(cache: &Cache, state: InodeKey) -> bool {
    cache.inodes.get(&state).is_some_and(|inode| inode.data.is_dir())
}

/// True for a copy that none of these snapshots contains.
fn is_dead(key: &DentryKey, first: SnapId, snaps: &[SnapId]) -> bool {
    let snaps = if stdx::mutants::is_active("mds_trims_what_others_need") { &[] } else { snaps };
    !key.is_head() && !snaps.iter().any(|snap| first <= *snap && *snap <= key.snap)
}
