//! Recursive statistics move up the tree one level at a time, some seconds late: each inode records which
//! part of its own its parent already counts (`accounted`).

use super::commit::commit;
use super::effect::Stage;
use super::env::Env;
use super::sessions::Sessions;
use crate::authority::{Auth, Hold};
use crate::cache::{Cache, Inode};
use crate::ops::{Draft, shift};
use crate::types::{Need, Stop};
use fsfmt::{Ino, InodeKey};
use std::collections::BTreeSet;
use std::time::Duration;
use stdx::Instant;

/// Maximum inodes whose statistics move in one event.
const BATCH: usize = 200;
/// The time between two steps.
const INTERVAL: Duration = Duration::from_secs(3);

/// Inodes whose parents do not count all of their statistics yet.
pub(super) struct Accounting {
    unaccounted: BTreeSet<InodeKey>,
    /// Those that somebody waits for.
    hurried: BTreeSet<InodeKey>,
    next: Instant,
}

impl Accounting {
    pub fn new(now: Instant) -> Self {
        Self { unaccounted: BTreeSet::new(), hurried: BTreeSet::new(), next: now }
    }

    /// Notes that an inode was changed or loaded.
    pub fn note(&mut self, ino: InodeKey, inode: &Inode) {
        let data = &inode.data;
        let is_counted = data.rstat == data.accounted;
        if !is_counted && ino != Ino::ROOT.head() && !data.ino.is_base() {
            self.unaccounted.insert(ino);
        }
    }

    /// Moves an inode's statistics up at the next look.
    pub fn hurry(&mut self, ino: InodeKey, now: Instant) {
        self.unaccounted.insert(ino);
        self.hurried.insert(ino);
        self.next = self.next.min(now);
    }

    /// True if the next step takes all: then these inodes may stay in the cache until it has.
    pub fn is_few(&self) -> bool {
        self.unaccounted.len() <= BATCH
    }

    /// Moves statistics one level up, if it is time and the journal takes changes.
    pub fn advance(
        &mut self,
        env: &mut Env,
        cache: &mut Cache,
        sessions: &mut Sessions,
        takes_changes: bool,
    ) {
        if env.now() < self.next {
            return;
        }
        self.next = env.now() + INTERVAL;
        if env.stage() != Stage::Active || !takes_changes || self.unaccounted.is_empty() {
            return;
        }
        let mut some = std::mem::take(&mut self.hurried);
        some.extend(self.unaccounted.iter().take(BATCH));
        let mut draft = Draft::new(cache, env.stamp());
        let mut done = Vec::new();
        for ino in some {
            match account(&mut draft, cache, ino) {
                Ok(()) | Err(Stop::Fail(_)) => done.push(ino),
                Err(Stop::Need(needs)) if needs.iter().any(|n| matches!(n, Need::Inode(_))) => done.push(ino),
                Err(Stop::Need(_)) => {}
            }
        }
        let updates = draft.finish_quietly();
        for ino in done {
            self.unaccounted.remove(&ino);
        }
        if !updates.is_empty() {
            commit(env, cache, sessions, "account", updates);
        }
    }
}

fn account(draft: &mut Draft<'_>, cache: &Cache, ino: InodeKey) -> Result<(), Stop> {
    let place = cache.inodes.get(&ino).and_then(|i| i.place.clone());
    let Some((dir, _)) = place.filter(|(dir, _)| !dir.ino.is_base() || dir.ino == Ino::ROOT) else {
        return Ok(());
    };
    for here in [dir.ino, ino.ino] {
        match cache.authority(here)? {
            Auth::Here => {}
            // The root is counted before it leaves. What is below it is counted where it goes: each step
            // would change the root again.
            Auth::Frozen(root) if root == ino.ino && cache.subtrees.hold(root) == Some(Hold::Settling) => {}
            Auth::Frozen(root) => return Err(Need::Thaw(root).into()),
            // What comes here is noted again.
            Auth::Rank(_) => return Ok(()),
        }
    }
    // A parent that is not cached counts it at its next use: its child is then examined again.
    cache.inode(dir.inode())?;
    let inode = draft.inode(ino)?;
    if inode.rstat == inode.accounted {
        return Ok(());
    }
    let (old, new) = (inode.accounted.clone(), inode.rstat.clone());
    inode.accounted = new.clone();
    shift(&mut draft.inode(dir.inode())?.rstat, &old, &new);
    Ok(())
}
