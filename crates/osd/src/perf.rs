//! Performance counters: what this OSD has done since it started, under the names and with the meaning that
//! Ceph's OSDs give them.

use crate::cls;
use crate::store_io::StoreIo;
use decl::Mean;
use decl::perf::{Group, Groups};
use msgs::{Op, OpResult, OsdOp};
use std::time::Duration;
use stdx::Bufs;

/// Clients' requests of one kind.
#[derive(Clone, Copy, Debug, Default)]
struct Requests {
    took: Mean,
    bytes_in: u64,
    bytes_out: u64,
}

impl Requests {
    fn add(&mut self, took: Duration, bytes_in: u64, bytes_out: u64) {
        self.took.add(took);
        self.bytes_in += bytes_in;
        self.bytes_out += bytes_out;
    }
}

/// The counters of an OSD.
///
/// Invariant: each request counts in `all` and in one of the others.
#[derive(Debug, Default)]
pub struct Perf {
    all: Requests,
    reads: Requests,
    writes: Requests,
    both: Requests,
    /// Updates of other OSDs, and their payload.
    updates: (u64, u64),
    /// Parts of objects sent for recovery, and their payload.
    pushes: (u64, u64),
    pulls: u64,
    /// Transfers of objects that recovery has begun here.
    transfers: u64,
}

/// What there is at present, as the OSD counts it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Present {
    /// PGs of which this OSD is primary.
    pub primary: u64,
    /// PGs of which it has a copy that serves, and is not primary.
    pub replica: u64,
    /// PGs of which it has a copy that nobody needs.
    pub stray: u64,
    /// PGs whose copies are being removed.
    pub removing: u64,
    /// Clients' requests that are not answered.
    pub requests: u64,
    /// OSDs that this one exchanges heartbeats with.
    pub peers: u64,
}

/// Bytes that an operation writes.
fn written(op: &Op) -> u64 {
    match op {
        Op::Write { data, .. } | Op::WriteFull { data, .. } | Op::Append { data, .. } => data.len() as u64,
        Op::WriteSame { len, .. } => *len,
        _ => 0,
    }
}

/// True if an operation reads its object.
fn reads(op: &Op) -> bool {
    match op {
        Op::Call { class, method, .. } => cls::find(class, method).is_ok_and(|m| m.access.reads),
        op => op.code().reads(),
    }
}

impl Perf {
    /// A request of a client is answered, which came so long ago.
    pub fn answered(&mut self, request: &OsdOp, writes: bool, results: &[OpResult], took: Duration) {
        let bytes_in = request.ops.iter().map(|sub| written(&sub.op)).sum();
        let bytes_out = results.iter().map(|result| result.data.len() as u64).sum();
        let kind = match (request.ops.iter().any(|sub| reads(&sub.op)), writes) {
            (true, true) => &mut self.both,
            (false, true) => &mut self.writes,
            (_, false) => &mut self.reads,
        };
        kind.add(took, bytes_in, bytes_out);
        self.all.add(took, bytes_in, bytes_out);
    }

    /// An update has come from a primary.
    pub fn update_came(&mut self, payload: &Bufs) {
        self.updates.0 += 1;
        self.updates.1 += payload.len() as u64;
    }

    /// A part of an object is sent for recovery.
    pub fn pushed(&mut self, payload: &Bufs) {
        self.pushes.0 += 1;
        self.pushes.1 += payload.len() as u64;
    }

    /// Recovery begins to send an object.
    pub fn transfer_began(&mut self) {
        self.transfers += 1;
    }

    /// Recovery begins to fetch an object.
    pub fn pull_began(&mut self) {
        self.transfers += 1;
        self.pulls += 1;
    }

    /// Adds clients' requests to what was used.
    pub fn add_clients(&self, used: peer::OsdUsage) -> peer::OsdUsage {
        let Requests { took, bytes_in, bytes_out } = self.all;
        peer::OsdUsage { ops: took.count, client_read: bytes_out, client_written: bytes_in, ..used }
    }

    /// All counters, with those of the store.
    pub fn groups(&self, present: &Present, io: &StoreIo) -> Groups {
        let mut out = Groups::default();
        let group = out.group("osd");
        self.put_requests(group);
        self.put_others(group);
        let usage = io.usage();
        let pgs = present.primary + present.replica + present.stray;
        group
            .gauge("op_wip", present.requests, "Requests of clients that are not answered")
            .gauge("numpg", pgs, "PGs of which the OSD has a copy")
            .gauge("numpg_primary", present.primary, "PGs of which the OSD is primary")
            .gauge("numpg_replica", present.replica, "PGs that it serves and whose primary is another")
            .gauge("numpg_stray", present.stray, "PGs of which it has a copy that does not serve")
            .gauge("numpg_removing", present.removing, "PGs whose copies are being removed")
            .gauge("heartbeat_to_peers", present.peers, "OSDs that it exchanges heartbeats with")
            .gauge_bytes("stat_bytes", usage.total, "Size of the device")
            .gauge_bytes("stat_bytes_used", usage.total.saturating_sub(usage.available), "Space in use")
            .gauge_bytes("stat_bytes_avail", usage.available, "Space that is free");
        put_store(io, &mut out);
        out
    }

    fn put_requests(&self, group: &mut Group) {
        let Self { all, reads, writes, both, .. } = self;
        group
            .count("op", all.took.count, "Requests of clients")
            .count_bytes("op_in_bytes", all.bytes_in, "Bytes that clients wrote")
            .count_bytes("op_out_bytes", all.bytes_out, "Bytes that clients read")
            .mean("op_latency", all.took, "Time of clients' requests")
            .count("op_r", reads.took.count, "Requests that read")
            .count_bytes("op_r_out_bytes", reads.bytes_out, "Bytes of requests that read")
            .mean("op_r_latency", reads.took, "Time of requests that read")
            .count("op_w", writes.took.count, "Requests that write")
            .count_bytes("op_w_in_bytes", writes.bytes_in, "Bytes of requests that write")
            .mean("op_w_latency", writes.took, "Time of requests that write")
            .count("op_rw", both.took.count, "Requests that read and write")
            .count_bytes("op_rw_in_bytes", both.bytes_in, "Bytes written by requests that read and write")
            .count_bytes("op_rw_out_bytes", both.bytes_out, "Bytes read by requests that read and write")
            .mean("op_rw_latency", both.took, "Time of requests that read and write");
    }

    fn put_others(&self, group: &mut Group) {
        group
            .count("subop", self.updates.0, "Updates that came from primaries")
            .count_bytes("subop_in_bytes", self.updates.1, "Their payload")
            .count("push", self.pushes.0, "Parts of objects that were sent for recovery")
            .count_bytes("push_out_bytes", self.pushes.1, "Their payload")
            .count("pull", self.pulls, "Objects that were asked for, for recovery")
            .count("recovery_ops", self.transfers, "Transfers of objects that recovery has begun");
    }
}

/// The store's counters. It is not BlueStore, but these mean the same of it.
fn put_store(io: &StoreIo, out: &mut Groups) {
    let (usage, lookups, log) = (io.usage(), io.lookups(), io.log_space());
    out.group("bluestore")
        .gauge_bytes("allocated", usage.allocated, "Bytes of the device that objects' data takes")
        .gauge_bytes("stored", usage.data, "Bytes of objects' data")
        .count("onode_hits", lookups.hits, "Objects of reads that were found in the cached index")
        .count("onode_misses", lookups.misses, "Objects of reads that the index was read from disk for")
        .mean("txc_commit_lat", io.commit_time(), "Time until a transaction is on stable storage");
    out.group("bluefs").gauge_bytes("wal_total_bytes", log.total, "Size of the write-ahead log").gauge_bytes(
        "wal_used_bytes",
        log.used,
        "Bytes of it that are still needed",
    );
}
