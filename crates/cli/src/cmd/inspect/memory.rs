//! A small file system in memory.

use super::stored::{Entries, Objects, Stored};
use anyhow::Result;
use fsfmt::journal::{JournalHeader, put_frame};
use fsfmt::tables::{InoTable, SessionRecord, session_key};
use fsfmt::{
    BackPointer, Dentry, DentryKey, DirFrag, DirStat, Event, Fnode, Ino, InodeData, Link, SnapInfo,
    SnapRecord, SnapTable, Update, mode, names, snap_key,
};
use maps::SnapId;
use std::collections::BTreeMap;
use wire::{Encode, Errno, Writer};

pub(super) const DIR: Ino = Ino(0x100_0000_0000);
pub(super) const FILE: Ino = Ino(0x100_0000_0001);
pub(super) const SECOND: Ino = Ino(0x100_0000_0002);

#[derive(Clone, Default)]
pub(super) struct Object {
    pub data: Vec<u8>,
    pub header: Vec<u8>,
    pub omap: Entries,
}

/// A metadata pool.
#[derive(Clone, Default)]
pub(super) struct Memory {
    pub objects: BTreeMap<String, Object>,
    pub unreadable: Vec<String>,
}

impl Memory {
    pub fn at(&mut self, object: String) -> &mut Object {
        self.objects.entry(object).or_default()
    }

    fn put_data(&mut self, object: String, value: &impl Encode) {
        self.at(object).data = Writer::encode(value);
    }

    pub fn put(&mut self, object: String, key: Vec<u8>, value: &impl Encode) {
        self.at(object).omap.insert(key, Writer::encode(value));
    }

    fn get<T>(&self, object: &str, part: impl Fn(&Object) -> T) -> Stored<T> {
        match self.objects.get(object) {
            _ if self.unreadable.iter().any(|name| name == object) => Stored::Unreadable(Errno::EIO),
            Some(object) => Stored::Here(part(object)),
            None => Stored::Absent,
        }
    }
}

impl Objects for Memory {
    fn pool(&self) -> &str {
        "meta"
    }

    fn data(&self, object: &str) -> Result<Stored<Vec<u8>>> {
        Ok(self.get(object, |object| object.data.clone()))
    }

    fn header(&self, object: &str) -> Result<Stored<Vec<u8>>> {
        Ok(self.get(object, |object| object.header.clone()))
    }

    fn page(&self, object: &str, after: &[u8]) -> Result<Stored<(Entries, bool)>> {
        Ok(self.get(object, |object| {
            let behind = object.omap.iter().filter(|(key, _)| after.is_empty() || key.as_slice() > after);
            let page: Entries = behind.clone().take(2).map(|(k, v)| (k.clone(), v.clone())).collect();
            (page, behind.count() > 2)
        }))
    }

    fn value(&self, object: &str, key: &[u8]) -> Result<Stored<Option<Vec<u8>>>> {
        Ok(self.get(object, |object| object.omap.get(key).cloned()))
    }

    fn names(&self, prefix: &str) -> Result<Vec<String>> {
        Ok(self.objects.keys().filter(|name| name.starts_with(prefix)).cloned().collect())
    }
}

fn file(ino: Ino) -> InodeData {
    InodeData { ino, mode: mode::FILE | 0o644, nlink: 1, size: 5, version: 2, ..InodeData::default() }
}

pub(super) fn dir(ino: Ino, nfiles: u64, nsubdirs: u64) -> InodeData {
    let dirstat = DirStat { nfiles, nsubdirs, ..DirStat::default() }.into();
    InodeData { ino, mode: mode::DIR | 0o755, nlink: 1, version: 2, dirstat, ..InodeData::default() }
}

pub(super) fn entry(inode: InodeData) -> Dentry {
    Dentry::head(Link::Primary(Box::new(inode)))
}

pub(super) fn place(dir: Ino, name: &str) -> BackPointer {
    BackPointer { dir, name: name.into(), version: 2, ancestors: Vec::new() }
}

pub(super) fn key(name: &str) -> Vec<u8> {
    DentryKey::new(name.as_bytes()).to_omap()
}

fn frames(events: &[(u64, Event)]) -> Vec<u8> {
    let mut w = Writer::new();
    events.iter().for_each(|(seq, event)| put_frame(&mut w, *seq, event));
    w.into_vec()
}

fn event(what: &str, updates: Vec<Update>) -> Event {
    Event { what: what.into(), updates, ..Event::default() }
}

/// `/d` with `one` and a second name of it, and a journal that adds `two` and removes `gone`.
pub(super) fn file_system() -> Memory {
    let mut m = Memory::default();
    m.put_data(names::base_object(Ino::ROOT), &dir(Ino::ROOT, 0, 1));
    let (root, d) = (names::dir_object(DirFrag::whole(Ino::ROOT)), names::dir_object(DirFrag::whole(DIR)));
    m.put(root.clone(), key("d"), &entry(dir(DIR, 3, 0)));
    m.at(d.clone()).header = Writer::encode(&Fnode { version: 7, event: 4, ..Fnode::default() });
    m.put(d.clone(), key("one"), &entry(file(FILE)));
    m.put(d.clone(), key("again"), &Dentry::head(Link::Remote { ino: FILE, dtype: 8 }));
    m.put(d.clone(), key("gone"), &entry(file(Ino(0x100_0000_0009))));
    let kept = DentryKey { snap: SnapId(3), ..DentryKey::new(b"one") };
    m.put(d, kept.to_omap(), &Dentry { first: SnapId(2), ..entry(file(FILE)) });
    for (ino, back) in [(DIR, place(Ino::ROOT, "d")), (FILE, place(DIR, "one"))] {
        m.put(names::index_object(ino), names::index_key(ino), &back);
    }
    let header = JournalHeader { first: 1, first_seq: 5, object_size: 1 << 20, needs: 0 };
    m.put_data(names::journal_object(0, 0), &header);
    let change = |name: &str, value| Update::Dentry {
        dir: DirFrag::whole(DIR),
        key: DentryKey::new(name.as_bytes()),
        value,
    };
    let made = event("create", vec![change("two", Some(Box::new(entry(file(SECOND)))))]);
    let removed = event("unlink", vec![change("gone", None)]);
    m.at(names::journal_object(0, 1)).data = frames(&[(5, made), (6, removed)]);
    m.at(names::journal_object(0, 2)).data = frames(&[(7, event("noop", Vec::new()))]);
    let record = SessionRecord { name: "client.admin".into(), ..SessionRecord::default() };
    m.put(names::session_table(0), session_key(4100), &record);
    m.put_data(names::ino_table(0), &InoTable { next: SECOND.0 + 1, free: Vec::new() });
    m.put(
        names::snap_table(),
        b"head".to_vec(),
        &SnapTable { last_created: SnapId(3), ..SnapTable::default() },
    );
    let info = SnapInfo { ino: Ino::ROOT, name: b"monday".to_vec(), ..SnapInfo::default() };
    m.put(names::snap_table(), snap_key(SnapId(3)), &SnapRecord { info, ..SnapRecord::default() });
    let stray = InodeData { stray_from: DIR, ..file(Ino(0x100_0000_0007)) };
    m.put(names::dir_object(DirFrag::whole(Ino::stray(0))), key("10000000007"), &entry(stray));
    m
}
