//! The replicated log, with a quorum of one: `propose` → durable → committed. Real consensus takes this module's place;
//! what its callers may rely on stays: entries are committed in order, a committed one is never lost, and
//! [`Log::state`] shows only what is committed.
//!
//! On the store (private pool -1) there are three objects: `mon.ident` says whose store it is, `mon.log` has one omap
//! entry for each log entry (key: index, big-endian), `mon.state` has the rows of a checkpoint of the state. A checkpoint
//! rides in the transaction of later entries: it writes the rows that changed and drops the entries that it covers.

use crate::entry::{Change, LogEntry};
use crate::state::{Row, State};
use crate::storage::Storage;
use node::{DiskOp, DiskOpId, DiskResult};
use std::collections::{BTreeMap, BTreeSet};
use stdx::Wall;
use store::{ObjectKey, ObjectView, OmapRange, Read, ReadId, ReadReply, StoreOut, Transaction, TxnId, TxnOp};
use wire::{Decode, DecodeError, Reader, Uuid, Writer, wire_structs};

/// Private pool of the monitor's objects.
const POOL: i64 = -1;
/// Entries between two checkpoints.
const CHECKPOINT_EVERY: u64 = 64;
/// Omap entries and bytes of one read while opening.
const PAGE: (usize, usize) = (512, 1 << 20);
/// Version of this layout.
const FORMAT: u32 = 1;

wire_structs! {
    /// Whose store it is.
    pub struct Ident[v 1/1] {
        /// Layout version.
        pub format: u32,
        /// Of the cluster.
        pub fsid: Uuid,
        /// Of the monitor.
        pub name: String,
    }
}

/// What the log tells its owner.
#[derive(Debug)]
pub enum LogEvent {
    /// Carry this out for the store.
    Disk(DiskOpId, DiskOp),
    /// The store is open and replayed; empty where there is no cluster in it yet.
    Opened(Option<Ident>),
    /// More is committed: [`Log::state`] has moved.
    Committed,
    /// It has stopped for good.
    Failed(String),
}

/// See the module.
pub struct Log<S> {
    store: S,
    opening: Option<Opening>,
    state: State,
    /// The state with all proposals applied; decisions are made on it.
    tail: State,
    /// Proposed, not yet submitted; with the rows that each changes.
    queue: Vec<LogEntry>,
    in_flight: Option<InFlight>,
    /// Rows of `state` that the stored checkpoint has not.
    dirty: BTreeSet<Row>,
    checkpoint: u64,
    /// To be written with the first entries.
    ident: Option<Ident>,
}

struct InFlight {
    txn: TxnId,
    entries: Vec<LogEntry>,
    /// Index of the checkpoint that rides along.
    checkpoint: Option<u64>,
}

#[derive(Default)]
struct Opening {
    object: usize,
    ident: Option<Ident>,
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
    entries: BTreeMap<Vec<u8>, Vec<u8>>,
    last_key: Option<Vec<u8>>,
    read: Option<ReadId>,
}

const OBJECTS: [&str; 3] = ["mon.ident", "mon.state", "mon.log"];

fn key(object: usize) -> ObjectKey {
    ObjectKey::private(POOL, OBJECTS[object])
}

impl<S: Storage> Log<S> {
    /// A log on a store that is not open yet.
    pub fn new(store: S) -> Self {
        Self {
            store,
            opening: None,
            state: State::default(),
            tail: State::default(),
            queue: Vec::new(),
            in_flight: None,
            dirty: BTreeSet::new(),
            checkpoint: 0,
            ident: None,
        }
    }

    /// What is committed.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// What will be committed if nothing fails. Nothing of it may be shown to anyone before it is committed.
    pub fn tail(&self) -> &State {
        &self.tail
    }

    /// Index of the last proposal.
    pub fn proposed(&self) -> u64 {
        self.tail.version
    }

    /// Opens the store; ends in [`LogEvent::Opened`].
    pub fn open(&mut self, events: &mut Vec<LogEvent>) {
        self.opening = Some(Opening::default());
        let mut out = Vec::new();
        self.store.open(&mut out);
        self.store_outs(out, events);
    }

    /// Names the store of a new cluster; written with the first proposal.
    pub fn set_ident(&mut self, ident: Ident) {
        self.ident = Some(ident);
    }

    /// Proposes changes that take effect together; committed when
    /// [`Log::state`] has that version or a later one.
    pub fn propose(&mut self, now: Wall, changes: Vec<Change>) -> u64 {
        let entry = LogEntry { index: self.tail.version + 1, term: 1, stamp: now.into(), changes };
        self.tail.apply(&entry).expect("a proposal is made from decoded values");
        let index = entry.index;
        self.queue.push(entry);
        index
    }

    /// Submits what was proposed, all in one transaction, unless one is under way: the disk sets the pace.
    pub fn flush(&mut self, events: &mut Vec<LogEvent>) {
        if self.in_flight.is_some() || self.queue.is_empty() {
            return;
        }
        let entries = std::mem::take(&mut self.queue);
        let mut ops = Vec::new();
        if let Some(ident) = self.ident.take() {
            ops.push(TxnOp::OmapSet(key(0), vec![(b"ident".to_vec(), Writer::encode(&ident))]));
        }
        let rows = entries.iter().map(|e| (e.index.to_be_bytes().to_vec(), Writer::encode(e)));
        ops.push(TxnOp::OmapSet(key(2), rows.collect()));
        let due = self.state.version >= self.checkpoint + CHECKPOINT_EVERY;
        let checkpoint = due.then(|| self.checkpoint_ops(&mut ops));
        let mut out = Vec::new();
        match self.store.submit(Transaction { ops }, &mut out) {
            Ok(txn) => {
                self.in_flight = Some(InFlight { txn, entries, checkpoint });
                if stdx::mutants::is_active("mon_publishes_before_commit") {
                    self.committed(txn, events);
                }
            }
            Err(why) => {
                return events.push(LogEvent::Failed(format!("the monitor can't write its log: {why}")));
            }
        }
        self.store_outs(out, events);
    }

    fn checkpoint_ops(&mut self, ops: &mut Vec<TxnOp>) -> u64 {
        let mut set = vec![(Row::Version.key(), Writer::encode(&self.state.version))];
        let mut remove = Vec::new();
        for row in std::mem::take(&mut self.dirty) {
            match self.state.row(&row) {
                Some(value) => set.push((row.key(), value)),
                None => remove.push(row.key()),
            }
        }
        ops.push(TxnOp::OmapSet(key(1), set));
        if !remove.is_empty() {
            ops.push(TxnOp::OmapRemove(key(1), remove));
        }
        let end = (self.state.version + 1).to_be_bytes().to_vec();
        ops.push(TxnOp::OmapRemoveRange(key(2), 0u64.to_be_bytes().to_vec(), end));
        self.state.version
    }

    /// A disk operation of the store has ended.
    pub fn disk_done(&mut self, id: DiskOpId, result: DiskResult, events: &mut Vec<LogEvent>) {
        let mut out = Vec::new();
        self.store.disk_done(id, result, &mut out);
        self.store_outs(out, events);
    }

    fn store_outs(&mut self, outs: Vec<StoreOut>, events: &mut Vec<LogEvent>) {
        let mut outs = std::collections::VecDeque::from(outs);
        while let Some(out) = outs.pop_front() {
            let mut more = Vec::new();
            match out {
                StoreOut::Disk(id, op) => events.push(LogEvent::Disk(id, op)),
                StoreOut::Opened => self.read_next(&mut more),
                StoreOut::Committed(txn) => self.committed(txn, events),
                StoreOut::Read(id, result) => self.read_done(id, result, &mut more, events),
                StoreOut::Failed(error) => {
                    events.push(LogEvent::Failed(format!("the monitor's store failed: {error}")))
                }
            }
            outs.extend(more);
        }
    }

    fn committed(&mut self, txn: TxnId, events: &mut Vec<LogEvent>) {
        let Some(in_flight) = self.in_flight.take_if(|f| f.txn <= txn) else { return };
        for entry in &in_flight.entries {
            let rows = self.state.apply(entry).expect("was applied when it was proposed");
            self.dirty.extend(rows);
        }
        if let Some(index) = in_flight.checkpoint {
            self.checkpoint = index;
        }
        events.push(LogEvent::Committed);
    }

    fn read_next(&mut self, out: &mut Vec<StoreOut>) {
        let opening = self.opening.as_mut().expect("only while opening");
        let range =
            OmapRange { after: opening.last_key.clone(), prefix: Vec::new(), max: PAGE.0, max_bytes: PAGE.1 };
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
            return events.push(LogEvent::Failed(format!("the monitor's store is damaged: {error}")));
        }
        if !more {
            opening.object += 1;
        }
        if opening.object < OBJECTS.len() {
            return self.read_next(out);
        }
        let opening = self.opening.take().expect("was there");
        let ident = opening.ident.clone();
        match self.replay(opening) {
            Ok(()) => events.push(LogEvent::Opened(ident)),
            Err(error) => events.push(LogEvent::Failed(format!("the monitor's store is damaged: {error}"))),
        }
    }

    fn replay(&mut self, opening: Opening) -> Result<(), DecodeError> {
        self.state = State::from_rows(&opening.rows)?;
        self.checkpoint = self.state.version;
        for bytes in opening.entries.values() {
            let entry: LogEntry = decode(bytes)?;
            if entry.index <= self.state.version {
                continue; // covered by the checkpoint that was written with the entries' removal
            }
            if entry.index != self.state.version + 1 {
                let what = format!("log entry {} follows {}", entry.index, self.state.version);
                return Err(DecodeError { offset: 0, what });
            }
            let rows = self.state.apply(&entry)?;
            self.dirty.extend(rows);
        }
        self.tail = self.state.clone();
        Ok(())
    }
}

impl Opening {
    fn take(&mut self, view: ObjectView) -> Result<(), DecodeError> {
        match self.object {
            0 => {
                if let Some((_, bytes)) = view.omap_entries.iter().find(|(k, _)| k == b"ident") {
                    let ident: Ident = decode(bytes)?;
                    if ident.format != FORMAT {
                        let what = format!("layout {} where {FORMAT} is known", ident.format);
                        return Err(DecodeError { offset: 0, what });
                    }
                    self.ident = Some(ident);
                }
            }
            1 => self.rows.extend(view.omap_entries),
            _ => self.entries.extend(view.omap_entries),
        }
        Ok(())
    }
}

impl Ident {
    /// Of a new store.
    pub fn new(fsid: Uuid, name: &str) -> Self {
        Self { format: FORMAT, fsid, name: name.to_owned() }
    }
}

fn decode<T: Decode>(bytes: &[u8]) -> Result<T, DecodeError> {
    Reader::new(bytes).get()
}
