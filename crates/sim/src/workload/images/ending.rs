//! What clients do at the end, when nothing fails any more: they close everything; then one after another
//! looks at all images and snapshots, and removes what was to go, or all.

use super::machine::Act;
use super::subject::{Phase, SnapPhase, has_clones};
use super::{ClientWorld, ImageLoad, Job};
use block::Script;
use std::time::Duration;

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(200);

impl ImageLoad {
    /// Does the next thing, unless something is under way.
    pub(super) fn go_on_ending(&mut self, world: &mut ClientWorld) {
        let busy = !self.scripts.is_empty() || self.machines.values().any(|m| !m.is_idle());
        let residents: Vec<u64> = self.machines.keys().copied().collect();
        if !busy {
            residents.iter().for_each(|key| self.begin(*key, Act::Close));
            self.pump(world);
        }
        let waits = busy || !residents.is_empty();
        let (next, seats) = (world.now() + PAUSE, self.seats.len());
        let Some(ending) = &mut self.ending else { return };
        ending.next_at = Some(next);
        if waits {
            return;
        }
        ending.seat = (ending.seat + 1) % seats;
        let seat = ending.seat;
        if !self.chore(world, seat)
            && let Some(ending) = &mut self.ending
        {
            ending.next_at = None;
        }
    }

    /// Begins what is left to be done; `false` if that is nothing.
    fn chore(&mut self, world: &mut ClientWorld, seat: usize) -> bool {
        let all = 0..self.subjects.len();
        let goes = |i: &usize| matches!(self.subjects[*i].phase, Phase::Leaving | Phase::Abandoned);
        let leaf = |i: &usize| !has_clones(&self.subjects, *i, None);
        if let Some(image) = all.clone().find(|i| goes(i) && leaf(i)) {
            self.open(world, seat, image, None, vec![Act::Remove, Act::Close]);
            return true;
        }
        let live = |i: &usize| self.subjects[*i].phase == Phase::Live;
        if let Some(image) = all.clone().find(|i| live(i) && !self.subjects[*i].seen) {
            let again = self.subjects[image].flattening.then_some(Act::Flatten);
            let plan = again.into_iter().chain([Act::Write(0..1), Act::ReadAll, Act::Close]).collect();
            self.open(world, seat, image, None, plan);
            return true;
        }
        for image in all.clone().filter(live).collect::<Vec<_>>() {
            let left = self.subjects[image].left_snaps();
            let unseen = |i: &usize| {
                let snap = &self.subjects[image].snaps[*i];
                snap.phase == SnapPhase::Live && !snap.seen
            };
            if let Some(snap) = left.iter().copied().find(unseen) {
                self.open(world, seat, image, Some(snap), vec![Act::ReadAll, Act::Close]);
                return true;
            }
        }
        match all.clone().find(|i| self.wipes && live(i) && leaf(i)) {
            Some(image) => self.subjects[image].phase = Phase::Leaving,
            None => return false,
        }
        true
    }

    /// An image that is to go has no header any more.
    pub(super) fn clean(&mut self, world: &mut ClientWorld, seat: usize, image: usize) {
        let subject = &self.subjects[image];
        if matches!(subject.phase, Phase::Leaving | Phase::Abandoned) {
            let (place, name) = (subject.new.place.clone(), subject.new.name.clone());
            let script = Script::new(move |cx| block::remove_remains(cx, &place, &name).map(drop));
            self.run(world, seat, Job::Clean(image), script);
        }
    }
}
