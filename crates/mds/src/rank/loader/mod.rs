//! Loading what operations lack: entries, pages of directories, inodes by number. What can't be read is noted
//! as damaged, and whoever waits for it fails; it is read again for the next one.

mod take_in;

use super::env::{Due, Env, Loaded};
use crate::cache::Cache;
use crate::io::{IoResult, IoWhy, ObjOp, ObjReply};
use crate::page::Page;
use crate::types::{Damage, Damaged, IoId, Need, OpId};
use fsfmt::{BackPointer, DentryKey, DirFrag, Ino, InodeKey, names};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use wire::Errno;

/// Entries of a page. A smaller directory is loaded whole with its first entry, as long as the cache has
/// room.
const PAGE_ENTRIES: u64 = 512;
/// In a full cache a directory is loaded whole if this many loads ago, or later, another entry of it was
/// loaded: else most of it would be evicted unused.
const RECENT_LOADS: usize = 16;
/// Of a larger directory the fragments are loaded whole, page by page beside other loads, if so many of the
/// last loads were of its entries, and the cache has room for it: names are made in it, each of which would
/// be looked for.
const FILLED_AFTER: usize = 8;
/// Keys that one operation fetches.
const MAX_KEYS: usize = 128;

/// A load under way.
#[derive(Debug)]
struct Load {
    /// Operations that wait for it.
    ops: BTreeSet<OpId>,
    /// Loads of inodes that wait for it.
    parents: BTreeSet<Need>,
    /// It is a page of a fragment that is loaded whole: the next one follows.
    fills: bool,
    /// The run that requested it: entries used since must stay in the cache.
    tick: u64,
}

/// The purpose of a load's object operation.
#[derive(Clone, Debug)]
enum Step {
    /// Fetches one entry.
    Entry,
    /// Fetches a page after this omap key, because the fragment is small or a page was requested.
    Page(Vec<u8>),
    /// Fetches an entry of the inode index.
    Index,
    /// Fetches a base inode.
    Base,
}

/// The answer to a step's object operation.
enum Answer {
    /// What was read.
    Found(ObjReply),
    /// There is no such object.
    NoObject,
    /// It can't be read.
    Unreadable,
}

impl Answer {
    /// The part of the answer for one of several keys.
    fn of_key(&self, key: Vec<u8>) -> Self {
        match self {
            Self::Found(ObjReply::Omap(found, _)) => {
                let entry = found.get(&key).cloned().map(|value| (key, value));
                Self::Found(ObjReply::Omap(entry.into_iter().collect(), false))
            }
            Self::NoObject => Self::NoObject,
            Self::Found(_) | Self::Unreadable => Self::Unreadable,
        }
    }
}

/// How a load ended.
#[derive(Default)]
struct End {
    /// The page that was read.
    page: Option<Page>,
    /// Entries of the page that can't be read.
    unreadable: Vec<DentryKey>,
    /// True if the item can't be read.
    is_damaged: bool,
}

impl End {
    fn damaged() -> Self {
        Self { is_damaged: true, ..Self::default() }
    }
}

/// An object operation in flight.
#[derive(Debug)]
enum Fetch {
    /// It is of one load.
    One(Need, Step),
    /// It fetches a key for each of these loads.
    Keys(Vec<(Vec<u8>, Need, Step)>),
}

impl Fetch {
    fn needs(&self) -> Vec<&Need> {
        match self {
            Self::One(need, _) => vec![need],
            Self::Keys(keys) => keys.iter().map(|(_, need, _)| need).collect(),
        }
    }
}

/// Loads in progress.
///
/// Invariants: each object operation in flight belongs to a load; each load has an operation in flight or
/// waits for another load, so that all end. Between inputs no key is queued.
#[derive(Default)]
pub(super) struct Loader {
    loads: BTreeMap<Need, Load>,
    io: BTreeMap<IoId, Fetch>,
    /// The directories of the last loads of entries.
    recent: VecDeque<Ino>,
    /// Operations of which the result is not taken in.
    outdated: BTreeSet<IoId>,
    /// Keys to be fetched, by object: one operation fetches many, since a client claims many inodes at once.
    queued: BTreeMap<String, Vec<(Vec<u8>, Need, Step)>>,
}

impl Loader {
    /// Starts a load, or joins it. Its end is a [`Due::Loaded`].
    pub fn load(&mut self, env: &mut Env, cache: &mut Cache, need: Need, op: Option<OpId>) {
        self.start(env, cache, need, op, None);
    }

    fn start(
        &mut self,
        env: &mut Env,
        cache: &mut Cache,
        need: Need,
        op: Option<OpId>,
        parent: Option<Need>,
    ) {
        if let Some(load) = self.loads.get_mut(&need) {
            load.ops.extend(op);
            load.parents.extend(parent);
            return;
        }
        let (ops, parents) = (op.into_iter().collect(), parent.into_iter().collect());
        self.loads.insert(need.clone(), Load { ops, parents, fills: false, tick: cache.tick });
        match &need {
            Need::Dentry(dir, key) => self.load_entry(env, cache, *dir, key, need.clone()),
            Need::Page(dir, after) => self.fetch_page(env, *dir, after.clone(), need.clone()),
            Need::Inode(ino) => self.load_inode(env, cache, *ino, need.clone()),
            Need::Revoke { .. }
            | Need::Truncated(_)
            | Need::Stored(_)
            | Need::Lock(_)
            | Need::SnapId
            | Need::Absent
            | Need::Remote(..)
            | Need::Thaw(_)
            | Need::Announced(_)
            | Need::Together { .. }
            | Need::Fence
            | Need::Alone(_)
            | Need::Sought(_)
            | Need::Promised
            | Need::Earlier(_) => unreachable!("these are not loads"),
        }
    }

    fn fetch(&mut self, env: &mut Env, object: String, op: ObjOp, need: Need, step: Step) {
        let id = env.start_metadata_io(object, vec![op], IoWhy::Load);
        self.io.insert(id, Fetch::One(need, step));
    }

    fn queue(&mut self, object: String, key: Vec<u8>, need: Need, step: Step) {
        self.queued.entry(object).or_default().push((key, need, step));
    }

    /// Fetches the keys that were asked for since the last call.
    pub fn flush(&mut self, env: &mut Env) {
        for (object, mut keys) in std::mem::take(&mut self.queued) {
            while !keys.is_empty() {
                let rest = keys.split_off(keys.len().min(MAX_KEYS));
                let op = ObjOp::OmapGet(keys.iter().map(|(key, ..)| key.clone()).collect());
                let id = env.start_metadata_io(object.clone(), vec![op], IoWhy::Load);
                self.io.insert(id, Fetch::Keys(std::mem::replace(&mut keys, rest)));
            }
        }
    }

    fn fetch_page(&mut self, env: &mut Env, dir: DirFrag, after: Vec<u8>, need: Need) {
        let op = ObjOp::OmapList { after: after.clone(), max: PAGE_ENTRIES };
        self.fetch(env, names::dir_object(dir), op, need, Step::Page(after));
    }

    fn fetch_entry(&mut self, dir: DirFrag, key: &DentryKey, need: Need) {
        self.queue(names::dir_object(dir), key.to_omap(), need, Step::Entry);
    }

    fn load_entry(&mut self, env: &mut Env, cache: &mut Cache, dir: DirFrag, key: &DentryKey, need: Need) {
        let small = count_of(cache, dir) < (PAGE_ENTRIES as usize).min(cache.most_entries() / 8);
        let has_room = has_room(cache, dir);
        let recent = self.recent.iter().filter(|loaded| **loaded == dir.ino).count();
        let is_used = has_room || recent > 0;
        self.recent.truncate(RECENT_LOADS - 1);
        self.recent.push_front(dir.ino);
        if small && is_used && !dir.ino.is_stray() {
            self.fetch_page(env, dir, Vec::new(), need);
        } else {
            self.fetch_entry(dir, key, need);
            if recent >= FILLED_AFTER && !dir.ino.is_stray() {
                self.fill(env, cache, dir);
            }
        }
    }

    /// Loads the next page of a fragment that is loaded whole, as long as the cache has room.
    fn fill(&mut self, env: &mut Env, cache: &mut Cache, dir: DirFrag) {
        let known = cache.dirs.get(&dir);
        if known.is_some_and(|d| d.complete) || !cache.is_leaf(dir) || !has_room(cache, dir) {
            return;
        }
        let after = known.and_then(|d| d.known_to.as_ref()).map(DentryKey::to_omap).unwrap_or_default();
        let need = Need::Page(dir, after);
        if !self.loads.contains_key(&need) {
            self.load(env, cache, need.clone(), None);
            self.loads.get_mut(&need).expect("it has just begun").fills = true;
        }
    }

    fn load_inode(&mut self, env: &mut Env, cache: &mut Cache, ino: InodeKey, need: Need) {
        if ino.is_base() {
            let op = ObjOp::Read { offset: 0, len: 0 };
            return self.fetch(env, names::base_object(ino.ino), op, need, Step::Base);
        }
        if ino.ino.is_shard() {
            match cache.subtrees.record(ino.ino).map(|record| record.from.is_none() || record.was_alone) {
                // It is on its way from the rank of its directory, which had nothing to store.
                Some(false) => cache.put_shard(ino.ino),
                Some(true) => {
                    let op = ObjOp::Read { offset: 0, len: 0 };
                    return self.fetch(env, names::base_object(ino.ino), op, need, Step::Base);
                }
                None => {}
            }
            return self.finish(env, cache, &need);
        }
        // The entry of a subtree's root is older than what its rank has stored.
        if let Some(record) = cache.subtrees.record(ino.ino).filter(|record| record.from.is_none()) {
            let above = record.dir.inode();
            if !cache.inodes.contains_key(&above) && !self.waits_for(&need, above) {
                return self.start(env, cache, Need::Inode(above), None, Some(need));
            }
            let op = ObjOp::Read { offset: 0, len: 0 };
            return self.fetch(env, names::base_object(ino.ino), op, need, Step::Base);
        }
        match cache.index.get(&ino.ino).map(|change| change.value.clone()) {
            Some(Some(back)) => self.follow_back_pointer(env, cache, need, &back),
            Some(None) => self.finish(env, cache, &need),
            None => self.queue(names::index_object(ino.ino), names::index_key(ino.ino), need, Step::Index),
        }
    }

    fn follow_back_pointer(&mut self, env: &mut Env, cache: &mut Cache, need: Need, back: &BackPointer) {
        let key = DentryKey::new(&back.name);
        // A shard is known without its directory, which is needed to take an entry in.
        let above = cache.inode(back.dir.head());
        let dir = match above.and_then(|_| cache.frag_of(back.dir, key.hash)) {
            Ok(dir) => dir,
            Err(Need::Inode(dir)) if !self.waits_for(&need, dir) => {
                // The directory's inode says in which fragment the name is.
                return self.start(env, cache, Need::Inode(dir), None, Some(need));
            }
            Err(_) => {
                if let Need::Inode(ino) = need {
                    let why = "the inode index leads in a circle";
                    env.due(Due::Damaged(Damage::new(Damaged::BackTrace(ino), why)));
                }
                return self.finish_with(env, cache, &need, End::damaged());
            }
        };
        if cache.entry(dir, &key).is_ok() {
            return self.finish(env, cache, &need);
        }
        self.start(env, cache, Need::Dentry(dir, key), None, Some(need));
    }

    /// True if the load of `inode` waits for `need`: back pointers that lead in a circle are damaged.
    fn waits_for(&self, need: &Need, inode: InodeKey) -> bool {
        let mut left = vec![need];
        while let Some(need) = left.pop() {
            if *need == Need::Inode(inode) {
                return true;
            }
            left.extend(self.loads.get(need).into_iter().flat_map(|load| &load.parents));
        }
        false
    }

    /// Handles the completion of a load's object operation.
    pub fn io_done(&mut self, env: &mut Env, cache: &mut Cache, id: IoId, result: IoResult) {
        let fetch = self.io.remove(&id).expect("an operation of a load");
        if self.outdated.remove(&id) {
            return self.fetch_again(env, cache, fetch);
        }
        let answer = match result {
            Ok(mut replies) if !replies.is_empty() => Answer::Found(replies.remove(0)),
            Err(Errno::ENOENT) => Answer::NoObject,
            // An OSD that answers without an answer is no better.
            Ok(_) | Err(_) => Answer::Unreadable,
        };
        let keys = match fetch {
            Fetch::One(need, step) => return self.take_in(env, cache, need, &step, answer),
            Fetch::Keys(keys) => keys,
        };
        for (key, need, step) in keys {
            let answer = answer.of_key(key);
            self.take_in(env, cache, need, &step, answer);
        }
    }

    /// The partition has changed: what is being read may be older than what another rank has stored since,
    /// and is not taken in.
    pub fn partition_changed(&mut self) {
        self.outdated.extend(self.io.keys());
    }

    fn fetch_again(&mut self, env: &mut Env, cache: &mut Cache, fetch: Fetch) {
        let needs: Vec<Need> = fetch.needs().into_iter().cloned().collect();
        for need in needs {
            match need {
                Need::Inode(ino) => self.load_inode(env, cache, ino, need),
                need => self.look_again(env, cache, &need),
            }
        }
    }

    /// Ends a load; operations that waited for it go on.
    fn finish(&mut self, env: &mut Env, cache: &mut Cache, need: &Need) {
        self.finish_with(env, cache, need, End::default());
    }

    fn finish_with(&mut self, env: &mut Env, cache: &mut Cache, need: &Need, end: End) {
        let Some(load) = self.loads.remove(need) else { return };
        let End { page, unreadable, is_damaged } = end;
        if let (true, Some(Page { dir, last: Some(last), .. })) = (load.fills, &page)
            && cache.dirs.get(dir).is_some_and(|d| d.knows(last))
        {
            self.fill(env, cache, *dir);
        }
        env.due(Due::Loaded(Loaded { need: need.clone(), ops: load.ops, page, is_damaged, unreadable }));
        for parent in load.parents {
            match (&parent, need) {
                _ if is_damaged => self.finish_with(env, cache, &parent, End::damaged()),
                // Now the fragment that it is in is known.
                (Need::Inode(ino), Need::Inode(dir)) if cache.inodes.contains_key(dir) => {
                    self.load_inode(env, cache, *ino, parent);
                }
                _ => self.finish(env, cache, &parent),
            }
        }
    }

    /// Ends a load of a fragment that was split meanwhile: whoever waits for it looks into the parts.
    fn look_again(&mut self, env: &mut Env, cache: &mut Cache, need: &Need) {
        let Some(load) = self.loads.remove(need) else { return };
        let loaded = Loaded {
            need: need.clone(),
            ops: load.ops,
            page: None,
            is_damaged: false,
            unreadable: Vec::new(),
        };
        env.due(Due::Loaded(loaded));
        for parent in load.parents {
            match parent {
                Need::Inode(ino) => self.load_inode(env, cache, ino, parent),
                _ => self.finish(env, cache, &parent),
            }
        }
    }

    /// The first run that requested a load in progress.
    pub fn oldest_run(&self) -> Option<u64> {
        self.loads.values().map(|l| l.tick).min()
    }

    /// Asserts what holds between inputs.
    pub fn check(&self) {
        assert!(self.io.is_empty() == self.loads.is_empty(), "loads are fetched, and nothing else is");
        assert!(self.queued.is_empty(), "keys that nobody fetches");
    }

    /// Asserts the rest by a walk over all loads.
    pub fn check_all(&self) {
        let in_flight: BTreeSet<&Need> = self.io.values().flat_map(Fetch::needs).collect();
        assert!(in_flight.iter().all(|need| self.loads.contains_key(need)), "operations belong to loads");
        let waiting: BTreeSet<&Need> = self.loads.values().flat_map(|l| &l.parents).collect();
        let ends = |need| in_flight.contains(need) || waiting.contains(need);
        assert!(self.loads.keys().all(ends), "each load fetches something or waits for another");
    }
}

/// Entries that a directory has in all its fragments.
fn count_of(cache: &Cache, dir: DirFrag) -> usize {
    let stat = cache.inodes.get(&dir.inode()).map(|inode| &inode.data.dirstat);
    stat.map_or(usize::MAX, |stat| stat.entries() as usize)
}

/// True if all of a directory fits into what the cache has left.
fn has_room(cache: &Cache, dir: DirFrag) -> bool {
    cache.stats().entries.saturating_add(count_of(cache, dir)) <= cache.most_entries()
}
