//! The copy follows the one that peering has found to be right, or becomes it.

use super::LocalCopy;
use crate::pg::info::Info;
use crate::pg::log::{Entry, Missing, PgLog};
use crate::pg::meta::MetaChange;
use maps::{EVersion, Epoch};
use store::TxnOp;

impl LocalCopy {
    /// Drops what diverges behind `common`, appends what the authority has there, up to its `head`; collects
    /// what that changes.
    pub fn merge_log(
        &mut self,
        common: EVersion,
        entries: Vec<Entry>,
        head: EVersion,
        change: &mut MetaChange,
        ops: &mut Vec<TxnOp>,
    ) {
        let before = self.missing.clone();
        let rewound = self.log.rewind(common, &mut self.missing);
        rewound.dropped.iter().for_each(|v| change.drop_entry(*v));
        entries.iter().for_each(|e| change.add_entry(e));
        let removed = self.log.extend(entries, head, &mut self.missing);
        ops.extend(rewound.remove.into_iter().chain(removed).map(TxnOp::Remove));
        change.missing(&before, &self.missing);
        self.log_changed(0);
    }

    /// Takes the authority's log in place of ours, which has nothing in common with it: beside `missing`, the
    /// copy lacks objects that the log does not tell of, until it has been compared object by object.
    pub fn replace_log(&mut self, log: PgLog, missing: Missing, change: &mut MetaChange) {
        (self.log, self.missing, self.info.incomplete) = (log, missing, true);
        change.replace_log(&self.log, &self.missing);
        self.log_changed(0);
    }

    /// Of the primary: takes the counts of the authority, whose log is ours now.
    pub fn adopt(&mut self, theirs: &Info, change: &mut MetaChange) {
        self.info.stats = theirs.stats;
        self.log_changed(theirs.last_user_version);
        change.info(&self.info);
    }

    /// Of another member: takes part in the activation of the primary's copy, whose log is ours now.
    pub fn follow(&mut self, theirs: &Info, sure_to: EVersion, change: &mut MetaChange) {
        self.info.stats = theirs.stats;
        self.info.last_epoch_started = self.info.last_epoch_started.max(theirs.last_epoch_started);
        self.info.sure_to = sure_to;
        self.info.history.merge(&theirs.history);
        self.settle_refused();
        self.log_changed(theirs.last_user_version);
        change.info(&self.info);
    }

    /// Of the primary: the copy is what all members are to follow. It takes part in a PG that is active at
    /// `serving`, if writes may follow: a copy that could not serve must not outrank those that could.
    pub fn activate(&mut self, serving: Option<Epoch>, sure_to: EVersion, change: &mut MetaChange) {
        assert!(!self.info.incomplete, "pg {}: an incomplete copy is to be followed", self.info.pgid);
        self.assert_described();
        if let Some(epoch) = serving {
            self.info.last_epoch_started = epoch;
            // Objects that are not here are searched now, and their updates undone if nobody has them.
            (self.info.short_of, self.info.forgettable) = Default::default();
        }
        self.info.sure_to = sure_to;
        self.save(change);
    }
}
