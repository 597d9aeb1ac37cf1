//! Reads: first everything that the index says about the object, at once and of one state, then the data.
//!
//! A read sees exactly the transactions submitted before it. It waits until those of them that touch its
//! object are applied; later ones wait until it has looked into the index ([`Reads::must_precede`]).

mod data;
mod lookup;
mod omap;

use crate::api::{Lookups, Read, ReadClass, ReadId, ReadReply, StoreError, StoreOut};
use crate::commit::Commit;
use crate::core::Core;
use crate::io::Io;
use crate::logged::Logged;
use data::{DataRead, Ended};
use lookup::{Found, Lookup};
use std::collections::BTreeMap;
use stdx::Buf;

/// Reads up to this size, in bytes, are cached. A larger one would evict many small ones, and copying it
/// costs more than it saves.
const CACHED_READ_BYTES: usize = 16 << 10;

/// A read in progress.
struct Job {
    read: Read,
    class: ReadClass,
    /// It sees this many transactions of this incarnation.
    mark: u64,
    phase: Phase,
}

enum Phase {
    Index(Lookup),
    Data(DataRead),
}

/// All reads in progress.
#[derive(Default)]
pub(crate) struct Reads {
    jobs: BTreeMap<ReadId, Job>,
    last: u64,
    lookups: Lookups,
}

impl Reads {
    /// Begins a read that sees the first `mark` transactions of this incarnation.
    pub fn begin(&mut self, read: Read, class: ReadClass, mark: u64) -> ReadId {
        self.last += 1;
        let id = ReadId(self.last);
        self.jobs.insert(id, Job { read, class, mark, phase: Phase::Index(Lookup::default()) });
        id
    }

    /// Lookups of objects since the start.
    pub fn lookups(&self) -> Lookups {
        self.lookups
    }

    /// Drops all reads: the store has failed.
    pub fn clear(&mut self) {
        self.jobs.clear();
    }

    /// True if a read must look into the index before transaction `number` of this incarnation is applied.
    pub fn must_precede(&self, number: u64, txn: &Logged) -> bool {
        self.jobs.values().any(|job| job.must_precede(number, txn))
    }

    /// The most pages that a single read has had to wait for since it last found anything.
    pub fn most_stops(&self) -> usize {
        self.jobs.values().map(Job::stops).max().unwrap_or(0)
    }

    /// Carries on all reads that can be; true if there was progress.
    pub fn step(&mut self, commit: &Commit, core: &Core, io: &mut Io, out: &mut Vec<StoreOut>) -> bool {
        let due = self.jobs.iter().filter(|(_, job)| job.is_due(io));
        let ids: Vec<_> = due.map(|(id, _)| *id).collect();
        let mut progress = false;
        for id in ids {
            let job = self.jobs.get_mut(&id).expect("collected above");
            match job.step(id, commit, core, (io, &mut self.lookups), out) {
                Turn::Waiting => {}
                Turn::Progress => progress = true,
                Turn::Answer(answer) => {
                    progress = true;
                    self.jobs.remove(&id);
                    out.push(StoreOut::Read(id, answer));
                }
            }
        }
        progress
    }

    /// A part of a read's data has come. It is cached if it is sound and small.
    pub fn part_ended(
        &mut self,
        (id, part): (ReadId, usize),
        result: Result<Buf, StoreError>,
        (core, io): (&mut Core, &mut Io),
        out: &mut Vec<StoreOut>,
    ) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let Job { read: Read::Object { key, .. }, phase: Phase::Data(data), class, .. } = job else {
            unreachable!("only reads of objects have parts");
        };
        if let Ended::Sound(place, content) = data.part_ended(key, (id, part, *class), result, io, out)
            && content.len() <= CACHED_READ_BYTES
        {
            core.keep_blocks(place, content);
        }
    }
}

/// The result of a step.
enum Turn {
    Waiting,
    Progress,
    Answer(Result<ReadReply, StoreError>),
}

impl Job {
    /// Pages that it has waited for since it last found anything, if it still looks into the index.
    fn stops(&self) -> usize {
        if let Phase::Index(lookup) = &self.phase { lookup.stops() } else { 0 }
    }

    /// True if what it waited for has come.
    fn is_due(&self, io: &Io) -> bool {
        match &self.phase {
            Phase::Index(lookup) => lookup.is_due(io),
            Phase::Data(data) => data.is_complete(),
        }
    }

    fn must_precede(&self, number: u64, txn: &Logged) -> bool {
        matches!(self.phase, Phase::Index(_))
            && self.mark <= number
            && self.read.object().is_none_or(|object| txn.steps.iter().any(|step| step.touches(object)))
    }

    fn step(
        &mut self,
        id: ReadId,
        commit: &Commit,
        core: &Core,
        (io, lookups): (&mut Io, &mut Lookups),
        out: &mut Vec<StoreOut>,
    ) -> Turn {
        match &mut self.phase {
            Phase::Data(data) if data.is_complete() => Turn::Answer(data.take_reply()),
            Phase::Data(_) => Turn::Waiting,
            // Another read of this round may have asked for the page.
            Phase::Index(lookup) if !lookup.is_due(io) => Turn::Waiting,
            Phase::Index(_) if commit.is_pending(self.mark, self.read.object()) => Turn::Waiting,
            Phase::Index(lookup) => match lookup.step(&self.read, self.class, core, (io, lookups), out) {
                Found::Nothing => Turn::Progress,
                Found::Reply(reply) => Turn::Answer(reply),
                Found::Data(mut data) => {
                    data.begin(id, self.class, commit.has_unlogged(), io, out);
                    self.phase = Phase::Data(data);
                    Turn::Progress
                }
            },
        }
    }
}
