//! The effects of one transaction, worked out before anything changes.
//!
//! A plan reads through the view and its own changes. It stops if a page or a block is not in memory; it is
//! then undone (only the allocator knows of it) and made again from scratch once the page or block is there.
//! So it holds nothing half done.
//!
//! Blocks of data are allocated in two places: here (`Plan::take`) for what goes through the log, and in
//! `Commit::place_bulk` for large writes that bypass it. Neither overwrites a block that a root on the device
//! refers to: overwritten blocks are given up (`Done::given`) and freed once the next root is durable (see
//! [`crate::retired`]).

mod cells;
mod clone;
mod data;
mod garbage;
mod omap;
mod steps;

use crate::alloc::{Alloc, Run};
use crate::api::ObjectKey;
use crate::key::{self, Key};
use crate::olds::Olds;
use crate::onode::{Onode, decode};
use crate::stop::{Stop, full};
use crate::table::{Changes, Scan, Stats, Table, View, Writing};
use std::collections::BTreeMap;
use stdx::Buf;
use wire::Writer;

/// The state that a plan is made on.
#[derive(Clone, Copy)]
pub(crate) struct Base<'a> {
    pub view: View<'a>,
    pub active: &'a Table,
    pub frozen: Option<&'a Table>,
    pub writing: &'a Writing,
    pub scratch: &'a Scratch,
}

/// Inputs that were prepared for the next transaction.
#[derive(Default)]
pub(crate) struct Scratch {
    /// Blocks that it changes in part, read from the device.
    pub fetched: BTreeMap<u64, Buf>,
    /// Large omaps that it clones, copied bit by bit.
    pub staged: Vec<Staged>,
    /// What the omap entries hold that it replaces or removes.
    pub olds: Olds,
}

/// A large omap that is copied before the transaction that clones it is applied.
#[derive(Clone, Debug, Default)]
pub(crate) struct Staged {
    /// The id of the original.
    pub source: u64,
    /// The id of the copy; 0 before it is begun.
    pub copy: u64,
    /// The first key that is still to be copied.
    pub from: Option<Key>,
    pub done: bool,
}

pub(crate) struct Plan<'a> {
    base: Base<'a>,
    alloc: &'a mut Alloc,
    done: Done,
    looked: Vec<Looked<'a>>,
}

/// An object that the transaction is about, as the transaction has left it so far. The steps of one object
/// are many; it is found and decoded for the first and put back after the last.
struct Looked<'a> {
    object: &'a ObjectKey,
    key: Key,
    onode: Option<Onode>,
    changed: bool,
}

/// The effects of a finished plan.
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
    /// True if an omap is to be forgotten.
    pub garbage: bool,
}

impl Done {
    /// Puts them into the active table.
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

impl<'a> Plan<'a> {
    pub fn new(base: Base<'a>, alloc: &'a mut Alloc, stats: Stats, next_id: u64) -> Self {
        Self { base, alloc, done: Done { stats, next_id, ..Done::default() }, looked: Vec::new() }
    }

    /// Ends the plan; gives its effects.
    pub fn finish(mut self) -> Done {
        for looked in self.looked.into_iter().filter(|l| l.changed) {
            self.done.changes.insert(looked.key, looked.onode.as_ref().map(Writer::encode));
        }
        self.done
    }

    /// Frees the blocks that it took.
    pub fn undo(self) {
        for run in self.done.taken {
            self.alloc.free(run);
        }
    }

    fn view(&self) -> View<'_> {
        let [first, second, third] = self.base.view.layers;
        assert!(third.is_none(), "the plan is the third layer");
        View { layers: [Some(&self.done.changes), first, second], ..self.base.view }
    }

    fn get(&self, key: &Key) -> Result<Option<Vec<u8>>, Stop> {
        self.view().get(key)
    }

    fn scan(&self, from: &Key, to: &Key) -> Scan<'_> {
        self.view().scan(from, to)
    }

    /// All entries whose keys begin with `prefix`.
    fn all(&self, prefix: &Key) -> Result<Vec<(Key, Vec<u8>)>, Stop> {
        let mut scan = self.scan(prefix, &key::end_of(prefix));
        let mut out = Vec::new();
        while let Some(entry) = scan.next()? {
            out.push((entry.0.into(), entry.1.to_vec()));
        }
        Ok(out)
    }

    fn put(&mut self, key: Key, value: Vec<u8>) {
        self.done.changes.insert(key, Some(value));
    }

    fn delete(&mut self, key: Key) {
        self.done.changes.insert(key, None);
    }

    fn new_id(&mut self) -> u64 {
        self.done.next_id += 1;
        self.done.next_id
    }

    fn onode(&mut self, object: &'a ObjectKey) -> Result<Option<Onode>, Stop> {
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
    fn make(&mut self, object: &'a ObjectKey) -> Result<Onode, Stop> {
        if let Some(onode) = self.onode(object)? {
            return Ok(onode);
        }
        let onode = Onode { id: self.new_id(), ..Onode::default() };
        self.done.stats.objects += 1;
        self.put_onode(object, &onode);
        Ok(onode)
    }

    fn put_onode(&mut self, object: &'a ObjectKey, onode: &Onode) {
        self.change_onode(object, Some(onode.clone()));
    }

    fn delete_onode(&mut self, object: &'a ObjectKey) {
        self.change_onode(object, None);
    }

    fn change_onode(&mut self, object: &'a ObjectKey, onode: Option<Onode>) {
        match self.looked.iter_mut().rev().find(|l| l.object == object) {
            Some(looked) => (looked.onode, looked.changed) = (onode, true),
            None => self.looked.push(Looked { object, key: key::object(object), onode, changed: true }),
        }
    }

    fn set_size(&mut self, object: &'a ObjectKey, onode: &mut Onode, size: u64) {
        self.done.stats.data = self.done.stats.data - onode.size + size;
        onode.size = size;
        self.done.stats.largest_data = self.done.stats.largest_data.max(size);
        self.put_onode(object, onode);
    }

    /// Takes blocks for data.
    fn take(&mut self, want: u64, goal: Option<u64>) -> Result<Run, Stop> {
        let run = self.alloc.data(want, goal).ok_or_else(full)?;
        self.done.taken.push(run);
        Ok(run)
    }
}
