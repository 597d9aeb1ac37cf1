//! Status of a PG, for the monitors and for the admin socket.

use super::PeerCopy;
use super::Pg;
use super::member::Member;
use super::state::State;
use crate::core::Core;
use maps::ObjectStatSum;
use peer::{PgStat, pg_state};
use serde_json::{Value, json};

impl Pg {
    /// Objects that a copy lacks.
    fn lacking(&self, member: Member, copy: &PeerCopy) -> i64 {
        match self.backfill.part_left(member, self.local.range()) {
            Some(part) => (self.local.info().stats.objects as f64 * part).ceil() as i64,
            None => copy.missing().len() as i64,
        }
    }

    /// Objects that lack copies, counted once for each copy.
    fn degraded(&self) -> i64 {
        let absent = self.members.size().saturating_sub(self.members.acting().count()) as i64;
        let copies = self.round.copies().filter(|(member, _)| self.members.acting().contains(*member));
        let lacking: i64 = copies.map(|(member, copy)| self.lacking(member, copy)).sum();
        absent * self.local.info().stats.objects + self.local.missing().len() as i64 + lacking
    }

    /// Objects whose copies are elsewhere than where CRUSH wants them, counted once for each copy.
    fn misplaced(&self) -> i64 {
        let (up, acting) = (self.members.up(), self.members.acting());
        let to_fill = |member: &Member| up.contains(*member) && !acting.contains(*member);
        self.round
            .copies()
            .filter(|(member, _)| to_fill(member))
            .map(|(member, copy)| self.lacking(member, copy))
            .sum()
    }

    /// The state as Ceph's bits.
    pub fn state_bits(&self, core: &Core) -> u64 {
        let members = self.members.acting().count();
        let mut bits = match self.state {
            State::Reset | State::GetInfo | State::GetLog | State::GetMissing | State::WaitUpThru => {
                pg_state::PEERING
            }
            State::SelfBackfill => pg_state::PEERING | pg_state::BACKFILLING,
            State::Down => pg_state::DOWN | pg_state::PEERING,
            State::Incomplete => pg_state::INCOMPLETE,
            State::Activating => pg_state::ACTIVATING,
            State::Clean if self.members.is_premerge() => pg_state::PEERED | pg_state::CLEAN,
            State::Active | State::Clean if !self.is_serving() => pg_state::PEERED,
            State::Active => pg_state::ACTIVE,
            State::Clean => pg_state::ACTIVE | pg_state::CLEAN,
            State::Stray | State::ReplicaActive => 0,
        };
        if self.members.is_premerge() {
            bits |= pg_state::PREMERGE;
        }
        if members < self.members.size() {
            bits |= pg_state::UNDERSIZED;
        }
        if self.degraded() > 0 {
            bits |= pg_state::DEGRADED;
        }
        if self.members.up() != self.members.acting() {
            bits |= pg_state::REMAPPED;
        }
        if self.state == State::Active {
            let (recovery_full, backfill_full) = self.waits_for_room(core);
            let lacks = !self.local.missing().is_empty()
                || self.round.copies().any(|(_, copy)| !copy.missing().is_empty());
            if recovery_full {
                bits |= pg_state::RECOVERY_TOOFULL;
            } else if self.recovery.pull_count() > 0 || self.recovery.push_count() > 0 {
                bits |= pg_state::RECOVERING;
            } else if lacks && !self.holds_slots() {
                bits |= pg_state::RECOVERY_WAIT;
            }
            if backfill_full {
                bits |= pg_state::BACKFILL_TOOFULL;
            } else if !self.backfill.is_done() {
                bits |= if self.holds_slots() { pg_state::BACKFILLING } else { pg_state::BACKFILL_WAIT };
            }
        }
        bits |= match self.trim_state(core) {
            Some(true) => pg_state::SNAPTRIM,
            Some(false) => pg_state::SNAPTRIM_WAIT,
            None => 0,
        };
        if let Some(what) = self.scrub.running() {
            bits |= pg_state::SCRUBBING;
            bits |= if what.deep { pg_state::DEEP_SCRUB } else { 0 };
            bits |= if what.repair { pg_state::REPAIR } else { 0 };
        }
        if self.scrub.record().errors() > 0 {
            bits |= pg_state::INCONSISTENT;
        }
        if self.scrub.record().failed_repair {
            bits |= pg_state::FAILED_REPAIR;
        }
        if self.recovery.unfound_count() > 0 {
            bits |= pg_state::RECOVERY_UNFOUND;
        }
        bits
    }

    /// The report to the monitors.
    pub fn stat(&mut self, core: &Core) -> PgStat {
        let state = self.state_bits(core);
        let (now, since) = (core.now().wall.into(), self.state_since.into());
        let s = &self.local.info().stats;
        let stats = ObjectStatSum {
            num_objects: s.objects,
            num_bytes: s.bytes,
            num_object_clones: s.clones,
            num_object_copies: s.objects * self.members.size() as i64,
            num_objects_missing_on_primary: self.local.missing().len() as i64,
            num_objects_degraded: self.degraded(),
            num_objects_misplaced: self.misplaced(),
            num_objects_unfound: self.recovery.unfound_count() as i64,
            num_rd: s.reads as i64,
            num_rd_kb: (s.read_bytes >> 10) as i64,
            num_wr: s.writes as i64,
            num_wr_kb: (s.written_bytes >> 10) as i64,
            num_scrub_errors: self.scrub.record().errors().into(),
            num_shallow_scrub_errors: self.scrub.record().shallow_errors.into(),
            num_deep_scrub_errors: self.scrub.record().deep_errors.into(),
            num_objects_repaired: self.scrub.record().repaired as i64,
            num_objects_recovered: self.stats.recovered().0 as i64,
            num_bytes_recovered: self.stats.recovered().1 as i64,
            ..ObjectStatSum::default()
        };
        let asked = self.round.asked().map(|member| member.osd);
        let when = |bit: u64| if state & bit != 0 { now } else { Default::default() };
        PgStat {
            pgid: self.id.pgid,
            state,
            version: self.local.info().last_update,
            reported_seq: self.stats.next_report(),
            reported_epoch: core.epoch(),
            last_change: since,
            last_active: when(pg_state::ACTIVE),
            last_clean: when(pg_state::CLEAN),
            last_scrub: self.scrub.record().last,
            last_deep_scrub: self.scrub.record().last_deep,
            last_clean_scrub: self.scrub.record().last_clean,
            last_scrub_version: self.scrub.record().last_version,
            last_deep_scrub_version: self.scrub.record().last_deep_version,
            log_size: self.local.log().len() as u64,
            up: self.members.up().osds().to_vec(),
            acting: self.members.acting().osds().to_vec(),
            stats,
            purged_snaps: self.trim.purged().clone(),
            snap_trim_queue: self.trim_queue_len(core),
            blocked_by: self.round.blocked_by().iter().copied().chain(asked).collect(),
        }
    }

    /// Everything, for `pg query` and `dump_pgs`.
    pub fn dump(&self, core: &Core) -> Value {
        let ids = |osds: &[maps::OsdId]| osds.iter().map(|o| o.0).collect::<Vec<_>>();
        json!({
            "pgid": self.id.to_string(),
            "state": pg_state::name(self.state_bits(core)),
            "machine_state": self.state.to_string(),
            "up": ids(self.members.up().osds()),
            "acting": ids(self.members.acting().osds()),
            "interval": self.members.interval().0,
            "last_update": self.local.info().last_update.to_string(),
            "log_tail": self.local.info().log_tail.to_string(),
            "committed_to": self.replication.committed_to().to_string(),
            "log_size": self.local.log().len(),
            "missing": self.local.missing().len(),
            "incomplete": self.local.info().incomplete,
            "objects": self.local.info().stats.objects,
            "bytes": self.local.info().stats.bytes,
            "epoch_created": self.local.info().history.epoch_created.0,
            "last_epoch_started": self.local.info().history.last_epoch_started.0,
            "last_epoch_clean": self.local.info().history.last_epoch_clean.0,
            "snap_trim_queue": self.trim_queue_len(core),
            "scrub": {
                "running": self.scrub.running().map(|what| what.name()),
                "last": self.scrub.record().last.iso8601(),
                "last_deep": self.scrub.record().last_deep.iso8601(),
                "errors": self.scrub.record().errors(),
                "repaired": self.scrub.record().repaired,
            },
            "past_intervals": self.members.past().len(),
            "blocked_by": ids(self.round.blocked_by()),
            "waits_for": self.round.asked().map(|member| member.osd.0).collect::<Vec<_>>(),
            "in_flight": self.replication.len(),
            "requests": self.requests.len(),
            "pulls": self.recovery.pull_count(),
            "pushes": self.recovery.push_count(),
            "unfound": self.recovery.unfound_count(),
        })
    }

    /// One line for each request that is not answered.
    pub fn dump_ops(&self, core: &Core) -> Vec<Value> {
        self.requests
            .iter()
            .map(|op| {
                let mut told = op.describe(self.id, core.now());
                if !self.is_serving() {
                    told["type_data"]["flag_point"] = format!("waiting for pg {}", self.state).into();
                }
                told
            })
            .collect()
    }
}
