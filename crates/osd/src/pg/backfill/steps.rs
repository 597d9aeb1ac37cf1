//! The comparison of copies: the primary's side, and a member that is asked.

use super::{AT_ONCE, Listing, Purpose, SCAN_LIMIT, SelfBackfill, Versions, before};
use crate::completion::{CommitFor, ReadFor};
use crate::core::Core;
use crate::object::{INFO_ATTR, ObjectInfo};
use crate::pg::Pg;
use crate::pg::member::{Asker, Member};
use crate::pg::meta::MetaChange;
use crate::pg::peering::round::PeerCopy;
use crate::pg::range::successor;
use crate::pg::state::State;
use maps::EVersion;
use node::{ConnId, Level};
use std::collections::BTreeSet;
use store::{ObjectKey, Read, ReadReply, StoreError, TxnOp};
use wire::{Reader, Writer};

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
        let (from, to) = (from.max(self.local.range().0.clone()), to.min(self.local.range().1.clone()));
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
    pub(in crate::pg) fn to_be_compared(&self, core: &Core) -> impl Iterator<Item = Member> {
        let members = self.backfill.members.iter().filter(|_| self.local.missing().is_empty());
        members
            .filter(|(member, fill)| fill.is_to_be_compared() && !core.is_out_of_space(member.osd))
            .map(|(member, _)| *member)
            .filter(|member| self.may_fill(core, *member))
    }

    /// The members to which something that differs is to be sent now.
    pub(in crate::pg) fn to_be_sent(&self, core: &Core) -> impl Iterator<Item = Member> {
        self.backfill.to_be_sent().into_iter().filter(|member| self.may_fill(core, *member))
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
            let (from, to) = (fill.cursor.clone(), self.local.range().1.clone());
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
        let suspended = self.backfill_is_suspended(core);
        loop {
            let Some(fill) = self.backfill.members.get_mut(&member) else { return };
            if !fill.compared || fill.sending.len() >= AT_ONCE {
                return;
            }
            if !fill.to_send.is_empty() && !fill.hurry && (suspended || !core.may_recover()) {
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
            fill.cursor = fill.bound.take().unwrap_or_else(|| self.local.range().1.clone());
            if fill.cursor >= self.local.range().1 {
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
        let last_update = self.local.info().last_update;
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
        let cursor = self.local.range().0.clone();
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
        let (source, from, to) = (own.source, own.cursor.clone(), self.local.range().1.clone());
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
        let settled = |key: &ObjectKey| !self.local.lacks(key);
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
            if own.cursor < self.local.range().1 {
                return self.self_backfill_step(core);
            }
            let mut change = MetaChange::default();
            self.local.completed(&mut change);
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
