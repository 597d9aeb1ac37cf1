//! Taking over the stored state of a predecessor: first the tables, then the journal, object by object. The
//! events of an object are applied as soon as they are known to have happened.
//!
//! Memory is bounded by the cache, not by the journal: when changes crowd the cache, they are written back
//! before the next object is read, and what is clean leaves. That is safe at any moment, for what is replayed
//! is durable, events are after-images, and the journal's header does not move: a crash repeats the same
//! events. So the most in memory is the cache's limit, what one object's events change, and the events of two
//! objects.
//!
//! A standby that follows a rank ([`Mode::Follow`]) reads the same way while the rank is served. At the end
//! it looks again after a while: first at the header, then at its last object and at later ones. What the
//! header no longer names is stored, so it is clean here. The standby writes nothing. When it gets the rank,
//! one more look brings what the predecessor wrote last.
//!
//! Objects may be lost with all their copies. One of the journal that is missing is its end only if none
//! follows; and once the journal was trimmed, what its first event made is stored. Else the rank is damaged:
//! it would forget what was acknowledged, or give inode numbers out again.

mod reader;

use super::env::Env;
use super::sessions::Sessions;
use crate::authority::{Records, decode_records};
use crate::cache::Cache;
use crate::io::{IoResult, IoWhy, ObjOp, ObjReply};
use crate::types::{IoId, Lsn, Segment};
use fsfmt::journal::{JournalHeader, KNOWN_FEATURES};
use fsfmt::tables::InoTable;
use fsfmt::{Event, Ino, InodeData, SubtreeRecord, names};
use maps::MdsRank;
use reader::{Batch, Damage, JournalReader};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use stdx::Instant;
use wire::{DecodeError, Reader};

/// Sessions read at once.
const SESSIONS_PER_READ: u64 = 256;

/// Time between two looks of a standby at the journal.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// Snapshots read at once.
pub(super) const SNAPS_PER_READ: u64 = 1024;
/// Records of subtrees read at once.
const SUBTREES_PER_READ: u64 = 1024;
/// Objects behind the journal's end that are looked for.
const LOOKED_FOR_BEYOND: u64 = 4;

/// An object being read.
#[derive(Debug)]
enum Read {
    Header,
    /// The header, once more.
    Look,
    Sessions,
    Snaps,
    /// The table of snapshots, once more, with what was read so far.
    SnapsAgain(BTreeMap<Vec<u8>, Vec<u8>>),
    Partition,
    /// The partition, once more, after so many records that are as they were.
    PartitionAgain(usize),
    InoTable,
    Base,
    /// The root of a subtree.
    Root(Ino),
    Journal,
    /// An object behind the journal's end.
    Beyond(Segment),
}

/// A step of the replay, for the rank to carry out.
#[derive(Debug)]
pub(super) enum Step {
    /// Inode numbers below this are used, according to the stored table.
    InodeNumbers(u64),
    /// Apply these events of a segment.
    Apply(Segment, Vec<(Lsn, Event)>),
    /// Everything that events before this one changed is stored; they were in segments before this one.
    Stored(Segment, Lsn),
    /// The journal was trimmed before it was read: the replay must start over.
    Behind,
    /// The journal has ended.
    End(Ended),
}

/// What happens at the end of the journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Mode {
    /// The replay ends.
    #[default]
    End,
    /// Somebody else serves the rank: the end is looked at again and again.
    Follow,
    /// The rank is ours now: one more look is due, because what is read at this moment may lack the
    /// predecessor's last events.
    LookDue,
    /// That look has begun, with the header.
    LastLook,
}

/// The end of a journal.
#[derive(Debug)]
pub(super) struct Ended {
    /// Its last event.
    pub last: Lsn,
    /// Number of applied events.
    pub count: u64,
    /// Its objects: bytes and first event.
    pub segments: BTreeMap<Segment, (u64, Lsn)>,
}

/// A replay in progress.
///
/// Invariants: no event is returned before all tables are read; at most one object of the journal is being
/// read, or those behind its end.
#[derive(Default)]
pub(super) struct Replay {
    /// Objects that are being read.
    reads: BTreeMap<IoId, Read>,
    /// The place in the journal; none while tables are read.
    journal: Option<JournalReader>,
    header: Option<JournalHeader>,
    steps: VecDeque<Step>,
    /// The records of subtrees.
    partition: BTreeMap<Ino, SubtreeRecord>,
    is_at_end: bool,
    /// Nothing was found behind the end.
    is_end_sure: bool,
    /// A table that the first event of the journal makes, and which is missing.
    missing: Option<String>,
    mode: Mode,
    /// Time of the next look at the end of the journal.
    look_at: Instant,
}

impl Replay {
    /// Starts to read the tables.
    pub fn start(env: &mut Env) -> Self {
        let mut replay = Self::default();
        let rank = env.cfg().rank;
        let whole = ObjOp::Read { offset: 0, len: 0 };
        replay.read(env, names::journal_object(rank, 0), whole.clone(), Read::Header);
        replay.read(env, names::ino_table(rank), whole.clone(), Read::InoTable);
        for ino in [Ino::ROOT, Ino::mdsdir(rank), Ino::stray(rank)] {
            replay.read(env, names::base_object(ino), whole.clone(), Read::Base);
        }
        replay.read_sessions(env, Vec::new());
        replay.read_snaps(env, Vec::new(), Read::Snaps);
        replay.read_partition(env, Vec::new(), Read::Partition);
        replay
    }

    /// Starts to follow the journal of a rank that somebody else serves.
    pub fn follow(env: &mut Env) -> Self {
        Self { mode: Mode::Follow, ..Self::start(env) }
    }

    /// True if somebody else serves the rank: nothing may be written.
    pub fn is_following(&self) -> bool {
        self.mode == Mode::Follow
    }

    /// True if changes may be written back: nobody else serves the rank, and it is known what the predecessor
    /// has stored.
    pub fn may_write_back(&self) -> bool {
        self.mode == Mode::End
    }

    /// The rank is ours from now on, and its predecessor can write no more.
    pub fn take_over(&mut self) {
        assert_eq!(self.mode, Mode::Follow, "a rank is taken over once");
        self.mode = Mode::LookDue;
    }

    /// The time of the next look at the journal.
    pub fn deadline(&self) -> Option<Instant> {
        (self.mode == Mode::Follow && self.is_at_end && self.reads.is_empty()).then_some(self.look_at)
    }

    fn read(&mut self, env: &mut Env, object: String, op: ObjOp, read: Read) {
        let id = env.start_metadata_io(object, vec![op], IoWhy::Boot);
        self.reads.insert(id, read);
    }

    fn read_sessions(&mut self, env: &mut Env, after: Vec<u8>) {
        let op = ObjOp::OmapList { after, max: SESSIONS_PER_READ };
        self.read(env, names::session_table(env.cfg().rank), op, Read::Sessions);
    }

    fn read_snaps(&mut self, env: &mut Env, after: Vec<u8>, read: Read) {
        self.read(env, names::snap_table(), ObjOp::OmapList { after, max: SNAPS_PER_READ }, read);
    }

    fn read_partition(&mut self, env: &mut Env, after: Vec<u8>, read: Read) {
        let op = ObjOp::OmapList { after, max: SUBTREES_PER_READ };
        self.read(env, names::partition(), op, read);
    }

    /// Handles a completed read. Fails if the state is damaged.
    pub fn io_done(
        &mut self,
        env: &mut Env,
        cache: &mut Cache,
        sessions: &mut Sessions,
        id: IoId,
        result: IoResult,
    ) -> Result<(), String> {
        let read = self.reads.remove(&id).expect("a read of the replay");
        let reply = result.ok().and_then(|mut replies| (!replies.is_empty()).then(|| replies.remove(0)));
        let taken = match read {
            Read::Journal => self.take_object(env, reply),
            Read::Beyond(later) => self.take_beyond(later, &reply),
            Read::Look => self.take_header(&reply),
            table => self.take_table(env, cache, sessions, &table, reply).map_err(Damage::Decode),
        };
        let taken = taken.and_then(|()| self.check_features()).and_then(|()| self.end_tables());
        taken.map_err(|damage| format!("the stored state of rank {} is unusable: {damage}", env.cfg().rank))
    }

    /// Refuses data that a later version stored with unknown features.
    fn check_features(&self) -> Result<(), Damage> {
        let needs = self.header.as_ref().map_or(0, |header| header.needs);
        match needs & !KNOWN_FEATURES {
            0 => Ok(()),
            features => Err(Damage::Newer { features }),
        }
    }

    /// Begins with the journal when all tables are read. Their newest state is at least that of the header.
    fn end_tables(&mut self) -> Result<(), Damage> {
        if !self.reads.is_empty() || self.journal.is_some() {
            return Ok(());
        }
        let header = self.header.take().unwrap_or_default();
        self.journal = Some(JournalReader::new(&header));
        let missing = self.missing.take().filter(|_| header.first_seq > 1);
        self.header = Some(header);
        match (missing, self.mode) {
            (None, _) => Ok(()),
            (Some(object), Mode::End) => Err(Damage::Lost { object }),
            // Whoever serves the rank may have stored it after it was looked for, and trimmed since.
            (Some(_), _) => {
                self.steps.push_back(Step::Behind);
                Ok(())
            }
        }
    }

    fn take_table(
        &mut self,
        env: &mut Env,
        cache: &mut Cache,
        sessions: &mut Sessions,
        read: &Read,
        reply: Option<ObjReply>,
    ) -> Result<(), DecodeError> {
        let bytes = data(&reply);
        match read {
            Read::Header => self.header = Some(Reader::new(bytes).get()?),
            Read::InoTable if bytes.is_empty() => self.missing = Some(names::ino_table(env.cfg().rank)),
            Read::InoTable => {
                let table: InoTable = Reader::new(bytes).get()?;
                self.steps.push_back(Step::InodeNumbers(table.next));
            }
            Read::Base if bytes.is_empty() => {}
            Read::Base => cache.loaded_base(Reader::new(bytes).get::<InodeData>()?),
            Read::Sessions => {
                if let Some(ObjReply::Omap(entries, more)) = &reply
                    && let (Some(last), true) = (sessions.load(env, entries)?, *more)
                {
                    self.read_sessions(env, last);
                }
            }
            Read::Snaps => {
                if let Some(ObjReply::Omap(entries, more)) = &reply
                    && let (Some(last), true) = (cache.snaps.load(entries)?, *more)
                {
                    self.read_snaps(env, last, Read::Snaps);
                }
            }
            Read::SnapsAgain(known) => {
                let Some(ObjReply::Omap(entries, more)) = reply else { return Ok(()) };
                let mut known = known.clone();
                known.extend(entries);
                match known.keys().next_back().filter(|_| more).cloned() {
                    Some(last) => self.read_snaps(env, last, Read::SnapsAgain(known)),
                    // Its changes are in the journal of rank 0.
                    None if env.cfg().rank == 0 => cache.snaps.note_stored_version(&known)?,
                    None => cache.snaps.renew(&known)?,
                }
            }
            Read::Partition => {
                load_borders(cache, &reply)?;
                load_replicas(env, cache, &reply)?;
                let (found, next) = records(&reply)?;
                let own = MdsRank(env.cfg().rank as i32);
                self.partition.extend(found.clone());
                if let Some(last) = next {
                    self.read_partition(env, last, Read::Partition);
                }
                for (root, record) in found {
                    let is_stored_here = match record.from {
                        Some(from) => from == own && record.was_alone,
                        None => record.rank == own,
                    };
                    if is_stored_here {
                        let whole = ObjOp::Read { offset: 0, len: 0 };
                        self.read(env, names::base_object(root), whole, Read::Root(root));
                    }
                    cache.subtrees.load(root, record);
                }
            }
            Read::Root(root) => {
                let record = &self.partition[root];
                cache.put_prefix(record);
                cache.put_root(Reader::new(bytes).get()?, record);
            }
            Read::PartitionAgain(before) => {
                load_replicas(env, cache, &reply)?;
                self.compare_partition(env, *before, &reply)?;
            }
            Read::Journal | Read::Beyond(_) | Read::Look => unreachable!("no table"),
        }
        Ok(())
    }

    /// Compares a part of the partition, after `before` records, with what was read before.
    fn compare_partition(
        &mut self,
        env: &mut Env,
        before: usize,
        reply: &Option<ObjReply>,
    ) -> Result<(), DecodeError> {
        let (found, next) = records(reply)?;
        let is_same = found.iter().all(|(root, record)| self.partition.get(root) == Some(record));
        let count = before + found.len();
        match next.filter(|_| is_same) {
            Some(last) => self.read_partition(env, last, Read::PartitionAgain(count)),
            None if !is_same || count != self.partition.len() => self.steps.push_back(Step::Behind),
            None => {}
        }
        Ok(())
    }

    /// Handles the header of a journal that was read to its end.
    fn take_header(&mut self, reply: &Option<ObjReply>) -> Result<(), Damage> {
        let header: JournalHeader = Reader::new(data(reply)).get().map_err(Damage::Decode)?;
        if self.mode == Mode::LastLook {
            self.mode = Mode::End;
        }
        let journal = self.journal.as_mut().expect("it was read before");
        journal.follow();
        let had_all = journal.forget_before(header.first);
        self.steps.push_back(match had_all {
            true => Step::Stored(header.first, header.first_seq),
            false => Step::Behind,
        });
        self.header = Some(header);
        self.is_at_end = false;
        Ok(())
    }

    /// An object behind the end was looked for: there must be none.
    fn take_beyond(&mut self, later: Segment, reply: &Option<ObjReply>) -> Result<(), Damage> {
        if !data(reply).is_empty() {
            let segment = self.journal.as_ref().expect("it was read to its end").next();
            return Err(Damage::Missing { segment, later });
        }
        self.is_end_sure = self.reads.is_empty();
        Ok(())
    }

    fn take_object(&mut self, env: &Env, reply: Option<ObjReply>) -> Result<(), Damage> {
        let journal = self.journal.as_mut().expect("tables are read first");
        let bytes = data(&reply);
        // The object after the last may never have been written: a missing one ends the journal.
        self.is_at_end = bytes.is_empty();
        let taken = if self.is_at_end { journal.take_end() } else { journal.take(bytes) };
        self.look_at = env.now() + LOOK_INTERVAL;
        if let (Err(Damage::Gap { segment, .. }), true) = (&taken, self.mode != Mode::End) {
            // The object before was written on after it was read.
            journal.go_back(*segment);
            self.is_at_end = true;
            return Ok(());
        }
        let Batch { segment, events } = taken?;
        self.steps.push_back(Step::Apply(segment, events));
        Ok(())
    }

    /// The next step.
    pub fn next_step(&mut self) -> Option<Step> {
        let step = self.steps.pop_front();
        if step.is_some() || !self.is_end_sure {
            return step;
        }
        let journal = self.journal.take()?;
        let (last, count) = (journal.last(), journal.count());
        Some(Step::End(Ended { last, count, segments: journal.into_segments() }))
    }

    /// Reads on, unless an object is being read.
    pub fn advance(&mut self, env: &mut Env) {
        let is_due = self.mode == Mode::LookDue || self.mode == Mode::Follow && env.now() >= self.look_at;
        if self.is_at_end && is_due && self.reads.is_empty() {
            if self.mode == Mode::LookDue {
                self.mode = Mode::LastLook;
                // They were read when this began to follow.
                self.read_partition(env, Vec::new(), Read::PartitionAgain(0));
                self.read_snaps(env, Vec::new(), Read::SnapsAgain(BTreeMap::new()));
            }
            // Until the header is here, nothing else is read.
            let name = names::journal_object(env.cfg().rank, 0);
            return self.read(env, name, ObjOp::Read { offset: 0, len: 0 }, Read::Look);
        }
        if self.is_at_end && self.mode == Mode::End && !self.is_end_sure && self.reads.is_empty() {
            return self.look_beyond(env);
        }
        if let Some(segment) = self.journal.as_ref().map(JournalReader::next)
            && self.reads.is_empty()
            && !self.is_at_end
        {
            let name = names::journal_object(env.cfg().rank, segment);
            self.read(env, name, ObjOp::Read { offset: 0, len: 0 }, Read::Journal);
        }
    }

    /// Looks for objects behind the journal's end.
    fn look_beyond(&mut self, env: &mut Env) {
        let Some(end) = self.journal.as_ref().map(JournalReader::next) else { return };
        for segment in end + 1..=end + LOOKED_FOR_BEYOND {
            let name = names::journal_object(env.cfg().rank, segment);
            self.read(env, name, ObjOp::Read { offset: 0, len: 1 }, Read::Beyond(segment));
        }
    }

    /// Asserts what holds between inputs.
    pub fn check(&self) {
        assert!(self.steps.is_empty(), "all steps are carried out");
        let of_journal =
            self.reads.values().filter(|read| matches!(read, Read::Journal | Read::Look)).count();
        assert!(self.journal.is_none() || of_journal <= 1, "one object of the journal at a time");
        assert!(self.is_at_end || !self.is_end_sure, "the end is sure when it is reached");
    }
}

/// Takes in what an answer says of what is counted of subtrees.
fn load_borders(cache: &mut Cache, reply: &Option<ObjReply>) -> Result<(), DecodeError> {
    let Some(ObjReply::Omap(entries, _)) = reply else { return Ok(()) };
    cache.borders.load(entries)
}

/// Takes in of which directories others may have replicas.
fn load_replicas(env: &Env, cache: &mut Cache, reply: &Option<ObjReply>) -> Result<(), DecodeError> {
    let Some(ObjReply::Omap(entries, _)) = reply else { return Ok(()) };
    cache.replicas.load(MdsRank(env.cfg().rank as i32), entries)
}

/// The records of subtrees in an answer, and the key after which more follow.
fn records(reply: &Option<ObjReply>) -> Result<(Records, Option<Vec<u8>>), DecodeError> {
    let Some(ObjReply::Omap(entries, more)) = reply else { return Ok((Records::new(), None)) };
    Ok((decode_records(entries)?, entries.keys().next_back().filter(|_| *more).cloned()))
}

fn data(reply: &Option<ObjReply>) -> &[u8] {
    match reply {
        Some(ObjReply::Data(bytes)) => bytes,
        _ => &[],
    }
}
