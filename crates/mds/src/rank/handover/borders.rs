//! Recursive statistics cross the borders of subtrees: the rank that has a subtree tells the rank of the
//! directory above what it amounts to, until that answers that it counts this.

use super::Rank;
use crate::authority::{Auth, Hold};
use crate::cache::Cache;
use crate::ops::{Draft, count};
use crate::rank::commit::commit;
use crate::rank::effect::Effect;
use crate::rank::env::Due;
use crate::types::{Need, RankPeer, Stop};
use fsfmt::{Counted, Ino, InodeData, InodeKey, NestStat, Update};
use node::Level;
use peer::{MdsCounted, MdsStats, SubtreeStat};
use std::collections::{BTreeMap, BTreeSet};
use wire::{DecodeError, Reader, Writer};

/// Subtrees in one message.
const MOST_TOLD: usize = 200;

/// The statistics of a subtree's root.
fn stat_of(root: &InodeData) -> SubtreeStat {
    let accounted = Writer::encode(&root.counted_so_far());
    SubtreeStat { root: root.ino.0, accounted, rstat: Writer::encode(&root.to_count()) }
}

/// The statistics of a subtree's root, decoded.
struct Told {
    root: Ino,
    /// What the directory above counts, unless it has a border noted.
    accounted: Counted,
    counted: Counted,
}

impl Told {
    fn decode(m: &SubtreeStat) -> Result<Self, DecodeError> {
        let (accounted, counted) = (Reader::new(&m.accounted).get()?, Reader::new(&m.rstat).get()?);
        Ok(Self { root: Ino(m.root), accounted, counted })
    }
}

impl Rank {
    /// Tells other ranks the statistics of this rank's subtrees in their directories.
    pub(in crate::rank) fn tell_stats(&mut self) {
        for (rank, roots) in self.accounting.untold(&self.cache) {
            for some in roots.chunks(MOST_TOLD) {
                let m = MdsStats { stats: some.iter().map(|root| stat_of(root)).collect() };
                self.env.effect(Effect::SendRank(rank, m.into()));
            }
        }
    }

    /// Another rank tells the statistics of subtrees in directories of this one. What has changed is counted.
    /// It is told again until it is counted for good, so what can't be counted now is left out.
    pub(super) fn count_stats(&mut self, from: RankPeer, m: &MdsStats) {
        let mut answer = MdsCounted::default();
        let mut updates = Vec::new();
        let mut draft = Draft::new(&self.cache, self.env.stamp());
        let mut loads = Vec::new();
        let mut dirs = BTreeSet::new();
        for stat in &m.stats {
            let told = match Told::decode(stat) {
                Ok(told) => told,
                Err(e) => {
                    let rank = from.rank;
                    let text = format!("rank {rank} tells statistics of subtree {:x}: {e}", stat.root);
                    return self.env.log(Level::Warn, "bad_message_seen", text);
                }
            };
            let is_believed = self.cache.subtrees.hold(told.root) == Some(Hold::Foreign(from.rank));
            let Some(record) = self.cache.subtrees.record(told.root).filter(|_| is_believed) else {
                continue;
            };
            let dir = self.cache.subtrees.around(told.root, record).head();
            match self.cache.authority(dir.ino) {
                Ok(Auth::Here) => {}
                Ok(_) => continue,
                Err(need) => {
                    loads.push(need);
                    continue;
                }
            }
            dirs.insert(dir);
            let before = self.cache.borders.counted(told.root).unwrap_or(&told.accounted);
            if *before == told.counted {
                if self.cache.borders.event(told.root) <= self.env.journal().durable() {
                    answer.stats.push(stat.clone());
                }
                continue;
            }
            match draft.inode(dir) {
                Ok(above) => {
                    count(above, before, &told.counted);
                    updates.push(Update::Border { root: told.root, counted: told.counted });
                }
                Err(Stop::Need(needs)) => loads.extend(needs),
                Err(Stop::Fail(_)) => {}
            }
        }
        answer.limited = limited_above(&self.cache, &dirs);
        let loads = loads.into_iter().filter(|need| matches!(need, Need::Inode(_)));
        if self.write_back.takes_changes(&self.env) && !updates.is_empty() {
            updates.extend(draft.finish_quietly());
            let Self { env, cache, sessions, .. } = self;
            commit(env, cache, sessions, "account", updates);
        }
        loads.for_each(|need| self.env.due(Due::Load(need, None)));
        if !answer.stats.is_empty() || !answer.limited.is_empty() {
            self.env.effect(Effect::SendRank(from.rank, answer.into()));
        }
    }

    /// The rank of the directories above counts this.
    pub(super) fn stats_counted(&mut self, m: &MdsCounted) {
        for told in &m.stats {
            if let Ok(counted) = Reader::new(&told.rstat).get() {
                self.accounting.counted(Ino(told.root), counted);
            }
        }
        for (dir, rstat) in &m.limited {
            if let Ok(rstat) = Reader::new(rstat).get() {
                self.cache.renew_stat(Ino(*dir).head(), rstat);
            }
        }
    }
}

/// What directories amount to that are above these, or among them, and limit their number of files.
fn limited_above(cache: &Cache, dirs: &BTreeSet<InodeKey>) -> BTreeMap<u64, Vec<u8>> {
    if !cache.may_have_quotas {
        return BTreeMap::new();
    }
    let above = dirs.iter().filter_map(|dir| cache.inodes.get(dir)).flat_map(|dir| cache.upwards(dir));
    let limited: BTreeMap<u64, &NestStat> = above
        .filter(|inode| inode.data.quota.max_files > 0)
        .map(|inode| (inode.data.ino.0, &inode.data.rstat))
        .collect();
    limited.into_iter().map(|(ino, rstat)| (ino, Writer::encode(rstat))).collect()
}
