//! What the balancer gives away.

use super::Rank;
use super::export::{TOGETHER, may_leave_with};
use fsfmt::Ino;
use maps::MdsRank;

impl Rank {
    /// Says whether the file system's metadata is balanced.
    pub fn set_balanced(&mut self, is_on: bool) {
        self.balance.set_on(is_on);
    }

    /// Once a second: perhaps hands a directory over to a rank that has less to do.
    pub(in crate::rank) fn advance_balance(&mut self) {
        self.balance.second_passed(&self.env);
        self.give_away();
    }

    /// Goes on with what the balancer has chosen, once nothing else is on its way.
    pub(super) fn give_away_more(&mut self) {
        if self.balance.has_chosen() {
            self.give_away();
        }
    }

    fn give_away(&mut self) {
        let Self { cache, migration, .. } = self;
        let is_idle =
            migration.is_idle(cache) && migration.recalls.is_empty() && migration.stopping.is_none();
        if !self.is_active() || !is_idle || self.has_absent_clients() {
            return;
        }
        let Self { env, cache, migration, balance, .. } = self;
        let next = balance.next(env, cache, migration);
        for (dir, bits) in balance.take_splits() {
            self.fragments.split_for_load(&self.cache, dir, bits);
        }
        let (many, few) = (self.balance.take_read_by_many(), self.balance.take_read_by_few());
        few.into_iter().for_each(|dir| self.recall_replicas(dir));
        if let Some(dir) = many {
            // If it can't be now, it is tried again after a while.
            let _ = self.start_replicas(dir);
            self.balance.keep_unshared(self.env.now(), dir);
        }
        // If it can't be now, another one is chosen later.
        if next.is_some_and(|(root, to)| self.start_export_of(root, to).is_ok()) {
            self.give_away_beside();
        }
    }

    /// Hands over more of what the balancer has chosen, together with the first: operations wait, and the
    /// journal expires, once for all of them.
    fn give_away_beside(&mut self) {
        while self.migration.exports.len() < TOGETHER {
            let Self { env, cache, migration, balance, .. } = self;
            let is_apart = |root| migration.exports.keys().all(|other| may_leave_with(cache, root, *other));
            let Some((root, to)) = balance.next_beside(env.now(), cache, migration, is_apart) else {
                return;
            };
            // If it can't be now, another one is chosen later.
            let _ = self.start_export_of(root, to);
        }
    }

    fn start_export_of(&mut self, root: Ino, to: MdsRank) -> Result<(), &'static str> {
        match root.as_shard() {
            Some(shard) => self.start_export_of_shard(shard, to),
            None => self.start_export_in_parts(root, to),
        }
    }

    /// The loads of directories and ranks, for people.
    pub fn load_list(&self) -> serde_json::Value {
        self.balance.describe(&self.env, &self.cache, &self.migration)
    }
}
