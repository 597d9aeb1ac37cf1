//! The steps of a removal.

use super::Removal;
use crate::completion::{CommitFor, ReadFor};
use crate::osd::Osd;
use crate::pg::meta::{meta_key, snap_index};
use crate::pg::range::successor;
use crate::pg::state::State;
use crate::qos::Class;
use maps::Spg;
use node::Level;
use store::{ObjectKey, Read, ReadReply, StoreError, Transaction, TxnOp};

/// Objects removed in one transaction.
const AT_ONCE: usize = 64;

impl Osd {
    /// Removes a whole PG, because its pool is gone.
    pub(crate) fn remove_whole(&mut self, pgid: Spg, range: (ObjectKey, ObjectKey)) {
        if let Some(removal) = self.removals.by_pg.get_mut(&pgid) {
            // The removal has already begun as that of a copy.
            removal.round = None;
            return;
        }
        self.removals.begin(pgid, Removal::of(range));
        self.removal_step(pgid);
    }

    /// Removes our copy of a PG.
    pub(crate) fn remove_copy(&mut self, pgid: Spg) {
        let Some(pg) = self.pgs.get_mut(&pgid) else { return };
        if self.removals.contains(&pgid) {
            return;
        }
        if !pg.is_stored() {
            self.pgs.remove(&pgid);
            return;
        }
        pg.give_up(&mut self.core);
        let removal = Removal { round: Some(pg.round()), ..Removal::of(pg.range().clone()) };
        self.removals.begin(pgid, removal);
        self.event(Level::Info, "pg_copy_removed", format!("{pgid}: its members have everything"));
        self.removal_step(pgid);
    }

    /// True if a removal should continue. The removal of a copy ends when the copy is needed again; the
    /// remaining objects are then compared.
    fn is_removal_due(&mut self, pgid: Spg) -> bool {
        let Some(removal) = self.removals.by_pg.get(&pgid) else { return false };
        let still =
            |round| self.pgs.get(&pgid).is_some_and(|pg| pg.round() == round && pg.state() == State::Stray);
        if removal.gone || removal.round.is_none_or(still) {
            return true;
        }
        self.removals.by_pg.remove(&pgid);
        false
    }

    /// Continues a removal.
    pub(crate) fn removal_step(&mut self, pgid: Spg) {
        if !self.is_removal_due(pgid) {
            return;
        }
        let Some(removal) = self.removals.by_pg.get_mut(&pgid) else { return };
        if removal.gone {
            self.removals.by_pg.remove(&pgid);
            self.event(Level::Info, "pg_removed", pgid.to_string());
        } else if removal.emptied {
            removal.gone = true;
            if removal.round.is_some() {
                self.pgs.remove(&pgid);
            }
            let mut ops = vec![TxnOp::Remove(meta_key(pgid))];
            if !self.core.map().pools.contains_key(&pgid.pgid.pool) {
                ops.push(TxnOp::Remove(snap_index(pgid.pgid.pool)));
            }
            self.core.submit_own(Transaction { ops }, CommitFor::Removed { pgid });
        } else if let Some(wait) = self.core.may_start(Class::BestEffort) {
            removal.pause = Some(self.core.now().mono + wait);
        } else {
            let read = Read::List { from: removal.from.clone(), to: removal.to.clone(), max: AT_ONCE };
            self.core.read(read, ReadFor::Removal { pgid });
        }
    }

    /// Continues removals that paused.
    pub(crate) fn removals_due(&mut self) {
        let now = self.core.now().mono;
        let due = self.removals.by_pg.iter_mut().filter(|(_, r)| r.pause.is_some_and(|at| at <= now));
        let due: Vec<Spg> = due.map(|(pgid, removal)| (removal.pause = None, *pgid).1).collect();
        due.into_iter().for_each(|pgid| self.removal_step(pgid));
    }

    /// Takes the next objects to remove.
    pub(crate) fn removal_listed(&mut self, pgid: Spg, result: Result<ReadReply, StoreError>) {
        if !self.is_removal_due(pgid) {
            return;
        }
        let Some(removal) = self.removals.by_pg.get_mut(&pgid) else { return };
        let Ok(ReadReply::List(keys)) = result else {
            // A PG that can't be listed can't be removed; the next start tries again.
            self.removals.by_pg.remove(&pgid);
            return self.event(Level::Warn, "pg_removal_failed", pgid.to_string());
        };
        removal.emptied = keys.len() < AT_ONCE;
        if let Some(last) = keys.last() {
            removal.from = successor(last);
        }
        let ops = keys.into_iter().map(TxnOp::Remove).collect();
        self.core.submit_own(Transaction { ops }, CommitFor::Removed { pgid });
    }
}
