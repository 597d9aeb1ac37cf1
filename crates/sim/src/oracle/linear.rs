//! Linearizability (Herlihy and Wing): is there one order of all operations, each taking effect at one moment between its
//! call and its return, in which every answer is right? The search is Wing and Gong's, with Lowe's memory of configurations.
//!
//! An operation that failed in an unknown way, or was never answered, may take effect at any moment after its call, or
//! never: "a write that failed is *unknown*, one acknowledged may never be lost".
//!
//! Three things keep the search short. Histories are of one object each (linearizability is local). What never changes
//! anything and is right now is placed at once: whatever order comes later, it may stand here too. And an operation whose
//! answer nobody knows is only tried where it would change something.

use std::fmt;
use std::hash::{Hash, Hasher};
use stdx::{FastSet, FoldHasher};

/// What a call does to a state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step<S> {
    /// No such answer is right here.
    Wrong,
    /// It is right, and changes nothing.
    Same,
    /// It is right, and this is the state after it.
    To(S),
}

/// A sequential model.
pub trait Model: Clone + Hash {
    /// What was asked and, where it is known, what was answered; in words: who asked what, and the answer.
    type Call: Clone + fmt::Display;

    /// Applies a call whose answer is known.
    fn apply(&self, call: &Self::Call) -> Step<Self>;

    /// Applies a call whose answer nobody knows: `None` where it changes nothing.
    fn apply_unknown(&self, call: &Self::Call) -> Option<Self>;

    /// Whether a call with this answer changes nothing wherever it is right.
    fn is_read(call: &Self::Call) -> bool;
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
const BUDGET: usize = 200_000;

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

/// What was found of some histories.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Judgement {
    /// Histories looked at.
    pub histories: u64,
    /// Of these, such as the search gave up on.
    pub undecided: u64,
    /// What is wrong with the first that is not linearizable.
    pub wrong: Option<String>,
}

impl Judgement {
    /// Adds the verdict on one history; `of` says whose.
    pub fn judge<M: Model>(&mut self, of: &str, initial: &M, history: &[Entry<M::Call>]) {
        self.add(check(initial, history), || explain(of, initial, history));
    }

    fn add(&mut self, verdict: Verdict, explain: impl FnOnce() -> String) {
        self.histories += 1;
        match verdict {
            Verdict::Linearizable => {}
            Verdict::Undecided => self.undecided += 1,
            Verdict::Violated { .. } if self.wrong.is_some() => {}
            Verdict::Violated { .. } => self.wrong = Some(explain()),
        }
    }
}

/// Looks for an order.
pub fn check<M: Model>(initial: &M, history: &[Entry<M::Call>]) -> Verdict {
    check_within(BUDGET, initial, history)
}

fn check_within<M: Model>(budget: usize, initial: &M, history: &[Entry<M::Call>]) -> Verdict {
    let mut known: Vec<usize> = (0..history.len()).filter(|i| history[*i].ret.is_some()).collect();
    let mut unknown: Vec<usize> = (0..history.len()).filter(|i| history[*i].ret.is_none()).collect();
    known.sort_by_key(|i| history[*i].call);
    unknown.sort_by_key(|i| history[*i].call);
    let mut search = Search {
        history,
        done: vec![false; history.len()],
        known,
        unknown,
        seen: FastSet::default(),
        longest: 0,
        budget,
    };
    match search.run(initial) {
        Some(true) => Verdict::Linearizable,
        Some(false) => Verdict::Violated { longest: search.longest },
        None => Verdict::Undecided,
    }
}

/// What is wrong with a history that is not linearizable: all calls up to the first return that can't be explained.
fn explain<M: Model>(of: &str, initial: &M, history: &[Entry<M::Call>]) -> String {
    let wrong = first_wrong(initial, history);
    let mut text = format!("{of}: no order of the operations explains the answer at {wrong}\n");
    let mut calls: Vec<_> = history.iter().filter(|e| e.call <= wrong).collect();
    calls.sort_by_key(|e| e.call);
    for Entry { call, ret, what } in calls {
        let ret = ret.map_or("-".to_owned(), |r| r.to_string());
        text.push_str(&format!("  {call}..{ret} {what}\n"));
    }
    text
}

/// The moment of the first return that can't be explained.
fn first_wrong<M: Model>(initial: &M, history: &[Entry<M::Call>]) -> u64 {
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
    /// Which are placed.
    done: Vec<bool>,
    /// Entries with an answer and without, in the order of their calls.
    known: Vec<usize>,
    unknown: Vec<usize>,
    /// Configurations that lead nowhere.
    seen: FastSet<(u64, u64)>,
    longest: usize,
    budget: usize,
}

/// A step of the search: a state, and what may come next from it.
struct Frame<M> {
    state: M,
    /// Entries that may come next with the state after each (none where it stays), the first one last.
    next: Vec<(usize, Option<M>)>,
    /// All of `known` before this position are placed.
    from: usize,
    /// Sum over the placed entries: which set it is.
    placed: u64,
    /// Known entries among them.
    count: usize,
    /// The entry whose application led here.
    via: Option<usize>,
}

impl<C> Search<'_, C> {
    /// Depth first, on a stack of its own: histories are longer than the machine's stack is deep.
    fn run<M: Model<Call = C>>(&mut self, initial: &M) -> Option<bool> {
        let all = self.known.len();
        let start =
            Frame { state: initial.clone(), next: Vec::new(), from: 0, placed: 0, count: 0, via: None };
        let mut stack = vec![self.expand(start)];
        if all == 0 {
            return Some(true);
        }
        while let Some(frame) = stack.last_mut() {
            let Some((entry, state)) = frame.next.pop() else {
                if let Some(via) = frame.via {
                    self.done[via] = false;
                }
                stack.pop();
                continue;
            };
            let state = state.unwrap_or_else(|| frame.state.clone());
            let placed = frame.placed.wrapping_add(mixed(entry as u64));
            if !self.seen.insert((placed, fingerprint(&state))) {
                continue;
            }
            let count = frame.count + usize::from(self.history[entry].ret.is_some());
            let from = frame.from;
            self.done[entry] = true;
            self.longest = self.longest.max(count);
            if count == all {
                return Some(true);
            }
            if self.budget == 0 {
                return None;
            }
            self.budget -= 1;
            stack.push(self.expand(Frame { state, next: Vec::new(), from, placed, count, via: Some(entry) }));
        }
        Some(false)
    }

    /// Who may come next: whose call is not after the return of another that has not come yet. Known ones first, by their
    /// return: an unknown one is tried only where nothing else explains the answers.
    fn expand<M: Model<Call = C>>(&self, mut frame: Frame<M>) -> Frame<M> {
        while self.known.get(frame.from).is_some_and(|i| self.done[*i]) {
            frame.from += 1;
        }
        let mut first_return = u64::MAX;
        let mut open = Vec::new();
        for i in self.known[frame.from..].iter().copied() {
            let entry = &self.history[i];
            if entry.call > first_return {
                break;
            }
            if !self.done[i] {
                first_return = first_return.min(entry.ret.unwrap_or(u64::MAX));
                open.push(i);
            }
        }
        open.retain(|i| self.history[*i].call < first_return);
        open.sort_by_key(|i| self.history[*i].ret);
        let mut known = Vec::new();
        for i in open {
            match frame.state.apply(&self.history[i].what) {
                Step::Wrong => {}
                Step::Same if M::is_read(&self.history[i].what) => {
                    frame.next = vec![(i, None)];
                    return frame;
                }
                Step::Same => known.push((i, None)),
                Step::To(state) => known.push((i, Some(state))),
            }
        }
        let may = |i: &&usize| !self.done[**i] && self.history[**i].call < first_return;
        let tried = self.unknown.iter().filter(may);
        let changing = |i: &usize| Some((*i, Some(frame.state.apply_unknown(&self.history[*i].what)?)));
        frame.next = known.into_iter().chain(tried.filter_map(changing)).collect();
        frame.next.reverse();
        frame
    }
}

fn fingerprint<T: Hash + ?Sized>(value: &T) -> u64 {
    let mut hasher = FoldHasher::default();
    value.hash(&mut hasher);
    hasher.finish()
}

/// A number for each entry, such that sums of them tell sets apart (the finalizer of splitmix64, Steele et al. 2014).
fn mixed(entry: u64) -> u64 {
    let mut x = (entry + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
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

    impl fmt::Display for Call {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{self:?}")
        }
    }

    impl Model for Register {
        type Call = Call;
        fn apply(&self, call: &Call) -> Step<Self> {
            match *call {
                Call::Write(v) => Step::To(Self(v)),
                Call::Read(v) if v == self.0 => Step::Same,
                Call::Read(_) => Step::Wrong,
            }
        }
        fn apply_unknown(&self, call: &Call) -> Option<Self> {
            match *call {
                Call::Write(v) => (v != self.0).then_some(Self(v)),
                Call::Read(_) => None,
            }
        }
        fn is_read(call: &Call) -> bool {
            matches!(call, Call::Read(_))
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
        let mut judgement = Judgement::default();
        judgement.judge("r", &Register(0), &entries);
        let why = "r: no order of the operations explains the answer at 4\n  1..2 Write(1)\n  3..4 Read(0)\n";
        assert_eq!(judgement.wrong.as_deref(), Some(why));
        let twice = [unknown, (2, 3, Read(7)), (4, 5, Write(8)), (6, 7, Read(7))];
        assert!(matches!(verdict(&twice), Verdict::Violated { .. }));
    }

    /// All orders, tried one after another.
    fn is_linearizable_naively(history: &[Entry<Call>], value: u32, done: &mut Vec<bool>) -> bool {
        let open = |done: &[bool], i: usize| !done[i];
        if (0..history.len()).all(|i| done[i] || history[i].ret.is_none()) {
            return true;
        }
        let first = (0..history.len()).filter(|i| open(done, *i)).filter_map(|i| history[i].ret).min();
        (0..history.len()).any(|i| {
            if done[i] || first.is_some_and(|r| history[i].call >= r) {
                return false;
            }
            let next = match (history[i].what, history[i].ret) {
                (Read(v), Some(_)) if v != value => return false,
                (Read(_), _) => value,
                (Write(v), _) => v,
            };
            done[i] = true;
            let found = is_linearizable_naively(history, next, done);
            done[i] = false;
            found
        })
    }

    #[test]
    fn the_search_agrees_with_trying_all_orders() {
        let mut verdicts = [0; 2];
        for seed in 0..3000 {
            let mut rng = stdx::Rng::from_seed(seed);
            let mut history = Vec::new();
            for _ in 0..rng.range(2, 8) {
                let call = rng.below(20);
                let ret = (!rng.chance(1, 4)).then(|| call + 1 + rng.below(8));
                let value = rng.below(3) as u32;
                history.push(Entry {
                    call,
                    ret,
                    what: if rng.chance(1, 2) { Write(value) } else { Read(value) },
                });
            }
            let naive = is_linearizable_naively(&history, 0, &mut vec![false; history.len()]);
            let found = check(&Register(0), &history);
            assert_eq!(found == Verdict::Linearizable, naive, "seed {seed}: {history:?}");
            verdicts[usize::from(naive)] += 1;
        }
        assert!(verdicts.iter().all(|n| *n > 300), "both kinds: {verdicts:?}");
    }

    #[test]
    fn a_search_that_gives_up_is_counted() {
        let writes = (0..12).map(|v| Entry { call: 1, ret: Some(100), what: Write(v) });
        let history: Vec<_> = writes.chain([Entry { call: 101, ret: Some(102), what: Read(77) }]).collect();
        let mut judgement = Judgement::default();
        judgement.add(check_within(50, &Register(0), &history), || unreachable!("it is not decided"));
        judgement.add(check(&Register(0), &history[..12]), || unreachable!("any order is right"));
        assert_eq!(judgement, Judgement { histories: 2, undecided: 1, wrong: None });
    }
}
