//! Checker `replicas_identical`: once a cluster is healthy, every object is on as many OSDs as its pool's
//! size, and all copies are the same byte for byte, versions included (the paper's section 5.3, data safety).
//! No pre-shipped data is left.
//!
//! It asks no OSD: it opens their stores on their disks after they have stopped, as a repair tool would.

use crate::disk::SimDisk;
use std::collections::{BTreeMap, BTreeSet};
use stdx::Rng;
use store::{Config, ObjectKey, ObjectView, OmapRange, Read, ReadReply, Store, StoreOut};

/// The pool in which OSDs keep data that is to become part of an object.
const TEMP_POOL: i64 = -3;

/// Checks the disks of stopped OSDs. `copies` is the number of copies of each object. Returns all objects.
pub fn check(
    disks: &mut [(String, SimDisk)],
    copies: usize,
) -> Result<BTreeMap<ObjectKey, ObjectView>, String> {
    let mut all: BTreeMap<ObjectKey, Vec<(String, ObjectView)>> = BTreeMap::new();
    for (name, disk) in disks {
        let found = Inspection::open(disk).and_then(|mut i| Ok((i.objects()?, i.left_of_updates()?)));
        let (objects, left) = found.map_err(|why| format!("{name}: {why}"))?;
        if let Some(key) = left.first() {
            return Err(format!("{name} has kept {}", String::from_utf8_lossy(&key.name)));
        }
        for (key, view) in objects {
            all.entry(key).or_default().push((name.clone(), view));
        }
    }
    for (key, found) in &all {
        let clone = if key.snap == ObjectKey::HEAD { String::new() } else { format!("@{:x}", key.snap) };
        let name = format!("pool {} {}{clone}", key.pool, String::from_utf8_lossy(&key.name));
        let on: Vec<&str> = found.iter().map(|(osd, _)| osd.as_str()).collect();
        if found.len() != copies {
            return Err(format!("{name} is on {}, not on {copies} OSDs", on.join(", ")));
        }
        let (first_osd, first) = &found[0];
        for (osd, view) in &found[1..] {
            if let Some(what) = difference(first, view) {
                return Err(format!("{name} differs between {first_osd} and {osd}: {what}"));
            }
        }
    }
    Ok(all.into_iter().map(|(key, mut found)| (key, found.swap_remove(0).1)).collect())
}

/// The first blocks of clients' objects on a disk, if another disk has the same object durably and in the
/// same version. Empty if the disk is not sound now. Blocks whose content is also in an object without such a
/// copy are left out, because a block that rots is found by its content.
pub fn blocks(disk: &mut SimDisk, others: &mut [SimDisk]) -> Vec<Vec<u8>> {
    let objects =
        |disk: &mut SimDisk| Inspection::open(disk).and_then(|mut i| i.objects()).unwrap_or_default();
    let copies: Vec<BTreeMap<_, _>> =
        others.iter_mut().map(|disk| objects(disk).into_iter().collect()).collect();
    let has_copy = |(key, view): &(ObjectKey, ObjectView)| {
        copies.iter().any(|copy| copy.get(key).is_some_and(|other| difference(view, other).is_none()))
    };
    let content = |view: &ObjectView| view.data.first().map(|data| data.to_vec()).unwrap_or_default();
    let (copied, alone): (Vec<_>, Vec<_>) = objects(disk).into_iter().partition(has_copy);
    let blocks_of = |(_, view): &(ObjectKey, ObjectView)| -> Vec<Vec<u8>> {
        content(view).chunks_exact(4096).map(<[u8]>::to_vec).collect()
    };
    let mut spared: BTreeSet<Vec<u8>> = alone.iter().flat_map(blocks_of).collect();
    // Blocks of zeros are everywhere.
    spared.insert(vec![0; 4096]);
    let first = |(_, view): (ObjectKey, ObjectView)| Some(content(&view).get(..4096)?.to_vec());
    copied.into_iter().filter_map(first).filter(|block| !spared.contains(block)).collect()
}

fn difference(a: &ObjectView, b: &ObjectView) -> Option<String> {
    if a.size != b.size {
        return Some(format!("{} and {} bytes", a.size, b.size));
    }
    let content = |v: &ObjectView| v.data.iter().flat_map(|d| d.to_vec()).collect::<Vec<u8>>();
    let (left, right) = (content(a), content(b));
    if let Some(at) = left.iter().zip(&right).position(|(l, r)| l != r) {
        return Some(format!("byte {at} is {} and {}", left[at], right[at]));
    }
    if a.attrs != b.attrs {
        return Some(format!("xattrs {:?} and {:?}", a.attrs, b.attrs));
    }
    if a.omap_header != b.omap_header || a.omap_entries != b.omap_entries {
        return Some(format!("omap {:?} and {:?}", a.omap_entries, b.omap_entries));
    }
    None
}

/// A store that is read straight from its disk.
struct Inspection<'a> {
    store: Store,
    disk: &'a mut SimDisk,
}

impl<'a> Inspection<'a> {
    fn open(disk: &'a mut SimDisk) -> Result<Self, String> {
        let info =
            node::DiskInfo { id: node::DiskId(0), size: disk.size, sector: crate::disk::SECTOR as u32 };
        let store = Store::new(Config::default(), info, Rng::from_seed(0));
        let mut this = Self { store, disk };
        let mut out = Vec::new();
        this.store.open(None, &mut out);
        this.drain(out)?;
        if this.store.is_open() { Ok(this) } else { Err("the store does not open".to_owned()) }
    }

    /// Carries out all operations that the store asks for. Returns the reply to a read.
    fn drain(&mut self, mut out: Vec<StoreOut>) -> Result<Option<ReadReply>, String> {
        let mut answer = None;
        while !out.is_empty() {
            for said in std::mem::take(&mut out) {
                match said {
                    StoreOut::Disk(id, op) => {
                        self.disk.issue(id, op);
                        let result = self.disk.end(id);
                        self.store.disk_done(id, result, &mut out);
                    }
                    StoreOut::Read(_, reply) => answer = Some(reply.map_err(|e| e.to_string())?),
                    StoreOut::Failed(error) => return Err(error.to_string()),
                    StoreOut::Opened | StoreOut::Committed(_) => {}
                }
            }
        }
        Ok(answer)
    }

    fn read(&mut self, read: Read) -> Result<ReadReply, String> {
        let mut out = Vec::new();
        self.store.read(read, &mut out);
        self.drain(out)?.ok_or_else(|| "a read has no answer".to_owned())
    }

    fn list(&mut self, from: i64, to: ObjectKey) -> Result<Vec<ObjectKey>, String> {
        let list = Read::List { from: ObjectKey::first_at(from, i8::MIN, 0), to, max: usize::MAX };
        let ReadReply::List(keys) = self.read(list)? else { return Err("a list was asked for".to_owned()) };
        Ok(keys)
    }

    /// Objects with pre-shipped data.
    fn left_of_updates(&mut self) -> Result<Vec<ObjectKey>, String> {
        let mut keys = self.list(TEMP_POOL, ObjectKey::first_at(TEMP_POOL + 1, i8::MIN, 0))?;
        keys.retain(|key| key.name.starts_with(b"update/"));
        Ok(keys)
    }

    /// All objects of pools that clients see.
    fn objects(&mut self) -> Result<Vec<(ObjectKey, ObjectView)>, String> {
        let to = ObjectKey::first_at(i64::MAX, i8::MAX, 0);
        let keys = self.list(1, to)?;
        let mut out = Vec::new();
        for key in keys {
            let range = OmapRange { max: usize::MAX, max_bytes: usize::MAX, ..OmapRange::default() };
            let read = Read::Object {
                key: key.clone(),
                attrs: true,
                data: vec![(0, 1 << 30)],
                omap_header: true,
                omap_keys: vec![],
                omap_range: Some(range),
            };
            match self.read(read)? {
                ReadReply::Object(Some(view)) => out.push((key, view)),
                _ => return Err(format!("{key:?} is listed and not there")),
            }
        }
        Ok(out)
    }
}
