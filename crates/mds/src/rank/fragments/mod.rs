//! Splitting directories that have grown large, so that their entries are in many objects, on many OSDs:
//! with it go the recovery of an object and the look at one of its pages that would take long otherwise. What
//! happens in which order is told in [`crate::cache::Splits`].

use super::commit::{commit, commit_inode};
use super::effect::Stage;
use super::env::Env;
use super::sessions::Sessions;
use crate::cache::{Cache, Inode};
use crate::io::{IoResult, IoWhy, ObjOp, ObjReply};
use crate::types::Lsn;
use fsfmt::{DentryKey, DirFrag, Fnode, Ino, Update, names};
use node::Level;
use std::collections::{BTreeMap, BTreeSet};
use wire::{Errno, Writer};

/// Bits that the parts of a fragment have more: eight parts, as Ceph's.
const BITS: u32 = 3;
/// Entries that are copied at a time.
const PAGE_ENTRIES: u64 = 1024;

/// Splits: one at a time.
///
/// Invariant: object operations are in flight only while a split is under way.
#[derive(Default)]
pub(super) struct Splitting {
    /// Fragments that have too many entries.
    wanted: BTreeSet<DirFrag>,
    /// Those that can't be read.
    refused: BTreeSet<DirFrag>,
    work: Option<Work>,
}

/// The split under way, or the removal of what a crash has left of one.
struct Work {
    dir: DirFrag,
    step: Step,
    /// Object operations in flight.
    in_flight: usize,
}

#[derive(Debug)]
enum Step {
    /// The first event is to be durable.
    Begin(Lsn),
    /// What had changed before is being written back.
    Flush,
    /// Objects of the parts that an earlier attempt may have left are being removed.
    Clear,
    /// Entries after this omap key are being read; all after none.
    Read(Vec<u8>),
    /// Entries up to this one are being written; the last ones without.
    Write(Option<Vec<u8>>),
    /// The parts are to take the fragment's place.
    Switch,
    /// The second event is to be durable.
    End(Lsn),
    /// Objects that nobody needs are being removed.
    Remove,
}

impl Splitting {
    /// Notes that an inode was changed or loaded.
    pub fn note(&mut self, env: &Env, inode: &Inode) {
        let data = &inode.data;
        let size = env.cfg().options.split_size;
        let count = data.dirstat.nfiles + data.dirstat.nsubdirs;
        // The size of a fragment is not known; names are spread evenly. Not every change is looked at.
        let is_looked_at = count > size && count.is_multiple_of((size / 16).max(1));
        if !is_looked_at || !data.is_dir() || data.ino.is_base() && data.ino != Ino::ROOT {
            return;
        }
        let frag = data.fragtree.largest();
        let dir = DirFrag { ino: data.ino, frag };
        if count >> frag.bits() > size && frag.can_split(BITS) && !self.refused.contains(&dir) {
            self.wanted.insert(dir);
        }
    }

    /// True if nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.work.is_none()
    }

    /// The fragment whose changes must be written back now.
    pub fn to_flush(&self, cache: &Cache) -> Option<DirFrag> {
        let work = self.work.as_ref().filter(|work| matches!(work.step, Step::Flush))?;
        (!cache.splits.is_flushed(work.dir)).then_some(work.dir)
    }

    /// Goes on with what is due. None begins while others walk over fragments (`is_walked`).
    pub fn advance(
        &mut self,
        env: &mut Env,
        cache: &mut Cache,
        sessions: &mut Sessions,
        takes_changes: bool,
        is_walked: bool,
    ) {
        if env.stage() != Stage::Active {
            return;
        }
        loop {
            let Some(work) = &mut self.work else {
                self.work = remove_leftovers(env, cache);
                if self.work.is_none() && takes_changes && !is_walked {
                    self.begin(env, cache, sessions);
                }
                if self.work.is_none() {
                    return;
                }
                continue;
            };
            if work.in_flight > 0 {
                return;
            }
            match &work.step {
                Step::Begin(lsn) | Step::End(lsn) if env.journal().durable() < *lsn => return,
                Step::Begin(_) => work.step = Step::Flush,
                Step::Flush if !is_written_back(cache, work.dir) => return,
                Step::Flush => {
                    work.step = Step::Clear;
                    work.remove(env, work.dir.parts(BITS));
                }
                Step::Clear => work.read(env, Vec::new()),
                Step::Read(_) => unreachable!("a page is being read"),
                Step::Write(Some(last)) => {
                    let last = last.clone();
                    work.read(env, last);
                }
                Step::Write(None) => work.step = Step::Switch,
                Step::Switch if !takes_changes => return,
                Step::Switch => match switch(env, cache, sessions, work.dir) {
                    Some(lsn) => work.step = Step::End(lsn),
                    None => self.give_up(env),
                },
                Step::End(_) => {
                    work.step = Step::Remove;
                    work.remove(env, [work.dir]);
                }
                Step::Remove => self.end(env, cache),
            }
        }
    }

    /// Begins the next split, if a fragment is still as large as it was.
    fn begin(&mut self, env: &mut Env, cache: &mut Cache, sessions: &mut Sessions) {
        while let Some(dir) = self.wanted.pop_first() {
            if !can_switch(env, cache, dir) {
                continue;
            }
            let update = Update::Refragment { dir, bits: BITS as i8, is_done: false };
            let lsn = commit(env, cache, sessions, "split", vec![update]);
            env.want_durable(lsn);
            self.work = Some(Work { dir, step: Step::Begin(lsn), in_flight: 0 });
            return;
        }
    }

    /// An object operation has ended.
    pub fn io_done(&mut self, env: &mut Env, result: IoResult) {
        let work = self.work.as_mut().expect("operations belong to a split");
        work.in_flight -= 1;
        let Step::Read(_) = work.step else { return };
        match result {
            Ok(mut replies) => match replies.pop() {
                Some(ObjReply::Omap(entries, more)) => work.write(env, entries, more),
                _ => self.give_up(env),
            },
            // Nothing of it was ever written back.
            Err(Errno::ENOENT) => work.write(env, BTreeMap::new(), false),
            Err(_) => self.give_up(env),
        }
    }

    /// Removes what was copied.
    fn give_up(&mut self, env: &mut Env) {
        let Some(work) = &mut self.work else { return };
        env.log(Level::Info, "split_given_up", format!("{} stays as it is", work.dir));
        self.refused.insert(work.dir);
        work.step = Step::Remove;
        work.remove(env, work.dir.parts(BITS));
    }

    /// Nothing is left to be removed. What else is large is split next.
    fn end(&mut self, env: &Env, cache: &mut Cache) {
        let Some(work) = self.work.take() else { return };
        cache.splits.end(work.dir);
        if let Some(inode) = cache.inodes.get(&work.dir.inode()) {
            self.note(env, inode);
        }
    }
}

impl Work {
    fn start(&mut self, env: &mut Env, dir: DirFrag, ops: Vec<ObjOp>) {
        env.start_metadata_io(names::dir_object(dir), ops, IoWhy::Split);
        self.in_flight += 1;
    }

    fn remove(&mut self, env: &mut Env, dirs: impl IntoIterator<Item = DirFrag>) {
        dirs.into_iter().for_each(|dir| self.start(env, dir, vec![ObjOp::Delete]));
    }

    fn read(&mut self, env: &mut Env, after: Vec<u8>) {
        self.step = Step::Read(after.clone());
        let dir = self.dir;
        self.start(env, dir, vec![ObjOp::OmapList { after, max: PAGE_ENTRIES }]);
    }

    /// Writes entries that were read to their parts, each of which is made with the first ones.
    fn write(&mut self, env: &mut Env, entries: BTreeMap<Vec<u8>, Vec<u8>>, more: bool) {
        let is_first = matches!(&self.step, Step::Read(after) if after.is_empty());
        let last = entries.keys().next_back().filter(|_| more).cloned();
        let mut of_parts: BTreeMap<DirFrag, BTreeMap<Vec<u8>, Vec<u8>>> = BTreeMap::new();
        if is_first {
            of_parts.extend(self.dir.parts(BITS).map(|part| (part, BTreeMap::new())));
        }
        for (key, value) in entries {
            // What is no key of an entry is nothing that anybody reads.
            let Some(hash) = DentryKey::from_omap(&key).map(|key| key.hash) else { continue };
            of_parts.entry(self.dir.part_of(hash, BITS)).or_default().insert(key, value);
        }
        self.step = Step::Write(last);
        for (part, entries) in of_parts {
            let mut ops = vec![ObjOp::Create];
            if is_first {
                ops.push(ObjOp::OmapHeader(Writer::encode(&Fnode::default())));
            }
            if !entries.is_empty() {
                ops.push(ObjOp::OmapSet(entries));
            }
            self.start(env, part, ops);
        }
    }
}

/// Begins to remove the objects that a split of a predecessor has left.
fn remove_leftovers(env: &mut Env, cache: &Cache) -> Option<Work> {
    let (dir, split) = cache.splits.first()?;
    let mut work = Work { dir, step: Step::Remove, in_flight: 0 };
    match split.is_done {
        true => work.remove(env, [dir]),
        false => work.remove(env, dir.parts(split.bits)),
    }
    Some(work)
}

/// True if what had changed before the split is written back.
fn is_written_back(cache: &Cache, dir: DirFrag) -> bool {
    cache.splits.is_flushed(dir) && cache.dirs.get(&dir).is_none_or(|d| d.commit.is_none())
}

/// True if a fragment is one of a directory that is cached and has a name.
fn can_switch(env: &Env, cache: &Cache, dir: DirFrag) -> bool {
    let stray = Ino::stray(env.cfg().rank);
    cache.inodes.get(&dir.inode()).is_some_and(|inode| {
        let is_named = inode.place.as_ref().is_none_or(|(above, _)| above.ino != stray);
        is_named && inode.data.nlink > 0 && inode.data.frag_of(dir.frag.value()) == dir
    })
}

/// Puts the parts in the place of a fragment; the event, if that is still possible.
fn switch(env: &mut Env, cache: &mut Cache, sessions: &mut Sessions, dir: DirFrag) -> Option<Lsn> {
    if !can_switch(env, cache, dir) {
        return None;
    }
    let mut data = cache.inodes.get(&dir.inode())?.data.clone();
    if !data.fragtree.edit(|tree| tree.split(dir.frag, BITS)) {
        return None;
    }
    let update = Update::Refragment { dir, bits: BITS as i8, is_done: true };
    let lsn = commit_inode(env, cache, sessions, None, "split", data, vec![update]);
    env.want_durable(lsn);
    Some(lsn)
}
