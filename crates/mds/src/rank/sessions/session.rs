//! One client's session: its stored record, the inodes that it holds capabilities on, and the messages to it.

use super::outbox::Outbox;
use super::rate::Rate;
use crate::config::RankConfig;
use crate::ops::AsyncWork;
use crate::types::{ClientId, Lsn};
use auth::MdsCap;
use fsfmt::tables::SessionRecord;
use fsfmt::{Ino, InoRange, InodeKey};
use maps::Epoch;
use msgs::{CLIENT_TIMEOUT, session_metadata};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use stdx::Instant;
use wire::AddrVec;

/// Clients with this feature take delegated inode numbers from answers to creates.
pub const DELEG_INO: u64 = 1 << 13;

/// What an outline of a session tells of what its client says of itself.
const OUTLINED: [&str; 5] = ["hostname", "mount_point", "root", "kernel_version", "ceph_version"];
/// The characters that it tells of each: paths may be long, and come from outside.
const MOST_TOLD: usize = 128;

/// The states of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionState {
    /// Taken over from the predecessor; its client has not reconnected yet.
    Absent,
    /// The session is in use.
    Open,
    /// Silent for too long: it gets nothing new.
    Stale,
    /// Being evicted: waits until the OSDs refuse the client.
    Evicting,
}

/// A connected client, as its connection describes it.
#[derive(Clone, Debug, Default)]
pub struct ClientPeer {
    /// Its addresses with the nonce of its incarnation.
    pub addrs: AddrVec,
    /// Its authenticated name, such as `client.admin`.
    pub name: String,
    /// The capabilities of its key for metadata servers.
    pub caps: MdsCap,
}

/// A session. Only [`Sessions`](super::Sessions) changes it.
#[derive(Debug)]
pub struct Session {
    pub(super) record: SessionRecord,
    pub(super) auth: MdsCap,
    pub(super) state: SessionState,
    /// Time of its last renewal.
    pub(super) renewed: Instant,
    /// Inodes that it has capabilities on.
    pub(super) inodes: BTreeSet<InodeKey>,
    /// True if the log says already that it broke a rule.
    pub(super) was_reported: bool,
    /// Requests under way, by tid.
    pub(super) running: BTreeSet<u64>,
    /// How many of its requests begin.
    pub(super) requests: Rate,
    /// Messages to be sent.
    pub(super) outbox: Outbox,
    /// The first of the inode numbers that it has reserved last, and the event that reserved them.
    pub(super) reserved_from: Ino,
    pub(super) reserved_by: Lsn,
    /// The end of all inode numbers that it has ever reserved.
    pub(super) reserved_end: u64,
    /// Of the numbers that are delegated to it, its client knows those from here on. Others are from before a
    /// restart.
    pub(super) known_from: Ino,
    /// True if it creates files asynchronously, as far as is known: it is given numbers for that.
    pub(super) creates_async: bool,
    /// The OSD map that it was told to have before it accesses data.
    pub(super) barrier: Epoch,
    /// True until its client asks for it: another rank has had it opened, and nothing reaches its client yet.
    pub(super) is_unasked: bool,
    /// True while requests from before a restart are repeated: its numbers are given up after that.
    pub(super) is_repeating: bool,
}

impl Session {
    pub(super) fn new(record: SessionRecord, auth: MdsCap, state: SessionState, now: Instant) -> Self {
        let reserved_end = end_of(&record.preallocated);
        // Linux's client. It shows whether it does so only with the first change in a directory that it
        // knows, and gains nothing there from the bits that it gets then.
        let creates_async = record.metadata.contains_key("kernel_version") && has_feature(&record, DELEG_INO);
        Self {
            record,
            auth,
            state,
            renewed: now,
            inodes: BTreeSet::new(),
            was_reported: false,
            running: BTreeSet::new(),
            requests: Rate::default(),
            outbox: Outbox::default(),
            reserved_from: Ino(0),
            reserved_by: 0,
            reserved_end,
            known_from: Ino(0),
            creates_async,
            barrier: Epoch(0),
            is_unasked: false,
            is_repeating: false,
        }
    }

    /// The name of the client's host, as it says; empty if it does not.
    pub(super) fn hostname(&self) -> &str {
        self.record.metadata.get("hostname").map_or("", String::as_str)
    }

    /// The stored part.
    pub fn record(&self) -> &SessionRecord {
        &self.record
    }

    /// The capabilities of its key.
    pub fn auth(&self) -> &MdsCap {
        &self.auth
    }

    pub fn state(&self) -> SessionState {
        self.state
    }

    /// True if the client may be given anything.
    pub fn is_open(&self) -> bool {
        self.state == SessionState::Open
    }

    /// The time for which its client may be silent if it has asked for more than the usual time.
    pub fn patience(&self, cfg: &RankConfig) -> Option<Duration> {
        let asked: u32 = self.record.metadata.get(CLIENT_TIMEOUT)?.parse().ok()?;
        let most = cfg.session_autoclose_s;
        let seconds = if asked == 0 { most } else { asked.max(cfg.session_timeout_s).min(most) };
        Some(Duration::from_secs(seconds.into()))
    }

    /// True if its client has a feature, by the feature's bit.
    pub fn has_feature(&self, feature: u64) -> bool {
        has_feature(&self.record, feature)
    }

    /// What its client does asynchronously.
    pub fn async_work(&self) -> AsyncWork {
        AsyncWork {
            files: self.creates_async,
            dirs: self.record.metadata.contains_key(session_metadata::ASYNC_DIRS),
            is_repeating: self.is_repeating,
        }
    }

    /// Inodes that it has capabilities on.
    pub fn inodes(&self) -> &BTreeSet<InodeKey> {
        &self.inodes
    }

    /// The inode that request `tid` made, or 0, if the request was carried out before.
    pub fn completed(&self, tid: u64) -> Option<fsfmt::Ino> {
        self.record.completed.get(&tid).copied().filter(|_| !forgets_completed_requests())
    }

    /// True if flush `tid` was carried out before.
    pub fn has_flushed(&self, tid: u64) -> bool {
        self.record.flushed.contains(&tid)
    }

    /// The requests of its client, a second.
    pub fn requests_per_s(&self, now: Instant) -> f64 {
        self.requests.per_second(now)
    }

    /// The session for people.
    pub(super) fn describe(&self, now: Instant, client: ClientId) -> serde_json::Value {
        let mut all = self.outline(now, client);
        all["client_metadata"] = serde_json::json!(self.record.metadata);
        all["requests_in_flight"] = self.running.len().into();
        all["messages_queued"] = self.outbox.len().into();
        all
    }

    /// The session in a few hundred bytes, whatever its client says of itself.
    pub fn outline(&self, now: Instant, client: ClientId) -> serde_json::Value {
        let told = |key: &&str| {
            let text = self.record.metadata.get(*key)?;
            Some(((*key).to_owned(), text.chars().take(MOST_TOLD).collect::<String>()))
        };
        let metadata: BTreeMap<String, String> = OUTLINED.iter().filter_map(told).collect();
        serde_json::json!({
            "id": client.0,
            "state": format!("{:?}", self.state).to_lowercase(),
            "num_caps": self.inodes.len(),
            "request_load_avg": (self.requests_per_s(now) * 10.0).round() / 10.0,
            "entity": self.record.name,
            "addrs": self.record.addrs.0.iter().take(2).map(ToString::to_string).collect::<Vec<_>>(),
            "client_metadata": metadata,
        })
    }
}

fn has_feature(record: &SessionRecord, feature: u64) -> bool {
    record.features.first().is_some_and(|word| word & feature != 0)
}

/// The end of the last range.
pub(super) fn end_of(ranges: &[InoRange]) -> u64 {
    ranges.last().map_or(0, |range| range.first.0 + range.count)
}

/// Planted fault: a request that comes again is carried out again.
fn forgets_completed_requests() -> bool {
    stdx::mutants::is_active("mds_forgets_completed_requests")
}
