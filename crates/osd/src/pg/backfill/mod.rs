//! MemberBackfill: a copy that is too old for the log is compared with a complete one, object by object in
//! the order of keys.
//!
//! A member's copy gets updates of objects before the cursor like any other. Of objects after it, it gets the
//! log entry only, because the comparison will bring the object. Writes to objects under comparison wait.
//! Until the end the copy is marked incomplete on its disk, counts neither for `min_size` nor as an
//! authority, and starts over after an interruption.

use crate::completion::{CommitFor, ReadFor};
use crate::core::Core;
use crate::object::{INFO_ATTR, ObjectInfo, first_of, head_of};
use crate::pg::member::{Asker, Member};
use crate::pg::meta::MetaChange;
use crate::pg::peering::round::PeerCopy;
use crate::pg::state::State;
use crate::pg::{Pg, successor};
use maps::EVersion;
use node::{ConnId, Level};
use std::collections::{BTreeMap, BTreeSet};
use store::{ObjectKey, Read, ReadReply, StoreError, TxnOp};
use wire::{Reader, Writer};

/// Objects that one member sends or fetches at once.
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
    Member(Member),
    /// To compare with the copy that we take ours from.
    OwnCopy,
    /// Another OSD asked.
    Asked(Asker),
}

/// A member's copy being compared, as the primary sees it.
#[derive(Debug)]
pub struct MemberBackfill {
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
    /// A client waits for the objects under comparison: they are sent at full speed. Determined again once
    /// the end of the step is known.
    hurry: bool,
}

impl MemberBackfill {
    /// True if something that differs is not on its way.
    fn is_to_be_sent(&self) -> bool {
        self.compared && !self.to_send.is_empty() && self.sending.len() < AT_ONCE
    }

    /// True if the next objects are to be compared.
    fn is_to_be_compared(&self) -> bool {
        self.bound.is_none() && !self.ending
    }

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

    /// True if writes to an object must wait: it is under comparison, or a clone of it was compared but not
    /// yet the head, so that the member has only a part of the state that a write changes.
    pub fn holds(&self, key: &ObjectKey) -> bool {
        let bound = self.bound.as_ref().unwrap_or(&self.cursor);
        self.cursor <= head_of(key) && first_of(key) < *bound
    }

    /// Fraction of a key range that is not known to be equal.
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

/// Our own copy being compared, before the PG is active.
#[derive(Debug)]
pub struct SelfBackfill {
    source: Member,
    cursor: ObjectKey,
    until: ObjectKey,
    tid: u64,
    theirs: Versions,
    to_fetch: Vec<(ObjectKey, EVersion)>,
    fetching: BTreeSet<ObjectKey>,
}

/// End of a step that begins at a cursor, chosen so that an object's clones are in the step of its head:
/// before this object, or after it if it is the first.
fn before(cursor: &ObjectKey, key: &ObjectKey) -> ObjectKey {
    let first = first_of(key);
    if first > *cursor { first } else { successor(&head_of(key)) }
}

/// The copies of a PG that are compared object by object. It ends with the round of peering.
///
/// Invariants: no key before a cursor differs; only what was compared is sent, and the comparison ends when
/// all of it has arrived.
#[derive(Debug, Default)]
pub struct Backfill {
    /// As primary: the members' copies under backfill.
    members: BTreeMap<Member, MemberBackfill>,
    /// As primary, before the PG is active: our own copy.
    own: Option<SelfBackfill>,
    /// Parts of our store being listed.
    listings: BTreeMap<u64, Listing>,
}

impl Backfill {
    /// A member's copy is to be compared, from the first key on.
    pub fn begin(&mut self, member: Member, from: ObjectKey) {
        self.members.insert(member, MemberBackfill::new(from));
    }

    /// True if a member's copy is not known to be complete.
    pub fn is_filling(&self, member: Member) -> bool {
        self.members.contains_key(&member)
    }

    /// True if no member's copy is left to be filled.
    pub fn is_done(&self) -> bool {
        self.members.is_empty()
    }

    /// True if our own copy is being compared.
    pub fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// Everything before it is equal at a member that is filled.
    pub fn cursor(&self, member: Member) -> Option<&ObjectKey> {
        self.members.get(&member).map(|fill| &fill.cursor)
    }

    /// True if writes to an object must wait for a member's comparison.
    pub fn holds(&self, member: Member, key: &ObjectKey) -> bool {
        self.members.get(&member).is_some_and(|fill| fill.holds(key))
    }

    /// The part of a range of keys that is not known to be equal at a member; `None` if its copy is not being
    /// filled.
    pub fn part_left(&self, member: Member, range: &(ObjectKey, ObjectKey)) -> Option<f64> {
        self.members.get(&member).map(|fill| fill.part_left(range))
    }

    /// The members to which something that differs is to be sent.
    pub fn to_be_sent(&self) -> Vec<Member> {
        self.members.iter().filter(|(_, fill)| fill.is_to_be_sent()).map(|(member, _)| *member).collect()
    }

    /// A client waits for an object: what holds it is sent as fast as can be. Gives the members to which
    /// something is to be sent for that.
    pub fn hurry(&mut self, key: &ObjectKey) -> Vec<Member> {
        let waited_for = self.members.iter_mut().filter_map(|(member, fill)| {
            let waited_for = fill.is_waited_for(key);
            (waited_for && fill.is_to_be_sent()).then_some(*member)
        });
        waited_for.collect()
    }

    /// An object has arrived at a member.
    pub fn pushed(&mut self, member: Member, key: &ObjectKey) {
        if let Some(fill) = self.members.get_mut(&member) {
            fill.pushed(key);
        }
    }

    /// A member had no space for an object.
    pub fn refused(&mut self, member: Member, key: &ObjectKey) {
        if let Some(fill) = self.members.get_mut(&member) {
            fill.refused(key);
        }
    }

    /// Asserts the invariants.
    pub fn check(&self) {
        for (member, fill) in &self.members {
            assert!(fill.compared || fill.to_send.is_empty(), "osd.{member} is sent what was not compared");
            assert!(fill.sending.len() <= AT_ONCE, "too much is on its way to osd.{member}");
            assert!(!fill.ending || fill.sending.is_empty(), "osd.{member}'s comparison ends too early");
        }
    }
}

impl Pg {
    fn list(&mut self, core: &mut Core, from: ObjectKey, to: ObjectKey, max: usize, purpose: Purpose) {
        let id = core.next_round();
        let until = to.clone();
        let listing = Listing { keys: 0, until, versions: Versions::new(), listed: false, max, purpose };
        self.backfill.listings.insert(id, listing);
        core.read(Read::List { from, to, max }, ReadFor::Scan { pgid: self.id, id });
    }

    /// The keys of a listing have come: their versions are read next.
    pub fn on_scan_keys(&mut self, core: &mut Core, id: u64, result: Result<ReadReply, StoreError>) {
        let Some(listing) = self.backfill.listings.get_mut(&id) else { return };
        let Ok(ReadReply::List(keys)) = result else {
            core.event(Level::Error, "scan_failed", format!("pg {}", self.id));
            self.backfill.listings.remove(&id);
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
            core.read(read, then);
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
        let Some(listing) = self.backfill.listings.get_mut(&id) else { return };
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
        let done = self.backfill.listings.get(&id).is_some_and(|l| l.listed && l.versions.len() == l.keys);
        if !done {
            return;
        }
        let Some(listing) = self.backfill.listings.remove(&id) else { return };
        match listing.purpose {
            Purpose::Member(member) => self.compare_member(core, member, listing),
            Purpose::OwnCopy => self.compare_own(core, listing),
            Purpose::Asked(Asker { conn, tid, shard }) => {
                let entries: Vec<(ObjectKey, EVersion)> = listing.versions.into_iter().collect();
                let reply = peer::PgScanReply {
                    head: self.head(core, shard),
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
                head: msg.head.answer(core.epoch()),
                entries: Vec::new(),
                until: Vec::new(),
                done: true,
            };
            if self.round.activation() != 0 && tid > self.round.activation() {
                self.on_backfill_done(core, conn, tid, reply);
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
        self.list(core, from, to, max, Purpose::Asked(Asker { conn, tid, shard: msg.head.from }));
    }

    fn ask_scan(
        &self,
        core: &mut Core,
        member: Member,
        tid: u64,
        range: Option<(&ObjectKey, &ObjectKey, usize)>,
    ) {
        let encode = |key: Option<&ObjectKey>| key.map(Writer::encode).unwrap_or_default();
        let body = peer::PgScan {
            head: self.head(core, member.shard),
            from: encode(range.map(|r| r.0)),
            to: encode(range.map(|r| r.1)),
            max: range.map_or(0, |r| r.2 as u32),
            done: range.is_none(),
        };
        core.send_osd(member.osd, tid, peer::Body::from(body));
    }

    /// The members the next objects of whose copies are to be compared; none while our own lacks something.
    pub(super) fn to_be_compared(&self, core: &Core) -> impl Iterator<Item = Member> {
        let members = self.backfill.members.iter().filter(|_| self.missing.is_empty());
        members
            .filter(|(member, fill)| fill.is_to_be_compared() && !core.is_out_of_space(member.osd))
            .map(|(member, _)| *member)
    }

    /// Starts or continues the comparison of members' copies. Between two steps only writes to an object of
    /// which some clones were compared wait for it, so this is where it keeps to its pace. A step that
    /// clients wait for runs at full speed.
    pub fn backfill_members(&mut self, core: &mut Core) {
        for member in self.to_be_compared(core).collect::<Vec<_>>() {
            let Some(fill) = self.backfill.members.get_mut(&member) else { continue };
            if !fill.hurry && !core.may_compare() {
                continue;
            }
            let (from, to) = (fill.cursor.clone(), self.range.1.clone());
            // From now on writes to the rest of the PG wait, until the list says how far this step goes.
            fill.bound = Some(to.clone());
            (fill.compared, fill.tid) = (false, 0);
            let max = core.options().scan_max;
            self.list(core, from, to, max, Purpose::Member(member));
        }
    }

    /// Our part of the range is known: asks the member for its own.
    fn compare_member(&mut self, core: &mut Core, member: Member, listing: Listing) {
        let tid = core.next_round();
        let Some(fill) = self.backfill.members.get_mut(&member) else { return };
        // Requests that still wait, now that the step's end is known, say so again.
        (fill.tid, fill.ours, fill.hurry) = (tid, listing.versions, false);
        let (from, to) = (fill.cursor.clone(), listing.until);
        fill.bound = Some(to.clone());
        self.ask_scan(core, member, tid, Some((&from, &to, SCAN_LIMIT)));
        self.kick_waiting(core);
    }

    /// The other side of a comparison has come.
    pub fn on_scan_reply(&mut self, core: &mut Core, from: Member, tid: u64, msg: &peer::PgScanReply) {
        if !self.is_current(msg.head.interval) {
            return;
        }
        if self.backfill.own.as_ref().is_some_and(|s| s.tid == tid) {
            return self.on_own_scan_reply(core, msg);
        }
        let Some(fill) = self.backfill.members.get_mut(&from).filter(|r| r.tid == tid) else {
            return;
        };
        if msg.done {
            return self.member_is_complete(core, from);
        }
        let Some((theirs, until)) = decode_scan(msg) else { return };
        let bound = fill.bound.clone().map_or(until.clone(), |b| b.min(until));
        let ours = std::mem::take(&mut fill.ours);
        let differing = ours.range(..&bound).filter(|(key, version)| theirs.get(*key) != Some(version));
        let mut to_send: Vec<_> = differing.map(|(k, v)| (k.clone(), *v, false)).collect();
        let held = core.objects_held(core.options().scan_max);
        let bound = to_send.get(held).map_or(bound.clone(), |(key, ..)| before(&fill.cursor, key).min(bound));
        to_send.retain(|(key, ..)| *key < bound);
        let extra = theirs.range(..&bound).filter(|(key, _)| !ours.contains_key(*key));
        to_send.extend(extra.map(|(k, v)| (k.clone(), *v, true)));
        (fill.bound, fill.to_send, fill.compared) = (Some(bound), to_send, true);
        fill.hurry = false;
        // Requests that need not wait proceed; those that still do say so again.
        self.kick_waiting(core);
        self.backfill_go_on(core, from);
    }

    /// Sends what differs, and moves the cursor once all of it has arrived.
    pub fn backfill_go_on(&mut self, core: &mut Core, member: Member) {
        loop {
            let Some(fill) = self.backfill.members.get_mut(&member) else { return };
            if !fill.compared || fill.sending.len() >= AT_ONCE {
                return;
            }
            if !fill.to_send.is_empty() && !fill.hurry && !core.may_recover() {
                return;
            }
            if let Some((key, version, deleted)) = fill.to_send.pop() {
                fill.sending.insert(key.clone());
                self.recovery.begin_push(member, &key);
                self.push(core, member, key, version, deleted);
                continue;
            }
            if !fill.sending.is_empty() {
                return;
            }
            (fill.compared, fill.hurry) = (false, false);
            if std::mem::take(&mut fill.failed) {
                fill.bound = None;
                return self.kick_waiting(core);
            }
            fill.cursor = fill.bound.take().unwrap_or_else(|| self.range.1.clone());
            if fill.cursor >= self.range.1 {
                fill.ending = true;
                fill.tid = core.next_round();
                let tid = fill.tid;
                self.ask_scan(core, member, tid, None);
            } else {
                self.backfill_members(core);
            }
            return self.kick_waiting(core);
        }
    }

    fn member_is_complete(&mut self, core: &mut Core, member: Member) {
        self.backfill.members.remove(&member);
        self.round.completed(member);
        core.event(Level::Info, "copy_resynced", format!("pg {} on osd.{member}", self.id));
        self.stats.mark_changed();
        self.kick_all(core);
        self.recover(core);
    }

    /// Our own copy is too old: compares it with the authority's before anything else.
    pub fn begin_self_backfill(&mut self, core: &mut Core) {
        let last_update = self.info.last_update;
        let is_complete = |copy: &PeerCopy| {
            copy.exists() && !copy.info().incomplete && copy.info().last_update == last_update
        };
        let Some((source, _)) = self.round.copies().find(|(_, copy)| is_complete(copy)) else {
            return self.set_state_incomplete(core);
        };
        core.event(
            Level::Info,
            "own_copy_too_old",
            format!("pg {} is compared with osd.{source}'s", self.id),
        );
        let cursor = self.range.0.clone();
        self.backfill.own = Some(SelfBackfill {
            source,
            until: cursor.clone(),
            cursor,
            tid: 0,
            theirs: Versions::new(),
            to_fetch: Vec::new(),
            fetching: BTreeSet::new(),
        });
        self.recovery_reset(core);
        self.self_backfill_step(core);
    }

    /// Nobody to compare with any more: another round finds out.
    fn set_state_incomplete(&mut self, core: &Core) {
        self.round.repeer(core.now().mono + core.options().reconnect_delay);
    }

    fn self_backfill_step(&mut self, core: &mut Core) {
        let tid = core.next_round();
        let Some(own) = &mut self.backfill.own else { return };
        own.tid = tid;
        let (source, from, to) = (own.source, own.cursor.clone(), self.range.1.clone());
        let max = core.options().scan_max;
        self.ask_scan(core, source, tid, Some((&from, &to, max)));
    }

    fn on_own_scan_reply(&mut self, core: &mut Core, msg: &peer::PgScanReply) {
        let (Some((theirs, until)), Some(own)) = (decode_scan(msg), &mut self.backfill.own) else { return };
        (own.theirs, own.until) = (theirs, until.clone());
        let from = own.cursor.clone();
        self.list(core, from, until, SCAN_LIMIT, Purpose::OwnCopy);
    }

    fn compare_own(&mut self, core: &mut Core, listing: Listing) {
        let Some(own) = &mut self.backfill.own else { return };
        own.until = own.until.clone().min(listing.until);
        let until = own.until.clone();
        // Objects that the authority itself lacks come through the missing set.
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
        self.self_backfill_fetch(core);
    }

    /// There was no room for an object of the comparison.
    pub fn self_backfill_again(&mut self, key: &ObjectKey, version: EVersion) {
        if let Some(own) = &mut self.backfill.own
            && own.fetching.remove(key)
        {
            own.to_fetch.push((key.clone(), version));
        }
    }

    /// Fetches the objects that differ, and continues once all of them are here.
    pub fn self_backfill_fetch(&mut self, core: &mut Core) {
        let us = core.id();
        loop {
            let Some(own) = &mut self.backfill.own else { return };
            if core.is_out_of_space(us) && !own.to_fetch.is_empty() {
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
                return self.self_backfill_step(core);
            }
            self.info.incomplete = false;
            let mut change = MetaChange::default();
            change.info(&self.info);
            let then = CommitFor::SelfBackfilled { pgid: self.id, round: self.round.number() };
            return self.submit(core, Vec::new(), change, then);
        }
    }

    /// An object of the comparison has come.
    pub fn self_backfill_got(&mut self, core: &mut Core, key: &ObjectKey) {
        if let Some(own) = &mut self.backfill.own {
            own.fetching.remove(key);
            self.self_backfill_fetch(core);
        }
    }

    /// Our copy is complete and durably marked so.
    pub fn on_self_backfilled(&mut self, core: &mut Core, round: u64) {
        if round == self.round.number() && self.state == State::SelfBackfill {
            self.backfill.own = None;
            core.event(Level::Info, "copy_resynced", format!("pg {} here", self.id));
            self.get_missing(core);
        }
    }
}

fn decode_scan(msg: &peer::PgScanReply) -> Option<(Versions, ObjectKey)> {
    let entries: Vec<(ObjectKey, EVersion)> = Reader::new(&msg.entries).get().ok()?;
    Some((entries.into_iter().collect(), Reader::new(&msg.until).get().ok()?))
}
