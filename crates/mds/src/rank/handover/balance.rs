//! What the balancer gives away.

use super::Rank;

impl Rank {
    /// Says whether the file system's metadata is balanced.
    pub fn set_balanced(&mut self, is_on: bool) {
        self.balance.set_on(is_on);
    }

    /// Once a second: perhaps hands a directory over to a rank that has less to do.
    pub(in crate::rank) fn advance_balance(&mut self) {
        let Self { env, cache, migration, balance, .. } = self;
        balance.second_passed(env);
        let is_idle =
            migration.is_idle(cache) && migration.recalls.is_empty() && migration.stopping.is_none();
        if !self.is_active() || !is_idle || self.has_absent_clients() {
            return;
        }
        let Self { env, cache, migration, balance, .. } = self;
        let next = balance.next(env, cache, migration);
        if let Some(dir) = balance.next_split() {
            self.fragments.split_for_load(&self.cache, dir);
        }
        // If it can't be now, another one is chosen later.
        match next {
            Some((root, to)) if root.is_shard() => {
                let shard = root.as_shard().expect("the root of a shard");
                let _ = self.start_export_of_shard(shard, to);
            }
            Some((dir, to)) => drop(self.start_export(dir, to)),
            None => {}
        }
    }

    /// The loads of directories and ranks, for people.
    pub fn load_list(&self) -> serde_json::Value {
        self.balance.describe(&self.env, &self.cache, &self.migration)
    }
}
