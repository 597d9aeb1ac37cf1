//! Counts of requests, for `perf dump`.

use crate::ops::is_async;
use msgs::{ClientRequest, MdsOp};

/// Requests since the start, by what they ask for. Those that are repeated count again.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Counters {
    requests: u64,
    creates: u64,
    async_creates: u64,
    unlinks: u64,
    async_unlinks: u64,
}

impl Counters {
    pub fn count(&mut self, request: &ClientRequest) {
        let asynchronous = u64::from(is_async(request));
        self.requests += 1;
        match request.op {
            MdsOp::CREATE => {
                self.creates += 1;
                self.async_creates += asynchronous;
            }
            MdsOp::UNLINK => {
                self.unlinks += 1;
                self.async_unlinks += asynchronous;
            }
            _ => {}
        }
    }

    /// The counters for people; Ceph has the first one too.
    pub fn to_json(self) -> serde_json::Value {
        serde_json::json!({
            "handle_client_request": self.requests,
            "req_create": self.creates,
            "req_create_async": self.async_creates,
            "req_unlink": self.unlinks,
            "req_unlink_async": self.async_unlinks,
        })
    }
}
