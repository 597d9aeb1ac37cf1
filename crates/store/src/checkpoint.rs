//! A checkpoint: the frozen table goes to its place on the device.
//!
//! In order: blocks of data are written to the places that they were given when applied; the map of blocks is brought
//! up to date; the table is merged into a new version of the index. When all that is written and all of the table's
//! transactions are in the log, it is flushed; then the first superblock is written and flushed, then the second. Only
//! then may what the old index referred to be used again, and the log be overwritten: at every moment each valid
//! superblock finds its whole index and log.

use crate::alloc::{Run, ZONE, zones};
use crate::api::{StoreError, StoreOut};
use crate::extents::WINDOW;
use crate::io::Purpose;
use crate::key;
use crate::merge::{Ground, Merge};
use crate::page::{Page, Place};
use crate::store::{Leaving, Store};
use crate::superblock::{COPIES, Super};
use crate::table::{Stats, Table};
use crate::tree::{Stop, Tree};
use std::collections::VecDeque;
use stdx::{BLOCK, Bufs};

/// Blocks of an entry of the map of blocks.
pub(crate) const SPACE_CHUNK: u64 = 4096;
/// Writes under way at most.
const WRITES: usize = 32;
/// Writes of data under way at most while nobody has to wait for the table to be written: a log record waits for those that
/// the device has got before it.
const GENTLE_WRITES: usize = 2;
/// Blocks are written early when they take this part of what a table may take.
const EARLY_SHARE: usize = 4;
/// A checkpoint is begun when this part of the log is left. Each makes nearly all pages of the index anew where overwrites are small
/// and many, so that the fewer there are the less is written.
const LOG_REST: u64 = 4;
/// The most blocks in one write.
const WRITE_BLOCKS: u64 = WINDOW;

enum Phase {
    /// Data, from this block on.
    Data(u64),
    /// The map of blocks.
    Space(VecDeque<SpaceChange>),
    Merge(Box<Merge>),
    /// Waiting for writes and for the log.
    Drain(Tree, Vec<Place>),
    /// Making everything durable that the new root refers to.
    Flush(Tree, Vec<Place>),
    /// Writing (even) and flushing (odd) the superblocks.
    Super(usize, Box<Super>, Vec<Place>),
}

/// Blocks of one entry of the map that were taken or given up.
struct SpaceChange {
    chunk: u64,
    given: bool,
    run: Run,
}

/// Blocks of data that are written before their table is frozen, so that it need not hold them.
#[derive(Default)]
pub(crate) struct Early {
    /// The number of the active table; the frozen one has the number before.
    table: u64,
    /// Writes under way for the frozen table and for the active one.
    frozen: usize,
    active: usize,
}

impl Early {
    pub fn ended(&mut self, table: u64) {
        *(if table == self.table { &mut self.active } else { &mut self.frozen }) -= 1;
    }

    fn freeze(&mut self) {
        assert_eq!(self.frozen, 0, "the checkpoint before has waited for them");
        self.frozen = std::mem::take(&mut self.active);
        self.table += 1;
    }
}

pub(crate) struct Checkpoint {
    phase: Phase,
    /// Writes and flushes under way.
    pending: usize,
    /// The last transaction of the table, and totals as of then.
    applied: u64,
    stats: Stats,
    next_id: u64,
}

impl Checkpoint {
    pub fn written(&mut self) {
        self.pending -= 1;
    }

    pub fn flushed(&mut self) {
        self.pending -= 1;
    }

    /// Whether it is making the device say that nothing is logged.
    pub fn is_clean(&self) -> bool {
        matches!(&self.phase, Phase::Super(_, sup, _) if sup.clean)
    }
}

impl Store {
    /// Begins a checkpoint where one is due, and carries it on.
    pub(crate) fn step_checkpoint(&mut self, out: &mut Vec<StoreOut>) -> Result<bool, StoreError> {
        let Some(mut checkpoint) = self.checkpoint.take() else { return Ok(self.begin_checkpoint()) };
        let result = self.advance(&mut checkpoint, out);
        if self.core.frozen.is_some() {
            self.checkpoint = Some(checkpoint);
        }
        match result {
            Ok(progress) => Ok(progress),
            Err(stop) => self.wait_for(stop, out).map(|()| false),
        }
    }

    fn begin_checkpoint(&mut self) -> bool {
        let ring = self.commit.ring();
        let due = self.wants_checkpoint
            || self.core.active.memory() > self.config.table_bytes
            || ring.used() > ring.len() - ring.len() / LOG_REST
            || self.core.active.given_blocks() > self.core.alloc.free_blocks();
        // When there is nothing else to do, the device may be told so.
        let close = self.closing && !self.sup.clean && self.commit.is_idle() && !self.core.garbage;
        if !(due && !self.core.active.is_empty() || close) {
            self.wants_checkpoint &= !self.commit.is_idle();
            return false;
        }
        if (self.sup.clean || self.sup_behind) && self.commit.has_to_log() {
            // A record can't be begun before that has changed, and this checkpoint would wait for the record.
            return self.unclean();
        }
        self.wants_checkpoint = false;
        // What is free counts on what the checkpoint before has left.
        self.release(usize::MAX);
        self.core.frozen = Some(Box::new(std::mem::take(&mut self.core.active)));
        self.early.freeze();
        self.checkpoint = Some(Box::new(Checkpoint {
            phase: Phase::Data(0),
            pending: 0,
            applied: self.core.applied,
            stats: self.core.stats,
            next_id: self.core.next_id,
        }));
        true
    }

    /// Makes the device say that something may be logged, by a checkpoint of nothing; false where one is under way.
    pub(crate) fn unclean(&mut self) -> bool {
        if self.checkpoint.is_some() {
            return false;
        }
        let generation = self.sup.generation + 1;
        let sup = Box::new(Super { generation, clean: false, ..self.sup.clone() });
        self.core.frozen = Some(Box::default());
        self.checkpoint = Some(Box::new(Checkpoint {
            phase: Phase::Super(0, sup, Vec::new()),
            pending: 0,
            applied: self.sup.applied,
            stats: self.sup.stats(),
            next_id: self.sup.next_id,
        }));
        true
    }

    /// One step; whether there was progress.
    fn advance(&mut self, checkpoint: &mut Checkpoint, out: &mut Vec<StoreOut>) -> Result<bool, Stop> {
        if checkpoint.pending >= WRITES {
            return Ok(false);
        }
        let idle = checkpoint.pending == 0;
        match &mut checkpoint.phase {
            Phase::Data(_) if checkpoint.pending >= self.data_writes() => return Ok(false),
            Phase::Data(from) => match next_data(self.core.frozen.as_ref().expect("being written"), *from) {
                Some((block, data)) => {
                    *from = block + (data.len() / BLOCK) as u64;
                    checkpoint.pending += 1;
                    self.io.write(Purpose::Checkpoint, block * BLOCK as u64, data, out);
                }
                None => checkpoint.phase = Phase::Space(self.space_changes()),
            },
            Phase::Space(changes) => {
                if changes.is_empty() {
                    let merge = Merge::new(self.core.tree, checkpoint.next_id, self.sup.generation + 1);
                    checkpoint.phase = Phase::Merge(Box::new(merge));
                } else {
                    self.change_space(changes)?;
                }
            }
            Phase::Merge(_) if self.effort == 0 => return Ok(false),
            Phase::Merge(merge) => {
                let (writes, result) = self.step_merge(merge, out);
                checkpoint.pending += writes;
                if let Some(tree) = result? {
                    checkpoint.phase = Phase::Drain(tree, std::mem::take(&mut merge.freed));
                }
            }
            Phase::Drain(tree, freed) => {
                if !idle || self.early.frozen > 0 || self.commit.durable() < checkpoint.applied {
                    return Ok(false);
                }
                checkpoint.phase = Phase::Flush(*tree, std::mem::take(freed));
                if !stdx::mutants::is_active("store_points_to_pages_that_are_not_durable") {
                    checkpoint.pending += 1;
                    self.io.flush(Purpose::CheckpointFlush, out);
                }
            }
            Phase::Flush(tree, freed) => {
                if !idle {
                    return Ok(false);
                }
                let (tree, freed) = (*tree, std::mem::take(freed));
                let sup = Box::new(self.next_super(tree, checkpoint));
                checkpoint.phase = Phase::Super(0, sup, freed);
            }
            Phase::Super(step, sup, freed) => {
                if !idle {
                    return Ok(false);
                }
                match *step {
                    0 | 2 => self.io.write(Purpose::Checkpoint, COPIES[*step / 2], sup.encode_block(), out),
                    1 | 3 => self.io.flush(Purpose::CheckpointFlush, out),
                    _ => {
                        let (sup, freed) = (std::mem::take(&mut **sup), std::mem::take(freed));
                        self.finish_checkpoint(sup, freed);
                        return Ok(true);
                    }
                }
                *step += 1;
                checkpoint.pending += 1;
            }
        }
        Ok(true)
    }

    /// Makes some pages of the new tree; gives the number of writes begun, and the tree when it is complete.
    fn step_merge(
        &mut self,
        merge: &mut Merge,
        out: &mut Vec<StoreOut>,
    ) -> (usize, Result<Option<Tree>, Stop>) {
        let mut pages = Vec::new();
        let mut ground = Ground {
            cache: &mut self.core.cache,
            alloc: &mut self.core.alloc,
            leaves: &self.core.frozen.as_ref().expect("being written").changes,
            written: &mut pages,
        };
        let mut result = Ok(None);
        while matches!(result, Ok(None)) && ground.written.len() < WRITES && self.effort > 0 {
            result = merge.step(&mut ground);
            self.effort -= 1;
        }
        self.core.cache.trim();
        self.core.making = merge.made;
        (self.write_pages(pages, out), result)
    }

    /// Writes blocks of the active table when it holds many of them. Where they go belongs to nothing durable, and what is
    /// written there now is no longer replaced in place.
    pub(crate) fn write_early(&mut self, out: &mut Vec<StoreOut>) {
        let enough = self.config.table_bytes / EARLY_SHARE;
        while self.core.active.unwritten_bytes() > enough
            && self.early.active < self.data_writes()
            && let Some((first, data)) = next_data(&self.core.active, 0)
        {
            for block in first..first + (data.len() / BLOCK) as u64 {
                self.core.active.unwritten.remove(&block);
            }
            self.early.active += 1;
            self.core.writing.begin(first, data.clone());
            self.io.write(Purpose::Early(self.early.table, first), first * BLOCK as u64, data, out);
        }
    }

    /// What became of blocks, by entries of the map; in each first those taken, then those given up, which may be the same.
    fn space_changes(&self) -> VecDeque<SpaceChange> {
        let frozen = self.core.frozen.as_ref().expect("being written");
        let taken = frozen.taken.iter().map(|run| (false, *run));
        let given = frozen.given.iter().map(|run| (true, *run));
        let mut out: Vec<SpaceChange> = Vec::new();
        for (given, (first, count)) in taken.chain(given) {
            let mut at = first;
            while at < first + count {
                let chunk = at / SPACE_CHUNK;
                let end = ((chunk + 1) * SPACE_CHUNK).min(first + count);
                out.push(SpaceChange { chunk, given, run: (at, end - at) });
                at = end;
            }
        }
        out.sort_by_key(|c| (c.chunk, c.given));
        out.into()
    }

    /// Brings one entry of the map of blocks up to date.
    fn change_space(&mut self, changes: &mut VecDeque<SpaceChange>) -> Result<(), Stop> {
        let chunk = changes[0].chunk;
        let key = key::space(chunk);
        let mut bits = match self.core.tree.with(&self.core.cache, &key, |bits| bits.map(<[u8]>::to_vec))? {
            Some(bits) if bits.len() == SPACE_CHUNK as usize / 8 => bits,
            Some(_) => return Err(crate::tree::corrupt("an entry of the map of blocks")),
            None => vec![0; SPACE_CHUNK as usize / 8],
        };
        while changes.front().is_some_and(|c| c.chunk == chunk) {
            let change = changes.pop_front().expect("looked at");
            for (zone, mask) in zones(change.run) {
                let at = zone % (SPACE_CHUNK / ZONE) as usize * 8;
                let word = &mut bits[at..at + 8];
                let old = u64::from_le_bytes((&*word).try_into().expect("8 bytes"));
                let taken = if change.given { mask } else { 0 };
                assert_eq!(old & mask, taken, "blocks of {:?} are taken and given up in turn", change.run);
                word.copy_from_slice(&(old ^ mask).to_le_bytes());
            }
        }
        let value = bits.iter().any(|b| *b != 0).then_some(bits);
        self.core.frozen.as_mut().expect("being written").put(key, value);
        Ok(())
    }

    /// Writes pages, those side by side at once; gives the number of writes.
    fn write_pages(&mut self, pages: Vec<(Place, Page)>, out: &mut Vec<StoreOut>) -> usize {
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
            self.io.write(Purpose::Checkpoint, block * BLOCK as u64, data, out);
        }
        count
    }

    fn next_super(&self, tree: Tree, checkpoint: &Checkpoint) -> Super {
        let (log_pos, log_seq) = self.commit.ring().head_after(checkpoint.applied);
        let root = tree.root.unwrap_or_default();
        let clean = self.commit.is_idle() && self.core.active.is_empty() && self.closing;
        Super {
            generation: self.sup.generation + 1,
            log_durable: self.commit.first_unsure(),
            clean,
            root_block: root.block,
            root_second: root.second,
            root_crc: root.crc,
            levels: tree.levels,
            pages: tree.pages,
            log_pos,
            log_seq,
            applied: checkpoint.applied,
            next_id: checkpoint.next_id,
            objects: checkpoint.stats.objects,
            data: checkpoint.stats.data,
            omap: checkpoint.stats.omap,
            largest_omap: checkpoint.stats.largest_omap,
            largest_data: checkpoint.stats.largest_data,
            ..self.sup.clone()
        }
    }

    /// How many writes of data may be under way.
    fn data_writes(&self) -> usize {
        if self.pressure() > 4 { WRITES } else { GENTLE_WRITES }
    }

    /// How urgent it is that a checkpoint ends, in eighths: of what may come meanwhile in memory and in the log.
    fn pressure(&self) -> usize {
        if self.commit.is_held() {
            return 8;
        }
        let (memory, room) = (self.core.active.memory(), self.config.table_bytes);
        let ring = self.commit.ring();
        let rest = (ring.len() / LOG_REST).max(1);
        let left = (ring.len() - ring.used()).min(rest);
        (memory * 8 / room.max(1)).max(((rest - left) * 8 / rest) as usize)
    }

    /// How many pages may be made after this input, which followed `transactions`. Making one takes some ten microseconds, and
    /// whoever waits for a commit waits for that too; so it is few as long as the active table and the log have room to spare for what
    /// comes meanwhile.
    pub(crate) fn checkpoint_effort(&self, transactions: u64) -> usize {
        let few = 1 + transactions as usize / 16;
        match self.pressure() {
            0..2 => few,
            2..4 => 2 * few,
            4..6 => 4 * few,
            6..8 => 16 * few,
            _ => usize::MAX,
        }
    }

    /// The new root is durable in both places.
    fn finish_checkpoint(&mut self, sup: Super, pages: Vec<Place>) {
        let mut frozen = self.core.frozen.take().expect("being written");
        for (block, content) in std::mem::take(&mut frozen.unwritten) {
            self.core.blocks.insert(block, content);
        }
        self.core.tree = sup.tree();
        self.commit.ring_mut().advance(sup.log_pos);
        self.sup = sup;
        self.sup_behind = false;
        let runs = std::mem::take(&mut frozen.given);
        self.leaving.push_back(Leaving::new(self.io.mark(), runs, pages));
        self.spent.push_back(std::mem::take(&mut frozen.changes));
        self.core.making = 0;
        self.checkpoint_ended();
    }
}

/// The next blocks in a row of a table that are to be written, from `from` on.
fn next_data(table: &Table, from: u64) -> Option<(u64, Bufs)> {
    let mut blocks = table.unwritten.range(from..);
    let (first, content) = blocks.next()?;
    let mut data = Bufs::from(content.clone());
    for (i, (block, content)) in (1..WRITE_BLOCKS).zip(blocks) {
        if *block != first + i {
            break;
        }
        data.push(content.clone());
    }
    Some((*first, data))
}
