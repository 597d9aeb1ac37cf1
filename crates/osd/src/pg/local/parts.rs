//! The copy is divided when its PG splits, and takes over others when PGs merge.

use super::LocalCopy;
use crate::pg::info::Info;
use crate::pg::log::{Missing, PgLog};
use crate::pg::meta::MetaChange;
use crate::pg::range::objects_of;
use maps::{EVersion, MergeMeta, Spg, stable_mod, stable_mod_mask};
use store::ObjectKey;

impl LocalCopy {
    /// The PG is to be split or merged. Its pool had `pg_num` PGs before.
    pub fn begin_resize(&mut self, pg_num: u32) {
        self.pg_num_before = Some(pg_num);
    }

    /// The copy's range is that in a pool of `pg_num` PGs.
    pub fn end_resize(&mut self, pg_num: u32) {
        self.pg_num_before = None;
        self.range = objects_of(self.info.pgid, pg_num);
    }

    /// Divides the copy as its pool gets `pg_num` PGs, and gives those of `children`. With each child comes
    /// the number of bits of the hash by which its part is smaller than the whole.
    pub fn split(&mut self, pg_num: u32, children: &[(Spg, u32)], change: &mut MetaChange) -> Vec<Self> {
        let whole = self.info.stats;
        let mut parts = Vec::new();
        for (id, bits) in children.iter().copied() {
            let goes = |hash| stable_mod(hash, pg_num, stable_mod_mask(pg_num)) == id.pgid.seed;
            let log = self.log.split_off(goes);
            let range = objects_of(id, pg_num);
            let missing: Missing =
                self.missing.range(range.0..range.1).map(|(k, v)| (k.clone(), *v)).collect();
            self.missing.retain(|object, _| !missing.contains_key(object));
            let stats = whole.part(bits);
            self.info.stats.lose(&stats);
            let info = Info { missing: missing.len() as u64, stats, ..self.info.clone() };
            change.split(&log, &missing);
            parts.push(Self { stored: self.stored, ..Self::new(id, pg_num, info, log, missing) });
        }
        self.end_resize(pg_num);
        let is_ours = |key: &ObjectKey| self.range.0 <= *key && *key < self.range.1;
        debug_assert!(self.missing.keys().all(is_ours), "pg {}: a part has no PG", self.info.pgid);
        self.save(change);
        parts
    }

    /// Becomes the copy of a PG of which `parts` are parts from now on, in a pool of `pg_num` PGs. It is
    /// complete if `whole` gives the first version of the merged log, of which each PG's newest `keep`
    /// answers are kept. The map tells what was `ready` to be merged, if it still does.
    pub fn merge(
        &mut self,
        parts: Vec<Self>,
        pg_num: u32,
        whole: Option<EVersion>,
        ready: Option<&MergeMeta>,
        keep: usize,
    ) {
        self.end_resize(pg_num);
        let mut logs = vec![std::mem::take(&mut self.log)];
        for part in parts {
            self.take_over(&part);
            logs.push(part.log);
        }
        if let Some(MergeMeta { last_epoch_started, last_epoch_clean, .. }) = ready {
            let history = &mut self.info.history;
            history.last_epoch_started = history.last_epoch_started.max(*last_epoch_started);
            history.last_epoch_clean = history.last_epoch_clean.max(*last_epoch_clean);
        }
        self.missing.clear();
        self.settle_refused();
        self.info.incomplete = whole.is_none();
        if let Some(head) = whole {
            self.log = PgLog::merged(logs, head, keep);
            let started = self.info.history.last_epoch_started;
            self.info.last_epoch_started = self.info.last_epoch_started.max(started);
        }
        self.info.sure_to = whole.unwrap_or_default();
        self.log_changed(0);
    }

    /// Takes over what is known of a copy that becomes a part of this one.
    fn take_over(&mut self, part: &Self) {
        let theirs = &part.info;
        if !self.stored {
            let mut info = Info { pgid: self.info.pgid, ..theirs.clone() };
            info.history.merge(&self.info.history);
            (self.info, self.stored) = (info, true);
            return;
        }
        // Each of the two was clean at its own time, both were at the earlier one.
        let clean = self.info.history.last_epoch_clean.min(theirs.history.last_epoch_clean);
        self.info.history.merge(&theirs.history);
        self.info.history.last_epoch_clean = clean;
        self.info.last_epoch_started = self.info.last_epoch_started.max(theirs.last_epoch_started);
        self.info.last_user_version = self.info.last_user_version.max(theirs.last_user_version);
        self.info.stats.gain(&theirs.stats);
    }
}
