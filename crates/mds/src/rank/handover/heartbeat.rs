//! Heartbeats: once a second, active ranks tell one another which subtrees they have, and whether they hand
//! something over. The message that a subtree has moved may be lost; a rank that sees by a heartbeat that it
//! has missed one reads the partition.

use super::Rank;
use crate::authority::{Hold, Records};
use crate::rank::effect::Effect;
use crate::rank::migration::{Read, own};
use fsfmt::Ino;
use maps::MdsRank;
use peer::MdsHeartbeat;
use std::collections::BTreeMap;

/// Subtrees of which the records are read at once.
const MOST_READ: usize = 64;

impl Rank {
    /// Once a second, tells the other ranks how this one is.
    pub(in crate::rank) fn send_heartbeats(&mut self) {
        if !self.is_active() {
            return;
        }
        self.drop_old_ahead();
        let has_more = self.has_absent_clients() || !self.migration.exported.is_empty();
        let own = self.cache.subtrees.iter().filter(|(_, hold, _)| *hold == Hold::Own);
        let roots: Vec<u64> = own.map(|(root, ..)| root.0).collect();
        let load = self.balance.popularity.total().round() as u64;
        for rank in self.migration.ranks.keys().copied().collect::<Vec<_>>() {
            let mut exports = self.migration.exports.values();
            let hands_over = has_more || exports.any(|export| export.to == rank && export.is_handing());
            let m = MdsHeartbeat { hands_over, roots: roots.clone(), load };
            self.env.effect(Effect::SendRank(rank, m.into()));
        }
    }

    /// Another rank says how it is.
    pub(super) fn heard(&mut self, from: MdsRank, m: &MdsHeartbeat) {
        self.balance.heard(self.env.now(), from, m.load as f64);
        if !m.hands_over {
            self.migration.unconfirmed.remove(&from);
        }
        self.ask_about(from, &m.roots);
    }

    /// Reads the records of subtrees of which this rank believes something else than that these are what
    /// another rank has.
    pub(super) fn ask_about(&mut self, rank: MdsRank, roots: &[u64]) {
        let subtrees = &self.cache.subtrees;
        let believed = subtrees.iter().filter(|(_, hold, _)| *hold == Hold::Foreign(rank));
        let missed = believed.map(|(root, ..)| root).filter(|root| !roots.contains(&root.0));
        let is_news = |root: &Ino| match subtrees.hold(*root) {
            None => true,
            Some(Hold::Foreign(other)) => other != rank,
            Some(_) => false,
        };
        let news = roots.iter().map(|root| Ino(*root)).filter(is_news);
        let asked: BTreeMap<Ino, Option<Hold>> =
            missed.chain(news).take(MOST_READ).map(|root| (root, subtrees.hold(root))).collect();
        if !asked.is_empty() {
            self.read_records(asked.keys().copied().collect::<Vec<_>>(), Read::News(asked));
        }
    }

    /// Takes in records that were read, of subtrees of which nothing else was heard meanwhile.
    pub(super) fn learn(&mut self, asked: BTreeMap<Ino, Option<Hold>>, mut records: Records) {
        let own = own(&self.env);
        for (root, believed) in asked {
            if self.cache.subtrees.hold(root) != believed {
                continue;
            }
            match records.remove(&root) {
                None => self.cache.subtrees.remove(root),
                // What is this rank's, or comes or goes, it hears of otherwise.
                Some(record) if record.rank == own || record.from == Some(own) => {}
                Some(record) => {
                    self.cache.subtrees.set_with(root, Hold::Foreign(record.rank), Some(record));
                }
            }
        }
        self.partition_changed(false);
    }
}
