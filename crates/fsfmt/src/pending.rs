//! What a journal's events change of the stored metadata: entries, inodes, places of inodes, tables. A reader
//! that has no cache lays it over what the objects hold.
//!
//! Events are after-images, and the journal keeps every event whose changes are not stored: the last one that
//! names an item is never older than the stored state.

use crate::{BackPointer, Dentry, DentryKey, Event, Frag, Ino, InodeData, Link, PendingTables, Update};
use std::collections::BTreeMap;

/// The changes of a journal's events.
#[derive(Clone, Debug, Default)]
pub struct Pending {
    /// Entries by directory, whatever its fragments were; `None` for one that is gone.
    entries: BTreeMap<Ino, BTreeMap<DentryKey, Option<Box<Dentry>>>>,
    bases: BTreeMap<Ino, Box<InodeData>>,
    /// Places of primary entries; `None` for an inode that is gone.
    places: BTreeMap<Ino, Option<BackPointer>>,
    tables: PendingTables,
    events: u64,
}

impl Pending {
    /// Adds the next event of the journal.
    pub fn add(&mut self, event: Event) {
        self.events += 1;
        event.updates.into_iter().for_each(|update| self.update(update));
    }

    /// Number of events.
    pub fn events(&self) -> u64 {
        self.events
    }

    fn update(&mut self, update: Update) {
        match update {
            Update::Dentry { dir, key, value } => {
                if let (Some(Link::Primary(inode)), true) = (value.as_ref().map(|d| &d.link), key.is_head()) {
                    let (name, version) = (key.name.to_vec(), inode.version);
                    let place = BackPointer { dir: dir.ino, name, version, ancestors: Vec::new() };
                    self.places.insert(inode.ino, Some(place));
                }
                self.entries.entry(dir.ino).or_default().insert(key, value);
            }
            Update::Base { inode } => drop(self.bases.insert(inode.ino, inode)),
            Update::Forget { inode } if inode.is_head() => drop(self.places.insert(inode.ino, None)),
            other => self.tables.add(other),
        }
    }

    /// The changes of tables.
    pub fn tables(&self) -> &PendingTables {
        &self.tables
    }

    /// The entry of a key, if it was changed: `Some(None)` if it is gone.
    pub fn entry(&self, dir: Ino, key: &DentryKey) -> Option<Option<&Dentry>> {
        self.entries.get(&dir)?.get(key).map(Option::as_deref)
    }

    /// The changed entries of a fragment, in their order; `None` for those that are gone.
    pub fn entries(&self, dir: Ino, frag: Frag) -> impl Iterator<Item = (&DentryKey, Option<&Dentry>)> {
        let all = self.entries.get(&dir).into_iter().flatten();
        all.filter(move |(key, _)| frag.contains(key.hash)).map(|(key, value)| (key, value.as_deref()))
    }

    /// An inode that is stored alone, if it was changed.
    pub fn base(&self, ino: Ino) -> Option<&InodeData> {
        self.bases.get(&ino).map(|inode| &**inode)
    }

    /// The place of an inode's primary entry, if it was changed: `Some(None)` if the inode is gone.
    pub fn place(&self, ino: Ino) -> Option<Option<&BackPointer>> {
        self.places.get(&ino).map(Option::as_ref)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DirFrag;

    fn primary(ino: u64, version: u64) -> Option<Box<Dentry>> {
        let inode = InodeData { ino: Ino(ino), version, ..InodeData::default() };
        Some(Box::new(Dentry::head(Link::Primary(Box::new(inode)))))
    }

    fn event(updates: Vec<Update>) -> Event {
        Event { updates, ..Event::default() }
    }

    #[test]
    fn the_last_event_counts_and_a_move_leaves_a_hole() {
        let (from, to) = (DirFrag::whole(Ino(1)), DirFrag::whole(Ino(2)));
        let (old, new) = (DentryKey::new(b"old"), DentryKey::new(b"new"));
        let set = |dir, key: &DentryKey, value| Update::Dentry { dir, key: key.clone(), value };
        let mut pending = Pending::default();
        pending.add(event(vec![set(from, &old, primary(9, 1))]));
        pending.add(event(vec![set(from, &old, None), set(to, &new, primary(9, 2))]));
        assert_eq!(pending.entry(Ino(1), &old), Some(None));
        assert_eq!(pending.entry(Ino(1), &new), None, "not changed there");
        let place = pending.place(Ino(9)).flatten().expect("a place");
        assert_eq!((place.dir, &place.name[..], place.version), (Ino(2), &b"new"[..], 2));
        pending.add(event(vec![Update::Forget { inode: Ino(9).head() }]));
        assert_eq!(pending.place(Ino(9)), Some(None));
        assert_eq!(pending.events(), 3);
    }

    #[test]
    fn entries_are_found_in_the_fragment_that_holds_their_names_now() {
        let mut pending = Pending::default();
        for i in 0..20u64 {
            let key = DentryKey::new(format!("f{i}").as_bytes());
            let dir = DirFrag::whole(Ino(7));
            pending.add(event(vec![Update::Dentry { dir, key, value: primary(100 + i, 1) }]));
        }
        let of_parts: usize = Frag::WHOLE.parts(1).map(|frag| pending.entries(Ino(7), frag).count()).sum();
        assert_eq!((of_parts, pending.entries(Ino(7), Frag::WHOLE).count()), (20, 20));
    }
}
