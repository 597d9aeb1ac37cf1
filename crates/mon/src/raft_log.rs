//! The replicated log: consensus, the state that it agreed on, and the store that holds both. Entries are
//! committed in order, a committed entry is never lost, and [`RaftLog::state`] shows committed entries only.
//!
//! The store (private pool -1) holds three objects: `mon.ident` names the owner of the store and holds term
//! and vote, `mon.log` has one omap entry for each log entry (key: index, big-endian), `mon.state` has the
//! rows of a checkpoint of the state. A checkpoint is part of the transaction of later entries: it writes the
//! rows that changed and drops the entries that it covers. A snapshot from a leader is collected in
//! `mon.incoming` and replaces `mon.state` in one step.
//!
//! Entries are applied only up to the next checkpoint that is due, so that its rows fit one transaction.
//! [`space`] decides what may be proposed.

mod space;

pub use space::NoSpace;

use crate::consensus::{Effect, Entry, Message, Position, Raft, Restored, Timing, VoterId, Voters};
use crate::entry::{Change, LogEntry};
use crate::state::{Row, State};
use crate::storage::Storage;
use maps::MonMap;
use node::{DiskOp, DiskOpId, DiskResult};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use stdx::{Instant, Now, Rng};
use store::{ObjectKey, ObjectView, OmapRange, Read, ReadId, ReadReply, StoreOut, Transaction, TxnId, TxnOp};
use wire::{Decode, DecodeError, Reader, Uuid, Writer, wire_structs};

/// Private pool of the monitor's objects.
const POOL: i64 = -1;
/// The most entries between two checkpoints.
const CHECKPOINT_EVERY: u64 = 64;
/// Entries kept in memory behind a checkpoint, for monitors that are a little late.
const KEPT_ENTRIES: u64 = 512;
/// Omap entries of one read while opening.
const OPENING_PAGE_ENTRIES: usize = 512;
/// Bytes of one read while opening.
const OPENING_PAGE_BYTES: usize = 1 << 20;
/// Most bytes of rows or entries in one transaction. A longer single one is written alone; the store may
/// allow fewer.
const MAX_TXN_BYTES: usize = 1 << 20;
/// Bytes that the store needs for a row beside its key and value.
const ROW_OVERHEAD_BYTES: usize = 100;
/// Version of this layout.
const FORMAT: u32 = 1;

wire_structs! {
    /// Identity of a store: its cluster and its monitor.
    pub struct Ident[v 2/1] {
        /// Version of the store's layout.
        pub format: u32,
        /// Id of the cluster.
        pub fsid: Uuid,
        /// Name of the monitor.
        pub name: String,
        /// Random number of the store, drawn when it was created.
        pub store: u64 = since 2,
    }

    /// Raft's durable state of a voter (Raft's `currentTerm` and `votedFor`).
    struct Hard[v 1/1] {
        term: u64,
        /// 0 for none.
        vote: u64,
    }
}

/// Events from the log to its owner.
#[derive(Debug)]
pub enum LogEvent {
    /// A disk operation of the store, to be carried out.
    Disk(DiskOpId, DiskOp),
    /// The store is open; `None` if nothing was ever written to it.
    Opened(Option<Ident>),
    /// Entries were committed: [`RaftLog::state`] has moved.
    Committed,
    /// A message for another monitor's store.
    Send(VoterId, Message),
    /// Another monitor needs the whole state.
    Snapshot(VoterId),
    /// The log has stopped for good.
    Failed(String),
    /// The same, because its device is too small for what was to be written.
    Full(String),
    /// The same, because a later version has written what is in it.
    Newer(String),
}

/// What is in the log can't be used; `what` says what that means, unless a later version can use it.
fn unusable(what: &str, error: &DecodeError) -> LogEvent {
    match error.is_newer {
        true => LogEvent::Newer(format!("the monitor's store: {}", error.of_stored())),
        false => LogEvent::Failed(format!("{what}: {error}")),
    }
}

/// See the module.
pub struct RaftLog<S> {
    store: S,
    opening: Option<Opening>,
    raft: Option<Raft>,
    restored: Restored,
    state: State,
    /// The state with all proposals applied; decisions are made on it. Only a leader's runs ahead.
    tail: State,
    writing: Option<Writing>,
    /// Rows of `state` that the stored checkpoint has not.
    dirty: BTreeSet<Row>,
    /// Bytes of the entries that brought them, and of what these entries removed.
    dirty_bytes: usize,
    /// A checkpoint is to be written with the next entries.
    wants_checkpoint: bool,
    checkpoint: u64,
    /// Identity to write with the first entries.
    ident: Option<Ident>,
    /// The newest monitor map of the entries that were found at the start and are in no checkpoint.
    logged_monmap: Option<MonMap>,
    stored_level: u32,
    /// An installed snapshot that is not yet written.
    incoming: Option<(u64, Rows)>,
}

/// A whole state as it is stored.
pub type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

struct Writing {
    txn: TxnId,
    mark: u64,
    /// Index of the checkpoint that rides along.
    checkpoint: Option<u64>,
}

#[derive(Default)]
struct Opening {
    object: usize,
    ident: Option<Ident>,
    hard: Hard,
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
    entries: BTreeMap<Vec<u8>, Vec<u8>>,
    last_key: Option<Vec<u8>>,
    read: Option<ReadId>,
}

const OBJECTS: [&str; 4] = ["mon.ident", "mon.state", "mon.log", "mon.incoming"];
/// The last of them is only on its way.
const READ_AT_START: usize = 3;

fn key(object: usize) -> ObjectKey {
    ObjectKey::private(POOL, OBJECTS[object])
}

impl<S: Storage> RaftLog<S> {
    /// A log on a store that is not open yet.
    pub fn new(store: S) -> Self {
        Self {
            store,
            opening: None,
            raft: None,
            restored: Restored::default(),
            state: State::default(),
            tail: State::default(),
            writing: None,
            dirty: BTreeSet::new(),
            dirty_bytes: 0,
            wants_checkpoint: false,
            checkpoint: 0,
            ident: None,
            logged_monmap: None,
            stored_level: 0,
            incoming: None,
        }
    }

    /// The newest monitor map that this monitor has stored, committed or not: voters are those of the last
    /// entry that names any, and they can't be asked what is committed before they are reached.
    pub fn stored_monmap(&self) -> &MonMap {
        let committed = &self.state.monmap;
        self.logged_monmap.as_ref().filter(|logged| logged.epoch > committed.epoch).unwrap_or(committed)
    }

    /// The committed state.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The state including proposals that are not yet committed. Nothing of it may be shown to anyone.
    pub fn tail(&self) -> &State {
        &self.tail
    }

    /// Index of the last proposal.
    pub fn proposed(&self) -> u64 {
        self.tail.version
    }

    /// True if a proposal is not yet committed.
    pub fn is_proposing(&self) -> bool {
        self.proposed() != self.state().version
    }

    /// Consensus; `None` until [`Self::begin`].
    pub fn raft(&self) -> Option<&Raft> {
        self.raft.as_ref()
    }

    /// True if this monitor leads and may decide.
    pub fn leads(&self) -> bool {
        self.raft.as_ref().is_some_and(Raft::is_active)
    }

    /// Opens the store; ends in [`LogEvent::Opened`].
    pub fn open(&mut self, events: &mut Vec<LogEvent>) {
        self.opening = Some(Opening::default());
        let mut out = Vec::new();
        self.store.open(&mut out);
        self.store_outs(Now::default(), out, events);
    }

    /// Sets the store's identity; it is written with the next transaction.
    pub fn set_ident(&mut self, ident: Ident) {
        self.ident = Some(ident);
    }

    /// Joins consensus as the store `own`. A store that predates voters has itself as the only one.
    pub fn begin(&mut self, now: Instant, own: VoterId, name: &str, rng: Rng) {
        let blank = self.is_blank();
        let mut restored = std::mem::take(&mut self.restored);
        let nobody = restored.voters.is_empty() && restored.entries.iter().all(|e| e.voters.is_none());
        if nobody && !blank {
            restored.voters = Voters::from([(own, name.to_owned())]);
        }
        self.raft = Some(Raft::new(own, Timing::default(), rng, restored, now));
    }

    /// The highest feature level in the store that was opened: of the checkpoint and the entries after it.
    pub fn stored_level(&self) -> u32 {
        self.stored_level
    }

    /// True if the log holds neither a state nor an entry.
    pub fn is_blank(&self) -> bool {
        self.state.is_empty()
            && self.raft.as_ref().is_none_or(|r| r.last().index == 0)
            && self.restored.entries.is_empty()
    }

    /// Makes this blank store the first voter of a new cluster.
    pub fn found(&mut self, now: Instant, name: &str, rng: Rng) {
        assert!(self.is_blank(), "a cluster is made once");
        let Some(raft) = &self.raft else { return };
        let own = raft.own();
        let voters = Voters::from([(own, name.to_owned())]);
        self.raft =
            Some(Raft::new(own, Timing::default(), rng, Restored { voters, ..Restored::default() }, now));
    }

    /// Begins to lead: decisions go on from the end of the log.
    pub fn lead(&mut self) {
        let raft = self.raft.as_ref().expect("a leader has begun");
        self.tail = self.state.clone();
        for index in self.state.version + 1..=raft.last().index {
            let entry = raft.entry(index).expect("what is not committed is in the log");
            let entry: LogEntry = decode(&entry.data).expect("was decoded when it came");
            self.tail.apply(&entry).expect("a leader made it from decoded values");
        }
    }

    /// Proposes changes that take effect together; committed when [`RaftLog::state`] has that version or a
    /// later one. Only a leader does.
    pub fn propose(&mut self, now: stdx::Wall, changes: Vec<Change>) -> u64 {
        let raft = self.raft.as_mut().filter(|r| r.is_leader()).expect("only a leader decides");
        let entry = LogEntry { index: self.tail.version + 1, term: raft.term(), stamp: now.into(), changes };
        self.tail.apply(&entry).expect("a proposal is made from decoded values");
        let index = raft.propose(Arc::new(Writer::encode(&entry)), voters_of(&entry));
        assert_eq!(index, Some(entry.index), "the tail ends where the log does");
        entry.index
    }

    /// A message from another monitor's store.
    pub fn step(&mut self, now: Now, from: VoterId, message: Message, events: &mut Vec<LogEvent>) {
        self.with_raft(events, |raft, out| raft.step(now.mono, from, message, out));
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Now, events: &mut Vec<LogEvent>) {
        self.with_raft(events, |raft, out| raft.tick(now.mono, out));
    }

    /// Gives up leadership and lets another monitor take it at once.
    pub fn resign(&mut self, now: Now, events: &mut Vec<LogEvent>) {
        self.with_raft(events, |raft, out| raft.resign(now.mono, out));
    }

    /// Time at which [`Self::tick`] is due.
    pub fn deadline(&self) -> Option<Instant> {
        self.raft.as_ref()?.deadline()
    }

    /// Lets the owner steer consensus in ways that have no effects of their own.
    pub fn steer<T>(&mut self, steer: impl FnOnce(&mut Raft) -> T) -> Option<T> {
        self.raft.as_mut().map(steer)
    }

    fn with_raft(&mut self, events: &mut Vec<LogEvent>, act: impl FnOnce(&mut Raft, &mut Vec<Effect>)) {
        let Some(raft) = &mut self.raft else { return };
        let mut effects = Vec::new();
        act(raft, &mut effects);
        self.effects(effects, events);
    }

    fn effects(&mut self, effects: Vec<Effect>, events: &mut Vec<LogEvent>) {
        if effects.contains(&Effect::Committed) && !self.apply_committed(events) {
            return;
        }
        for effect in effects {
            match effect {
                Effect::Send(to, message) => events.push(LogEvent::Send(to, message)),
                Effect::Snapshot(to) => events.push(LogEvent::Snapshot(to)),
                Effect::Committed => {}
            }
        }
    }

    /// Applies what is committed, up to the next checkpoint; false if the log has to stop.
    fn apply_committed(&mut self, events: &mut Vec<LogEvent>) -> bool {
        let before = self.state.version;
        while self.is_behind() && !self.has_much_to_store() {
            if let Err(error) = self.apply_next() {
                events.push(unusable("a committed entry can't be applied", &error));
                return false;
            }
        }
        if self.state.version > before {
            if !self.raft.as_ref().is_some_and(Raft::is_leader) {
                self.tail = self.state.clone();
            }
            events.push(LogEvent::Committed);
        }
        true
    }

    fn apply_next(&mut self) -> Result<(), DecodeError> {
        let raft = self.raft.as_ref().expect("what is committed was agreed on");
        let entry = raft
            .entry(self.state.version + 1)
            .expect("committed entries are in the log until a checkpoint has them");
        let bytes = entry.data.len();
        let entry: LogEntry = decode(&entry.data)?;
        self.dirty_bytes += bytes + self.replaced_bytes(&entry.changes);
        self.dirty.extend(self.state.apply(&entry)?);
        Ok(())
    }

    /// True if there are committed entries that [`Self::state`] does not show yet.
    fn is_behind(&self) -> bool {
        self.raft.as_ref().is_some_and(|raft| raft.committed() > self.state.version)
    }

    /// True if a read of [`Self::state`] now sees everything that anybody was ever told.
    pub fn may_read(&self, now: Instant) -> bool {
        self.raft.as_ref().is_some_and(|raft| raft.may_read(now)) && !self.is_behind()
    }

    /// The state for a monitor that is too far behind: its position, and its rows.
    pub fn snapshot(&self) -> (Position, Rows) {
        let rows = self.state.all_rows().into_iter();
        let rows = rows.filter_map(|row| self.state.row(&row).map(|value| (row.key(), value)));
        (Position { term: self.state.term, index: self.state.version }, rows.collect())
    }

    /// Installs the complete state that a leader sent. `Err` if it does not decode.
    pub fn install(
        &mut self,
        base: Position,
        rows: Rows,
        events: &mut Vec<LogEvent>,
    ) -> Result<(), DecodeError> {
        let state = State::from_rows(&rows)?;
        if (Position { term: state.term, index: state.version }) != base {
            let what = format!("a snapshot of {} called {}", state.version, base.index);
            return Err(DecodeError::of_all(what));
        }
        let Some(raft) = &mut self.raft else { return Ok(()) };
        if raft.install(base, voters(&state.voters)) {
            (self.state, self.tail) = (state.clone(), state);
            self.dirty.clear();
            self.dirty_bytes = 0;
            self.incoming = Some((base.index, rows));
            events.push(LogEvent::Committed);
        }
        Ok(())
    }

    /// Sends and writes what has accumulated, unless a write is in progress: the disk sets the pace.
    pub fn flush(&mut self, now: Now, events: &mut Vec<LogEvent>) {
        self.with_raft(events, |raft, out| raft.flush(now.mono, out));
        if self.writing.is_some() || !self.has_to_write() || self.waits_for_space(now, events) {
            return;
        }
        let Some(raft) = &mut self.raft else { return };
        let unsaved = raft.take_unsaved();
        let mut ops = Vec::new();
        if let Some((index, rows)) = self.incoming.take()
            && let Err(why) = self.submit_incoming(index, rows, &mut ops, now, events)
        {
            return events.push(LogEvent::Full(format!("the monitor can't write its state: {why}")));
        }
        let mut ident = Vec::new();
        if let Some(own) = self.ident.take() {
            ident.push((b"ident".to_vec(), Writer::encode(&own)));
        }
        if let Some((term, vote)) = unsaved.hard {
            let vote = vote.unwrap_or_default().0;
            ident.push((b"vote".to_vec(), Writer::encode(&Hard { term, vote })));
        }
        if !ident.is_empty() {
            ops.push(TxnOp::OmapSet(key(0), ident));
        }
        if let Some(from) = unsaved.truncate {
            ops.push(TxnOp::OmapRemoveRange(
                key(2),
                from.to_be_bytes().to_vec(),
                u64::MAX.to_be_bytes().to_vec(),
            ));
        }
        let rows = unsaved.entries.iter().map(|e| (e.at.index.to_be_bytes().to_vec(), e.data.to_vec()));
        let mut pieces = pieces(rows, self.piece_bytes());
        let last = pieces.pop();
        // A crash between two leaves the first entries of those that were to be added, none of which is
        // promised to anyone.
        for piece in pieces {
            ops.push(TxnOp::OmapSet(key(2), piece));
            if let Err(why) = self.submit_piece(now, std::mem::take(&mut ops), events) {
                return events.push(LogEvent::Full(format!("the monitor can't write its log: {why}")));
            }
        }
        ops.extend(last.map(|piece| TxnOp::OmapSet(key(2), piece)));
        let checkpoint = match self.is_checkpoint_due() {
            true => match self.checkpoint_ops(&mut ops, now, events) {
                Ok(index) => Some(index),
                Err(why) => {
                    let why = format!("the monitor can't write its state: {why}");
                    return events.push(LogEvent::Full(why));
                }
            },
            false => None,
        };
        self.submit(now, ops, unsaved.mark, checkpoint, events);
    }

    fn has_to_write(&self) -> bool {
        self.raft.as_ref().is_some_and(Raft::has_unsaved)
            || self.incoming.is_some()
            || self.is_behind() && self.has_much_to_store()
    }

    fn is_checkpoint_due(&self) -> bool {
        let many = self.state.version >= self.checkpoint + CHECKPOINT_EVERY;
        many || self.has_much_to_store() || self.wants_checkpoint
    }

    /// True if no more entries are to be applied before a checkpoint.
    fn has_much_to_store(&self) -> bool {
        self.dirty_bytes >= self.piece_bytes() / 2
    }

    /// Maximum bytes of a piece; a transaction has at most two and little else.
    fn piece_bytes(&self) -> usize {
        MAX_TXN_BYTES.min(self.store.largest_txn() / 3)
    }

    /// Maximum bytes of the rows of a checkpoint that is one transaction.
    fn checkpoint_bytes(&self) -> usize {
        (2 * MAX_TXN_BYTES).min(self.store.largest_txn() / 8 * 7)
    }

    /// Submits a transaction that a later one completes.
    fn submit_piece(&mut self, now: Now, ops: Vec<TxnOp>, events: &mut Vec<LogEvent>) -> Result<(), String> {
        let mut out = Vec::new();
        self.store.submit(Transaction { ops }, &mut out)?;
        self.store_outs(now, out, events);
        Ok(())
    }

    fn submit(
        &mut self,
        now: Now,
        ops: Vec<TxnOp>,
        mark: u64,
        checkpoint: Option<u64>,
        events: &mut Vec<LogEvent>,
    ) {
        let mut out = Vec::new();
        match self.store.submit(Transaction { ops }, &mut out) {
            Ok(txn) => {
                self.writing = Some(Writing { txn, mark, checkpoint });
                if stdx::mutants::is_active("mon_publishes_before_commit") {
                    self.written(now, txn, events);
                }
            }
            Err(why) => {
                return events.push(LogEvent::Full(format!("the monitor can't write its log: {why}")));
            }
        }
        self.store_outs(now, out, events);
    }

    /// Writes a snapshot beside the old state, and leaves in `ops` the operations that replace the one by the
    /// other.
    fn submit_incoming(
        &mut self,
        index: u64,
        rows: Rows,
        ops: &mut Vec<TxnOp>,
        now: Now,
        events: &mut Vec<LogEvent>,
    ) -> Result<(), String> {
        self.submit_rows(rows, now, events)?;
        ops.push(TxnOp::Rename(key(3), key(1)));
        ops.push(TxnOp::Remove(key(2)));
        self.checkpoint = index;
        Ok(())
    }

    /// Writes the rows of a whole state beside the old one.
    fn submit_rows(&mut self, rows: Rows, now: Now, events: &mut Vec<LogEvent>) -> Result<(), String> {
        let mut ops = vec![TxnOp::Remove(key(3))];
        for piece in pieces(rows, self.piece_bytes()) {
            ops.push(TxnOp::OmapSet(key(3), piece));
            self.submit_piece(now, std::mem::take(&mut ops), events)?;
        }
        Ok(())
    }

    /// Appends to `ops` a checkpoint of the state: the changed rows or, if those exceed one transaction, a
    /// whole state that was written beside the old one.
    fn checkpoint_ops(
        &mut self,
        ops: &mut Vec<TxnOp>,
        now: Now,
        events: &mut Vec<LogEvent>,
    ) -> Result<u64, String> {
        let version = (Row::Version.key(), Writer::encode(&self.state.version));
        let mut set = vec![version, (Row::Term.key(), Writer::encode(&self.state.term))];
        let mut remove = Vec::new();
        (self.dirty_bytes, self.wants_checkpoint) = (0, false);
        for row in std::mem::take(&mut self.dirty) {
            match self.state.row(&row) {
                Some(value) => set.push((row.key(), value)),
                None => remove.push(row.key()),
            }
        }
        let bytes = rows_len(&set) + remove.iter().map(|key| key.len() + ROW_OVERHEAD_BYTES).sum::<usize>();
        let is_long = bytes > self.checkpoint_bytes();
        if !ops.is_empty() && bytes + ops.iter().map(op_len).sum::<usize>() > self.checkpoint_bytes() {
            self.submit_piece(now, std::mem::take(ops), events)?;
        }
        if is_long {
            let (_, rows) = self.snapshot();
            self.submit_rows(rows, now, events)?;
            ops.push(TxnOp::Rename(key(3), key(1)));
        } else {
            ops.push(TxnOp::OmapSet(key(1), set));
            if !remove.is_empty() {
                ops.push(TxnOp::OmapRemove(key(1), remove));
            }
        }
        let end = (self.state.version + 1).to_be_bytes().to_vec();
        ops.push(TxnOp::OmapRemoveRange(key(2), 0u64.to_be_bytes().to_vec(), end));
        Ok(self.state.version)
    }

    /// Shuts the store down, so that the next start can tell damage from an unfinished write. Nothing is
    /// proposed or received afterwards.
    pub fn close(&mut self, now: Now, events: &mut Vec<LogEvent>) {
        let mut out = Vec::new();
        self.store.close(&mut out);
        self.store_outs(now, out, events);
    }

    /// True if the store has shut down.
    pub fn is_closed(&self) -> bool {
        self.store.is_closed()
    }

    /// A disk operation of the store has ended.
    pub fn disk_done(&mut self, now: Now, id: DiskOpId, result: DiskResult, events: &mut Vec<LogEvent>) {
        let mut out = Vec::new();
        self.store.disk_done(id, result, &mut out);
        self.store_outs(now, out, events);
    }

    fn store_outs(&mut self, now: Now, outs: Vec<StoreOut>, events: &mut Vec<LogEvent>) {
        let mut outs = std::collections::VecDeque::from(outs);
        while let Some(out) = outs.pop_front() {
            let mut more = Vec::new();
            match out {
                StoreOut::Disk(id, op) => events.push(LogEvent::Disk(id, op)),
                StoreOut::Opened => self.read_next(&mut more),
                StoreOut::Committed(txn) => self.written(now, txn, events),
                StoreOut::Read(id, result) => self.read_done(id, result, &mut more, events),
                StoreOut::Failed(error) => {
                    events.push(LogEvent::Failed(format!("the monitor's store failed: {error}")))
                }
            }
            outs.extend(more);
        }
    }

    fn written(&mut self, now: Now, txn: TxnId, events: &mut Vec<LogEvent>) {
        let Some(writing) = self.writing.take_if(|w| w.txn <= txn) else { return };
        if let Some(index) = writing.checkpoint {
            self.checkpoint = index;
            self.give_space_back(now, events);
        }
        let keep = self.checkpoint.saturating_sub(KEPT_ENTRIES);
        self.with_raft(events, |raft, out| {
            raft.saved(now.mono, writing.mark, out);
            raft.compact(keep);
        });
        self.apply_committed(events);
    }

    fn read_next(&mut self, out: &mut Vec<StoreOut>) {
        let opening = self.opening.as_mut().expect("only while opening");
        let range = OmapRange {
            after: opening.last_key.clone(),
            prefix: Vec::new(),
            max: OPENING_PAGE_ENTRIES,
            max_bytes: OPENING_PAGE_BYTES,
        };
        let read = Read::Object {
            key: key(opening.object),
            attrs: false,
            data: Vec::new(),
            omap_header: false,
            omap_keys: Vec::new(),
            omap_range: Some(range),
        };
        let id = self.store.read(read, out);
        self.opening.as_mut().expect("only while opening").read = Some(id);
    }

    fn read_done(
        &mut self,
        id: ReadId,
        result: Result<ReadReply, store::StoreError>,
        out: &mut Vec<StoreOut>,
        events: &mut Vec<LogEvent>,
    ) {
        let Some(opening) = self.opening.as_mut().filter(|o| o.read == Some(id)) else { return };
        let view = match result {
            Ok(ReadReply::Object(view)) => view.unwrap_or_default(),
            Ok(_) => ObjectView::default(),
            Err(error) => {
                return events.push(LogEvent::Failed(format!("the monitor's store is unreadable: {error}")));
            }
        };
        let more = view.omap_more;
        opening.last_key = view.omap_entries.last().map(|(k, _)| k.clone()).filter(|_| more);
        if let Err(error) = opening.take(view) {
            return events.push(unusable("the monitor's store is damaged", &error));
        }
        if !more {
            opening.object += 1;
        }
        if opening.object < READ_AT_START {
            return self.read_next(out);
        }
        let opening = self.opening.take().expect("was there");
        let ident = opening.ident.clone();
        match self.restore(opening) {
            Ok(()) => events.push(LogEvent::Opened(ident)),
            Err(error) => events.push(unusable("the monitor's store is damaged", &error)),
        }
    }

    fn restore(&mut self, opening: Opening) -> Result<(), DecodeError> {
        self.state = State::from_rows(&opening.rows)?;
        self.tail = self.state.clone();
        self.checkpoint = self.state.version;
        let base = Position { term: self.state.term, index: self.state.version };
        self.stored_level = self.state.osd.nacre().feature_level;
        let mut entries: Vec<Entry> = Vec::new();
        for bytes in opening.entries.into_values() {
            let logged: LogEntry = decode(&bytes)?;
            let entry = entry_of(&logged, Arc::new(bytes));
            if entry.at.index <= base.index {
                continue; // covered by the checkpoint that was written with the entries' removal
            }
            let last = entries.last().map_or(base, |e| e.at);
            if entry.at.index != last.index + 1 || entry.at.term < last.term {
                let what = format!("log entry {} follows {}", entry.at.index, last.index);
                return Err(DecodeError::of_all(what));
            }
            entries.push(entry);
            for change in logged.changes {
                match change {
                    Change::MonMap(map) => self.logged_monmap = Some(*map),
                    Change::OsdMap { nacre, .. } => {
                        self.stored_level = self.stored_level.max(nacre.feature_level)
                    }
                    _ => {}
                }
            }
        }
        let vote = Some(VoterId(opening.hard.vote)).filter(|v| v.0 != 0);
        let voters = voters(&self.state.voters);
        self.restored = Restored { term: opening.hard.term, vote, base, voters, entries };
        Ok(())
    }
}

/// An entry of the log, from its stored form.
pub fn parse_entry(data: Arc<Vec<u8>>) -> Result<Entry, DecodeError> {
    Ok(entry_of(&decode(&data)?, data))
}

fn entry_of(logged: &LogEntry, data: Arc<Vec<u8>>) -> Entry {
    let at = Position { term: logged.term, index: logged.index };
    Entry { at, voters: voters_of(logged).map(Arc::new), data }
}

/// Splits rows into parts of at most `most` bytes; a longer row is a part of its own.
fn pieces(rows: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>, most: usize) -> Vec<Vec<(Vec<u8>, Vec<u8>)>> {
    let (mut pieces, mut bytes) = (Vec::<Vec<_>>::new(), 0);
    for row in rows {
        let len = rows_len(std::slice::from_ref(&row));
        bytes += len;
        match pieces.last_mut() {
            Some(piece) if bytes <= most => piece.push(row),
            _ => {
                bytes = len;
                pieces.push(vec![row]);
            }
        }
    }
    pieces
}

fn rows_len(rows: &[(Vec<u8>, Vec<u8>)]) -> usize {
    rows.iter().map(|(key, value)| key.len() + value.len() + ROW_OVERHEAD_BYTES).sum()
}

fn op_len(op: &TxnOp) -> usize {
    if let TxnOp::OmapSet(_, rows) = op { rows_len(rows) } else { 0 }
}

fn voters_of(entry: &LogEntry) -> Option<Voters> {
    entry.changes.iter().rev().find_map(|c| if let Change::Voters(v) = c { Some(voters(v)) } else { None })
}

fn voters(stored: &BTreeMap<u64, String>) -> Voters {
    stored.iter().map(|(id, name)| (VoterId(*id), name.clone())).collect()
}

impl Opening {
    fn take(&mut self, view: ObjectView) -> Result<(), DecodeError> {
        match self.object {
            0 => {
                let value = |name: &[u8]| view.omap_entries.iter().find(|(k, _)| k == name).map(|(_, v)| v);
                if let Some(bytes) = value(b"ident") {
                    let ident: Ident = decode(bytes)?;
                    if ident.format != FORMAT {
                        let what = format!("layout {} where {FORMAT} is known", ident.format);
                        let is_newer = ident.format > FORMAT;
                        return Err(DecodeError { is_newer, ..DecodeError::of_all(what) });
                    }
                    self.ident = Some(ident);
                }
                if let Some(bytes) = value(b"vote") {
                    self.hard = decode(bytes)?;
                }
            }
            1 => self.rows.extend(view.omap_entries),
            _ => self.entries.extend(view.omap_entries),
        }
        Ok(())
    }
}

impl Ident {
    /// Identity of a new store.
    pub fn new(fsid: Uuid, name: &str, store: VoterId) -> Self {
        Self { format: FORMAT, fsid, name: name.to_owned(), store: store.0 }
    }
}

fn decode<T: Decode>(bytes: &[u8]) -> Result<T, DecodeError> {
    Reader::new(bytes).get()
}
