//! One rank as a state machine without a network: messages of clients and ends of object operations in, [`Effect`]s
//! out. The daemon around it keeps connections, monitor and RADOS; tests put maps in memory around it.
//!
//! An input changes memory at once and appends to the journal; what is sent waits until the journal is durable. After
//! each input [`Rank::settle`] runs what became possible, so that no input leaves anything half done.

mod boot;
mod caps;
mod client;
mod commit;
mod data;
mod load;
mod locks;
mod missing;
mod rstat;
mod run;
mod sessions;
mod stat;

pub use boot::Stage;
pub use load::Page;
pub(crate) use rstat::shift;

use crate::cache::Cache;
use crate::config::MdsOptions;
use crate::io::{IoRequest, IoResult, IoWhy, ObjOp, ObjectId};
use crate::journal::Journal;
use crate::session::{ClientPeer, Sessions};
use crate::types::{ClientId, IoId, Lsn, Need, OpId, Segment};
use fsfmt::{Event, Ino, InodeKey, Update};
use maps::{Epoch, MdsRank};
use node::Level;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use stdx::Now;
use wire::{AddrVec, Errno, Utime};

/// What a rank is told of its file system.
#[derive(Clone, Debug)]
pub struct RankConfig {
    /// Which rank.
    pub rank: u32,
    /// Name of the file system.
    pub fs_name: String,
    /// Pool of the metadata.
    pub metadata_pool: i64,
    /// Pool of new files' data.
    pub data_pool: i64,
    /// Seconds of silence after which a client is stale.
    pub session_timeout_s: u32,
    /// Seconds of silence after which it is evicted.
    pub session_autoclose_s: u32,
    /// Bytes that a file may have.
    pub max_file_size: u64,
    /// The MDS map, for replies.
    pub map_epoch: Epoch,
    /// Whether the cluster is full: nothing new is made.
    pub full: bool,
    /// Limits.
    pub options: MdsOptions,
}

/// What a rank wants done.
#[derive(Debug)]
pub enum Effect {
    /// Carry out an object operation; ends in [`Rank::io_done`].
    Io(IoRequest),
    /// Send a message to a client.
    Send(ClientId, u64, msgs::Body),
    /// Put a client on the OSDs' blocklist; ends in [`Rank::evicted`].
    Evict(ClientId, AddrVec),
    /// The client was evicted: its connection goes, so that it learns of it.
    Closed(ClientId),
    /// A stage of the start is done.
    Reached(Stage),
    /// Something worth a line.
    Event(Level, &'static str, String),
    /// The rank can't go on.
    Fail(String),
    /// The OSDs refuse this instance: another one has its place.
    Replaced,
}

/// A rank.
pub struct Rank {
    cfg: RankConfig,
    now: Now,
    stage: Stage,
    boot: boot::Boot,
    cache: Cache,
    journal: Journal,
    sessions: Sessions,
    peers: BTreeMap<ClientId, ClientPeer>,
    missing: missing::Missing,
    /// Messages of clients that came before the rank was active.
    held_back: VecDeque<(ClientId, u64, msgs::Body)>,
    ops: BTreeMap<OpId, run::Op>,
    ready: VecDeque<OpId>,
    /// Operations that wait for room in the journal.
    space_waiters: BTreeSet<OpId>,
    loads: BTreeMap<Need, load::Load>,
    io: BTreeMap<IoId, IoWhy>,
    io_loads: BTreeMap<IoId, (Need, load::Step)>,
    index_commits: BTreeMap<String, Vec<(Ino, Lsn)>>,
    base_commits: BTreeMap<Ino, (Segment, Lsn)>,
    ino_next: u64,
    ino_dirty: Option<Segment>,
    ino_commit: Option<Segment>,
    header_written: Segment,
    header_in_flight: Option<Segment>,
    /// Write-backs in flight.
    commits: usize,
    /// Changes wait until the journal is durable, so that a round of write-backs can begin.
    draining: bool,
    /// Removed files and directories, whose objects go with the last cap.
    purges: BTreeSet<InodeKey>,
    /// Files whose objects are to be shortened.
    truncations: BTreeSet<InodeKey>,
    /// Who held write or exclusive bits of what without wanting them, and since when.
    unwanted: VecDeque<(stdx::Instant, InodeKey, ClientId)>,
    /// Flushes of inodes that are being loaded.
    late_flushes: BTreeMap<InodeKey, Vec<(ClientId, u64, msgs::ClientCaps)>>,
    /// Last messages to clients whose session ended with an event.
    farewells: Vec<(Lsn, ClientId, msgs::Body)>,
    /// Where the search for strays of an earlier life goes on.
    stray_next: Option<Vec<u8>>,
    unaccounted: BTreeSet<InodeKey>,
    next_op: u64,
    next_io: u64,
    next_cap: u64,
    next_second: stdx::Instant,
    /// When sessions were last looked at.
    last_check: stdx::Instant,
    next_accounting: stdx::Instant,
    out: Vec<Effect>,
}

impl Rank {
    fn new(cfg: RankConfig, now: Now, stage: Stage) -> Self {
        let journal = Journal::new(cfg.options.journal_bytes, 0, BTreeMap::new());
        let cache = Cache::new(MdsRank(cfg.rank as i32));
        let ino_next = Ino::FIRST_USER * (u64::from(cfg.rank) + 1);
        Self {
            cfg,
            now,
            stage,
            boot: boot::Boot::default(),
            cache,
            journal,
            sessions: Sessions::default(),
            peers: BTreeMap::new(),
            missing: missing::Missing::default(),
            held_back: VecDeque::new(),
            ops: BTreeMap::new(),
            ready: VecDeque::new(),
            space_waiters: BTreeSet::new(),
            loads: BTreeMap::new(),
            io: BTreeMap::new(),
            io_loads: BTreeMap::new(),
            index_commits: BTreeMap::new(),
            base_commits: BTreeMap::new(),
            ino_next,
            ino_dirty: None,
            ino_commit: None,
            header_written: 0,
            header_in_flight: None,
            commits: 0,
            draining: false,
            purges: BTreeSet::new(),
            truncations: BTreeSet::new(),
            unwanted: VecDeque::new(),
            late_flushes: BTreeMap::new(),
            farewells: Vec::new(),
            stray_next: None,
            unaccounted: BTreeSet::new(),
            next_op: 1,
            next_io: 1,
            next_cap: 1,
            next_second: now.mono,
            last_check: now.mono,
            next_accounting: now.mono,
            out: Vec::new(),
        }
    }

    /// Where it is.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// How full its cache is.
    pub fn stats(&self) -> crate::cache::Stats {
        self.cache.stats()
    }

    /// Sets the most inodes and entries to keep in memory.
    pub fn set_cache_inodes(&mut self, most: usize) {
        self.cfg.options.cache_inodes = most;
    }

    /// Bytes of journal that are still needed.
    pub fn journal_bytes(&self) -> u64 {
        self.journal.bytes()
    }

    /// Whether nothing is under way: no operation, no object operation, nothing to send.
    pub fn is_quiet(&self) -> bool {
        self.ops.is_empty()
            && self.io.is_empty()
            && self.journal.is_idle()
            && self.sessions.map.values().all(|s| s.queued() == 0)
    }

    /// The MDS map has a new epoch.
    pub fn set_map_epoch(&mut self, epoch: Epoch) {
        self.cfg.map_epoch = epoch;
    }

    /// Whether the cluster, or a pool of the file system, is full.
    pub fn set_full(&mut self, full: bool) {
        self.cfg.full = full;
    }

    /// An object operation has ended.
    pub fn io_done(&mut self, now: Now, id: IoId, result: IoResult) {
        self.now = now;
        let Some(why) = self.io.remove(&id) else { return };
        if let Err(errno) = &result
            && !matches!(*errno, Errno::ENOENT | Errno::ENODATA)
        {
            if *errno == Errno::EBLOCKLISTED {
                self.out.push(Effect::Replaced);
                return;
            }
            let name = errno.name().unwrap_or("an unknown error");
            self.out.push(Effect::Fail(format!(
                "{why:?} failed with {name}: the rank can't trust what is stored"
            )));
            return;
        }
        match why {
            IoWhy::Journal => self.journal_written(result),
            IoWhy::Boot => self.boot_read(id, result),
            IoWhy::Load => self.load_done(id, result),
            IoWhy::Data(ino) => self.data_done(ino),
            other => self.commit_done(other, result.is_ok()),
        }
    }

    fn journal_written(&mut self, result: IoResult) {
        if result.is_err() {
            self.out.push(Effect::Fail("the journal could not be written".to_owned()));
            return;
        }
        self.journal.written();
        self.after_durable();
    }

    /// Time passes.
    pub fn timer(&mut self, now: Now) {
        self.now = now;
        if now.mono >= self.next_second {
            self.next_second = now.mono + std::time::Duration::from_secs(1);
            self.check_sessions();
            self.take_unwanted();
            self.trim_thoroughly();
        }
        if self.missing.deadline().is_some_and(|at| now.mono >= at) {
            self.check_reconnect_window();
        }
        if now.mono >= self.next_accounting {
            self.next_accounting = now.mono + std::time::Duration::from_secs(3);
            self.propagate_stats();
        }
    }

    /// When [`Self::timer`] wants to be called.
    pub fn deadline(&self) -> stdx::Instant {
        self.missing.deadline().map_or(self.next_second, |at| at.min(self.next_second))
    }

    /// Runs all that is possible and hands out what is to be done.
    pub fn settle(&mut self, out: &mut Vec<Effect>) {
        loop {
            self.welcome_back();
            self.run_ready();
            self.write_back();
            while let Some(batch) = self.journal.next_write() {
                let name = fsfmt::names::journal_object(self.cfg.rank, batch.segment);
                let ops = vec![ObjOp::Write { offset: batch.offset, data: batch.bytes }];
                self.start_io(self.metadata(name), ops, IoWhy::Journal);
            }
            if self.ready.is_empty() {
                break;
            }
        }
        self.trim_cache();
        let durable = self.journal.durable;
        for (client, session) in &mut self.sessions.map {
            while let Some((tid, body)) = session.next_message(durable) {
                self.out.push(Effect::Send(*client, tid, body));
            }
        }
        out.append(&mut self.out);
    }

    fn metadata(&self, name: String) -> ObjectId {
        ObjectId { pool: self.cfg.metadata_pool, ns: String::new(), name }
    }

    fn start_io(&mut self, object: ObjectId, ops: Vec<ObjOp>, why: IoWhy) -> IoId {
        let id = IoId(self.next_io);
        self.next_io += 1;
        self.commits += usize::from(commit::is_write_back(&why));
        self.io.insert(id, why);
        self.out.push(Effect::Io(IoRequest { id, object, ops }));
        id
    }

    fn log(&mut self, level: Level, name: &'static str, detail: impl Into<String>) {
        self.out.push(Effect::Event(level, name, detail.into()));
    }

    fn stamp(&self) -> Utime {
        Utime::from(self.now.wall)
    }

    /// Journals an event and applies it.
    fn commit_event(&mut self, what: &str, updates: Vec<Update>) -> Lsn {
        let event = Event { stamp: self.stamp(), what: what.to_owned(), updates };
        let (lsn, segment) = self.journal.append(&event);
        self.apply(event, lsn, segment);
        lsn
    }

    /// Applies an event that happens, or that is replayed.
    fn apply(&mut self, event: Event, lsn: Lsn, segment: Segment) {
        let applied = self.cache.apply(event, lsn, segment);
        for ino in applied.inodes {
            self.missing.note_change(ino);
            self.note_inode(ino);
        }
        for update in applied.tables {
            self.apply_table(update, segment);
        }
    }

    fn apply_table(&mut self, update: Update, segment: Segment) {
        match update {
            Update::InoNext { next } => {
                self.ino_next = self.ino_next.max(next);
                self.ino_dirty.get_or_insert(segment);
            }
            Update::SessionOpen { client, record } => {
                self.apply_session_open(ClientId(client), *record, segment)
            }
            Update::SessionClose { client } => {
                self.sessions.map.remove(&ClientId(client));
                self.sessions.mark(ClientId(client), segment);
            }
            Update::Completed { client, tid, ino } => {
                let client = ClientId(client);
                if let Some(s) = self.sessions.map.get_mut(&client) {
                    s.record.completed.insert(tid, ino);
                    self.sessions.mark(client, segment);
                }
            }
            Update::Flushed { client, tid } => {
                let client = ClientId(client);
                if let Some(s) = self.sessions.map.get_mut(&client) {
                    s.record.flushed.insert(tid);
                    self.sessions.mark(client, segment);
                }
            }
            Update::Absent { clients } => {
                let clients = BTreeSet::from_iter(clients);
                let mut changed = Vec::new();
                for (client, s) in &mut self.sessions.map {
                    let was_absent = clients.contains(&client.0);
                    if std::mem::replace(&mut s.record.was_absent, was_absent) != was_absent {
                        changed.push(*client);
                    }
                }
                changed.into_iter().for_each(|client| self.sessions.mark(client, segment));
            }
            Update::Subtrees { subtrees } => {
                if let Err(text) = self.cache.subtrees.set(subtrees) {
                    self.out.push(Effect::Fail(text));
                }
            }
            Update::InoRanges { .. }
            | Update::InoFree { .. }
            | Update::Locks { .. }
            | Update::Snapshot { .. }
            | Update::Prepare { .. }
            | Update::Commit { .. }
            | Update::Abort { .. }
            | Update::Refragment { .. } => {
                let text =
                    format!("the journal has {}, which this version does not carry out", update.name());
                self.out.push(Effect::Fail(text));
            }
            Update::Dentry { .. } | Update::Base { .. } | Update::Forget { .. } => {
                unreachable!("the cache takes these")
            }
        }
    }

    /// An inode was changed or loaded: remember what is to be done about it later.
    fn note_inode(&mut self, ino: InodeKey) {
        self.presume_holders(ino);
        let Some(inode) = self.cache.inodes.get(&ino) else { return };
        let data = &inode.data;
        if data.rstat != data.accounted && ino != Ino::ROOT.head() && !data.ino.is_base() {
            self.unaccounted.insert(ino);
        }
        let stray = inode.place.as_ref().is_some_and(|(dir, _)| dir.ino == Ino::stray(self.cfg.rank));
        if data.truncate_from > 0 {
            self.truncations.insert(ino);
        }
        if stray && data.nlink == 0 {
            self.purges.insert(ino);
        }
    }
}
