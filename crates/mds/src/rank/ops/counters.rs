//! Counts of requests.

use crate::ops::is_async;
use decl::perf::Group;
use msgs::{ClientRequest, MdsOp};

/// Requests since the start, by what they ask for. Those that are repeated count again.
#[derive(Clone, Copy, Default, Debug)]
pub(in crate::rank) struct Counters {
    requests: u64,
    forwards: u64,
    of_ranks: u64,
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
    /// A request comes.
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

    /// A request is sent on to another rank.
    pub fn count_forward(&mut self) {
        self.forwards += 1;
    }

    /// Another rank asks for something, or answers.
    pub fn count_rank(&mut self) {
        self.of_ranks += 1;
    }

    /// Requests since the start.
    pub fn requests(self) -> u64 {
        self.requests
    }

    /// Requests that were sent on to another rank.
    pub fn forwards(self) -> u64 {
        self.forwards
    }

    /// Lists the counters; Ceph has the first two as well.
    pub fn put_perf(self, group: &mut Group) {
        group
            .count("handle_client_request", self.requests, "Requests of clients")
            .count("handle_peer_request", self.of_ranks, "Messages of other ranks")
            .count("req_create", self.creates.all, "Requests to create a file")
            .count("req_create_async", self.creates.asynchronous, "Those for which nobody waits")
            .count("req_unlink", self.unlinks.all, "Requests to unlink")
            .count("req_unlink_async", self.unlinks.asynchronous, "Those for which nobody waits")
            .count("req_mkdir", self.mkdirs.all, "Requests to make a directory")
            .count("req_mkdir_async", self.mkdirs.asynchronous, "Those for which nobody waits")
            .count("req_rmdir", self.rmdirs.all, "Requests to remove a directory")
            .count("req_rmdir_async", self.rmdirs.asynchronous, "Those for which nobody waits");
    }
}
