//! The states of a PG on one OSD, and all transitions between them in one table.

use std::fmt;

/// State of a PG.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum State {
    /// A new interval or round has begun and nothing was asked yet.
    #[default]
    Reset,
    /// Primary: asks those who may have taken part since the PG was last active what they have.
    GetInfo,
    /// Primary: an interval may have been written in, and all its members are down.
    Down,
    /// Primary: nobody who answered has a complete and new enough copy.
    Incomplete,
    /// Primary: fetches the log of the best copy.
    GetLog,
    /// Primary: its own copy is too old for the log, it compares all objects with a complete one.
    SelfBackfill,
    /// Primary: learns what the other members lack.
    GetMissing,
    /// Primary: waits until the map says that it was up in this interval.
    WaitUpThru,
    /// Primary: the members make log and info durable, and earlier primaries' leases run out.
    Activating,
    /// Primary: serves (if there are enough members), and completes copies in the background.
    Active,
    /// Primary: serves, and all members have everything.
    Clean,
    /// Not primary: waits for the primary.
    Stray,
    /// Not primary: takes part.
    ReplicaActive,
}

use State::{
    Activating, Active, Clean, Down, GetInfo, GetLog, GetMissing, Incomplete, ReplicaActive, Reset,
    SelfBackfill, Stray, WaitUpThru,
};

/// Every transition, with what brings it about. From each state a new interval leads to `Reset`; so does, at
/// the primary, a connection that was lost with something unanswered on it.
pub const TRANSITIONS: &[(State, State, &str)] = &[
    (Reset, GetInfo, "we are primary"),
    (Reset, Stray, "we are not"),
    (GetInfo, Down, "an interval that may have been written in has no member up"),
    (Down, Reset, "a map in which OSDs came or went"),
    (GetInfo, Incomplete, "all answered, no copy is complete and new enough"),
    (Incomplete, Reset, "another copy has turned up"),
    (GetInfo, GetLog, "all answered, the best copy is another OSD's"),
    (GetInfo, GetMissing, "all answered, our copy is the best"),
    (GetLog, GetMissing, "the log is merged"),
    (GetLog, SelfBackfill, "the log does not reach back to our copy"),
    (SelfBackfill, GetMissing, "our copy is complete"),
    (GetMissing, WaitUpThru, "the map does not say yet that we are up"),
    (GetMissing, Activating, "it does"),
    (WaitUpThru, Activating, "the map says that we were up in this interval"),
    (Activating, Active, "all members have log and info durable, no earlier lease is left"),
    (Active, Clean, "nothing is missing anywhere"),
    (
        Clean,
        Active,
        "a member had no room for an update, or its copy is damaged and another one has the object",
    ),
    (Stray, ReplicaActive, "the primary's log"),
    (ReplicaActive, ReplicaActive, "the primary has begun another round"),
];

impl State {
    /// True if the table has this transition.
    pub fn may_become(self, next: Self) -> bool {
        next == Reset || TRANSITIONS.iter().any(|(from, to, _)| (*from, *to) == (self, next))
    }

    /// True if peering is complete: clients are served, if there are enough members.
    pub fn is_active(self) -> bool {
        matches!(self, Active | Clean)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_is_reached_and_none_is_left_without_reason() {
        for (_, to, _) in TRANSITIONS {
            let reached = *to == Reset || TRANSITIONS.iter().any(|(_, t, _)| t == to);
            assert!(reached);
        }
        for (from, to, _) in TRANSITIONS {
            assert!(from.may_become(*to));
        }
        assert!(!GetInfo.may_become(Active));
        assert!(!Stray.may_become(Active));
        assert!(Clean.may_become(Reset));
    }
}
