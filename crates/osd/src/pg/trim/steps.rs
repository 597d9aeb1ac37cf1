//! The steps of trimming, which the primary takes while the PG is clean.

use super::{AGAIN_AFTER, AT_ONCE, LONGEST_PAUSE, PAGE, PGS_AT_ONCE, SnapTrim, keeps_trimmed_clones};
use crate::completion::{CommitFor, ReadFor};
use crate::core::Core;
use crate::object::{at_snap, head_of};
use crate::ops::info_op;
use crate::pg::Pg;
use crate::pg::info::Delta;
use crate::pg::log::{Answer, CloneChange, Entry, entry_kind};
use crate::pg::meta::{snap_entries_from, snap_entry_clone, snap_index, snap_prefix, unindex_clone};
use crate::pg::request::{ClientOp, Reply, Stage};
use crate::pg::state::State;
use crate::qos::Class;
use crate::snapset::Trimmed;
use maps::{IntervalSet, SnapId, osd_flags};
use node::Level;
use std::collections::VecDeque;
use store::{OmapRange, Read, ReadReply, StoreError, Transaction, TxnOp};

impl Pg {
    /// Removed snapshots of which clones may be left.
    fn to_trim(&self, core: &Core) -> IntervalSet {
        let mut queue = core.map().removed_snaps_queue.get(&self.id.pgid.pool).cloned().unwrap_or_default();
        queue.subtract(&self.trim.purged);
        queue
    }

    /// Number of snapshots to trim.
    pub fn trim_queue_len(&self, core: &Core) -> u64 {
        self.to_trim(core).size()
    }

    /// `Some(true)` if it trims, `Some(false)` if it waits for its turn.
    pub fn trim_state(&self, core: &Core) -> Option<bool> {
        let wanted = self.state == State::Clean && !self.to_trim(core).is_empty();
        (wanted || self.trim.active).then_some(self.trim.active)
    }

    /// Forgets what is under way.
    pub fn trim_reset(&mut self, core: &mut Core) {
        self.trim_rest(core);
        self.trim = SnapTrim::default();
    }

    /// Lets another PG trim.
    fn trim_rest(&mut self, core: &mut Core) {
        if std::mem::take(&mut self.trim.active) {
            core.end_trim();
            self.changed(core);
        }
    }

    /// Continues trimming if there is something to trim and the pause is over.
    pub fn snap_trim(&mut self, core: &mut Core) {
        if self.trim.pause.is_some_and(|at| at > core.now().mono) {
            return;
        }
        self.trim.pause = None;
        if self.trim.reading || self.trim.in_flight > 0 {
            return;
        }
        let may =
            self.state == State::Clean && self.is_serving() && !core.map().has_flag(osd_flags::NOSNAPTRIM);
        let queue = core.map().removed_snaps_queue.get(&self.id.pgid.pool);
        let (true, Some(queue)) = (may && self.is_primary(core), queue) else {
            (self.trim.current, self.trim.found) = (None, VecDeque::new());
            return self.trim_rest(core);
        };
        // Snapshots that the monitors have recorded as purged need no further report.
        let mut over = self.trim.purged.clone();
        over.subtract(queue);
        self.trim.purged.subtract(&over);
        let next = || self.to_trim(core).iter().next().map(|(first, _)| SnapId(first));
        let Some(snap) = self.trim.current.or_else(next) else { return self.trim_rest(core) };
        if !self.trim.active {
            if !core.begin_trim(PGS_AT_ONCE) {
                return;
            }
            self.trim.active = true;
            self.changed(core);
        }
        self.trim.current = Some(snap);
        if self.trim.found.is_empty() {
            return self.read_index(core, snap);
        }
        while self.trim.in_flight < AT_ONCE && !self.trim.found.is_empty() {
            if let Some(wait) = core.may_start(Class::SnapTrim) {
                if self.trim.in_flight == 0 {
                    self.trim.pause = Some(core.now().mono + wait);
                }
                break;
            }
            let Some(clone) = self.trim.found.pop_front() else { break };
            self.trim.in_flight += 1;
            let id = core.next_op();
            let op = ClientOp::trim(head_of(&clone), SnapId(clone.snap), core.now().mono);
            self.on_client_op(core, id, op);
        }
    }

    fn read_index(&mut self, core: &mut Core, snap: SnapId) {
        self.trim.reading = true;
        let prefix = snap_prefix(snap);
        let after = Some(snap_entries_from(snap, &self.local.range().0));
        let range = OmapRange { after, prefix, max: PAGE, max_bytes: usize::MAX };
        let read = Read::Object {
            key: snap_index(self.id.pgid.pool),
            attrs: false,
            data: Vec::new(),
            omap_header: false,
            omap_keys: Vec::new(),
            omap_range: Some(range),
        };
        core.read(read, ReadFor::SnapIndex { pgid: self.id, round: self.round.number() });
    }

    /// The clones under the snapshot at work.
    pub fn on_snap_index(&mut self, core: &mut Core, round: u64, result: Result<ReadReply, StoreError>) {
        if round != self.round.number() || !std::mem::take(&mut self.trim.reading) {
            return;
        }
        let entries = match result {
            Ok(ReadReply::Object(view)) => view.unwrap_or_default().omap_entries,
            other => {
                core.event(Level::Error, "snap_index_unreadable", format!("pg {}: {other:?}", self.id));
                return self.trim_later(core);
            }
        };
        let clones = entries.iter().filter_map(|(entry, _)| snap_entry_clone(entry));
        self.trim.found = clones.take_while(|clone| *clone < self.local.range().1).collect();
        if self.trim.found.is_empty()
            && let Some(snap) = self.trim.current.take()
        {
            self.trim.purged.insert(snap.0, 1);
            self.changed(core);
        }
        self.snap_trim(core);
    }

    fn trim_later(&mut self, core: &mut Core) {
        (self.trim.current, self.trim.found) = (None, VecDeque::new());
        self.trim.pause = Some(core.now().mono + AGAIN_AFTER);
        self.trim_rest(core);
    }

    /// The head of a clone to be trimmed is loaded: makes the update.
    pub(in crate::pg) fn trim_loaded(&mut self, core: &mut Core, mut op: ClientOp) {
        let head = op.key.clone();
        let clone = op.trim.expect("only the PG's own requests come here");
        let loaded = std::mem::take(&mut op.loaded);
        self.requests.leave_queue(&op);
        let clone_key = at_snap(&head, clone.0);
        let mut info = loaded.info.clone();
        let before = info.snapset.bytes();
        let known = info.snapset.clones.iter().find(|c| c.id == clone).cloned().unwrap_or_default();
        let pool = self.id.pgid.pool;
        let trimmed = info.snapset.trim(clone, |snap| core.is_removed(pool, snap));
        if !loaded.stored || trimmed == Trimmed::Untouched {
            // The index has more than there is; what it says of this snapshot only we act on.
            let ops = self.trim.current.iter().map(|snap| unindex_clone(&clone_key, &[*snap]));
            core.submit_own(Transaction { ops: ops.collect() }, CommitFor::Nothing);
            self.answer(core, op, Reply::default());
            return self.run_queue(core, &head);
        }
        let version = self.next_version(core);
        let removed = trimmed == Trimmed::Removed;
        let left = if let Trimmed::Shows(left) = trimmed { left } else { Vec::new() };
        let mut gone: Vec<SnapId> = known.snaps.iter().copied().filter(|s| !left.contains(s)).collect();
        gone.extend(self.trim.current.filter(|snap| !gone.contains(snap)));
        let mut ops = vec![unindex_clone(&clone_key, &gone)];
        if removed && !keeps_trimmed_clones() {
            ops.push(TxnOp::Remove(clone_key));
        }
        // A deleted object was here for its clones only.
        let ends = info.whiteout && info.snapset.clones.is_empty();
        let bytes = info.snapset.bytes() as i64 - before as i64;
        info.version = version;
        ops.push(if ends { TxnOp::Remove(head.clone()) } else { info_op(head.clone(), &info) });
        let clones = removed.then_some(CloneChange { id: clone, prior: known.version });
        let entry = Entry {
            version,
            prior: loaded.info.version,
            kind: if ends { entry_kind::DELETE } else { entry_kind::MODIFY },
            object: head.clone(),
            answer: Answer { user_version: self.local.info().last_user_version, ..Answer::default() },
            clones: clones.into_iter().collect(),
            ..Entry::default()
        };
        let delta = Delta {
            objects: -i64::from(removed) - i64::from(ends),
            clones: -i64::from(removed),
            bytes,
            internal: true,
            ..Delta::default()
        };
        op.enter(Stage::Replicating, core.now().mono);
        match self.replicate(core, entry, ops, delta, &op, Box::new(Reply::default())) {
            Ok(()) => {
                self.requests.put(op);
                core.count("clones_trimmed", 1);
            }
            Err((_, mut reply)) => {
                reply.result = wire::Errno::ENOSPC.to_result_code();
                self.answer(core, op, *reply);
            }
        }
        self.run_queue(core, &head);
    }

    /// A clone is trimmed, durably on all members. The next one waits for as long as it took, so that
    /// trimming leaves half of the time to others, however slow the disks are.
    pub(in crate::pg) fn trim_done(&mut self, core: &mut Core, op: &ClientOp, result: i32) {
        self.trim.in_flight -= 1;
        if result < 0 {
            return self.trim_later(core);
        }
        let took = core.now().mono.since(op.received);
        self.trim.pause = Some(core.now().mono + took.min(LONGEST_PAUSE));
    }
}
