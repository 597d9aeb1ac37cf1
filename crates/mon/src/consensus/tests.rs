//! Random worlds of voters: messages are lost, delayed and overtake one another, processes die with what was
//! not durable, clocks run at different speeds, voters come and go. At every step: one leader a term,
//! committed entries never change, what was acknowledged stays, a read sees every write that was acknowledged
//! before it began.

use super::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use stdx::{Instant, Rng};

mod scripted;

const MS: u64 = 1_000_000;

/// The part of a voter that survives a crash.
#[derive(Clone, Default)]
struct Stored {
    term: u64,
    vote: Option<VoterId>,
    base: Position,
    voters: Voters,
    entries: Vec<Entry>,
    /// The values of all entries up to the base.
    state: Vec<u64>,
}

impl Stored {
    fn write(&mut self, unsaved: &Unsaved) {
        if let Some((term, vote)) = unsaved.hard {
            (self.term, self.vote) = (term, vote);
        }
        if let Some(from) = unsaved.truncate {
            self.entries.retain(|e| e.at.index < from);
        }
        self.entries.extend(unsaved.entries.iter().cloned());
    }
}

struct Peer {
    id: VoterId,
    raft: Option<Raft>,
    stored: Stored,
    /// Write in progress and the time at which it is durable; a snapshot replaces everything before.
    writing: Option<(u64, Unsaved, Option<Stored>)>,
    /// A snapshot that was taken over and waits to be written.
    snapshot: Option<Stored>,
    applied: Vec<u64>,
    /// Speed of its clock in millionths.
    speed: u64,
    removed: bool,
}

enum Event {
    Message(VoterId, VoterId, Message),
    Snapshot(VoterId, VoterId, u64, Stored),
    Lost(VoterId, VoterId),
}

struct Net {
    now: u64,
    rng: Rng,
    peers: BTreeMap<VoterId, Peer>,
    queue: BTreeMap<(u64, u64), Event>,
    next: u64,
    cut: BTreeSet<(VoterId, VoterId)>,
    lossy: u64,
    leaders: BTreeMap<u64, VoterId>,
    /// Committed values by index, as any voter has seen them.
    history: Vec<u64>,
    /// Values whose proposers were told that they are committed, and how long the history was at least.
    acked: usize,
    pending: Vec<(VoterId, u64, u64, u64)>,
    next_value: u64,
    reads: u64,
}

fn local(now: u64, speed: u64) -> Instant {
    Instant((u128::from(now) * u128::from(speed) / 1_000_000) as u64)
}

impl Net {
    fn new(seed: u64, count: u64) -> Self {
        let mut rng = Rng::from_seed(seed);
        let voters: Voters = (1..=count).map(|n| (VoterId(n), format!("m{n}"))).collect();
        let lossy = if rng.chance(1, 3) { 0 } else { rng.range(5, 100) };
        let mut net = Self {
            now: 1000 * MS,
            rng,
            peers: BTreeMap::new(),
            queue: BTreeMap::new(),
            next: 0,
            cut: BTreeSet::new(),
            lossy,
            leaders: BTreeMap::new(),
            history: Vec::new(),
            acked: 0,
            pending: Vec::new(),
            next_value: 1,
            reads: 0,
        };
        for id in voters.keys() {
            net.add(*id, Stored { voters: voters.clone(), ..Stored::default() });
        }
        net
    }

    fn add(&mut self, id: VoterId, stored: Stored) {
        let speed = 990_000 + self.rng.below(20_000);
        let (writing, snapshot) = (None, None);
        let peer = Peer { id, raft: None, stored, writing, snapshot, applied: vec![], speed, removed: false };
        self.peers.insert(id, peer);
        self.start(id);
    }

    fn start(&mut self, id: VoterId) {
        let rng = self.rng.fork();
        let now = self.now;
        let peer = self.peers.get_mut(&id).expect("known");
        let Stored { term, vote, base, voters, entries, state } = peer.stored.clone();
        peer.applied = state;
        (peer.writing, peer.snapshot) = (None, None);
        let restored = Restored { term, vote, base, voters, entries };
        peer.raft = Some(Raft::new(id, Timing::default(), rng, restored, local(now, peer.speed)));
    }

    fn crash(&mut self, id: VoterId) {
        let peer = self.peers.get_mut(&id).expect("known");
        peer.raft = None;
        // A write in progress may or may not have reached the disk.
        if let Some((_, unsaved, snapshot)) = peer.writing.take()
            && self.rng.chance(1, 2)
        {
            if let Some(snapshot) = snapshot {
                let (term, vote) = (peer.stored.term, peer.stored.vote);
                peer.stored = Stored { term, vote, ..snapshot };
            }
            peer.stored.write(&unsaved);
        }
        self.pending.retain(|(at, ..)| *at != id);
    }

    fn post(&mut self, from: VoterId, to: VoterId, event: Event) {
        let dropped = self.cut.contains(&(from, to)) || self.lossy > 0 && self.rng.chance(1, self.lossy);
        let event = match event {
            // The sender of a snapshot finds out that it did not get there.
            Event::Snapshot(..) if dropped => Event::Lost(from, to),
            _ if dropped => return,
            event => event,
        };
        let slow = if self.rng.chance(1, 50) { 100 } else { 1 };
        let at = self.now + self.rng.range(MS / 10, MS) * slow;
        self.next += 1;
        self.queue.insert((at, self.next), event);
    }

    /// Feeds one voter and looks at everything that may follow.
    fn with(&mut self, id: VoterId, feed: impl FnOnce(&mut Raft, Instant, &mut Vec<Effect>)) {
        let now = self.now;
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let at = local(now, peer.speed);
        let Some(raft) = &mut peer.raft else { return };
        let mut effects = Vec::new();
        let was_leader = raft.is_leader();
        feed(raft, at, &mut effects);
        if raft.is_leader() && !was_leader {
            raft.propose(Arc::new(0u64.to_le_bytes().to_vec()), None);
        }
        raft.flush(at, &mut effects);
        if raft.is_leader() {
            let term = raft.term();
            let other = *self.leaders.entry(term).or_insert(id);
            assert_eq!(other, id, "two leaders in term {term}");
        }
        self.apply(id);
        for effect in effects {
            match effect {
                Effect::Send(to, message) => self.post(id, to, Event::Message(id, to, message)),
                Effect::Snapshot(to) => self.send_snapshot(id, to),
                Effect::Committed => {}
            }
        }
        self.write(id);
        self.acknowledge(id);
    }

    fn apply(&mut self, id: VoterId) {
        let peer = self.peers.get_mut(&id).expect("known");
        let Some(raft) = &peer.raft else { return };
        while (peer.applied.len() as u64) < raft.committed() {
            let index = peer.applied.len() as u64 + 1;
            let entry = raft.entry(index).expect("committed entries are in the log");
            let value = u64::from_le_bytes(entry.data[..8].try_into().expect("eight bytes"));
            peer.applied.push(value);
            match self.history.get(index as usize - 1) {
                Some(known) => assert_eq!(*known, value, "entry {index} differs at {id}"),
                None => self.history.push(value),
            }
            if entry.voters.as_ref().is_some_and(|v| !v.contains_key(&id)) {
                peer.removed = true;
            }
        }
    }

    fn send_snapshot(&mut self, from: VoterId, to: VoterId) {
        let peer = &self.peers[&from];
        let Some(raft) = &peer.raft else { return };
        let index = peer.applied.len() as u64;
        let term = raft.log.term_at(index).expect("applied entries are at or after the base");
        let voters = (**raft.log.voters_at(index)).clone();
        let base = Position { term, index };
        let stored = Stored { base, voters, state: peer.applied.clone(), ..Stored::default() };
        let term = raft.term();
        self.post(from, to, Event::Snapshot(from, to, term, stored));
    }

    fn write(&mut self, id: VoterId) {
        let time = self.now + self.rng.range(MS / 5, 20 * MS);
        let peer = self.peers.get_mut(&id).expect("known");
        let Some(raft) = &mut peer.raft else { return };
        if peer.writing.is_none() && (raft.has_unsaved() || peer.snapshot.is_some()) {
            peer.writing = Some((time, raft.take_unsaved(), peer.snapshot.take()));
        }
    }

    fn written(&mut self, id: VoterId) {
        let peer = self.peers.get_mut(&id).expect("known");
        let (_, unsaved, snapshot) = peer.writing.take().expect("was due");
        if let Some(snapshot) = snapshot {
            let (term, vote) = (peer.stored.term, peer.stored.vote);
            peer.stored = Stored { term, vote, ..snapshot };
        }
        peer.stored.write(&unsaved);
        let mark = unsaved.mark;
        self.with(id, |raft, now, out| raft.saved(now, mark, out));
        if self.rng.chance(1, 10) {
            self.compact(id);
        }
    }

    /// A checkpoint, with some entries kept for those who are a little late.
    fn compact(&mut self, id: VoterId) {
        let keep = self.rng.below(8);
        let peer = self.peers.get_mut(&id).expect("known");
        let Some(raft) = &mut peer.raft else { return };
        if peer.writing.is_some() || peer.snapshot.is_some() {
            return;
        }
        let stored_to = peer.stored.entries.last().map_or(peer.stored.base.index, |e| e.at.index);
        let index = (peer.applied.len() as u64).min(stored_to).saturating_sub(keep);
        raft.compact(index);
        let base = raft.base();
        if base.index > peer.stored.base.index {
            peer.stored.voters = (**raft.log.voters_at(base.index)).clone();
            peer.stored.base = base;
            peer.stored.entries.retain(|e| e.at.index > base.index);
            peer.stored.state = peer.applied[..base.index as usize].to_vec();
        }
    }

    /// Tells proposers what is committed.
    fn acknowledge(&mut self, id: VoterId) {
        let peer = &self.peers[&id];
        let Some(raft) = &peer.raft else { return };
        let (term, applied) = (raft.term(), peer.applied.len() as u64);
        let leads = raft.is_leader();
        let mut done = 0;
        self.pending.retain(|(at, index, in_term, value)| {
            if *at != id {
                return true;
            }
            if *index <= applied && leads && term == *in_term {
                assert_eq!(peer.applied[*index as usize - 1], *value);
                done = done.max(*index);
                return false;
            }
            leads && term == *in_term
        });
        self.acked = self.acked.max(done as usize);
    }

    fn propose(&mut self) {
        let leader = self.peers.values().filter(|p| p.raft.as_ref().is_some_and(Raft::is_leader));
        let Some(id) = leader.map(|p| p.id).collect::<Vec<_>>().first().copied() else { return };
        let value = self.next_value;
        self.next_value += 1;
        let mut proposed = None;
        self.with(id, |raft, _, _| {
            proposed = raft.propose(Arc::new(value.to_le_bytes().to_vec()), None).map(|i| (i, raft.term()));
        });
        if let Some((index, term)) = proposed {
            self.pending.push((id, index, term, value));
        }
    }

    /// Every monitor that believes it may answer reads must know what was acknowledged.
    fn read(&mut self) {
        for peer in self.peers.values() {
            let Some(raft) = &peer.raft else { continue };
            if raft.may_read(local(self.now, peer.speed)) {
                self.reads += 1;
                let known = peer.applied.len();
                assert!(
                    known >= self.acked,
                    "{} reads {known} entries, {} were acknowledged",
                    peer.id,
                    self.acked
                );
            }
        }
    }

    fn change_voters(&mut self) {
        let Some((id, voters)) = self.peers.values().find_map(|p| {
            let raft = p.raft.as_ref()?;
            raft.may_change_voters().then(|| (p.id, (**raft.voters()).clone()))
        }) else {
            return;
        };
        let mut next = voters.clone();
        let learner = self.peers.values().find(|p| !voters.contains_key(&p.id) && !p.removed).map(|p| p.id);
        let remove = *self.rng.pick(&voters.keys().copied().collect::<Vec<_>>());
        match learner {
            Some(new) => {
                let mut ready = false;
                self.with(id, |raft, _, _| {
                    raft.add_learner(new);
                    ready = raft.is_caught_up(new);
                });
                if !ready {
                    return;
                }
                next.insert(new, format!("m{}", new.0));
            }
            None if voters.len() < 5 && self.rng.chance(1, 2) => {
                let new = VoterId(self.peers.len() as u64 + 1);
                return self.add(new, Stored::default());
            }
            None if voters.len() > 2 => drop(next.remove(&remove)),
            None => return,
        }
        self.with(id, |raft, _, _| {
            raft.propose(Arc::new(0u64.to_le_bytes().to_vec()), Some(next));
        });
    }

    /// The next thing that happens, at the latest at `until`.
    fn step(&mut self, until: u64) {
        let timers = self.peers.values().filter_map(|p| {
            let at = p.raft.as_ref()?.deadline()?;
            Some((u128::from(at.0) * 1_000_000 / u128::from(p.speed)) as u64 + 2)
        });
        let disks = self.peers.values().filter_map(|p| p.writing.as_ref().map(|(at, ..)| *at));
        let messages = self.queue.keys().next().map(|(at, _)| *at);
        let next = timers.chain(disks).chain(messages).min().unwrap_or(until).max(self.now);
        self.now = next.min(until);
        if next > until {
            return;
        }
        if let Some(entry) = self.queue.first_entry()
            && entry.key().0 <= self.now
        {
            match entry.remove() {
                Event::Message(from, to, message) => {
                    self.with(to, |raft, now, out| raft.step(now, from, message, out));
                }
                Event::Lost(from, to) => self.with(from, |raft, _, _| raft.lost(to)),
                Event::Snapshot(from, to, term, stored) => self.take_snapshot(from, to, term, stored),
            }
        }
        for id in self.peers.keys().copied().collect::<Vec<_>>() {
            if self.peers[&id].writing.as_ref().is_some_and(|(at, ..)| *at <= self.now) {
                self.written(id);
            }
            let due = self.peers[&id].raft.as_ref().and_then(Raft::deadline);
            if due.is_some_and(|at| at <= local(self.now, self.peers[&id].speed)) {
                self.with(id, |raft, now, out| raft.tick(now, out));
            }
        }
        self.read();
    }

    fn take_snapshot(&mut self, from: VoterId, to: VoterId, term: u64, stored: Stored) {
        let now = self.now;
        let peer = self.peers.get_mut(&to).expect("known");
        let at = local(now, peer.speed);
        if let Some(raft) = &mut peer.raft
            && raft.hear(at, from, term)
            && raft.install(stored.base, stored.voters.clone())
        {
            for (i, value) in stored.state.iter().enumerate() {
                assert_eq!(self.history.get(i), Some(value), "a snapshot holds what is committed");
            }
            peer.applied = stored.state.clone();
            peer.snapshot = Some(stored);
            self.write(to);
        }
        // The sender looks again, whether it arrived or not.
        self.with(from, |raft, _, _| raft.lost(to));
    }

    fn misfortune(&mut self) {
        let ids: Vec<VoterId> = self.peers.keys().copied().collect();
        let (a, b) = (*self.rng.pick(&ids), *self.rng.pick(&ids));
        match self.rng.below(10) {
            0..=2 if self.peers[&a].raft.is_some() => self.crash(a),
            0..=4 if self.peers[&a].raft.is_none() => self.start(a),
            5 => drop(self.cut.insert((a, b))),
            6 => {
                for other in ids {
                    self.cut.insert((a, other));
                    self.cut.insert((other, a));
                }
            }
            7 | 8 => self.cut.clear(),
            9 => self.with(a, |raft, now, out| raft.resign(now, out)),
            _ => {}
        }
    }

    fn run(&mut self, until: u64, misfortune: bool, voters_change: bool) {
        while self.now < until {
            let pause = self.rng.range(5, 300) * MS;
            let end = (self.now + pause).min(until);
            while self.now < end {
                self.step(end);
            }
            self.propose();
            if misfortune {
                self.misfortune();
            }
            if voters_change {
                self.change_voters();
            }
        }
    }

    fn heal(&mut self) {
        self.cut.clear();
        self.lossy = 0;
        for id in self.peers.keys().copied().collect::<Vec<_>>() {
            if self.peers[&id].raft.is_none() {
                self.start(id);
            }
        }
    }
}

fn one(seed: u64) -> (usize, u64) {
    let count = [1, 3, 3, 3, 5][(seed % 5) as usize];
    let mut net = Net::new(seed, count);
    let changes = seed.is_multiple_of(3);
    net.run(net.now + 15_000 * MS, true, changes);
    net.heal();
    let before = net.history.len();
    net.run(net.now + 6_000 * MS, false, false);
    assert!(net.history.len() > before + 3, "seed {seed}: nothing is committed without faults");
    let leader = net.peers.values().find(|p| p.raft.as_ref().is_some_and(Raft::is_active)).expect("a leader");
    let voters = leader.raft.as_ref().expect("runs").voters().clone();
    let (known, id) = (leader.applied.len(), leader.id);
    assert!(known >= net.acked);
    for voter in voters.keys().filter(|v| **v != id) {
        let peer = &net.peers[voter];
        assert!(
            peer.applied.len() + 3 >= known,
            "seed {seed}: {voter} has {} of {known}",
            peer.applied.len()
        );
    }
    (net.acked, net.reads)
}

#[test]
fn nothing_acknowledged_is_lost_and_no_read_is_old_in_two_thousand_bad_worlds() {
    let (mut acked, mut reads) = (0, 0);
    for seed in 0..2000 {
        let found = std::panic::catch_unwind(|| one(seed)).unwrap_or_else(|e| {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(e)
        });
        acked += found.0;
        reads += found.1;
    }
    assert!(
        acked > 50_000 && reads > 100_000,
        "{acked} writes and {reads} reads are too few to mean anything"
    );
}

/// Time until the next acknowledgement, asserted to be bounded.
fn until_commit(net: &mut Net, seed: u64) -> Duration {
    let (began, before) = (net.now, net.acked);
    let mut waited = Duration::ZERO;
    while net.acked == before {
        net.run(net.now + 20 * MS, false, false);
        waited = Duration::from_nanos(net.now - began);
        assert!(waited < Duration::from_millis(2500), "seed {seed}: {waited:?} without a commit");
    }
    waited
}

#[test]
fn the_time_without_a_leader_is_bounded() {
    for seed in 0..100 {
        let mut net = Net::new(seed, 3);
        net.lossy = 0;
        net.run(net.now + 4_000 * MS, false, false);
        let leader = *net.leaders.values().last().expect("one was elected");
        net.crash(leader);
        until_commit(&mut net, seed);
    }
}

#[test]
fn a_leader_that_resigns_is_followed_at_once() {
    let mut slow = 0;
    for seed in 0..100 {
        let mut net = Net::new(seed, 3);
        net.lossy = 0;
        net.run(net.now + 4_000 * MS, false, false);
        let leader = *net.leaders.values().last().expect("one was elected");
        // Here messages overtake one another, and a sign of life that came after the resignation would count.
        let quiet = net.now + 100 * MS;
        while net.now < quiet {
            net.step(quiet);
        }
        net.with(leader, |raft, now, out| raft.resign(now, out));
        net.crash(leader);
        slow += usize::from(until_commit(&mut net, seed) > Duration::from_millis(400));
    }
    // One message in fifty is slow, and is overtaken as well.
    assert!(slow <= 20, "{slow} of 100 elections took longer than messages and writes do");
}
