//! The write-ahead log's queues: transactions between submission and the table.
//!
//! A transaction is *waiting* until the log has space for it, then *admitted*: it has its number and places
//! for its large writes, and is both to be logged and to be applied. One group of transactions is logged at a
//! time, in one record; it is durable when the record and all data beside it are.

use crate::alloc::Run;
use crate::api::{ObjectKey, StoreError, StoreOut, Transaction, TxnId};
use crate::core::Core;
use crate::crc::block_crcs;
use crate::io::{Io, Purpose};
use crate::logged::{Bulk, Cost, Draft, Logged, Step, draft};
use crate::ring::{Record, Ring};
use crate::stop::full;
use std::collections::{BTreeMap, VecDeque};
use stdx::{BLOCK, Bufs};
use wire::Writer;

/// The most bytes of transactions in one log record, unless a single one is larger.
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
    /// True if it has large writes, whose data bypasses the log.
    bulk: bool,
}

struct Unapplied {
    txn: Logged,
    cost: Cost,
}

/// Transactions that become durable together.
struct Group {
    ids: Vec<TxnId>,
    first: u64,
    last: u64,
    /// Writes of the record that are under way.
    writes: usize,
    flush: Flush,
}

/// The flush that a group needs besides its record, which is written through.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flush {
    /// None, or it is done.
    No,
    /// One, after the record and the data beside it are written.
    Wanted,
    UnderWay,
}

/// Transactions between submission and the table.
///
/// Invariants: transactions of this incarnation are numbered without gaps, `waiting` and `unapplied` hold the
/// newest; `admitted` is the cost of `unapplied`, `promised` that of `waiting` and `unapplied`; `hashes` has
/// the placement hashes of the objects that these two touch, in their order.
pub(crate) struct Commit {
    ring: Ring,
    waiting: VecDeque<Waiting>,
    /// True if the first of them waits for a checkpoint to end.
    held: bool,
    to_log: VecDeque<ToLog>,
    group: Option<Group>,
    unapplied: VecDeque<Unapplied>,
    /// Each read asks whether its object is among these, which compares faster than whole keys.
    hashes: VecDeque<u32>,
    /// Large writes under way, by transaction.
    direct: BTreeMap<u64, usize>,
    promised: Cost,
    admitted: Cost,
    /// Transactions submitted in this incarnation.
    submitted: u64,
    /// Number of the next one to be admitted.
    next_seq: u64,
    /// The last durable transaction.
    durable: u64,
    /// Bytes of transactions in memory.
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
            hashes: VecDeque::new(),
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

/// Queries.
impl Commit {
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// The most that all unapplied transactions may need.
    pub fn promised(&self) -> Cost {
        self.promised
    }

    /// The most that the admitted ones of them may need.
    pub fn admitted(&self) -> Cost {
        self.admitted
    }

    /// The last durable transaction.
    pub fn durable(&self) -> u64 {
        self.durable
    }

    /// Transactions submitted so far; a later read sees their effects.
    pub fn mark(&self) -> u64 {
        self.submitted
    }

    pub fn memory(&self) -> usize {
        self.bytes + self.to_log.iter().map(|t| t.bytes.len()).sum::<usize>()
    }

    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.to_log.is_empty() && self.group.is_none() && self.unapplied.is_empty()
    }

    /// True if nothing waits to be applied.
    pub fn is_applied(&self) -> bool {
        self.unapplied.is_empty()
    }

    /// True if an unapplied transaction before `mark` touches the object (any object for `None`).
    pub fn is_pending(&self, mark: u64, object: Option<&ObjectKey>) -> bool {
        let (front, back) = self.hashes.as_slices();
        if object.is_some_and(|o| !front.contains(&o.hash) && !back.contains(&o.hash)) {
            return false;
        }
        let applied_or_admitted = self.submitted - self.waiting.len() as u64;
        let first = applied_or_admitted.saturating_sub(self.unapplied.len() as u64);
        let mut admitted = (first..).zip(&self.unapplied).take_while(|(n, _)| *n < mark);
        let mut waiting = (applied_or_admitted..).zip(&self.waiting).take_while(|(n, _)| *n < mark);
        let Some(object) = object else { return admitted.next().is_some() || waiting.next().is_some() };
        admitted.any(|(_, u)| u.txn.steps.iter().any(|step| step.touches(object)))
            || waiting.any(|(_, w)| w.drafts.iter().any(|draft| draft.touches(object)))
    }

    /// True if a transaction is to be logged and no record is under way.
    pub fn has_to_log(&self) -> bool {
        self.group.is_none() && !(self.to_log.is_empty() && self.waiting.is_empty())
    }

    /// True if a transaction is not durable yet.
    pub fn has_unlogged(&self) -> bool {
        self.group.is_some() || !(self.to_log.is_empty() && self.waiting.is_empty())
    }

    /// True if an admitted transaction could join a record now.
    pub fn has_record(&self) -> bool {
        self.group.is_none() && !self.to_log.is_empty()
    }

    /// True if a transaction waits for a checkpoint to end.
    pub fn is_held(&self) -> bool {
        self.held
    }

    /// True if a record is under way.
    pub fn is_logging(&self) -> bool {
        self.group.is_some()
    }

    /// The first record that may not be durable.
    pub fn first_unsure(&self) -> u64 {
        self.ring.next().1 - u64::from(self.group.is_some())
    }

    /// Bytes of transactions in memory.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Opening.
impl Commit {
    /// Takes over the log; `applied` is the last transaction that the index contains.
    pub fn begin(&mut self, ring: Ring, applied: u64) {
        self.ring = ring;
        self.durable = applied;
        self.next_seq = self.durable + 1;
    }

    /// Takes over a record found in the log; its transactions after `applied` are to be applied.
    pub fn replay(&mut self, record: Record, applied: u64) {
        self.ring.found(&record);
        self.durable = record.txns.last().map_or(applied, |t| t.seq).max(applied);
        self.next_seq = self.durable + 1;
        let txns: Vec<Logged> = record.txns.into_iter().filter(|t| t.seq > applied).collect();
        self.hashes.extend(txns.iter().flat_map(Logged::objects).map(|object| object.hash));
        self.unapplied.extend(txns.into_iter().map(|txn| Unapplied { txn, cost: Cost::default() }));
    }
}

/// Submission and admission.
impl Commit {
    pub fn submit(&mut self, txn: Transaction, cost: Cost, direct_bytes: usize) -> TxnId {
        self.submitted += 1;
        let id = TxnId(self.submitted);
        self.promised.add(cost);
        self.bytes += cost.log as usize;
        let drafts = draft(txn, direct_bytes);
        self.hashes.extend(drafts.iter().flat_map(Draft::objects).map(|object| object.hash));
        self.waiting.push_back(Waiting { id, drafts, cost });
        id
    }

    /// The cost of the next waiting transaction.
    pub fn next_cost(&self) -> Option<Cost> {
        self.waiting.front().map(|waiting| waiting.cost)
    }

    /// Reserves space in the log for the next waiting transaction.
    pub fn reserve_log(&mut self, cost: Cost) -> bool {
        self.ring.reserve(cost.log)
    }

    /// Notes if the next transaction waits for a checkpoint to end.
    pub fn set_held(&mut self, held: bool) {
        self.held = held;
    }

    /// Admits the next waiting transaction, for which log space is reserved: gives it its number and places
    /// for its large writes, which start at once.
    pub fn admit(&mut self, core: &mut Core, io: &mut Io, out: &mut Vec<StoreOut>) -> Result<(), StoreError> {
        let Waiting { id, drafts, mut cost } = self.waiting.pop_front().expect("a waiting transaction");
        let seq = self.next_seq;
        self.next_seq += 1;
        self.admitted.add(cost);
        let mut steps = Vec::with_capacity(drafts.len());
        let mut has_bulk = false;
        for draft in drafts {
            steps.push(match draft {
                Draft::Op(op) => Step::Op(op),
                Draft::Bulk(key, block, data) => {
                    let runs = self.place_bulk(seq, &data, core, io, out)?;
                    let bulk = Bulk { key, block, runs, crcs: block_crcs(&data) };
                    let taken = Cost { blocks: bulk.crcs.len() as u64, ..Cost::default() };
                    self.promised.subtract(taken);
                    self.admitted.subtract(taken);
                    cost.subtract(taken);
                    has_bulk = true;
                    Step::Bulk(bulk)
                }
            });
        }
        let txn = Logged { seq, steps };
        let mut w = Writer::with_room(cost.log as usize);
        w.put(&txn);
        let bytes = w.into_vec();
        assert!(bytes.len() as u64 <= cost.log, "{} bytes, estimated {}", bytes.len(), cost.log);
        self.ring.settle_reservation(cost.log, bytes.len() as u64);
        self.to_log.push_back(ToLog { id, seq, bytes, bulk: has_bulk });
        self.unapplied.push_back(Unapplied { txn, cost });
        Ok(())
    }

    /// Allocates blocks for the data of a large write, which bypasses the log, and starts writing it. The
    /// blocks are free, so nothing on the device refers to them; they belong to the object once the
    /// transaction is applied.
    fn place_bulk(
        &mut self,
        seq: u64,
        data: &Bufs,
        core: &mut Core,
        io: &mut Io,
        out: &mut Vec<StoreOut>,
    ) -> Result<Vec<Run>, StoreError> {
        let (mut runs, mut at, mut goal) = (Vec::new(), 0, None);
        while at < data.len() {
            let want = ((data.len() - at) / BLOCK) as u64;
            let run = core.take_blocks(want, goal).ok_or_else(full)?;
            goal = Some(run.0 + run.1);
            let end = at + run.1 as usize * BLOCK;
            let part = data.slice(at..end);
            core.begin_write(run.0, part.clone());
            io.write(Purpose::Direct(seq, run.0), run.0 * BLOCK as u64, part, out);
            *self.direct.entry(seq).or_default() += 1;
            runs.push(run);
            at = end;
        }
        Ok(runs)
    }
}

/// Application.
impl Commit {
    /// The next transaction to be applied, and its number in this incarnation.
    pub fn next_unapplied(&self) -> Option<(u64, &Logged)> {
        let next = self.unapplied.front()?;
        let number = self.submitted.saturating_sub(self.waiting.len() as u64)
            - (self.unapplied.len() as u64).min(self.submitted);
        Some((number, &next.txn))
    }

    /// Transactions to be applied, in order.
    pub fn unapplied(&self) -> impl Iterator<Item = &Logged> {
        self.unapplied.iter().map(|unapplied| &unapplied.txn)
    }

    /// The next transaction was applied; gives its number.
    pub fn applied(&mut self) -> u64 {
        let Unapplied { txn, cost } = self.unapplied.pop_front().expect("an admitted transaction");
        self.hashes.drain(..txn.objects().count());
        self.promised.subtract(cost);
        self.admitted.subtract(cost);
        self.bytes -= cost.log as usize;
        txn.seq
    }
}

/// Logging.
impl Commit {
    /// Carries on the record under way: flushes what needs it, ends the group when it is durable.
    pub fn step_group(&mut self, io: &mut Io, out: &mut Vec<StoreOut>) -> bool {
        let Some(group) = &mut self.group else { return false };
        let direct = self.direct.range(group.first..=group.last).next().is_some();
        if group.writes > 0 || group.flush == Flush::UnderWay || direct {
            return false;
        }
        if group.flush == Flush::No || acknowledges_early() {
            let group = self.group.take().expect("looked at");
            self.durable = group.last;
            out.extend(group.ids.into_iter().map(StoreOut::Committed));
            return true;
        }
        group.flush = Flush::UnderWay;
        io.flush(Purpose::LogFlush, out);
        true
    }

    /// Writes the next record: all admitted transactions that fit one.
    ///
    /// A record without large writes is written through and needs no flush. With large writes whose data is
    /// written already, the flush runs beside the record; otherwise it follows both.
    pub fn begin_record(&mut self, io: &mut Io, out: &mut Vec<StoreOut>) {
        assert!(self.group.is_none(), "one record at a time");
        let Some(first) = self.to_log.front().map(|t| t.seq) else { return };
        let (mut ids, mut txns, mut bytes, mut last, mut bulk) = (Vec::new(), Vec::new(), 0, first, false);
        while self.to_log.front().is_some_and(|t| txns.is_empty() || bytes + t.bytes.len() <= GROUP_BYTES) {
            let next = self.to_log.pop_front().expect("looked at");
            bytes += next.bytes.len();
            last = next.seq;
            bulk |= next.bulk;
            ids.push(next.id);
            txns.push(next.bytes);
        }
        let parts = self.ring.append(&txns, last);
        let lacks_data = self.direct.range(first..=last).next().is_some();
        let flush = match (bulk, lacks_data) {
            (false, _) => Flush::No,
            (true, false) => Flush::UnderWay,
            (true, true) => Flush::Wanted,
        };
        self.group = Some(Group { ids, first, last, writes: parts.len(), flush });
        if flush == Flush::UnderWay {
            io.flush(Purpose::LogFlush, out);
        }
        for (offset, bytes) in parts {
            if flush == Flush::Wanted || acknowledges_early() {
                io.write(Purpose::Log, offset, bytes, out);
            } else {
                io.write_through(Purpose::Log, offset, bytes, out);
            }
        }
    }

    /// A write of the record has ended.
    pub fn log_written(&mut self) {
        self.group.as_mut().expect("a record under way").writes -= 1;
    }

    /// The flush of the group has ended.
    pub fn log_flushed(&mut self) {
        self.group.as_mut().expect("a group being flushed").flush = Flush::No;
    }

    /// A large write of transaction `seq` has ended.
    pub fn direct_written(&mut self, seq: u64) {
        let left = self.direct.get_mut(&seq).expect("a large write under way");
        *left -= 1;
        if *left == 0 {
            self.direct.remove(&seq);
        }
    }

    /// Frees the log before `head`, which the index contains durably.
    pub fn trim_log(&mut self, head: u64) {
        self.ring.advance(head);
    }
}

fn acknowledges_early() -> bool {
    stdx::mutants::is_active("store_acknowledges_before_the_flush")
}
