//! Counts of requests, for `perf dump`.

use crate::ops::is_async;
use msgs::{ClientRequest, MdsOp};

/// Requests since the start, by what they ask for. Those that are repeated count again.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Counters {
    requests: u64,
    creates: Count,
    unlinks: Count,
    mkdirs: Count,
    rmdirs: Count,
}

/// Requests of one kind, and how many of them were asynchronous.
#[derive(Clone, Copy, Default, Debug)]
struct Count {
    all: u64,
    asynchronous: u64,
}

impl Counters {
    pub fn count(&mut self, request: &ClientRequest) {
        self.requests += 1;
        let count = match request.op {
            MdsOp::CREATE => &mut self.creates,
            MdsOp::UNLINK => &mut self.unlinks,
            MdsOp::MKDIR => &mut self.mkdirs,
            MdsOp::RMDIR => &mut self.rmdirs,
            _ => return,
        };
        count.all += 1;
        count.asynchronous += u64::from(is_async(request));
    }

    /// The counters for people; Ceph has the first one too.
    pub fn to_json(self) -> serde_json::Value {
        serde_json::json!({
            "handle_client_request": self.requests,
            "req_create": self.creates.all,
            "req_create_async": self.creates.asynchronous,
            "req_unlink": self.unlinks.all,
            "req_unlink_async": self.unlinks.asynchronous,
            "req_mkdir": self.mkdirs.all,
            "req_mkdir_async": self.mkdirs.asynchronous,
            "req_rmdir": self.rmdirs.all,
            "req_rmdir_async": self.rmdirs.asynchronous,
        })
    }
}
