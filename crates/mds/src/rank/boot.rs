//! The start of a rank: making a file system, or reading tables and journal, and taking back clients.

use super::{Effect, Rank, RankConfig};
use crate::io::{IoResult, IoWhy, ObjOp, ObjReply};
use crate::journal::Journal;
use crate::session::{Session, SessionState};
use crate::types::{ClientId, IoId, Lsn, Segment};
use fsfmt::journal::{JournalHeader, read_frames};
use fsfmt::tables::{InoTable, SessionRecord, parse_session_key};
use fsfmt::{DirFrag, Event, Ino, InodeData, InodeKey, NestStat, Subtree, Update, mode, names};
use maps::MdsRank;
use node::Level;
use std::collections::BTreeMap;
use stdx::Now;
use wire::{DecodeError, Reader};

/// Sessions read at once.
const SESSIONS: u64 = 256;

/// Where a rank is on its way to serving clients.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stage {
    /// Makes a new file system.
    Creating,
    /// Reads tables and journal.
    Replaying,
    /// Has the state of its predecessor; clients may not know yet.
    Replayed,
    /// Takes back clients.
    Reconnecting,
    /// Has all clients that it waits for.
    Rejoined,
    /// Serves.
    Active,
}

/// A journal object: number, bytes, events.
type Object = (Segment, u64, Vec<(Lsn, Event)>);

/// State of the start.
#[derive(Default)]
pub(super) struct Boot {
    header: Option<JournalHeader>,
    /// What is read, by object operation.
    reads: BTreeMap<IoId, Read>,
    /// Journal objects with their events.
    objects: Vec<Object>,
    /// The event that must be durable before clients are taken back.
    begin: Lsn,
}

enum Read {
    Header,
    Sessions,
    InoTable,
    Base,
    Object(Segment),
}

impl Rank {
    /// Makes a new, empty file system.
    pub fn create(cfg: RankConfig, now: Now) -> Self {
        let mut rank = Self::new(cfg, now, Stage::Creating);
        // A creation that was interrupted has left an object that may be longer.
        let object = rank.metadata(names::journal_object(rank.cfg.rank, 1));
        rank.start_io(object, vec![ObjOp::Create, ObjOp::Truncate(0)], IoWhy::JournalTrim);
        rank.write_header(1);
        let (root, mdsdir, stray) = (Ino::ROOT, Ino::mdsdir(rank.cfg.rank), Ino::stray(rank.cfg.rank));
        let mut updates: Vec<Update> =
            [(root, 0o755), (mdsdir, 0o700), (stray, 0o700)].map(|(i, m)| rank.new_base(i, m)).into();
        updates.push(Update::InoNext { next: rank.ino_next });
        updates.push(rank.own_subtrees(&[root, mdsdir]));
        rank.boot.begin = rank.commit_event("create file system", updates);
        for dir in [root, stray] {
            rank.cache.dirs.entry(DirFrag::whole(dir)).or_default().complete = true;
        }
        rank
    }

    /// Says that these directories, with all below them, are this rank's.
    fn own_subtrees(&self, dirs: &[Ino]) -> Update {
        let rank = MdsRank(self.cfg.rank as i32);
        let one = |dir: &Ino| Subtree { dir: DirFrag::whole(*dir), rank, other: None };
        Update::Subtrees { subtrees: dirs.iter().map(one).collect() }
    }

    fn new_base(&self, ino: Ino, permissions: u32) -> Update {
        let stamp = self.stamp();
        let stat = NestStat { rsubdirs: 1, rctime: stamp, ..NestStat::default() };
        Update::Base {
            inode: Box::new(InodeData {
                ino,
                version: 1,
                mode: mode::DIR | permissions,
                nlink: 1,
                mtime: stamp,
                ctime: stamp,
                atime: stamp,
                btime: stamp,
                truncate_size: u64::MAX,
                xattr_version: 1,
                rstat: stat.clone(),
                accounted: stat,
                ..InodeData::default()
            }),
        }
    }

    /// Takes over what is stored.
    pub fn replay(cfg: RankConfig, now: Now) -> Self {
        let mut rank = Self::new(cfg, now, Stage::Replaying);
        let n = rank.cfg.rank;
        let all = ObjOp::Read { offset: 0, len: 0 };
        rank.boot_io(names::journal_object(n, 0), all.clone(), Read::Header);
        rank.boot_io(names::ino_table(n), all.clone(), Read::InoTable);
        for ino in [Ino::ROOT, Ino::mdsdir(n), Ino::stray(n)] {
            rank.boot_io(names::base_object(ino), all.clone(), Read::Base);
        }
        rank.boot_io(
            names::session_table(n),
            ObjOp::OmapList { after: Vec::new(), max: SESSIONS },
            Read::Sessions,
        );
        rank
    }

    fn boot_io(&mut self, object: String, op: ObjOp, read: Read) {
        let id = self.start_io(self.metadata(object), vec![op], IoWhy::Boot);
        self.boot.reads.insert(id, read);
    }

    /// Something of the start was read.
    pub(super) fn boot_read(&mut self, id: IoId, result: IoResult) {
        let Some(read) = self.boot.reads.remove(&id) else { return };
        let reply = result.ok().and_then(|mut replies| (!replies.is_empty()).then(|| replies.remove(0)));
        if let Err(e) = self.take_boot(read, reply) {
            self.out
                .push(Effect::Fail(format!("the stored state of rank {} is damaged: {e}", self.cfg.rank)));
            return;
        }
        if self.boot.reads.is_empty() {
            self.finish_replay();
        }
    }

    fn take_boot(&mut self, read: Read, reply: Option<ObjReply>) -> Result<(), DecodeError> {
        let bytes = match &reply {
            Some(ObjReply::Data(bytes)) => bytes.as_slice(),
            _ => &[],
        };
        match read {
            Read::Header => {
                let header: JournalHeader = Reader::new(bytes).get()?;
                let first = header.first;
                self.boot.header = Some(header);
                self.read_object(first);
            }
            Read::InoTable if bytes.is_empty() => {}
            Read::InoTable => {
                let table: InoTable = Reader::new(bytes).get()?;
                self.ino_next = self.ino_next.max(table.next);
            }
            Read::Base if bytes.is_empty() => {}
            Read::Base => self.cache.loaded_base(Reader::new(bytes).get::<InodeData>()?),
            Read::Sessions => {
                if let Some(ObjReply::Omap(entries, more)) = reply {
                    self.take_sessions(entries, more)?;
                }
            }
            Read::Object(segment) => {
                if !bytes.is_empty() {
                    let seq = Reader::new(bytes.get(8..16).unwrap_or(&[])).get::<u64>()?;
                    self.boot.objects.push((segment, bytes.len() as u64, read_frames(bytes, seq)?));
                }
                // The object after the last was perhaps never written: an absent one ends the journal.
                if reply.is_some() && !bytes.is_empty() {
                    self.read_object(segment + 1);
                }
            }
        }
        Ok(())
    }

    fn read_object(&mut self, segment: Segment) {
        let name = names::journal_object(self.cfg.rank, segment);
        self.boot_io(name, ObjOp::Read { offset: 0, len: 0 }, Read::Object(segment));
    }

    fn take_sessions(&mut self, entries: BTreeMap<Vec<u8>, Vec<u8>>, more: bool) -> Result<(), DecodeError> {
        let last = entries.keys().next_back().cloned();
        for (key, value) in entries {
            let Some(client) = parse_session_key(&key) else { continue };
            let record: SessionRecord = Reader::new(&value).get()?;
            let auth = self.auth_of(ClientId(client));
            let session = Session::new(record, auth, SessionState::Absent, self.now.mono);
            self.sessions.map.insert(ClientId(client), session);
        }
        if let (true, Some(after)) = (more, last) {
            let op = ObjOp::OmapList { after, max: SESSIONS };
            self.boot_io(names::session_table(self.cfg.rank), op, Read::Sessions);
        }
        Ok(())
    }

    /// Everything is read: applies the journal.
    fn finish_replay(&mut self) {
        let mut objects = std::mem::take(&mut self.boot.objects);
        // A write of a predecessor may have landed after its successor had read that object and gone on in the next:
        // events that the next object numbers again never happened.
        for i in 1..objects.len() {
            let Some(next) = objects[i].2.first().map(|(seq, _)| *seq) else { continue };
            objects[i - 1].2.retain(|(seq, _)| *seq < next);
        }
        let header = self.boot.header.clone().unwrap_or_default();
        let mut segments = BTreeMap::new();
        let mut last = header.first_seq.saturating_sub(1);
        let mut count = 0;
        for (segment, bytes, events) in objects {
            let first = events.first().map_or(last + 1, |(seq, _)| *seq);
            if first != last + 1 {
                let text =
                    format!("journal object {segment} begins with event {first} instead of {}", last + 1);
                self.out.push(Effect::Fail(text));
                return;
            }
            segments.insert(segment, (bytes, first));
            for (seq, event) in events {
                self.apply(event, seq, segment);
                last = seq;
                count += 1;
            }
        }
        if segments.is_empty() {
            segments.insert(header.first.saturating_sub(1), (0, last + 1));
        }
        self.journal = Journal::new(self.cfg.options.journal_bytes, last, segments);
        self.log(Level::Info, "journal_replayed", format!("{count} events up to {last}"));
        if !self.cache.inodes.contains_key(&Ino::ROOT.head()) {
            self.out.push(Effect::Fail("the root inode is neither stored nor in the journal".to_owned()));
            return;
        }
        self.expect_clients();
        self.stage = Stage::Replayed;
        // Marks the begin of this life in the journal, before anything of it is seen.
        self.boot.begin = self.commit_event("take over", vec![self.own_subtrees(&[Ino::ROOT])]);
        self.load_strays(Vec::new());
    }

    /// The journal has reached a further event.
    pub(super) fn boot_durable(&mut self) {
        if self.boot.begin == 0 || self.journal.durable < self.boot.begin {
            return;
        }
        self.boot.begin = 0;
        self.out.push(Effect::Reached(self.stage));
    }

    /// The map says that clients may come back.
    pub fn reconnect(&mut self, now: Now) {
        self.now = now;
        if self.stage == Stage::Replayed {
            self.stage = Stage::Reconnecting;
            self.open_reconnect_window();
            for (client, tid, body) in std::mem::take(&mut self.held_back) {
                self.client_message(now, client, tid, body);
            }
            self.check_reconnect_window();
        }
    }

    /// The map says that the rank serves.
    pub fn activate(&mut self, now: Now) {
        self.now = now;
        if !matches!(self.stage, Stage::Creating | Stage::Rejoined) {
            return;
        }
        self.stage = Stage::Active;
        let held: Vec<InodeKey> = self.sessions.map.values().flat_map(|s| s.inodes.iter().copied()).collect();
        for ino in held {
            self.caps_changed(ino);
        }
        for (client, tid, body) in std::mem::take(&mut self.held_back) {
            self.client_message(now, client, tid, body);
        }
        self.hear_absentees();
    }
}
