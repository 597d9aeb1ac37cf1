//! Checkers `snapshots_linearizable`: a snapshot shows for ever the object as it was before the first change
//! under it, to every reader, whoever wrote under which context; and `clones_trimmed`: nothing is left of a
//! removed snapshot on any disk.

use super::linear::{Entry, Judgement, Model, Step};
use super::objects::{filled, is_definite, runs};
use super::provenance::{Change, may_become};
use osd::{ObjectInfo, object_info};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use store::{ObjectKey, ObjectView};
use wire::Errno;

/// Content, if the object exists.
pub type Content = Option<Arc<Vec<u8>>>;

/// The model of an object with its clones.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct State {
    head: Content,
    /// The newest snapshot in any writer's context.
    seq: u64,
    /// Content of each snapshot under which the object was changed.
    at: BTreeMap<u64, Content>,
    /// True for objects that clients delete, see [`may_go`].
    goes: bool,
}

/// Reports whether clients delete an object. As in Ceph, an object without clones is forgotten when it is
/// deleted, including the snapshots that it was not in: a writer with an older context may bring it into one
/// of them. So snapshots that such an object was not in are not checked, and no client rolls back to one. A
/// snapshot that has shown content shows it for ever all the same.
pub fn may_go(name: &str) -> bool {
    name.starts_with('d')
}

/// A client's operation. Writes carry the snapshots that the client knows.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    /// Replace the content.
    WriteFull {
        /// Number of the write.
        tag: u32,
        /// Number of bytes.
        len: usize,
    },
    /// Add to the end.
    Append {
        /// Number of the write.
        tag: u32,
        /// Number of bytes.
        len: usize,
    },
    /// Remove the object.
    Delete,
    /// Roll back to a snapshot.
    Rollback(u64),
    /// Read the head, or a snapshot.
    Read(Option<u64>),
}

/// A call with its answer.
#[derive(Clone, Debug)]
pub struct Call {
    /// Number of the client.
    pub client: usize,
    /// The operation called.
    pub action: Action,
    /// The snapshot context: the newest snapshot known, and all that were not removed, ascending.
    pub context: (u64, Vec<u64>),
    /// The result, if the answer came.
    pub result: Result<u32, Errno>,
    /// The content that a read saw.
    pub seen: Content,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client, action, context, result, seen } = self;
        write!(f, "client.{client} {action:?} under {context:?} = {result:?}")?;
        seen.as_ref().map_or(Ok(()), |seen| write!(f, " {} bytes {}", seen.len(), runs(seen)))
    }
}

impl State {
    fn shown(&self, snap: u64) -> Content {
        if snap > self.seq { self.head.clone() } else { self.at.get(&snap).cloned().flatten() }
    }

    /// The state after a change.
    fn changed(&self, call: &Call) -> Self {
        let head = match &call.action {
            Action::WriteFull { tag, len } => Some(Arc::new(filled(*tag, 0, *len))),
            Action::Append { tag, len } => {
                let mut data = self.head.as_deref().cloned().unwrap_or_default();
                data.extend_from_slice(&filled(*tag, 0, *len));
                Some(Arc::new(data))
            }
            Action::Delete => None,
            Action::Rollback(snap) => self.shown(*snap),
            Action::Read(_) => return self.clone(),
        };
        if head.is_none() && self.head.is_none() {
            // Nothing to change, nothing to preserve.
            return self.clone();
        }
        let mut next = self.clone();
        let (seq, snaps) = &call.context;
        for snap in snaps.iter().filter(|snap| **snap > self.seq) {
            next.at.insert(*snap, self.head.clone());
        }
        (next.seq, next.head) = (self.seq.max(*seq), head);
        next
    }

    /// The change of the head that a call makes. A snapshot newer than all contexts so far will show a head
    /// that the other changes make, so rolling back to it makes no content but theirs; or nothing, if a
    /// context leaves it out.
    fn change(&self, call: &Call) -> Option<Change<'_>> {
        match &call.action {
            Action::WriteFull { tag, len } => Some(Change::Replace { tag: *tag, len: *len }),
            Action::Append { tag, len } => Some(Change::Append { tag: *tag, len: *len }),
            Action::Rollback(snap) if *snap <= self.seq => {
                let shown = self.at.get(snap).and_then(Option::as_deref);
                Some(shown.map_or(Change::Clear, |data| Change::Restore(data)))
            }
            Action::Delete | Action::Rollback(_) => Some(Change::Clear),
            Action::Read(_) => None,
        }
    }
}

impl Model for State {
    type Call = Call;

    fn apply(&self, call: &Call) -> Step<Self> {
        let right = match &call.action {
            Action::Read(Some(snap)) if self.goes && *snap <= self.seq && self.shown(*snap).is_none() => true,
            Action::Read(snap) => {
                let shown = snap.map_or_else(|| self.head.clone(), |snap| self.shown(snap));
                let is_right = match shown {
                    Some(_) => call.result.is_ok(),
                    None => call.result == Err(Errno::ENOENT),
                };
                is_right && shown == call.seen
            }
            Action::Delete if self.head.is_none() => call.result == Err(Errno::ENOENT),
            _ => call.result.is_ok(),
        };
        match self.changed(call) {
            _ if !right => Step::Wrong,
            next if next == *self => Step::Same,
            next => Step::To(next),
        }
    }

    fn apply_unknown(&self, call: &Call) -> Option<Self> {
        Some(self.changed(call)).filter(|next| next != self)
    }

    fn is_read(call: &Call) -> bool {
        matches!(call.action, Action::Read(_)) || call.result.is_err()
    }

    fn are_alike(a: &Call, b: &Call) -> bool {
        (&a.action, &a.context) == (&b.action, &b.context)
    }

    fn is_lost<'a>(&self, call: &Call, open: Option<&dyn Fn() -> Vec<&'a Call>>) -> bool {
        // What a snapshot shows never changes after the first write under it.
        if matches!(call.action, Action::Read(Some(snap)) if snap <= self.seq) {
            return self.apply(call) == Step::Wrong;
        }
        if !matches!(call.action, Action::Read(_) | Action::Delete) {
            return false;
        }
        let Some(open) = open.map(|open| open()) else { return false };
        match &call.action {
            Action::Read(Some(_)) if self.goes => false,
            Action::Read(snap) if call.result.is_err() => {
                let skips = |c: &Call| snap.is_some_and(|s| c.context.0 >= s && !c.context.1.contains(&s));
                self.head.is_some() && !open.iter().any(|c| takes(c) || skips(c))
            }
            Action::Delete if call.result.is_err() => self.head.is_some() && !open.iter().any(|c| takes(c)),
            Action::Read(_) => {
                let changes: Vec<Change<'_>> = open.iter().filter_map(|call| self.change(call)).collect();
                let now = self.head.as_deref().map_or(&[][..], |data| data);
                let seen = call.seen.as_deref().map_or(&[][..], |data| data);
                self.head.is_none() && !open.iter().any(|c| gives(c)) || !may_become(now, seen, &changes)
            }
            Action::Delete => self.head.is_none() && !open.iter().any(|c| gives(c)),
            _ => false,
        }
    }
}

/// Reports whether there may be no object after a call.
fn takes(call: &Call) -> bool {
    matches!(call.action, Action::Delete | Action::Rollback(_))
}

/// Reports whether there may be an object after a call.
fn gives(call: &Call) -> bool {
    matches!(call.action, Action::WriteFull { .. } | Action::Append { .. } | Action::Rollback(_))
}

/// The histories of all objects.
#[derive(Clone, Debug, Default)]
pub struct History {
    objects: BTreeMap<String, Vec<Entry<Call>>>,
    moment: u64,
    /// Snapshots whose removal was requested: their content does not matter any more.
    pub removed: BTreeSet<u64>,
}

impl History {
    /// Records a call. Returns its number, for [`Self::returned`].
    pub fn called(&mut self, object: &str, client: usize, action: Action, context: (u64, Vec<u64>)) -> usize {
        self.moment += 1;
        let calls = self.objects.entry(object.to_owned()).or_default();
        let what = Call { client, action, context, result: Ok(0), seen: None };
        calls.push(Entry { call: self.moment, ret: None, what });
        calls.len() - 1
    }

    /// Records the answer to a call.
    pub fn returned(&mut self, object: &str, number: usize, result: Result<u32, Errno>, seen: Content) {
        self.moment += 1;
        let entry = &mut self.objects.get_mut(object).expect("called before")[number];
        let of_removed = matches!(&entry.what.action, Action::Read(Some(s)) if self.removed.contains(s));
        entry.ret = (is_definite(result) && !of_removed).then_some(self.moment);
        (entry.what.result, entry.what.seen) = (result, seen);
    }

    /// The number of answered calls.
    pub fn answered(&self) -> usize {
        self.objects.values().flatten().filter(|e| e.ret.is_some()).count()
    }

    /// Names of all objects.
    pub fn names(&self) -> Vec<String> {
        self.objects.keys().cloned().collect()
    }

    /// Checks all objects, each a history of its own.
    pub fn check(&self) -> Judgement {
        let mut judgement = Judgement::default();
        for (name, calls) in &self.objects {
            judgement.judge(name, &State { goes: may_go(name), ..State::default() }, calls);
        }
        judgement
    }
}

/// Checks that each clone in a pool belongs to a snapshot that was not removed, and that each head lists
/// exactly the clones that exist.
pub fn check_trimmed(
    pool: i64,
    objects: &BTreeMap<ObjectKey, ObjectView>,
    removed: &BTreeSet<u64>,
) -> Result<(), String> {
    let here: BTreeSet<&ObjectKey> =
        objects.keys().filter(|k| k.pool == pool && k.snap != ObjectKey::HEAD).collect();
    let mut listed = 0;
    for (key, view) in objects.iter().filter(|(k, _)| k.pool == pool && k.snap == ObjectKey::HEAD) {
        let name = String::from_utf8_lossy(&key.name);
        let Some(ObjectInfo { snapset, whiteout, .. }) = object_info(view) else {
            return Err(format!("{name} has no info"));
        };
        if whiteout && snapset.clones.is_empty() {
            return Err(format!("{name} was deleted and has no clones, but is still there"));
        }
        for clone in &snapset.clones {
            listed += 1;
            if !here.contains(&ObjectKey { snap: clone.id.0, ..key.clone() }) {
                return Err(format!("clone {:x} of {name} is not there", clone.id.0));
            }
            if let Some(snap) = clone.snaps.iter().find(|snap| removed.contains(&snap.0)) {
                return Err(format!(
                    "clone {:x} of {name} still shows {snap}, which was removed",
                    clone.id.0
                ));
            }
        }
    }
    if listed == here.len() {
        Ok(())
    } else {
        Err(format!("{listed} clones are listed, {} are there", here.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(snaps: &[u64]) -> (u64, Vec<u64>) {
        (snaps.last().copied().unwrap_or(0), snaps.to_vec())
    }

    /// An action, the snapshots of its context, its result, and the tag of the content that it saw.
    type Made<'a> = (Action, &'a [u64], Result<u32, Errno>, Option<u32>);

    fn run(calls: &[Made<'_>]) -> Option<String> {
        let mut history = History::default();
        for (action, snaps, result, tag) in calls {
            let n = history.called("o", 0, action.clone(), context(snaps));
            history.returned("o", n, *result, tag.map(|tag| Arc::new(filled(tag, 0, 4))));
        }
        history.check().wrong
    }

    #[test]
    fn a_snapshot_shows_what_was_there_before_the_first_write_under_it() {
        let write = |tag| Action::WriteFull { tag, len: 4 };
        let mut calls = vec![
            (write(1), &[][..], Ok(0), None),
            (write(2), &[5], Ok(0), None),
            (write(3), &[5], Ok(0), None),
            (Action::Read(Some(5)), &[], Ok(0), Some(1)),
            (Action::Delete, &[5, 7], Ok(0), None),
            (Action::Read(Some(7)), &[], Ok(0), Some(3)),
            (Action::Rollback(5), &[5, 7], Ok(0), None),
            (Action::Read(None), &[], Ok(0), Some(1)),
        ];
        assert_eq!(run(&calls), None);
        calls[3].3 = Some(2);
        assert!(run(&calls).is_some());
    }

    /// A change under a context that may lack removed snapshots.
    fn draw(rng: &mut stdx::Rng, tag: u32, goes: bool) -> Call {
        let action = match rng.below(6) {
            0 | 1 => Action::WriteFull { tag, len: 1 + rng.below(5) as usize },
            2 | 3 => Action::Append { tag, len: 1 + rng.below(5) as usize },
            _ if goes => Action::Delete,
            _ => Action::Rollback(1 + rng.below(4)),
        };
        let seq = rng.below(5);
        let snaps = (1..=seq).filter(|_| rng.chance(3, 4)).collect();
        Call { client: 0, action, context: (seq, snaps), result: Ok(0), seen: None }
    }

    fn reachable(state: &State, calls: &[Call], out: &mut Vec<State>) {
        out.push(state.clone());
        for at in 0..calls.len() {
            let rest = [&calls[..at], &calls[at + 1..]].concat();
            reachable(&state.changed(&calls[at]), &rest, out);
        }
    }

    #[test]
    fn nothing_is_called_lost_that_can_come() {
        let (mut called_lost, mut all_reads) = (0, 0);
        for seed in 0..1000 {
            let mut rng = stdx::Rng::from_seed(seed);
            let mut start = State { goes: seed % 2 == 0, ..State::default() };
            for tag in 1..1 + rng.below(6) as u32 {
                start = start.changed(&draw(&mut rng, tag, start.goes));
            }
            let goes = start.goes;
            let calls: Vec<Call> =
                (20..20 + rng.range(1, 5)).map(|i| draw(&mut rng, i as u32, goes)).collect();
            let (open, none) = (|| calls.iter().collect::<Vec<_>>(), Vec::<&Call>::new);
            let mut states = Vec::new();
            reachable(&start, &calls, &mut states);
            for state in &states {
                for snap in [None, Some(1), Some(2), Some(3), Some(4)] {
                    let seen = snap.map_or_else(|| state.head.clone(), |snap| state.shown(snap));
                    let result = if seen.is_some() { Ok(0) } else { Err(Errno::ENOENT) };
                    let action = Action::Read(snap);
                    let read = Call { client: 0, action, context: context(&[]), result, seen };
                    let lost = start.is_lost(&read, Some(&open)) || start.is_lost(&read, None);
                    assert!(!lost, "seed {seed}: {start:?}, {calls:?}: {read}");
                    called_lost += usize::from(start.is_lost(&read, Some(&none)));
                    all_reads += 1;
                }
            }
        }
        assert!(called_lost * 10 > all_reads, "{called_lost} of {all_reads}");
    }

    #[test]
    fn an_object_that_came_later_is_in_no_earlier_snapshot() {
        let write = Action::WriteFull { tag: 1, len: 4 };
        let calls =
            [(write, &[5][..], Ok(0), None), (Action::Read(Some(5)), &[][..], Err(Errno::ENOENT), None)];
        assert_eq!(run(&calls), None);
    }
}
