//! What is done with open images: requests to their machines, and what the answers mean.

use super::machine::{Act, Stage, Waiting};
use super::subject::{MOST_UNITS, Phase, Snap, SnapPhase};
use super::{ClientWorld, ImageLoad, Job};
use crate::oracle::images::{Caller, UNIT, Written, unit_bytes, value_of};
use block::{Error, Header, Input, Operation, Reply, Request};
use std::ops::Range;
use stdx::{Buf, Bufs};
use wire::Errno;

fn bytes(range: &Range<usize>) -> (u64, u64) {
    ((range.start * UNIT) as u64, (range.len() * UNIT) as u64)
}

impl ImageLoad {
    /// Begins the next of a machine's plan, if there is one and nothing else is under way.
    pub(super) fn go_on(&mut self, key: u64) {
        let Some(machine) = self.machines.get_mut(&key) else { return };
        if !machine.is_idle() {
            return;
        }
        if let Some(act) = machine.plan.pop_front() {
            self.begin(key, act);
        }
    }

    /// Makes a request of a machine. It is taken at the next [`Self::pump`].
    pub(super) fn begin(&mut self, key: u64, act: Act) {
        let Some(machine) = self.machines.get(&key) else { return };
        let (seat, image, units) = (machine.seat, machine.image, machine.units);
        let (by, number) = (self.caller(seat), self.subjects[image].number);
        // It is being removed, and nobody looks at its content any more.
        let number = number.unwrap_or(0);
        let (mut range, mut written) = (0..0, None);
        let request = match &act {
            Act::Read(_) | Act::ReadAll => {
                range = if let Act::Read(range) = &act { range.clone() } else { 0..units };
                let (offset, len) = bytes(&range);
                Request::Read { offset, len }
            }
            Act::Write(range) => {
                self.next_value += 1;
                let value = self.next_value;
                let values: Vec<_> = range.clone().map(|unit| (unit, value)).collect();
                written = Some(self.history.write(number, &values, &by));
                let data: Vec<u8> = range.clone().flat_map(|unit| unit_bytes(value, unit)).collect();
                Request::Write { offset: bytes(range).0, data: Bufs::from(Buf::copy_from(&data)) }
            }
            Act::Zero(range) => {
                let values: Vec<_> = range.clone().map(|unit| (unit, 0)).collect();
                written = Some(self.history.write(number, &values, &by));
                let (offset, len) = bytes(range);
                Request::Zero { offset, len }
            }
            Act::Flush => Request::Flush,
            Act::Close => Request::Close,
            other => {
                let (operation, change) = self.operation(image, number, other, &by);
                written = change;
                Request::Maintain(operation)
            }
        };
        let call = self.history.now();
        let Some(machine) = self.machines.get_mut(&key) else { return };
        if matches!(act, Act::Close) {
            machine.stage = Stage::Closing;
        }
        machine.next_request += 1;
        let id = machine.next_request;
        machine.waiting.insert(id, Waiting { act, call, by, range, written });
        self.inbox.push_back((key, Input::Request { id, request }));
    }

    /// An operation on a whole image, and what it changes.
    fn operation(
        &mut self,
        image: usize,
        number: usize,
        act: &Act,
        by: &Caller,
    ) -> (Operation, Option<Written>) {
        let name_of = |snaps: &[Snap], i: usize| snaps[i].name.clone();
        let snaps = &mut self.subjects[image].snaps;
        let operation = match act {
            Act::Snap(i) => Operation::SnapCreate { name: name_of(snaps, *i) },
            Act::RemoveSnap(i) => {
                snaps[*i].phase = SnapPhase::Removing;
                Operation::SnapRemove { name: name_of(snaps, *i) }
            }
            Act::RemoveTrashed(id) => Operation::SnapRemoveTrashed { id: *id },
            Act::Rollback(i) => {
                let (name, known) = (name_of(snaps, *i), snaps[*i].number);
                let mut values = self.history.contents(known).unwrap_or_default().to_vec();
                values.resize(MOST_UNITS, 0);
                let values: Vec<_> = values.into_iter().enumerate().collect();
                let written = self.history.write(number, &values, by);
                return (Operation::Rollback { name }, Some(written));
            }
            Act::Resize(units) => {
                let zeros: Vec<_> = (*units..MOST_UNITS).map(|unit| (unit, 0)).collect();
                let written = self.history.write(number, &zeros, by);
                let size = (*units * UNIT) as u64;
                return (Operation::Resize { size, allow_shrink: true }, Some(written));
            }
            Act::Flatten => {
                self.subjects[image].flattening = true;
                Operation::Flatten
            }
            _ => Operation::Remove,
        };
        (operation, None)
    }

    /// A machine has answered a request.
    pub(super) fn replied(
        &mut self,
        world: &mut ClientWorld,
        key: u64,
        id: u64,
        reply: Result<Reply, Error>,
    ) {
        let Some(machine) = self.machines.get_mut(&key) else { return };
        let (seat, image) = (machine.seat, machine.image);
        let Some(waiting) = machine.waiting.remove(&id) else { return };
        if waiting.act.is_resizing() {
            self.subjects[image].resizing = false;
        }
        match reply {
            Ok(reply) => self.succeeded(world, key, &waiting, &reply),
            Err(error) => {
                let snap = if let Act::RemoveSnap(i) = waiting.act { Some(i) } else { None };
                if let (Some(i), Errno::ENOENT) = (snap, error.errno) {
                    self.subjects[image].snaps[i].phase = SnapPhase::Gone;
                }
                if matches!(waiting.act, Act::Flatten) && error.errno == Errno::EINVAL {
                    self.flattened(image);
                }
                let what = format!("{:?} of {}", waiting.act, self.subjects[image].new.name);
                let known = self.known_errors(key, &waiting.act);
                self.excuse(world, seat, what, &error, known);
            }
        }
        if matches!(waiting.act, Act::Close) {
            self.drop_machine(key);
        }
    }

    /// The errors that a request may have, because others use the image too.
    fn known_errors(&self, key: u64, act: &Act) -> &'static [Errno] {
        let Some(machine) = self.machines.get(&key) else { return &[] };
        match act {
            // Somebody has made it smaller.
            Act::Read(_) | Act::Write(_) | Act::Zero(_) if machine.snap.is_none() => &[Errno::EINVAL],
            Act::Read(_) | Act::ReadAll => match machine.snap {
                Some(snap) if self.subjects[machine.image].snaps[snap].phase != SnapPhase::Live => {
                    &[Errno::ENOENT, Errno::EINVAL, Errno::EIO]
                }
                _ => &[],
            },
            Act::RemoveSnap(_) | Act::Rollback(_) => &[Errno::ENOENT],
            // Somebody has done so already.
            Act::Flatten => &[Errno::EINVAL],
            // The watch of a dead client, or a snapshot that was taken after all.
            Act::Remove => &[Errno::EBUSY, Errno::ENOTEMPTY],
            _ => &[],
        }
    }

    fn succeeded(&mut self, world: &mut ClientWorld, key: u64, waiting: &Waiting, reply: &Reply) {
        let Some(machine) = self.machines.get(&key) else { return };
        let (image, snap, units) = (machine.image, machine.snap, machine.units);
        if let Some(written) = &waiting.written {
            self.history.written(written);
        }
        if let Reply::LastClone(parent) = reply {
            self.look_again(&parent.image);
        }
        match (&waiting.act, reply) {
            (Act::Read(_) | Act::ReadAll, Reply::Data(data)) => {
                let whole = matches!(waiting.act, Act::ReadAll);
                let range = waiting.range.clone();
                let values: Option<Vec<u32>> = range
                    .clone()
                    .zip(data.to_vec().chunks(UNIT))
                    .map(|(unit, bytes)| value_of(bytes, unit))
                    .collect();
                let Some(values) = values.filter(|values| values.len() == range.len()) else {
                    let what = self.torn(image, snap, &range, data);
                    return Self::violation(world, "images_linearizable", what);
                };
                match snap {
                    None => self.saw(image, waiting, &values, whole),
                    Some(snap) => self.saw_snap(image, snap, range, units, &values, whole),
                }
            }
            (Act::Snap(i), _) => {
                let snap = &mut self.subjects[image].snaps[*i];
                (snap.phase, snap.is_whole) = (SnapPhase::Live, true);
                self.history.snapped(self.subjects[image].snaps[*i].number);
            }
            (Act::RemoveSnap(i), _) => self.subjects[image].snaps[*i].phase = SnapPhase::Gone,
            (Act::Flatten, _) => self.flattened(image),
            (Act::Remove, _) => self.subjects[image].phase = Phase::Gone,
            _ => {}
        }
    }

    /// An image has lost a clone: a snapshot in the trash may go. That is found when it is looked at.
    pub(super) fn look_again(&mut self, id: &str) {
        self.subjects.iter_mut().filter(|s| s.new.id == id).for_each(|s| s.seen = false);
    }

    /// An image is no clone any more, unless its snapshots still are.
    fn flattened(&mut self, image: usize) {
        let subject = &mut self.subjects[image];
        subject.flattening = false;
        let is_deep = subject.new.features & block::feature::DEEP_FLATTEN != 0;
        // One that was removed may be in the trash, for clones of its own.
        if is_deep || subject.snaps.is_empty() {
            let parent = subject.parent.take();
            // Whoever flattened it for another may have died before it said so.
            parent.into_iter().for_each(|(parent, _)| self.subjects[parent].seen = false);
        }
    }

    fn torn(&self, image: usize, snap: Option<usize>, range: &Range<usize>, data: &Bufs) -> String {
        let all = data.to_vec();
        let bad = range.clone().zip(all.chunks(UNIT)).find(|(unit, bytes)| value_of(bytes, *unit).is_none());
        let heads = bad.map(|(unit, bytes)| (unit, bytes.chunks(64).map(|c| c[..8.min(c.len())].to_vec())));
        let heads = heads.map(|(unit, parts)| (unit, parts.collect::<Vec<_>>()));
        let name = &self.subjects[image].new.name;
        format!("{name} {snap:?} shows in {range:?}, {} bytes, what nobody wrote: {heads:?}", all.len())
    }

    fn saw(&mut self, image: usize, waiting: &Waiting, values: &[u32], whole: bool) {
        let subject = &mut self.subjects[image];
        if let Some(number) = subject.number {
            self.history.read(number, waiting.call, waiting.range.start, values, &waiting.by);
            subject.seen |= whole && self.ending.is_some();
        }
    }

    fn saw_snap(
        &mut self,
        image: usize,
        snap: usize,
        range: Range<usize>,
        units: usize,
        values: &[u32],
        whole: bool,
    ) {
        let of = &mut self.subjects[image].snaps[snap];
        // What is shown while a snapshot is removed is anybody's guess.
        if matches!(of.phase, SnapPhase::Live | SnapPhase::Unknown) {
            of.phase = SnapPhase::Live;
            of.seen |= whole && self.ending.is_some();
            self.history.read_snap(of.number, range, units, values);
        }
    }

    /// What the header says when an image is opened at the end, or to be removed.
    pub(super) fn plan_by_header(&mut self, key: u64, header: &Header) {
        let Some(machine) = self.machines.get_mut(&key) else { return };
        let subject = &mut self.subjects[machine.image];
        if machine.snap.is_some() || self.ending.is_none() && subject.phase == Phase::Live {
            return;
        }
        let there = |snap: &Snap| header.snaps.iter().any(|s| s.is_users() && s.info.name == snap.name);
        for snap in &mut subject.snaps {
            match snap.phase {
                SnapPhase::Unknown if there(snap) => {
                    snap.phase = SnapPhase::Live;
                    self.history.snapped(snap.number);
                }
                SnapPhase::Unknown => snap.phase = SnapPhase::Gone,
                _ => {}
            }
        }
        let unused = header.snaps.iter().filter(|s| s.is_trash() && s.info.child_count == 0);
        for trashed in unused {
            machine.plan.push_front(Act::RemoveTrashed(trashed.info.id));
        }
        let leaves = subject.phase != Phase::Live;
        let goes = |snap: &Snap| leaves && there(snap) || snap.phase == SnapPhase::Removing;
        for i in (0..subject.snaps.len()).filter(|i| goes(&subject.snaps[*i])) {
            machine.plan.push_front(Act::RemoveSnap(i));
        }
    }

    /// A script has ended.
    pub(super) fn job_ended(
        &mut self,
        world: &mut ClientWorld,
        seat: usize,
        job: Job,
        result: Result<(), Error>,
    ) {
        let (Job::Make(image) | Job::Clean(image)) = job;
        match result {
            Ok(()) if job == Job::Clean(image) => self.subjects[image].phase = Phase::Gone,
            Ok(()) => self.made(image),
            Err(error) => {
                let subject = &self.subjects[image];
                let parent_goes = subject.parent.is_some_and(|(parent, snap)| !self.may_use(parent, snap));
                let known: &[Errno] = if parent_goes { &[Errno::ENOENT] } else { &[] };
                let refused = known.contains(&error.errno);
                self.subjects[image].phase = if refused { Phase::Gone } else { Phase::Abandoned };
                self.excuse(world, seat, format!("{job:?}"), &error, known);
            }
        }
    }

    /// An image exists. A clone is as its parent's snapshot.
    fn made(&mut self, image: usize) {
        let subject = &self.subjects[image];
        let parent = subject.parent.map(|(parent, snap)| self.subjects[parent].snaps[snap].number);
        let mut initial = parent.and_then(|snap| self.history.contents(snap)).unwrap_or_default().to_vec();
        initial.resize(MOST_UNITS, 0);
        let number = self.history.image(&subject.new.name, initial);
        let subject = &mut self.subjects[image];
        (subject.number, subject.phase) = (Some(number), Phase::Live);
    }
}
