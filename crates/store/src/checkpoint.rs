//! Checkpoints: the frozen table goes to its place on the device.
//!
//! In order: blocks of data are written to where they were allocated when applied; the map of blocks is
//! updated; the table is merged into a new version of the index. When all that is written and all of the
//! table's transactions are in the log, the device is flushed; then the first superblock is written and
//! flushed, then the second. Only then may blocks that the old index referred to be freed (see
//! [`crate::retired`]), and the log be overwritten: at every moment each valid superblock finds its whole
//! index and log.

use crate::api::{StoreError, StoreOut};
use crate::commit::Commit;
use crate::core::{Core, Frozen};
use crate::io::{Io, Purpose};
use crate::merge::Merge;
use crate::page::{Page, Place};
use crate::space_map::SpaceChanges;
use crate::stop::Stop;
use crate::superblock::{COPIES, Super, Supers};
use crate::tree::Tree;
use stdx::{BLOCK, Bufs};

/// The most writes under way.
const MAX_WRITES: usize = 32;
/// The most writes of data under way while nobody waits for the table: a log record waits for all writes that
/// the device was given before it.
const GENTLE_WRITES: usize = 2;
/// The most pages that a merge loads at once.
const PAGES_AHEAD: usize = 16;
/// The share of the table and of the rest of the log that may be used up while a checkpoint has done nothing.
/// What is left may be used up as it goes on: so transactions wait a little many times, and never for a whole
/// checkpoint.
const FREE_SHARE: u64 = 4;
/// A checkpoint begins when this fraction of the log is left. With small random overwrites each checkpoint
/// rewrites nearly all pages of the index, so fewer checkpoints write less.
const LOG_REST: u64 = 4;

enum Phase {
    /// Writing data, from this block on.
    Data(u64),
    /// Updating the map of blocks.
    Space(SpaceChanges),
    Merge(Box<Merge>),
    /// Waiting for writes and for the log.
    Drain(Root),
    /// Making everything durable that the new root refers to.
    Flush(Root),
    /// Writing (even steps) and flushing (odd steps) the superblocks.
    Super(usize, Box<Super>, Vec<Place>),
}

/// A new tree, and the pages of the old one that it does not have.
#[derive(Default)]
struct Root {
    tree: Tree,
    freed: Vec<Place>,
}

/// A checkpoint under way.
struct Checkpoint {
    phase: Phase,
    /// Writes and flushes under way.
    pending: usize,
    frozen: Frozen,
    progress: Progress,
}

/// Writes of data before their table is frozen, which need not hold it then.
#[derive(Default)]
struct Early {
    /// The number of the active table; the frozen one has the number before.
    table: u64,
    /// Writes under way for the frozen table and for the active one.
    frozen: usize,
    active: usize,
}

/// Progress of a checkpoint: changes merged and blocks of data written, of how many.
#[derive(Clone, Copy)]
struct Progress {
    done: u64,
    of: u64,
}

impl Progress {
    /// The part of a budget that may be used up so far.
    fn part_of(self, budget: u64) -> u64 {
        let free = budget / FREE_SHARE;
        free + (budget - free) * self.done.min(self.of) / self.of.max(1)
    }
}

/// Decides when a checkpoint begins, and carries it out.
#[derive(Default)]
pub(crate) struct Checkpoints {
    running: Option<Box<Checkpoint>>,
    requested: bool,
    /// The owner shuts down: when idle, the superblock is to say that the log is not needed.
    closing: bool,
    early: Early,
    /// Pages that may still be made after this input.
    effort: usize,
    /// Writes of the frozen table's data that may be under way.
    data_writes: usize,
    /// Transactions submitted when `effort` was last set.
    seen: u64,
}

/// Requests and queries.
impl Checkpoints {
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Asks for a checkpoint as soon as one can begin.
    pub fn request(&mut self) {
        self.requested = true;
    }

    /// Asks for a checkpoint after which the device says that the log is not needed, once the store is idle.
    pub fn close(&mut self) {
        self.requested = true;
        self.closing = true;
    }

    /// Takes back [`Self::close`]: a transaction was submitted.
    pub fn reopen(&mut self) {
        self.closing = false;
    }

    /// True if it is making the device say that the log is not needed.
    pub fn is_marking_clean(&self) -> bool {
        let phase = self.running.as_ref().map(|running| &running.phase);
        matches!(phase, Some(Phase::Super(_, sup, _)) if sup.clean)
    }

    /// A write or flush has ended.
    pub fn operation_ended(&mut self) {
        self.running.as_mut().expect("a checkpoint is running").pending -= 1;
    }

    /// An early write of the table with this number has ended.
    pub fn early_ended(&mut self, table: u64) {
        let early = &mut self.early;
        *(if table == early.table { &mut early.active } else { &mut early.frozen }) -= 1;
    }
}

/// Effort: how much is done after an input.
impl Checkpoints {
    /// Allows as much work as there is.
    pub fn set_full_effort(&mut self) {
        self.effort = usize::MAX;
    }

    /// Allows no page to be made.
    pub fn set_no_effort(&mut self) {
        self.effort = 0;
    }

    /// Sets the pages that may be made after this input. Making one takes some ten microseconds, and a commit
    /// waits for that too; so they are few as long as the active table and the log have space to spare.
    pub fn set_effort(&mut self, commit: &Commit, core: &Core) {
        let submitted = commit.mark() - std::mem::replace(&mut self.seen, commit.mark());
        let few = 1 + submitted as usize / 16;
        self.effort = match self.pressure(commit, core) {
            0..2 => few,
            2..4 => 2 * few,
            4..6 => 4 * few,
            6..8 => 16 * few,
            _ => usize::MAX,
        };
    }

    /// Allows one page if no other event would wake the running checkpoint; true if it did.
    pub fn wake_if_stalled(&mut self, io: &Io) -> bool {
        let stalled = self.running.is_some() && self.effort == 0 && io.is_idle();
        if stalled {
            self.effort = 1;
        }
        stalled
    }
}

/// Pace: transactions and the running checkpoint wait for one another.
impl Checkpoints {
    /// True if the active table should not grow before the running checkpoint has gone on.
    pub fn lacks_table(&self, core: &Core) -> bool {
        let (used, allowed) = self.table(core);
        self.is_running() && used > allowed
    }

    /// The same for the log.
    pub fn lacks_log(&self, commit: &Commit) -> bool {
        let (used, allowed) = self.log(commit);
        self.is_running() && used > allowed
    }

    /// Bytes of the active table: used, and how many may be so far.
    fn table(&self, core: &Core) -> (u64, u64) {
        (core.active_memory() as u64, self.progress().part_of(core.table_bytes() as u64))
    }

    /// Bytes of the rest of the log: used, and how many may be so far.
    fn log(&self, commit: &Commit) -> (u64, u64) {
        let ring = commit.ring();
        let rest = ring.len() / LOG_REST;
        let left = (ring.len() - ring.used()).min(rest);
        (rest - left, self.progress().part_of(rest))
    }

    fn progress(&self) -> Progress {
        self.running.as_ref().map_or(Progress { done: 1, of: 1 }, |running| running.progress)
    }

    /// The urgency of a checkpoint: eighths of what may fill up meanwhile.
    fn pressure(&self, commit: &Commit, core: &Core) -> u64 {
        if commit.is_held() {
            return 8;
        }
        let eighths = |(used, allowed): (u64, u64)| used * 8 / allowed.max(1);
        eighths(self.table(core)).max(eighths(self.log(commit)))
    }

    /// The most writes of data that may be under way.
    fn max_data_writes(&self, commit: &Commit, core: &Core) -> usize {
        if self.pressure(commit, core) > 4 { MAX_WRITES } else { GENTLE_WRITES }
    }
}

/// Beginning and progress.
impl Checkpoints {
    /// Begins a checkpoint if one is due, and carries it on; true if there was progress.
    pub fn step(
        &mut self,
        core: &mut Core,
        commit: &mut Commit,
        supers: &mut Supers,
        io: &mut Io,
        out: &mut Vec<StoreOut>,
    ) -> Result<bool, StoreError> {
        self.data_writes = self.max_data_writes(commit, core);
        let Some(mut running) = self.running.take() else {
            return Ok(self.begin(core, commit, supers, io));
        };
        let result = if let Phase::Super(4, sup, freed) = &mut running.phase
            && running.pending == 0
        {
            finish(std::mem::take(sup), std::mem::take(freed), core, commit, supers, io);
            return Ok(true);
        } else {
            self.advance(&mut running, core, commit, supers, io, out)
        };
        self.running = Some(running);
        match result {
            Ok(progress) => Ok(progress),
            Err(stop) => io.wait_for(stop, out).map(|()| false),
        }
    }

    fn begin(&mut self, core: &mut Core, commit: &Commit, supers: &Supers, io: &mut Io) -> bool {
        let ring = commit.ring();
        let due = self.requested
            || core.is_crowded()
            || ring.used() > ring.len() - ring.len() / LOG_REST
            || core.may_double_free_space()
            || core.is_short();
        // With nothing else to do, the device may be marked clean.
        let close = self.closing && !supers.newest().clean && commit.is_idle() && !core.has_garbage();
        if !(due && !core.is_active_empty() || close) {
            self.requested &= !commit.is_idle();
            return false;
        }
        if supers.forbid_log() && commit.has_to_log() {
            // No record can begin before that has changed, and this checkpoint would wait for the record.
            return self.allow_log(core, supers);
        }
        self.requested = false;
        // The count of free blocks includes those that the last checkpoint has retired.
        core.release(usize::MAX, io);
        let frozen = core.freeze();
        assert_eq!(self.early.frozen, 0, "the last checkpoint has waited for them");
        self.early.frozen = std::mem::take(&mut self.early.active);
        self.early.table += 1;
        let progress = Progress { done: 0, of: core.frozen_items() };
        self.running = Some(Box::new(Checkpoint { phase: Phase::Data(0), pending: 0, frozen, progress }));
        true
    }

    /// Makes both superblocks say that the log is needed, by a checkpoint of nothing; false if one is
    /// running.
    pub fn allow_log(&mut self, core: &mut Core, supers: &Supers) -> bool {
        if self.running.is_some() {
            return false;
        }
        let old = supers.newest();
        let sup = Box::new(Super { generation: old.generation + 1, clean: false, ..old.clone() });
        let frozen = Frozen { applied: old.applied, next_id: old.next_id, stats: old.stats() };
        core.freeze_nothing();
        let phase = Phase::Super(0, sup, Vec::new());
        let progress = Progress { done: 1, of: 1 };
        self.running = Some(Box::new(Checkpoint { phase, pending: 0, frozen, progress }));
        true
    }

    /// One step of the running checkpoint; true if there was progress.
    fn advance(
        &mut self,
        running: &mut Checkpoint,
        core: &mut Core,
        commit: &Commit,
        supers: &Supers,
        io: &mut Io,
        out: &mut Vec<StoreOut>,
    ) -> Result<bool, Stop> {
        let Checkpoint { phase, pending, frozen, progress } = running;
        if *pending >= MAX_WRITES {
            return Ok(false);
        }
        let idle = *pending == 0;
        match phase {
            Phase::Data(_) if *pending >= self.data_writes => return Ok(false),
            Phase::Data(from) => match core.next_data(*from) {
                Some((block, data)) => {
                    let blocks = (data.len() / BLOCK) as u64;
                    *from = block + blocks;
                    *pending += 1;
                    progress.done += blocks;
                    io.write(Purpose::Checkpoint, block * BLOCK as u64, data, out);
                }
                None => *phase = Phase::Space(core.space_changes()),
            },
            Phase::Space(changes) => {
                if !core.change_space(changes)? {
                    let generation = supers.newest().generation + 1;
                    *phase = Phase::Merge(Box::new(core.begin_merge(frozen.next_id, generation)));
                }
            }
            Phase::Merge(_) if self.effort == 0 => return Ok(false),
            Phase::Merge(merge) => {
                let mut pages = Vec::new();
                let before = merge.merged;
                let result = core.step_merge(merge, MAX_WRITES, &mut self.effort, &mut pages);
                progress.done += merge.merged - before;
                *pending += write_pages(pages, io, out);
                if let Err(Stop::Page(..)) = result {
                    for (ptr, level) in core.pages_ahead(merge, self.effort.min(PAGES_AHEAD)) {
                        // The error of an unreadable page is reported when the page is needed.
                        let _ = io.load(ptr, level, out);
                    }
                }
                if let Some(tree) = result? {
                    *phase = Phase::Drain(Root { tree, freed: std::mem::take(&mut merge.freed) });
                }
            }
            Phase::Drain(root) => {
                if !idle || self.early.frozen > 0 || commit.durable() < frozen.applied {
                    return Ok(false);
                }
                *phase = Phase::Flush(std::mem::take(root));
                if !skips_the_flush() {
                    *pending += 1;
                    io.flush(Purpose::CheckpointFlush, out);
                }
            }
            _ if !idle => return Ok(false),
            Phase::Flush(root) => {
                let Root { tree, freed } = std::mem::take(root);
                let clean = commit.is_idle() && core.is_active_empty() && self.closing;
                let sup = next_super(tree, frozen, clean, commit, supers.newest());
                *phase = Phase::Super(0, Box::new(sup), freed);
            }
            Phase::Super(step, sup, _) => {
                match *step {
                    0 | 2 => io.write(Purpose::Checkpoint, COPIES[*step / 2], sup.encode_block(), out),
                    _ => io.flush(Purpose::CheckpointFlush, out),
                }
                *step += 1;
                *pending += 1;
            }
        }
        Ok(true)
    }

    /// Writes blocks of the active table early if it holds many of them.
    pub fn write_early(&mut self, core: &mut Core, commit: &Commit, io: &mut Io, out: &mut Vec<StoreOut>) {
        while self.early.active < self.max_data_writes(commit, core)
            && let Some((first, data)) = core.take_early()
        {
            self.early.active += 1;
            io.write(Purpose::Early(self.early.table, first), first * BLOCK as u64, data, out);
        }
    }
}

/// The new root is durable in both places.
fn finish(
    sup: Box<Super>,
    freed: Vec<Place>,
    core: &mut Core,
    commit: &mut Commit,
    supers: &mut Supers,
    io: &Io,
) {
    core.install(&sup, freed, io.mark());
    commit.trim_log(sup.log_pos);
    supers.replace(*sup);
}

/// Writes pages, those side by side at once; gives the number of writes.
fn write_pages(pages: Vec<(Place, Page)>, io: &mut Io, out: &mut Vec<StoreOut>) -> usize {
    let mut writes: Vec<(u64, Bufs)> = Vec::new();
    for (place, page) in pages {
        let parts = match place.is_row() {
            true => vec![(place.first, page.bytes().clone())],
            false => [place.first, place.second].into_iter().zip(page.halves()).collect(),
        };
        for (block, bytes) in parts {
            match writes.last_mut() {
                Some((first, data)) if *first + (data.len() / BLOCK) as u64 == block => data.push(bytes),
                _ => writes.push((block, bytes.into())),
            }
        }
    }
    let count = writes.len();
    for (block, data) in writes {
        io.write(Purpose::Checkpoint, block * BLOCK as u64, data, out);
    }
    count
}

fn next_super(tree: Tree, frozen: &Frozen, clean: bool, commit: &Commit, old: &Super) -> Super {
    let (log_pos, log_seq) = commit.ring().head_after(frozen.applied);
    let root = tree.root.unwrap_or_default();
    Super {
        generation: old.generation + 1,
        log_durable: commit.first_unsure(),
        clean,
        root_block: root.block,
        root_second: root.second,
        root_crc: root.crc,
        levels: tree.levels,
        pages: tree.pages,
        log_pos,
        log_seq,
        applied: frozen.applied,
        next_id: frozen.next_id,
        objects: frozen.stats.objects,
        data: frozen.stats.data,
        omap: frozen.stats.omap,
        largest_omap: frozen.stats.largest_omap,
        largest_data: frozen.stats.largest_data,
        ..old.clone()
    }
}

fn skips_the_flush() -> bool {
    stdx::mutants::is_active("store_points_to_pages_that_are_not_durable")
}
