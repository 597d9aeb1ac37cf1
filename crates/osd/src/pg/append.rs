//! The log grows at its end and is cut off at its tail, at the primary and at the other members alike.

use super::Pg;
use super::meta::MetaChange;
use super::replicate::Update;
use crate::core::Core;
use maps::EVersion;

impl Pg {
    /// Appends an update to log and info.
    pub fn append_update(&mut self, core: &mut Core, update: Update, change: &mut MetaChange) {
        let Update { entry, stats, last_user_version } = update;
        change.add_entry(&entry);
        for gone in entry.changes().into_iter().filter(|c| c.removed) {
            if self.missing.remove(&gone.key).is_some() {
                change.drop_missing(&gone.key);
            }
        }
        self.log.push(entry);
        self.missing_changed();
        self.info.stats = stats;
        self.info.sure_to = self.replication.sure_to();
        self.take_log_ends(last_user_version);
        change.info(&self.info);
        core.count("updates", 1);
    }

    /// Cuts off entries that are durable everywhere, some hundred at a time.
    pub fn trim_log(&mut self, core: &Core, change: &mut MetaChange) {
        const SLACK: usize = 100;
        if self.log.len() <= core.log_keep() + SLACK.min(core.log_keep() / 4) {
            return;
        }
        let to: EVersion = self.replication.sure_to().min(self.info.last_update);
        let (cut, made, forgotten) = self.log.trim(to, core.log_keep());
        cut.iter().for_each(|v| change.drop_entry(*v));
        made.iter().filter(|d| !forgotten.contains(&d.version)).for_each(|d| change.add_dup(d));
        forgotten.iter().for_each(|v| change.drop_dup(*v));
        self.info.log_tail = self.log.tail();
        change.info(&self.info);
    }
}
