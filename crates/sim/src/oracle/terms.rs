//! Checkers of the monitors' consensus, from outside, by the messages that they send to one another.
//!
//! `one_leader_per_term`: whatever each of them lost with its power. `lease_is_exclusive`: no monitor leads
//! while the leader before it may still answer reads. `reads_under_lease`: a leader answers reads no longer
//! than its lease.

use crate::host::HostId;
use mon::Seen;
use node::{Body, Msg};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use stdx::Instant;

/// The most by which clocks differ over the time of a lease.
const DRIFT: Duration = Duration::from_millis(30);
/// The longest time after its lease in which a leader sends earlier answers, which waited for a commit.
const LATE: Duration = Duration::from_millis(150);

/// The leaders of all terms, and the state of the newest leader.
#[derive(Default)]
pub struct Terms {
    /// The number of monitors, until the voters are known.
    count: usize,
    /// Voters by their stores, from this index of the log on. A monitor that has lost its store is heard but
    /// does not count.
    voters: Option<(u64, Vec<u64>)>,
    leaders: BTreeMap<u64, HostId>,
    /// Send times of the newest leader's messages, by their own number.
    sent: BTreeMap<u64, Instant>,
    /// Send time of the newest of those messages that each other monitor's store has heard.
    heard: BTreeMap<u64, Instant>,
    /// The time at which the newest leader resigned.
    resigned: Option<Instant>,
    /// Forwarded requests: their answers are not the sender's own.
    handed_on: BTreeSet<(HostId, u64)>,
}

impl Terms {
    /// A checker for this number of voters.
    pub fn new(voters: usize) -> Self {
        Self { count: voters, ..Self::default() }
    }

    /// The newest term and its leader.
    pub fn newest(&self) -> Option<(u64, HostId)> {
        self.leaders.last_key_value().map(|(term, host)| (*term, *host))
    }

    /// Observes a message as it is sent.
    pub fn observe(&mut self, now: Instant, from: HostId, msg: &Msg) -> Option<(&'static str, String)> {
        if let Body::Client(msgs::Body::MonCommandAck(ack)) = &msg.body {
            let reads = ack.cmd.iter().any(|text| text.contains("config-key get"));
            return if reads { self.answered(now, from, msg.tid) } else { None };
        }
        match mon::seen(&msg.body)? {
            Seen::Leads { term, sent, voters } => {
                let found = self.leads(now, from, term, sent);
                if self.newest() == Some((term, from)) {
                    self.voters = self.voters.take().max(voters);
                }
                found
            }
            Seen::Hears { store, term, sent } => {
                if let Some(at) = self.sent.get(&sent).filter(|_| self.newest().is_some_and(|n| n.0 == term))
                {
                    let heard = self.heard.entry(store).or_insert(*at);
                    *heard = (*heard).max(*at);
                }
                None
            }
            Seen::Resigns { term } => {
                if self.newest() == Some((term, from)) {
                    self.resigned.get_or_insert(now);
                }
                None
            }
            Seen::HandsOn { tid } => {
                self.handed_on.insert((from, tid));
                None
            }
        }
    }

    fn leads(&mut self, now: Instant, from: HostId, term: u64, sent: u64) -> Option<(&'static str, String)> {
        let former = self.newest();
        let first = *self.leaders.entry(term).or_insert(from);
        if first != from {
            return Some(("one_leader_per_term", format!("{first} and {from} lead in term {term}")));
        }
        let mut found = None;
        if former == Some((term, from)) && self.resigned.is_some() {
            return Some(("one_leader_per_term", format!("{from} leads term {term} after it has resigned")));
        }
        if former.is_none_or(|(newest, _)| newest < term) {
            let ends = self.lease_ends().filter(|ends| *ends > now + DRIFT);
            if let (Some((_, former)), Some(ends)) = (former.filter(|f| f.1 != from), ends) {
                let what = format!("{from} leads term {term}, and {former} may answer until {ends:?}");
                found = Some(("lease_is_exclusive", what));
            }
            self.sent.clear();
            self.heard.clear();
            self.resigned = None;
        }
        if self.newest() == Some((term, from)) {
            self.sent.entry(sent).or_insert(now);
        }
        found
    }

    fn answered(&self, now: Instant, from: HostId, tid: u64) -> Option<(&'static str, String)> {
        let ends = self.lease_ends().filter(|_| self.newest().is_some_and(|n| n.1 == from))?;
        let is_late = now > ends + LATE && !self.handed_on.contains(&(from, tid));
        is_late.then(|| ("reads_under_lease", format!("{from} answers a read; its lease ended at {ends:?}")))
    }

    /// The end of the newest leader's lease; `None` before a quorum has heard it.
    fn lease_ends(&self) -> Option<Instant> {
        let counts = |store: &u64| self.voters.as_ref().is_none_or(|(_, voters)| voters.contains(store));
        let mut heard: Vec<Instant> =
            self.heard.iter().filter(|(store, _)| counts(store)).map(|(_, at)| *at).collect();
        heard.sort_unstable();
        // The leader itself counts too.
        let others = self.voters.as_ref().map_or(self.count, |(_, voters)| voters.len()) / 2;
        let nth = heard.len().checked_sub(others).filter(|_| others > 0)?;
        let ends = heard[nth] + mon::read_lease();
        Some(self.resigned.map_or(ends, |at| at.min(ends)))
    }
}
