//! Checkers `images_linearizable` and `image_snapshots_constant`: block-device images are judged by units of
//! [`UNIT`] bytes, each of which is a register that is written as a whole and read as a whole.
//!
//! What an image promises beyond a register:
//! - a snapshot shows all units as they were at one moment between the call and the return of its creation,
//!   and the same for ever;
//! - a clone begins as its parent's snapshot is;
//! - a client that was put on the blocklist, so that its lock could be broken, changes nothing any more once
//!   somebody who knows that has used the unit. Until then what it had sent may still arrive.

use super::linear::{Entry, Judgement, Model, Step};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::rc::Rc;

/// Bytes that are written and read as one.
pub const UNIT: usize = 512;

stdx::ids! {
    /// One life of a client: after a crash it is another.
    pub struct Writer(u32) = "life {}";
}

/// The bytes of a unit that holds a value. Zero is what was never written.
pub fn unit_bytes(value: u32, unit: usize) -> Vec<u8> {
    if value == 0 {
        return vec![0; UNIT];
    }
    [value.to_le_bytes(), (unit as u32).to_le_bytes()].concat().repeat(UNIT / 8)
}

/// The value of a unit; `None` if these bytes were never written there.
pub fn value_of(bytes: &[u8], unit: usize) -> Option<u32> {
    let value = u32::from_le_bytes(*bytes.first_chunk()?);
    (unit_bytes(value, unit) == bytes).then_some(value)
}

/// A unit as it is at a moment.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Unit {
    value: u32,
    /// Clients that cannot change it any more.
    excluded: BTreeSet<Writer>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Action {
    Write(u32),
    Read(u32),
}

#[derive(Clone, Debug)]
struct Call {
    writer: Writer,
    action: Action,
    /// Clients of which the caller knew that they are on the blocklist.
    knows: Rc<BTreeSet<Writer>>,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.writer, self.action)?;
        if self.knows.is_empty() { Ok(()) } else { write!(f, ", who knows of {:?}", self.knows) }
    }
}

impl Unit {
    fn after(&self, call: &Call, value: u32) -> Step<Self> {
        let excluded: BTreeSet<Writer> = self.excluded.union(&call.knows).copied().collect();
        let next = Self { value, excluded };
        if next == *self { Step::Same } else { Step::To(next) }
    }
}

impl Model for Unit {
    type Call = Call;

    fn apply(&self, call: &Call) -> Step<Self> {
        match call.action {
            Action::Write(_) if self.excluded.contains(&call.writer) => Step::Wrong,
            Action::Write(value) => self.after(call, value),
            Action::Read(value) if value == self.value => self.after(call, value),
            Action::Read(_) => Step::Wrong,
        }
    }

    fn apply_unknown(&self, call: &Call) -> Option<Self> {
        match call.action {
            Action::Write(value) if value != self.value && !self.excluded.contains(&call.writer) => {
                Some(Self { value, ..self.clone() })
            }
            _ => None,
        }
    }

    fn is_read(call: &Call) -> bool {
        matches!(call.action, Action::Read(_)) && call.knows.is_empty()
    }

    fn are_alike(a: &Call, b: &Call) -> bool {
        a.action == b.action && a.writer == b.writer
    }

    fn is_lost<'a>(&self, call: &Call, open: Option<&dyn Fn() -> Vec<&'a Call>>) -> bool {
        match (call.action, open) {
            (Action::Read(value), Some(open)) => {
                self.value != value && !open().iter().any(|c| c.action == Action::Write(value))
            }
            _ => false,
        }
    }
}

/// Who calls, and what it knows.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The client.
    pub writer: Writer,
    /// Clients of which it knows that they are on the blocklist.
    pub knows: Rc<BTreeSet<Writer>>,
}

/// A write that was called: its image, and its place in the history of each of its units.
#[derive(Clone, Debug)]
pub struct Written {
    image: usize,
    entries: Vec<(usize, usize)>,
}

#[derive(Debug, Default)]
struct Image {
    name: String,
    initial: Vec<u32>,
    units: Vec<Vec<Entry<Call>>>,
}

#[derive(Debug)]
struct Snap {
    image: usize,
    name: String,
    called: u64,
    /// When it was known to exist.
    returned: Option<u64>,
    contents: Option<Vec<u32>>,
    caller: Caller,
}

/// What clients did to all images, and saw of them.
#[derive(Debug, Default)]
pub struct History {
    images: Vec<Image>,
    snaps: Vec<Snap>,
    /// The image of each written value and the moment of the call.
    written: BTreeMap<u32, (usize, u64)>,
    moment: u64,
    answered: usize,
    inconstant: Option<String>,
}

impl History {
    /// Adds an image of this content; it never has more units. Returns its number.
    pub fn image(&mut self, name: &str, initial: Vec<u32>) -> usize {
        let units = vec![Vec::new(); initial.len()];
        self.images.push(Image { name: name.to_owned(), initial, units });
        self.images.len() - 1
    }

    /// The present moment, which no other event has.
    pub fn now(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    /// Records the call of a change that gives each of these units a value.
    pub fn write(&mut self, image: usize, values: &[(usize, u32)], by: &Caller) -> Written {
        let call = self.now();
        let mut entries = Vec::new();
        for (unit, value) in values {
            self.written.entry(*value).or_insert((image, call));
            let what = Call { writer: by.writer, action: Action::Write(*value), knows: by.knows.clone() };
            let of = &mut self.images[image].units[*unit];
            entries.push((*unit, of.len()));
            of.push(Entry { call, ret: None, what });
        }
        Written { image, entries }
    }

    /// Records that a change has succeeded. One that fails, or is never answered, may happen at any time.
    pub fn written(&mut self, written: &Written) {
        let now = self.now();
        self.answered += 1;
        for (unit, i) in &written.entries {
            self.images[written.image].units[*unit][*i].ret = Some(now);
        }
    }

    /// Records a read that was called at a moment and has returned these units.
    pub fn read(&mut self, image: usize, call: u64, from: usize, values: &[u32], by: &Caller) {
        let now = self.now();
        self.answered += 1;
        for (i, value) in values.iter().enumerate() {
            let what = Call { writer: by.writer, action: Action::Read(*value), knows: by.knows.clone() };
            self.images[image].units[from + i].push(Entry { call, ret: Some(now), what });
        }
    }

    /// Records that a snapshot is to be taken. Returns its number.
    pub fn snap(&mut self, image: usize, name: &str, by: &Caller) -> usize {
        let (called, caller) = (self.now(), Caller { writer: by.writer, knows: Rc::default() });
        let (name, returned, contents) = (name.to_owned(), None, None);
        self.snaps.push(Snap { image, name, called, returned, contents, caller });
        self.snaps.len() - 1
    }

    /// Records that a snapshot exists.
    pub fn snapped(&mut self, snap: usize) {
        let now = self.now();
        self.snaps[snap].returned.get_or_insert(now);
    }

    /// Records what a snapshot showed from this unit on.
    pub fn read_snap(&mut self, snap: usize, range: Range<usize>, whole: usize, values: &[u32]) {
        self.snapped(snap);
        self.answered += 1;
        let Snap { image, name, contents, .. } = &mut self.snaps[snap];
        if contents.is_none() && range.start == 0 && values.len() == whole {
            *contents = Some(values.to_vec());
        }
        let Some(known) = contents else { return };
        let part = known.get(range.clone());
        if part != Some(values) && self.inconstant.is_none() {
            let unit = (range.start..).zip(values).find(|(unit, value)| known.get(*unit) != Some(value));
            let image = &self.images[*image].name;
            self.inconstant = Some(format!(
                "{image}@{name} showed {known:?}, and now shows (unit, value) {unit:?} of {range:?}"
            ));
        }
    }

    /// What a snapshot shows, if somebody has read it all.
    pub fn contents(&self, snap: usize) -> Option<&[u32]> {
        self.snaps[snap].contents.as_deref()
    }

    /// The number of answered calls.
    pub fn answered(&self) -> usize {
        self.answered
    }

    /// Checks each unit of each image, a history of its own.
    pub fn check(&self) -> Judgement {
        let mut judgement = Judgement::default();
        let mut images: Vec<Vec<Vec<Entry<Call>>>> = self.images.iter().map(|i| i.units.clone()).collect();
        self.snaps.iter().for_each(|snap| self.observe(snap, &mut images[snap.image]));
        for (image, units) in self.images.iter().zip(images) {
            for (unit, mut calls) in units.into_iter().enumerate() {
                if calls.is_empty() {
                    continue;
                }
                forget_strangers(&mut calls);
                let initial = Unit { value: image.initial[unit], excluded: BTreeSet::new() };
                judgement.judge(&format!("unit {unit} of {}", image.name), &initial, &calls);
            }
        }
        judgement
    }

    /// Adds what a snapshot shows as reads of one moment: no earlier than the call of any write that it
    /// shows.
    fn observe(&self, snap: &Snap, units: &mut [Vec<Entry<Call>>]) {
        let (Some(values), Some(returned)) = (&snap.contents, snap.returned) else { return };
        let call_of = |value: &u32| self.written.get(value).filter(|(image, _)| *image == snap.image);
        let shown = values.iter().filter(|value| **value != 0).filter_map(call_of).map(|(_, call)| *call);
        let call = shown.fold(snap.called, u64::max);
        for (unit, value) in values.iter().enumerate() {
            let Caller { writer, knows } = snap.caller.clone();
            let what = Call { writer, action: Action::Read(*value), knows };
            units[unit].push(Entry { call, ret: Some(returned), what });
        }
    }

    /// The judgement of what snapshots show.
    pub fn check_snaps(&self) -> Judgement {
        Judgement { histories: self.snaps.len() as u64, undecided: 0, wrong: self.inconstant.clone() }
    }
}

/// Drops from what callers know those who have not called anything on this unit.
fn forget_strangers(calls: &mut [Entry<Call>]) {
    let here: BTreeSet<Writer> = calls.iter().map(|c| c.what.writer).collect();
    for entry in calls {
        let known: BTreeSet<Writer> = entry.what.knows.intersection(&here).copied().collect();
        if known.len() < entry.what.knows.len() {
            entry.what.knows = Rc::new(known);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(writer: u32, knows: &[u32]) -> Caller {
        Caller { writer: Writer(writer), knows: Rc::new(knows.iter().map(|w| Writer(*w)).collect()) }
    }

    #[test]
    fn units_tell_their_value_and_place() {
        assert_eq!(value_of(&unit_bytes(7, 3), 3), Some(7));
        assert_eq!(value_of(&unit_bytes(7, 3), 4), None);
        assert_eq!(value_of(&[0; UNIT], 4), Some(0));
        assert_eq!(value_of(&[unit_bytes(7, 3)[..256].to_vec(), vec![0; 256]].concat(), 3), None);
    }

    #[test]
    fn who_is_excluded_changes_nothing_once_somebody_knows() {
        let late = |knows: &[u32]| {
            let mut history = History::default();
            let image = history.image("i", vec![0]);
            // It is never answered.
            history.write(image, &[(0, 1)], &caller(1, &[]));
            for value in [0, 1] {
                let call = history.now();
                history.read(image, call, 0, &[value], &caller(2, knows));
            }
            history.check().wrong.is_none()
        };
        assert!(late(&[]) && !late(&[1]));
    }

    #[test]
    fn a_snapshot_is_of_one_moment() {
        let shows = |values: [u32; 2]| {
            let mut history = History::default();
            let image = history.image("i", vec![0, 0]);
            let by = caller(1, &[]);
            let snap = history.snap(image, "s", &by);
            for (unit, value) in [(0, 1), (1, 2)] {
                let written = history.write(image, &[(unit, value)], &by);
                history.written(&written);
            }
            history.read_snap(snap, 0..2, 2, &values);
            history.check().wrong.is_none()
        };
        assert!(shows([0, 0]) && shows([1, 0]) && shows([1, 2]));
        assert!(!shows([0, 2]), "the first was written before the second");
    }

    #[test]
    fn a_snapshot_that_changes_is_found() {
        let mut history = History::default();
        let image = history.image("i", vec![0, 0]);
        let snap = history.snap(image, "s", &caller(1, &[]));
        history.read_snap(snap, 0..2, 2, &[0, 5]);
        history.read_snap(snap, 1..2, 2, &[5]);
        assert_eq!(history.check_snaps().wrong, None);
        history.read_snap(snap, 1..2, 2, &[6]);
        assert!(history.check_snaps().wrong.is_some());
    }
}
