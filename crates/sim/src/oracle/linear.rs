//! Linearizability (Herlihy and Wing): is there an order of all operations, each taking effect at one moment
//! between its call and its return, in which every answer is right? The search is Wing and Gong's, with
//! Lowe's memory of configurations.
//!
//! An operation that failed in an unknown way, or was never answered, may take effect at any moment after its
//! call, or never: a write that failed is *unknown*, an acknowledged one may never be lost.
//!
//! Operations of a *chain* take effect in the order of their calls, and those that never do are its last
//! ones: a crash loses a suffix of what a client did, and nothing from the middle.
//!
//! Five rules keep the search short:
//! - A history is of one object (linearizability is local).
//! - An operation that changes nothing and is right now is placed at once: it may stand here in any order
//!   that follows.
//! - An operation with an unknown outcome is tried only if it would change something, or if its chain goes on
//!   after it. Of several without a chain and with the same effect, the one that was called first comes
//!   first: it may stand wherever a later one may.
//! - A state that leads nowhere does not get better by spending more operations with an unknown outcome, if
//!   these have no chain: they need not happen, so everything that could follow could have followed without
//!   them.
//! - A state leads nowhere if one of the next answers shows something that the state lacks and that no
//!   operation to come makes, or lacks something that none of them removes.
//!
//! The search goes depth first, which soon finds an order if there is one. If that takes too long, it starts
//! over with the configurations that have spent the fewest such operations: then the dominating ones come
//! before the dominated.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::rc::Rc;
use stdx::{FastMap, FoldHasher};

/// The effect of a call on a state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step<S> {
    /// The answer is wrong in this state.
    Wrong,
    /// The answer is right, and the state does not change.
    Same,
    /// The answer is right, and this is the next state.
    To(S),
}

/// A sequential model.
pub trait Model: Clone + Hash {
    /// A call, with its answer if that is known. Its text form names the client, the operation and the
    /// answer.
    type Call: Clone + fmt::Display + 'static;

    /// Applies a call whose answer is known.
    fn apply(&self, call: &Self::Call) -> Step<Self>;

    /// Applies a call whose answer is unknown. `None` if it changes nothing.
    fn apply_unknown(&self, call: &Self::Call) -> Option<Self>;

    /// Reports whether a call with this answer never changes a state in which it is right.
    fn is_read(call: &Self::Call) -> bool;

    /// Reports whether two calls with unknown answers have the same effect on every state.
    fn are_alike(a: &Self::Call, b: &Self::Call) -> bool;

    /// The chain of a call.
    fn chain(_call: &Self::Call) -> Option<u64> {
        None
    }

    /// Reports whether a call whose answer is unknown may happen in this state without changing it. It is
    /// asked of calls in chains.
    fn may_pass(&self, _call: &Self::Call) -> bool {
        false
    }

    /// Reports whether the answer of `call` is wrong in this state and in every state that some of the calls
    /// `open` make of it, each carried out at most once, in any order; without `open`, any calls at all. The
    /// answer false is always safe.
    fn is_lost<'a>(&self, _call: &Self::Call, _open: Option<&dyn Fn() -> Vec<&'a Self::Call>>) -> bool {
        false
    }
}

/// An operation of a history. Times are positions in the order in which the driver saw calls and returns.
#[derive(Clone, Debug)]
pub struct Entry<C> {
    /// Time of the call.
    pub call: u64,
    /// Time of the answer; `None` without an answer that tells the outcome.
    pub ret: Option<u64>,
    /// The operation called.
    pub what: C,
}

/// Configurations that a search visits before it gives up.
const BUDGET: usize = 200_000;

/// The second search has the budget divided by this, because it keeps the states of all configurations.
const SECOND_SEARCH_DIVISOR: usize = 10;

/// Comparing this many sets of unknown entries costs as much as visiting one configuration.
const SETS_FOR_ONE: usize = 64;

/// Up to this many reads ahead, the search looks at all calls that may still come before an answer. Each of
/// these looks takes about as long as a visit.
const READS_AHEAD: usize = 6;

/// The result of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// There is an order.
    Linearizable,
    /// There is no order.
    Violated {
        /// Number of known operations in the longest right order.
        longest: usize,
    },
    /// The search exceeded its budget.
    Undecided,
}

/// Results of several histories.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Judgement {
    /// Number of histories checked.
    pub histories: u64,
    /// Histories that exceeded the budget.
    pub undecided: u64,
    /// The violation in the first history that is not linearizable.
    pub wrong: Option<String>,
}

impl Judgement {
    /// Checks one history; `of` names its object.
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

/// Searches for an order.
pub fn check<M: Model>(initial: &M, history: &[Entry<M::Call>]) -> Verdict {
    check_within(BUDGET, initial, history)
}

fn check_within<M: Model>(budget: usize, initial: &M, history: &[Entry<M::Call>]) -> Verdict {
    let mut search = search::<M>(budget, history);
    let found = search.run(initial).or_else(|| {
        search.budget = budget / SECOND_SEARCH_DIVISOR;
        search.run_by_spent(initial)
    });
    match found {
        Some(true) => Verdict::Linearizable,
        Some(false) => Verdict::Violated { longest: search.longest },
        None => Verdict::Undecided,
    }
}

fn search<M: Model>(budget: usize, history: &[Entry<M::Call>]) -> Search<'_, M::Call> {
    let mut known: Vec<usize> = (0..history.len()).filter(|i| history[*i].ret.is_some()).collect();
    let mut unknown: Vec<usize> = (0..history.len()).filter(|i| history[*i].ret.is_none()).collect();
    known.sort_by_key(|i| history[*i].call);
    unknown.sort_by_key(|i| history[*i].call);
    let mut by_return = known.clone();
    by_return.sort_by_key(|i| history[*i].ret);
    let chain = |i: &usize| M::chain(&history[*i].what);
    let alike = |i: usize| {
        let before = unknown[..i].iter().rev().filter(|j| chain(j).is_none());
        let same = |j: &usize| M::are_alike(&history[*j].what, &history[unknown[i]].what);
        before.copied().find(same).filter(|_| chain(&unknown[i]).is_none())
    };
    let alikes = (0..unknown.len()).map(|i| (unknown[i], alike(i))).collect();
    Search {
        history,
        done: vec![false; history.len()],
        links: links::<M>(history),
        chained: set_of(unknown.iter().map(|i| chain(i).is_some())),
        known,
        by_return,
        unknown: alikes,
        seen: FastMap::default(),
        longest: 0,
        budget,
    }
}

/// For each entry, those before and after it in its chain.
fn links<M: Model>(history: &[Entry<M::Call>]) -> Vec<[Option<usize>; 2]> {
    let mut links = vec![[None; 2]; history.len()];
    let mut last = FastMap::default();
    let mut chained: Vec<_> =
        history.iter().enumerate().filter_map(|(i, e)| Some((M::chain(&e.what)?, e.call, i))).collect();
    chained.sort_unstable();
    for (chain, _, i) in chained {
        links[i][0] = last.insert(chain, i);
        if let Some(before) = links[i][0] {
            links[before][1] = Some(i);
        }
    }
    links
}

/// The places of those that are true, one bit each.
fn set_of(places: impl Iterator<Item = bool>) -> Vec<u64> {
    let mut set = vec![0];
    for (bit, is_in) in places.enumerate() {
        set.resize(bit / 64 + 1, 0);
        set[bit / 64] |= u64::from(is_in) << (bit % 64);
    }
    set
}

/// Describes a violation: all calls up to the first return without an explanation.
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

/// The time of the first return without an explanation.
fn first_wrong<M: Model>(initial: &M, history: &[Entry<M::Call>]) -> u64 {
    let bad = |until: u64| {
        let seen = history.iter().filter(|e| e.call <= until).map(|e| {
            let ret = e.ret.filter(|r| *r <= until);
            Entry { call: e.call, ret, what: e.what.clone() }
        });
        matches!(check(initial, &seen.collect::<Vec<_>>()), Verdict::Violated { .. })
    };
    // A violation stays one however the history goes on, so its first moment can be bisected.
    let (mut right, mut wrong) = (0, history.iter().map(|e| e.ret.unwrap_or(e.call)).max().unwrap_or(0));
    while wrong - right > 1 {
        let middle = (right + wrong) / 2;
        if bad(middle) { wrong = middle } else { right = middle }
    }
    wrong
}

struct Search<'a, C> {
    history: &'a [Entry<C>],
    /// Entries that are placed.
    done: Vec<bool>,
    /// For each entry, those before and after it in its chain.
    links: Vec<[Option<usize>; 2]>,
    /// Those of `unknown` that are in a chain, one bit an entry.
    chained: Vec<u64>,
    /// Entries with an answer, in the order of their calls.
    known: Vec<usize>,
    /// The same in the order of their returns.
    by_return: Vec<usize>,
    /// Entries without an answer, in the same order, each with the last one before it that has the same
    /// effect.
    unknown: Vec<(usize, Option<usize>)>,
    /// Configurations that lead nowhere: for each set of placed known entries and state after them, the sets
    /// of unknown ones, one bit an entry, one set after another.
    seen: FastMap<(u64, u64), Vec<u64>>,
    longest: usize,
    budget: usize,
}

/// A step of the search: a state, and its possible successors.
struct Frame<M> {
    state: M,
    /// Entries that may come next with the state after each (`None` if it stays), in reverse order.
    next: Vec<(usize, Option<M>)>,
    /// All of `known` before this position are placed.
    from: usize,
    /// Sum over the placed known entries, which identifies their set.
    placed: u64,
    /// Number of placed known entries.
    count: usize,
    /// The entry whose application led here.
    via: Option<usize>,
}

impl<C> Search<'_, C> {
    /// Searches depth first, on a stack of its own: histories are longer than the machine's stack is deep.
    fn run<M: Model<Call = C>>(&mut self, initial: &M) -> Option<bool> {
        let all = self.known.len();
        let mut stack = vec![self.start(initial)];
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
            let Some(child) = self.child(frame, entry, state) else { continue };
            if child.count == all {
                return Some(true);
            }
            if self.budget == 0 {
                return None;
            }
            self.budget -= 1;
            let child = self.expand(child);
            stack.push(child);
        }
        Some(false)
    }

    /// Searches configurations in the order of the number of unknown entries that they have spent.
    fn run_by_spent<M: Model<Call = C>>(&mut self, initial: &M) -> Option<bool> {
        let all = self.known.len();
        if all == 0 {
            return Some(true);
        }
        self.seen.clear();
        self.done.fill(false);
        // Successors of configurations: those that spend no more entries, and those that do.
        let (mut now, mut later) = (Vec::new(), Vec::new());
        let mut parent = (self.start(initial), self.done.clone());
        loop {
            let next: Vec<_> = parent.0.next.drain(..).map(|(entry, _)| entry).collect();
            let shared = Rc::new(parent);
            for entry in next {
                let list = if self.history[entry].ret.is_some() { &mut now } else { &mut later };
                list.push((Rc::clone(&shared), entry));
            }
            parent = loop {
                if now.is_empty() {
                    std::mem::swap(&mut now, &mut later);
                }
                let Some((before, entry)) = now.pop() else { return Some(false) };
                let (frame, done) = &*before;
                self.done.clone_from(done);
                let what = &self.history[entry].what;
                let state = match self.history[entry].ret.map(|_| frame.state.apply(what)) {
                    None => frame.state.apply_unknown(what),
                    Some(Step::To(state)) => Some(state),
                    Some(Step::Same | Step::Wrong) => None,
                };
                let state = state.unwrap_or_else(|| frame.state.clone());
                let Some(child) = self.child(frame, entry, state) else { continue };
                if child.count == all {
                    return Some(true);
                }
                if self.budget == 0 {
                    return None;
                }
                self.budget -= 1;
                break (self.expand(child), self.done.clone());
            };
        }
    }

    /// The configuration in which nothing is placed.
    fn start<M: Model<Call = C>>(&mut self, initial: &M) -> Frame<M> {
        self.is_new((0, fingerprint(initial)));
        let state = initial.clone();
        self.expand(Frame { state, next: Vec::new(), from: 0, placed: 0, count: 0, via: None })
    }

    /// Places an entry after a configuration. `None` if the result is dominated, or if an answer that has to
    /// come next is lost in it.
    fn child<M: Model<Call = C>>(&mut self, frame: &Frame<M>, entry: usize, state: M) -> Option<Frame<M>> {
        let is_known = self.history[entry].ret.is_some();
        let placed = frame.placed.wrapping_add(if is_known { mixed(entry as u64) } else { 0 });
        let count = frame.count + usize::from(is_known);
        self.done[entry] = true;
        if !self.is_new((placed, fingerprint(&state))) || self.is_hopeless(&state) {
            self.done[entry] = false;
            return None;
        }
        self.longest = self.longest.max(count);
        Some(Frame { state, next: Vec::new(), from: frame.from, placed, count, via: Some(entry) })
    }

    /// Reports whether a configuration is new, or was visited only after spending other unknown entries than
    /// those placed now, or fewer of a chain. The comparison is charged to the budget.
    fn is_new(&mut self, at: (u64, u64)) -> bool {
        let placed = set_of(self.unknown.iter().map(|(entry, _)| self.done[*entry]));
        let words = placed.len();
        let sets = self.seen.entry(at).or_default();
        self.budget = self.budget.saturating_sub(sets.len() / words / SETS_FOR_ONE);
        let is_part = |(a, (b, chained)): (&u64, (&u64, &u64))| a & !b == 0 && (a ^ b) & chained == 0;
        if sets.chunks(words).any(|set| set.iter().zip(placed.iter().zip(&self.chained)).all(is_part)) {
            return false;
        }
        sets.extend(placed);
        true
    }

    /// Reports whether one of the next answers is lost: what it shows is gone, and nobody makes it again.
    /// Without this, the search notices an order's early mistake only at the answer that contradicts it, and
    /// tries all orders of what is in between. Such a configuration is charged to the budget like a visit.
    fn is_hopeless<M: Model<Call = C>>(&mut self, state: &M) -> bool {
        let mut reads = 0;
        let mut next = self.by_return.iter().filter(|i| !self.done[**i]);
        let is_lost = next.any(|answer| {
            let Entry { ret, what, .. } = &self.history[*answer];
            reads += usize::from(M::is_read(what));
            if reads > READS_AHEAD {
                return state.is_lost(what, None);
            }
            let may_come = |i: &usize| !self.done[*i] && ret.is_some_and(|ret| self.history[*i].call < ret);
            let all = 0..self.history.len();
            let open = || all.clone().filter(may_come).map(|i| &self.history[i].what).collect::<Vec<_>>();
            state.is_lost(what, Some(&open))
        });
        self.budget = self.budget.saturating_sub(usize::from(is_lost));
        is_lost
    }

    /// Lists the entries that may come next: those called before the return of every entry that is still to
    /// come. Known ones come first, by their return: an unknown one is tried only if nothing else explains
    /// the answers.
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
        let follows = |i: usize| self.links[i][0].is_none_or(|before| self.done[before]);
        open.retain(|i| self.history[*i].call < first_return && follows(*i));
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
        let may = |(i, alike): &&(usize, Option<usize>)| {
            let is_first = alike.is_none_or(|j| self.done[j]);
            !self.done[*i] && is_first && self.history[*i].call < first_return && follows(*i)
        };
        let tried = self.unknown.iter().filter(may);
        let useful = |(i, _): &(usize, _)| {
            let what = &self.history[*i].what;
            let next = frame.state.apply_unknown(what);
            let leads_on = || self.links[*i][1].is_some() && frame.state.may_pass(what);
            (next.is_some() || leads_on()).then_some((*i, next))
        };
        frame.next = known.into_iter().chain(tried.filter_map(useful)).collect();
        frame.next.reverse();
        frame
    }
}

fn fingerprint<T: Hash + ?Sized>(value: &T) -> u64 {
    let mut hasher = FoldHasher::default();
    value.hash(&mut hasher);
    hasher.finish()
}

/// A number for each entry, such that sums identify sets (the finalizer of splitmix64, Steele et al. 2014).
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

    #[derive(Clone, Copy, PartialEq, Debug)]
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
        fn are_alike(a: &Call, b: &Call) -> bool {
            a == b
        }
    }

    /// A register whose calls may be in chains.
    #[derive(Clone, Hash, Debug)]
    struct Chained(Register);

    #[derive(Clone, Copy, Debug)]
    struct Linked {
        call: Call,
        chain: Option<u64>,
    }

    impl fmt::Display for Linked {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{self:?}")
        }
    }

    impl Model for Chained {
        type Call = Linked;
        fn apply(&self, what: &Linked) -> Step<Self> {
            match self.0.apply(&what.call) {
                Step::Wrong => Step::Wrong,
                Step::Same => Step::Same,
                Step::To(next) => Step::To(Self(next)),
            }
        }
        fn apply_unknown(&self, what: &Linked) -> Option<Self> {
            self.0.apply_unknown(&what.call).map(Self)
        }
        fn is_read(what: &Linked) -> bool {
            Register::is_read(&what.call)
        }
        fn are_alike(a: &Linked, b: &Linked) -> bool {
            a.call == b.call
        }
        fn chain(what: &Linked) -> Option<u64> {
            what.chain
        }
        fn may_pass(&self, what: &Linked) -> bool {
            self.apply_unknown(what).is_none()
        }
    }

    #[test]
    fn of_a_chain_only_a_suffix_may_be_missing() {
        let chained = |call, what| Entry { call, ret: None, what: Linked { call: what, chain: Some(1) } };
        let answered = |call, what| {
            let what = Linked { call: what, chain: None };
            Entry { call, ret: Some(call + 1), what }
        };
        let after = |reads: &[u32]| {
            let mut history = vec![chained(1, Write(1)), chained(2, Write(0)), chained(3, Write(2))];
            let reads = reads.iter().enumerate();
            history.extend(reads.map(|(i, value)| answered(10 + 2 * i as u64, Read(*value))));
            check(&Chained(Register(0)), &history) == Verdict::Linearizable
        };
        assert!(after(&[0, 1, 0, 2]) && after(&[0, 1]) && after(&[1, 2]) && after(&[2]) && after(&[0]));
        assert!(!after(&[2, 1]) && !after(&[1, 0, 1]));
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

    #[test]
    fn of_unknown_writes_that_are_alike_each_explains_one_answer() {
        let reads =
            [(3, 4, Read(7)), (5, 6, Write(8)), (7, 8, Read(7)), (9, 10, Write(8)), (11, 12, Read(7))];
        let after = |unknown: &[(u64, u64, Call)]| verdict(&[unknown, &reads].concat());
        assert!(
            matches!(after(&[(1, 0, Write(7)); 2]), Verdict::Violated { .. }),
            "three answers, two writes"
        );
        assert_eq!(after(&[(1, 0, Write(7)); 3]), Verdict::Linearizable);
        let late = |call| after(&[(1, 0, Write(7)), (1, 0, Write(7)), (call, 0, Write(7))]);
        assert!(matches!(late(13), Verdict::Violated { .. }), "the third is called behind the last answer");
        assert_eq!(late(11), Verdict::Linearizable);
    }

    #[test]
    fn an_unknown_write_explains_nothing_before_its_call() {
        let others = [(1, 0, Write(1)), (1, 0, Write(2)), (1, 0, Write(3))];
        let early = [(2, 3, Read(7)), (5, 0, Write(7))];
        assert!(matches!(verdict(&[&others[..], &early].concat()), Verdict::Violated { .. }));
        let between = [(2, 3, Write(5)), (4, 5, Write(6)), (6, 7, Read(5))];
        let found = verdict(&[&others[..], &between].concat());
        assert!(matches!(found, Verdict::Violated { .. }), "a lost write");
    }

    /// The search first reaches the state of `Write(2)` after `Write(1)`, then again without having spent
    /// that.
    #[test]
    fn a_state_is_tried_again_with_fewer_unknown_writes_spent() {
        let history = [(1, 0, Write(1)), (1, 0, Write(2)), (2, 3, Read(2)), (4, 5, Read(1))];
        assert_eq!(verdict(&history), Verdict::Linearizable);
        let once_more = [&history[..], &[(6, 7, Read(2))]].concat();
        assert!(matches!(verdict(&once_more), Verdict::Violated { .. }));
    }

    /// There are more than a million sets of these.
    #[test]
    fn many_unknown_writes_of_few_values_are_decided() {
        let unknown: Vec<_> = (0..40).map(|i| (1 + i, 0, Write(1 + i as u32 % 2))).collect();
        let wrong = [(100, 101, Read(9))];
        assert!(matches!(verdict(&[&unknown[..], &wrong].concat()), Verdict::Violated { .. }));
        let mut right = unknown;
        for i in 0..20 {
            let at = 100 + 4 * i;
            right.push((at, at + 1, Read(1)));
            right.push((at + 2, at + 3, Read(2)));
        }
        assert_eq!(verdict(&right), Verdict::Linearizable);
        right.push((200, 201, Read(1)));
        assert!(matches!(verdict(&right), Verdict::Violated { .. }), "20 writes of 1 and 21 answers");
    }

    /// Depth first, each of the million sets is tried; with one write spent all states are known.
    #[test]
    fn many_unknown_writes_of_many_values_are_decided() {
        let mut history: Vec<_> = (0..20).map(|i| (1 + i, 0, Write(1 + i as u32))).collect();
        history.push((100, 101, Read(99)));
        assert!(matches!(verdict(&history), Verdict::Violated { .. }));
        history.pop();
        history.extend([
            (100, 101, Read(20)),
            (102, 103, Read(1)),
            (104, 105, Read(7)),
            (106, 107, Read(20)),
        ]);
        assert!(matches!(verdict(&history), Verdict::Violated { .. }), "it came once, and went");
        history.pop();
        assert_eq!(verdict(&history), Verdict::Linearizable);
    }

    /// Tries all orders, one after another.
    fn is_linearizable_naively(history: &[Entry<Linked>], value: u32, done: &mut Vec<bool>) -> bool {
        let is_before = |i: usize, j: usize| {
            let [(a, chain), (b, other)] = [i, j].map(|i| ((history[i].call, i), history[i].what.chain));
            chain.is_some() && chain == other && a < b
        };
        let open = |done: &[bool], i: usize| !done[i];
        if (0..history.len()).all(|i| done[i] || history[i].ret.is_none()) {
            return true;
        }
        let first = (0..history.len()).filter(|i| open(done, *i)).filter_map(|i| history[i].ret).min();
        (0..history.len()).any(|i| {
            let follows = (0..history.len()).all(|j| done[j] || !is_before(j, i));
            if done[i] || !follows || first.is_some_and(|r| history[i].call >= r) {
                return false;
            }
            let next = match (history[i].what.call, history[i].ret) {
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
        for seed in 0..6000 {
            let mut rng = stdx::Rng::from_seed(seed);
            let mut history = Vec::new();
            for _ in 0..rng.range(2, 8) {
                let call = rng.below(20);
                let ret = (!rng.chance(1, 4)).then(|| call + 1 + rng.below(8));
                let value = rng.below(3) as u32;
                let what = if rng.chance(1, 2) { Write(value) } else { Read(value) };
                let chain = (seed % 2 == 1 && rng.chance(2, 3)).then(|| rng.below(2));
                history.push(Entry { call, ret, what: Linked { call: what, chain } });
            }
            let naive = is_linearizable_naively(&history, 0, &mut vec![false; history.len()]);
            let found = check(&Chained(Register(0)), &history);
            assert_eq!(found == Verdict::Linearizable, naive, "seed {seed}: {history:?}");
            let second = search::<Chained>(1000, &history).run_by_spent(&Chained(Register(0)));
            assert_eq!(second, Some(naive), "seed {seed}: {history:?}");
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
