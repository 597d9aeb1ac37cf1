//! What a journal's events change of a rank's tables: sessions, inode numbers, snapshots.

use crate::tables::{InoTable, SessionRecord};
use crate::{SnapRecord, SnapTable, Update};
use maps::SnapId;
use std::collections::BTreeMap;

/// The changes of tables by a journal's events.
#[derive(Clone, Debug, Default)]
pub struct PendingTables {
    /// Changes of sessions, in their order.
    sessions: Vec<Update>,
    ino_next: u64,
    snaps: BTreeMap<SnapId, Option<Box<SnapRecord>>>,
    snap_head: Option<Box<SnapTable>>,
}

impl PendingTables {
    /// Adds the next update.
    pub(crate) fn add(&mut self, update: Update) {
        match update {
            Update::InoNext { next } => self.ino_next = next.max(self.ino_next),
            Update::Snapshot { snap, record } => drop(self.snaps.insert(snap, record)),
            Update::SnapHead { table } => self.snap_head = Some(table),
            Update::SessionOpen { .. }
            | Update::SessionClose { .. }
            | Update::Completed { .. }
            | Update::Flushed { .. }
            | Update::InoRanges { .. }
            | Update::Absent { .. } => self.sessions.push(update),
            _ => {}
        }
    }

    /// Changes the stored sessions, by global id, as replay does.
    pub fn change_sessions(&self, stored: &mut BTreeMap<u64, SessionRecord>) {
        for update in &self.sessions {
            match update {
                Update::SessionOpen { client, record } => drop(stored.insert(*client, (**record).clone())),
                Update::SessionClose { client } => drop(stored.remove(client)),
                Update::Absent { clients } => {
                    stored
                        .iter_mut()
                        .for_each(|(client, record)| record.was_absent = clients.contains(client));
                }
                Update::Completed { client, tid, ino } => {
                    change(stored, *client, |record| record.note_completed(*tid, *ino));
                }
                Update::Flushed { client, tid } => {
                    change(stored, *client, |record| {
                        record.flushed.insert(*tid);
                    });
                }
                Update::InoRanges { client, preallocated, delegated } => {
                    change(stored, *client, |record| {
                        record.preallocated.clone_from(preallocated);
                        record.delegated.clone_from(delegated);
                    });
                }
                _ => unreachable!("only changes of sessions are kept"),
            }
        }
    }

    /// Changes the stored table of inode numbers.
    pub fn change_numbers(&self, stored: &mut InoTable) {
        stored.next = stored.next.max(self.ino_next);
    }

    /// Changes the stored table of snapshots.
    pub fn change_snapshots(&self, head: &mut SnapTable, stored: &mut BTreeMap<SnapId, SnapRecord>) {
        if let Some(changed) = &self.snap_head {
            head.clone_from(changed);
        }
        for (snap, record) in &self.snaps {
            match record {
                Some(record) => drop(stored.insert(*snap, (**record).clone())),
                None => drop(stored.remove(snap)),
            }
        }
    }
}

fn change(stored: &mut BTreeMap<u64, SessionRecord>, client: u64, change: impl FnOnce(&mut SessionRecord)) {
    stored.entry(client).and_modify(change);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ino, InoRange};

    #[test]
    fn sessions_are_changed_as_replay_does() {
        let range = |first, count| InoRange { first: Ino(first), count };
        let mut tables = PendingTables::default();
        let open = |client| Update::SessionOpen { client, record: Box::default() };
        for update in [
            Update::Absent { clients: vec![1] },
            open(3),
            Update::InoRanges { client: 3, preallocated: vec![range(10, 3)], delegated: Vec::new() },
            Update::Completed { client: 3, tid: 8, ino: Ino(11) },
            Update::Flushed { client: 3, tid: 2 },
            Update::Completed { client: 9, tid: 1, ino: Ino(0) },
            Update::SessionClose { client: 2 },
        ] {
            tables.add(update);
        }
        let mut sessions: BTreeMap<u64, SessionRecord> =
            [1, 2].map(|id| (id, SessionRecord::default())).into();
        tables.change_sessions(&mut sessions);
        assert_eq!(sessions.keys().copied().collect::<Vec<_>>(), [1, 3], "2 has closed, 9 was never there");
        assert!(sessions[&1].was_absent && !sessions[&3].was_absent);
        assert_eq!(sessions[&3].preallocated, [range(10, 1), range(12, 1)]);
        assert_eq!((sessions[&3].completed.get(&8), sessions[&3].flushed.len()), (Some(&Ino(11)), 1));
    }

    #[test]
    fn numbers_grow_and_snapshots_come_and_go() {
        let mut tables = PendingTables::default();
        let head = SnapTable { last_created: SnapId(5), ..SnapTable::default() };
        for update in [
            Update::InoNext { next: 70 },
            Update::InoNext { next: 60 },
            Update::Snapshot { snap: SnapId(5), record: Some(Box::default()) },
            Update::Snapshot { snap: SnapId(2), record: None },
            Update::SnapHead { table: Box::new(head.clone()) },
        ] {
            tables.add(update);
        }
        let mut numbers = InoTable { next: 65, free: Vec::new() };
        tables.change_numbers(&mut numbers);
        assert_eq!(numbers.next, 70);
        let (mut stored_head, mut snaps) =
            (SnapTable::default(), [(SnapId(2), SnapRecord::default())].into());
        tables.change_snapshots(&mut stored_head, &mut snaps);
        assert_eq!((stored_head, snaps.into_keys().collect::<Vec<_>>()), (head, vec![SnapId(5)]));
    }
}
