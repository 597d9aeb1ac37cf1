//! Scrub at the primary. Chunk by chunk, the PG's keys are read on all members ([`map`]) and compared
//! ([`mod@compare`]). Damaged copies are replaced from a right one by recovery, and the chunk is scrubbed
//! again.
//!
//! Members apply updates in the primary's order, and each read sees all updates ordered before it. So it
//! suffices that no update of the chunk is ordered between the question and the last answer. Updates do not
//! wait for that long: the first ones make the scrub give the chunk up and try a smaller one later. Only
//! after several attempts do updates wait.
//!
//! A request that fails because our own copy is damaged has its object compared at once, in the same way.

pub mod compare;
pub mod finding;
mod ls;
pub mod map;

use crate::completion::{CommitFor, ReadFor};
use crate::core::Core;
use crate::object::{first_of, head_of};
use crate::pg::Pg;
use crate::pg::member::Member;
use crate::pg::meta::MetaChange;
use crate::pg::request::ClientOp;
use crate::pg::state::State;
use crate::pg::successor;
use crate::qos::Class;
use compare::{Maps, compare};
use finding::{Finding, Scanned, SnapFinding};
use map::{Asker, Scan};
use maps::{EVersion, Epoch, OsdId, Pool, PoolOpt, osd_flags, pool_flags, pool_opt};
use node::Level;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use stdx::{Instant, Wall};
use store::{ObjectKey, Read, ReadReply, StoreError};
use wire::{Reader, Utime, Writer, wire_structs};

/// Findings that are kept for `rados list-inconsistent-obj`.
const KEPT: usize = 1000;
/// Maximum number of times that updates may preempt one chunk.
const PREEMPTIONS: u32 = 5;
/// The longest pause between two chunks.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Pause after a scrub that could not continue.
const AGAIN_AFTER: Duration = Duration::from_secs(60);
/// An object that no copy has whole is not compared again before.
const HOPELESS_FOR: Duration = Duration::from_secs(60);

wire_structs! {
    /// Result of a PG's scrubs. All members have it; the later of two is right.
    #[derive(Eq)]
    pub struct Record[v 1/1] {
        /// The end of the last scrub of either kind.
        pub last: Utime,
        /// The newest update then.
        pub last_version: EVersion,
        /// The end of the last deep scrub.
        pub last_deep: Utime,
        /// The newest update then.
        pub last_deep_version: EVersion,
        /// The end of the last one that found nothing, or mended all that it found.
        pub last_clean: Utime,
        /// Errors that are left, of those that a light scrub sees.
        pub shallow_errors: u32,
        /// Errors that only a deep scrub sees.
        pub deep_errors: u32,
        /// Objects that were mended since the PG was made.
        pub repaired: u64,
        /// The last repair that was ordered has left errors.
        pub failed_repair: bool,
    }
}

impl Record {
    /// Of a PG that has become one with another: what holds of both.
    fn join(&mut self, other: &Self) {
        self.last = self.last.min(other.last);
        self.last_deep = self.last_deep.min(other.last_deep);
        self.last_clean = self.last_clean.min(other.last_clean);
        self.last_version = self.last_version.min(other.last_version);
        self.last_deep_version = self.last_deep_version.min(other.last_deep_version);
        self.shallow_errors += other.shallow_errors;
        self.deep_errors += other.deep_errors;
        self.repaired += other.repaired;
        self.failed_repair |= other.failed_repair;
    }

    /// Errors that are left.
    pub fn errors(&self) -> u32 {
        self.shallow_errors + self.deep_errors
    }
}

/// A scrub to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// Read and compare data.
    pub deep: bool,
    /// Mend what is found, however much it is.
    pub repair: bool,
    /// An administrator has ordered it.
    pub ordered: bool,
}

/// A scrub that is under way.
#[derive(Debug)]
struct Run {
    what: Wanted,
    /// Everything before it has been compared.
    cursor: ObjectKey,
    /// Objects of the next chunk.
    chunk: usize,
    /// Number of times that the present chunk was given up.
    given_up: u32,
    /// It is looked at again, after copies were replaced.
    again: bool,
    /// Objects that were damaged in it the first time.
    mended: BTreeSet<ObjectKey>,
    /// Damaged objects so far, repaired or not.
    damaged: usize,
    fixed: u64,
    shallow: u32,
    deep: u32,
    found: Found,
}

/// Purpose of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Purpose {
    /// The scrub's turn.
    Chunk,
    /// A request needs it.
    Object,
}

/// A range that is being looked at.
#[derive(Debug)]
struct Check {
    tid: u64,
    from: ObjectKey,
    until: ObjectKey,
    purpose: Purpose,
    began: Instant,
    waiting: BTreeSet<Member>,
    maps: Maps,
    failed: bool,
}

/// Findings of a scrub, for clients.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Interval that found it; 0 if nothing was scrubbed in the present one.
    pub interval: Epoch,
    /// Objects, in the order of keys.
    pub objects: BTreeMap<ObjectKey, Finding>,
    /// Sets of clones.
    pub snapsets: Vec<SnapFinding>,
    /// A request met some of it: no scrub has seen it yet.
    unconfirmed: bool,
}

impl Found {
    fn add(&mut self, findings: Vec<Finding>, snaps: Vec<SnapFinding>) {
        for finding in findings {
            if self.objects.len() < KEPT {
                self.objects.insert(finding.key.clone(), finding);
            }
        }
        self.snapsets.extend(snaps);
        self.snapsets.truncate(KEPT);
    }
}

/// Progress of a PG's scrub.
#[derive(Debug, Default)]
pub struct Scrub {
    /// The result of the last one.
    record: Record,
    /// The findings of the last one.
    found: Found,
    ordered: Option<Wanted>,
    run: Option<Run>,
    listing: Option<u64>,
    check: Option<Check>,
    /// Heads of objects that requests wait for to be compared.
    objects: VecDeque<ObjectKey>,
    /// Objects that were, in vain.
    hopeless: BTreeMap<ObjectKey, Instant>,
    /// Members whose copy of a resync could not be sent because ours is damaged.
    unsent: bool,
    /// Looks at our own copy.
    scans: BTreeMap<u64, Scan>,
    /// It pauses until then.
    pause: Option<Instant>,
    again_at: Option<Instant>,
}

impl Scrub {
    /// Starts with a stored record.
    pub fn new(record: Record) -> Self {
        Self { record, ..Self::default() }
    }

    /// The result of the last one.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// The findings of the last one.
    #[cfg(test)]
    pub fn found(&self) -> &Found {
        &self.found
    }

    /// The end of the present pause.
    pub fn paused_until(&self) -> Option<Instant> {
        self.pause
    }

    /// Another PG becomes a part of this one: what is said of both holds.
    pub fn join(&mut self, other: &Self) {
        self.record.join(&other.record);
    }

    /// True if a request for an object must wait: an update of an object under comparison, or any request for
    /// an object that is compared for a request's sake.
    pub fn holds(&self, key: &ObjectKey, writes: bool) -> bool {
        let inside = |check: &Check| {
            (writes || check.purpose == Purpose::Object) && check.from <= *key && *key < check.until
        };
        self.check.as_ref().is_some_and(inside)
            || !self.objects.is_empty() && self.objects.contains(&head_of(key))
    }

    /// Whether an answer of this OSD is awaited.
    pub fn waits_for(&self, osd: OsdId) -> bool {
        let at_it = |check: &Check| check.waiting.iter().any(|member| member.osd == osd);
        self.check.as_ref().is_some_and(at_it)
    }

    pub(in crate::pg) fn is_listing(&self, id: u64) -> bool {
        self.listing == Some(id)
    }

    /// The scrub in progress.
    pub fn running(&self) -> Option<Wanted> {
        self.run.as_ref().map(|run| run.what)
    }
}

/// True if a planted fault has damaged copies left as they are when a request meets them.
fn reads_do_not_mend() -> bool {
    stdx::mutants::is_active("osd_reads_do_not_mend")
}

/// A setting of the pool in seconds, or else of the OSD.
fn interval(pool: Option<&Pool>, key: i32, default: Duration) -> Duration {
    match pool.and_then(|pool| pool.opts.get(&key)) {
        Some(PoolOpt::Double(secs)) => Duration::try_from_secs_f64(*secs).unwrap_or(default),
        _ => default,
    }
}

impl Pg {
    /// Fraction of an interval by which this PG's schedule is shifted, so that not all are due at once.
    fn scrub_spread(&self) -> f64 {
        let name = self.id.to_string();
        f64::from(stdx::crc32c::update(u32::MAX, name.as_bytes())) / f64::from(u32::MAX)
    }

    /// Times at which a light and a deep scrub are due.
    pub fn scrub_due(&self, core: &Core) -> (Wall, Wall) {
        let options = &core.options().scrub;
        let pool = core.map().pools.get(&self.id.pgid.pool);
        let light = interval(pool, pool_opt::SCRUB_MIN_INTERVAL, options.min_interval);
        let deep = interval(pool, pool_opt::DEEP_SCRUB_INTERVAL, options.deep_interval);
        let spread = self.scrub_spread();
        // A stamp of the future is a clock's that was wrong.
        let from = |stamp: Utime| wall(stamp).min(core.now().wall);
        let light = light.mul_f64(1.0 + options.randomize_ratio * spread);
        let deep = deep.mul_f64(0.8 + 0.2 * spread);
        (from(self.scrub.record.last) + light, from(self.scrub.record.last_deep) + deep)
    }

    /// The scrub to do now, and the time since which it is due.
    pub fn scrub_wanted(&self, core: &Core) -> Option<(Wanted, Wall)> {
        let may = self.state == State::Clean && self.is_serving() && self.is_primary(core);
        if !may || self.scrub.run.is_some() || self.scrub.again_at.is_some_and(|at| at > core.now().mono) {
            return None;
        }
        if let Some(ordered) = self.scrub.ordered {
            return Some((ordered, Wall(0)));
        }
        if self.scrub.record.last == Utime::default() {
            return None;
        }
        let pool = core.map().pools.get(&self.id.pgid.pool)?;
        let no_light = core.map().has_flag(osd_flags::NOSCRUB) || pool.has_flag(pool_flags::NOSCRUB);
        let no_deep = core.map().has_flag(osd_flags::NODEEP_SCRUB) || pool.has_flag(pool_flags::NODEEP_SCRUB);
        let (light, deep) = self.scrub_due(core);
        let wanted = |deep| Wanted { deep, repair: false, ordered: false };
        let now = core.now().wall;
        if self.scrub_to_confirm() && !no_deep {
            return Some((wanted(true), Wall(0)));
        }
        match (light <= now && !no_light, deep <= now && !no_deep) {
            (_, true) => Some((wanted(true), deep)),
            (true, false) => Some((wanted(false), light)),
            _ => None,
        }
    }

    /// True if damage is on record that no scrub of this membership has seen. A disk may be readable again,
    /// and an object may have been rewritten or removed. Without a scrub the PG would stay inconsistent until
    /// its next turn.
    fn scrub_to_confirm(&self) -> bool {
        let found = &self.scrub.found;
        self.scrub.record.errors() > 0 && (found.unconfirmed || found.interval != self.members.interval)
    }

    /// An administrator orders a scrub. It begins when nothing else is in its way.
    pub fn scrub_order(&mut self, core: &mut Core, deep: bool, repair: bool) {
        let before = self.scrub.ordered.unwrap_or(Wanted { deep: false, repair: false, ordered: true });
        self.scrub.ordered =
            Some(Wanted { deep: before.deep | deep | repair, repair: before.repair | repair, ordered: true });
        self.scrub.again_at = None;
        core.look_for_scrubs();
    }

    /// Starts a scrub.
    pub fn scrub_begin(&mut self, core: &mut Core, what: Wanted) {
        // A light scrub would lose findings that only a deep one sees.
        let deep = what.deep || self.scrub.record.deep_errors > 0;
        let what = Wanted { deep, ..what };
        self.scrub.ordered = None;
        let chunk = core.options().scrub.chunk(deep);
        self.scrub.run = Some(Run {
            what,
            cursor: self.range.0.clone(),
            chunk,
            given_up: 0,
            again: false,
            mended: BTreeSet::new(),
            damaged: 0,
            fixed: 0,
            shallow: 0,
            deep: 0,
            found: Found { interval: self.members.interval, ..Found::default() },
        });
        core.begin_scrub();
        core.event(Level::Info, "scrub_began", format!("pg {}: {}", self.id, what.name()));
        self.scrub_changed(core);
        self.scrub_go_on(core);
    }

    fn scrub_changed(&mut self, core: &mut Core) {
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

    fn scrub_save(&mut self, core: &mut Core) {
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
        let read = Read::List { from: run.cursor.clone(), to: self.range.1.clone(), max: run.chunk };
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
            _ if keys.len() < run.chunk => self.range.1.clone(),
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
            true => self.missing.contains_key(key),
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
        if run.cursor >= self.range.1 {
            self.scrub_end(core);
        }
    }

    fn scrub_end(&mut self, core: &mut Core) {
        let Some(run) = self.scrub.run.take() else { return };
        self.scrub.pause = None;
        core.end_scrub();
        let now: Utime = core.now().wall.into();
        let record = &mut self.scrub.record;
        (record.last, record.last_version) = (now, self.info.last_update);
        if run.what.deep {
            (record.last_deep, record.last_deep_version) = (now, self.info.last_update);
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

    /// Replaces damaged copies of an object by recovery from one that is right.
    fn mend(&mut self, core: &mut Core, finding: &Finding) {
        if !finding.can_be_mended() {
            return;
        }
        let us = self.us(core);
        let key = &finding.key;
        for member in &finding.good {
            self.round.found_copy(*member);
        }
        for member in finding.bad() {
            if member != us {
                self.round.found_damaged(member, key, finding.version);
                continue;
            }
            // Durably, so that nobody takes our copy for a good one should another primary follow.
            self.missing.insert(key.clone(), finding.version);
            self.info.missing = self.missing.len() as u64;
            let mut change = MetaChange::default();
            change.add_missing(key, finding.version);
            change.info(&self.info);
            self.submit(core, Vec::new(), change, CommitFor::Nothing);
            core.object_repaired();
        }
        core.count("copies_mended", finding.bad().len() as u64);
        if self.state == State::Clean {
            self.set_state(core, State::Active);
        }
        if self.missing.contains_key(key) && !self.recovery.is_pulling(key) {
            let not_from = self
                .round
                .copies()
                .map(|(member, _)| member)
                .filter(|member| !finding.good.contains(member))
                .collect();
            self.pull(core, key, finding.version, not_from);
        }
        self.scrub_changed(core);
    }
}

/// A request that our own copy is in the way of.
impl Pg {
    /// Has the object of a request compared with the other copies, once. Gives the request back if that is of
    /// no use.
    pub(in crate::pg) fn unless_checked_first(
        &mut self,
        core: &mut Core,
        mut op: ClientOp,
    ) -> Option<ClientOp> {
        let now = core.now().mono;
        if op.checked || self.members.acting.count() < 2 || reads_do_not_mend() {
            return Some(op);
        }
        op.checked = true;
        let head = head_of(&op.key);
        if self.scrub.hopeless.get(&head).is_some_and(|until| *until > now) {
            return Some(op);
        }
        op.wait_again(now);
        op.damaged = false;
        self.requests.put(op);
        self.queue_check(core, head);
        None
    }

    fn queue_check(&mut self, core: &mut Core, head: ObjectKey) {
        if !self.scrub.objects.contains(&head) {
            self.scrub.objects.push_back(head);
        }
        self.scrub_go_on(core);
    }

    /// An object that a member lacks can't be read here.
    pub(in crate::pg) fn unreadable_here(&mut self, core: &mut Core, member: Member, key: ObjectKey) {
        core.recovery_ended(1);
        self.recovery.end_push(member, &key);
        // Objects that a backfill should have sent are found again by the next comparison.
        self.scrub.unsent |= self.backfill.is_filling(member);
        // Until it is known who has it.
        self.recovery.lost(&key);
        self.queue_check(core, head_of(&key));
    }

    /// The object that a request waits for has been compared.
    fn object_checked(&mut self, core: &mut Core, head: &ObjectKey, findings: Vec<Finding>) {
        let us = self.us(core);
        let ours = |f: &&Finding| f.shards.contains_key(&us) && !f.good.contains(&us);
        let (mut mended, mut lost) = (false, Vec::new());
        let states = first_of(head)..=head.clone();
        for finding in &findings {
            tell(core, self.id, finding);
        }
        for finding in findings.iter().filter(ours) {
            if finding.can_be_mended() {
                mended = true;
                self.recovery.found(|key| *key == finding.key);
                self.mend(core, finding);
                core.count("objects_mended_for_requests", 1);
                self.scrub.record.repaired += 1;
            } else {
                lost.push(finding.clone());
            }
        }
        if lost.is_empty() {
            self.recovery.found(|key| states.contains(key));
        }
        if !mended {
            // Whatever it was, it has gone, or there is nothing better anywhere.
            self.scrub.hopeless.retain(|_, until| *until > core.now().mono);
            self.scrub.hopeless.insert(head.clone(), core.now().mono + HOPELESS_FOR);
        }
        if !lost.is_empty() {
            let record = &mut self.scrub.record;
            record.deep_errors = record.deep_errors.max(lost.len() as u32);
            self.scrub.found.interval = self.members.interval;
            self.scrub.found.unconfirmed = true;
            self.scrub.found.add(lost, Vec::new());
            self.scrub_save(core);
        }
        if std::mem::take(&mut self.scrub.unsent) {
            self.round.repeer(core.now().mono + core.options().reconnect_delay);
        } else if self.round.repeer_at().is_none() && self.recovery.is_any_unfound(|key| states.contains(key))
        {
            // Perhaps it can be read later.
            self.round.repeer(core.now().mono + HOPELESS_FOR);
        }
        self.scrub_changed(core);
        self.recover(core);
        self.kick_all(core);
    }
}

impl Wanted {
    /// Name of the scrub, as the commands call it.
    pub fn name(self) -> &'static str {
        match (self.repair, self.deep) {
            (true, _) => "repair",
            (false, true) => "deep-scrub",
            (false, false) => "scrub",
        }
    }
}

fn wall(stamp: Utime) -> Wall {
    Wall(u64::from(stamp.sec) * 1_000_000_000 + u64::from(stamp.nsec))
}

fn tell(core: &mut Core, pgid: maps::Spg, finding: &Finding) {
    let bad: Vec<String> = finding.bad().iter().map(|member| format!("osd.{member}")).collect();
    let name = String::from_utf8_lossy(&finding.key.name).into_owned();
    let whose = match finding.can_be_mended() {
        true => format!("the copies on {} are damaged", bad.join(", ")),
        false => "no copy is known to be right".to_owned(),
    };
    core.event(Level::Error, "object_damaged", format!("pg {pgid} {name:?}: {whose}"));
}
