//! Snapshot realms, as MDSs describe them: which snapshots a write must preserve.

use crate::api::Ino;
use maps::SnapId;
use msgs::SnapRealmInfo;
use rados::SnapContext;
use std::collections::{BTreeMap, BTreeSet};

/// The root's realm, which is around all others.
const ROOT: Ino = 1;

/// A realm as it was described last.
#[derive(Debug, Default)]
struct Realm {
    created: SnapId,
    seq: SnapId,
    parent: Ino,
    parent_since: SnapId,
    /// Its own snapshots, and those of former parents.
    snaps: Vec<SnapId>,
}

/// The realms that this client knows.
///
/// Invariant: a description is only replaced by a newer one.
#[derive(Debug, Default)]
pub(crate) struct Realms {
    known: BTreeMap<Ino, Realm>,
}

impl Realms {
    /// Takes the description of a realm and of those around it. Returns the snapshots that realms had and
    /// have no more: they may have been removed.
    pub(crate) fn learn(&mut self, trace: &[SnapRealmInfo]) -> Vec<SnapId> {
        let mut gone = Vec::new();
        for info in trace {
            let realm = self.known.entry(info.ino).or_default();
            if info.seq >= realm.seq {
                let snaps: Vec<SnapId> = info.snaps.iter().chain(&info.prior_parent_snaps).copied().collect();
                if realm.snaps != snaps {
                    let left: BTreeSet<SnapId> = snaps.iter().copied().collect();
                    gone.extend(realm.snaps.iter().filter(|snap| !left.contains(snap)));
                }
                let (created, seq, parent_since) = (info.created, info.seq, info.parent_since);
                *realm = Realm { created, seq, parent: info.parent, parent_since, snaps };
            }
        }
        gone
    }

    /// A new realm has come between a realm and the one that was around it.
    pub(crate) fn move_below(&mut self, realm: Ino, parent: Ino) {
        if let Some(realm) = self.known.get_mut(&realm) {
            realm.parent = parent;
        }
    }

    /// True if an inode that is in realm `old` may move to `new`: not if it has moved on to a newer one.
    pub(crate) fn may_move(&self, old: Ino, new: Ino) -> bool {
        let created = |realm| self.known.get(&realm).map_or(SnapId(0), |realm| realm.created);
        created(old) <= created(new)
    }

    /// A realm and those around it, the innermost first; the root's is the last.
    pub(crate) fn around(&self, realm: Ino) -> Vec<Ino> {
        let (mut around, mut at) = (Vec::new(), realm);
        // An MDS that describes a circle gets one round.
        while at != ROOT && around.len() <= self.known.len() {
            around.push(at);
            at = self.known.get(&at).map_or(ROOT, |realm| realm.parent);
        }
        around.push(ROOT);
        around
    }

    /// The snapshots that a write to an inode of a realm must preserve.
    pub(crate) fn context(&self, realm: Ino) -> SnapContext {
        let (mut seq, mut snaps) = (SnapId(0), Vec::new());
        let (mut at, mut since) = (realm, SnapId(0));
        // An MDS that describes a circle gets what one round finds.
        for _ in 0..=self.known.len() {
            let Some(realm) = self.known.get(&at) else { break };
            seq = seq.max(realm.seq);
            snaps.extend(realm.snaps.iter().copied().filter(|snap| *snap >= since));
            (at, since) = (realm.parent, since.max(realm.parent_since));
        }
        if snaps.is_empty() {
            return SnapContext::default();
        }
        snaps.sort_unstable_by(|a, b| b.cmp(a));
        snaps.dedup();
        SnapContext { seq, snaps }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(ino: Ino, parent: Ino, since: u64, seq: u64, snaps: &[u64]) -> SnapRealmInfo {
        SnapRealmInfo {
            ino,
            created: SnapId(0),
            parent,
            parent_since: SnapId(since),
            seq: SnapId(seq),
            snaps: snaps.iter().map(|snap| SnapId(*snap)).collect(),
            prior_parent_snaps: Vec::new(),
        }
    }

    fn of(context: &SnapContext) -> (u64, Vec<u64>) {
        (context.seq.0, context.snaps.iter().map(|snap| snap.0).collect())
    }

    #[test]
    fn a_context_has_the_snapshots_of_all_realms_around_since_they_are() {
        let mut realms = Realms::default();
        assert_eq!(realms.context(7), SnapContext::default());
        let none =
            realms.learn(&[info(7, 5, 6, 8, &[8]), info(5, 1, 0, 9, &[9, 4]), info(1, 0, 0, 7, &[7, 3])]);
        assert_eq!(none, []);
        assert_eq!(of(&realms.context(7)), (9, vec![9, 8, 7]));
        assert_eq!(of(&realms.context(5)), (9, vec![9, 7, 4, 3]));
        assert_eq!((realms.around(7), realms.around(9)), (vec![7, 5, 1], vec![9, 1]));
        assert_eq!(realms.learn(&[info(5, 1, 0, 8, &[])]), []);
        assert_eq!(of(&realms.context(5)), (9, vec![9, 7, 4, 3]), "an older description");
        assert_eq!(realms.learn(&[info(5, 1, 0, 10, &[4])]), [SnapId(9)], "it was removed");
        assert_eq!(of(&realms.context(7)), (10, vec![8, 7]));
    }

    #[test]
    fn a_realm_that_comes_between_two_counts() {
        let mut realms = Realms::default();
        realms.learn(&[info(7, 1, 0, 5, &[5]), info(1, 0, 0, 3, &[3])]);
        realms.learn(&[info(6, 1, 0, 8, &[8]), info(1, 0, 0, 3, &[3])]);
        assert_eq!(of(&realms.context(7)), (5, vec![5, 3]));
        realms.move_below(7, 6);
        assert_eq!(of(&realms.context(7)), (8, vec![8, 5, 3]));
    }

    #[test]
    fn a_circle_of_realms_ends() {
        let mut realms = Realms::default();
        realms.learn(&[info(7, 5, 0, 2, &[2]), info(5, 7, 0, 3, &[3])]);
        assert_eq!(of(&realms.context(7)), (3, vec![3, 2]));
        assert_eq!(realms.around(7), [7, 5, 7, 1]);
    }
}
