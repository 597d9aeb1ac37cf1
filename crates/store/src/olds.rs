//! What the omap entries hold that the next transaction replaces or removes.
//!
//! A transaction that changes thousands of entries of a large omap touches about as many pages, more than the
//! cache may keep at once. What has to be known of an entry is small, so it is noted as soon as the page of
//! the entry is there, and the page need not stay. It holds until the transaction is applied: nothing else
//! changes entries meanwhile, and a checkpoint only moves them.

use crate::api::StoreError;
use crate::key::{self, Key};
use crate::logged::{Logged, Step};
use crate::onode::{Cell, Onode, onode};
use crate::page::Ptr;
use crate::stop::Stop;
use crate::table::View;
use std::collections::BTreeMap;

/// The value that an entry had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Old {
    /// The blob that holds it, if it is long.
    pub blob: Option<u64>,
    /// Its length in bytes.
    pub len: u64,
}

impl Old {
    /// Of an entry as the index has it.
    pub fn parse(bytes: &[u8]) -> Result<Self, Stop> {
        Cell::parse(bytes).map(|cell| Self { blob: cell.blob(), len: cell.len() })
    }
}

/// The entries of one transaction.
#[derive(Default)]
pub(crate) struct Olds {
    known: BTreeMap<Key, Option<Old>>,
    /// Those that are still to be looked up.
    unknown: Vec<Key>,
    /// Steps of the transaction whose entries are listed.
    listed: usize,
}

impl Olds {
    /// What is known of the entry of `key`: that there is none, or its value.
    pub fn get(&self, key: &Key) -> Option<Option<Old>> {
        self.known.get(key).copied()
    }

    /// Notes the entries whose pages are in memory. Calls `load` for the missing pages of the others, until
    /// it has begun `most`. An entry that can't be read is left to the plan, which reports why.
    pub fn look_up(
        &mut self,
        txn: &Logged,
        view: &View<'_>,
        most: usize,
        mut load: impl FnMut(Ptr, u8) -> Result<bool, StoreError>,
    ) {
        self.list(txn, view);
        let mut begun = 0;
        let Self { known, unknown, .. } = self;
        unknown.retain(|key| {
            if begun >= most {
                return true;
            }
            match view.with(key, |bytes| bytes.map(Old::parse).transpose()) {
                Ok(Ok(old)) => {
                    known.insert(key.clone(), old);
                    false
                }
                Err(Stop::Page(ptr, level)) => match load(ptr, level) {
                    Ok(new) => {
                        begun += usize::from(new);
                        true
                    }
                    Err(_) => false,
                },
                Ok(Err(_)) | Err(_) => false,
            }
        });
    }

    /// Lists entries of the transaction's steps as far as their objects are in memory.
    fn list(&mut self, txn: &Logged, view: &View<'_>) {
        for (object, names) in txn.steps[self.listed..].iter().map(Step::omap_names).map(Option::unzip) {
            if let (Some(object), Some(names)) = (object, names) {
                match onode(view, object) {
                    Ok(Some(Onode { omap: id @ 1.., .. })) => {
                        self.unknown.extend(names.map(|name| key::omap(id, name)));
                    }
                    Err(Stop::Page(..)) => return,
                    _ => {}
                }
            }
            self.listed += 1;
        }
    }
}
