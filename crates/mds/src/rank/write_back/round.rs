//! The operations of a round of write-backs: fragments, base inodes, inode index, sessions, inode numbers.

use super::WriteBack;
use crate::cache::{Cache, SlotLink};
use crate::io::{IoWhy, ObjOp};
use crate::rank::env::Env;
use crate::rank::sessions::Sessions;
use crate::types::{Lsn, Segment};
use fsfmt::tables::InoTable;
use fsfmt::{Dentry, DentryKey, DirFrag, Fnode, Ino, Link, Refragment, names};
use std::collections::BTreeMap;
use wire::Writer;

/// Bytes of one write-back operation.
const PART_BYTES: usize = 256 << 10;
/// Fragments written back in one round.
const MAX_DIRS: usize = 512;

/// Omap entries to set and to remove.
#[derive(Default)]
struct OmapChanges {
    set: BTreeMap<Vec<u8>, Vec<u8>>,
    remove: Vec<Vec<u8>>,
}

impl OmapChanges {
    fn put(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        match value {
            Some(value) => drop(self.set.insert(key, value)),
            None => self.remove.push(key),
        }
    }

    /// Operations that make the object, if need be, and change it.
    fn into_ops(self, header: Option<Vec<u8>>) -> Vec<ObjOp> {
        let mut ops = vec![ObjOp::Create];
        ops.extend(header.map(ObjOp::OmapHeader));
        if !self.set.is_empty() {
            ops.push(ObjOp::OmapSet(self.set));
        }
        if !self.remove.is_empty() {
            ops.push(ObjOp::OmapRemove(self.remove));
        }
        ops
    }
}

impl WriteBack {
    /// Starts write-backs of everything that an event of a segment up to `up_to` changed. All events are
    /// durable.
    pub(super) fn start_round(
        &mut self,
        env: &mut Env,
        cache: &mut Cache,
        sessions: &mut Sessions,
        up_to: Segment,
    ) {
        assert_eq!(self.in_flight, 0, "one round at a time");
        for dir in cache.due_dirs(up_to, MAX_DIRS) {
            self.commit_dir(env, cache, dir);
        }
        self.commit_bases(env, cache, up_to);
        self.commit_index(env, cache, up_to);
        self.commit_sessions(env, sessions, up_to);
        self.commit_snaps(env, cache, up_to);
        self.commit_borders(env, cache, up_to);
        self.commit_inode_numbers(env, up_to);
    }

    fn commit_snaps(&mut self, env: &mut Env, cache: &mut Cache, up_to: Segment) {
        if cache.snaps.first_needed().is_none_or(|segment| segment > up_to) {
            return;
        }
        let (set, remove) = cache.snaps.begin_commit();
        self.start(env, names::snap_table(), OmapChanges { set, remove }.into_ops(None), IoWhy::Snaps);
    }

    fn commit_borders(&mut self, env: &mut Env, cache: &mut Cache, up_to: Segment) {
        if cache.borders.first_needed().is_none_or(|segment| segment > up_to) {
            return;
        }
        let set = cache.borders.begin_commit();
        let ops = OmapChanges { set, remove: Vec::new() }.into_ops(None);
        self.start(env, names::partition(), ops, IoWhy::Borders);
    }

    fn start(&mut self, env: &mut Env, object: String, ops: Vec<ObjOp>, why: IoWhy) {
        self.in_flight += 1;
        env.start_metadata_io(object, ops, why);
    }

    fn commit_dir(&mut self, env: &mut Env, cache: &mut Cache, dir: DirFrag) {
        let dirty = cache.begin_commit(dir);
        let header = Writer::encode(&Fnode { version: dirty.version, event: dirty.lsn, ..Fnode::default() });
        let mut parts = vec![OmapChanges::default()];
        let mut bytes = 0;
        for key in &dirty.keys {
            let (omap_key, value) = (key.to_omap(), stored_entry(cache, dir, key));
            bytes += omap_key.len() + value.as_ref().map_or(0, Vec::len);
            if bytes > PART_BYTES {
                parts.push(OmapChanges::default());
                bytes = 0;
            }
            parts.last_mut().expect("never empty").put(omap_key, value);
        }
        for part in parts {
            cache.add_commit_part(dir);
            let ops = part.into_ops(Some(header.clone()));
            self.start(env, names::dir_object(dir), ops, IoWhy::Dir(dir));
        }
    }

    /// Writes back all that has changed in fragments, before these are replaced. All events are durable.
    pub(super) fn flush_old(&mut self, env: &mut Env, cache: &mut Cache, change: Refragment) {
        for dir in change.old() {
            if cache.dirs.get(&dir).is_some_and(|d| !d.dirty.is_empty()) && !cache.is_purged(dir) {
                self.commit_dir(env, cache, dir);
            }
        }
        cache.refragments.note_flush();
    }

    fn commit_bases(&mut self, env: &mut Env, cache: &mut Cache, up_to: Segment) {
        for ino in cache.due_bases(up_to) {
            let bytes = Writer::encode(&cache.inodes[&ino.head()].data);
            self.base_commits.mark(ino, cache.begin_base_commit(ino));
            self.start(env, names::base_object(ino), vec![ObjOp::WriteFull(bytes)], IoWhy::Base(ino));
        }
    }

    fn commit_index(&mut self, env: &mut Env, cache: &Cache, up_to: Segment) {
        let mut objects: BTreeMap<String, (OmapChanges, Vec<(Ino, Lsn)>)> = BTreeMap::new();
        for (ino, change) in cache.due_index(up_to) {
            let (changes, events) = objects.entry(names::index_object(ino)).or_default();
            changes.put(names::index_key(ino), change.value.as_ref().map(Writer::encode));
            events.push((ino, change.lsn));
        }
        for (object, (changes, events)) in objects {
            self.index_commits.insert(object.clone(), events);
            self.start(env, object.clone(), changes.into_ops(None), IoWhy::Index(object));
        }
    }

    fn commit_sessions(&mut self, env: &mut Env, sessions: &mut Sessions, up_to: Segment) {
        if sessions.first_needed().is_none_or(|segment| segment > up_to) {
            return;
        }
        let (set, remove) = sessions.begin_commit();
        let ops = OmapChanges { set, remove }.into_ops(None);
        self.start(env, names::session_table(env.cfg().rank), ops, IoWhy::Sessions);
    }

    fn commit_inode_numbers(&mut self, env: &mut Env, up_to: Segment) {
        if self.ino_dirty.is_none_or(|segment| segment > up_to) {
            return;
        }
        self.ino_commit = self.ino_dirty.take();
        let bytes = Writer::encode(&InoTable { next: self.ino_next, ..InoTable::default() });
        let object = names::ino_table(env.cfg().rank);
        self.start(env, object, vec![ObjOp::WriteFull(bytes)], IoWhy::InoTable);
    }
}

fn stored_entry(cache: &Cache, dir: DirFrag, key: &DentryKey) -> Option<Vec<u8>> {
    let slot = cache.dirs.get(&dir)?.slots.get(key).expect("a changed entry stays cached");
    let link = match slot.link(key) {
        SlotLink::Null => return None,
        SlotLink::Remote { ino, dtype } => Link::Remote { ino, dtype },
        SlotLink::Primary(ino) => Link::Primary(Box::new(cache.inodes[&ino].data.clone())),
    };
    Some(Writer::encode(&Dentry { first: slot.first(), link }))
}
