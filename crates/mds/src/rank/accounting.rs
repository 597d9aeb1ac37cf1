//! Recursive statistics move up the tree one level at a time, some seconds late: each inode records which
//! part of its own its parent already counts (`accounted`). Of the root of a subtree, the rank of the
//! directory above records it ([`Borders`](crate::cache::Borders)).

use super::commit::commit;
use super::effect::Stage;
use super::env::Env;
use super::sessions::Sessions;
use crate::authority::{Auth, Hold};
use crate::cache::{Cache, Inode};
use crate::ops::{Draft, shift};
use crate::types::{Need, Stop};
use fsfmt::{Counted, Ino, InodeData, InodeKey, Update};
use maps::MdsRank;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use stdx::Instant;

/// Maximum inodes whose statistics move in one event.
const BATCH: usize = 200;
/// The time between two steps.
const INTERVAL: Duration = Duration::from_secs(3);
/// The time after which the rank of a directory is told again what has changed in a shard of it: people look
/// at the times and the size of directories.
const SHARDS_INTERVAL: Duration = Duration::from_millis(100);

/// Inodes whose parents do not count all of their statistics yet.
pub(super) struct Accounting {
    unaccounted: BTreeSet<InodeKey>,
    /// Those that somebody waits for.
    hurried: BTreeSet<InodeKey>,
    next: Instant,
    /// A shard of this rank has changed since its directory's rank was told.
    shards_changed: bool,
    /// The earliest time at which that is told.
    shards_at: Instant,
    /// What is counted of this rank's subtrees above them, as far as this rank was told.
    counted: BTreeMap<Ino, Counted>,
}

impl Accounting {
    pub fn new(now: Instant) -> Self {
        Self {
            unaccounted: BTreeSet::new(),
            hurried: BTreeSet::new(),
            next: now,
            shards_changed: false,
            shards_at: now,
            counted: BTreeMap::new(),
        }
    }

    /// Notes that an inode was changed or loaded.
    pub fn note(&mut self, cache: &Cache, ino: InodeKey, inode: &Inode) {
        let data = &inode.data;
        let is_counted = match cache.subtrees.record(data.ino) {
            Some(_) => self.is_counted(data),
            None => data.rstat == data.accounted,
        };
        self.shards_changed |= !is_counted && data.ino.is_shard();
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

    /// A subtree comes to this rank: what is counted of it above is not known.
    pub fn subtree_comes(&mut self, root: Ino) {
        self.counted.remove(&root);
    }

    /// The rank of the directory above a subtree counts this of it.
    pub fn counted(&mut self, root: Ino, counted: Counted) {
        self.counted.insert(root, counted);
    }

    fn is_counted(&self, root: &InodeData) -> bool {
        self.counted.get(&root.ino) == Some(&root.to_count())
    }

    /// The subtrees whose statistics other ranks have to be told, and those that are below a limited number
    /// of files: the answer tells how many there are.
    pub fn untold<'a>(&self, cache: &'a Cache) -> BTreeMap<MdsRank, Vec<&'a InodeData>> {
        let mut to: BTreeMap<MdsRank, Vec<&InodeData>> = BTreeMap::new();
        for (root, hold, record) in cache.subtrees.iter() {
            let Some(record) = record.filter(|_| hold == Hold::Own) else { continue };
            // Roots of this rank's subtrees are not evicted.
            let Some(data) = cache.inodes.get(&root.head()).map(|inode| &inode.data) else { continue };
            let is_limited = || record.prefix.iter().any(|above| above.inode.quota.max_files > 0);
            if (!self.is_counted(data) || is_limited())
                && let Ok(Auth::Rank(rank)) = cache.authority(cache.subtrees.around(root, record))
            {
                to.entry(rank).or_default().push(data);
            }
        }
        to
    }

    /// The time at which something is to be told, if that does not wait for the next step.
    pub fn deadline(&self) -> Option<Instant> {
        self.shards_changed.then_some(self.shards_at)
    }

    /// True if it is time to tell of shards, which is the caller's to do.
    fn tells_of_shards(&mut self, now: Instant) -> bool {
        let is_time = self.shards_changed && now >= self.shards_at;
        if is_time {
            (self.shards_changed, self.shards_at) = (false, now + SHARDS_INTERVAL);
        }
        is_time
    }

    /// Moves statistics one level up, if the journal takes changes. Returns whether other ranks are to be
    /// told theirs.
    pub fn advance(
        &mut self,
        env: &mut Env,
        cache: &mut Cache,
        sessions: &mut Sessions,
        takes_changes: bool,
    ) -> bool {
        if env.now() < self.next {
            return env.stage() == Stage::Active && self.tells_of_shards(env.now());
        }
        self.next = env.now() + INTERVAL;
        if env.stage() != Stage::Active {
            return false;
        }
        if !takes_changes || self.unaccounted.is_empty() {
            return true;
        }
        let mut some = std::mem::take(&mut self.hurried);
        some.extend(self.unaccounted.iter().take(BATCH));
        let mut draft = Draft::new(cache, env.stamp());
        let mut done = Vec::new();
        let mut borders = Vec::new();
        for ino in some {
            match account(&mut draft, cache, ino, &mut borders) {
                Ok(()) | Err(Stop::Fail(_)) => done.push(ino),
                Err(Stop::Need(needs)) if needs.iter().any(|n| matches!(n, Need::Inode(_))) => done.push(ino),
                Err(Stop::Need(_)) => {}
            }
        }
        let mut updates = draft.finish_quietly();
        for ino in done {
            self.unaccounted.remove(&ino);
        }
        for (root, counted) in borders {
            self.counted.insert(root, counted.clone());
            updates.push(Update::Border { root, counted });
        }
        if !updates.is_empty() {
            commit(env, cache, sessions, "account", updates);
        }
        true
    }
}

/// Adds to the directory above an inode what it does not count of that yet. What it counts of subtrees is
/// added to `borders`.
fn account(
    draft: &mut Draft<'_>,
    cache: &Cache,
    ino: InodeKey,
    borders: &mut Vec<(Ino, Counted)>,
) -> Result<(), Stop> {
    let is_root = cache.subtrees.record(ino.ino).is_some();
    let place = cache.inodes.get(&ino).and_then(|i| i.place.clone());
    let Some((dir, _)) = place.filter(|(dir, _)| !dir.ino.is_base() || dir.ino == Ino::ROOT) else {
        return Ok(());
    };
    let keeper = cache.subtrees.keeper(dir);
    for here in [keeper, ino.ino] {
        match cache.authority(here)? {
            Auth::Here => {}
            // The root is counted before it leaves. What is below it is counted where it goes: each step
            // would change the root again.
            Auth::Frozen(root) if root == ino.ino && cache.subtrees.hold(root) == Some(Hold::Settling) => {}
            Auth::Frozen(root) => return Err(Need::Thaw(root).into()),
            // Of a subtree of this rank it is told. What comes here is noted again.
            Auth::Rank(_) => return Ok(()),
        }
    }
    // A parent that is not cached counts it at its next use: its child is then examined again.
    cache.inode(keeper.head())?;
    let old = cache.counted(cache.inode(ino)?).rstat();
    let inode = draft.inode(ino)?;
    if inode.rstat == old {
        return Ok(());
    }
    let new = inode.rstat.clone();
    match is_root {
        true => borders.push((ino.ino, inode.to_count())),
        false => inode.accounted = new.clone(),
    }
    shift(&mut draft.inode(keeper.head())?.rstat, &old, &new);
    Ok(())
}
