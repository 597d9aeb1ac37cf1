//! The way of a transaction: admitted, logged, applied.

use crate::api::{ObjectKey, StoreError, StoreOut, Transaction, TxnId};
use crate::extents::extents;
use crate::io::Purpose;
use crate::key;
use crate::logged::{Bulk, Cost, Draft, Logged, Step, block_crcs, draft};
use crate::plan::Plan;
use crate::read::onode;
use crate::ring::{Record, Ring};
use crate::steps::Staged;
use crate::store::Store;
use crate::tree::Stop;
use std::collections::{BTreeMap, VecDeque};
use stdx::BLOCK;
use wire::Writer;

/// The most objects of a transaction whose pages are asked for at once.
const AHEAD: usize = 128;
/// Writes of the transactions to come whose pages are asked for at once.
const WRITES_AHEAD: usize = 64;
/// The most bytes of transactions in one log record, unless one alone is larger.
const GROUP_BYTES: usize = 1 << 20;

struct Waiting {
    id: TxnId,
    drafts: Vec<Draft>,
    cost: Cost,
}

struct ToLog {
    id: TxnId,
    seq: u64,
    bytes: Vec<u8>,
    /// Whether data of it goes to its place at once.
    bulk: bool,
}

struct Unapplied {
    txn: Logged,
    cost: Cost,
}

/// Transactions being made durable together.
struct Group {
    ids: Vec<TxnId>,
    first: u64,
    last: u64,
    writes: usize,
    flush: Flush,
}

/// What makes a group durable besides its record, which is written through.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flush {
    /// Nothing, or it is done.
    No,
    /// Once the record and the data that goes beside it are written.
    Wanted,
    UnderWay,
}

/// What the transaction to be applied waits for.
enum Blocked {
    No,
    /// All of these pages.
    Pages(Vec<u64>),
    Fetch,
}

/// Transactions between submission and the table.
pub(crate) struct Commit {
    ring: Ring,
    waiting: VecDeque<Waiting>,
    /// Whether the first of them waits for a checkpoint to end.
    held: bool,
    to_log: VecDeque<ToLog>,
    group: Option<Group>,
    unapplied: VecDeque<Unapplied>,
    blocked: Blocked,
    /// How often the next transaction had to wait.
    stops: usize,
    /// Large writes under way, by transaction.
    direct: BTreeMap<u64, usize>,
    /// What transactions that are not applied may need …
    promised: Cost,
    /// … and those of them that were admitted.
    admitted: Cost,
    /// Submitted in this life.
    submitted: u64,
    /// Number of the next one to be admitted.
    next_seq: u64,
    durable: u64,
    /// Bytes of transactions that are held.
    bytes: usize,
}

impl Default for Commit {
    fn default() -> Self {
        Self {
            ring: Ring::new(0, BLOCK as u64, 0, 0, 1),
            waiting: VecDeque::new(),
            held: false,
            to_log: VecDeque::new(),
            group: None,
            unapplied: VecDeque::new(),
            blocked: Blocked::No,
            stops: 0,
            direct: BTreeMap::new(),
            promised: Cost::default(),
            admitted: Cost::default(),
            submitted: 0,
            next_seq: 1,
            durable: 0,
            bytes: 0,
        }
    }
}

impl Commit {
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    pub fn ring_mut(&mut self) -> &mut Ring {
        &mut self.ring
    }

    /// What transactions that are not applied may need.
    pub fn promised(&self) -> Cost {
        self.promised
    }

    /// What transactions that are admitted and not applied may need.
    pub fn admitted(&self) -> Cost {
        self.admitted
    }

    /// The last durable transaction.
    pub fn durable(&self) -> u64 {
        self.durable
    }

    /// How many were submitted; reads after them see their effects.
    pub fn mark(&self) -> u64 {
        self.submitted
    }

    pub fn memory(&self) -> usize {
        self.bytes + self.to_log.iter().map(|t| t.bytes.len()).sum::<usize>()
    }

    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.to_log.is_empty() && self.group.is_none() && self.unapplied.is_empty()
    }

    /// How often the next transaction had to wait for something to be read.
    pub fn stops(&self) -> usize {
        self.stops
    }

    /// Whether nothing waits to be applied.
    pub fn is_applied(&self) -> bool {
        self.unapplied.is_empty()
    }

    /// Whether a transaction before `mark` that is not applied touches the object (any object for `None`).
    pub fn is_pending(&self, mark: u64, object: Option<&ObjectKey>) -> bool {
        let applied_or_admitted = self.submitted - self.waiting.len() as u64;
        let unapplied = self.unapplied.len() as u64;
        // The transactions of this life are numbered without gaps: the queues hold the newest ones.
        let first = applied_or_admitted.saturating_sub(unapplied);
        let admitted = (first..).zip(&self.unapplied).take_while(|(n, _)| *n < mark);
        let waiting = (applied_or_admitted..).zip(&self.waiting).take_while(|(n, _)| *n < mark);
        let touches = |object: &ObjectKey| {
            let admitted = admitted.clone().any(|(_, u)| u.txn.steps.iter().any(|s| s.touches(object)));
            admitted || waiting.clone().any(|(_, w)| w.drafts.iter().any(|d| d.touches(object)))
        };
        match object {
            Some(object) => touches(object),
            None => admitted.clone().next().is_some() || waiting.clone().next().is_some(),
        }
    }

    pub fn submit(&mut self, txn: Transaction, cost: Cost, direct_bytes: usize) -> TxnId {
        self.submitted += 1;
        let id = TxnId(self.submitted);
        self.promise(cost);
        self.waiting.push_back(Waiting { id, drafts: draft(txn, direct_bytes), cost });
        id
    }

    /// So many blocks of a transaction that was admitted have been taken.
    fn taken(&mut self, blocks: u64) {
        self.promised.blocks -= blocks;
        self.admitted.blocks -= blocks;
    }

    fn promise(&mut self, cost: Cost) {
        self.promised.blocks += cost.blocks;
        self.promised.index += cost.index;
        self.promised.cloned += cost.cloned;
        self.bytes += cost.log as usize;
    }

    /// Begins a life with a log; `applied` is the last transaction that the index contains.
    pub fn begin(&mut self, ring: Ring, applied: u64) {
        self.ring = ring;
        self.durable = applied;
        self.next_seq = self.durable + 1;
    }

    /// A record was found in the log when opening.
    pub fn found(&mut self, record: &Record, applied: u64) {
        self.ring.found(record);
        self.durable = record.txns.last().map_or(applied, |t| t.seq).max(applied);
        self.next_seq = self.durable + 1;
    }

    /// Transactions found in the log are to be applied.
    pub fn replay(&mut self, txns: impl Iterator<Item = Logged>) {
        self.unapplied.extend(txns.map(|txn| Unapplied { txn, cost: Cost::default() }));
    }

    /// Whether a record is to be begun.
    pub fn has_to_log(&self) -> bool {
        self.group.is_none() && !(self.to_log.is_empty() && self.waiting.is_empty())
    }

    /// Whether somebody waits for a transaction to be durable.
    pub fn has_unlogged(&self) -> bool {
        self.group.is_some() || !(self.to_log.is_empty() && self.waiting.is_empty())
    }

    /// Whether a transaction waits for a checkpoint to end.
    pub fn is_held(&self) -> bool {
        self.held
    }

    /// Whether a record is under way.
    pub fn is_logging(&self) -> bool {
        self.group.is_some()
    }

    /// The first record that may not be durable.
    pub fn first_unsure(&self) -> u64 {
        self.ring.next().1 - u64::from(self.group.is_some())
    }

    pub fn log_written(&mut self) {
        self.group.as_mut().expect("a record being written").writes -= 1;
    }

    pub fn direct_written(&mut self, seq: u64) {
        let left = self.direct.get_mut(&seq).expect("a large write under way");
        *left -= 1;
        if *left == 0 {
            self.direct.remove(&seq);
        }
    }

    pub fn fetched(&mut self) {
        self.blocked = Blocked::No;
    }

    pub fn log_flushed(&mut self) {
        self.group.as_mut().expect("a group being flushed").flush = Flush::No;
    }

    /// The group is durable.
    fn end_group(&mut self, out: &mut Vec<StoreOut>) {
        let group = self.group.take().expect("looked at");
        self.durable = group.last;
        out.extend(group.ids.into_iter().map(StoreOut::Committed));
    }
}

impl Store {
    /// Gives the next waiting transactions their number, room in the log and places for large writes.
    pub(crate) fn admit(&mut self, out: &mut Vec<StoreOut>) -> Result<bool, StoreError> {
        let mut progress = false;
        self.commit.held = false;
        while let Some(front) = self.commit.waiting.front() {
            // What is logged and not applied is held in memory.
            if self.commit.bytes > 2 * self.config.table_bytes && !self.commit.is_applied() {
                break;
            }
            let crowded = self.checkpoint.is_some() && self.core.active.memory() > self.config.table_bytes;
            let mut no_room = !self.has_room(front.cost) && self.may_free();
            if no_room && !self.leaving.is_empty() {
                let cost = front.cost;
                self.release(usize::MAX);
                no_room = !self.has_room(cost) && self.may_free();
            }
            let front = self.commit.waiting.front().expect("looked at");
            if crowded || no_room || !self.commit.ring.reserve(front.cost.log) {
                self.wants_checkpoint = true;
                self.commit.held = true;
                break;
            }
            let Waiting { id, drafts, mut cost } = self.commit.waiting.pop_front().expect("looked at");
            let seq = self.commit.next_seq;
            self.commit.next_seq += 1;
            self.commit.admitted.blocks += cost.blocks;
            self.commit.admitted.index += cost.index;
            let mut steps = Vec::with_capacity(drafts.len());
            let mut has_bulk = false;
            for draft in drafts {
                steps.push(match draft {
                    Draft::Op(op) => Step::Op(op),
                    Draft::Bulk(key, block, data) => {
                        let bulk = self.place(seq, key, block, &data, out)?;
                        let blocks = bulk.crcs.len() as u64;
                        self.commit.taken(blocks);
                        cost.blocks -= blocks;
                        has_bulk = true;
                        Step::Bulk(bulk)
                    }
                });
            }
            let txn = Logged { seq, steps };
            let mut w = Writer::with_room(cost.log as usize);
            w.put(&txn);
            let bytes = w.into_vec();
            assert!(bytes.len() as u64 <= cost.log, "{} bytes, {} were reckoned", bytes.len(), cost.log);
            self.commit.ring.settle_reservation(cost.log, bytes.len() as u64);
            self.commit.to_log.push_back(ToLog { id, seq, bytes, bulk: has_bulk });
            self.commit.unapplied.push_back(Unapplied { txn, cost });
            progress = true;
        }
        Ok(progress)
    }

    /// Finds places for whole blocks and starts writing them.
    fn place(
        &mut self,
        seq: u64,
        key: ObjectKey,
        block: u64,
        data: &stdx::Bufs,
        out: &mut Vec<StoreOut>,
    ) -> Result<Bulk, StoreError> {
        let (mut runs, mut at, mut goal) = (Vec::new(), 0, None);
        while at < data.len() {
            let want = ((data.len() - at) / BLOCK) as u64;
            let Some(run) = self.core.alloc.data(want, goal) else {
                let Stop::Error(error) = crate::plan::full() else { unreachable!("an error") };
                return Err(error);
            };
            goal = Some(run.0 + run.1);
            let end = at + run.1 as usize * BLOCK;
            let part = data.slice(at..end);
            self.core.writing.begin(run.0, part.clone());
            self.io.write(Purpose::Direct(seq, run.0), run.0 * BLOCK as u64, part, out);
            *self.commit.direct.entry(seq).or_default() += 1;
            runs.push(run);
            at = end;
        }
        Ok(Bulk { key, block, runs, crcs: block_crcs(data) })
    }

    /// Applies the next transaction, if what it needs is in memory.
    pub(crate) fn apply_next(&mut self, out: &mut Vec<StoreOut>) -> Result<bool, StoreError> {
        match &self.commit.blocked {
            Blocked::Fetch => return Ok(false),
            Blocked::Pages(pages) if pages.iter().any(|page| self.io.is_loading(*page)) => return Ok(false),
            _ => self.commit.blocked = Blocked::No,
        }
        let Some(next) = self.commit.unapplied.front() else { return Ok(false) };
        let number = self.commit.submitted.saturating_sub(self.commit.waiting.len() as u64)
            - (self.commit.unapplied.len() as u64).min(self.commit.submitted);
        if self.reads.values().any(|read| read.is_before(number, &next.txn)) {
            return Ok(false);
        }
        let sources = next.txn.steps.iter().filter_map(Step::cloned).cloned().collect::<Vec<_>>();
        if let Some(progress) = self.stage_omaps(&sources, out)? {
            return Ok(progress);
        }
        let Some(next) = self.commit.unapplied.front() else { return Ok(false) };
        let (stats, next_id) = (self.core.stats, self.core.next_id);
        let (base, alloc) = self.core.base();
        let mut plan = Plan::new(base, alloc, stats, next_id);
        match next.txn.steps.iter().try_for_each(|step| plan.step(step)) {
            Ok(()) => {
                let done = plan.finish();
                self.core.stats = done.stats;
                self.core.next_id = done.next_id;
                self.core.garbage |= done.garbage;
                done.apply(&mut self.core.active);
                let Unapplied { txn, cost } = self.commit.unapplied.pop_front().expect("looked at");
                self.core.applied = txn.seq;
                self.core.fetched.clear();
                self.core.staged.clear();
                self.commit.stops = 0;
                self.commit.promised.blocks -= cost.blocks;
                self.commit.promised.index -= cost.index;
                self.commit.promised.cloned -= cost.cloned;
                self.commit.admitted.blocks -= cost.blocks;
                self.commit.admitted.index -= cost.index;
                self.commit.bytes -= cost.log as usize;
                Ok(true)
            }
            Err(stop) => {
                plan.undo();
                self.block(stop, out)?;
                self.load_ahead(out);
                Ok(false)
            }
        }
    }

    /// Nothing is applied until the cause of `stop` is gone.
    fn block(&mut self, stop: Stop, out: &mut Vec<StoreOut>) -> Result<(), StoreError> {
        self.commit.stops += 1;
        self.commit.blocked = match &stop {
            Stop::Page(ptr, _) => Blocked::Pages(vec![ptr.block]),
            _ => Blocked::Fetch,
        };
        self.wait_for(stop, out)
    }

    /// Copies large omaps that the next transaction clones, some entries at a time, so that checkpoints can be made in
    /// between; `None` when all are copied, else whether there was progress.
    fn stage_omaps(
        &mut self,
        objects: &[ObjectKey],
        out: &mut Vec<StoreOut>,
    ) -> Result<Option<bool>, StoreError> {
        const ENTRIES: usize = 256;
        for (i, object) in objects.iter().enumerate() {
            // Each clone of an object in the transaction gets a copy of its own.
            let nth = objects[..i].iter().filter(|o| *o == object).count();
            let crowded = self.checkpoint.is_some() && self.core.active.memory() > self.config.table_bytes;
            let mut staged = std::mem::take(&mut self.core.staged);
            let (stats, next_id) = (self.core.stats, self.core.next_id);
            let (base, alloc) = self.core.base();
            let mut plan = Plan::new(base, alloc, stats, next_id);
            let worked = plan.large_omap(object).and_then(|source| {
                let Some(source) = source else { return Ok(false) };
                let known = (0..staged.len()).filter(|at| staged[*at].source == source).nth(nth);
                let at = known.unwrap_or(staged.len());
                if known.is_none() {
                    staged.push(Staged { source, ..Staged::default() });
                }
                if staged[at].done {
                    return Ok(false);
                }
                // What stops leaves nothing behind, also of what is noted here.
                let mut next = staged[at].clone();
                if !crowded {
                    plan.stage(&mut next, ENTRIES)?;
                    staged[at] = next;
                }
                Ok(true)
            });
            let done = plan.finish();
            self.core.staged = staged;
            match worked {
                Ok(false) => {}
                Ok(true) => {
                    self.commit.stops = 0;
                    self.core.next_id = done.next_id;
                    self.core.garbage |= done.garbage;
                    done.apply(&mut self.core.active);
                    return Ok(Some(!crowded));
                }
                Err(stop) => return self.block(stop, out).map(|()| Some(false)),
            }
        }
        Ok(None)
    }

    /// Asks for the pages that the other objects of the next transaction are on, so that it is not begun again for
    /// each of them, and for those of the writes after it, so that they do not wait for one another.
    fn load_ahead(&mut self, out: &mut Vec<StoreOut>) {
        let Blocked::Pages(pages) = &mut self.commit.blocked else { return };
        let Some(next) = self.commit.unapplied.front() else { return };
        let view = self.core.view();
        for object in next.txn.steps.iter().flat_map(Step::objects).take(AHEAD) {
            if let Err(Stop::Page(ptr, level)) = view.get(&key::object(object))
                && !pages.contains(&ptr.block)
                && self.io.load(ptr, level, out).is_ok()
            {
                pages.push(ptr.block);
            }
        }
        let most = (self.core.cache.limit() / 4).min(WRITES_AHEAD);
        let writes = self.commit.unapplied.iter().flat_map(|u| u.txn.steps.iter().filter_map(Step::written));
        for (object, from, to) in writes.take(most) {
            let missing = match onode(&view, object) {
                Ok(Some(onode)) => extents(&view, onode.id, from.saturating_sub(1), to).err(),
                Ok(None) => None,
                Err(stop) => Some(stop),
            };
            if let Some(Stop::Page(ptr, level)) = missing {
                // What can't be read is said when it is needed.
                let _ = self.io.load(ptr, level, out);
            }
        }
    }

    /// Writes the next log record, if none is under way and the batch is over; flushes what is written.
    pub(crate) fn write_log(&mut self, out: &mut Vec<StoreOut>) -> bool {
        let early = stdx::mutants::is_active("store_acknowledges_before_the_flush");
        let commit = &mut self.commit;
        if let Some(group) = &mut commit.group {
            let direct = commit.direct.range(group.first..=group.last).next().is_some();
            if group.writes > 0 || group.flush == Flush::UnderWay || direct {
                return false;
            }
            if group.flush == Flush::No || early {
                commit.end_group(out);
                return true;
            }
            group.flush = Flush::UnderWay;
            self.io.flush(Purpose::LogFlush, out);
            return true;
        }
        let Some(first) = commit.to_log.front().filter(|_| self.may_log).map(|t| t.seq) else { return false };
        if self.sup.clean || self.sup_behind || self.checkpoint.as_ref().is_some_and(|c| c.is_clean()) {
            // A superblock says that nothing was logged, or needs what the log will overwrite: first that must change.
            return self.unclean();
        }
        let (mut ids, mut txns, mut bytes, mut last, mut bulk) = (Vec::new(), Vec::new(), 0, first, false);
        while commit.to_log.front().is_some_and(|t| txns.is_empty() || bytes + t.bytes.len() <= GROUP_BYTES) {
            let next = commit.to_log.pop_front().expect("looked at");
            bytes += next.bytes.len();
            last = next.seq;
            bulk |= next.bulk;
            ids.push(next.id);
            txns.push(next.bytes);
        }
        let parts = commit.ring.append(&txns, last);
        let lacks_data = commit.direct.range(first..=last).next().is_some();
        let flush = match (bulk, lacks_data) {
            (false, _) => Flush::No,
            (true, false) => Flush::UnderWay,
            (true, true) => Flush::Wanted,
        };
        commit.group = Some(Group { ids, first, last, writes: parts.len(), flush });
        if flush == Flush::UnderWay {
            self.io.flush(Purpose::LogFlush, out);
        }
        for (offset, bytes) in parts {
            if flush == Flush::Wanted || early {
                self.io.write(Purpose::Log, offset, bytes, out);
            } else {
                self.io.write_through(Purpose::Log, offset, bytes, out);
            }
        }
        true
    }

    /// Removes some entries of omaps that were parted with, while nothing else is to be applied.
    pub(crate) fn collect_garbage(&mut self, out: &mut Vec<StoreOut>) -> Result<bool, StoreError> {
        const ENTRIES: usize = 128;
        let busy = !self.commit.is_applied() || self.core.active.memory() > self.config.table_bytes;
        if !self.core.garbage || busy {
            return Ok(false);
        }
        let (stats, next_id) = (self.core.stats, self.core.next_id);
        let (base, alloc) = self.core.base();
        let mut plan = Plan::new(base, alloc, stats, next_id);
        match plan.collect_garbage(ENTRIES) {
            Ok(more) => {
                plan.finish().apply(&mut self.core.active);
                self.core.garbage = more;
                Ok(more)
            }
            Err(stop) => {
                plan.undo();
                self.wait_for(stop, out)?;
                Ok(false)
            }
        }
    }
}
