//! Writing back what events changed, so that the journal's oldest segments can go. A directory's write-back contains
//! only the entries that changed, and only such as are durable in the journal.

use super::{Effect, Rank};
use crate::cache::SlotLink;
use crate::io::{IoWhy, ObjOp};
use crate::types::Segment;
use fsfmt::journal::JournalHeader;
use fsfmt::tables::{InoTable, session_key};
use fsfmt::{Dentry, DentryKey, DirFrag, Fnode, Ino, Link, names};
use std::collections::{BTreeMap, BTreeSet};
use wire::Writer;

/// Bytes of one write-back operation.
const PART: usize = 256 << 10;
/// Directories written back at once.
const DIRS: usize = 512;

/// Changes of one object of the inode index.
#[derive(Default)]
struct IndexPart {
    set: BTreeMap<Vec<u8>, Vec<u8>>,
    remove: Vec<Vec<u8>>,
    all: Vec<(Ino, u64)>,
}

impl Rank {
    /// Starts write-backs that are due and drops segments that nothing needs.
    pub(super) fn write_back(&mut self) {
        if matches!(self.stage, super::Stage::Creating | super::Stage::Replaying) {
            return;
        }
        self.start_data_work();
        let crowded = self.is_crowded();
        let up_to = if crowded { Some(self.journal.current()) } else { self.journal.wants_expired() };
        if let Some(up_to) = up_to
            && self.commits == 0
        {
            // A round begins when all events are durable, for only durable changes may be written back. Changes wait
            // for that moment, or a busy directory would never have one.
            if self.journal.is_idle() {
                self.write_back_up_to(up_to);
                self.draining = false;
                self.wake_space_waiters();
            } else {
                self.draining = true;
            }
        } else if self.draining {
            self.draining = false;
            self.wake_space_waiters();
        }
        self.expire();
    }

    /// Whether changed entries take up too much of the cache.
    fn is_crowded(&self) -> bool {
        if self.cache.stats().entries <= self.cfg.options.cache_inodes {
            return false;
        }
        let dirty =
            self.cache.dirty_dirs.iter().filter_map(|d| self.cache.dirs.get(d)).map(|d| d.dirty.len());
        dirty.sum::<usize>() * 4 > self.cfg.options.cache_inodes
    }

    /// Starts write-backs of everything that an event of a segment up to `up_to` changed. All events are durable.
    pub(super) fn write_back_up_to(&mut self, up_to: Segment) {
        let due = |dir: &&DirFrag| {
            let d = &self.cache.dirs[*dir];
            d.commit.is_none() && !d.dirty.is_empty() && d.dirty_since <= up_to
        };
        let dirs: Vec<DirFrag> = self.cache.dirty_dirs.iter().filter(due).take(DIRS).copied().collect();
        for dir in dirs {
            self.commit_dir(dir);
        }
        self.commit_bases(up_to);
        self.commit_index(up_to);
        self.commit_sessions(up_to);
        if self.ino_dirty.is_some_and(|s| s <= up_to) {
            self.ino_commit = self.ino_dirty.take();
            let bytes = Writer::encode(&InoTable { next: self.ino_next, ..InoTable::default() });
            let object = self.metadata(names::ino_table(self.cfg.rank));
            self.start_io(object, vec![ObjOp::WriteFull(bytes)], IoWhy::InoTable);
        }
    }

    fn commit_dir(&mut self, dir: DirFrag) {
        let rank_commit = self.cache.dirs.get_mut(&dir).expect("a dirty directory is cached");
        let keys = std::mem::take(&mut rank_commit.dirty);
        let since = rank_commit.dirty_since;
        rank_commit.version += 1;
        let header = Writer::encode(&Fnode {
            version: rank_commit.version,
            event: rank_commit.lsn,
            ..Fnode::default()
        });
        let mut parts = vec![(BTreeMap::new(), Vec::new())];
        let mut bytes = 0;
        for key in &keys {
            let omap_key = key.to_omap();
            let value = self.stored_entry(dir, key);
            bytes += omap_key.len() + value.as_ref().map_or(0, Vec::len);
            if bytes > PART {
                parts.push((BTreeMap::new(), Vec::new()));
                bytes = 0;
            }
            let (set, remove) = parts.last_mut().expect("never empty");
            match value {
                Some(value) => drop(set.insert(omap_key, value)),
                None => remove.push(omap_key),
            }
        }
        let commit = crate::cache::Commit { keys, since, parts: parts.len() };
        self.cache.dirs.get_mut(&dir).expect("still there").commit = Some(commit);
        let object = names::dir_object(dir);
        for (set, remove) in parts {
            let mut ops = vec![ObjOp::Create, ObjOp::OmapHeader(header.clone())];
            if !set.is_empty() {
                ops.push(ObjOp::OmapSet(set));
            }
            if !remove.is_empty() {
                ops.push(ObjOp::OmapRemove(remove));
            }
            self.start_io(self.metadata(object.clone()), ops, IoWhy::Dir(dir));
        }
    }

    fn stored_entry(&self, dir: DirFrag, key: &DentryKey) -> Option<Vec<u8>> {
        let slot = self.cache.dirs.get(&dir)?.slots.get(key).expect("a changed entry stays cached");
        let link = match slot.link {
            SlotLink::Null => return None,
            SlotLink::Remote { ino, dtype } => Link::Remote { ino, dtype },
            SlotLink::Primary(ino) => Link::Primary(Box::new(self.cache.inodes[&ino].data.clone())),
        };
        Some(Writer::encode(&Dentry::head(link)))
    }

    fn commit_bases(&mut self, up_to: Segment) {
        let due: Vec<(Ino, Segment)> = self
            .cache
            .dirty_bases
            .iter()
            .filter(|(ino, since)| **since <= up_to && self.cache.inodes.contains_key(&ino.head()))
            .map(|(ino, since)| (*ino, *since))
            .collect();
        for (ino, since) in due {
            let inode = &self.cache.inodes[&ino.head()];
            let (lsn, bytes) = (inode.lsn, Writer::encode(&inode.data));
            self.cache.dirty_bases.remove(&ino);
            self.base_commits.insert(ino, (since, lsn));
            let object = self.metadata(names::base_object(ino));
            self.start_io(object, vec![ObjOp::WriteFull(bytes)], IoWhy::Base(ino));
        }
    }

    fn commit_index(&mut self, up_to: Segment) {
        let mut groups: BTreeMap<String, IndexPart> = BTreeMap::new();
        let due: BTreeSet<String> = self
            .cache
            .index
            .iter()
            .filter(|(_, c)| c.since <= up_to)
            .map(|(ino, _)| names::index_object(*ino))
            .collect();
        for (ino, change) in &self.cache.index {
            let object = names::index_object(*ino);
            if !due.contains(&object) {
                continue;
            }
            let part = groups.entry(object).or_default();
            match &change.value {
                Some(back) => drop(part.set.insert(names::index_key(*ino), Writer::encode(back))),
                None => part.remove.push(names::index_key(*ino)),
            }
            part.all.push((*ino, change.lsn));
        }
        for (object, IndexPart { set, remove, all }) in groups {
            self.index_commits.insert(object.clone(), all);
            let mut ops = vec![ObjOp::Create];
            if !set.is_empty() {
                ops.push(ObjOp::OmapSet(set));
            }
            if !remove.is_empty() {
                ops.push(ObjOp::OmapRemove(remove));
            }
            self.start_io(self.metadata(object.clone()), ops, IoWhy::Index(object));
        }
    }

    fn commit_sessions(&mut self, up_to: Segment) {
        let due = self.sessions.since().is_some_and(|s| s <= up_to);
        if !due {
            return;
        }
        self.sessions.committing = std::mem::take(&mut self.sessions.dirty);
        let (mut set, mut remove) = (BTreeMap::new(), Vec::new());
        for client in self.sessions.committing.keys() {
            match self.sessions.map.get(client) {
                Some(s) => drop(set.insert(session_key(client.0), Writer::encode(&s.record))),
                None => remove.push(session_key(client.0)),
            }
        }
        let mut ops = vec![ObjOp::Create];
        if !set.is_empty() {
            ops.push(ObjOp::OmapSet(set));
        }
        if !remove.is_empty() {
            ops.push(ObjOp::OmapRemove(remove));
        }
        let object = self.metadata(names::session_table(self.cfg.rank));
        self.start_io(object, ops, IoWhy::Sessions);
    }

    /// A write-back has ended.
    pub(super) fn commit_done(&mut self, why: IoWhy, ok: bool) {
        if !ok && !matches!(why, IoWhy::JournalTrim) {
            self.out.push(Effect::Fail(format!("{why:?} found no object where it makes one")));
            return;
        }
        self.commits -= usize::from(is_write_back(&why));
        match why {
            IoWhy::Dir(dir) => self.dir_committed(dir),
            IoWhy::Base(ino) => drop(self.base_commits.remove(&ino)),
            IoWhy::Index(object) => {
                for (ino, lsn) in self.index_commits.remove(&object).unwrap_or_default() {
                    if self.cache.index.get(&ino).is_some_and(|c| c.lsn == lsn) {
                        self.cache.index.remove(&ino);
                    }
                }
            }
            IoWhy::Sessions => self.sessions.committing.clear(),
            IoWhy::InoTable => self.ino_commit = None,
            IoWhy::JournalHeader => self.header_done(),
            IoWhy::JournalTrim => {}
            IoWhy::Journal | IoWhy::Boot | IoWhy::Load | IoWhy::Data(_) => unreachable!("handled by io_done"),
        }
    }

    fn dir_committed(&mut self, dir: DirFrag) {
        let Some(d) = self.cache.dirs.get_mut(&dir) else { return };
        let Some(commit) = &mut d.commit else { return };
        commit.parts -= 1;
        if commit.parts > 0 {
            return;
        }
        d.commit = None;
        if d.dirty.is_empty() {
            self.cache.dirty_dirs.remove(&dir);
        }
        if !self.cache.inodes.contains_key(&dir.inode())
            && self.cache.index.get(&dir.ino).is_some_and(|c| c.value.is_none())
        {
            // It was removed while this was in flight.
            self.cache.dirs.remove(&dir);
            self.cache.dirty_dirs.remove(&dir);
        }
    }

    /// The first segment that something still needs.
    fn first_needed(&self) -> Segment {
        let dirs = self.cache.dirty_dirs.iter().filter_map(|d| self.cache.dirs[d].since());
        let bases =
            self.cache.dirty_bases.values().copied().chain(self.base_commits.values().map(|(s, _)| *s));
        let index = self.cache.index.values().map(|c| c.since);
        let tables = self.sessions.since().into_iter().chain(self.ino_dirty).chain(self.ino_commit);
        dirs.chain(bases).chain(index).chain(tables).min().unwrap_or(u64::MAX).min(self.journal.current())
    }

    /// Moves the journal's tail: first its header, then the objects before it.
    fn expire(&mut self) {
        let oldest = self.journal.segments.keys().next().copied().unwrap_or(0);
        if self.header_in_flight.is_some() || self.journal.wants_expired().is_none_or(|w| w < oldest) {
            return;
        }
        let first = self.first_needed();
        if first <= oldest {
            return;
        }
        self.write_header(first);
    }

    /// Writes the journal's header.
    pub(super) fn write_header(&mut self, first: Segment) {
        let first_seq = self.journal.segments.get(&first).map_or(self.journal.last + 1, |(_, seq)| *seq);
        let object_size = crate::journal::Journal::object_size(self.cfg.options.journal_bytes);
        let bytes = Writer::encode(&JournalHeader { first, first_seq, object_size });
        self.header_in_flight = Some(first);
        let object = self.metadata(names::journal_object(self.cfg.rank, 0));
        self.start_io(object, vec![ObjOp::WriteFull(bytes)], IoWhy::JournalHeader);
    }

    fn header_done(&mut self) {
        let Some(first) = self.header_in_flight.take() else { return };
        self.header_written = first;
        for segment in self.journal.expire(first) {
            let object = self.metadata(names::journal_object(self.cfg.rank, segment));
            self.start_io(object, vec![ObjOp::Delete], IoWhy::JournalTrim);
        }
        self.wake_space_waiters();
    }
}

/// Whether it belongs to a round of write-backs.
pub(super) fn is_write_back(why: &IoWhy) -> bool {
    matches!(why, IoWhy::Dir(_) | IoWhy::Base(_) | IoWhy::Index(_) | IoWhy::Sessions | IoWhy::InoTable)
}
