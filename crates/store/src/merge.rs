//! Writes a frozen table into a new version of the tree, level by level, page by page.
//!
//! Each level takes a sorted list of changes. At the leaves these are the table's; every page that they touch
//! is rewritten, and the list of removed and new pointers is the list of changes of the level above. Pages
//! side by side under one parent are joined in a run, which is cut into pages again, so that pages that have
//! lost most entries join their neighbours. Nothing of the old tree is touched: its pages are listed to be
//! freed when the new root is durable.

use crate::alloc::Alloc;
use crate::cache::Cache;
use crate::key::Key;
use crate::page::{self, CAPACITY, PAGE, Page, Piece, Place, Ptr, entry_size};
use crate::stop::{Stop, full};
use crate::table::Changes;
use crate::tree::{Found, Tree};
use std::collections::VecDeque;
use std::ops::Range;

/// The inputs and outputs of a merge.
pub(crate) struct Ground<'a> {
    pub cache: &'a mut Cache,
    pub alloc: &'a mut Alloc,
    /// Changes of the leaves.
    pub leaves: &'a Changes,
    /// Pages made, to be written.
    pub written: &'a mut Vec<(Place, Page)>,
}

pub(crate) struct Merge {
    old: Tree,
    generation: u64,
    level: u8,
    /// Changes of this level; those of the leaves are the table's.
    changes: Changes,
    /// Changes of the level above.
    above: Changes,
    /// Changes before this are done; `None` if all are.
    cursor: Option<Key>,
    run: Run,
    /// The page made last.
    last: Option<Page>,
    /// Pages made so far.
    pub made: u64,
    /// Changes of the leaves that are merged.
    pub merged: u64,
    /// Pages of the old tree that the new one does not have.
    pub freed: Vec<Place>,
}

/// Pages side by side that are being joined.
#[derive(Default)]
struct Run {
    open: bool,
    /// Nothing of it is less.
    lower: Key,
    /// The end of the page taken last; true if the next one has the same parent.
    end: Option<Key>,
    sibling: bool,
    entries: VecDeque<Item>,
    /// The pages of the old tree that entries are on.
    pages: Vec<Page>,
    bytes: usize,
    /// Pages cut from it already; the last key of the last.
    cut: usize,
    last_key: Key,
}

/// Entries of a run.
enum Item {
    /// As they were: on which of the run's pages, and where there; at least one.
    Old(usize, Range<usize>),
    New(Key, Vec<u8>),
}

impl Item {
    fn piece<'a>(&'a self, pages: &'a [Page]) -> Piece<'a> {
        match self {
            Self::Old(page, entries) => Piece::Run(&pages[*page], entries.clone()),
            Self::New(key, value) => Piece::Entry(key, value),
        }
    }

    /// The bytes that they take of a page.
    fn size(&self, pages: &[Page]) -> usize {
        match self {
            Self::Old(page, entries) => pages[*page].size_of(entries),
            Self::New(key, value) => entry_size(key, value),
        }
    }
}

impl Run {
    /// True if nothing was added to it yet.
    fn is_untouched(&self) -> bool {
        self.entries.is_empty() && self.cut == 0
    }

    /// Takes out the first entries, as many as fit `room` bytes but at least one, and says how many bytes
    /// they take.
    fn take_front(&mut self, room: usize) -> (Vec<Item>, usize) {
        let (mut items, mut bytes) = (Vec::new(), 0);
        while let Some(item) = self.entries.pop_front() {
            let size = item.size(&self.pages);
            match item {
                item if bytes + size <= room => items.push(item),
                Item::Old(page, entries) => {
                    let fit = self.pages[page].fit(&entries, room - bytes);
                    let fit = entries.start + fit.max(usize::from(items.is_empty()));
                    if fit > entries.start {
                        items.push(Item::Old(page, entries.start..fit));
                        bytes += self.pages[page].size_of(&(entries.start..fit));
                    }
                    if fit < entries.end {
                        self.entries.push_front(Item::Old(page, fit..entries.end));
                    }
                    break;
                }
                item if items.is_empty() => {
                    items.push(item);
                    bytes += size;
                    break;
                }
                item => {
                    self.entries.push_front(item);
                    break;
                }
            }
            bytes += size;
        }
        self.bytes -= bytes;
        (items, bytes)
    }
}

/// Pages that are less full than this take in a neighbour, where both together are not fuller than three
/// quarters.
const SPARSE: usize = CAPACITY / 4;

impl Merge {
    /// Of a tree, and of changes with ids up to this.
    pub fn new(old: Tree, last_id: u64, generation: u64) -> Self {
        let old = Tree { last_id, ..old };
        Self {
            old,
            generation,
            level: 0,
            changes: Changes::new(),
            above: Changes::new(),
            cursor: Some(Key::new()),
            run: Run::default(),
            last: None,
            made: 0,
            merged: 0,
            freed: Vec::new(),
        }
    }

    /// Takes one page of the old tree, or finishes a level; the new tree when all is done. Stops without
    /// having changed anything where a page is missing.
    pub fn step(&mut self, ground: &mut Ground<'_>) -> Result<Option<Tree>, Stop> {
        let Some(next) = self.next_change(ground.leaves) else {
            if self.join_neighbour(ground)? {
                return Ok(None);
            }
            self.close(ground)?;
            return self.finish_level(ground);
        };
        let found = self.old.find(ground.cache, self.level, &next)?;
        let follows = match &found {
            Some(found) => self.run.sibling && self.run.end.as_ref() == Some(&found.spot.lower),
            None => false,
        };
        if self.run.open && !follows {
            // The neighbour's neighbour may be the page that was found: look again.
            if self.join_neighbour(ground)? {
                return Ok(None);
            }
            self.close(ground)?;
        }
        self.take(found, ground)?;
        Ok(None)
    }

    /// The missing ones of the next `most` pages that it takes, with their levels.
    pub fn pages_ahead(&self, cache: &Cache, leaves: &Changes, most: usize) -> Vec<(Ptr, u8)> {
        let (mut out, mut from) = (Vec::new(), self.cursor.clone());
        for _ in 0..most {
            let Some(next) = from.and_then(|from| self.change_from(leaves, &from)) else { break };
            from = match self.old.locate(cache, self.level, &next) {
                Ok(Some(spot)) => {
                    out.extend(cache.get(spot.ptr).is_none().then_some((spot.ptr, self.level)));
                    spot.upper
                }
                // Those below are known when it is there.
                Err(Stop::Page(ptr, level)) => {
                    out.push((ptr, level));
                    None
                }
                Ok(None) | Err(_) => None,
            };
        }
        out
    }

    fn next_change(&self, leaves: &Changes) -> Option<Key> {
        self.change_from(leaves, self.cursor.as_ref()?)
    }

    fn change_from(&self, leaves: &Changes, from: &Key) -> Option<Key> {
        let changes = if self.level == 0 { leaves } else { &self.changes };
        changes.range::<Key, _>(from..).next().map(|(key, _)| key.clone())
    }

    /// Takes in the next page, which has no changes, where the run is sparse.
    fn join_neighbour(&mut self, ground: &mut Ground<'_>) -> Result<bool, Stop> {
        let sparse = self.run.open && self.run.sibling && self.run.bytes < SPARSE && self.run.cut == 0;
        let Some(end) = self.run.end.clone().filter(|_| sparse) else { return Ok(false) };
        let found = self.old.find(ground.cache, self.level, &end)?;
        let fits = found.as_ref().is_some_and(|f| self.run.bytes + f.page.used() <= CAPACITY / 4 * 3);
        if fits {
            self.take(found, ground)?;
        }
        Ok(fits)
    }

    /// Joins a page, with the changes to it, to the run; without one (an empty tree) only the changes.
    fn take(&mut self, found: Option<Found>, ground: &mut Ground<'_>) -> Result<(), Stop> {
        let (upper, sibling) =
            found.as_ref().map_or((None, false), |f| (f.spot.upper.clone(), f.spot.sibling));
        if !self.run.open {
            let lower = found.as_ref().map_or(Key::new(), |f| f.spot.lower.clone());
            self.run = Run { open: true, lower, ..Run::default() };
        }
        if let Some(found) = &found {
            self.freed.push(found.spot.ptr.place());
            // Before any page of the run is made: the first one may get this name.
            self.above.insert(found.spot.name.clone(), None);
            self.run.pages.push(found.page.clone());
        }
        let changes = std::mem::take(&mut self.changes);
        let source = if self.level == 0 { ground.leaves } else { &changes };
        let from = found.as_ref().map_or(Key::new(), |f| f.spot.lower.clone());
        let bounds = (
            std::ops::Bound::Included(from),
            upper.clone().map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded),
        );
        let mut result = Ok(());
        // Entries of the page before this one are done.
        let mut done = 0;
        for (key, value) in source.range::<Key, _>(bounds) {
            self.merged += u64::from(self.level == 0);
            if let Some(found) = &found {
                let at = found.page.search(key).max(done);
                result = result.and(self.push_old(done..at, ground));
                let is_there = at < found.page.count() && found.page.entry(at).0 == &key[..];
                done = at + usize::from(is_there);
            }
            if let Some(value) = value {
                result = result.and(self.push(Item::New(key.clone(), value.clone()), ground));
            }
        }
        if let Some(found) = &found {
            result = result.and(self.push_old(done..found.page.count(), ground));
        }
        self.changes = changes;
        self.cursor.clone_from(&upper);
        (self.run.end, self.run.sibling) = (upper, sibling);
        result
    }

    /// Adds entries of the page that was taken last.
    fn push_old(&mut self, entries: Range<usize>, ground: &mut Ground<'_>) -> Result<(), Stop> {
        if entries.is_empty() {
            return Ok(());
        }
        let (page, mut rest, mut result) = (self.run.pages.len() - 1, entries, Ok(()));
        if self.level > 0 && self.run.is_untouched() {
            // It gets another name.
            let value = self.run.pages[page].entry(rest.start).1.to_vec();
            rest.start += 1;
            result = self.push(Item::New(Key::new(), value), ground);
        }
        if rest.is_empty() { result } else { result.and(self.push(Item::Old(page, rest), ground)) }
    }

    fn push(&mut self, mut item: Item, ground: &mut Ground<'_>) -> Result<(), Stop> {
        if let Item::New(key, _) = &mut item
            && self.level > 0
            && self.run.is_untouched()
        {
            // The first child of a page is called as the page itself, so that nothing can be less.
            key.clone_from(&self.run.lower);
        }
        self.run.bytes += item.size(&self.run.pages);
        self.run.entries.push_back(item);
        while self.run.bytes > 2 * PAGE {
            self.cut(CAPACITY, ground)?;
        }
        Ok(())
    }

    /// Makes a page of the first entries of the run, as many as fit `room` bytes, but at least one.
    fn cut(&mut self, room: usize, ground: &mut Ground<'_>) -> Result<(), Stop> {
        let (items, bytes) = self.run.take_front(room);
        assert!(bytes <= CAPACITY, "an entry of {bytes} bytes");
        let pages = &self.run.pages;
        let pieces = items.iter().map(|item| item.piece(pages));
        let (Some(first), Some(last)) = (pieces.clone().next(), pieces.clone().next_back()) else {
            return Ok(());
        };
        let name = match self.run.cut {
            0 => self.run.lower.clone(),
            _ if self.level > 0 => first.first_key().into(),
            _ => separator(&self.run.last_key, first.first_key()),
        };
        let last_key = last.last_key().into();
        let place = ground.alloc.page().ok_or_else(full)?;
        let (ptr, page) = page::build(self.level, place, self.generation, pieces);
        ground.cache.insert(place.first, page.clone());
        ground.written.push((place, page.clone()));
        self.last = Some(page);
        self.made += 1;
        self.run.last_key = last_key;
        self.run.cut += 1;
        self.above.insert(name, Some(ptr.to_bytes()));
        Ok(())
    }

    /// Cuts what is left of the run into one page, or two equal ones.
    fn close(&mut self, ground: &mut Ground<'_>) -> Result<(), Stop> {
        while !self.run.entries.is_empty() {
            let room =
                if self.run.bytes > CAPACITY { self.run.bytes.div_ceil(2).min(CAPACITY) } else { CAPACITY };
            self.cut(room, ground)?;
        }
        self.run = Run::default();
        Ok(())
    }

    fn finish_level(&mut self, ground: &mut Ground<'_>) -> Result<Option<Tree>, Stop> {
        self.changes = std::mem::take(&mut self.above);
        if self.level + 1 < self.old.levels {
            self.level += 1;
            self.cursor = Some(Key::new());
            return Ok(None);
        }
        if self.changes.is_empty() {
            return Ok(Some(self.old));
        }
        loop {
            let pages: Vec<(Key, Vec<u8>)> =
                std::mem::take(&mut self.changes).into_iter().filter_map(|(k, v)| Some((k, v?))).collect();
            if pages.len() < 2 {
                return Ok(Some(self.root(pages.first().map(|p| &p.1[..]))));
            }
            // One more level.
            self.level += 1;
            self.run = Run { open: true, ..Run::default() };
            for (key, value) in pages {
                self.push(Item::New(key, value), ground)?;
            }
            self.close(ground)?;
            self.changes = std::mem::take(&mut self.above);
        }
    }

    fn root(&mut self, pointer: Option<&[u8]>) -> Tree {
        let pages = self.old.pages + self.made - self.freed.len() as u64;
        let mut tree = Tree { root: None, levels: 0, pages, ..self.old };
        let Some(pointer) = pointer else { return tree };
        let mut ptr = Ptr::from_bytes(pointer).expect("made here");
        tree.levels = self.level + 1;
        // A root with a single child is not needed.
        if let Some(page) =
            self.last.as_ref().filter(|p| self.level > 0 && p.count() == 1 && p.crc() == ptr.crc)
        {
            self.freed.push(ptr.place());
            ptr = page.child(0);
            tree.levels -= 1;
            tree.pages -= 1;
        }
        tree.root = Some(ptr);
        tree
    }
}

/// A short key that is greater than `left` and at most `right`.
fn separator(left: &[u8], right: &[u8]) -> Key {
    let same = left.iter().zip(right).take_while(|(a, b)| a == b).count();
    right[..right.len().min(same + 1)].into()
}
