//! The surroundings of the rank's owners: time, configuration, journal, object operations and outputs.
//!
//! An owner changes its own fields, and the cache and the sessions that it is passed. A consequence for any
//! other owner is queued here as a [`Due`]; the rank routes it before the next input is looked at. So owners
//! never call one another in a circle, and none sees another half changed.

use super::effect::{Effect, Stage};
use crate::config::RankConfig;
use crate::io::{IoRequest, IoWhy, ObjOp, ObjectId};
use crate::journal::Journal;
use crate::page::Page;
use crate::types::{ClientId, Damage, IoId, Lsn, Need, OpId, Segment, SnapContext};
use fsfmt::{DentryKey, Event, Ino, InodeKey};
use maps::SnapId;
use node::Level;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use stdx::{Instant, Now};
use wire::{Errno, Utime};

/// A consequence for owners that a step did not have at hand.
#[derive(Debug)]
pub(super) enum Due {
    /// An inode was loaded.
    InodeLoaded(InodeKey),
    /// An event changed an inode, or a client was given bits under which it may change it.
    InodeChanged(InodeKey),
    /// An operation waits for the truncation of an inode, or for its data to be stored.
    InodeAwaited(InodeKey),
    /// The held, wanted or allowed capabilities of an inode have changed.
    CapsChanged(InodeKey),
    /// Operations that wait for an inode may continue, or one that held it back has ended.
    Wake(InodeKey),
    /// An item must be loaded, for an operation or for an owner.
    Load(Need, Option<OpId>),
    /// A load has ended.
    Loaded(Loaded),
    /// Something stored is damaged.
    Damaged(Damage),
    /// An event used inode numbers below `next`.
    InodeNumbersUsed {
        /// The next free number.
        next: u64,
        /// The event's segment.
        segment: Segment,
    },
    /// A request of a client is answered, perhaps with an error.
    Answered(ClientId, u64, Option<Errno>),
    /// Changes may be journaled again.
    JournalHasSpace,
    /// A client claims a capability on an inode that another rank has by now.
    HeldElsewhere(InodeKey),
    /// An operation needs that clients know what has come to this rank.
    Announce(InodeKey),
    /// An operation needs two subtrees under one authority, of which the first is this rank's.
    Together {
        /// Root of the one.
        here: Ino,
        /// Root of the other.
        there: Ino,
        /// The client has told its caller that the operation succeeds. Until it is answered it gives its
        /// directory in the first one not up, so that this one can't leave.
        is_promised: bool,
    },
    /// An inode is not found: other ranks may have it in their journals.
    Seek(Ino),
    /// A directory of which others may have replicas is to be changed.
    Alone(Ino),
    /// The table of snapshots is to be changed.
    Fence,
    /// Something was done to an inode, or in it if it is a directory, which counts so much.
    Used(Ino, u32),
}

/// A completed load.
#[derive(Debug)]
pub(super) struct Loaded {
    /// The item that was loaded, or found missing.
    pub need: Need,
    /// Operations that waited for it.
    pub ops: BTreeSet<OpId>,
    /// The page that came with it.
    pub page: Option<Page>,
    /// True if it can't be read: whoever needs it fails.
    pub is_damaged: bool,
    /// Entries of the page that can't be read.
    pub unreadable: Vec<DentryKey>,
}

/// Consequences for which there is room when there are none: a client that claims all that it has causes some
/// for each capability.
const IDLE_DUE: usize = 1024;

/// Time, configuration, journal, object operations, outputs and consequences.
///
/// Invariants: each object operation in flight has its reason; after each input no consequence is left.
pub(super) struct Env {
    cfg: RankConfig,
    now: Now,
    stage: Stage,
    journal: Journal,
    io: BTreeMap<IoId, IoWhy>,
    next_io: u64,
    effects: Vec<Effect>,
    due: VecDeque<Due>,
    /// The monitors' answers to requests for a snapshot id, until operations take them.
    snap_ids: VecDeque<Result<SnapId, Errno>>,
}

impl Env {
    pub fn new(cfg: RankConfig, now: Now, stage: Stage) -> Self {
        let journal = Journal::new(&cfg.options, 0, BTreeMap::new());
        Self {
            cfg,
            now,
            stage,
            journal,
            io: BTreeMap::new(),
            next_io: 1,
            effects: Vec::new(),
            due: VecDeque::new(),
            snap_ids: VecDeque::new(),
        }
    }

    pub fn cfg(&self) -> &RankConfig {
        &self.cfg
    }

    /// Changes the configuration.
    pub fn configure(&mut self, change: impl FnOnce(&mut RankConfig)) {
        change(&mut self.cfg);
    }

    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// Enters a further stage of the start.
    pub fn enter(&mut self, stage: Stage) {
        assert!(stage > self.stage, "{stage:?} comes after {:?}", self.stage);
        self.stage = stage;
    }

    pub fn set_now(&mut self, now: Now) {
        self.now = now;
    }

    pub fn now(&self) -> Instant {
        self.now.mono
    }

    /// Wall time, for stamps only.
    pub fn stamp(&self) -> Utime {
        Utime::from(self.now.wall)
    }

    /// An unused snapshot id, or the reason why there is none. One that is not greater than the `last` used
    /// comes too late: clients would not take the change that it marks for a newer one.
    pub fn snap_id(&mut self, last: SnapId) -> Option<Result<SnapId, Errno>> {
        while self.snap_ids.front().is_some_and(|id| id.is_ok_and(|id| id <= last)) {
            self.snap_ids.pop_front();
        }
        self.snap_ids.front().copied()
    }

    /// Takes what [`Self::snap_id`] returns: it is used.
    pub fn take_snap_id(&mut self) {
        self.snap_ids.pop_front();
    }

    /// Keeps the monitors' answer to a request for a snapshot id.
    pub fn keep_snap_id(&mut self, id: Result<SnapId, Errno>) {
        self.snap_ids.push_back(id);
    }

    /// Adds an output.
    pub fn effect(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    pub fn log(&mut self, level: Level, name: &'static str, detail: impl Into<String>) {
        self.effect(Effect::Event(level, name, detail.into()));
    }

    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Queues a consequence.
    pub fn due(&mut self, due: Due) {
        self.due.push_back(due);
    }

    pub fn next_due(&mut self) -> Option<Due> {
        let due = self.due.pop_front();
        if due.is_none() && self.due.capacity() > IDLE_DUE {
            self.due.shrink_to(IDLE_DUE);
        }
        due
    }

    /// Starts operations on an object of the metadata pool.
    pub fn start_metadata_io(&mut self, name: String, ops: Vec<ObjOp>, why: IoWhy) -> IoId {
        let object = ObjectId { pool: self.cfg.metadata_pool, ns: String::new(), name };
        self.start_io(object, SnapContext::default(), ops, why)
    }

    /// Starts operations on an object; a write preserves it for these snapshots.
    pub fn start_io(&mut self, object: ObjectId, snaps: SnapContext, ops: Vec<ObjOp>, why: IoWhy) -> IoId {
        let id = IoId(self.next_io);
        self.next_io += 1;
        self.io.insert(id, why);
        self.effect(Effect::Io(IoRequest { id, object, snaps, ops }));
        id
    }

    /// Ends an object operation and returns its purpose, once.
    pub fn end_io(&mut self, id: IoId) -> Option<IoWhy> {
        self.io.remove(&id)
    }

    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Continues after a replayed journal.
    pub fn continue_journal(&mut self, last: Lsn, segments: BTreeMap<Segment, (u64, Lsn)>) {
        assert!(self.journal.last() == 0, "nothing is journaled before the replay has ended");
        self.journal = Journal::new(&self.cfg.options, last, segments);
    }

    /// Appends an event to the journal; the caller applies it.
    pub fn append(&mut self, event: &Event) -> (Lsn, Segment) {
        self.journal.append(event, self.now.mono)
    }

    /// Ends the journal's present segment; returns the last one that has an event.
    pub fn end_segment(&mut self) -> Segment {
        self.journal.end_segment()
    }

    /// Somebody waits until the events up to `lsn` are durable.
    pub fn want_durable(&mut self, lsn: Lsn) {
        self.journal.want(lsn);
    }

    /// Starts the next write of the journal, if one is due and none is in flight.
    pub fn write_journal(&mut self) {
        if self.stage < Stage::Active {
            self.journal.want(self.journal.last());
        }
        while let Some(batch) = self.journal.next_write(self.now.mono) {
            let name = fsfmt::names::journal_object(self.cfg.rank, batch.segment);
            let ops = vec![ObjOp::Write { offset: batch.offset, data: batch.bytes }];
            self.start_metadata_io(name, ops, IoWhy::Journal);
        }
    }

    /// Notes that the journal's write in flight is durable.
    pub fn journal_written(&mut self) {
        self.journal.written();
    }

    /// Removes segments below `first` and returns them.
    pub fn expire_journal(&mut self, first: Segment) -> Vec<Segment> {
        self.journal.expire(first)
    }

    /// True if no object operation is in flight and everything is durable.
    pub fn is_quiet(&self) -> bool {
        self.io.is_empty() && self.journal.is_idle()
    }

    /// Asserts the invariants.
    pub fn check(&self) {
        assert!(self.due.is_empty(), "every consequence was drawn: {:?}", self.due);
        self.journal.check();
    }
}
