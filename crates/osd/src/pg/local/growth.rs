//! The log grows at its end and is cut off at its tail, at the primary and at the other members alike.

use super::{LocalCopy, Update};
use crate::pg::log::{Entry, Missing, entry_kind};
use crate::pg::meta::MetaChange;
use crate::pg::state::State;
use maps::{EVersion, Epoch};

impl LocalCopy {
    /// The version of the next update.
    pub fn next_version(&self, epoch: Epoch) -> EVersion {
        EVersion::new(epoch, self.info.last_update.version + 1)
    }

    /// Appends an update to log and info. By `state`, a member that follows a primary also learns if all that
    /// it refused since could be forgotten.
    pub fn append(&mut self, update: Update, sure_to: EVersion, state: State, change: &mut MetaChange) {
        let Update { entry, stats, last_user_version } = update;
        change.add_entry(&entry);
        for gone in entry.changes().into_iter().filter(|c| c.removed) {
            if self.missing.remove(&gone.key).is_some() {
                change.drop_missing(&gone.key);
            }
        }
        self.log.push(entry);
        self.missing_changed(state);
        self.info.stats = stats;
        self.info.sure_to = sure_to;
        self.log_changed(last_user_version);
        change.info(&self.info);
    }

    /// Appends an update from the primary whose objects are not here, for lack of room: what follows can be
    /// logged too. The objects are missing until there is room for them.
    pub fn append_refused(&mut self, update: Update, sure_to: EVersion, change: &mut MetaChange) {
        let (version, changes, before) = (update.entry.version, update.entry.changes(), self.info.stats);
        self.append(update, sure_to, State::ReplicaActive, change);
        for made in changes.into_iter().filter(|c| !c.removed) {
            change.add_missing(&made.key, version);
            if self.missing.insert(made.key.clone(), version).is_none() {
                self.refused.insert(made.key, version);
            }
        }
        self.missing_changed(State::ReplicaActive);
        // As they were: the update is not here.
        self.info.stats = before;
        change.info(&self.info);
    }

    /// Takes objects that nobody has back to what is here of them: each entry names the version of its object
    /// that is given up.
    pub fn revert(&mut self, entries: Vec<Entry>, state: State, change: &mut MetaChange) {
        for entry in entries {
            let given_up = self.missing.remove(&entry.object);
            assert_eq!(given_up, Some(entry.prior), "{:?} is not missing so", entry.object);
            change.drop_missing(&entry.object);
            if entry.kind == entry_kind::DELETE {
                self.info.stats.objects = (self.info.stats.objects - 1).max(0);
            }
            change.add_entry(&entry);
            let user_version = entry.answer.user_version;
            self.log.push(entry);
            self.log_changed(user_version);
        }
        self.missing_changed(state);
        change.info(&self.info);
    }

    /// Cuts off entries up to `to`, which are durable everywhere, some hundred at a time, while there are
    /// more than `keep`.
    pub fn trim(&mut self, to: EVersion, keep: usize, change: &mut MetaChange) {
        const SLACK: usize = 100;
        if self.log.len() <= keep + SLACK.min(keep / 4) {
            return;
        }
        let (cut, made, forgotten) = self.log.trim(to.min(self.info.last_update), keep);
        cut.iter().for_each(|v| change.drop_entry(*v));
        made.iter().filter(|d| !forgotten.contains(&d.version)).for_each(|d| change.add_dup(d));
        forgotten.iter().for_each(|v| change.drop_dup(*v));
        self.info.log_tail = self.log.tail();
        self.assert_described();
        change.info(&self.info);
    }

    /// Forgets what only the log tells of, for lack of room: nobody was answered about it, and should the
    /// others lose it too, it must not be looked for. The objects are here as they were before. Gives the
    /// first and the last version forgotten.
    pub fn forget_refused(&mut self, change: &mut MetaChange) -> Option<(EVersion, EVersion)> {
        if !self.info.forgettable {
            return None;
        }
        let (first, last) = (self.info.short_of, self.log.head());
        self.settle_refused();
        let forgotten: Vec<Entry> = self.log.from(first).collect();
        for key in forgotten.iter().flat_map(Entry::changes).map(|change| change.key) {
            self.missing.remove(&key);
            change.drop_missing(&key);
        }
        let to = self.log.before(first);
        for version in self.log.rewind(to, &mut Missing::new()).dropped {
            change.drop_entry(version);
        }
        self.log_changed(0);
        change.info(&self.info);
        Some((first, last))
    }

    /// Info follows the log, whose ends or missing objects have changed.
    pub(super) fn log_changed(&mut self, last_user_version: u64) {
        self.info.last_update = self.log.head();
        self.info.log_tail = self.log.tail();
        self.info.missing = self.missing.len() as u64;
        self.info.last_user_version = self.info.last_user_version.max(last_user_version);
    }

    /// The log has grown, or something is missing here or is not any more.
    pub(super) fn missing_changed(&mut self, state: State) {
        let Self { missing, refused, info, log, .. } = self;
        info.missing = missing.len() as u64;
        refused.retain(|key, _| missing.contains_key(key));
        if state != State::ReplicaActive {
            return;
        }
        info.short_of = refused.values().min().copied().unwrap_or_default();
        let not_here = |entry: &Entry| {
            let is_refused = |key| refused.get(key).is_some_and(|since| *since <= entry.version);
            entry.changes().iter().all(|change| is_refused(&change.key))
        };
        info.forgettable = !refused.is_empty() && log.from(info.short_of).all(|entry| not_here(&entry));
    }

    /// Objects for which there was no space are missing here like others.
    pub(super) fn settle_refused(&mut self) {
        self.refused.clear();
        (self.info.short_of, self.info.forgettable) = Default::default();
    }
}
