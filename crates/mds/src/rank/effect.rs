//! The outputs of a rank, and the stages of its start.

use crate::io::IoRequest;
use crate::types::ClientId;
use maps::{MdsRank, SnapId};
use node::Level;
use wire::AddrVec;

/// The stages by which a rank comes to serve clients, in order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stage {
    /// Creating a new file system.
    Creating,
    /// Reading tables and journal.
    Replaying,
    /// It has the state of its predecessor, but the MDS map does not say so yet.
    Replayed,
    /// Letting clients reconnect.
    Reconnecting,
    /// It no longer waits for clients.
    Rejoined,
    /// Serves clients.
    Active,
    /// It has handed over everything, and ends.
    Stopped,
}

/// An effect for the daemon to carry out.
#[derive(Debug)]
pub enum Effect {
    /// Carry out an object operation; ends in [`Rank::io_done`](super::Rank::io_done).
    Io(IoRequest),
    /// Send a message to a client.
    Send(ClientId, u64, msgs::Body),
    /// Send a message to another rank, if it can be reached; it is repeated if no answer comes.
    SendRank(MdsRank, peer::Body),
    /// Put a client on the OSDs' blocklist; ends in [`Rank::evicted`](super::Rank::evicted).
    Evict(ClientId, AddrVec),
    /// Ask the monitors for a snapshot id of the data pool; ends in [`Rank::snap_id`](super::Rank::snap_id).
    TakeSnapId,
    /// Remove a snapshot from the data pool; ends in [`Rank::snap_removed`](super::Rank::snap_removed).
    RemoveSnap(SnapId),
    /// A client was evicted: close its connection, so that it notices.
    Closed(ClientId),
    /// A stage of the start is done.
    Reached(Stage),
    /// Log an event.
    Event(Level, &'static str, String),
    /// The rank cannot continue.
    Fail(String),
    /// The journal was trimmed before this standby read it: it must start over.
    Behind,
    /// The OSDs refuse this instance: another one has its place.
    Replaced,
}
