//! Requests and snapshots: the context under which a write is made, and what shows an object at a snapshot.

use super::Pg;
use super::request::ClientOp;
use crate::core::Core;
use crate::object::{at_snap, first_of};
use crate::ops::Source;
use crate::snapset::{Shown, SnapContext, SnapSet};
use maps::pool_flags;
use msgs::{Op, OsdOp, osd_flag};
use store::ObjectKey;

impl Pg {
    /// The snapshots that a write preserves: the pool's own, or those that the client names; without those
    /// that were removed since the client learned of them, which would come back as clones that nobody ever
    /// trims.
    pub(super) fn snap_context(&self, core: &Core, request: &OsdOp) -> SnapContext {
        let pool =
            core.map().pools.get(&self.id.pgid.pool).filter(|pool| pool.has_flag(pool_flags::POOL_SNAPS));
        let mut context = match pool.filter(|_| request.flags & osd_flag::ENFORCE_SNAPC == 0) {
            Some(pool) => {
                SnapContext { seq: pool.snap_seq, snaps: pool.snaps.keys().rev().copied().collect() }
            }
            None => SnapContext { seq: request.snap_seq, snaps: request.snaps.clone() },
        };
        if !stdx::mutants::is_active("osd_clones_for_removed_snaps") {
            context.snaps.retain(|snap| !core.is_removed(self.id.pgid.pool, *snap));
        }
        context
    }

    /// Finds what each ROLLBACK of a request goes back to. Puts the request back if one of these must be
    /// completed first.
    pub(super) fn unless_sources_lack(&mut self, core: &mut Core, mut op: ClientOp) -> Option<ClientOp> {
        let key = op.key.clone();
        let mut clones: Vec<ObjectKey> = op.trim.iter().map(|clone| at_snap(&key, clone.0)).collect();
        for (i, sub) in op.request.ops.iter().enumerate() {
            if let Op::Rollback { snap } = sub.op {
                let source = Source::of(&op.loaded.info.snapset, snap);
                if let Source::Clone(clone, _) = source {
                    clones.push(at_snap(&key, clone.0));
                }
                op.loaded.sources.insert(i, source);
            }
        }
        match clones.into_iter().find(|clone| self.must_recover_first(clone, true)) {
            Some(clone) => self.unless_lacking(core, op, &clone, true),
            None => Some(op),
        }
    }

    /// The first state of an object, head or clone, that must be recovered before a repeated request for an
    /// update of it is answered.
    pub(super) fn lacking_state(&self, head: &ObjectKey) -> Option<ObjectKey> {
        let range = first_of(head)..head.clone();
        let members = self.members_copies();
        let missing = members.map(|(_, copy)| copy.missing()).chain([self.local.missing()]);
        let clones = missing.flat_map(|missing| missing.range(range.clone()).map(|(key, _)| key));
        let mut states = clones.chain([head]);
        states.find(|key| self.must_recover_first(key, true)).cloned()
    }
}

/// The key of what shows an object as a request wants to read it.
pub(super) fn shown_at(request: &OsdOp, head: &ObjectKey, set: &SnapSet) -> Option<ObjectKey> {
    let shown = match request.flags & osd_flag::MAP_SNAP_CLONE {
        0 => set.at(request.snapid),
        _ => set.at_clone(request.snapid),
    };
    match shown {
        Shown::Head => Some(head.clone()),
        Shown::Clone(_) if stdx::mutants::is_active("osd_reads_head_for_snapshots") => Some(head.clone()),
        Shown::Clone(id) => Some(at_snap(head, id.0)),
        Shown::Nothing => None,
    }
}
