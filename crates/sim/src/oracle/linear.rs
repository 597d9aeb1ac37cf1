//! Linearizability (Herlihy and Wing): is there one order of all operations, each taking effect at one moment between its
//! call and its return, in which every answer is right? The search is Wing and Gong's, with Lowe's memory of configurations.
//!
//! An operation that failed in an unknown way, or was never answered, may take effect at any moment after its call, or
//! never: "a write that failed is *unknown*, one acknowledged may never be lost".

use std::hash::{Hash, Hasher};
use stdx::{FastSet, FoldHasher};

/// A sequential model.
pub trait Model: Clone + Hash {
    /// What was asked and, where it is known, what was answered.
    type Call;

    /// Applies a call whose answer is known: `None` where no such answer is right in this state.
    fn apply(&self, call: &Self::Call) -> Option<Self>;

    /// Applies a call whose answer nobody knows.
    fn apply_unknown(&self, call: &Self::Call) -> Self;
}

/// One operation of a history. Moments are positions in the order in which the driver saw calls and returns.
#[derive(Clone, Debug)]
pub struct Entry<C> {
    /// When it was called.
    pub call: u64,
    /// When its answer came; `None` where it has none that says what happened.
    pub ret: Option<u64>,
    /// What.
    pub what: C,
}

/// Configurations looked at before the search gives up undecided.
const BUDGET: usize = 2_000_000;

/// What a check found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Such an order exists.
    Linearizable,
    /// None exists; the longest right order covers so many of the known operations.
    Violated {
        /// Known operations in the longest right order.
        longest: usize,
    },
    /// Too many operations at once to tell.
    Undecided,
}

/// Looks for an order.
pub fn check<M: Model>(initial: &M, history: &[Entry<M::Call>]) -> Verdict {
    let mut order: Vec<usize> = (0..history.len()).collect();
    order.sort_by_key(|i| history[*i].call);
    let known = history.iter().filter(|e| e.ret.is_some()).count();
    let mut search = Search { history, order, seen: FastSet::default(), longest: 0, budget: BUDGET };
    let mut done = vec![false; history.len()];
    match search.run(initial, &mut done, known) {
        Some(true) => Verdict::Linearizable,
        Some(false) => Verdict::Violated { longest: search.longest },
        None => Verdict::Undecided,
    }
}

/// Of a history that is not linearizable: the moment of the first return that can't be explained.
pub fn first_wrong<M: Model>(initial: &M, history: &[Entry<M::Call>]) -> u64
where
    M::Call: Clone,
{
    let bad = |until: u64| {
        let seen = history.iter().filter(|e| e.call <= until).map(|e| {
            let ret = e.ret.filter(|r| *r <= until);
            Entry { call: e.call, ret, what: e.what.clone() }
        });
        matches!(check(initial, &seen.collect::<Vec<_>>()), Verdict::Violated { .. })
    };
    // What is wrong stays wrong however the history goes on, so the first wrong moment can be bisected.
    let (mut right, mut wrong) = (0, history.iter().map(|e| e.ret.unwrap_or(e.call)).max().unwrap_or(0));
    while wrong - right > 1 {
        let middle = (right + wrong) / 2;
        if bad(middle) { wrong = middle } else { right = middle }
    }
    wrong
}

struct Search<'a, C> {
    history: &'a [Entry<C>],
    /// Entries in the order of their calls.
    order: Vec<usize>,
    /// Configurations that lead nowhere.
    seen: FastSet<(u64, u64)>,
    longest: usize,
    budget: usize,
}

/// A step of the search: a state, who was tried from it.
struct Frame<M> {
    state: M,
    candidates: Vec<usize>,
    next: usize,
    /// The entry whose application led here.
    via: Option<usize>,
}

impl<C> Search<'_, C> {
    /// Depth first, on a stack of its own: histories are longer than the machine's stack is deep.
    fn run<M: Model<Call = C>>(&mut self, initial: &M, done: &mut [bool], known: usize) -> Option<bool> {
        let mut placed = 0;
        if known == 0 {
            return Some(true);
        }
        let mut stack = vec![self.frame(initial.clone(), done, None)];
        while let Some(frame) = stack.last_mut() {
            let Some(&entry) = frame.candidates.get(frame.next) else {
                if let Some(via) = frame.via {
                    done[via] = false;
                    placed -= usize::from(self.history[via].ret.is_some());
                }
                stack.pop();
                continue;
            };
            frame.next += 1;
            let op = &self.history[entry];
            let applied = match op.ret {
                Some(_) => frame.state.apply(&op.what),
                None => Some(frame.state.apply_unknown(&op.what)),
            };
            let Some(state) = applied else { continue };
            done[entry] = true;
            let config = (fingerprint(done), fingerprint(&state));
            if !self.seen.insert(config) {
                done[entry] = false;
                continue;
            }
            placed += usize::from(op.ret.is_some());
            self.longest = self.longest.max(placed);
            if placed == known {
                return Some(true);
            }
            self.budget -= 1;
            if self.budget == 0 {
                return None;
            }
            stack.push(self.frame(state, done, Some(entry)));
        }
        Some(false)
    }

    /// Who may come next: whose call is not after the return of another that has not come yet. Known ones first: an
    /// unknown one is tried only where nothing else explains the answers.
    fn frame<M>(&self, state: M, done: &[bool], via: Option<usize>) -> Frame<M> {
        let open = self.order.iter().copied().filter(|i| !done[*i]);
        let first_return = open.clone().filter_map(|i| self.history[i].ret).min().unwrap_or(u64::MAX);
        let mut candidates: Vec<usize> = open.take_while(|i| self.history[*i].call < first_return).collect();
        candidates.sort_by_key(|i| (self.history[*i].ret.is_none(), self.history[*i].ret));
        Frame { state, candidates, next: 0, via }
    }
}

fn fingerprint<T: Hash + ?Sized>(value: &T) -> u64 {
    let mut hasher = FoldHasher::default();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A register: `Write(v)` and `Read(v)`.
    #[derive(Clone, Hash, Debug)]
    struct Register(u32);

    #[derive(Clone, Copy, Debug)]
    enum Call {
        Write(u32),
        Read(u32),
    }

    impl Model for Register {
        type Call = Call;
        fn apply(&self, call: &Call) -> Option<Self> {
            match *call {
                Call::Write(v) => Some(Self(v)),
                Call::Read(v) => (v == self.0).then(|| self.clone()),
            }
        }
        fn apply_unknown(&self, call: &Call) -> Self {
            match *call {
                Call::Write(v) => Self(v),
                Call::Read(_) => self.clone(),
            }
        }
    }

    fn verdict(history: &[(u64, u64, Call)]) -> Verdict {
        let entries: Vec<_> = history
            .iter()
            .map(|(call, ret, what)| Entry { call: *call, ret: (*ret > 0).then_some(*ret), what: *what })
            .collect();
        check(&Register(0), &entries)
    }

    use Call::{Read, Write};

    #[test]
    fn overlapping_operations_may_take_any_order() {
        let history = [(1, 10, Write(1)), (2, 9, Write(2)), (11, 12, Read(1))];
        assert_eq!(verdict(&history), Verdict::Linearizable);
    }

    #[test]
    fn a_lost_acknowledged_write_is_found() {
        let history = [(1, 2, Write(1)), (3, 4, Write(2)), (5, 6, Read(1))];
        assert_eq!(verdict(&history), Verdict::Violated { longest: 2 });
    }

    #[test]
    fn a_value_seen_and_gone_again_is_found() {
        let history = [(1, 20, Write(1)), (2, 3, Read(1)), (4, 5, Read(0))];
        assert!(matches!(verdict(&history), Verdict::Violated { .. }));
    }

    #[test]
    fn an_unknown_write_may_come_late_or_never_but_only_once() {
        let unknown = (1, 0, Write(7));
        assert_eq!(verdict(&[unknown, (2, 3, Read(0)), (4, 5, Read(7))]), Verdict::Linearizable);
        assert_eq!(verdict(&[unknown, (2, 3, Read(0))]), Verdict::Linearizable);
        let lost = [(1, 2, Write(1)), (3, 4, Read(0)), (5, 6, Write(2))];
        let entries = lost.map(|(call, ret, what)| Entry { call, ret: Some(ret), what });
        assert_eq!(first_wrong(&Register(0), &entries), 4, "the read is what is wrong");
        let twice = [unknown, (2, 3, Read(7)), (4, 5, Write(8)), (6, 7, Read(7))];
        assert!(matches!(verdict(&twice), Verdict::Violated { .. }));
    }
}
