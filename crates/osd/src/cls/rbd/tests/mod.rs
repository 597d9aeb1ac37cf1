//! Methods of the class, and of `journal`, on one object in memory: exact outputs, errors and keys.

mod clones;
mod data;
mod image;
mod journal;
mod mirror;
mod names;
mod object_map;
mod snaps;

use crate::cls;
use crate::object::ObjectInfo;
use crate::ops::{Caller, Limits, Loaded, Loads, execute};
use crate::watch::Watches;
use maps::{EVersion, SnapId};
use msgs::{Op, OsdOp, osd_flag};
use std::collections::BTreeMap;
use stdx::{Bufs, Wall};
use store::{ObjectKey, ObjectView, Read, ReadReply, TxnOp};
use wire::{Decode, Encode, EntityAddr, EntityId, EntityType, Reader, Writer};

/// Seconds since 1970 of every call.
const NOW: u64 = 1_000;

/// An object in memory.
#[derive(Default)]
struct Object {
    exists: bool,
    data: Vec<u8>,
    omap: BTreeMap<Vec<u8>, Vec<u8>>,
    info: ObjectInfo,
    /// Changes so far.
    version: u64,
}

/// An input or output of several values.
fn values(write: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut w = Writer::new();
    write(&mut w);
    w.into_vec()
}

fn text(text: &str) -> Vec<u8> {
    text.as_bytes().to_vec()
}

fn key() -> ObjectKey {
    ObjectKey::head(1, 7, b"", b"", b"o")
}

impl Object {
    fn read(&self, read: &Read) -> ReadReply {
        let Read::Object { attrs, data, omap_keys, omap_range, .. } = read else { panic!("{read:?}") };
        if !self.exists {
            return ReadReply::Object(None);
        }
        let cut = |(off, len): &(u64, u64)| {
            let from = (*off as usize).min(self.data.len());
            Bufs::from(
                self.data[from..off.saturating_add(*len).min(self.data.len() as u64) as usize].to_vec(),
            )
        };
        let pair = |key: &Vec<u8>| Some((key.clone(), self.omap.get(key)?.clone()));
        let mut view = ObjectView {
            size: self.data.len() as u64,
            attrs: if *attrs { vec![(b"_".to_vec(), self.info.to_bytes())] } else { Vec::new() },
            data: data.iter().map(cut).collect(),
            omap_values: omap_keys.iter().filter_map(pair).collect(),
            ..ObjectView::default()
        };
        if let Some(range) = omap_range {
            let follows = |key: &[u8]| range.after.as_ref().is_none_or(|after| key > after.as_slice());
            let is_meant = |key: &[u8]| follows(key) && key.starts_with(&range.prefix);
            let mut found = self.omap.iter().filter(|(key, _)| is_meant(key));
            let entries = found.by_ref().take(range.max).map(|(k, v)| (k.clone(), v.clone()));
            view.omap_entries = entries.collect();
            view.omap_more = found.next().is_some();
        }
        ReadReply::Object(Some(view))
    }

    fn apply(&mut self, op: TxnOp) {
        match op {
            TxnOp::Touch(_) => self.exists = true,
            TxnOp::Write(_, off, data) => {
                let end = off as usize + data.len();
                self.data.resize(self.data.len().max(end), 0);
                self.data[off as usize..end].copy_from_slice(&data.to_vec());
            }
            TxnOp::Truncate(_, size) => self.data.resize(size as usize, 0),
            TxnOp::Remove(_) => *self = Self { version: self.version, ..Self::default() },
            TxnOp::OmapSet(_, entries) => self.omap.extend(entries),
            TxnOp::OmapRemove(_, keys) => keys.iter().for_each(|key| drop(self.omap.remove(key))),
            other => panic!("{other:?}"),
        }
    }

    /// Calls a method of the class, or one of another class by both names.
    fn call(&mut self, method: &str, input: Vec<u8>) -> Result<Vec<u8>, i32> {
        let (class, method) = method.split_once('.').unwrap_or(("rbd", method));
        self.call_of(class, method, input)
    }

    /// Calls a method, as often as it asks for more of the object.
    fn call_of(&mut self, class: &str, method: &str, input: Vec<u8>) -> Result<Vec<u8>, i32> {
        let access = cls::find(class, method).map_err(|errno| errno.to_result_code())?.access;
        let op = Op::Call { class: class.into(), method: method.into(), input: input.into() };
        let flags = if access.writes { osd_flag::WRITE } else { osd_flag::READ };
        let request = OsdOp { ops: vec![op.into()], flags, ..OsdOp::default() };
        let (key, limits, watches) = (key(), Limits::default(), Watches::default());
        let (who, addr) = (EntityId::new(EntityType::CLIENT, 4), EntityAddr::default());
        let version = EVersion { version: self.version + 1, ..EVersion::default() };
        let now = Wall(NOW * 1_000_000_000);
        let caller = Caller { who, addr, expired: false, now, version, notify_id: 1, watches: &watches };
        let mut loaded = Loaded::default();
        let mut loads = Loads::of(&request, &key, &limits);
        loop {
            for (at, (_, read)) in loads.reads.iter().enumerate() {
                assert!(loads.take(at, self.read(read), &mut loaded));
            }
            let outcome = execute(&request, &key, &loaded, &limits, caller);
            if !outcome.needs.is_empty() {
                loads = Loads::called(outcome.needs, &key, &limits);
                continue;
            }
            if outcome.result < 0 {
                return Err(outcome.result);
            }
            self.version += u64::from(outcome.modified);
            outcome.txn.into_iter().for_each(|op| self.apply(op));
            return Ok(outcome.ops[0].data.to_vec());
        }
    }

    /// Calls a method that succeeds and gives nothing.
    fn done(&mut self, method: &str, input: Vec<u8>) {
        assert_eq!(self.call(method, input), Ok(Vec::new()), "{method}");
    }

    /// Calls a method that gives this.
    fn gives<T: Decode>(&mut self, method: &str, input: Vec<u8>) -> T {
        let output = self.call(method, input).unwrap_or_else(|code| panic!("{method}: {code}"));
        Reader::new(&output).get().unwrap_or_else(|e| panic!("{method}: {e}"))
    }

    /// The value of a key.
    fn value<T: Decode>(&self, key: &str) -> Option<T> {
        Reader::new(self.omap.get(key.as_bytes())?).get().ok()
    }
}

/// The header of an image of 100 MB and objects of 4 MiB.
fn header(features: u64) -> Object {
    let mut o = Object::default();
    o.done(
        "create",
        values(|w| {
            w.put(&100_000_000u64);
            w.put(&22u8);
            w.put(&features);
            w.put(&text("rbd_data.1"));
        }),
    );
    o
}

/// Adds a user's snapshot.
fn add_snap(o: &mut Object, name: &str, id: u64) -> Result<Vec<u8>, i32> {
    o.call("snapshot_add", Writer::encode(&(text(name), id)))
}

const LAYERING: u64 = 1;
const DEEP_FLATTEN: u64 = 1 << 5;
const NOSNAP: u64 = SnapId::HEAD.0;

#[test]
fn undecodable_input_is_refused_and_no_method_panics() {
    let mut rng = stdx::Rng::from_seed(1);
    let journal = cls::methods("journal").iter().map(|m| format!("journal.{}", m.name));
    for method in cls::methods("rbd").iter().map(|m| m.name.to_owned()).chain(journal) {
        for base in [header(LAYERING), Object::default()] {
            let mut o = base;
            for len in 0..40 {
                let mut bytes = vec![0; len];
                rng.fill(&mut bytes);
                if rng.chance(1, 2) {
                    bytes.iter_mut().for_each(|b| *b &= 3);
                }
                let _ = o.call(&method, bytes);
            }
        }
    }
    for method in
        ["create", "get_size", "set_size", "snapshot_add", "dir_list", "object_map_save", "trash_add"]
    {
        assert_eq!(header(LAYERING).call(method, vec![1, 2]), Err(-22), "{method}");
    }
}

fn put<T: Encode>(value: T) -> Vec<u8> {
    Writer::encode(&value)
}
