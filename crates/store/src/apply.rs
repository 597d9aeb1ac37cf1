//! Applies transactions to the active table, in order.
//!
//! The next transaction is planned when all index pages and blocks that it needs are in memory. Until then it
//! waits for what its last attempt lacked; pages of the following ones are loaded meanwhile.

use crate::api::{ObjectKey, StoreError, StoreOut};
use crate::commit::Commit;
use crate::core::Core;
use crate::extents::extents;
use crate::io::{Io, expect_len};
use crate::key;
use crate::logged::Step;
use crate::onode::onode;
use crate::plan::{Scratch, Staged};
use crate::stop::Stop;
use stdx::{BLOCK, Buf};

/// The most objects of a transaction whose pages are loaded at once.
const OBJECTS_AHEAD: usize = 128;
/// The most writes of the following transactions whose pages are loaded at once.
const WRITES_AHEAD: usize = 64;
/// Entries of a large omap that are copied at a time, so that checkpoints can run in between.
const STAGED_ENTRIES: usize = 256;
/// Entries of removed objects and omaps that are collected at a time.
const GARBAGE_ENTRIES: usize = 128;
/// Reads of a block that a transaction changes in part, until it is given up as damaged. That damages it for
/// good, and may concern the only copy of what the transaction leaves.
const FETCH_ATTEMPTS: u32 = 3;

/// The cause for which the next transaction waits.
#[derive(Default)]
enum Blocked {
    #[default]
    No,
    /// All of these pages.
    Pages(Vec<u64>),
    Fetch,
}

/// The state of the next transaction's application.
#[derive(Default)]
pub(crate) struct Applier {
    blocked: Blocked,
    /// Pages and blocks that the next transaction has waited for so far, and that it needs all at once.
    stops: usize,
    scratch: Scratch,
    /// Failed reads of the blocks that it waits for.
    failed_fetches: u32,
}

impl Applier {
    /// Pages and blocks that the next transaction has waited for so far, and that it needs all at once.
    pub fn stops(&self) -> usize {
        self.stops
    }

    /// True if what the next transaction waited for is there.
    pub fn is_ready(&self, io: &Io) -> bool {
        match &self.blocked {
            Blocked::No => true,
            Blocked::Fetch => false,
            Blocked::Pages(pages) => !pages.iter().any(|page| io.is_loading(*page)),
        }
    }

    /// Applies the next transaction if all that it needs is in memory. `crowded`: the active table should not
    /// grow before the running checkpoint has ended.
    pub fn step(
        &mut self,
        commit: &mut Commit,
        core: &mut Core,
        crowded: bool,
        io: &mut Io,
        out: &mut Vec<StoreOut>,
    ) -> Result<bool, StoreError> {
        self.blocked = Blocked::No;
        let Some((_, next)) = commit.next_unapplied() else { return Ok(false) };
        let sources: Vec<ObjectKey> = next.steps.iter().filter_map(Step::cloned).cloned().collect();
        match self.stage_omaps(&sources, core, crowded) {
            Ok(None) => {}
            Ok(Some(progress)) => return Ok(progress),
            Err(stop) => return self.block(stop, io, out).map(|()| false),
        }
        let mut plan = core.plan(&self.scratch);
        if let Err(stop) = next.steps.iter().try_for_each(|step| plan.step(step)) {
            plan.undo();
            self.block(stop, io, out)?;
            self.load_ahead(commit, core, io, out);
            return Ok(false);
        }
        let done = plan.finish();
        core.absorb(done);
        core.set_applied(commit.applied());
        self.scratch = Scratch::default();
        self.stops = 0;
        Ok(true)
    }

    /// Applies nothing until the cause of `stop` is gone.
    fn block(&mut self, stop: Stop, io: &mut Io, out: &mut Vec<StoreOut>) -> Result<(), StoreError> {
        self.stops += 1;
        self.blocked = match &stop {
            Stop::Page(ptr, _) => Blocked::Pages(vec![ptr.block]),
            _ => Blocked::Fetch,
        };
        io.wait_for(stop, out)
    }

    /// Copies the next entries of large omaps that the next transaction clones. Gives `None` when all are
    /// copied, else true if there was progress.
    fn stage_omaps(
        &mut self,
        objects: &[ObjectKey],
        core: &mut Core,
        crowded: bool,
    ) -> Result<Option<bool>, Stop> {
        for (i, object) in objects.iter().enumerate() {
            // Each clone of an object in the transaction gets a copy of its own.
            let nth = objects[..i].iter().filter(|o| *o == object).count();
            let mut staged = std::mem::take(&mut self.scratch.staged);
            let mut plan = core.plan(&self.scratch);
            let worked = plan.large_omap(object).and_then(|source| {
                let Some(next) = source.and_then(|source| find_staged(&mut staged, source, nth)) else {
                    return Ok(false);
                };
                if !crowded {
                    // A stop leaves nothing behind, not even in this record of the copy.
                    let mut copy = next.clone();
                    plan.stage(&mut copy, STAGED_ENTRIES)?;
                    *next = copy;
                }
                Ok(true)
            });
            let done = plan.finish();
            self.scratch.staged = staged;
            if worked? {
                self.stops = 0;
                core.absorb(done);
                return Ok(Some(!crowded));
            }
        }
        Ok(None)
    }

    /// Loads the pages of the next transaction's other objects and omap entries, so that it is not planned
    /// again for each of them, and those of the writes after it, so that they do not wait for one another.
    fn load_ahead(&mut self, commit: &Commit, core: &Core, io: &mut Io, out: &mut Vec<StoreOut>) {
        let Blocked::Pages(pages) = &mut self.blocked else { return };
        let Some((_, next)) = commit.next_unapplied() else { return };
        let view = core.view();
        for object in next.steps.iter().flat_map(Step::objects).take(OBJECTS_AHEAD) {
            if let Err(Stop::Page(ptr, level)) = view.with(&key::object(object), |_| ())
                && !pages.contains(&ptr.block)
                && io.load(ptr, level, out).is_ok()
            {
                pages.push(ptr.block);
            }
        }
        // The first page counts already.
        self.stops += pages.len().saturating_sub(1);
        let most = core.cache_limit() / 4;
        self.scratch.olds.look_up(next, &view, most, |ptr, level| {
            let new = !pages.contains(&ptr.block);
            if new {
                io.load(ptr, level, out)?;
                pages.push(ptr.block);
            }
            Ok(new)
        });
        let most = most.min(WRITES_AHEAD);
        let writes = commit.unapplied().flat_map(|txn| txn.steps.iter().filter_map(Step::written));
        for (object, from, to) in writes.take(most) {
            let missing = match onode(&view, object) {
                Ok(Some(onode)) => extents(&view, onode.id, from.saturating_sub(1), to).err(),
                Ok(None) => None,
                Err(stop) => Some(stop),
            };
            if let Some(Stop::Page(ptr, level)) = missing {
                // The error of an unreadable page is reported when the page is needed.
                let _ = io.load(ptr, level, out);
            }
        }
    }

    /// Blocks that the next transaction changes in part were read, or could not be.
    pub fn fetched(&mut self, first: u64, count: u64, result: Result<Buf, StoreError>) {
        self.blocked = Blocked::No;
        let len = count as usize * BLOCK;
        let bytes = result.and_then(|b| expect_len(b, len, || "a block of data".to_owned()));
        if bytes.is_err() && self.failed_fetches < FETCH_ATTEMPTS {
            // The plan lacks them again, so they are read again.
            self.failed_fetches += 1;
            return;
        }
        self.failed_fetches = 0;
        // An unreadable block counts as damaged, like one with a wrong checksum: only a block of zeros has
        // the checksum of zeros.
        let bytes = bytes.unwrap_or_else(|_| Buf::zeros(len));
        for i in 0..count {
            let at = i as usize * BLOCK;
            self.scratch.fetched.insert(first + i, bytes.slice(at..at + BLOCK));
        }
    }
}

/// The unfinished copy number `nth` of an omap, begun if it does not exist; `None` if it is finished.
fn find_staged(staged: &mut Vec<Staged>, source: u64, nth: usize) -> Option<&mut Staged> {
    let known = (0..staged.len()).filter(|at| staged[*at].source == source).nth(nth);
    let at = known.unwrap_or(staged.len());
    if known.is_none() {
        staged.push(Staged { source, ..Staged::default() });
    }
    Some(&mut staged[at]).filter(|staged| !staged.done)
}

/// Removes some entries of removed objects and omaps; true if there may be more.
pub(crate) fn collect_garbage(
    core: &mut Core,
    io: &mut Io,
    out: &mut Vec<StoreOut>,
) -> Result<bool, StoreError> {
    let (scratch, from) = (Scratch::default(), core.collected());
    let mut plan = core.plan(&scratch);
    match plan.collect_garbage(GARBAGE_ENTRIES, from.as_ref()) {
        Ok((more, collected)) => {
            let done = plan.finish();
            core.absorb(done);
            core.set_garbage(more, collected);
            Ok(more)
        }
        Err(stop) => {
            plan.undo();
            io.wait_for(stop, out)?;
            Ok(false)
        }
    }
}
