//! Hands what the store has completed to its owners: PGs, removals, and the start.

use crate::completion::{CommitFor, ReadFor};
use crate::core::{Core, Out};
use crate::osd::Osd;
use crate::pg::Pg;
use maps::Spg;
use store::{ReadReply, StoreError, StoreOut};

impl Osd {
    /// Handles one event of the store.
    pub(crate) fn store_event(&mut self, event: StoreOut) {
        match event {
            StoreOut::Disk(id, op) => self.core.push(Out::Disk { id, op }),
            StoreOut::Opened => self.store_opened(),
            StoreOut::Committed(txn) => {
                for then in self.core.committed(txn) {
                    self.committed(then);
                }
            }
            StoreOut::Read(id, result) => {
                if let Some(then) = self.core.reader(id) {
                    self.read_done(then, result);
                }
            }
            StoreOut::Failed(error) => {
                let id = self.core.id();
                self.stop(format!("osd.{id}: the store can not be used: {error}"));
            }
        }
    }

    /// Runs `step` on a PG that is still here. A PG that has gone meanwhile needs no completion.
    fn with_pg(&mut self, pgid: Spg, step: impl FnOnce(&mut Pg, &mut Core)) {
        if let Some((pg, core)) = self.pg(pgid) {
            step(pg, core);
        }
    }

    fn read_done(&mut self, then: ReadFor, result: Result<ReadReply, StoreError>) {
        match then {
            ReadFor::Op { pgid, id, attempt, index } => {
                self.with_pg(pgid, |pg, core| pg.on_op_read(core, (id, attempt, index), result));
            }
            ReadFor::List { pgid, id, attempt } => {
                self.with_pg(pgid, |pg, core| pg.on_list_read(core, (id, attempt), result));
            }
            ReadFor::ListedHead { pgid, id, attempt, head } => {
                self.with_pg(pgid, |pg, core| pg.on_listed_head(core, (id, attempt), *head, result));
            }
            ReadFor::SnapIndex { pgid, round } => {
                self.with_pg(pgid, |pg, core| pg.on_snap_index(core, round, result));
            }
            ReadFor::Part { pgid, tid } => {
                self.with_pg(pgid, |pg, core| pg.on_part_read(core, tid, result));
            }
            ReadFor::Scan { pgid, id } => {
                self.with_pg(pgid, |pg, core| pg.on_scan_keys(core, id, result));
            }
            ReadFor::ScanVersion { pgid, id, key } => {
                self.with_pg(pgid, |pg, core| pg.on_scan_version(core, id, *key, result));
            }
            ReadFor::Scrub { pgid, id } => {
                self.with_pg(pgid, |pg, core| pg.on_scrub_read(core, id, result));
            }
            ReadFor::Reverted { pgid, round, key } => {
                self.with_pg(pgid, |pg, core| pg.on_revert_read(core, round, *key, result));
            }
            ReadFor::Removal { pgid } => self.removal_listed(pgid, result),
            boot @ (ReadFor::Superblock
            | ReadFor::Map(_)
            | ReadFor::Pgs
            | ReadFor::PgMeta(_)
            | ReadFor::Temps) => match result {
                Ok(reply) => self.boot_read(boot, reply),
                Err(error) => self.stop(format!("the OSD's own records can not be read: {error}")),
            },
        }
    }

    fn committed(&mut self, then: CommitFor) {
        match then {
            CommitFor::Nothing => {}
            CommitFor::Send { conn, msg } => self.core.send(conn, msg.tid, msg.body),
            CommitFor::Update { pgid, round, version } => {
                self.with_pg(pgid, |pg, core| pg.on_update_committed(core, round, version));
            }
            CommitFor::Activated { pgid, round } => {
                self.with_pg(pgid, |pg, core| pg.on_activated(core, round));
            }
            CommitFor::Pulled { pgid, round, key } => {
                self.with_pg(pgid, |pg, core| pg.on_pulled(core, round, &key));
            }
            CommitFor::SelfBackfilled { pgid, round } => {
                self.with_pg(pgid, |pg, core| pg.on_self_backfilled(core, round));
            }
            CommitFor::Removed { pgid } => self.removal_step(pgid),
        }
    }
}
