//! What all PGs of an OSD share: the map, the store, the other OSDs, and what goes out.

use crate::backoff::Backoffs;
use crate::completion::CommitFor;
use crate::config::OsdConfig;
use crate::copies::CopyFor;
use crate::due::{Due, DueQueue};
use crate::history::History;
use crate::links::Links;
use crate::map_sharing::{PeerEpochs, RecentMaps};
use crate::ops::CopySource;
use crate::qos::{Charge, Class, Qos};
use crate::session::Session;
use crate::slots::Slots;
use crate::store_io::StoreIo;
use maps::{Epoch, NacreMap, OsdId, OsdMap, PgId, SnapId};
use msgs::{Body, OsdOpReply};
use node::{ConnId, Event, Level, Msg, Never, Output};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use stdx::{Hold, Instant, Now};
use store::Transaction;

/// The outputs of an OSD.
pub type Out = Output<Never>;

/// A promise of another OSD: it knows of no newer map than `epoch`, and will tell a new primary to wait until `until`.
#[derive(Clone, Copy, Debug)]
pub struct Lease {
    /// On our clock.
    pub until: Instant,
    /// Its map when it promised.
    pub epoch: Epoch,
    /// The incarnation that promised.
    pub up_from: Epoch,
}

/// What all PGs share.
#[derive(Debug)]
pub struct Core {
    /// Who we are.
    pub config: OsdConfig,
    /// When the present input was taken.
    pub now: Now,
    /// The newest map that all PGs have acted on.
    pub map: Arc<OsdMap>,
    /// The servers' own map.
    pub nacre: NacreMap,
    /// The last incrementals that led to it.
    pub recent: RecentMaps,
    /// The maps that other OSDs have.
    pub peer_epochs: PeerEpochs,
    /// The store and what waits for it.
    pub io: StoreIo,
    /// Connections to other OSDs.
    pub links: Links,
    /// Connections from others.
    pub sessions: BTreeMap<ConnId, Session>,
    /// What clients were asked to hold back.
    pub backoffs: Backoffs,
    /// To be carried out after this input.
    pub out: Vec<Out>,
    /// What we promised to primaries: incarnation and until when.
    granted: BTreeMap<OsdId, (Epoch, Instant)>,
    /// What others promised to us.
    leases: BTreeMap<OsdId, Lease>,
    /// The highest epoch in which a PG wants the map to say that we were up.
    pub want_up_thru: Epoch,
    /// Work that follows from this input.
    due: DueQueue,
    /// Objects on their way in all PGs.
    pub recovering: usize,
    /// Of PGs that we are primary of and that recover.
    own_slots: Slots,
    /// Of PGs whose copy here is filled.
    filled_slots: Slots,
    /// How fast background work may go.
    pub qos: Qos,
    /// Recovery waits for it until then.
    pub paced_until: Option<Instant>,
    /// Who had no room for an object that was sent, and when to try again.
    pub without_room: BTreeMap<OsdId, Instant>,
    /// Who should serve PGs meanwhile, to be asked of the monitor; nobody to take that back.
    pub wanted_temp: BTreeMap<PgId, Vec<OsdId>>,
    /// Clients whose requests we dropped because of a newer map.
    pub uninformed: BTreeSet<ConnId>,
    /// Log entries that each PG keeps.
    pub log_keep: usize,
    /// PGs that trim removed snapshots.
    pub trimming: usize,
    /// PGs that are scrubbed as their primary.
    pub scrubbing: usize,
    /// Damaged objects of ours that were replaced by copies of others.
    pub repaired: u32,
    /// What requests waited for.
    pub history: History,
    /// Counters for `perf dump`.
    pub counters: BTreeMap<&'static str, u64>,
    /// Objects that requests want to copy.
    pub copies_wanted: Vec<(CopyFor, CopySource)>,
    /// What PGs of ours answered to questions of our own, by their numbers.
    pub local_answers: Vec<(u64, Box<OsdOpReply>)>,
    round: u64,
    notified: u64,
    last_op: u64,
    /// Whether the map shows us up at our addresses.
    pub is_up: bool,
}

impl Core {
    /// With no map and a closed store.
    pub fn new(config: OsdConfig, io: StoreIo) -> Self {
        Self {
            links: Links::new(config.options.reconnect_delay),
            log_keep: config.options.log_entries.0,
            config,
            now: Now::default(),
            map: Arc::default(),
            nacre: NacreMap::default(),
            recent: RecentMaps::default(),
            peer_epochs: PeerEpochs::default(),
            io,
            sessions: BTreeMap::new(),
            backoffs: Backoffs::default(),
            out: Vec::new(),
            granted: BTreeMap::new(),
            leases: BTreeMap::new(),
            want_up_thru: Epoch(0),
            due: DueQueue::default(),
            recovering: 0,
            own_slots: Slots::default(),
            filled_slots: Slots::default(),
            qos: Qos::default(),
            paced_until: None,
            without_room: BTreeMap::new(),
            wanted_temp: BTreeMap::new(),
            uninformed: BTreeSet::new(),
            trimming: 0,
            scrubbing: 0,
            repaired: 0,
            history: History::default(),
            counters: BTreeMap::new(),
            copies_wanted: Vec::new(),
            local_answers: Vec::new(),
            round: 0,
            notified: 0,
            last_op: 0,
            is_up: false,
        }
    }

    /// The epoch of the map that all PGs have acted on.
    pub fn epoch(&self) -> Epoch {
        self.map.epoch
    }

    /// A number for a new round of peering, or anything else whose answers must be told apart.
    pub fn next_round(&mut self) -> u64 {
        self.round += 1;
        self.round
    }

    /// Numbers for so many notifications in a row.
    pub fn notify_ids(&mut self, count: usize) -> u64 {
        let first = self.notified;
        self.notified += count as u64;
        u64::from(self.epoch().0) << 32 | first & u64::from(u32::MAX)
    }

    /// A number for a request, growing with the order of arrival.
    pub fn next_op(&mut self) -> u64 {
        self.last_op += 1;
        self.last_op
    }

    /// Whether a snapshot was removed, lately or ever.
    pub fn is_removed(&self, pool: i64, snap: SnapId) -> bool {
        let queued = self.map.removed_snaps_queue.get(&pool);
        let just_purged = self.map.new_purged_snaps.get(&pool);
        [queued, just_purged].into_iter().flatten().any(|set| set.contains(snap.0))
            || self.is_purged(pool, snap)
    }

    /// Whether a snapshot was removed and nothing is left of it.
    pub fn is_purged(&self, pool: i64, snap: SnapId) -> bool {
        self.nacre.purged_snaps.get(&pool).is_some_and(|purged| purged.contains(snap.0))
    }

    /// Reports to the monitor soon: a PG of ours has changed.
    pub fn report_soon(&mut self) {
        self.due.push(Due::Report);
    }

    /// Lets PGs trim removed snapshots if they may.
    pub fn look_for_trims(&mut self) {
        self.due.push(Due::Trim);
    }

    /// Lets PGs begin a scrub if one is due.
    pub fn look_for_scrubs(&mut self) {
        self.due.push(Due::Scrub);
    }

    /// Lets PGs start more transfers of objects.
    pub fn start_recoveries(&mut self) {
        self.due.push(Due::Recovery);
    }

    /// True if nothing waits for [`Core::take_due`].
    pub fn is_idle(&self) -> bool {
        self.due.is_empty()
    }

    /// Takes a kind of work that is due; `true` if it was.
    pub fn take_due(&mut self, due: Due) -> bool {
        self.due.take(due)
    }

    /// Asks for a reservation to recover a PG that we are primary of. Asking again changes nothing.
    pub fn reserve_own(&mut self, pgid: PgId, urgency: u8) {
        self.own_slots.ask(pgid, urgency);
        self.due.push(Due::Reservations);
    }

    /// Gives up that reservation, or the wait for it.
    pub fn release_own(&mut self, pgid: PgId) {
        if self.own_slots.release(pgid) {
            self.due.push(Due::Reservations);
        }
    }

    /// Asks for a reservation to have our copy of a PG filled. Asking again changes nothing.
    pub fn reserve_filled(&mut self, pgid: PgId, urgency: u8) {
        self.filled_slots.ask(pgid, urgency);
        self.due.push(Due::Reservations);
    }

    /// Gives up that reservation, or the wait for it.
    pub fn release_filled(&mut self, pgid: PgId) {
        if self.filled_slots.release(pgid) {
            self.due.push(Due::Reservations);
        }
    }

    /// Grants reservations of the first kind that are free; gives the PGs that have one now.
    pub fn grant_own(&mut self) -> Vec<PgId> {
        self.own_slots.grant(self.config.options.max_backfills)
    }

    /// Grants reservations of the second kind that are free; gives the PGs that have one now.
    pub fn grant_filled(&mut self) -> Vec<PgId> {
        self.filled_slots.grant(self.config.options.max_backfills)
    }

    /// Counts and reports.
    pub fn event(&mut self, level: Level, name: &'static str, detail: impl Into<String>) {
        self.count(name, 1);
        self.out.push(Out::Event(Event::new(level, name, detail)));
    }

    /// Counts only.
    pub fn count(&mut self, name: &'static str, by: u64) {
        *self.counters.entry(name).or_default() += by;
    }

    /// Sends on a connection that came to us. If another OSD made it and lacks our map, that goes ahead of a message about a PG, which
    /// would wait for it there.
    pub fn send(&mut self, conn: ConnId, tid: u64, body: impl Into<node::Body>) {
        let body = body.into();
        if matches!(&body, node::Body::Peer(body) if body.pg_head().is_some()) {
            self.share_maps_on(conn);
        }
        self.out.push(Out::Send { conn, msg: Msg::new(tid, body) });
    }

    /// Sends the OSD at the other end of a connection the maps that it lacks.
    pub fn share_maps_on(&mut self, conn: ConnId) {
        if let Some(osd) = self.osd_at(conn)
            && let Some(maps) = self.maps_for(osd)
        {
            self.out.push(Out::Send { conn, msg: maps });
        }
    }

    /// The OSD at the other end of a connection, if there is one.
    pub fn osd_at(&self, conn: ConnId) -> Option<OsdId> {
        let ours = self.links.of(conn).map(|(_, osd)| osd);
        ours.or_else(|| self.sessions.get(&conn)?.osd)
    }

    /// An OSD has said which map is its newest.
    pub fn heard_epoch(&mut self, osd: OsdId, epoch: Epoch) {
        self.peer_epochs.heard(osd, epoch, self.now.mono);
    }

    /// The maps that an OSD lacks, as far as they are shared.
    fn maps_for(&mut self, osd: OsdId) -> Option<Msg> {
        let newest = self.epoch();
        let incrementals = self.peer_epochs.take_lacking(osd, newest, &self.recent, self.now.mono)?;
        self.count("maps_shared", incrementals.len() as u64);
        let maps = msgs::OsdMap { fsid: self.config.fsid, newest, incrementals, ..msgs::OsdMap::default() };
        Some(Msg::new(0, Body::from(maps)))
    }

    /// Answers a request, with the memory that is held for that.
    pub fn answer(&mut self, conn: ConnId, tid: u64, reply: OsdOpReply, hold: Hold) {
        let msg = Msg { hold, ..Msg::new(tid, Body::from(reply)) };
        self.out.push(Out::Send { conn, msg });
    }

    /// Sends to another OSD on our own connection to it, which is made if there is none; the maps that it lacks go ahead. Nothing is
    /// sent to an OSD that the map has down.
    pub fn send_osd(&mut self, osd: OsdId, tid: u64, body: impl Into<node::Body>) {
        if self.map.is_up(osd) {
            if let Some(maps) = self.maps_for(osd) {
                self.links.send(osd, maps);
            }
            self.links.send(osd, Msg::new(tid, body));
        }
    }

    /// So many objects are not on their way any more.
    pub fn recovery_ended(&mut self, objects: usize) {
        assert!(self.recovering >= objects, "{objects} transfers end, {} are under way", self.recovering);
        self.recovering -= objects;
        if objects > 0 {
            self.start_recoveries();
        }
    }

    /// Whether so much of the store is used that no copy may be filled here.
    pub fn is_backfill_full(&self) -> bool {
        let (usage, ratio) = (self.io.usage(), f64::from(self.map.backfillfull_ratio));
        ratio > 0.0 && usage.total.saturating_sub(usage.available) as f64 >= ratio * usage.total as f64
    }

    /// Whether another object may be recovered now; if not, that is looked at again when it is time.
    pub fn may_recover(&mut self) -> bool {
        let wait = self.qos.wait_before_next(self.now.mono);
        self.pace(wait)
    }

    /// Whether a copy's next objects may be compared now, as a step of recovery of its own.
    pub fn may_compare(&mut self) -> bool {
        let wait = self.qos.may_start(Class::Recovery, self.now.mono);
        self.pace(wait)
    }

    fn pace(&mut self, wait: Option<Duration>) -> bool {
        let Some(wait) = wait else { return true };
        let at = self.now.mono + wait;
        self.paced_until = Some(self.paced_until.map_or(at, |until| until.min(at)));
        false
    }

    /// An object that is being recovered has so many bytes: where that is less than was reckoned with, another may follow.
    pub fn recovered_object_has(&mut self, bytes: u64, charged: &mut Charge) {
        self.qos.object_has(bytes, charged, self.now.mono);
        if self.paced_until.is_some() && self.qos.wait_before_next(self.now.mono).is_none() {
            self.paced_until = None;
            self.start_recoveries();
        }
    }

    /// An OSD, or we ourselves, had no room for an object.
    pub fn has_no_room(&mut self, osd: OsdId) {
        self.without_room.insert(osd, self.now.mono + self.config.options.room_retry);
    }

    /// Whether that was so a short while ago.
    pub fn is_without_room(&self, osd: OsdId) -> bool {
        self.without_room.contains_key(&osd)
    }

    /// Submits a transaction of our own making, which must fit: the full ratios stop clients long before.
    pub fn submit_own(&mut self, txn: Transaction, then: CommitFor) {
        if let Err(refusal) = self.io.submit(self.now, txn, then) {
            let text = format!(
                "the store can not take the OSD's own records ({refusal:?}): add space or remove data"
            );
            self.out.push(Out::Stop(Err(text)));
        }
    }

    /// Whether an incarnation is known to be gone: its process is dead, or a later one has come up.
    pub fn is_gone(&self, osd: OsdId, up_from: Epoch) -> bool {
        self.nacre.is_dead(osd, up_from) || self.map.osd(osd).is_some_and(|o| o.info.up_from > up_from)
    }

    /// Whether whoever `osd` was in epoch `last` is known to be gone.
    pub fn is_gone_since(&self, osd: OsdId, last: Epoch) -> bool {
        let Some(entry) = self.map.osd(osd) else { return true };
        entry.info.up_from > last || !entry.is_up() && self.nacre.is_dead(osd, entry.info.up_from)
    }

    /// Promises an OSD that pinged us not to let another primary serve before `length` has passed. Only the incarnation
    /// that our map knows gets a promise.
    pub fn grant(&mut self, osd: OsdId, up_from: Epoch) -> bool {
        let known = self.is_up && self.map.osd(osd).is_some_and(|o| o.is_up() && o.info.up_from == up_from);
        if known {
            self.granted.insert(osd, (up_from, self.now.mono + self.config.options.read_lease));
        }
        known
    }

    /// Until when that incarnation may rely on us.
    pub fn granted_until(&self, osd: OsdId, up_from: Epoch) -> Instant {
        self.granted.get(&osd).filter(|(from, _)| *from == up_from).map_or(Instant(0), |(_, until)| *until)
    }

    /// Takes another OSD's promise.
    pub fn take_lease(&mut self, osd: OsdId, lease: Lease) {
        self.leases.insert(osd, lease);
    }

    /// Whether `osd`'s promise holds now, and was made with a map that we have acted on.
    pub fn lease_from(&self, osd: OsdId) -> bool {
        self.leases.get(&osd).is_some_and(|l| {
            let incarnation = self.map.osd(osd).is_some_and(|o| o.info.up_from == l.up_from);
            l.until > self.now.mono && l.epoch <= self.epoch() && incarnation
        })
    }
}
