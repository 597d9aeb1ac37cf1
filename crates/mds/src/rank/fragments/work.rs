//! The object operations of a change of fragments: what is removed, and the copy of the entries.

use crate::io::{IoResult, IoWhy, ObjOp, ObjReply};
use crate::rank::env::Env;
use crate::types::Lsn;
use fsfmt::{DentryKey, DirFrag, Fnode, Refragment, names};
use std::collections::{BTreeMap, VecDeque};
use wire::{Errno, Writer};

/// Entries that are copied at a time.
pub(super) const PAGE_ENTRIES: u64 = 1024;
/// Objects that are removed at a time.
const BATCH_OBJECTS: usize = 64;

/// Omap entries by their keys.
type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// The first event is to be durable.
    Begin(Lsn),
    /// What had changed before is being written back.
    Flush,
    /// Objects of the new fragments that an earlier attempt may have left are being removed.
    Clear,
    /// Entries are being read.
    Read,
    /// Entries are being written.
    Write,
    /// The new fragments are to take the place of the old ones.
    Switch,
    /// The second event is to be durable.
    End(Lsn),
    /// Objects that nobody needs are being removed.
    Remove,
}

/// The change under way, or the removal of what a crash has left of some.
pub(super) struct Work {
    /// None if only objects are removed.
    pub change: Option<Refragment>,
    pub step: Step,
    /// Object operations in flight.
    pub in_flight: usize,
    /// True if an object operation has failed.
    pub has_failed: bool,
    /// Entries that were read.
    pub copied: u64,
    /// Old fragments whose entries are not all read, the present one first.
    unread: VecDeque<DirFrag>,
    /// The omap key in the present fragment after which to go on.
    after: Vec<u8>,
    /// True if the objects of the new fragments are made.
    is_made: bool,
    /// Objects that are to be removed in this step and are not yet.
    doomed: Vec<DirFrag>,
}

impl Work {
    pub fn new(change: Refragment, begun: Lsn) -> Self {
        let unread = change.old().into();
        Self { change: Some(change), unread, ..Self::removal(Step::Begin(begun)) }
    }

    /// The removal of objects that were left.
    pub fn remove_leftovers(env: &mut Env, leftovers: Vec<DirFrag>) -> Self {
        let mut work = Self::removal(Step::Remove);
        work.remove(env, leftovers);
        work
    }

    fn removal(step: Step) -> Self {
        Self {
            change: None,
            step,
            in_flight: 0,
            has_failed: false,
            copied: 0,
            unread: VecDeque::new(),
            after: Vec::new(),
            is_made: false,
            doomed: Vec::new(),
        }
    }

    fn start(&mut self, env: &mut Env, dir: DirFrag, ops: Vec<ObjOp>) {
        env.start_metadata_io(names::dir_object(dir), ops, IoWhy::Refragment);
        self.in_flight += 1;
    }

    /// Begins to remove the objects of fragments.
    pub fn remove(&mut self, env: &mut Env, dirs: Vec<DirFrag>) {
        self.doomed = dirs;
        self.remove_more(env);
    }

    /// Goes on with it; false if all were removed.
    pub fn remove_more(&mut self, env: &mut Env) -> bool {
        let left = self.doomed.len().saturating_sub(BATCH_OBJECTS);
        let some = self.doomed.split_off(left);
        let is_something_left = !some.is_empty();
        some.into_iter().for_each(|dir| self.start(env, dir, vec![ObjOp::Delete]));
        is_something_left
    }

    /// Reads the next entries; all are copied if there is no old fragment left.
    pub fn read(&mut self, env: &mut Env) {
        match self.unread.front() {
            Some(dir) => {
                self.step = Step::Read;
                let (dir, after) = (*dir, self.after.clone());
                self.start(env, dir, vec![ObjOp::OmapList { after, max: PAGE_ENTRIES }]);
            }
            None => self.step = Step::Switch,
        }
    }

    /// An operation has ended; what was read is written.
    pub fn io_done(&mut self, env: &mut Env, result: IoResult) {
        self.in_flight -= 1;
        match result {
            Ok(mut replies) if self.step == Step::Read => match replies.pop() {
                Some(ObjReply::Omap(entries, more)) => self.write(env, entries, more),
                _ => self.has_failed = true,
            },
            // Nothing of it was ever written back.
            Err(Errno::ENOENT) if self.step == Step::Read => self.write(env, Entries::new(), false),
            Ok(_) | Err(Errno::ENOENT) => {}
            Err(_) => self.has_failed = true,
        }
    }

    /// Writes entries that were read to the new fragments, which are made with the first ones.
    fn write(&mut self, env: &mut Env, entries: Entries, more: bool) {
        let Some(change) = self.change else { return };
        self.step = Step::Write;
        self.copied += entries.len() as u64;
        match entries.keys().next_back().filter(|_| more) {
            Some(last) => self.after = last.clone(),
            None => {
                self.unread.pop_front();
                self.after.clear();
            }
        }
        let is_first = !std::mem::replace(&mut self.is_made, true);
        let mut of_new: BTreeMap<DirFrag, Entries> = BTreeMap::new();
        if is_first {
            of_new.extend(change.new_ones().into_iter().map(|dir| (dir, Entries::new())));
        }
        for (key, value) in entries {
            // What is no key of an entry is nothing that anybody reads.
            let Some(hash) = DentryKey::from_omap(&key).map(|key| key.hash) else { continue };
            of_new.entry(change.place_of(hash)).or_default().insert(key, value);
        }
        for (dir, entries) in of_new {
            let mut ops = vec![ObjOp::Create];
            if is_first {
                ops.push(ObjOp::OmapHeader(Writer::encode(&Fnode::default())));
            }
            if !entries.is_empty() {
                ops.push(ObjOp::OmapSet(entries));
            }
            self.start(env, dir, ops);
        }
    }
}
