//! `dump top`: the clients that ask most, and the directories that have most to do and most in them. Who
//! shows them asks every few seconds, so neither the time that this takes nor its size grows with the number
//! of clients or of cached inodes.

use super::Rank;
use super::sessions::Session;
use crate::authority::Hold;
use crate::cache::Cache;
use crate::types::ClientId;
use fsfmt::{Ino, NestStat};
use maps::MdsRank;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BinaryHeap};

/// The most of each that is told.
const MOST: usize = 1000;
/// Entries that are looked at in search of directories with much in them, and directories whose load is added
/// up: some milliseconds.
const LOOKS: usize = 10_000;
/// The characters that are told of a path: its end tells more than its beginning.
const MOST_OF_PATH: usize = 200;

impl Rank {
    /// So many of the clients that ask most, and of the directories of this rank with most load and with most
    /// bytes.
    pub fn top(&self, sessions: usize, dirs: usize) -> Value {
        let (by_size, is_whole) = largest(&self.cache, dirs.min(MOST));
        json!({
            "num_sessions": self.sessions.iter().count(),
            "sessions": self.busiest_sessions(sessions.min(MOST)),
            "dirs_by_load": self.busiest_dirs(dirs.min(MOST)),
            "dirs_by_size": by_size,
            "seen_all_dirs": is_whole,
        })
    }

    fn busiest_sessions(&self, most: usize) -> Vec<Value> {
        let now = self.env.now();
        let rank = |s: &Session| (s.requests_per_s(now), s.inodes().len());
        let all = self.sessions.iter().map(|(client, s)| (rank(s), client, s));
        let mut all: Vec<((f64, usize), ClientId, &Session)> = all.collect();
        let order = |(a, ..): &((f64, usize), _, _), (b, ..): &((f64, usize), _, _)| {
            b.0.total_cmp(&a.0).then(b.1.cmp(&a.1))
        };
        if all.len() > most {
            all.select_nth_unstable_by(most, order);
            all.truncate(most);
        }
        all.sort_by(order);
        all.into_iter().map(|(_, client, s)| s.outline(now, client)).collect()
    }

    fn busiest_dirs(&self, most: usize) -> Vec<Value> {
        let loads = self.balance.popularity.loads_of_busiest(&self.cache, LOOKS);
        // What is done in a shard is done in its directory.
        let mut named: BTreeMap<Ino, (f64, f64)> = BTreeMap::new();
        for (dir, nested) in &loads.nested {
            let sum = named.entry(dir.as_shard().map_or(*dir, |shard| shard.ino)).or_default();
            sum.0 += nested;
            sum.1 += loads.alone.get(dir).copied().unwrap_or_default();
        }
        let mut all: Vec<(Ino, (f64, f64))> = named.into_iter().filter(|(dir, _)| !dir.is_stray()).collect();
        all.sort_by(|(_, (a, _)), (_, (b, _))| b.total_cmp(a));
        let round = |load: f64| (load * 10.0).round() / 10.0;
        let told = |(dir, (nested, alone)): (Ino, (f64, f64))| {
            let path = path_of(&self.cache, dir)?;
            Some(json!({ "path": path, "pop_auth_subtree": round(nested), "pop_me": round(alone) }))
        };
        all.into_iter().filter_map(told).take(most).collect()
    }
}

/// The largest cached directories of this rank by what is in and below them, and whether all were looked at.
/// None is larger than the one that it is in, so they are found from above.
fn largest(cache: &Cache, most: usize) -> (Vec<Value>, bool) {
    let size = |dir: Ino| {
        let stat = cache.inodes.get(&dir.head()).map(|inode| &inode.data.rstat);
        (stat.map_or((0, 0), |stat| (stat.rbytes, stat.rfiles)), dir)
    };
    let mut heap: BinaryHeap<_> = own_roots(cache).map(size).collect();
    let (mut found, mut looks) = (Vec::new(), LOOKS);
    while let Some((_, dir)) = heap.pop().filter(|_| found.len() < most) {
        let inode = cache.inodes.get(&dir.head()).filter(|_| !dir.is_shard());
        if let Some((inode, path)) = inode.zip(path_of(cache, dir)) {
            let NestStat { rbytes, rfiles, rsubdirs, .. } = inode.data.rstat;
            found.push(json!({ "path": path, "rbytes": rbytes, "rfiles": rfiles, "rsubdirs": rsubdirs }));
        }
        heap.extend(cache.dirs_in_up_to(dir, &mut looks).map(size));
    }
    (found, looks > 0)
}

/// The roots of the subtrees that are this rank's.
fn own_roots(cache: &Cache) -> impl Iterator<Item = Ino> {
    let all = cache.subtrees.iter().map(|(root, hold, _)| (root, hold));
    let own = all.filter(|(root, hold)| matches!(hold, Hold::Own | Hold::Settling) && !root.is_stray());
    // What is in no subtree is the first rank's.
    let first = cache.subtrees.own() == MdsRank(0) && cache.subtrees.hold(Ino::ROOT).is_none();
    first.then_some(Ino::ROOT).into_iter().chain(own.map(|(root, _)| root))
}

/// The path of a directory for people; `None` if it is not below the root.
fn path_of(cache: &Cache, dir: Ino) -> Option<String> {
    let path = cache.path_of(dir.head()).ok().flatten()?;
    let path = format!("/{}", String::from_utf8_lossy(&path));
    let more = path.chars().count().saturating_sub(MOST_OF_PATH);
    Some(match more {
        0 => path,
        more => path.chars().skip(more).fold("…".to_owned(), |mut end, c| {
            end.push(c);
            end
        }),
    })
}
