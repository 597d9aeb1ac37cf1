//! The steps of a scrub: chunk after chunk is listed, asked for, compared and judged.

use super::compare::{Maps, compare};
use super::finding::{Finding, Scanned, SnapFinding};
use super::map::Asker;
use super::mend::tell;
use super::record::Record;
use super::run::{Found, Run, Wanted};
use super::{AGAIN_AFTER, Check, LONGEST_PAUSE, PREEMPTIONS, Purpose, Scrub};
use crate::completion::{CommitFor, ReadFor};
use crate::core::Core;
use crate::object::{first_of, head_of};
use crate::pg::Pg;
use crate::pg::member::Member;
use crate::pg::meta::MetaChange;
use crate::pg::range::successor;
use crate::pg::state::State;
use crate::qos::Class;
use node::Level;
use std::collections::BTreeSet;
use store::{ObjectKey, Read, ReadReply, StoreError};
use wire::{Reader, Utime, Writer};

impl Pg {
    /// Starts a scrub.
    pub fn scrub_begin(&mut self, core: &mut Core, what: Wanted) {
        // A light scrub would lose findings that only a deep one sees.
        let deep = what.deep || self.scrub.record.deep_errors > 0;
        let what = Wanted { deep, ..what };
        self.scrub.ordered = None;
        let chunk = core.options().scrub.chunk(deep);
        self.scrub.run = Some(Run {
            what,
            cursor: self.local.range().0.clone(),
            chunk,
            given_up: 0,
            again: false,
            mended: BTreeSet::new(),
            damaged: 0,
            fixed: 0,
            shallow: 0,
            deep: 0,
            found: Found { interval: self.members.interval(), ..Found::default() },
        });
        core.begin_scrub();
        core.event(Level::Info, "scrub_began", format!("pg {}: {}", self.id, what.name()));
        self.scrub_changed(core);
        self.scrub_go_on(core);
    }

    pub(super) fn scrub_changed(&mut self, core: &mut Core) {
        self.changed(core);
    }

    /// Forgets what is under way. What was ordered stays so.
    pub fn scrub_reset(&mut self, core: &mut Core) {
        if let Some(run) = self.scrub.run.take() {
            core.end_scrub();
            if run.what.ordered {
                self.scrub.ordered = Some(run.what);
            }
        }
        let scrub = std::mem::take(&mut self.scrub);
        self.scrub = Scrub { record: scrub.record, ordered: scrub.ordered, ..Scrub::default() };
    }

    /// Nothing is missing any more: members get the record of scrubs, and an interrupted scrub continues.
    pub fn scrub_clean(&mut self, core: &mut Core) {
        if self.scrub.record.last == Utime::default() {
            // It counts from when it was first seen whole, as far as anybody knows.
            let now = core.now().wall.into();
            self.scrub.record =
                Record { last: now, last_deep: now, last_clean: now, ..self.scrub.record.clone() };
            self.scrub_save(core);
        }
        if self.scrub.run.is_none() {
            self.scrub_share(core);
        }
        core.look_for_scrubs();
    }

    pub(super) fn scrub_save(&mut self, core: &mut Core) {
        let mut change = MetaChange::default();
        change.scrub(&self.scrub.record);
        self.submit(core, Vec::new(), change, CommitFor::Nothing);
    }

    fn scrub_record(&self, core: &Core, to: Member) -> peer::PgScrubbed {
        peer::PgScrubbed { head: self.head(core, to.shard), record: Writer::encode(&self.scrub.record) }
    }

    fn scrub_share(&self, core: &mut Core) {
        for member in self.others(core) {
            let body = self.scrub_record(core, member);
            core.send_osd(member.osd, self.round.number(), peer::Body::from(body));
        }
    }

    /// Somebody tells when the PG was scrubbed.
    pub fn on_scrubbed(&mut self, core: &mut Core, from: Member, msg: &peer::PgScrubbed) {
        let Ok(record) = Reader::new(&msg.record).get::<Record>() else { return };
        if !self.is_current(msg.head.interval) || record == self.scrub.record {
            return;
        }
        if (record.last, record.last_deep) >= (self.scrub.record.last, self.scrub.record.last_deep) {
            self.scrub.record = record;
            self.scrub_save(core);
            self.scrub_changed(core);
        } else if self.primary() == Some(from) {
            let body = self.scrub_record(core, from);
            core.send_osd(from.osd, self.round.number(), peer::Body::from(body));
        }
    }

    /// Continues if it is time, objects that requests wait for first.
    pub fn scrub_go_on(&mut self, core: &mut Core) {
        // A pause that is over is no time to wait for, also where something else is waited for.
        self.scrub.pause = self.scrub.pause.filter(|at| *at > core.now().mono);
        let busy = self.scrub.check.is_some() || self.scrub.listing.is_some();
        if !self.state.is_active() || !self.is_primary(core) || busy {
            return;
        }
        if let Some(head) = self.scrub.objects.pop_front() {
            return self.check_range(core, (first_of(&head), successor(&head)), Purpose::Object);
        }
        if self.scrub.pause.is_some() {
            return;
        }
        let Some(run) = &self.scrub.run else { return };
        // Copies of the last chunk are being replaced.
        if self.state != State::Clean {
            return;
        }
        if let Some(wait) = core.may_start(Class::Scrub) {
            self.scrub.pause = Some(core.now().mono + wait);
            return;
        }
        let read = Read::List { from: run.cursor.clone(), to: self.local.range().1.clone(), max: run.chunk };
        let id = core.next_round();
        self.scrub.listing = Some(id);
        core.read(read, ReadFor::Scrub { pgid: self.id, id });
    }

    /// The next chunk's keys, as far as we have them: it ends behind a head, so that no object is divided.
    pub(in crate::pg) fn on_chunk_listed(&mut self, core: &mut Core, result: Result<ReadReply, StoreError>) {
        self.scrub.listing = None;
        if !self.scrub.objects.is_empty() || self.state != State::Clean {
            return self.scrub_go_on(core);
        }
        let Some(run) = &mut self.scrub.run else { return };
        let keys = match result {
            Ok(ReadReply::List(keys)) => keys,
            other => {
                let why = other.err().map(|e| e.to_string()).unwrap_or_default();
                return self.scrub_failed(core, &why);
            }
        };
        let heads = || keys.iter().filter(|key| key.snap == ObjectKey::HEAD);
        let until = match heads().next_back() {
            _ if keys.len() < run.chunk => self.local.range().1.clone(),
            Some(last) => successor(last),
            None => {
                run.chunk *= 2;
                return self.scrub_go_on(core);
            }
        };
        let from = run.cursor.clone();
        self.check_range(core, (from, until), Purpose::Chunk);
    }

    /// Our own store or a member's can't tell what is there.
    fn scrub_failed(&mut self, core: &mut Core, why: &str) {
        let text = format!("pg {}: {why}; tried again in {} s", self.id, AGAIN_AFTER.as_secs());
        core.event(Level::Error, "scrub_failed", text);
        self.scrub_reset(core);
        self.scrub.again_at = Some(core.now().mono + AGAIN_AFTER);
        self.scrub_changed(core);
    }

    /// Asks all members what they have in a range.
    fn check_range(&mut self, core: &mut Core, (from, until): (ObjectKey, ObjectKey), purpose: Purpose) {
        let tid = core.next_round();
        let deep = purpose == Purpose::Object || self.scrub.run.as_ref().is_some_and(|run| run.what.deep);
        let compared = |member: &Member| self.round.knows(*member) && !self.backfill.is_filling(*member);
        let others: Vec<Member> = self.others(core).into_iter().filter(compared).collect();
        let mut waiting: BTreeSet<Member> = others.iter().copied().collect();
        waiting.insert(self.us(core));
        for member in others {
            let body = peer::PgScrub {
                head: self.head(core, member.shard),
                from: Writer::encode(&from),
                to: Writer::encode(&until),
                deep,
            };
            core.send_osd(member.osd, tid, peer::Body::from(body));
        }
        let range = (from.clone(), until.clone());
        let began = core.now().mono;
        self.scrub.check =
            Some(Check { tid, from, until, purpose, began, waiting, maps: Maps::new(), failed: false });
        self.scan(core, range, deep, Asker::Ourselves(tid));
    }

    /// An update wants to change what is being compared.
    pub(in crate::pg) fn scrub_gives_way(&mut self, core: &Core, key: &ObjectKey) {
        let inside = |c: &Check| c.purpose == Purpose::Chunk && c.from <= *key && *key < c.until;
        let Some(tid) = self.scrub.check.as_ref().filter(|c| inside(c)).map(|c| c.tid) else { return };
        let Some(run) = self.scrub.run.as_mut().filter(|run| run.given_up < PREEMPTIONS) else { return };
        run.given_up += 1;
        run.chunk = (run.chunk / 2).max(1);
        self.scrub.check = None;
        self.scrub.scans.retain(|_, scan| !scan.is_for(tid));
        self.scrub.pause = Some(core.now().mono + LONGEST_PAUSE / 10);
    }

    /// A member has answered.
    pub fn on_scrub_map(&mut self, core: &mut Core, from: Member, tid: u64, msg: &peer::PgScrubMap) {
        if !self.is_current(msg.head.interval) {
            return;
        }
        let map = Reader::new(&msg.objects).get::<Vec<Scanned>>().ok().filter(|_| msg.error.is_empty());
        self.take_scrub_map(core, from, tid, map);
    }

    /// Takes the content of a copy; `None` if it could not be read.
    pub(in crate::pg) fn take_scrub_map(
        &mut self,
        core: &mut Core,
        from: Member,
        tid: u64,
        map: Option<Vec<Scanned>>,
    ) {
        let Some(check) = self.scrub.check.as_mut().filter(|check| check.tid == tid) else { return };
        if !check.waiting.remove(&from) {
            return;
        }
        match map {
            Some(map) => drop(check.maps.insert(from, map)),
            None => check.failed = true,
        }
        self.scrub_compare(core);
    }

    /// Compares what all members have, once they have answered and what was ordered before has reached all of
    /// them: who has not heard of an update, because it was lost with a connection, has another state, and
    /// rightly. Who has no room for it has said so.
    pub(in crate::pg) fn scrub_compare(&mut self, core: &mut Core) {
        let Some(check) = self.scrub.check.take_if(|check| check.waiting.is_empty()) else { return };
        let inside = |key: &ObjectKey| check.from <= *key && *key < check.until;
        if self.replication.is_unheard_of(inside) {
            self.scrub.check = Some(check);
            return;
        }
        self.checked(core, check);
        self.kick_waiting(core);
        self.scrub_go_on(core);
    }

    fn checked(&mut self, core: &mut Core, check: Check) {
        let us = self.us(core);
        let lacks = |member: Member, key: &ObjectKey| match member == us {
            true => self.local.lacks(key),
            false => self.round.is_missing(member, key),
        };
        let (findings, snaps) = compare(&*self.backend, &check.maps, us, &lacks);
        if check.purpose == Purpose::Object {
            return self.object_checked(core, &head_of(&check.from), findings);
        }
        if check.failed {
            return self.scrub_failed(core, "a member can't tell what it has");
        }
        let took = core.now().mono.since(check.began);
        let pause = took.min(LONGEST_PAUSE) + core.options().scrub.sleep;
        self.scrub.pause = Some(core.now().mono + pause);
        self.chunk_checked(core, check.until, findings, snaps);
    }

    fn chunk_checked(
        &mut self,
        core: &mut Core,
        until: ObjectKey,
        findings: Vec<Finding>,
        snaps: Vec<SnapFinding>,
    ) {
        let options = core.options().scrub.clone();
        let Some(run) = &mut self.scrub.run else { return };
        if !run.again {
            run.damaged += findings.len();
            for finding in &findings {
                tell(core, self.id, finding);
            }
            let may = run.what.repair || options.auto_repair && run.damaged <= options.auto_repair_errors;
            let (mend, _): (Vec<&Finding>, Vec<_>) = findings.iter().partition(|f| f.can_be_mended());
            if may && !mend.is_empty() {
                run.again = true;
                run.mended = mend.iter().map(|f| f.key.clone()).collect();
                for finding in &findings {
                    self.mend(core, finding);
                }
                return self.recover(core);
            }
        }
        for set in &snaps {
            let text = format!(
                "pg {} {:?}: clones {:?} are extra, {:?} missing",
                self.id, set.head, set.extra, set.missing
            );
            core.event(Level::Error, "scrub_found_bad_clones", text);
        }
        let left: BTreeSet<&ObjectKey> = findings.iter().map(|f| &f.key).collect();
        run.fixed += run.mended.iter().filter(|key| !left.contains(key)).count() as u64;
        run.shallow += snaps.len() as u32;
        for (shallow, deep) in findings.iter().map(Finding::count) {
            run.shallow += shallow;
            run.deep += deep;
        }
        run.found.add(findings, snaps);
        (run.again, run.mended, run.given_up) = (false, BTreeSet::new(), 0);
        run.chunk = options.chunk(run.what.deep);
        run.cursor = until;
        if run.cursor >= self.local.range().1 {
            self.scrub_end(core);
        }
    }

    fn scrub_end(&mut self, core: &mut Core) {
        let Some(run) = self.scrub.run.take() else { return };
        self.scrub.pause = None;
        core.end_scrub();
        let now: Utime = core.now().wall.into();
        let record = &mut self.scrub.record;
        (record.last, record.last_version) = (now, self.local.info().last_update);
        if run.what.deep {
            (record.last_deep, record.last_deep_version) = (now, self.local.info().last_update);
        }
        (record.shallow_errors, record.deep_errors) = (run.shallow, run.deep);
        record.repaired += run.fixed;
        if record.errors() == 0 {
            record.last_clean = now;
        }
        record.failed_repair = run.what.repair && record.errors() > 0;
        let (errors, fixed) = (record.errors(), run.fixed);
        self.scrub.found = run.found;
        let (level, verdict) = match errors {
            0 => (Level::Info, "ok".to_owned()),
            n => (Level::Error, format!("{n} errors left")),
        };
        let text = format!("pg {}: {} {verdict}, {fixed} objects mended", self.id, run.what.name());
        core.event(level, "scrub_ended", text);
        core.count("scrubs", 1);
        self.scrub_save(core);
        self.scrub_share(core);
        self.scrub_changed(core);
    }
}
