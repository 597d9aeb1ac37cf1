//! The walk of a scrub: a stack of steps, of which one is taken at a time.

use super::check::{Seen, Sum, correct_file, index_fault};
use super::options::ScrubOptions;
use crate::cache::{Cache, SlotLink};
use crate::io::{IoResult, IoWhy, ObjOp, ObjReply};
use crate::rank::commit::{commit, commit_inode};
use crate::rank::env::{Due, Env, Loaded};
use crate::rank::sessions::Sessions;
use crate::types::{Damage, Damaged, IoId, Need, Origin};
use fsfmt::{BackPointer, DentryKey, DirFrag, Ino, InodeData, InodeKey, NestStat, Update, names};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use wire::Reader;

/// Steps taken for one input.
const MAX_STEPS: usize = 16;
/// Readings of a directory that changes meanwhile; after that its statistics are not judged.
const MAX_READINGS: u32 = 5;

/// Counts of a scrub.
#[derive(Default, Debug)]
pub(super) struct Progress {
    pub dirs: u64,
    pub entries: u64,
    pub damaged: u64,
    pub repaired: u64,
    /// Directories that changed at each reading.
    pub busy: u64,
    /// The path, or a part of it, does not exist.
    pub is_lost: bool,
}

impl Progress {
    pub fn describe(&self) -> Value {
        json!({
            "directories": self.dirs,
            "entries": self.entries,
            "damaged": self.damaged,
            "repaired": self.repaired,
            "not_judged": self.busy,
        })
    }

    pub fn result(&self) -> String {
        if self.is_lost {
            return "no such path".to_owned();
        }
        let Self { dirs, entries, damaged, repaired, .. } = self;
        format!("{dirs} directories, {entries} entries: {damaged} damaged, {repaired} repaired")
    }
}

/// A directory whose entries are being read.
#[derive(Debug)]
struct Reading {
    ino: Ino,
    /// Version of its inode at the start: any change of its entries or statistics raises it.
    version: u64,
    sum: Sum,
    /// Fragments that are left, the present one last.
    frags: Vec<DirFrag>,
    /// The omap key in the present fragment after which to go on.
    after: Vec<u8>,
    below: Vec<Ino>,
    count: u32,
    /// True if some of it can't be read.
    has_gaps: bool,
}

impl Reading {
    /// The beginning of a directory; `count` readings have ended before.
    fn new(data: &InodeData, count: u32) -> Self {
        let frags = data.fragtree.leaves().into_iter().rev();
        Self {
            ino: data.ino,
            version: data.version,
            sum: Sum::default(),
            frags: frags.map(|frag| DirFrag { ino: data.ino, frag }).collect(),
            after: Vec::new(),
            below: Vec::new(),
            count,
            has_gaps: false,
        }
    }
}

/// A part of the walk that is left.
#[derive(Debug)]
enum Step {
    /// Follow these names, the next one last.
    Find(InodeKey, Vec<Vec<u8>>),
    /// The scrub's own target.
    Target(InodeKey),
    /// A directory's entries.
    Dir(Ino, u32),
    /// The next page of a directory.
    Page(Box<Reading>),
    /// A further name leads to this inode.
    Remote(DirFrag, DentryKey, InodeKey),
}

/// A look at entries of the inode index: inodes, and where they live.
type Look = Vec<(InodeKey, DirFrag, DentryKey)>;

/// A walk.
///
/// Invariant: the load or the looks that it waits for are in flight.
pub(super) struct Walk {
    options: ScrubOptions,
    left: Vec<Step>,
    waits_for: Option<Need>,
    looks: BTreeMap<IoId, Look>,
    pub progress: Progress,
}

impl Walk {
    pub fn new(path: &str, options: ScrubOptions) -> Self {
        let names = path.split('/').filter(|name| !name.is_empty()).rev();
        let names = names.map(|name| name.as_bytes().to_vec()).collect();
        let left = vec![Step::Find(Ino::ROOT.head(), names)];
        Self { options, left, waits_for: None, looks: BTreeMap::new(), progress: Progress::default() }
    }

    pub fn steps_left(&self) -> usize {
        self.left.len()
    }

    /// Takes steps until one waits; true if the walk has ended.
    pub fn advance(&mut self, env: &mut Env, cache: &mut Cache, sessions: &mut Sessions) -> bool {
        for _ in 0..MAX_STEPS {
            if self.waits_for.is_some() || !self.looks.is_empty() {
                return false;
            }
            let Some(step) = self.left.pop() else { return true };
            self.take(env, cache, sessions, step);
        }
        false
    }

    fn take(&mut self, env: &mut Env, cache: &mut Cache, sessions: &mut Sessions, step: Step) {
        match step {
            Step::Find(at, names) => self.find(env, cache, at, names),
            Step::Target(ino) => self.target(env, cache, sessions, ino),
            // Another rank's: what is stored of it says nothing about what is cached here.
            Step::Dir(ino, _) if cache.is_fixed(ino.head()) => {}
            Step::Dir(ino, count) => match cache.inodes.get(&ino.head()) {
                Some(inode) => self.left.push(Step::Page(Box::new(Reading::new(&inode.data, count)))),
                None => self.fetch(env, Need::Inode(ino.head()), step),
            },
            Step::Page(reading) => match reading.frags.last().copied() {
                // A shard is scrubbed when it is part of its directory again.
                Some(dir) if cache.subtrees.keeper(dir).is_shard() => {
                    let mut reading = *reading;
                    reading.has_gaps = true;
                    reading.frags.pop();
                    reading.after.clear();
                    self.left.push(Step::Page(Box::new(reading)));
                }
                Some(dir) if reading.after.is_empty() && cache.dirs.get(&dir).is_some_and(|d| d.complete) => {
                    self.take_page(env, cache, *reading, None);
                }
                Some(dir) => {
                    let need = Need::Page(dir, reading.after.clone());
                    self.fetch(env, need, Step::Page(reading));
                }
                None => self.judge(env, cache, sessions, &reading),
            },
            Step::Remote(_, _, ino) if cache.inodes.contains_key(&ino) => {}
            Step::Remote(_, _, ino) => self.fetch(env, Need::Inode(ino), step),
        }
    }

    /// Waits for a load; the step is taken again after it, or ended by it.
    fn fetch(&mut self, env: &mut Env, need: Need, step: Step) {
        self.left.push(step);
        self.waits_for = Some(need.clone());
        env.due(Due::Load(need, None));
    }

    fn find(&mut self, env: &mut Env, cache: &Cache, at: InodeKey, mut names: Vec<Vec<u8>>) {
        let Some(name) = names.last() else { return self.left.push(Step::Target(at)) };
        let key = DentryKey::new(name);
        let found = cache.frag_of(at.ino, key.hash).and_then(|dir| cache.entry(dir, &key));
        match found {
            Ok((link, _)) => {
                names.pop();
                match link.inode() {
                    Some(ino) => self.left.push(Step::Find(ino, names)),
                    None => self.progress.is_lost = true,
                }
            }
            Err(need) => self.fetch(env, need, Step::Find(at, names)),
        }
    }

    fn target(&mut self, env: &mut Env, cache: &mut Cache, sessions: &mut Sessions, ino: InodeKey) {
        let Some(inode) = cache.inodes.get(&ino) else {
            return self.fetch(env, Need::Inode(ino), Step::Target(ino));
        };
        if cache.is_fixed(ino) {
            return;
        }
        if inode.data.is_dir() {
            self.left.push(Step::Dir(ino.ino, 0));
        } else {
            self.check_file(env, cache, sessions, ino);
        }
        let place = cache.inodes[&ino].place.clone();
        if let Some((dir, key)) = place {
            self.look_at_index(env, cache, dir, vec![(ino, key)]);
        }
    }

    /// A load has ended.
    pub fn loaded(&mut self, env: &mut Env, cache: &mut Cache, sessions: &mut Sessions, loaded: &Loaded) {
        if self.waits_for.as_ref() != Some(&loaded.need) {
            return;
        }
        self.waits_for = None;
        self.progress.damaged += u64::from(loaded.is_damaged) + loaded.unreadable.len() as u64;
        match self.left.pop() {
            Some(Step::Page(reading)) => match &loaded.page {
                Some(page) => {
                    let (dir, last) = (page.dir, page.last.clone());
                    let mut reading = *reading;
                    reading.has_gaps |= !loaded.unreadable.is_empty();
                    self.give_up_entries(env, cache, sessions, dir, &loaded.unreadable);
                    self.take_page(env, cache, reading, last.as_ref());
                }
                None => self.give_up_dir(env, cache, sessions, reading.ino),
            },
            Some(Step::Remote(dir, key, ino)) => {
                if !loaded.is_damaged && !cache.inodes.contains_key(&ino) {
                    let why = format!("it leads to {}, which is gone", ino.ino);
                    self.report(env, Damaged::Entry(dir, key), why);
                }
            }
            // What was just looked for and is not there is damaged, or has been removed meanwhile.
            Some(Step::Find(at, names)) if !loaded.is_damaged => match &loaded.need {
                Need::Inode(ino) if !cache.inodes.contains_key(ino) => self.progress.is_lost = true,
                _ => self.left.push(Step::Find(at, names)),
            },
            Some(step @ (Step::Target(_) | Step::Dir(..))) if !loaded.is_damaged => match &loaded.need {
                Need::Inode(ino) if !cache.inodes.contains_key(ino) => {}
                _ => self.left.push(step),
            },
            Some(_) | None => {}
        }
    }

    /// Adds the cached entries after a reading's key, up to `last`.
    fn take_page(&mut self, env: &mut Env, cache: &Cache, mut reading: Reading, last: Option<&DentryKey>) {
        let Some(dir) = reading.frags.last().copied() else { return };
        let Seen { primary, dirs, remote } = reading.sum.add_page(cache, dir, &reading.after, last);
        if reading.count == 0 {
            self.progress.entries += (primary.len() + remote.len()) as u64;
        }
        reading.below.extend(dirs);
        match last {
            Some(last) => reading.after = last.to_omap(),
            None => {
                reading.frags.pop();
                reading.after.clear();
            }
        }
        self.left.push(Step::Page(Box::new(reading)));
        self.left.extend(remote.into_iter().map(|(ino, key)| Step::Remote(dir, key, ino)));
        self.look_at_index(env, cache, dir, primary);
    }

    /// Compares a directory that is read with its statistics.
    fn judge(&mut self, env: &mut Env, cache: &mut Cache, sessions: &mut Sessions, reading: &Reading) {
        let ino = reading.ino.head();
        // Removed meanwhile.
        let Some(inode) = cache.inodes.get(&ino) else { return };
        let wrong = reading.sum.correct(&inode.data).filter(|_| !reading.has_gaps);
        if inode.data.version != reading.version && wrong.is_some() {
            match reading.count + 1 {
                MAX_READINGS => self.progress.busy += 1,
                count => return self.left.push(Step::Dir(reading.ino, count)),
            }
        } else if let Some((right, why)) = wrong {
            self.correct(env, cache, sessions, right, why);
        }
        self.progress.dirs += 1;
        if self.options.recursive {
            self.left.extend(reading.below.iter().map(|dir| Step::Dir(*dir, 0)));
        }
    }

    fn check_file(&mut self, env: &mut Env, cache: &mut Cache, sessions: &mut Sessions, ino: InodeKey) {
        let wrong = cache.inodes.get(&ino).and_then(|inode| correct_file(&inode.data));
        if let Some((right, why)) = wrong {
            self.correct(env, cache, sessions, right, why);
        }
    }

    fn report(&mut self, env: &mut Env, item: Damaged, why: String) {
        self.progress.damaged += 1;
        env.due(Due::Damaged(Damage::new(item, why)));
    }

    /// Reports an inode with wrong statistics, or puts them right.
    fn correct(
        &mut self,
        env: &mut Env,
        cache: &mut Cache,
        sessions: &mut Sessions,
        right: InodeData,
        why: String,
    ) {
        if self.options.repair {
            self.progress.repaired += 1;
            commit_inode(env, cache, sessions, None, "scrub: statistics", right, Vec::new());
        } else {
            self.report(env, Damaged::Inode(right.key()), why);
        }
    }

    /// Removes entries that can't be read, if that is asked for.
    fn give_up_entries(
        &mut self,
        env: &mut Env,
        cache: &mut Cache,
        sessions: &mut Sessions,
        dir: DirFrag,
        unreadable: &[DentryKey],
    ) {
        if !(self.options.repair && self.options.force) || unreadable.is_empty() {
            return;
        }
        let remove = |key: &DentryKey| Update::Dentry { dir, key: key.clone(), value: None };
        let updates = unreadable.iter().map(remove).collect();
        commit(env, cache, sessions, "scrub: entries given up", updates);
        self.progress.repaired += unreadable.len() as u64;
        // Its statistics are put right when it is read again.
        self.left.push(Step::Dir(dir.ino, 1));
    }

    /// Makes a directory empty whose entries are lost, if that is asked for.
    fn give_up_dir(&mut self, env: &mut Env, cache: &mut Cache, sessions: &mut Sessions, dir: Ino) {
        self.progress.dirs += 1;
        let Some(inode) = cache.inodes.get(&dir.head()) else { return };
        if !(self.options.repair && self.options.force) {
            return;
        }
        let mut data = inode.data.clone();
        data.dirstat.edit(|stat| (stat.nfiles, stat.nsubdirs) = (0, 0));
        data.rstat = NestStat { rbytes: 0, rfiles: 0, rsubdirs: 1, ..data.rstat };
        commit_inode(env, cache, sessions, None, "scrub: entries given up", data, Vec::new());
        self.progress.repaired += 1;
    }

    /// Reads what the inode index says of inodes. Of what has changed and is not stored yet the cache is
    /// right.
    fn look_at_index(
        &mut self,
        env: &mut Env,
        cache: &Cache,
        dir: DirFrag,
        inodes: Vec<(InodeKey, DentryKey)>,
    ) {
        let mut by_object: BTreeMap<String, Look> = BTreeMap::new();
        for (ino, key) in inodes.into_iter().filter(|(ino, _)| !cache.index.contains_key(&ino.ino)) {
            by_object.entry(names::index_object(ino.ino)).or_default().push((ino, dir, key));
        }
        for (object, look) in by_object {
            let keys = look.iter().map(|(ino, ..)| names::index_key(ino.ino)).collect();
            let id = env.start_metadata_io(object, vec![ObjOp::OmapGet(keys)], IoWhy::Scrub);
            self.looks.insert(id, look);
        }
    }

    /// Entries of the inode index were read.
    pub fn index_read(
        &mut self,
        env: &mut Env,
        cache: &mut Cache,
        sessions: &mut Sessions,
        id: IoId,
        result: IoResult,
    ) {
        let Some(look) = self.looks.remove(&id) else { return };
        let stored = match result.ok().and_then(|mut replies| replies.pop()) {
            Some(ObjReply::Omap(entries, _)) => entries,
            _ => BTreeMap::new(),
        };
        for (ino, dir, key) in look {
            let back = stored.get(&names::index_key(ino.ino));
            let fault = match back.map(|value| Reader::new(value).get::<BackPointer>()).transpose() {
                Ok(back) => index_fault(back.as_ref(), dir.ino, &key),
                Err(e) => Some(e.to_string()),
            };
            let Some(why) = fault else { continue };
            let is_there = matches!(cache.entry(dir, &key), Ok((SlotLink::Primary(at), _)) if at == ino);
            if self.options.repair && is_there {
                self.repair_index(env, cache, sessions, ino);
            } else {
                self.report(env, Damaged::BackTrace(ino), why);
            }
        }
    }

    fn repair_index(&mut self, env: &mut Env, cache: &mut Cache, sessions: &mut Sessions, ino: InodeKey) {
        let Some(inode) = cache.inodes.get(&ino) else { return };
        let data = inode.data.clone();
        self.progress.repaired += 1;
        let lsn = commit_inode(env, cache, sessions, None, "scrub: inode index", data, Vec::new());
        let origin = Origin { lsn, segment: env.journal().current(), author: None };
        cache.index_again(ino, origin);
    }
}
