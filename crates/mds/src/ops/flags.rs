//! The flags of a request.

use msgs::{ClientRequest, request_flag};

/// True if a client repeats a request that it has an early answer to, because a crash of the rank may have
/// lost what it did.
pub fn is_replay(request: &ClientRequest) -> bool {
    request.flags & request_flag::REPLAY != 0
}

/// True if the client has already told its caller that the request succeeded.
pub fn is_async(request: &ClientRequest) -> bool {
    request.flags & request_flag::ASYNC != 0
}
