//! The balancer (the paper's section 4.2): every few seconds it looks whether this rank has more to do than
//! the others, and then chooses directories for those that have less. A load that stays as it is leads to no
//! movement: what is uneven must be so for a while, by more than is tolerated, and no directory that has just
//! come is given away.

mod choice;
mod share;
mod spread;

use super::env::Env;
use super::migration::{Migration, own};
use super::popularity::{Loads, Popularity};
use crate::authority::{Auth, Hold};
use crate::cache::Cache;
use fsfmt::{DirFrag, Ino};
use maps::MdsRank;
use node::Level;
use spread::Spread;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use stdx::Instant;

/// The time for which what another rank has told of its load counts.
const BELIEVED_FOR: Duration = Duration::from_secs(4);
/// The looks for which a directory stays that has come, or could not leave.
const RESTS_FOR: u32 = 12;
/// Looks in a row that must find the same before something is done.
const LOOKS: u32 = 2;
/// The number of subtrees beyond which those in which nothing is done go back to the rank around them.
const MOST_SUBTREES: usize = 100;

/// What the balancer knows, and what it is about to give away.
///
/// Invariant: nothing leaves that rests.
#[derive(Default)]
pub(super) struct Balance {
    /// The file system's flag.
    is_on: bool,
    pub popularity: Popularity,
    /// The loads that other ranks have told, and when.
    heard: BTreeMap<MdsRank, (f64, Instant)>,
    /// Looks in a row that found that this rank has too much.
    uneven: u32,
    next_look: Instant,
    /// What is to be given away, one after the other.
    leaving: VecDeque<(Ino, MdsRank)>,
    /// Fragments that are to be split, so that parts of them can be given away, and into how many parts, as a
    /// power of two.
    splits: Vec<(DirFrag, u32)>,
    /// A directory that other ranks are to answer for too.
    read_by_many: Option<Ino>,
    /// Directories of which replicas are of no use any more.
    read_by_few: Vec<Ino>,
    /// Directories that stay, since these instants.
    resting: BTreeMap<Ino, Instant>,
    /// Directories that get no replicas, since these instants: they were needed without, or are about to.
    unshared: BTreeMap<Ino, Instant>,
}

impl Balance {
    /// Switches it on or off.
    pub fn set_on(&mut self, is_on: bool) {
        self.is_on = is_on;
    }

    /// Another rank has told its load.
    pub fn heard(&mut self, now: Instant, rank: MdsRank, load: f64) {
        self.heard.insert(rank, (load, now));
    }

    /// A directory has come, or did not leave: it stays for a while.
    pub fn rest(&mut self, now: Instant, dir: Ino) {
        self.resting.insert(dir, now);
    }

    /// A directory has replicas, or was needed without: it gets none for a while.
    pub fn keep_unshared(&mut self, now: Instant, dir: Ino) {
        self.unshared.insert(dir, now);
    }

    /// A second has passed.
    pub fn second_passed(&mut self, env: &Env) {
        self.popularity.decay();
        let (now, rests_for) = (env.now(), env.cfg().options.balance_interval * RESTS_FOR);
        for rest in [&mut self.resting, &mut self.unshared] {
            rest.retain(|_, since| now.since(*since) < rests_for);
        }
    }

    /// The next directory that goes to another rank.
    pub fn next(&mut self, env: &mut Env, cache: &Cache, migration: &Migration) -> Option<(Ino, MdsRank)> {
        if !self.is_on || cache.is_trimming() || migration.ranks.is_empty() {
            self.leaving.clear();
            return None;
        }
        let now = env.now();
        if self.leaving.is_empty() && now >= self.next_look {
            self.next_look = now + env.cfg().options.balance_interval;
            self.look(env, cache, migration);
        }
        while let Some((dir, to)) = self.leaving.pop_front() {
            if self.may_go(cache, migration, dir) {
                self.rest(now, dir);
                return Some((dir, to));
            }
        }
        None
    }

    /// The next one, if it may go beside those that have just begun to leave.
    pub fn next_beside(
        &mut self,
        now: Instant,
        cache: &Cache,
        migration: &Migration,
        is_apart: impl Fn(Ino) -> bool,
    ) -> Option<(Ino, MdsRank)> {
        let (dir, to) = self.leaving.pop_front_if(|(dir, _)| is_apart(*dir))?;
        if !self.may_go(cache, migration, dir) {
            return None;
        }
        self.rest(now, dir);
        Some((dir, to))
    }

    /// True if more is to be given away.
    pub fn has_chosen(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// Takes the fragments that are to be split, so that parts of them can be given away.
    pub fn take_splits(&mut self) -> Vec<(DirFrag, u32)> {
        std::mem::take(&mut self.splits)
    }

    /// Takes the directory that other ranks are to answer for too.
    pub fn take_read_by_many(&mut self) -> Option<Ino> {
        self.read_by_many.take()
    }

    /// Takes the directories of which nobody needs replicas any more.
    pub fn take_read_by_few(&mut self) -> Vec<Ino> {
        std::mem::take(&mut self.read_by_few)
    }

    fn look(&mut self, env: &mut Env, cache: &Cache, migration: &Migration) {
        let Some(loads) = self.loads(env, migration) else {
            self.uneven = 0;
            return;
        };
        self.read_by_few = cache.replicas.given().filter(|dir| !self.popularity.has(*dir)).collect();
        let least = env.cfg().options.balance_least as f64;
        let shares = share::shares(&loads, own(env), least);
        if shares.is_empty() {
            self.uneven = 0;
            self.return_idle_shards(cache);
            return self.return_idle_subtree(cache, migration);
        }
        self.uneven += 1;
        if self.uneven < LOOKS {
            return;
        }
        self.uneven = 0;
        let mut here = self.popularity.loads(cache);
        let mut left = loads[&own(env)];
        for (to, wanted) in shares {
            // With more than this, the other rank would have more than this one.
            let most = (left - loads[&to]) / 2.0;
            let may_go = |dir| self.may_go(cache, migration, dir);
            let chosen = choice::choose(&here, (wanted, most), may_go);
            if chosen.is_empty() {
                let least = left;
                left -= self.spread(env, cache, migration, &here, (loads.len(), to, wanted, most));
                if left == least {
                    let mean = loads.values().sum::<f64>() / loads.len() as f64;
                    let least = mean.max(env.cfg().options.replicate_least as f64);
                    self.replicate(cache, migration, &here, least);
                }
            }
            for (dir, load) in chosen {
                left -= load;
                let text = format!("gives {dir} ({load:.0} of {wanted:.0} requests/s) to rank {to}");
                env.log(Level::Info, "load_shared", text);
                here.remove(dir);
                self.leaving.push_back((dir, to));
            }
        }
    }

    /// Spreads the busiest directory; returns the load that leaves with parts of it.
    fn spread(
        &mut self,
        env: &mut Env,
        cache: &Cache,
        migration: &Migration,
        here: &Loads,
        (ranks, to, wanted, most): (usize, MdsRank, f64, f64),
    ) -> f64 {
        let is_named = |dir: Ino| cache.inodes.get(&dir.head()).is_some_and(|inode| inode.is_named_dir());
        let is_free = |dir: Ino| !migration.stay.contains_key(&dir) && !is_pinned(cache, dir);
        let may_be_spread = |dir: Ino| is_named(dir) && is_free(dir);
        let is_leaving = |root: Ino| self.is_leaving(root);
        match spread::spread(cache, here, (ranks, wanted, most), may_be_spread, is_leaving) {
            None => 0.0,
            Some(Spread::Split(fragments)) => {
                self.splits = fragments;
                0.0
            }
            Some(Spread::Give(shards, load)) => {
                let text = format!("gives {shards:?} ({load:.0} of {wanted:.0} requests/s) to rank {to}");
                env.log(Level::Info, "load_shared", text);
                self.leaving.extend(shards.into_iter().map(|root| (root, to)));
                load
            }
        }
    }

    /// Chooses a directory that other ranks are to answer for too.
    fn replicate(&mut self, cache: &Cache, migration: &Migration, here: &Loads, least: f64) {
        let is_free = |dir: Ino| !self.unshared.contains_key(&dir) && !migration.stay.contains_key(&dir);
        let is_named = |dir: Ino| cache.inodes.get(&dir.head()).is_some_and(|inode| inode.is_named_dir());
        let may_have = |dir: Ino| is_named(dir) && is_free(dir) && !cache.replicas.is_given(dir);
        self.read_by_many = spread::replicate(cache, here, least, may_have);
    }

    fn is_leaving(&self, root: Ino) -> bool {
        self.leaving.iter().any(|(other, _)| *other == root)
    }

    /// Gives shards in which nothing is done back to the ranks of their directories, on which clients can
    /// rely again then. One that has come rests first.
    fn return_idle_shards(&mut self, cache: &Cache) {
        let own = cache.subtrees.iter().filter(|(root, hold, _)| *hold == Hold::Own && root.is_shard());
        let idle = own.filter(|(root, ..)| !self.resting.contains_key(root) && !self.popularity.has(*root));
        let back = idle.filter_map(|(root, _, record)| {
            match cache.authority(cache.subtrees.around(root, record?)) {
                Ok(Auth::Rank(rank)) => Some((root, rank)),
                _ => None,
            }
        });
        self.leaving.extend(back);
    }

    /// Gives a subtree in which nothing is done to the rank that has what is around it, if there are many.
    fn return_idle_subtree(&mut self, cache: &Cache, migration: &Migration) {
        let own = cache.subtrees.iter().filter(|(root, hold, _)| *hold == Hold::Own && !root.is_base());
        let roots: Vec<Ino> = own.map(|(root, ..)| root).collect();
        if roots.len() <= MOST_SUBTREES {
            return;
        }
        let busy = self.popularity.loads(cache);
        let around =
            |root: &Ino| match cache.authority(cache.subtrees.around(*root, cache.subtrees.record(*root)?)) {
                Ok(Auth::Rank(rank)) if self.may_go(cache, migration, *root) => Some((*root, rank)),
                _ => None,
            };
        let idle = roots.iter().filter(|root| !busy.nested.contains_key(root));
        let back = idle.filter_map(around).next();
        self.leaving.extend(back);
    }

    /// The loads of directories and ranks, for people.
    pub fn describe(&self, env: &Env, cache: &Cache, migration: &Migration) -> serde_json::Value {
        let Loads { alone, nested, .. } = self.popularity.loads(cache);
        let dir = |(dir, nested): (&Ino, &f64)| {
            let path = cache.path_of(dir.head()).ok().flatten().unwrap_or_default();
            serde_json::json!({
                "path": String::from_utf8_lossy(&path),
                "dirfrag": format!("0x{:x}", dir.0),
                "is_auth": true,
                "pop_me": round(alone.get(dir).copied().unwrap_or_default()),
                "pop_auth_subtree": round(*nested),
                "dir_rep": cache.replicas.ranks_of(dir).collect::<Vec<i32>>(),
            })
        };
        let dirfrags: Vec<serde_json::Value> = nested.iter().map(dir).collect();
        let others = self.heard.iter().filter(|(rank, _)| migration.ranks.contains_key(rank));
        let others = others.map(|(rank, (load, _))| (*rank, *load));
        let all = others.chain([(own(env), self.popularity.total())]);
        let load = |(rank, load)| (format!("mds.{rank}"), serde_json::json!({ "mds_load": round(load) }));
        let all: serde_json::Map<String, serde_json::Value> = all.map(load).collect();
        serde_json::json!({ "dirfrags": dirfrags, "mds_load": all })
    }

    /// The loads of all ranks that take part; `None` if one has not told.
    fn loads(&self, env: &Env, migration: &Migration) -> Option<BTreeMap<MdsRank, f64>> {
        let told = |rank: MdsRank| {
            let (load, at) = self.heard.get(&rank)?;
            (env.now().since(*at) < BELIEVED_FOR).then_some((rank, *load))
        };
        let others = migration.ranks.keys().filter(|rank| migration.takes_subtrees(**rank));
        let mut loads = others.map(|rank| told(*rank)).collect::<Option<BTreeMap<_, _>>>()?;
        loads.insert(own(env), self.popularity.total());
        Some(loads)
    }

    /// True if the balancer may give a directory away.
    fn may_go(&self, cache: &Cache, migration: &Migration, dir: Ino) -> bool {
        let is_here = matches!(cache.authority(dir), Ok(Auth::Here));
        let is_free = !self.resting.contains_key(&dir) && !migration.stay.contains_key(&dir);
        let named = dir.as_shard().map_or(dir, |shard| shard.ino);
        let is_dir = cache.inodes.get(&named.head()).is_some_and(|inode| inode.is_named_dir());
        is_dir && is_here && is_free && !is_pinned(cache, named) && cache.given_below(named).is_none()
    }
}

/// True if a directory, or the nearest one above it that has a pin, is pinned to a rank.
fn is_pinned(cache: &Cache, dir: Ino) -> bool {
    let mut at = Some(dir);
    while let Some(inode) = at.and_then(|dir| cache.inodes.get(&dir.head())) {
        if cache.pin_of(inode.data.ino).is_some() {
            return true;
        }
        at = inode.place.as_ref().map(|(dir, _)| dir.ino);
    }
    false
}

fn round(load: f64) -> f64 {
    (load * 100.0).round() / 100.0
}
