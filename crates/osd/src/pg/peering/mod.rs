//! The primary's way to agreement: who may know what, whose log is right, what everybody lacks (paper, 5.5).
//!
//! Why it is sound: a write is acknowledged only when it is durable on the whole acting set, in an interval
//! whose primary had the monitors record that it was up. So at least one member of each interval that may
//! have been written in must answer, and those who took part in the last activation have logged all that was
//! acknowledged; of them the one is followed that can serve most. Everybody takes over only what is durable
//! where it comes from: a log that tells of objects must not outlive them.

pub mod round;

use crate::completion::CommitFor;
use crate::core::Core;
use crate::pg::Pg;
use crate::pg::info::{Info, Interval, Notice};
use crate::pg::log::{Dup, Entry, Missing, PgLog};
use crate::pg::member::Member;
use crate::pg::meta::MetaChange;
use crate::pg::recovery::unfound::is_given_up;
use crate::pg::state::State;
use maps::{EVersion, Epoch, OsdId};
use node::Level;
use round::PeerCopy;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use stdx::Instant;
use wire::{Reader, Writer, wire_structs};

wire_structs! {
    /// A member's log, for the primary.
    pub struct LogReply[v 1/1] {
        /// Info of its copy.
        pub info: Info,
        /// Version before the first entry.
        pub tail: EVersion,
        /// Dups that remain of older entries.
        pub dups: Vec<Dup>,
    }

    /// The result of peering, for the members.
    pub struct Activation[v 1/1] {
        /// The primary's copy, which is now the right one.
        pub info: Info,
        /// Version before the first entry sent: the receiver's later entries diverge.
        pub since: EVersion,
        /// The receiver's copy is to be compared object by object; its log is replaced.
        pub backfill: bool,
        /// With `backfill`: dups that remain of older entries.
        pub dups: Vec<Dup>,
        /// Past intervals.
        pub past: Vec<Interval>,
    }
}

impl Pg {
    /// The OSDs that may know of writes since the PG was last active; and the OSDs that are down, for
    /// intervals of which no member is up, unless all were declared lost since.
    fn prior_set(&self, core: &Core) -> (BTreeSet<Member>, Vec<OsdId>) {
        let (mut probe, mut blocked) = (BTreeSet::new(), Vec::new());
        probe.extend(self.members.acting().members().chain(self.members.up().members()));
        let since = self.local.info().history.last_epoch_started;
        for interval in self.members.past().iter().filter(|i| i.maybe_rw && i.last >= since) {
            let members = || interval.acting.members();
            let up: Vec<Member> = members().filter(|member| core.map().is_up(member.osd)).collect();
            if up.is_empty() {
                let is_awaited = |osd: &OsdId| !is_given_up(core.map(), *osd, interval.first);
                blocked.extend(members().map(|member| member.osd).filter(is_awaited));
            }
            probe.extend(up);
        }
        probe.remove(&self.us(core));
        (probe, blocked)
    }

    /// Asks all that have not been asked in this round.
    pub fn get_info(&mut self, core: &mut Core) {
        let (probe, blocked) = self.prior_set(core);
        for member in probe {
            if core.map().is_up(member.osd) && self.round.ask_info(member) {
                self.query(core, member, false);
            }
        }
        self.round.block_by(blocked);
        self.check_info(core);
    }

    fn query(&self, core: &mut Core, member: Member, want_log: bool) {
        let body =
            peer::PgQuery { head: self.head(core, member.shard), want_log, since: EVersion::default() };
        core.send_osd(member.osd, self.round.number(), peer::Body::from(body));
    }

    /// Takes what another OSD says of its copy: as an answer (its tid is our round), or because it saw a new
    /// primary.
    pub fn on_notice(&mut self, core: &mut Core, from: Member, tid: u64, exists: bool, notice: Notice) {
        if !self.is_primary(core) || tid != 0 && !self.round.take_answer(from, tid) {
            return;
        }
        let mut learned = self.local.learn_history(&notice.info.history);
        let past: Vec<_> = notice.past.into_iter().filter(|i| i.last < self.members.interval()).collect();
        learned |= self.members.learn_past(&past);
        self.leases.wait(core.now().mono, notice.lease_left_ns);
        self.replication.learn_sure(notice.info.sure_to);
        let feature_level = notice.feature_level;
        let copy = PeerCopy::new(exists, notice.info, feature_level);
        let keeps_it = exists || copy.info().history.epoch_created != Epoch(0);
        if keeps_it && !self.takes_part(from) {
            self.round.found_stray(from);
            self.remove_strays(core);
        }
        match self.state {
            State::GetInfo => {
                self.round.learn(from, copy);
                if learned { self.get_info(core) } else { self.check_info(core) }
            }
            State::Incomplete | State::Down if learned || exists && !self.round.knows(from) => {
                self.restart(core);
            }
            State::Active if exists && !self.round.knows(from) => self.found_another_copy(core, from, copy),
            _ => {}
        }
    }

    /// Whoever took part before the PG was last active has not been asked, but may have what its members have
    /// only heard of and nobody else has.
    fn found_another_copy(&mut self, core: &mut Core, from: Member, copy: PeerCopy) {
        let lacking = self.local.missing();
        if self.recovery.found(|key| lacking.contains_key(key)) {
            self.round.learn(from, copy);
            self.recover(core);
        }
    }

    /// Goes on once all have answered.
    fn check_info(&mut self, core: &mut Core) {
        if !self.round.has_all_answers() {
            return;
        }
        if self.local.info().history.epoch_created == Epoch(0) {
            // We have never heard of its past; somebody who has will report as soon as it sees that we are
            // primary.
            return;
        }
        if !self.round.blocked_by().is_empty() {
            self.set_state(core, State::Down);
            return;
        }
        let us = self.us(core);
        let best = self.choose_authority(us);
        if let Some(member) = best {
            let theirs = self.round.copy(member).filter(|_| member != us);
            let info = theirs.map_or(self.local.info(), PeerCopy::info);
            self.ask_acting(core, &info.clone());
        }
        match best {
            None => self.set_state(core, State::Incomplete),
            Some(member) if member == us => self.get_missing(core),
            Some(member) => {
                self.set_state(core, State::GetLog);
                self.round.ask_log(member);
                self.query(core, member, true);
            }
        }
    }

    /// The best copy: complete, of the newest activation, with the newest update that it had room for, then
    /// the longest log, then ours. All of them have logged what was acknowledged, so none is wrong.
    fn choose_authority(&self, us: Member) -> Option<Member> {
        let copies = self.round.copies().filter(|(_, c)| c.exists()).map(|(member, c)| (member, c.info()));
        let all: Vec<(Member, &Info)> = std::iter::once((us, self.local.info())).chain(copies).collect();
        // A copy that is being backfilled took part in activations too, and so knows which of the others are
        // too old.
        let started = all.iter().map(|(_, i)| i.last_epoch_started).max()?;
        let started = started.max(self.local.info().history.last_epoch_started);
        let able = all.into_iter().filter(|(_, i)| !i.incomplete && i.last_epoch_started >= started);
        let best = able.max_by_key(|(member, i)| {
            let whole = i.short_of == EVersion::default();
            (i.had_room_to(), whole, i.last_update, Reverse(i.log_tail), *member == us, Reverse(*member))
        });
        best.map(|(member, _)| member)
    }

    /// Takes a member's log: the authority's, or that of a member whose newest update we don't know.
    pub fn on_log_reply(&mut self, core: &mut Core, from: Member, tid: u64, msg: &peer::PgLog) {
        if !self.is_primary(core) || !self.round.take_answer(from, tid) {
            return;
        }
        let Some((reply, entries, missing)) = decode_log(msg) else {
            core.event(Level::Warn, "pg_log_undecodable", format!("pg {} from osd.{from}", self.id));
            self.round.repeer(core.now().mono + core.options().reconnect_delay);
            return;
        };
        let log = PgLog::new(reply.tail, entries, reply.dups).known_to(reply.info.last_update);
        match self.state {
            State::GetLog => {
                self.adopt(core, reply.info, log, missing);
            }
            State::GetMissing => {
                self.round.learn_log(from, reply.info, log, missing);
                self.check_missing(core);
            }
            _ => {}
        }
    }

    /// True if a copy can serve at once: it lacks nothing that the best copy's log does not name.
    fn can_serve(&self, core: &Core, member: Member, best: &Info) -> bool {
        let known = |info: &Info| !info.incomplete && !info.is_empty() && info.last_update >= best.log_tail;
        if member == self.us(core) {
            return known(self.local.info());
        }
        let Some(copy) = self.round.copy(member).filter(|_| core.map().is_up(member.osd)) else {
            return false;
        };
        // A serving copy may lack objects that its log names; a copy that starts to serve must lack nothing.
        let filled = copy.missing().is_empty() || self.members.acting().contains(member);
        match copy.is_activated() {
            true => !self.backfill.is_filling(member) && filled,
            false => copy.exists() && known(copy.info()),
        }
    }

    /// The OSDs that should serve the PG: first those of `up` that can serve at once, in order; if they are
    /// too few, others that can, until the first are backfilled. The PG thus keeps its number of copies while
    /// it moves.
    fn choose_acting(&self, core: &Core, best: &Info) -> Vec<Member> {
        let (up, acting) = (self.members.up(), self.members.acting());
        if best.is_empty() {
            return up.members().collect();
        }
        let mut want: Vec<Member> =
            up.members().filter(|member| self.can_serve(core, *member, best)).collect();
        // In the order in which they served last: then most clients need not change theirs.
        let before = self.members.past().last().into_iter().flat_map(|last| last.acting.members());
        let known = self.round.copies().map(|(member, _)| member);
        for member in acting.members().chain(before).chain(known) {
            if want.len() < self.members.size()
                && !want.contains(&member)
                && self.can_serve(core, member, best)
            {
                want.push(member);
            }
        }
        let leader = self.who_leads(core, &want);
        if leader > 0 {
            want[..=leader].rotate_right(1);
        }
        want
    }

    /// Index of the OSD that should be primary: 0, unless that OSD lacks objects and has no space for them,
    /// since it could neither delete nor serve them. If all lack something, the present primary stays until a
    /// client deletes an object that it lacks: then an OSD that has the object leads.
    fn who_leads(&self, core: &Core, want: &[Member]) -> usize {
        let us = self.us(core);
        let lacks = |member: &Member| match self.round.copy(*member) {
            _ if *member == us => !self.local.missing().is_empty(),
            Some(copy) if copy.is_activated() => !copy.missing().is_empty(),
            Some(copy) => copy.info().missing > 0,
            None => false,
        };
        let we_lead = core.map().pg_temp.get(&self.id.pgid).is_some_and(|temp| temp.first() == Some(&us.osd));
        let Some(first) = want.first().filter(|first| lacks(first)) else { return 0 };
        if !we_lead && !core.is_out_of_space(first.osd) {
            return 0;
        }
        let able = |member: &Member| !lacks(member) && !core.is_out_of_space(member.osd);
        let position = |is_one: &dyn Fn(&Member) -> bool| want.iter().position(is_one);
        let complete = position(&|member| *member == us && !lacks(member)).or_else(|| position(&able));
        complete.unwrap_or_else(|| {
            let missing = |member: &Member| {
                self.round.copy(*member).filter(|c| c.is_activated()).map(PeerCopy::missing)
            };
            let deletes = self.deletes_without_room(core);
            let has_one = |missing: &Missing| deletes.iter().any(|key| !missing.contains_key(*key));
            let lacks_more = |missing: &Missing| missing.keys().any(|key| !self.local.lacks(key));
            let stays = !core.is_out_of_space(us.osd) || missing(first).is_none_or(lacks_more);
            position(&|member| missing(member).is_some_and(has_one))
                .or_else(|| position(&|member| stays && *member == us))
                .unwrap_or(0)
        })
    }

    /// Has the monitors change who serves the PG for the time being, where others should. Whether that is so.
    fn ask_acting(&self, core: &mut Core, best: &Info) -> bool {
        let mut want: Vec<OsdId> =
            self.choose_acting(core, best).into_iter().map(|member| member.osd).collect();
        if want == self.members.up().osds() {
            want.clear();
        }
        let now = core.map().pg_temp.get(&self.id.pgid);
        let differs = now.map_or(!want.is_empty(), |now| *now != want);
        if differs {
            core.ask_pg_temp(self.id.pgid, want);
        }
        differs
    }

    /// While the PG is served: whether others should serve it by now, because copies have been filled. Then
    /// the monitors are asked.
    pub fn follow_acting(&self, core: &mut Core) -> bool {
        let (up, acting) = (self.members.up(), self.members.acting());
        let settled = acting == up
            && acting.count() >= self.members.size()
            && self.who_leads(core, &acting.members().collect::<Vec<_>>()) == 0
            && self.backfill.is_done();
        let serves = self.state.is_active() && self.is_primary(core);
        if !serves || settled && !core.map().pg_temp.contains_key(&self.id.pgid) {
            return false;
        }
        self.ask_acting(core, self.local.info())
    }

    /// Takes over the authority's log.
    fn adopt(&mut self, core: &mut Core, theirs: Info, auth: PgLog, auth_missing: Missing) {
        let mut change = MetaChange::default();
        let mut ops = Vec::new();
        let common = if self.local.info().incomplete { None } else { self.local.log().common_point(&auth) };
        if let Some(common) = common {
            let entries = auth.since(common).collect();
            self.local.merge_log(common, entries, auth.head(), &mut change, &mut ops);
        } else {
            // Objects that the authority itself lacks are taken from whoever has them.
            self.local.replace_log(auth, auth_missing, &mut change);
        }
        self.local.adopt(&theirs, &mut change);
        change.members(&self.members);
        self.submit(core, ops, change, CommitFor::Nothing);
        if common.is_some() {
            self.get_missing(core);
        } else {
            self.set_state(core, State::SelfBackfill);
            self.begin_self_backfill(core);
        }
    }

    /// Asks the other members for their logs where what they said is not enough to know what they lack.
    pub fn get_missing(&mut self, core: &mut Core) {
        self.set_state(core, State::GetMissing);
        for member in self.others(core) {
            let Some(copy) = self.round.copy(member) else {
                // A member that came up after we asked; the map that says so begins another round.
                continue;
            };
            let known = self.local.log().contains(copy.info().last_update) && copy.info().missing == 0;
            if copy.exists() && !copy.info().is_empty() && !copy.info().incomplete && !known {
                self.round.ask_log(member);
                self.query(core, member, true);
            }
        }
        self.check_missing(core);
    }

    fn check_missing(&mut self, core: &mut Core) {
        if !self.round.has_all_answers() {
            return;
        }
        for member in self.others(core) {
            let from = self.local.range().0.clone();
            if !self.round.compare_log(member, self.local.log()) {
                self.backfill.begin(member, from);
            }
        }
        self.check_up_thru(core);
    }

    /// Goes on once the map says that we were up in this interval; only then can others know that we may have
    /// been active.
    pub fn check_up_thru(&mut self, core: &mut Core) {
        let up_thru = core.map().osd(core.id()).map_or(Epoch(0), |o| o.info.up_thru);
        if up_thru >= self.members.interval() {
            self.activate(core);
        } else {
            core.need_up_thru(self.members.interval());
            if self.state != State::WaitUpThru {
                self.set_state(core, State::WaitUpThru);
            }
        }
    }

    /// Makes the result of peering durable here. Members are told afterwards: if log entries that they take
    /// were lost with us, all would search for their objects in vain.
    fn activate(&mut self, core: &mut Core) {
        self.set_state(core, State::Activating);
        let serves = self.members.acting().count() >= self.members.min_size();
        let mut change = MetaChange::default();
        self.local.activate(serves.then(|| core.epoch()), self.replication.sure_to(), &mut change);
        change.members(&self.members);
        self.submit(
            core,
            Vec::new(),
            change,
            CommitFor::Activated { pgid: self.id, round: self.round.number() },
        );
    }

    /// Tells all members what is right.
    fn activate_members(&self, core: &mut Core) {
        for member in self.others(core) {
            let backfill = self.backfill.is_filling(member);
            let common = self.round.copy(member).map_or(EVersion::default(), PeerCopy::common);
            let since = if backfill { self.local.log().tail() } else { common };
            let dups = if backfill { self.local.log().dups().cloned().collect() } else { Vec::new() };
            let past = self.members.past().to_vec();
            let activation = Activation { info: self.local.info().clone(), since, backfill, dups, past };
            let entries: Vec<Entry> = self.local.log().since(since).collect();
            let body = peer::PgLog {
                head: self.head(core, member.shard),
                activate: true,
                info: Writer::encode(&activation),
                log: Writer::encode(&entries),
                missing: Vec::new(),
            };
            core.send_osd(member.osd, self.round.number(), peer::Body::from(body));
        }
    }

    /// Our own part of the activation is durable.
    pub fn on_activated(&mut self, core: &mut Core, round: u64) {
        if round == self.round.number() {
            self.round.activated();
            self.activate_members(core);
            self.check_activated(core);
        }
    }

    /// A member's part of the activation is durable.
    pub fn on_member_activated(&mut self, core: &mut Core, from: Member, tid: u64) {
        if tid != self.round.number() {
            return;
        }
        self.round.member_activated(from);
        self.check_activated(core);
    }

    /// Goes on once all members agree durably and no member of an earlier interval can believe that it may
    /// serve reads.
    pub fn check_activated(&mut self, core: &mut Core) {
        let all = self.others(core).iter().all(|o| self.round.has_activated(*o));
        if self.state != State::Activating || !self.round.is_activated() || !all || !self.lease_is_over(core)
        {
            return;
        }
        self.local.became_active();
        self.replication.activated(self.local.log().head());
        self.set_state(core, State::Active);
        self.update_sure();
        self.save(core);
        self.share_history(core);
        self.kick_all(core);
        self.recover(core);
    }

    /// True if only a lease is still to expire.
    pub fn waits_for_lease(&self, core: &Core) -> bool {
        self.state == State::Activating
            && self.round.is_activated()
            && self.leases.wait_until() > core.now().mono
    }

    /// Time at which something may be due.
    pub fn deadline(&self, core: &Core) -> Option<Instant> {
        let activation = self.waits_for_lease(core).then_some(self.leases.wait_until());
        let all = [
            self.round.repeer_at(),
            activation,
            self.watches.deadline(),
            self.trim.paused_until(),
            self.scrub.paused_until(),
        ];
        all.into_iter().flatten().min()
    }

    /// True if there is no need to wait for members of earlier intervals. A reported wait counts until it is
    /// over, or until those who may rely on it are known to be gone.
    fn lease_is_over(&self, core: &Core) -> bool {
        if core.now().mono >= self.leases.wait_until() {
            return true;
        }
        let since = self.local.info().history.last_epoch_started;
        let serving = self.members.past().iter().filter(|i| i.maybe_rw && i.last >= since);
        let mut members = serving.flat_map(|i| i.acting.members().map(|member| (member, i.last)));
        // An OSD that answered us in this interval has stopped serving in the earlier one.
        let stopped = |member| member == self.us(core) || self.round.knows(member);
        members.all(|(member, last)| stopped(member) || core.is_gone_since(member.osd, last))
    }

    /// Tells the members since when the PG is active and clean.
    pub fn share_history(&self, core: &mut Core) {
        for member in self.others(core) {
            let body = peer::PgInfo {
                head: self.head(core, member.shard),
                activate: false,
                info: Writer::encode(self.local.info()),
            };
            core.send_osd(member.osd, self.round.number(), peer::Body::from(body));
        }
    }

    /// After a map that left the interval as it is.
    pub fn on_same_interval(&mut self, core: &mut Core, came_or_went: bool) {
        if self.members.is_premerge() && self.is_primary(core) {
            // That it still is ready is to be known as of the newest map.
            self.changed(core);
        }
        match self.state {
            State::WaitUpThru => self.check_up_thru(core),
            State::GetInfo
            | State::Down
            | State::Incomplete
            | State::GetLog
            | State::GetMissing
            | State::SelfBackfill
                if came_or_went =>
            {
                self.restart(core);
            }
            State::Activating => self.check_activated(core),
            // An acting set that was to go may have been what it is without.
            State::Active if self.is_primary(core) => match came_or_went && self.recovery.unfound_count() > 0
            {
                // Whoever came may have what nobody had.
                true => self.restart(core),
                false => self.check_clean(core),
            },
            State::Stray if came_or_went => self.notify_primary(core),
            // Started again with the copy of a PG that moved away meanwhile: nothing else begins an interval
            // that we are not a member of.
            State::Reset if !self.takes_part(self.us(core)) => self.begin(core),
            _ => {}
        }
    }

    /// A connection that we ask on was lost: where something is unanswered on it, another round is needed.
    pub fn on_link_lost(&mut self, core: &Core, osd: OsdId) {
        let at_it = |member: &Member| member.osd == osd;
        let activates = |member: &Member| at_it(member) && !self.round.has_activated(*member);
        let waits = self.round.waits_for(osd)
            || self.replication.waits_for(osd)
            || self.state == State::Activating && self.others(core).iter().any(activates)
            || self.recovery.waits_for(osd)
            || self.reservations.concerns(osd)
            || self.scrub.waits_for(osd)
            || self.others(core).iter().any(|member| at_it(member) && self.backfill.is_filling(*member))
            || self.backfill.is_own();
        if waits && self.is_primary(core) {
            self.round.repeer(core.now().mono + core.options().reconnect_delay);
        }
    }
}

fn decode_log(msg: &peer::PgLog) -> Option<(LogReply, Vec<Entry>, Missing)> {
    let reply: LogReply = Reader::new(&msg.info).get().ok()?;
    let entries: Vec<Entry> = Reader::new(&msg.log).get().ok()?;
    let missing: Missing = Reader::new(&msg.missing).get().ok()?;
    let ordered = entries.iter().try_fold(reply.tail, |last, e| (e.version > last).then_some(e.version));
    ordered.map(|_| (reply, entries, missing))
}
