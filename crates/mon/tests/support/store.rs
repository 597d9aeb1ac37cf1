//! A store in memory that knows the few operations that the log uses, and may hold back what is not durable
//! yet.

use mon::Storage;
use node::{DiskOpId, DiskResult};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use store::{ObjectKey, ObjectView, Read, ReadId, ReadReply, StoreOut, Transaction, TxnId, TxnOp};

type Omap = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Default)]
struct Inner {
    durable: BTreeMap<ObjectKey, Omap>,
    /// Submitted, not durable.
    pending: Vec<(TxnId, Transaction)>,
    /// Nothing becomes durable by itself.
    hold: bool,
    largest_txn: Option<usize>,
    left: Option<u64>,
    committed: Vec<TxnId>,
}

/// What outlives the process.
#[derive(Clone, Default)]
pub struct Disk(Rc<RefCell<Inner>>);

impl Disk {
    /// From now on nothing becomes durable before [`Self::commit`].
    pub fn hold(&self, hold: bool) {
        self.0.borrow_mut().hold = hold;
    }

    /// No transaction has more bytes.
    pub fn is_small(&self, largest_txn: usize) {
        self.0.borrow_mut().largest_txn = Some(largest_txn);
    }

    /// So many bytes of keys and values still fit, whatever is stored.
    pub fn has_left(&self, bytes: u64) {
        self.0.borrow_mut().left = Some(bytes);
    }

    /// Everything submitted becomes durable.
    pub fn commit(&self) {
        let mut inner = self.0.borrow_mut();
        let pending = std::mem::take(&mut inner.pending);
        for (id, txn) in pending {
            txn.ops.into_iter().for_each(|op| apply(&mut inner.durable, op));
            inner.committed.push(id);
        }
    }

    /// What is not durable is lost.
    pub fn crash(&self) {
        let mut inner = self.0.borrow_mut();
        inner.pending.clear();
        inner.committed.clear();
    }

    /// Entries of all objects.
    pub fn entries(&self) -> usize {
        self.0.borrow().durable.values().map(BTreeMap::len).sum()
    }

    /// Makes the store one of before there were several monitors: no votes, no voters.
    pub fn make_old(&self) {
        let mut inner = self.0.borrow_mut();
        for (key, omap) in &mut inner.durable {
            match key.name.as_slice() {
                b"mon.ident" => drop(omap.remove(b"vote".as_slice())),
                b"mon.log" => omap.values_mut().for_each(|value| {
                    let mut entry: mon::LogEntry = wire::Reader::new(value).get().expect("an entry");
                    entry.changes.retain(|c| !matches!(c, mon::Change::Voters(_) | mon::Change::Done(..)));
                    *value = wire::Writer::encode(&entry);
                }),
                _ => {}
            }
        }
    }

    /// Changes the first value of the object with this name.
    fn change(&self, object: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut inner = self.0.borrow_mut();
        let found = inner.durable.iter_mut().find(|(k, _)| k.name == object.as_bytes()).expect("the object");
        change(found.1.values_mut().next().expect("an entry"));
    }

    /// Flips the third byte of it, of the structure's length.
    pub fn damage(&self, object: &str) {
        self.change(object, |value| value[2] ^= 0xff);
    }

    /// Makes it one that needs a later version: its first byte is the structure's, the second the oldest
    /// reader's.
    pub fn make_newer(&self, object: &str) {
        self.change(object, |value| value[..2].copy_from_slice(&[9, 9]));
    }
}

fn apply(objects: &mut BTreeMap<ObjectKey, Omap>, op: TxnOp) {
    match op {
        TxnOp::OmapSet(key, entries) => objects.entry(key).or_default().extend(entries),
        TxnOp::OmapRemove(key, keys) => {
            let map = objects.entry(key).or_default();
            keys.iter().for_each(|k| drop(map.remove(k)));
        }
        TxnOp::OmapRemoveRange(key, from, to) => {
            objects.entry(key).or_default().retain(|k, _| *k < from || *k >= to)
        }
        TxnOp::Remove(key) => drop(objects.remove(&key)),
        TxnOp::Rename(from, to) => {
            if let Some(object) = objects.remove(&from) {
                objects.insert(to, object);
            }
        }
        other => panic!("the log does not use {other:?}"),
    }
}

/// The store of one incarnation of the process.
pub struct FakeStore {
    disk: Disk,
    next: u64,
}

impl FakeStore {
    pub fn new(disk: Disk) -> Self {
        Self { disk, next: 1 }
    }

    fn tell(&self, out: &mut Vec<StoreOut>) {
        let committed = std::mem::take(&mut self.disk.0.borrow_mut().committed);
        out.extend(committed.into_iter().map(StoreOut::Committed));
    }
}

impl Storage for FakeStore {
    fn open(&mut self, out: &mut Vec<StoreOut>) {
        out.push(StoreOut::Opened);
    }

    fn submit(&mut self, txn: Transaction, out: &mut Vec<StoreOut>) -> Result<TxnId, String> {
        let len = |op: &TxnOp| match op {
            TxnOp::OmapSet(_, rows) => rows.iter().map(|(k, v)| k.len() + v.len() + 100).sum(),
            TxnOp::OmapRemove(_, keys) => keys.iter().map(|k| k.len() + 100).sum(),
            _ => 0,
        };
        if txn.ops.iter().map(len).sum::<usize>() > self.largest_txn() {
            return Err("TooLarge".to_owned());
        }
        let id = TxnId(self.next);
        self.next += 1;
        self.disk.0.borrow_mut().pending.push((id, txn));
        let hold = self.disk.0.borrow().hold;
        if !hold {
            self.disk.commit();
            self.tell(out);
        }
        Ok(id)
    }

    fn largest_txn(&self) -> usize {
        self.disk.0.borrow().largest_txn.unwrap_or(4 << 20)
    }

    fn space(&self) -> mon::Space {
        let left = self.disk.0.borrow().left.unwrap_or(u64::MAX);
        mon::Space { left, ..mon::Space::default() }
    }

    fn read(&mut self, read: Read, out: &mut Vec<StoreOut>) -> ReadId {
        let id = ReadId(self.next);
        self.next += 1;
        let Read::Object { key, omap_range: Some(range), .. } = read else {
            panic!("the log reads omaps alone")
        };
        let inner = self.disk.0.borrow();
        let view = inner.durable.get(&key).map(|map| {
            let after = |k: &&Vec<u8>| range.after.as_ref().is_none_or(|a| *k > a);
            let mut entries = map.iter().filter(|(k, _)| after(k));
            let omap_entries: Vec<_> =
                entries.by_ref().take(range.max.min(3)).map(|(k, v)| (k.clone(), v.clone())).collect();
            ObjectView { omap_entries, omap_more: entries.next().is_some(), ..ObjectView::default() }
        });
        out.push(StoreOut::Read(id, Ok(ReadReply::Object(view))));
        id
    }

    fn disk_done(&mut self, _: DiskOpId, _: DiskResult, out: &mut Vec<StoreOut>) {
        self.tell(out);
    }

    fn close(&mut self, _: &mut Vec<StoreOut>) {}

    fn is_closed(&self) -> bool {
        self.disk.0.borrow().pending.is_empty()
    }
}
