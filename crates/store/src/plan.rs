//! The effects of one transaction, worked out before anything changes.
//!
//! A plan reads through the view and its own changes. Where a page or a block is not in memory it stops, is undone
//! (only the allocator knows of it) and is made again from scratch when the cause is gone; so it holds nothing half done.

use crate::alloc::{Alloc, Run};
use crate::api::{ObjectKey, StoreError};
use crate::key::{self, Key};
use crate::steps::Staged;
use crate::table::{Changes, Scan, Stats, Table, View, Writing};
use crate::tree::{Stop, corrupt};
use std::collections::BTreeMap;
use stdx::Buf;
use wire::{Reader, Writer, wire_structs};

wire_structs! {
    /// An object, without what is under its id.
    pub(crate) struct Onode[v 1/1] {
        /// Never used for another object.
        pub id: u64,
        /// Bytes.
        pub size: u64,
        /// Where its omap's entries are; 0 where it never had any.
        pub omap: u64,
        /// Entries of the omap.
        pub omap_count: u64,
        /// Bytes of their keys and values.
        pub omap_bytes: u64,
        /// Whether its data lies in the index. Then it has no extents and at most [`INLINE_DATA`] bytes.
        pub inline: bool,
    }
}

/// The largest object whose data is kept in the index, in bytes: three of them fit a page, as many as a block of the
/// device and a half hold.
pub(crate) const INLINE_DATA: u64 = 2048;
/// The longest value that is kept in a page with its key.
const INLINE_MAX: usize = 1024;
/// Longer ones are cut into parts of so many bytes.
const BLOB_CHUNK: usize = 2048;

/// What a plan is made on.
#[derive(Clone, Copy)]
pub(crate) struct Base<'a> {
    pub view: View<'a>,
    pub active: &'a Table,
    pub frozen: Option<&'a Table>,
    pub writing: &'a Writing,
    /// Blocks that were read for this plan.
    pub fetched: &'a BTreeMap<u64, Buf>,
    /// Large omaps that were copied for it.
    pub staged: &'a [Staged],
}

pub(crate) struct Plan<'a> {
    pub base: Base<'a>,
    pub alloc: &'a mut Alloc,
    pub done: Done,
    looked: Vec<Looked<'a>>,
}

/// An object that the transaction is about, as the transaction has left it so far. The steps of one object are many; it
/// is found and decoded for the first and put back after the last.
struct Looked<'a> {
    object: &'a ObjectKey,
    key: Key,
    onode: Option<Onode>,
    changed: bool,
}

/// What a finished plan changes.
#[derive(Default)]
pub(crate) struct Done {
    pub changes: Changes,
    /// New content of blocks.
    pub blocks: BTreeMap<u64, Buf>,
    /// Blocks taken here.
    pub taken: Vec<Run>,
    /// Blocks of large writes, taken when the transaction was admitted.
    pub adopted: Vec<Run>,
    pub given: Vec<Run>,
    pub stats: Stats,
    pub next_id: u64,
    /// Whether an omap is to be forgotten.
    pub garbage: bool,
}

impl Done {
    /// Makes it so.
    pub fn apply(self, table: &mut Table) {
        for (key, value) in self.changes {
            table.put(key, value);
        }
        table.unwritten.extend(self.blocks);
        table.taken.extend(self.taken);
        table.taken.extend(self.adopted);
        for run in self.given {
            table.give(run);
        }
    }
}

/// A value as it is kept under its key: whole, or the name of the blob that holds it.
#[derive(Clone, Copy)]
pub(crate) enum Cell<'a> {
    Inline(&'a [u8]),
    Blob(u64, u32),
}

impl<'a> Cell<'a> {
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Stop> {
        match bytes.split_first() {
            Some((0, value)) => Ok(Self::Inline(value)),
            Some((1, rest)) if rest.len() == 12 => {
                let (id, len) = rest.split_at(8);
                let id = u64::from_le_bytes(id.try_into().expect("8 bytes"));
                Ok(Self::Blob(id, u32::from_le_bytes(len.try_into().expect("4 bytes"))))
            }
            _ => Err(corrupt("a value of an unknown kind in the index")),
        }
    }

    /// The length of the value.
    pub fn len(self) -> u64 {
        match self {
            Self::Inline(value) => value.len() as u64,
            Self::Blob(_, len) => u64::from(len),
        }
    }

    /// The blob that holds the value.
    fn blob(self) -> Option<u64> {
        match self {
            Self::Inline(_) => None,
            Self::Blob(id, _) => Some(id),
        }
    }

    /// The value itself.
    pub fn load(self, view: &View<'_>) -> Result<Vec<u8>, Stop> {
        match self {
            Self::Inline(value) => Ok(value.to_vec()),
            Self::Blob(id, len) => {
                let mut value = Vec::with_capacity(len as usize);
                let mut scan = view.scan(&key::blob(id, 0), &key::end_of(&key::prefixed(b'B', id)));
                while let Some((_, chunk)) = scan.next()? {
                    value.extend_from_slice(chunk);
                }
                if value.len() == len as usize {
                    Ok(value)
                } else {
                    Err(corrupt(format!("blob {id}: length")))
                }
            }
        }
    }
}

pub(crate) fn decode<T: wire::Decode>(bytes: &[u8], what: impl FnOnce() -> String) -> Result<T, Stop> {
    Reader::new(bytes).get().map_err(|e| corrupt(format!("{}: {e}", what())))
}

impl<'a> Plan<'a> {
    pub fn new(base: Base<'a>, alloc: &'a mut Alloc, stats: Stats, next_id: u64) -> Self {
        Self { base, alloc, done: Done { stats, next_id, ..Done::default() }, looked: Vec::new() }
    }

    /// All that is to be changed.
    pub fn finish(mut self) -> Done {
        for looked in self.looked.into_iter().filter(|l| l.changed) {
            self.done.changes.insert(looked.key, looked.onode.as_ref().map(Writer::encode));
        }
        self.done
    }

    /// Gives back what it took.
    pub fn undo(self) {
        for run in self.done.taken {
            self.alloc.free(run);
        }
    }

    pub fn view(&self) -> View<'_> {
        let [first, second, third] = self.base.view.layers;
        assert!(third.is_none(), "the plan is the third layer");
        View { layers: [Some(&self.done.changes), first, second], ..self.base.view }
    }

    pub fn get(&self, key: &Key) -> Result<Option<Vec<u8>>, Stop> {
        self.view().get(key)
    }

    pub fn scan(&self, from: &Key, to: &Key) -> Scan<'_> {
        self.view().scan(from, to)
    }

    /// All entries whose keys begin with `prefix`.
    pub fn all(&self, prefix: &Key) -> Result<Vec<(Key, Vec<u8>)>, Stop> {
        let mut scan = self.scan(prefix, &key::end_of(prefix));
        let mut out = Vec::new();
        while let Some(entry) = scan.next()? {
            out.push((entry.0.into(), entry.1.to_vec()));
        }
        Ok(out)
    }

    pub fn put(&mut self, key: Key, value: Vec<u8>) {
        self.done.changes.insert(key, Some(value));
    }

    pub fn delete(&mut self, key: Key) {
        self.done.changes.insert(key, None);
    }

    pub fn new_id(&mut self) -> u64 {
        self.done.next_id += 1;
        self.done.next_id
    }

    pub fn onode(&mut self, object: &'a ObjectKey) -> Result<Option<Onode>, Stop> {
        if let Some(looked) = self.looked.iter().rev().find(|l| l.object == object) {
            return Ok(looked.onode.clone());
        }
        let key = key::object(object);
        let found = self.view().with(&key, |bytes| {
            bytes.map(|bytes| decode::<Onode>(bytes, || key::describe(object))).transpose()
        })?;
        let onode = found?;
        self.looked.push(Looked { object, key, onode: onode.clone(), changed: false });
        Ok(onode)
    }

    /// The object, made where it is absent.
    pub fn make(&mut self, object: &'a ObjectKey) -> Result<Onode, Stop> {
        if let Some(onode) = self.onode(object)? {
            return Ok(onode);
        }
        let onode = Onode { id: self.new_id(), ..Onode::default() };
        self.done.stats.objects += 1;
        self.put_onode(object, &onode);
        Ok(onode)
    }

    pub fn put_onode(&mut self, object: &'a ObjectKey, onode: &Onode) {
        self.change_onode(object, Some(onode.clone()));
    }

    pub fn delete_onode(&mut self, object: &'a ObjectKey) {
        self.change_onode(object, None);
    }

    fn change_onode(&mut self, object: &'a ObjectKey, onode: Option<Onode>) {
        match self.looked.iter_mut().rev().find(|l| l.object == object) {
            Some(looked) => (looked.onode, looked.changed) = (onode, true),
            None => self.looked.push(Looked { object, key: key::object(object), onode, changed: true }),
        }
    }

    pub fn set_size(&mut self, object: &'a ObjectKey, onode: &mut Onode, size: u64) {
        self.done.stats.data = self.done.stats.data - onode.size + size;
        onode.size = size;
        self.done.stats.largest_data = self.done.stats.largest_data.max(size);
        self.put_onode(object, onode);
    }

    /// Puts a value under `key`, which holds none.
    pub fn put_cell(&mut self, key: Key, value: &[u8]) {
        if value.len() <= INLINE_MAX {
            self.put(key, [&[0], value].concat());
            return;
        }
        let id = self.new_id();
        for (i, chunk) in value.chunks(BLOB_CHUNK).enumerate() {
            self.put(key::blob(id, i as u32), chunk.to_vec());
        }
        let len = value.len() as u32;
        self.put(key, [&[1][..], &id.to_le_bytes(), &len.to_le_bytes()].concat());
    }

    /// Forgets what a cell holds beside itself; gives the length of the value.
    pub fn drop_cell(&mut self, bytes: &[u8]) -> Result<u64, Stop> {
        let cell = Cell::parse(bytes)?;
        self.drop_blob(cell.blob(), cell.len());
        Ok(cell.len())
    }

    fn drop_blob(&mut self, blob: Option<u64>, len: u64) {
        if let Some(id) = blob {
            for chunk in 0..(len as usize).div_ceil(BLOB_CHUNK) {
                self.delete(key::blob(id, chunk as u32));
            }
        }
    }

    /// Removes a cell where there is one; gives the length of its value.
    pub fn remove_cell(&mut self, key: Key) -> Result<Option<u64>, Stop> {
        let len = self.vacate(&key)?;
        if len.is_some() {
            self.delete(key);
        }
        Ok(len)
    }

    /// Puts a value under `key`; gives the length of the one that was there.
    pub fn replace_cell(&mut self, key: Key, value: &[u8]) -> Result<Option<u64>, Stop> {
        let len = self.vacate(&key)?;
        self.put_cell(key, value);
        Ok(len)
    }

    /// Forgets what a cell holds beside itself, where there is one, which is then to be put or deleted; gives the length
    /// of its value.
    fn vacate(&mut self, key: &Key) -> Result<Option<u64>, Stop> {
        let look = |old: &[u8]| Cell::parse(old).map(|cell| (cell.blob(), cell.len()));
        let Some(old) = self.view().with(key, |old| old.map(look))? else { return Ok(None) };
        let (blob, len) = old?;
        self.drop_blob(blob, len);
        Ok(Some(len))
    }

    /// Takes blocks for data.
    pub fn take(&mut self, want: u64, goal: Option<u64>) -> Result<Run, Stop> {
        let run = self.alloc.data(want, goal).ok_or_else(full)?;
        self.done.taken.push(run);
        Ok(run)
    }
}

/// No room although it was promised: the store must stop rather than lose a transaction that it has accepted.
pub(crate) fn full() -> Stop {
    const ENOSPC: i32 = 28;
    Stop::Error(StoreError::Io(node::DiskError { errno: ENOSPC, what: "the store is full".to_owned() }))
}
