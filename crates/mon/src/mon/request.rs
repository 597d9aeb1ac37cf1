//! A request of a session, as it is passed to what handles it.

use node::ConnId;

/// A message that a session sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    /// The session's connection.
    pub conn: ConnId,
    /// The transaction id that the answer carries.
    pub tid: u64,
    /// Origin of a command whose client may send it again.
    pub origin: Option<Origin>,
}

/// Identifies a command of a client. The client may send it again to another monitor if it hears nothing, so
/// its outcome is part of the replicated state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    /// The client's global id.
    pub client: u64,
    /// The command's transaction id.
    pub tid: u64,
    /// The command was carried out already, and its answer was lost with a leader or a connection. It changes
    /// nothing now.
    pub is_duplicate: bool,
}
