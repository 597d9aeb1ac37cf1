//! Journal expiry (the paper's section 4.1: the journal is trimmed when its updates are in their
//! directories).
//!
//! A segment is needed while something that its events changed is not stored elsewhere. What is dirty is
//! indexed by the segment of its oldest change ([`DirtyIndex`](crate::dirty::DirtyIndex)), so the first
//! needed segment is a look at a few minima. The tail moves in two steps: first the header names the new
//! first segment, then the objects before it go.

use super::WriteBack;
use crate::cache::Cache;
use crate::io::{IoWhy, ObjOp};
use crate::journal::Journal;
use crate::rank::env::{Due, Env};
use crate::rank::sessions::Sessions;
use crate::types::Segment;
use fsfmt::journal::JournalHeader;
use fsfmt::names;
use wire::Writer;

impl WriteBack {
    /// The first segment that something still needs.
    pub(super) fn first_needed(&self, env: &Env, cache: &Cache, sessions: &Sessions) -> Segment {
        let tables = [sessions.first_needed(), self.ino_dirty, self.ino_commit];
        let shared = [cache.snaps.first_needed(), cache.borders.first_needed()];
        let name_space = [cache.first_needed(), self.base_commits.oldest()].into_iter().chain(shared);
        let needed = tables.into_iter().chain(name_space).flatten().min();
        needed.unwrap_or(Segment::MAX).min(env.journal().current())
    }

    /// Moves the journal's tail, if it is too long and something can go.
    pub(super) fn expire(&mut self, env: &mut Env, cache: &Cache, sessions: &Sessions) {
        let oldest = env.journal().oldest();
        let Some(wanted) = self.wanted(env).filter(|wanted| *wanted >= oldest) else { return };
        if self.header_in_flight.is_some() {
            return;
        }
        // What need not go stays, for a standby that follows.
        let first = self.first_needed(env, cache, sessions).min(wanted + 1);
        if first > oldest {
            self.write_header(env, first);
        }
    }

    /// Writes the journal's header: `first` is the first segment that a replay reads.
    pub fn write_header(&mut self, env: &mut Env, first: Segment) {
        let first_seq = env.journal().first_event(first);
        let object_size = Journal::object_size(env.cfg().options.journal_bytes);
        let bytes = Writer::encode(&JournalHeader { first, first_seq, object_size, needs: 0 });
        self.header_in_flight = Some(first);
        let name = names::journal_object(env.cfg().rank, 0);
        env.start_metadata_io(name, vec![ObjOp::WriteFull(bytes)], IoWhy::JournalHeader);
    }

    /// The header is stored: the objects before its first segment go.
    pub(super) fn header_done(&mut self, env: &mut Env) {
        let first = self.header_in_flight.take().expect("a write of the header");
        self.header_written = first;
        for segment in env.expire_journal(first) {
            let name = names::journal_object(env.cfg().rank, segment);
            env.start_metadata_io(name, vec![ObjOp::Delete], IoWhy::JournalTrim);
        }
        env.due(Due::JournalHasSpace);
    }
}
