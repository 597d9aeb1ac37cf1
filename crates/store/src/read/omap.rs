//! The omap part of a read: values of keys, and entries of a range.
//!
//! It is carried on where it waited for a page: what it reads does not change meanwhile, and looking at all
//! of a large omap again for each of its pages would take time quadratic in its size.

use crate::api::{ObjectView, OmapRange};
use crate::key::{self, Key};
use crate::onode::{Cell, Onode};
use crate::page::PAGE;
use crate::stop::Stop;
use crate::table::View;

/// Entries that a leaf holds, about.
const ENTRIES_OF_LEAF: usize = 64;

/// What has been found so far.
#[derive(Default)]
pub(super) struct OmapRead {
    /// Keys that are still to be looked up, the next one last; `None` before the first is.
    keys: Option<Vec<Vec<u8>>>,
    values: Vec<(Vec<u8>, Vec<u8>)>,
    entries: Vec<(Vec<u8>, Vec<u8>)>,
    /// Bytes of the entries.
    bytes: usize,
    /// Keys and entries that were looked at.
    looked: usize,
    /// True if entries follow that the reader does not want.
    more: bool,
}

impl OmapRead {
    /// Keys and entries looked at so far.
    pub fn looked(&self) -> usize {
        self.looked
    }

    /// Looks up what is left, until a page is missing.
    pub fn carry_on(
        &mut self,
        view: &View<'_>,
        onode: &Onode,
        keys: &[Vec<u8>],
        range: Option<&OmapRange>,
    ) -> Result<(), Stop> {
        let keys = self.keys.get_or_insert_with(|| {
            let mut keys = keys.to_vec();
            keys.sort_by(|a, b| b.cmp(a));
            keys.dedup();
            keys
        });
        while let Some(name) = keys.last() {
            let cell = view.get(&key::omap(onode.omap, name))?;
            let value = cell.map(|cell| Cell::parse(&cell)?.load(view)).transpose()?;
            let name = keys.pop().expect("looked at");
            self.values.extend(value.map(|value| (name, value)));
            self.looked += 1;
        }
        if let Some(range) = range {
            self.scan(view, onode, range)?;
        }
        Ok(())
    }

    /// Puts everything into a reply.
    pub fn give(self, found: &mut ObjectView) {
        (found.omap_values, found.omap_entries, found.omap_more) = (self.values, self.entries, self.more);
    }

    /// Adds the entries of a range, as many as the reader wants.
    fn scan(&mut self, view: &View<'_>, onode: &Onode, range: &OmapRange) -> Result<(), Stop> {
        let (from, to) = self.rest(onode, range);
        let mut scan = view.scan(&from, &to);
        while let Some((key, cell)) = scan.next()? {
            let cell = Cell::parse(cell)?;
            let name = key[key::OMAP_KEY_AT..].to_vec();
            let bytes = self.bytes + name.len() + cell.len() as usize;
            let full = !self.entries.is_empty() && bytes > range.max_bytes;
            if full || self.entries.len() >= range.max {
                self.more = true;
                return Ok(());
            }
            self.entries.push((name, cell.load(view)?));
            self.bytes = bytes;
            self.looked += 1;
        }
        Ok(())
    }

    /// The part of a range that is still to be scanned: from, inclusive, to, exclusive.
    pub fn rest(&self, onode: &Onode, range: &OmapRange) -> (Key, Key) {
        let prefix = key::omap(onode.omap, &range.prefix);
        let to = key::end_of(&prefix);
        let after = self.entries.last().map(|(name, _)| name).or(range.after.as_ref());
        // The next possible key.
        let from = after.map_or(prefix.clone(), |name| prefix.max(key::after(&key::omap(onode.omap, name))));
        (from, to)
    }

    /// The keys that are looked up next.
    pub fn next_keys(&self, onode: &Onode) -> impl Iterator<Item = Key> {
        self.keys.iter().flatten().rev().map(|name| key::omap(onode.omap, name))
    }

    /// Leaves that the rest of a range takes at most.
    pub fn leaves_left(&self, range: &OmapRange) -> usize {
        let entries = range.max.saturating_sub(self.entries.len()) / ENTRIES_OF_LEAF;
        entries.min(range.max_bytes.saturating_sub(self.bytes) / PAGE)
    }
}
