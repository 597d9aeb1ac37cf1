//! Writing back what events changed, so that the journal's oldest segments can expire ([`expiry`]).
//!
//! A round of write-backs begins when all events are durable and ends when all its operations have: it
//! contains every change of the segments that should expire. A fragment's write-back contains only the
//! entries that changed.

mod expiry;
mod round;

use super::commit::commit_inode;
use super::effect::{Effect, Stage};
use super::env::{Due, Env};
use super::sessions::Sessions;
use crate::cache::Cache;
use crate::dirty::DirtyIndex;
use crate::io::IoWhy;
use crate::types::{Lsn, Segment};
use fsfmt::{Ino, Refragment};
use std::collections::BTreeMap;

/// Write-backs in flight, the inode number table and the journal's header.
///
/// Invariants: at most one round is in flight; a change is either dirty in the cache or in a write-back in
/// flight until it is stored, so that [`WriteBack::first_needed`] never passes it; one write of the header is
/// in flight, and the header never goes back.
pub(super) struct WriteBack {
    /// Operations of the round in flight.
    in_flight: usize,
    /// Changes wait until the journal is durable, so that a round can begin.
    draining: bool,
    /// Changes of the inode index in flight, by index object.
    index_commits: BTreeMap<String, Vec<(Ino, Lsn)>>,
    /// Base inodes in flight.
    base_commits: DirtyIndex<Ino>,
    /// The next free inode number.
    ino_next: u64,
    ino_dirty: Option<Segment>,
    ino_commit: Option<Segment>,
    /// The first segment that the stored header names.
    header_written: Segment,
    header_in_flight: Option<Segment>,
    /// The last segment that an administrator wants to be written back.
    flush_to: Segment,
}

impl WriteBack {
    pub fn new(rank: u32) -> Self {
        Self {
            in_flight: 0,
            draining: false,
            index_commits: BTreeMap::new(),
            base_commits: DirtyIndex::default(),
            ino_next: Ino::FIRST_USER * (u64::from(rank) + 1 - u64::from(gives_numbers_of_others(rank))),
            ino_dirty: None,
            ino_commit: None,
            header_written: 0,
            header_in_flight: None,
            flush_to: 0,
        }
    }

    /// The next free inode number.
    pub fn ino_next(&self) -> u64 {
        self.ino_next
    }

    /// The stored table says that inode numbers below `next` are used.
    pub fn load_inode_numbers(&mut self, next: u64) {
        self.ino_next = self.ino_next.max(next);
    }

    /// An event of `segment` says that inode numbers below `next` are used.
    pub fn use_inode_numbers(&mut self, next: u64, segment: Segment) {
        self.ino_next = self.ino_next.max(next);
        self.ino_dirty.get_or_insert(segment);
    }

    /// Somebody else has stored the inode numbers that segments before `segment` used.
    pub fn note_stored(&mut self, segment: Segment) {
        self.ino_dirty = self.ino_dirty.map(|dirty| dirty.max(segment));
    }

    /// Writes back everything that is journaled so far. Returns the last segment that expires with it.
    pub fn flush(&mut self, env: &mut Env) -> Segment {
        self.flush_to = env.end_segment();
        self.flush_to
    }

    /// Writes back everything up to a segment, so that it expires.
    pub fn expire_to(&mut self, env: &mut Env, segment: Segment) {
        if self.flush_to < segment {
            let ended = if segment == env.journal().current() { env.end_segment() } else { segment };
            self.flush_to = self.flush_to.max(ended);
        }
    }

    /// True if the journal has no event up to this one any more; if it has, it expires from now on.
    pub fn has_expired(&mut self, env: &mut Env, last: Lsn) -> bool {
        let journal = env.journal();
        let (oldest, current) = (journal.oldest(), journal.current());
        if journal.first_event(oldest) > last {
            return true;
        }
        let has_begun = self.flush_to >= oldest && journal.first_event(self.flush_to + 1) > last;
        if !has_begun {
            self.expire_to(env, current);
        }
        false
    }

    /// True if everything up to the last flush is written back, and its segments have expired.
    pub fn is_flushed(&self, env: &Env) -> bool {
        env.journal().oldest() > self.flush_to
    }

    /// The last segment that should expire now.
    fn wanted(&self, env: &Env) -> Option<Segment> {
        let flush = (!self.is_flushed(env)).then_some(self.flush_to);
        flush.max(env.journal().wants_expired())
    }

    /// True if operations may journal changes now.
    pub fn takes_changes(&self, env: &Env) -> bool {
        !self.draining && !env.journal().is_full()
    }

    /// True while changes wait until every event is durable, so that a round can begin.
    pub fn is_draining(&self) -> bool {
        self.draining
    }

    /// Starts a round that is due, or the write-back of fragments before the change `flush`, and lets the
    /// journal's oldest segments expire.
    pub fn advance(
        &mut self,
        env: &mut Env,
        cache: &mut Cache,
        sessions: &mut Sessions,
        flush: Option<Refragment>,
    ) {
        if matches!(env.stage(), Stage::Creating | Stage::Replaying) {
            return;
        }
        let current = env.journal().current();
        let up_to = if is_crowded(cache) { Some(current) } else { self.wanted(env) };
        if let Some(up_to) = self.wanted(env).filter(|_| env.journal().is_filling()) {
            journal_again(env, cache, sessions, up_to);
        }
        if (up_to.is_some() || flush.is_some()) && self.in_flight == 0 {
            // Only durable changes may be written back. Changes wait for the moment in which all are, or a
            // busy directory would never have one.
            if env.journal().is_idle() {
                up_to.into_iter().for_each(|up_to| self.start_round(env, cache, sessions, up_to));
                flush.into_iter().for_each(|change| self.flush_old(env, cache, change));
                self.stop_draining(env);
            } else {
                env.want_durable(env.journal().last());
                self.draining = true;
            }
        } else {
            self.stop_draining(env);
        }
        self.expire(env, cache, sessions);
    }

    fn stop_draining(&mut self, env: &mut Env) {
        if std::mem::take(&mut self.draining) {
            env.due(Due::JournalHasSpace);
        }
    }

    /// Writes back everything while the journal is being replayed, if changes take up too much of the cache.
    /// True while the replay must wait for it.
    pub fn advance_replay(&mut self, env: &mut Env, cache: &mut Cache, sessions: &mut Sessions) -> bool {
        if self.in_flight == 0 && is_crowded(cache) {
            // All that is replayed was read from the journal, so it is durable.
            self.start_round(env, cache, sessions, Segment::MAX);
        }
        self.in_flight > 0
    }

    /// An operation of a write-back has ended; `ok` is false if its object was not there.
    pub fn io_done(
        &mut self,
        env: &mut Env,
        cache: &mut Cache,
        sessions: &mut Sessions,
        why: IoWhy,
        ok: bool,
    ) {
        if !ok && !matches!(why, IoWhy::JournalTrim) {
            env.effect(Effect::Fail(format!("{why:?} found no object although it makes one")));
            return;
        }
        match why {
            IoWhy::JournalHeader => return self.header_done(env),
            IoWhy::JournalTrim => return,
            IoWhy::Dir(dir) => cache.end_commit_part(dir),
            IoWhy::Base(ino) => drop(self.base_commits.remove(&ino)),
            IoWhy::Index(object) => {
                for (ino, lsn) in self.index_commits.remove(&object).unwrap_or_default() {
                    cache.index_committed(ino, lsn);
                }
            }
            IoWhy::Sessions => sessions.end_commit(),
            IoWhy::Snaps => cache.snaps.end_commit(),
            IoWhy::Borders => cache.borders.end_commit(),
            IoWhy::InoTable => self.ino_commit = None,
            IoWhy::Journal
            | IoWhy::Partition
            | IoWhy::PartitionRead
            | IoWhy::Boot
            | IoWhy::Load
            | IoWhy::Scrub
            | IoWhy::Refragment
            | IoWhy::Data(_) => {
                unreachable!("no write-backs")
            }
        }
        self.in_flight -= 1;
    }

    /// Asserts what holds between inputs.
    pub fn check(&self, env: &Env, cache: &Cache, sessions: &Sessions) {
        assert!(self.header_in_flight.is_none_or(|first| first >= self.header_written), "it never goes back");
        assert!(
            self.in_flight > 0 || (self.index_commits.is_empty() && self.base_commits.is_empty()),
            "write-backs in flight belong to a round"
        );
        let oldest = env.journal().oldest();
        let needed = self.first_needed(env, cache, sessions);
        assert!(
            env.stage() <= Stage::Replaying || needed >= oldest,
            "segment {needed} has expired too early"
        );
    }
}

/// Journals files again whose data are in segments up to `up_to` only, and can't be stored for long: without
/// those of a data pool the rank goes on.
fn journal_again(env: &mut Env, cache: &mut Cache, sessions: &mut Sessions, up_to: Segment) {
    let segment = env.journal().current();
    for (dir, files) in cache.unstored_up_to(up_to) {
        for file in files {
            let Some(data) = cache.inodes.get(&file).map(|inode| inode.data.clone()) else { continue };
            commit_inode(env, cache, sessions, None, "data not stored yet", data, Vec::new());
        }
        cache.note_journaled_again(dir, segment);
    }
}

/// True if changed entries take up too much of the cache.
fn is_crowded(cache: &Cache) -> bool {
    let limit = cache.most_entries();
    cache.stats().entries > limit && cache.dirty_entries() * 4 > limit
}

/// Planted fault: a rank gives out the numbers of the one before it.
fn gives_numbers_of_others(rank: u32) -> bool {
    rank > 0 && stdx::mutants::is_active("mds_gives_numbers_of_others")
}
