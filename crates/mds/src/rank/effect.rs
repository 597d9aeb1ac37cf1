//! The outputs of a rank, and the stages of its start.

use crate::io::IoRequest;
use crate::types::ClientId;
use node::Level;
use wire::AddrVec;

/// The steps by which a rank comes to serve clients, in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stage {
    /// Makes a new file system.
    Creating,
    /// Reads tables and journal.
    Replaying,
    /// Has the state of its predecessor; the MDS map does not say so yet.
    Replayed,
    /// Takes back clients.
    Reconnecting,
    /// No longer waits for clients.
    Rejoined,
    /// Serves clients.
    Active,
}

/// A thing that a rank wants done.
#[derive(Debug)]
pub enum Effect {
    /// Carry out an object operation; ends in [`Rank::io_done`](super::Rank::io_done).
    Io(IoRequest),
    /// Send a message to a client.
    Send(ClientId, u64, msgs::Body),
    /// Put a client on the OSDs' blocklist; ends in [`Rank::evicted`](super::Rank::evicted).
    Evict(ClientId, AddrVec),
    /// The client was evicted: close its connection, so that it learns of it.
    Closed(ClientId),
    /// A stage of the start is done.
    Reached(Stage),
    /// Log an event.
    Event(Level, &'static str, String),
    /// The rank can't go on.
    Fail(String),
    /// The OSDs refuse this instance: another one has its place.
    Replaced,
}
