//! Where content comes from: whether bytes that a read saw can still be made of the bytes that are there, by
//! some of the changes to come. The search for an order ([`super::linear`]) gives up an order early by it.
//!
//! The answer no is certain, yes is a guess: bytes are looked at one by one where changes overlap.

/// A change of an object's content. Writers fill their range with their tag, as
/// [`filled`](super::objects::filled) does.
pub enum Change<'a> {
    /// Replaces the content.
    Replace {
        /// Number of the write.
        tag: u32,
        /// Number of bytes.
        len: usize,
    },
    /// Overwrites a range, which may be behind the end.
    Overwrite {
        /// Number of the write.
        tag: u32,
        /// Offset in bytes.
        offset: usize,
        /// Number of bytes.
        len: usize,
    },
    /// Adds to the end.
    Append {
        /// Number of the write.
        tag: u32,
        /// Number of bytes.
        len: usize,
    },
    /// Sets the size.
    Truncate(usize),
    /// Writes zeros, or cuts the end off.
    Zero {
        /// Offset in bytes.
        offset: usize,
        /// Number of bytes.
        len: usize,
    },
    /// Removes the content.
    Clear,
    /// Replaces the content with this.
    Restore(&'a [u8]),
}

/// Reports whether content may become what was `seen` by some of these changes, each made at most once, in
/// any order.
///
/// If only appends come, the content is a beginning of what was seen, and appends are the rest. Otherwise
/// some other change comes last and leaves what it writes, followed by appends.
pub fn may_become(now: &[u8], seen: &[u8], changes: &[Change<'_>]) -> bool {
    if seen.starts_with(now) && is_appended(seen, now.len(), changes) {
        return true;
    }
    let is_there = |tag: u32, from: usize, len: usize| {
        seen.get(from..from + len).is_some_and(|part| is_filled(part, tag, from))
    };
    let may_shrink =
        || changes.iter().any(|c| !matches!(c, Change::Overwrite { .. } | Change::Append { .. }));
    changes.iter().any(|last| match *last {
        Change::Restore(data) => seen.starts_with(data) && is_appended(seen, data.len(), changes),
        Change::Clear => is_appended(seen, 0, changes),
        Change::Replace { tag, len } => is_there(tag, 0, len) && is_appended(seen, len, changes),
        Change::Overwrite { tag, offset, len } => {
            let fits = now.len() <= seen.len() || may_shrink();
            fits && is_there(tag, offset, len) && has_sources(now, seen, changes)
        }
        Change::Truncate(len) => {
            seen.len() >= len && is_appended(seen, len, changes) && has_sources(now, seen, changes)
        }
        Change::Zero { offset, len } => {
            let zeroed = seen.get(offset..offset + len).is_some_and(|part| part.iter().all(|b| *b == 0));
            let cut = || seen.len() >= offset && is_appended(seen, offset, changes);
            (zeroed || cut()) && has_sources(now, seen, changes)
        }
        Change::Append { .. } => false,
    })
}

/// Reports whether all that was seen from `start` may have been appended. Bytes that several appends explain
/// may be anything.
fn is_appended(seen: &[u8], mut start: usize, changes: &[Change<'_>]) -> bool {
    while start < seen.len() {
        let lens = changes.iter().filter_map(|change| match *change {
            Change::Append { tag, len } if len > 0 => {
                let part = seen.get(start..start + len)?;
                is_filled(part, tag, 0).then_some(len)
            }
            _ => None,
        });
        let lens: Vec<usize> = lens.take(2).collect();
        match lens[..] {
            [] => return false,
            [len] => start += len,
            _ => return true,
        }
    }
    true
}

/// Reports whether each byte that was seen is there, or may be made by one of the changes.
fn has_sources(now: &[u8], seen: &[u8], changes: &[Change<'_>]) -> bool {
    seen.iter().enumerate().all(|(at, byte)| {
        // Zeros come from all that makes content longer.
        *byte == 0 || now.get(at) == Some(byte) || changes.iter().any(|change| makes(change, at, *byte))
    })
}

fn makes(change: &Change<'_>, at: usize, byte: u8) -> bool {
    let (tag, range) = match *change {
        Change::Replace { tag, len } => (tag, 0..len),
        Change::Overwrite { tag, offset, len } => (tag, offset..offset + len),
        // Nobody knows where its bytes begin.
        Change::Append { tag, .. } => return tag.to_le_bytes().contains(&byte),
        Change::Restore(data) => return data.get(at) == Some(&byte),
        Change::Truncate(_) | Change::Zero { .. } | Change::Clear => return false,
    };
    range.contains(&at) && tag.to_le_bytes()[at % 4] == byte
}

/// Reports whether bytes at an offset are those of [`super::objects::filled`].
fn is_filled(part: &[u8], tag: u32, offset: usize) -> bool {
    let bytes = tag.to_le_bytes();
    part.iter().zip(offset..).all(|(byte, at)| *byte == bytes[at % 4])
}

#[cfg(test)]
mod tests {
    use super::super::linear::{Entry, Model, Step, Verdict, check};
    use super::super::objects::{Action, Call, State};
    use stdx::Rng;
    use wire::Errno;

    /// An action on small content, with tags that share bytes.
    fn draw(rng: &mut Rng, tag: u32) -> Action {
        let tag = if rng.chance(1, 3) { tag + 256 } else { tag };
        let (offset, len) = (rng.below(9) as usize, 1 + rng.below(9) as usize);
        let key = vec![b'a' + rng.below(2) as u8];
        match rng.below(13) {
            0 => Action::WriteFull { tag, len },
            1 => Action::Write { tag, offset, len },
            2 | 3 => Action::Append { tag, len },
            4 => Action::Truncate(len),
            5 => Action::Zero { offset, len },
            6 => Action::Delete,
            7 => Action::Create,
            8 => Action::OmapSet(key, tag),
            9 => Action::OmapRemove(key),
            10 => {
                if rng.chance(1, 2) {
                    Action::OmapClear
                } else {
                    Action::AttrRemove
                }
            }
            11 => Action::Everything { tag, len, key },
            _ => Action::Guarded { tag, expect: Vec::new() },
        }
    }

    fn call(action: Action) -> Call {
        Call { client: 0, action, result: Ok(0), seen: None }
    }

    fn read(state: &Option<State>) -> Call {
        let result = state.as_ref().map_or(Err(Errno::ENOENT), |_| Ok(0));
        Call { result, seen: state.clone(), ..call(Action::Read) }
    }

    /// Lists all states that some of the calls make of a state, in any order.
    fn reachable(state: &Option<State>, calls: &[Call], out: &mut Vec<Option<State>>) {
        out.push(state.clone());
        for at in 0..calls.len() {
            let rest = [&calls[..at], &calls[at + 1..]].concat();
            if let Some(next) = state.apply_unknown(&calls[at]) {
                reachable(&next, &rest, out);
            }
        }
    }

    #[test]
    fn nothing_is_called_lost_that_can_come() {
        let (mut called_lost, mut states) = (0, 0);
        for seed in 0..1500 {
            let mut rng = Rng::from_seed(seed);
            let mut start: Option<State> = None;
            for tag in 1..1 + rng.below(6) as u32 {
                start = start.apply_unknown(&call(draw(&mut rng, tag))).unwrap_or(start);
            }
            let calls: Vec<Call> =
                (0..rng.range(1, 5)).map(|i| call(draw(&mut rng, 20 + i as u32))).collect();
            let (open, none) = (|| calls.iter().collect::<Vec<_>>(), Vec::<&Call>::new);
            let mut all = Vec::new();
            reachable(&start, &calls, &mut all);
            for state in &all {
                assert!(
                    !start.is_lost(&read(state), Some(&open)),
                    "seed {seed}: {start:?}, {calls:?}: {state:?}"
                );
                // What the calls have done, nobody can see before the first of them.
                called_lost += usize::from(start.is_lost(&read(state), Some(&none)));
                states += 1;
            }
            assert!(!start.is_lost(&read(&start), Some(&none)), "seed {seed}");
        }
        assert!(called_lost * 2 > states, "{called_lost} of {states}");
    }

    /// The same model, whose search is not told what is lost.
    #[derive(Clone, Hash)]
    struct Unaided(Option<State>);

    impl Model for Unaided {
        type Call = Call;
        fn apply(&self, call: &Call) -> Step<Self> {
            match self.0.apply(call) {
                Step::Wrong => Step::Wrong,
                Step::Same => Step::Same,
                Step::To(next) => Step::To(Self(next)),
            }
        }
        fn apply_unknown(&self, call: &Call) -> Option<Self> {
            self.0.apply_unknown(call).map(Self)
        }
        fn is_read(call: &Call) -> bool {
            <Option<State> as Model>::is_read(call)
        }
        fn are_alike(a: &Call, b: &Call) -> bool {
            <Option<State> as Model>::are_alike(a, b)
        }
    }

    /// Makes a history that has an order. Its calls overlap, and some are unknown, or never carried out.
    fn history(rng: &mut Rng) -> Vec<Entry<Call>> {
        let mut state: Option<State> = None;
        let mut made = Vec::new();
        for i in 0..rng.range(4, 10) {
            let at = 100 + 10 * i;
            let (begin, end) = (at - 1 - rng.below(40), at + 1 + rng.below(40));
            let mut what = call(if rng.chance(1, 2) { Action::Read } else { draw(rng, 1 + i as u32) });
            let is_known = rng.chance(4, 5);
            let results = [Ok(0), Err(Errno::ENOENT), Err(Errno::ECANCELED)];
            what.seen = state.clone().filter(|_| what.action == Action::Read);
            let is_right = |result: &Result<u32, Errno>| {
                state.apply(&Call { result: *result, ..what.clone() }) != Step::Wrong
            };
            what.result = results.into_iter().find(is_right).expect("one of the results is right");
            if let Step::To(next) = state.apply(&what)
                && (is_known || rng.chance(1, 2))
            {
                state = next;
            }
            made.push(Entry { call: begin, ret: is_known.then_some(end), what });
        }
        made
    }

    #[test]
    fn the_search_decides_as_it_does_unaided() {
        let mut verdicts = [0; 2];
        for seed in 0..8000 {
            let mut rng = Rng::from_seed(seed);
            let mut made = history(&mut rng);
            let reads: Vec<usize> =
                (0..made.len()).filter(|i| made[*i].what.action == Action::Read).collect();
            // Reads are answered as others were.
            for to in &reads {
                let from = if rng.chance(1, 2) { *rng.pick(&reads) } else { *to };
                made[*to].what = Call { client: 1, ..made[from].what.clone() };
            }
            let is_right = |verdict| match verdict {
                Verdict::Linearizable => true,
                Verdict::Violated { .. } => false,
                Verdict::Undecided => panic!("seed {seed}: few orders, and undecided"),
            };
            let aided = is_right(check::<Option<State>>(&None, &made));
            let unaided = is_right(check(&Unaided(None), &made));
            assert_eq!(aided, unaided, "seed {seed}: {made:?}");
            verdicts[usize::from(aided)] += 1;
        }
        assert!(verdicts.iter().all(|n| *n > 400), "both kinds: {verdicts:?}");
    }
}
