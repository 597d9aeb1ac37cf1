//! This monitor's view of the leader, the time without one, and the global ids that the leader allotted.

use crate::bootstrap::GLOBAL_ID_STEP;
use crate::consensus::VoterId;
use std::ops::Range;
use std::time::Duration;
use stdx::Instant;

/// A monitor without a leader for this long sends its clients away, as other monitors may have one. An
/// election takes much less. Including the time to notice a lost leader, a client of an isolated monitor
/// waits at most 2.5 s.
const LEADERLESS_GRACE: Duration = Duration::from_millis(800);

/// A leader: its store and term.
pub(crate) type Leader = (VoterId, u64);

/// The leader that this monitor acted upon last.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    /// The leader that clients' requests go to. It has committed an entry of its term, so it may decide.
    leader: Option<Leader>,
    /// The term in which this monitor leads; set even before it may decide.
    leading_term: Option<u64>,
    /// Set while there is no leader.
    leaderless_since: Option<Instant>,
    /// Clients were sent away because there is no leader.
    sent_clients_away: bool,
}

impl Standing {
    /// The leader that requests go to.
    pub fn leader(&self) -> Option<Leader> {
        self.leader
    }

    /// Sets the term in which this monitor leads. Returns true if it changed.
    pub fn set_leading_term(&mut self, term: Option<u64>) -> bool {
        std::mem::replace(&mut self.leading_term, term) != term
    }

    /// Sets the leader. Returns true if it changed.
    pub fn set_leader(&mut self, now: Instant, leader: Option<Leader>) -> bool {
        if self.leader == leader {
            return false;
        }
        self.leader = leader;
        (self.leaderless_since, self.sent_clients_away) = match leader {
            Some(_) => (None, false),
            None => (Some(now), self.sent_clients_away),
        };
        true
    }

    /// Notes that there is no leader. Returns true once, when clients are to be sent away.
    pub fn give_up_on_leader(&mut self, now: Instant) -> bool {
        let since = *self.leaderless_since.get_or_insert(now);
        now.since(since) >= LEADERLESS_GRACE && !std::mem::replace(&mut self.sent_clients_away, true)
    }

    /// The time at which [`Self::give_up_on_leader`] returns true.
    pub fn deadline(&self) -> Option<Instant> {
        let since = self.leaderless_since.filter(|_| !self.sent_clients_away)?;
        Some(since + LEADERLESS_GRACE)
    }
}

/// The global ids that this monitor may give to new clients.
#[derive(Debug, Default)]
pub(crate) struct GlobalIdRange {
    ids: Range<u64>,
    /// More ids were requested and have not arrived.
    is_asked: bool,
}

impl GlobalIdRange {
    /// True if there are no ids.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// True if a client with this id shows that half of the ids are used up.
    pub fn runs_out_with(&self, id: u64) -> bool {
        self.ids.contains(&id) && id >= self.refill_from()
    }

    /// The number of ids that are left when more are asked for.
    pub fn left(&self) -> u64 {
        self.ids.end.saturating_sub(self.refill_from())
    }

    /// Begins to ask for ids. Returns false if a request is outstanding.
    pub fn ask(&mut self) -> bool {
        !std::mem::replace(&mut self.is_asked, true)
    }

    /// Notes that the request or its answer was lost.
    pub fn ask_again(&mut self) {
        self.is_asked = false;
    }

    /// True if all ids of this monitor are below `id`.
    pub fn is_before(&self, id: u64) -> bool {
        id >= self.ids.end
    }

    /// Takes a range that was committed for this monitor.
    pub fn take(&mut self, ids: Range<u64>) {
        self.ids = ids;
        self.is_asked = false;
    }

    fn refill_from(&self) -> u64 {
        self.ids.end.saturating_sub(GLOBAL_ID_STEP / 2)
    }
}
