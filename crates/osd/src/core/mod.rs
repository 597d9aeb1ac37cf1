//! State that all PGs of an OSD share, one method for each purpose: the map, the store, other OSDs, budgets,
//! and outputs.
//!
//! Each owner below has its own file and private fields; a PG changes them only through the methods of
//! [`Core`].

mod due;
mod leases;
mod map_requests;
mod map_view;
mod numbers;
mod own_requests;
mod peers;
mod recovery;
mod recovery_budget;
mod reservations;
mod shares;
mod storage;

pub use crate::outbox::Out;
pub use due::Due;
pub use leases::Lease;
pub use own_requests::CopyFor;

use crate::backoff::{Backoffs, Range};
use crate::config::{OsdConfig, OsdOptions};
use crate::links::Links;
use crate::map_sharing::PeerEpochs;
use crate::op_tracker::OpTracker;
use crate::ops::CopySource;
use crate::outbox::Outbox;
use crate::perf::{Perf, Present};
use crate::session::Sessions;
use crate::store_io::StoreIo;
use due::DueQueue;
use leases::Leases;
use map_requests::MapRequests;
use map_view::MapView;
use maps::{Epoch, HObject, OsdId, OsdMap, PgId, SnapId, Spg};
use msgs::{Body, OsdOpReply};
use node::{ConnId, Level, Msg};
use numbers::Numbers;
use own_requests::OwnRequests;
use recovery_budget::RecoveryBudget;
use serde_json::Value;
use shares::Share;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use stdx::{Hold, Instant, Now};

/// State that all PGs share.
#[derive(Debug)]
pub struct Core {
    config: OsdConfig,
    /// Time of the present input.
    now: Now,
    view: MapView,
    io: StoreIo,
    /// Connections to other OSDs, and the maps that those have.
    links: Links,
    peer_epochs: PeerEpochs,
    /// Connections from others.
    sessions: Sessions,
    /// Backoffs sent to clients.
    backoffs: Backoffs,
    outbox: Outbox,
    due: DueQueue,
    leases: Leases,
    budget: RecoveryBudget,
    map_requests: MapRequests,
    own_requests: OwnRequests,
    trims: Share,
    scrubs: Share,
    op_tracker: OpTracker,
    perf: Perf,
    numbers: Numbers,
    /// Log entries that each PG keeps.
    log_keep: usize,
}

impl Core {
    /// A core without a map, on a closed store.
    pub fn new(config: OsdConfig, io: StoreIo) -> Self {
        Self {
            links: Links::new(config.options.reconnect_delay),
            log_keep: config.options.log_entries.0,
            config,
            now: Now::default(),
            view: MapView::default(),
            io,
            peer_epochs: PeerEpochs::default(),
            sessions: Sessions::default(),
            backoffs: Backoffs::default(),
            outbox: Outbox::default(),
            due: DueQueue::default(),
            leases: Leases::default(),
            budget: RecoveryBudget::default(),
            map_requests: MapRequests::default(),
            own_requests: OwnRequests::default(),
            trims: Share::default(),
            scrubs: Share::default(),
            op_tracker: OpTracker::default(),
            perf: Perf::default(),
            numbers: Numbers::default(),
        }
    }

    /// Begins an input.
    pub fn begin_input(&mut self, now: Now) {
        self.now = now;
    }

    /// Time of the present input.
    pub fn now(&self) -> Now {
        self.now
    }

    /// The number of this OSD.
    pub fn id(&self) -> OsdId {
        self.config.id
    }

    /// The identity of this OSD, and what it was started with.
    pub fn config(&self) -> &OsdConfig {
        &self.config
    }

    /// The options that are set.
    pub fn options(&self) -> &OsdOptions {
        &self.config.options
    }

    /// Applies changed options.
    pub fn apply_settings(&mut self, settings: &decl::Settings) {
        self.config.options.apply(settings);
        self.io.set_caches(&self.config.options);
    }

    /// Changes options that can't be set otherwise.
    #[cfg(test)]
    pub fn change_options(&mut self, change: impl FnOnce(&mut OsdOptions)) {
        change(&mut self.config.options);
    }

    /// Log entries that each PG keeps.
    pub fn log_keep(&self) -> usize {
        self.log_keep
    }

    /// Shares out the log entries that this OSD keeps among its PGs.
    pub fn size_logs(&mut self, pgs: usize) {
        let (least, most) = self.config.options.log_entries;
        self.log_keep = (self.config.options.log_entries_total / pgs.max(1)).clamp(least, most);
    }
}

/// Access to the map.
impl Core {
    /// The map that all PGs have processed.
    pub fn map(&self) -> &Arc<OsdMap> {
        self.view.map()
    }

    /// Epoch of the newest map.
    pub fn epoch(&self) -> Epoch {
        self.view.epoch()
    }

    /// True if the map shows us up at our addresses.
    pub fn is_up(&self) -> bool {
        self.view.is_up()
    }

    /// Takes the map that was stored when the OSD ended.
    pub fn load_map(&mut self, map: OsdMap) {
        self.view.load(map);
    }

    /// Moves on to a newer map.
    pub fn advance(&mut self, map: Arc<OsdMap>) {
        let entry = map.osd(self.config.id);
        let is_up = entry.is_some_and(|o| o.is_up() && o.client_addrs == self.config.addrs);
        self.view.advance(map, is_up);
    }

    /// Takes a newer servers' map; `false` if the present one is newer.
    pub fn take_nacre(&mut self, map: maps::NacreMap) -> bool {
        self.view.take_nacre(map)
    }

    /// True if a snapshot was removed, lately or ever.
    pub fn is_removed(&self, pool: i64, snap: SnapId) -> bool {
        self.view.is_removed(pool, snap)
    }

    /// True if a snapshot was removed and all its clones are trimmed.
    pub fn is_purged(&self, pool: i64, snap: SnapId) -> bool {
        self.view.is_purged(pool, snap)
    }

    /// True if an incarnation is known to be gone: its process is dead, or a later one has come up.
    pub fn is_gone(&self, osd: OsdId, up_from: Epoch) -> bool {
        self.view.is_gone(osd, up_from)
    }

    /// True if the incarnation that an OSD had in epoch `last` is known to be gone.
    pub fn is_gone_since(&self, osd: OsdId, last: Epoch) -> bool {
        self.view.is_gone_since(osd, last)
    }

    /// Notes that a PG needs us recorded as up in `epoch`.
    pub fn need_up_thru(&mut self, epoch: Epoch) {
        self.map_requests.need_up_thru(epoch);
    }

    /// The highest epoch in which a PG needs us recorded as up.
    pub fn needed_up_thru(&self) -> Epoch {
        self.map_requests.up_thru()
    }

    /// Requests a temporary acting set for a PG; an empty one ends it.
    pub fn ask_pg_temp(&mut self, pgid: PgId, acting: Vec<OsdId>) {
        self.map_requests.ask_pg_temp(pgid, acting);
    }

    /// Takes the acting sets to request from the monitors; `None` if there are none.
    pub fn take_pg_temp(&mut self) -> Option<BTreeMap<PgId, Vec<OsdId>>> {
        self.map_requests.wants_pg_temp().then(|| self.map_requests.take_pg_temp())
    }
}

/// Outputs of the present input.
impl Core {
    /// Appends an output of this input.
    pub fn push(&mut self, output: Out) {
        self.outbox.push(output);
    }

    /// Hands out the outputs of this input.
    pub fn drain(&mut self, into: &mut Vec<Out>) {
        self.outbox.drain(into);
    }

    /// Counts and reports an event.
    pub fn event(&mut self, level: Level, name: &'static str, detail: impl Into<String>) {
        self.outbox.event(level, name, detail);
    }

    /// Increments a counter without an event.
    pub fn count(&mut self, name: &'static str, by: u64) {
        self.outbox.count(name, by);
    }

    /// The performance counters, to be counted in.
    pub fn perf(&mut self) -> &mut Perf {
        &mut self.perf
    }

    /// All performance counters.
    pub fn perf_groups(&self, present: &Present) -> decl::perf::Groups {
        self.perf.groups(present, &self.io)
    }

    /// How often each event happened.
    pub fn counters(&self) -> &BTreeMap<&'static str, u64> {
        self.outbox.counters()
    }

    /// Answers a request, with the memory reserved for the answer.
    pub fn answer(&mut self, conn: ConnId, tid: u64, reply: OsdOpReply, hold: Hold) {
        self.outbox.send(conn, Msg { hold, ..Msg::new(tid, Body::from(reply)) });
    }

    /// Delivers the answer of our own PG to our own question.
    pub fn answer_own(&mut self, tid: u64, reply: OsdOpReply) {
        self.own_requests.answered(tid, reply);
    }

    /// Asks for the contents of an object, of this or of another OSD, for a request.
    pub fn want_copy(&mut self, wanted: CopyFor, source: CopySource) {
        self.own_requests.want(wanted, source);
    }

    /// Takes the sources that PGs asked for.
    pub fn take_wanted_copies(&mut self) -> Vec<(CopyFor, CopySource)> {
        self.own_requests.take_wanted()
    }

    /// Takes the answers of our own PGs, with the numbers of the questions.
    pub fn take_own_answers(&mut self) -> Vec<(u64, Box<OsdOpReply>)> {
        self.own_requests.take_answers()
    }

    /// Notes that a request was answered after `took`.
    pub fn request_answered(&mut self, took: Duration, describe: impl FnOnce() -> Value) {
        self.op_tracker.answered(took, self.now.mono, describe);
    }

    /// Notes that a client's write is durable on all members, `took` after it was sent to them.
    pub fn client_wrote(&mut self, took: Duration) {
        self.op_tracker.replicated(took);
        self.budget.client_wrote(took, self.now.mono);
    }

    /// The tracker of answered requests.
    pub fn op_tracker(&self) -> &OpTracker {
        &self.op_tracker
    }

    /// Mean commit latency of writes since the last call, in milliseconds.
    pub fn take_commit_latency(&mut self) -> u32 {
        self.op_tracker.take_commit_latency()
    }
}

/// Unique numbers.
impl Core {
    /// A number for a round of peering, or for any other question whose answers must be distinguished.
    pub fn next_round(&mut self) -> u64 {
        self.numbers.next_round()
    }

    /// The first of `count` numbers of notifications in a row.
    pub fn notify_ids(&mut self, count: usize) -> u64 {
        let epoch = self.epoch();
        self.numbers.notify_ids(count, epoch)
    }

    /// A number for a request; it grows in the order of arrival.
    pub fn next_op(&mut self) -> u64 {
        self.numbers.next_request()
    }
}

/// Access to backoffs.
impl Core {
    /// Backoffs sent to clients.
    pub fn backoffs(&self) -> &Backoffs {
        &self.backoffs
    }

    /// Starts a backoff of a range and returns its number.
    pub fn begin_backoff(&mut self, pgid: Spg, conn: ConnId, range: Range) -> u64 {
        self.backoffs.begin(pgid, conn, range)
    }

    /// Ends the backoffs of a PG, or of one object of it; returns those to announce to clients.
    pub fn end_backoffs(&mut self, pgid: Spg, object: Option<&HObject>) -> Vec<(ConnId, u64, Range)> {
        self.backoffs.end(pgid, object)
    }

    /// Notes that a client has acknowledged a backoff.
    pub fn backoff_acknowledged(&mut self, pgid: Spg, conn: ConnId, id: u64) {
        self.backoffs.acknowledged(pgid, conn, id);
    }
}

/// Access to leases.
impl Core {
    /// Promises an OSD that pinged us not to let another primary serve before the lease has passed. Only the
    /// incarnation that our map has up gets a promise; returns true if it does.
    pub fn grant(&mut self, osd: OsdId, up_from: Epoch) -> bool {
        let known = self.is_up() && self.map().is_up(osd) && self.view.is_incarnation(osd, up_from);
        if known {
            self.leases.grant(osd, up_from, self.now.mono + self.config.options.read_lease);
        }
        known
    }

    /// End of our promise to that incarnation.
    pub fn granted_until(&self, osd: OsdId, up_from: Epoch) -> Instant {
        self.leases.granted_until(osd, up_from)
    }

    /// Takes another OSD's promise.
    pub fn take_lease(&mut self, osd: OsdId, lease: Lease) {
        self.leases.take(osd, lease);
    }

    /// True if an OSD's promise holds now, and was made with a map that we have processed.
    pub fn lease_from(&self, osd: OsdId) -> bool {
        self.leases.of(osd).is_some_and(|lease| {
            let holds = lease.until > self.now.mono && lease.epoch <= self.epoch();
            holds && self.view.is_incarnation(osd, lease.up_from)
        })
    }
}
