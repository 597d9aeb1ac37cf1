//! Resync: a copy that is too old for the log is compared with a complete one, object by object in the order of keys.
//!
//! A member's copy takes updates of objects before the cursor as any other; of those behind it only the log entry, because the
//! comparison will bring the object. Writes to objects that are being compared wait. Until the end the copy is marked
//! incomplete on its disk, counts neither for `min_size` nor as an authority, and begins anew after an interruption.

use super::meta::MetaChange;
use super::state::State;
use super::{Pg, successor};
use crate::completion::{CommitFor, ReadFor};
use crate::core::Core;
use crate::object::{INFO_ATTR, ObjectInfo, first_of, head_of};
use maps::{EVersion, OsdId};
use node::{ConnId, Level};
use std::collections::{BTreeMap, BTreeSet};
use store::{ObjectKey, Read, ReadReply, StoreError, TxnOp};
use wire::{Reader, Writer};

/// Objects that one resync sends or fetches at once.
const AT_ONCE: usize = 8;
/// The most keys that one answer to a scan holds.
const SCAN_LIMIT: usize = 1024;

type Versions = BTreeMap<ObjectKey, EVersion>;

/// A range of our own store, being listed with versions.
#[derive(Debug)]
struct Listing {
    keys: usize,
    until: ObjectKey,
    versions: Versions,
    listed: bool,
    max: usize,
    purpose: Purpose,
}

#[derive(Debug)]
enum Purpose {
    /// To compare with a member's copy.
    Member(OsdId),
    /// To compare with the copy that we take ours from.
    OwnCopy,
    /// Another OSD asked.
    Asked(ConnId, u64),
}

/// A member's copy being compared, as the primary sees it.
#[derive(Debug)]
pub struct Resync {
    /// Everything before it is equal.
    pub cursor: ObjectKey,
    /// The end of what is being compared now.
    bound: Option<ObjectKey>,
    tid: u64,
    ours: Versions,
    to_send: Vec<(ObjectKey, EVersion, bool)>,
    sending: BTreeSet<ObjectKey>,
    compared: bool,
    ending: bool,
    /// There was no room for an object: what is being compared is compared again when there is some.
    failed: bool,
    /// A client waits for what is being compared: it is sent as fast as can be. Asked anew once it is known how far a step goes.
    hurry: bool,
}

impl Resync {
    /// Nothing is compared yet.
    pub fn new(cursor: ObjectKey) -> Self {
        Self {
            cursor,
            bound: None,
            tid: 0,
            ours: Versions::new(),
            to_send: Vec::new(),
            sending: BTreeSet::new(),
            compared: false,
            ending: false,
            failed: false,
            hurry: false,
        }
    }

    /// A client waits for an object. Whether it waits for this.
    pub fn is_waited_for(&mut self, key: &ObjectKey) -> bool {
        let holds = self.holds(key);
        self.hurry |= holds;
        holds
    }

    /// Whether writes to an object must wait: it is being compared, or its head has not been and a clone has, so that the
    /// member has only a part of what a write changes.
    pub fn holds(&self, key: &ObjectKey) -> bool {
        let bound = self.bound.as_ref().unwrap_or(&self.cursor);
        self.cursor <= head_of(key) && first_of(key) < *bound
    }

    /// How much of a range of keys is not known to be equal, as a part of it.
    pub fn part_left(&self, range: &(ObjectKey, ObjectKey)) -> f64 {
        let at = |key: &ObjectKey| f64::from(key.hash.reverse_bits());
        let (from, to) = (at(&range.0), at(&range.1));
        // The last PG's range ends where that of the next shard begins.
        let to = if to <= from { f64::from(u32::MAX) } else { to };
        if self.cursor >= range.1 { 0.0 } else { ((to - at(&self.cursor)) / (to - from)).clamp(0.0, 1.0) }
    }

    /// An object has arrived.
    pub fn pushed(&mut self, key: &ObjectKey) {
        self.sending.remove(key);
    }

    /// There was no room for an object. What was to follow it is not sent.
    pub fn refused(&mut self, key: &ObjectKey) {
        if self.sending.remove(key) {
            self.failed = true;
            self.to_send.clear();
        }
    }
}

impl super::Copy {
    /// Whether it is being compared, and something that differs is not on its way.
    pub fn is_to_be_sent(&self) -> bool {
        let sendable = |r: &Resync| r.compared && !r.to_send.is_empty() && r.sending.len() < AT_ONCE;
        self.resync.as_ref().is_some_and(sendable)
    }

    /// Whether the next objects of it are to be compared.
    pub fn is_to_be_compared(&self) -> bool {
        self.resync.as_ref().is_some_and(|r| r.bound.is_none() && !r.ending)
    }
}

/// Our own copy being compared, before the PG is active.
#[derive(Debug)]
pub struct SelfResync {
    source: OsdId,
    cursor: ObjectKey,
    until: ObjectKey,
    tid: u64,
    theirs: Versions,
    to_fetch: Vec<(ObjectKey, EVersion)>,
    fetching: BTreeSet<ObjectKey>,
}

/// Where a step that begins at a cursor ends so that it has an object's clones with its head: before this object, or after it
/// where it is the first.
fn before(cursor: &ObjectKey, key: &ObjectKey) -> ObjectKey {
    let first = first_of(key);
    if first > *cursor { first } else { successor(&head_of(key)) }
}

/// Listings in progress.
#[derive(Debug, Default)]
pub struct Listings(BTreeMap<u64, Listing>);

impl Pg {
    fn list(&mut self, core: &mut Core, from: ObjectKey, to: ObjectKey, max: usize, purpose: Purpose) {
        let id = core.next_round();
        let until = to.clone();
        let listing = Listing { keys: 0, until, versions: Versions::new(), listed: false, max, purpose };
        self.listings.0.insert(id, listing);
        core.io.read(core.now, Read::List { from, to, max }, ReadFor::Scan { pgid: self.id, id });
    }

    /// The keys of a listing have come: their versions are read next.
    pub fn on_scan_keys(&mut self, core: &mut Core, id: u64, result: Result<ReadReply, StoreError>) {
        let Some(listing) = self.listings.0.get_mut(&id) else { return };
        let Ok(ReadReply::List(keys)) = result else {
            core.event(Level::Error, "scan_failed", format!("pg {}", self.id));
            self.listings.0.remove(&id);
            return;
        };
        if keys.len() >= listing.max
            && let Some(last) = keys.last()
        {
            listing.until = successor(last);
        }
        (listing.keys, listing.listed) = (keys.len(), true);
        for key in keys {
            let read = Read::attrs_of(&key);
            let then = ReadFor::ScanVersion { pgid: self.id, id, key: Box::new(key) };
            core.io.read(core.now, read, then);
        }
        self.check_listing(core, id);
    }

    /// The version of one object of a listing. One that can't be read counts as version 0, which equals none.
    pub fn on_scan_version(
        &mut self,
        core: &mut Core,
        id: u64,
        key: ObjectKey,
        result: Result<ReadReply, StoreError>,
    ) {
        let Some(listing) = self.listings.0.get_mut(&id) else { return };
        let version = match result {
            Ok(ReadReply::Object(Some(view))) => view
                .attrs
                .iter()
                .find(|(name, _)| name == INFO_ATTR)
                .and_then(|(_, value)| ObjectInfo::parse(value))
                .map_or(EVersion::default(), |info| info.version),
            _ => EVersion::default(),
        };
        listing.versions.insert(key, version);
        self.check_listing(core, id);
    }

    fn check_listing(&mut self, core: &mut Core, id: u64) {
        let done = self.listings.0.get(&id).is_some_and(|l| l.listed && l.versions.len() == l.keys);
        if !done {
            return;
        }
        let Some(listing) = self.listings.0.remove(&id) else { return };
        match listing.purpose {
            Purpose::Member(osd) => self.compare_member(core, osd, listing),
            Purpose::OwnCopy => self.compare_own(core, listing),
            Purpose::Asked(conn, tid) => {
                let entries: Vec<(ObjectKey, EVersion)> = listing.versions.into_iter().collect();
                let reply = peer::PgScanReply {
                    head: self.head(core),
                    entries: Writer::encode(&entries),
                    until: Writer::encode(&listing.until),
                    done: false,
                };
                core.send(conn, tid, peer::Body::from(reply));
            }
        }
    }

    /// Another OSD asks what we have, or tells us that our copy is complete.
    pub fn on_scan(&mut self, core: &mut Core, conn: ConnId, tid: u64, msg: &peer::PgScan) {
        if !self.is_current(msg.head.interval) {
            return;
        }
        if msg.done {
            let reply = peer::PgScanReply {
                head: peer::PgHead { epoch: core.epoch(), ..msg.head },
                entries: Vec::new(),
                until: Vec::new(),
                done: true,
            };
            if self.activation != 0 && tid > self.activation {
                self.on_resync_done(core, conn, tid, reply);
            }
            return;
        }
        let (Ok(from), Ok(to)) =
            (Reader::new(&msg.from).get::<ObjectKey>(), Reader::new(&msg.to).get::<ObjectKey>())
        else {
            return;
        };
        let max = (msg.max as usize).clamp(1, SCAN_LIMIT);
        let (from, to) = (from.max(self.range.0.clone()), to.min(self.range.1.clone()));
        self.list(core, from, to, max, Purpose::Asked(conn, tid));
    }

    fn ask_scan(
        &self,
        core: &mut Core,
        osd: OsdId,
        tid: u64,
        range: Option<(&ObjectKey, &ObjectKey, usize)>,
    ) {
        let encode = |key: Option<&ObjectKey>| key.map(Writer::encode).unwrap_or_default();
        let body = peer::PgScan {
            head: self.head(core),
            from: encode(range.map(|r| r.0)),
            to: encode(range.map(|r| r.1)),
            max: range.map_or(0, |r| r.2 as u32),
            done: range.is_none(),
        };
        core.send_osd(osd, tid, peer::Body::from(body));
    }

    /// The members the next objects of whose copies are to be compared; none while our own lacks something.
    pub(super) fn to_be_compared(&self, core: &Core) -> impl Iterator<Item = OsdId> {
        let copies = self.copies.iter().filter(|_| self.missing.is_empty());
        copies.filter(|(osd, c)| c.is_to_be_compared() && !core.is_without_room(**osd)).map(|(osd, _)| *osd)
    }

    /// Begins or goes on with the comparison of members' copies. Between two steps nothing waits for it but writes to an object of
    /// which only clones were compared, so this is where it keeps to its pace; a step that clients wait for is done as fast as can be.
    pub fn resync_members(&mut self, core: &mut Core) {
        for osd in self.to_be_compared(core).collect::<Vec<_>>() {
            let Some(resync) = self.copies.get_mut(&osd).and_then(|c| c.resync.as_mut()) else { continue };
            if !resync.hurry && !core.may_compare() {
                continue;
            }
            let (from, to) = (resync.cursor.clone(), self.range.1.clone());
            // From now on writes to the rest of the PG wait, until the list says how far this step goes.
            resync.bound = Some(to.clone());
            (resync.compared, resync.tid) = (false, 0);
            let max = core.config.options.scan_max;
            self.list(core, from, to, max, Purpose::Member(osd));
        }
    }

    /// Our part of the range is known: asks the member for its own.
    fn compare_member(&mut self, core: &mut Core, osd: OsdId, listing: Listing) {
        let tid = core.next_round();
        let Some(resync) = self.copies.get_mut(&osd).and_then(|c| c.resync.as_mut()) else { return };
        // Who still waits, now that the step's end is known, says so again.
        (resync.tid, resync.ours, resync.hurry) = (tid, listing.versions, false);
        let (from, to) = (resync.cursor.clone(), listing.until);
        resync.bound = Some(to.clone());
        self.ask_scan(core, osd, tid, Some((&from, &to, SCAN_LIMIT)));
        self.kick_waiting(core);
    }

    /// The other side of a comparison has come.
    pub fn on_scan_reply(&mut self, core: &mut Core, from: OsdId, tid: u64, msg: &peer::PgScanReply) {
        if !self.is_current(msg.head.interval) {
            return;
        }
        if self.self_resync.as_ref().is_some_and(|s| s.tid == tid) {
            return self.on_own_scan_reply(core, msg);
        }
        let Some(resync) =
            self.copies.get_mut(&from).and_then(|c| c.resync.as_mut()).filter(|r| r.tid == tid)
        else {
            return;
        };
        if msg.done {
            return self.member_is_complete(core, from);
        }
        let Some((theirs, until)) = decode_scan(msg) else { return };
        let bound = resync.bound.clone().map_or(until.clone(), |b| b.min(until));
        let ours = std::mem::take(&mut resync.ours);
        let differing = ours.range(..&bound).filter(|(key, version)| theirs.get(*key) != Some(version));
        let mut to_send: Vec<_> = differing.map(|(k, v)| (k.clone(), *v, false)).collect();
        let held = core.qos.objects_held(core.config.options.scan_max, core.now.mono);
        let bound =
            to_send.get(held).map_or(bound.clone(), |(key, ..)| before(&resync.cursor, key).min(bound));
        to_send.retain(|(key, ..)| *key < bound);
        let extra = theirs.range(..&bound).filter(|(key, _)| !ours.contains_key(*key));
        to_send.extend(extra.map(|(k, v)| (k.clone(), *v, true)));
        (resync.bound, resync.to_send, resync.compared) = (Some(bound), to_send, true);
        resync.hurry = false;
        // Who need not wait goes on, who still does says so again.
        self.kick_waiting(core);
        self.resync_go_on(core, from);
    }

    /// Sends what differs, and moves the cursor once all of it has arrived.
    pub fn resync_go_on(&mut self, core: &mut Core, osd: OsdId) {
        loop {
            let Some(resync) = self.copies.get_mut(&osd).and_then(|c| c.resync.as_mut()) else { return };
            if !resync.compared || resync.sending.len() >= AT_ONCE {
                return;
            }
            if !resync.to_send.is_empty() && !resync.hurry && !core.may_recover() {
                return;
            }
            if let Some((key, version, deleted)) = resync.to_send.pop() {
                resync.sending.insert(key.clone());
                self.recovery.pushes.insert((osd, key.clone()));
                self.push(core, osd, key, version, deleted);
                continue;
            }
            if !resync.sending.is_empty() {
                return;
            }
            (resync.compared, resync.hurry) = (false, false);
            if std::mem::take(&mut resync.failed) {
                resync.bound = None;
                return self.kick_waiting(core);
            }
            resync.cursor = resync.bound.take().unwrap_or_else(|| self.range.1.clone());
            if resync.cursor >= self.range.1 {
                resync.ending = true;
                resync.tid = core.next_round();
                let tid = resync.tid;
                self.ask_scan(core, osd, tid, None);
            } else {
                self.resync_members(core);
            }
            return self.kick_waiting(core);
        }
    }

    fn member_is_complete(&mut self, core: &mut Core, osd: OsdId) {
        if let Some(copy) = self.copies.get_mut(&osd) {
            copy.resync = None;
            copy.info.incomplete = false;
        }
        core.event(Level::Info, "copy_resynced", format!("pg {} on osd.{osd}", self.id));
        self.stats.mark_changed();
        self.kick_all(core);
        self.recover(core);
    }

    /// Our own copy is too old: compares it with the authority's before anything else.
    pub fn begin_self_resync(&mut self, core: &mut Core) {
        let Some(source) = self
            .copies
            .iter()
            .find(|(_, c)| c.exists && !c.info.incomplete && c.info.last_update == self.info.last_update)
        else {
            return self.set_state_incomplete(core);
        };
        let source = *source.0;
        core.event(
            Level::Info,
            "own_copy_too_old",
            format!("pg {} is compared with osd.{source}'s", self.id),
        );
        let cursor = self.range.0.clone();
        self.self_resync = Some(SelfResync {
            source,
            until: cursor.clone(),
            cursor,
            tid: 0,
            theirs: Versions::new(),
            to_fetch: Vec::new(),
            fetching: BTreeSet::new(),
        });
        self.recovery_reset(core);
        self.self_resync_step(core);
    }

    /// Nobody to compare with any more: another round finds out.
    fn set_state_incomplete(&mut self, core: &Core) {
        self.repeer_at = Some(core.now.mono + core.config.options.reconnect_delay);
    }

    fn self_resync_step(&mut self, core: &mut Core) {
        let tid = core.next_round();
        let Some(own) = &mut self.self_resync else { return };
        own.tid = tid;
        let (source, from, to) = (own.source, own.cursor.clone(), self.range.1.clone());
        let max = core.config.options.scan_max;
        self.ask_scan(core, source, tid, Some((&from, &to, max)));
    }

    fn on_own_scan_reply(&mut self, core: &mut Core, msg: &peer::PgScanReply) {
        let (Some((theirs, until)), Some(own)) = (decode_scan(msg), &mut self.self_resync) else { return };
        (own.theirs, own.until) = (theirs, until.clone());
        let from = own.cursor.clone();
        self.list(core, from, until, SCAN_LIMIT, Purpose::OwnCopy);
    }

    fn compare_own(&mut self, core: &mut Core, listing: Listing) {
        let Some(own) = &mut self.self_resync else { return };
        own.until = own.until.clone().min(listing.until);
        let until = own.until.clone();
        // What the authority itself lacks comes through the missing set.
        let settled = |key: &ObjectKey| !self.missing.contains_key(key);
        let extra =
            listing.versions.range(..&until).filter(|(k, _)| settled(k) && !own.theirs.contains_key(*k));
        let ops: Vec<TxnOp> = extra.map(|(k, _)| TxnOp::Remove(k.clone())).collect();
        let wanted =
            own.theirs.range(..&until).filter(|(k, v)| settled(k) && listing.versions.get(*k) != Some(v));
        own.to_fetch = wanted.map(|(k, v)| (k.clone(), *v)).collect();
        if !ops.is_empty() {
            self.submit(core, ops, MetaChange::default(), CommitFor::Nothing);
        }
        self.self_resync_fetch(core);
    }

    /// There was no room for an object of the comparison.
    pub fn self_resync_again(&mut self, key: &ObjectKey, version: EVersion) {
        if let Some(own) = &mut self.self_resync
            && own.fetching.remove(key)
        {
            own.to_fetch.push((key.clone(), version));
        }
    }

    /// Fetches what differs, and goes on once all of it is here.
    pub fn self_resync_fetch(&mut self, core: &mut Core) {
        let us = core.config.id;
        loop {
            let Some(own) = &mut self.self_resync else { return };
            if core.is_without_room(us) && !own.to_fetch.is_empty() {
                return;
            }
            if own.fetching.len() < AT_ONCE
                && let Some((key, version)) = own.to_fetch.pop()
            {
                own.fetching.insert(key.clone());
                self.pull(core, &key, version, BTreeSet::new());
                continue;
            }
            if !own.fetching.is_empty() {
                return;
            }
            own.cursor = own.until.clone();
            if own.cursor < self.range.1 {
                return self.self_resync_step(core);
            }
            self.info.incomplete = false;
            let mut change = MetaChange::default();
            change.info(&self.info);
            let then = CommitFor::SelfResynced { pgid: self.id, round: self.round };
            return self.submit(core, Vec::new(), change, then);
        }
    }

    /// An object of the comparison has come.
    pub fn self_resync_got(&mut self, core: &mut Core, key: &ObjectKey) {
        if let Some(own) = &mut self.self_resync {
            own.fetching.remove(key);
            self.self_resync_fetch(core);
        }
    }

    /// Our copy is complete and durably marked so.
    pub fn on_self_resynced(&mut self, core: &mut Core, round: u64) {
        if round == self.round && self.state == State::SelfResync {
            self.self_resync = None;
            core.event(Level::Info, "copy_resynced", format!("pg {} here", self.id));
            self.get_missing(core);
        }
    }
}

fn decode_scan(msg: &peer::PgScanReply) -> Option<(Versions, ObjectKey)> {
    let entries: Vec<(ObjectKey, EVersion)> = Reader::new(&msg.entries).get().ok()?;
    Some((entries.into_iter().collect(), Reader::new(&msg.until).get().ok()?))
}
