//! The loop: results of disk operations, and the order in which the parts work.

use super::{State, Store};
use crate::api::{StoreError, StoreOut};
use crate::apply::collect_garbage;
use crate::io::Purpose;
use crate::open::Turn;
use crate::page::Page;
use stdx::Buf;

/// Retired places that are freed after one input.
const RELEASED_PER_INPUT: usize = 64;

impl Store {
    /// Gives the result of a disk operation to the part that began it.
    pub(super) fn ended(
        &mut self,
        purpose: Purpose,
        result: Result<Buf, StoreError>,
        out: &mut Vec<StoreOut>,
    ) -> Result<(), StoreError> {
        match purpose {
            Purpose::Page(ptr, level, part) => {
                let Some(result) = self.io.loaded(ptr, part, result) else { return Ok(()) };
                let parse = |bytes| Page::parse(bytes, ptr, level).map_err(StoreError::Corrupt);
                match result.and_then(parse) {
                    Ok(page) => {
                        self.io.page_loaded(ptr.block);
                        self.core.keep_page(ptr.block, page);
                    }
                    Err(error) => self.io.page_failed(ptr.block, error),
                }
            }
            Purpose::Fetch(first, count) => self.applier.fetched(first, count, result),
            Purpose::Part(read, part, ..) => {
                self.reads.part_ended((read, part), result, (&mut self.core, &mut self.io), out);
            }
            // Discards are advice: a refusal is no error.
            Purpose::Discard => self.trim.ended(&mut self.core),
            Purpose::Open(part) => {
                let State::Opening(opening) = &mut self.state else { unreachable!("only while opening") };
                opening.ended(part, result)?;
            }
            _ => self.written(purpose, result.map(drop)?),
        }
        Ok(())
    }

    /// A write or flush has succeeded.
    fn written(&mut self, purpose: Purpose, (): ()) {
        match purpose {
            Purpose::Log => self.commit.log_written(),
            Purpose::LogFlush => self.commit.log_flushed(),
            Purpose::Direct(seq, first) => {
                self.core.end_write(first);
                self.commit.direct_written(seq);
            }
            Purpose::Early(table, first) => {
                self.core.end_early_write(first);
                self.checkpoints.early_ended(table);
            }
            Purpose::Checkpoint | Purpose::CheckpointFlush => self.checkpoints.operation_ended(),
            Purpose::Page(..)
            | Purpose::Fetch(..)
            | Purpose::Part(..)
            | Purpose::Discard
            | Purpose::Open(_) => {
                unreachable!("not a write: {purpose:?}")
            }
        }
    }

    pub(super) fn fail(&mut self, error: StoreError, out: &mut Vec<StoreOut>) {
        self.state = State::Failed;
        self.reads.clear();
        out.push(StoreOut::Failed(error));
    }

    /// Works after an input.
    pub(super) fn work(&mut self, out: &mut Vec<StoreOut>) {
        match self.state {
            State::Open if self.config.batched => self.hurry(out),
            State::Open | State::Opening(_) => self.settle(out),
            State::New(_) | State::Failed => {}
        }
    }

    /// Does what the device or a client waits for, until there is no more of it.
    pub(super) fn hurry(&mut self, out: &mut Vec<StoreOut>) {
        loop {
            let admitted = self.admit(out);
            let logged = self.write_log(out);
            let read = self.step_reads(out);
            match admitted {
                Ok(admitted) if admitted || logged || read => {}
                Ok(_) => return self.io.begin_held(self.commit.has_unlogged(), out),
                Err(error) => return self.fail(error, out),
            }
        }
    }

    /// Runs every part until none makes progress.
    pub(super) fn settle(&mut self, out: &mut Vec<StoreOut>) {
        if !self.is_open() {
            // While the store opens, its owner waits for nothing else.
            self.checkpoints.set_full_effort();
        } else if self.may_log {
            self.checkpoints.set_effort(&self.commit, &self.core);
        } else {
            self.checkpoints.set_no_effort();
        }
        loop {
            let progress = match self.state {
                State::Opening(_) => self.step_open(out),
                State::Open => self.step(out),
                State::New(_) | State::Failed => return,
            };
            match progress {
                Ok(true) => {}
                Ok(false) if self.may_log && self.checkpoints.wake_if_stalled(&self.io) => {}
                Ok(false) => break,
                Err(error) => return self.fail(error, out),
            }
        }
        self.io.begin_held(self.commit.has_unlogged(), out);
        if self.commit.is_idle() && !self.checkpoints.is_running() {
            self.core.drop_all_spent();
            self.core.release(usize::MAX, &mut self.io);
        } else {
            self.core.drop_spent();
            self.core.release(RELEASED_PER_INPUT, &mut self.io);
        }
        self.core.trim_cache(self.needs_many_pages());
    }

    /// True if an operation needs so many pages at once that it would never find them all within the budget.
    fn needs_many_pages(&self) -> bool {
        let many = self.core.cache_limit() / 2;
        self.applier.stops() > many || self.reads.most_stops() > many
    }

    fn step(&mut self, out: &mut Vec<StoreOut>) -> Result<bool, StoreError> {
        let mut progress = self.admit(out)?;
        progress |= self.apply_next(out)?;
        progress |= self.write_log(out);
        progress |= self.step_reads(out);
        progress |= self.step_checkpoint(out)?;
        self.checkpoints.write_early(&mut self.core, &self.commit, &mut self.io, out);
        if self.core.has_garbage()
            && self.commit.is_applied()
            && !self.core.is_crowded()
            && !self.is_crowded()
        {
            progress |= collect_garbage(&mut self.core, &mut self.io, out)?;
        }
        if let Some(old) = self.config.discard_after {
            self.trim.step(old, self.commit.admitted(), &mut self.core, &mut self.io, out);
        }
        Ok(progress)
    }

    /// True if the active table should not grow before the running checkpoint has gone on.
    fn is_crowded(&self) -> bool {
        self.checkpoints.lacks_table(&self.core)
    }

    /// Admits waiting transactions while log, memory and device have space for them.
    fn admit(&mut self, out: &mut Vec<StoreOut>) -> Result<bool, StoreError> {
        let mut progress = false;
        self.commit.set_held(false);
        while let Some(cost) = self.commit.next_cost() {
            // Transactions that are logged and not applied are held in memory.
            if self.commit.bytes() > 2 * self.core.table_bytes() && !self.commit.is_applied() {
                break;
            }
            let crowded = self.is_crowded() || self.checkpoints.lacks_log(&self.commit);
            if !self.has_space(cost) && self.core.has_retired() {
                self.core.release(usize::MAX, &mut self.io);
            }
            let must_wait = crowded || !self.has_space(cost) && self.may_free();
            if must_wait || !self.commit.reserve_log(cost) {
                self.checkpoints.request();
                self.commit.set_held(true);
                break;
            }
            self.commit.admit(&mut self.core, &mut self.io, out)?;
            progress = true;
        }
        Ok(progress)
    }

    /// Applies the next transaction, unless a read that must not see it has still to look into the index.
    fn apply_next(&mut self, out: &mut Vec<StoreOut>) -> Result<bool, StoreError> {
        if !self.applier.is_ready(&self.io) {
            return Ok(false);
        }
        let Some((number, txn)) = self.commit.next_unapplied() else { return Ok(false) };
        if self.reads.must_precede(number, txn) {
            return Ok(false);
        }
        let crowded = self.is_crowded();
        self.applier.step(&mut self.commit, &mut self.core, crowded, &mut self.io, out)
    }

    /// Carries on the log record under way, or begins the next one if the batch is over.
    fn write_log(&mut self, out: &mut Vec<StoreOut>) -> bool {
        if self.commit.is_logging() {
            return self.commit.step_group(&mut self.io, out);
        }
        if !self.may_log || !self.commit.has_record() {
            return false;
        }
        if self.supers.forbid_log() || self.checkpoints.is_marking_clean() {
            return self.checkpoints.allow_log(&mut self.core, &self.supers);
        }
        self.commit.begin_record(&mut self.io, out);
        true
    }

    fn step_reads(&mut self, out: &mut Vec<StoreOut>) -> bool {
        self.reads.step(&self.commit, &self.core, &mut self.io, out)
    }

    fn step_checkpoint(&mut self, out: &mut Vec<StoreOut>) -> Result<bool, StoreError> {
        let Self { checkpoints, core, commit, supers, io, .. } = self;
        checkpoints.step(core, commit, supers, io, out)
    }

    /// One step of opening; true if there was progress.
    fn step_open(&mut self, out: &mut Vec<StoreOut>) -> Result<bool, StoreError> {
        let State::Opening(opening) = &self.state else { unreachable!("only while opening") };
        if opening.is_waiting() {
            return Ok(false);
        }
        if opening.is_replaying() {
            let progress = self.step_replay(out)?;
            if progress || self.is_crowded() || !self.commit.is_applied() {
                return Ok(progress);
            }
        }
        let State::Opening(opening) = &mut self.state else { unreachable!("only while opening") };
        let turn = opening.step(&mut self.core, &mut self.supers, &mut self.io, out);
        let applied = self.supers.newest().applied;
        match turn {
            Ok(Turn::Waiting) => return Ok(false),
            Ok(Turn::Progress) => {}
            Ok(Turn::Log(ring)) => self.commit.begin(ring, applied),
            Ok(Turn::Record(record)) => self.commit.replay(record, applied),
            Ok(Turn::Open(ring)) => {
                if let Some(ring) = ring {
                    self.commit.begin(ring, applied);
                }
                self.state = State::Open;
                out.push(StoreOut::Opened);
            }
            Err(stop) => return self.io.wait_for(stop, out).map(|()| false),
        }
        Ok(true)
    }

    /// Applies transactions of the log; checkpoints bound the memory that a long log takes.
    fn step_replay(&mut self, out: &mut Vec<StoreOut>) -> Result<bool, StoreError> {
        self.core.release(usize::MAX, &mut self.io);
        let mut progress = self.step_checkpoint(out)?;
        if !self.is_crowded() && !self.commit.is_applied() {
            progress |= self.apply_next(out)?;
        }
        Ok(progress)
    }
}
