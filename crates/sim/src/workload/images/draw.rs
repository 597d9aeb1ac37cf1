//! What clients do next.

use super::machine::Act;
use super::subject::{MOST_UNITS, Phase, Snap, SnapPhase, Subject, has_clones, is_leaving};
use super::{ClientWorld, ImageLoad, Job};
use block::Script;
use std::ops::Range;
use stdx::Rng;

/// The most images that exist at once.
const MOST_IMAGES: usize = 4;
/// The most snapshots of an image.
const MOST_SNAPS: usize = 4;
/// The most unanswered requests of a machine.
const DEPTH: usize = 6;

/// A range of an image's units: some units, an object or two, or a long one.
fn range(rng: &mut Rng, units: usize) -> Range<usize> {
    let objects = [1, 2, 3, 8, 8, 16, 16, 24];
    let from = rng.below(units as u64) as usize;
    let (from, len) = match *rng.pick(&objects) {
        len if len >= 8 => (from / 8 * 8, len),
        len => (from, len),
    };
    from..(from + len).min(units)
}

impl ImageLoad {
    fn there(&self) -> Vec<usize> {
        (0..self.subjects.len()).filter(|i| self.subjects[*i].phase == Phase::Live).collect()
    }

    /// A client does something.
    pub(super) fn draw(&mut self, world: &mut ClientWorld, seat: usize) {
        self.close_leaving(world, seat);
        let live = self.there();
        let making = self.subjects.iter().any(|s| s.phase == Phase::Making);
        if live.is_empty() {
            if !making {
                self.make(world, seat, None);
            }
            return;
        }
        let mine = |m: &&super::Machine| m.seat == seat && m.is_resident() && m.waiting.len() < DEPTH;
        let open =
            self.machines.iter().filter(|(_, m)| mine(m) && self.subjects[m.image].phase == Phase::Live);
        let open: Vec<u64> = open.map(|(key, _)| *key).collect();
        let count = self.machines.values().filter(|m| m.seat == seat).count();
        if open.is_empty() || count < live.len() && self.rng.chance(1, 12) {
            // The first is everybody's.
            let image = if self.rng.chance(1, 2) { live[0] } else { *self.rng.pick(&live) };
            if count < 6
                && !self.machines.values().any(|m| m.seat == seat && m.image == image && m.snap.is_none())
            {
                self.open(world, seat, image, None, Vec::new());
            }
            return;
        }
        let key = *self.rng.pick(&open);
        self.draw_with(world, seat, key);
        self.pump(world);
    }

    /// A client does something with an image that it has open.
    fn draw_with(&mut self, world: &mut ClientWorld, seat: usize, key: u64) {
        let Some(machine) = self.machines.get(&key) else { return };
        let (image, units) = (machine.image, machine.units);
        let subject = &self.subjects[image];
        let known: Vec<usize> = subject
            .live_snaps()
            .into_iter()
            .filter(|i| self.history.contents(subject.snaps[*i].number).is_some())
            .collect();
        let (snaps, resizing) = (subject.live_snaps(), subject.resizing);
        let removable: Vec<usize> =
            snaps.iter().copied().filter(|snap| !is_leaving(&self.subjects, image, *snap)).collect();
        let is_clone = subject.parent.is_some();
        let has_room = self.there().len() < MOST_IMAGES;
        let rng = &mut self.rng;
        let act = match rng.below(100) {
            0..23 if units > 0 => Act::Read(range(rng, units)),
            23..48 if units > 0 => Act::Write(range(rng, units)),
            48..59 if units > 0 => Act::Zero(range(rng, units)),
            59..61 => Act::Flush,
            61..68 if snaps.len() < MOST_SNAPS => return self.snap(key, image),
            68..72 if !removable.is_empty() => Act::RemoveSnap(*rng.pick(&removable)),
            72..80 if !snaps.is_empty() => {
                let snap = *rng.pick(&snaps);
                return self.open(world, seat, image, Some(snap), vec![Act::ReadAll, Act::Close]);
            }
            80..83 if !known.is_empty() && !resizing => {
                self.subjects[image].resizing = true;
                Act::Rollback(*rng.pick(&known))
            }
            83..87 if !resizing => {
                self.subjects[image].resizing = true;
                Act::Resize(rng.range(1, MOST_UNITS as u64 + 1) as usize)
            }
            87..92 if !known.is_empty() && has_room => {
                let snap = *self.rng.pick(&known);
                return self.make(world, seat, Some((image, snap)));
            }
            92..96 if is_clone => Act::Flatten,
            92..98 => Act::Close,
            98 if image != 0 && !has_clones(&self.subjects, image, None) => {
                self.subjects[image].phase = Phase::Leaving;
                return;
            }
            _ if units > 0 => Act::Write(range(rng, units)),
            _ => Act::Flush,
        };
        self.begin(key, act);
        if self.rng.chance(1, 3) && units > 0 && !self.closes(key) {
            // Several at once, which often overlap.
            for _ in 0..self.rng.range(1, 4) {
                let range = range(&mut self.rng, units);
                let zero = self.rng.chance(1, 3);
                self.begin(key, if zero { Act::Zero(range) } else { Act::Write(range) });
            }
        }
    }

    fn snap(&mut self, key: u64, image: usize) {
        let Some(machine) = self.machines.get(&key) else { return };
        let by = self.caller(machine.seat);
        let subject = &mut self.subjects[image];
        let Some(of) = subject.number else { return };
        let i = subject.snaps.len();
        let name = format!("s{i}");
        let number = self.history.snap(of, &name, &by);
        subject.snaps.push(Snap { name, number, phase: SnapPhase::Unknown, is_whole: false, seen: false });
        self.begin(key, Act::Snap(i));
    }

    /// Makes an image, or a clone.
    fn make(&mut self, world: &mut ClientWorld, seat: usize, parent: Option<(usize, usize)>) {
        let n = self.subjects.len();
        let subject = Subject::draw(&mut self.rng, n, self.pool, parent);
        let new = subject.new.clone();
        self.subjects.push(subject);
        let script = match parent {
            None => Script::new(move |cx| block::create(cx, &new)),
            Some((image, snap)) => {
                let of = &self.subjects[image];
                let (name, snap) = (of.new.name.clone(), of.snaps[snap].name.clone());
                Script::new(move |cx| block::clone(cx, &new.place, &name, &snap, &new))
            }
        };
        self.run(world, seat, Job::Make(n), script);
    }

    /// Images that are to be removed are closed; the last who had one open removes it.
    fn close_leaving(&mut self, world: &mut ClientWorld, seat: usize) {
        for image in 0..self.subjects.len() {
            if self.subjects[image].phase != Phase::Leaving {
                continue;
            }
            let mine = self.machines.iter().filter(|(_, m)| m.image == image && m.seat == seat);
            let mine: Vec<u64> = mine.filter(|(_, m)| m.is_resident()).map(|(key, _)| *key).collect();
            mine.into_iter().for_each(|key| self.begin(key, Act::Close));
            self.pump(world);
            if !self.is_open(image) && !has_clones(&self.subjects, image, None) && self.rng.chance(1, 2) {
                self.open(world, seat, image, None, vec![Act::Remove, Act::Close]);
            }
        }
    }
}
