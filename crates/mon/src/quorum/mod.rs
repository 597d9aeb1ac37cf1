//! This monitor among the others: connections between them ([`links`]), who votes ([`members`]), what a change of leaders means
//! ([`lead`]), how a monitor that does not lead serves its clients ([`forward`]), whole states for those who are far behind
//! ([`snapshot`]).

pub(crate) mod codec;
mod forward;
mod info;
mod lead;
mod links;
mod members;
mod snapshot;
mod watch;

pub(crate) use forward::{Forward, is_proxy};
pub(crate) use info::QuorumInfo;
pub(crate) use links::Links;
pub(crate) use snapshot::Snapshots;
pub use watch::{Seen, read_lease, seen};

use crate::consensus::VoterId;
use std::time::Duration;
use stdx::Instant;

/// Without a leader for so long, a monitor sends its clients away: others may be better off. An election takes much less; with the
/// time that it takes to miss a leader, a client of a monitor that was cut off waits no longer than 2.5 s.
const LONELY: Duration = Duration::from_millis(800);

/// What changed last.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    /// The leader that clients' requests go to, once it may decide: its store and term.
    pub leader: Option<(VoterId, u64)>,
    /// Whether this monitor led when it was last looked at, also before it may decide.
    pub leading_term: Option<u64>,
    /// Since when there is no leader.
    pub lonely_since: Option<Instant>,
    /// Whether clients were sent away.
    pub closed: bool,
    /// Global ids: the range given last, from which id of it on more are due, and whether they are asked for.
    pub ids: std::ops::Range<u64>,
    pub ids_due: u64,
    pub ids_asked: bool,
}
