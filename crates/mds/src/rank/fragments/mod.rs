//! Fragments of directories that have grown large are split, so that their entries are in many objects, on
//! many OSDs: with it go the recovery of an object and the look at one of its pages that would take long
//! otherwise. Parts that have few entries left are joined. What happens in which order is told in
//! [`crate::cache::Refragments`].

mod asked;
mod choice;
mod commands;
mod refusals;
mod work;

use super::commit::{commit, commit_inode};
use super::effect::Stage;
use super::env::{Due, Env};
use super::sessions::Sessions;
use crate::authority::Auth;
use crate::cache::{Cache, Inode};
use crate::io::IoResult;
use crate::types::{Lsn, Segment};
use asked::Asked;
use choice::{Choice, changed};
pub(super) use commands::parse_fragment;
use fsfmt::{DirFrag, Ino, Refragment};
use node::Level;
use refusals::Refusals;
use std::collections::{BTreeSet, VecDeque};
use work::{PAGE_ENTRIES, Step, Work};

/// Changes of fragments: one at a time.
///
/// Invariant: object operations are in flight only while one is under way.
#[derive(Default)]
pub(super) struct Fragments {
    /// Directories of which a fragment seems to have too many entries, or some too few.
    wanted: BTreeSet<Ino>,
    /// What an administrator has asked for.
    asked: VecDeque<Asked>,
    /// Fragments that an administrator has split: these are not joined as long as the directory has names.
    kept: BTreeSet<DirFrag>,
    refusals: Refusals,
    work: Option<Work>,
    /// The segment up to which the journal must expire before the next change begins.
    must_expire: Option<Segment>,
    /// What an administrator has asked for and is under way.
    asked_work: Option<Asked>,
}

impl Fragments {
    /// Notes that an inode was changed or loaded.
    pub fn note(&mut self, env: &Env, inode: &Inode) {
        if Choice::may_be_due(env, inode) {
            self.want(env, inode);
        }
    }

    /// Has a directory's fragments changed, if that is due; false if it is not.
    fn want(&mut self, env: &Env, inode: &Inode) -> bool {
        let is_due = self.choose(env, inode).is_some();
        if is_due {
            self.wanted.insert(inode.data.ino);
        }
        is_due
    }

    /// The change that a directory's fragments need.
    fn choose(&self, env: &Env, inode: &Inode) -> Option<Refragment> {
        Choice { env, refusals: &self.refusals, kept: &self.kept }.of(inode)
    }

    /// True if nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.work.is_none()
    }

    /// The segment up to which the journal must expire now.
    pub fn must_expire(&self) -> Option<Segment> {
        self.must_expire
    }

    /// The change before which the old fragments must be written back now.
    pub fn to_flush(&self, cache: &Cache) -> Option<Refragment> {
        let work = self.work.as_ref().filter(|work| work.step == Step::Flush)?;
        let is_storable = |change: &Refragment| !change.old().iter().any(|dir| cache.has_unstored(*dir));
        work.change.filter(|_| !cache.refragments.is_flushed()).filter(is_storable)
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
                let leftovers: Vec<DirFrag> = cache.refragments.leftovers().collect();
                if !leftovers.is_empty() {
                    self.work = Some(Work::remove_leftovers(env, leftovers));
                } else if takes_changes && !is_walked {
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
            if work.remove_more(env) {
                continue;
            }
            let Some(change) = work.change else {
                self.end(env, cache);
                continue;
            };
            if !self.step(env, cache, sessions, change, takes_changes) {
                return;
            }
        }
    }

    /// Takes the next step of a change; false if it has to wait.
    fn step(
        &mut self,
        env: &mut Env,
        cache: &mut Cache,
        sessions: &mut Sessions,
        change: Refragment,
        takes_changes: bool,
    ) -> bool {
        let is_too_large = self.is_too_large(env);
        let Some(work) = &mut self.work else { return false };
        match work.step {
            Step::Begin(lsn) | Step::End(lsn) if env.journal().durable() < lsn => return false,
            Step::Begin(_) => work.step = Step::Flush,
            Step::Flush if !is_written_back(cache, change) => return false,
            Step::Flush => {
                work.step = Step::Clear;
                work.remove(env, change.new_ones());
            }
            Step::Clear | Step::Read | Step::Write if work.has_failed => {
                self.give_up(env, change, Some("its objects can't be read or written"));
            }
            Step::Read => unreachable!("a page is being read"),
            Step::Write if is_too_large => {
                self.give_up(env, change, Some("there are more entries than its directory counts"));
            }
            Step::Clear | Step::Write => work.read(env),
            Step::Switch if !takes_changes => return false,
            Step::Switch => match switch(env, cache, sessions, change) {
                Some(lsn) => work.step = Step::End(lsn),
                None => self.give_up(env, change, None),
            },
            Step::End(_) => {
                work.step = Step::Remove;
                work.remove(env, change.old());
                self.note_done(change);
            }
            Step::Remove => self.end(env, cache),
        }
        true
    }

    /// Begins the next change, if one is still due.
    fn begin(&mut self, env: &mut Env, cache: &mut Cache, sessions: &mut Sessions) {
        let next = self.next(env, cache);
        if let Some((change, asked)) = &next
            && cache.replicas.is_given(change.whole().ino)
        {
            // Others know its fragments.
            env.due(Due::Alone(change.whole().ino));
            return self.asked.extend(*asked);
        }
        let oldest = env.journal().oldest();
        self.must_expire = next.and_then(|(change, _)| cache.refragments.must_expire(change, oldest));
        let Some((change, asked)) = next else { return };
        if self.must_expire.is_some() {
            match asked {
                Some(asked) => self.asked.push_front(asked),
                None => drop(self.wanted.insert(change.whole().ino)),
            }
            return;
        }
        self.asked_work = asked;
        let lsn = commit(env, cache, sessions, what(change), vec![change.update(false)]);
        env.want_durable(lsn);
        self.work = Some(Work::new(change, lsn));
    }

    /// What an administrator has asked for comes first.
    fn next(&mut self, env: &Env, cache: &Cache) -> Option<(Refragment, Option<Asked>)> {
        let is_possible = |change: &Refragment| {
            let is_here = matches!(cache.authority(change.whole().ino), Ok(Auth::Here));
            is_here && !is_of_shard(cache, *change) && changed(cache, *change).is_some()
        };
        while let Some(asked) = self.asked.pop_front() {
            if let Some(change) = asked.next(cache).filter(is_possible) {
                return Some((change, Some(asked)));
            }
        }
        while let Some(ino) = self.wanted.pop_first() {
            let change = cache.inodes.get(&ino.head()).and_then(|inode| self.choose(env, inode));
            if let Some(change) = change.filter(is_possible) {
                return Some((change, None));
            }
        }
        None
    }

    /// True if more is joined than was expected: what snapshots keep is counted nowhere.
    fn is_too_large(&self, env: &Env) -> bool {
        let Some(work) = self.work.as_ref().filter(|_| self.asked_work.is_none()) else { return false };
        let most = env.cfg().options.split_size.max(PAGE_ENTRIES);
        work.copied > most && work.change.is_some_and(Refragment::is_join)
    }

    /// An object operation has ended.
    pub fn io_done(&mut self, env: &mut Env, result: IoResult) {
        self.work.as_mut().expect("operations belong to a change").io_done(env, result);
    }

    /// Removes what was copied. It is tried again later if that was impossible, and at once if it is no
    /// longer as it was.
    fn give_up(&mut self, env: &mut Env, change: Refragment, why: Option<&str>) {
        let Some(work) = &mut self.work else { return };
        work.step = Step::Remove;
        work.has_failed = false;
        work.remove(env, change.new_ones());
        self.asked_work = None;
        let name = if change.is_join() { "join_given_up" } else { "split_given_up" };
        let Some(why) = why else {
            return env.log(Level::Info, name, format!("{change}: its directory is gone or not cached"));
        };
        let wait = self.refusals.add(change.whole(), env.now());
        env.log(
            Level::Info,
            name,
            format!("{change}: {why}; tried again in {} s at the earliest", wait.as_secs()),
        );
    }

    /// The new fragments are there.
    fn note_done(&mut self, change: Refragment) {
        self.refusals.remove(change.whole());
        let asked = self.asked_work.take();
        match asked {
            Some(_) if !change.is_join() => drop(self.kept.insert(change.whole())),
            _ => drop(self.kept.remove(&change.whole())),
        }
        // Parts may have to be joined before those that they are parts of.
        self.asked.extend(asked.filter(Asked::is_join));
    }

    /// Nothing is left to be removed. What else is due comes next.
    fn end(&mut self, env: &Env, cache: &mut Cache) {
        cache.refragments.end();
        let change = self.work.take().and_then(|work| work.change);
        if let Some(inode) = change.and_then(|change| cache.inodes.get(&change.whole().inode())) {
            self.want(env, inode);
        }
    }

    /// Tries again what was given up a while ago.
    pub fn every_second(&mut self, env: &Env, cache: &Cache) {
        for dir in self.refusals.over(env.now()) {
            if !cache.inodes.get(&dir.inode()).is_some_and(|inode| self.want(env, inode)) {
                // When it changes, it is looked at as if nothing had been.
                self.refusals.remove(dir);
            }
        }
    }
}

/// True if what had changed before is written back.
fn is_written_back(cache: &Cache, change: Refragment) -> bool {
    let is_idle = |dir| cache.dirs.get(&dir).is_none_or(|d| d.commit.is_none());
    cache.refragments.is_flushed() && change.old().into_iter().all(is_idle)
}

/// Puts the new fragments in the place of the old ones; the event, if that is still possible.
fn switch(env: &mut Env, cache: &mut Cache, sessions: &mut Sessions, change: Refragment) -> Option<Lsn> {
    let data = changed(cache, change)?;
    let lsn = commit_inode(env, cache, sessions, None, what(change), data, vec![change.update(true)]);
    env.want_durable(lsn);
    Some(lsn)
}

/// True if a change is of a fragment that is a shard, or has one in it.
fn is_of_shard(cache: &Cache, change: Refragment) -> bool {
    let whole = change.whole();
    let shards = cache.subtrees.shards_of(whole.ino).filter_map(fsfmt::Ino::as_shard);
    shards.into_iter().any(|shard| whole.contains_frag(shard) || shard.contains_frag(whole))
}

/// The name of the events.
fn what(change: Refragment) -> &'static str {
    if change.is_join() { "join" } else { "split" }
}
