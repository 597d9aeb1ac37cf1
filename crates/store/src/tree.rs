//! Finding entries in the index tree. The tree on the device never changes in place: a checkpoint makes a new
//! root.

use crate::cache::Cache;
use crate::key::{self, Key};
use crate::page::{Page, Ptr};
use crate::stop::{Stop, corrupt};

/// A version of the tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Tree {
    /// `None` if it is empty.
    pub root: Option<Ptr>,
    /// Levels, 1 where the root is a leaf; 0 if it is empty.
    pub levels: u8,
    /// Pages in all.
    pub pages: u64,
    /// No id of an object or of anything else in it is greater.
    pub last_id: u64,
}

/// A page above the leaves, and the number of one of its entries.
type Above = (Page, usize);

/// A page and the part of the key space that is its.
pub(crate) struct Found {
    pub page: Page,
    pub spot: Spot,
}

/// Where a page is, and the part of the key space that is its.
pub(crate) struct Spot {
    pub ptr: Ptr,
    /// All its keys are at least this.
    pub lower: Key,
    /// The key of the entry in the parent; differs from `lower` for some first children.
    pub name: Key,
    /// All its keys are less; `None` for the last page.
    pub upper: Option<Key>,
    /// True if the next page has the same parent.
    pub sibling: bool,
}

impl Tree {
    /// The page of `level` whose part of the key space holds `key`; `None` in an empty tree.
    pub fn find(&self, cache: &Cache, level: u8, key: &[u8]) -> Result<Option<Found>, Stop> {
        let Some(spot) = self.locate(cache, level, key)? else { return Ok(None) };
        let page = cache.get(spot.ptr).ok_or(Stop::Page(spot.ptr, level))?;
        Ok(Some(Found { page, spot }))
    }

    /// The same where the page itself need not be in memory.
    pub fn locate(&self, cache: &Cache, level: u8, key: &[u8]) -> Result<Option<Spot>, Stop> {
        let Some(mut ptr) = self.root else { return Ok(None) };
        let (mut lower, mut name, mut upper, mut sibling) = (Key::new(), Key::new(), None, false);
        let mut at = self.levels - 1;
        loop {
            if at == level {
                return Ok(Some(Spot { ptr, lower, name, upper, sibling }));
            }
            let page = cache.get(ptr).ok_or(Stop::Page(ptr, at))?;
            if page.count() == 0 {
                return Err(corrupt(format!("index page at block {}: empty", ptr.block)));
            }
            let i = page.child_index(key);
            name = page.entry(i).0.into();
            if i > 0 {
                lower.clone_from(&name);
            }
            sibling = i + 1 < page.count();
            if sibling {
                upper = Some(page.entry(i + 1).0.into());
            }
            ptr = page.child(i);
            at -= 1;
        }
    }

    /// The leaf whose part of the key space holds `key`, and the entry of a page above that says where that
    /// part ends; `None` in an empty tree.
    fn descend(&self, cache: &Cache, key: &[u8]) -> Result<Option<(Page, Option<Above>)>, Stop> {
        let Some(mut ptr) = self.root else { return Ok(None) };
        let mut upper: Option<Above> = None;
        for level in (1..self.levels).rev() {
            let page = cache.get(ptr).ok_or(Stop::Page(ptr, level))?;
            if page.count() == 0 {
                return Err(corrupt(format!("index page at block {}: empty", ptr.block)));
            }
            let i = page.child_index(key);
            ptr = page.child(i);
            if i + 1 < page.count() {
                upper = Some((page, i + 1));
            }
        }
        Ok(Some((cache.get(ptr).ok_or(Stop::Page(ptr, 0))?, upper)))
    }

    /// The leaf whose part of the key space holds `key`, and where that part ends; `None` in an empty tree.
    pub fn leaf(&self, cache: &Cache, key: &[u8]) -> Result<Option<(Page, Option<Key>)>, Stop> {
        let found = self.descend(cache, key)?;
        Ok(found.map(|(page, upper)| (page, upper.map(|(above, i)| above.entry(i).0.into()))))
    }

    /// Leaves that follow the one of `key` under the same parent, begin before `to` and are not in memory, at
    /// most `max`; with their level.
    pub fn leaves_after(&self, cache: &Cache, key: &[u8], to: &[u8], max: usize) -> Vec<(Ptr, u8)> {
        if self.levels < 2 {
            return Vec::new();
        }
        let Ok(Some(parent)) = self.find(cache, 1, key) else { return Vec::new() };
        let first = parent.page.child_index(key) + 1;
        let page = &parent.page;
        let leaves = (first..page.count()).take(max).take_while(|i| page.entry(*i).0 < to);
        leaves.map(|i| (page.child(i), 0)).filter(|(ptr, _)| cache.get(*ptr).is_none()).collect()
    }

    /// True if `key` is under an id that was given later, so that it has nothing of it. That is so of most of
    /// what new objects consist of.
    fn is_older_than(&self, key: &[u8]) -> bool {
        key::id(key).is_some_and(|id| id > self.last_id)
    }

    /// Calls `take` with the value of `key` and gives its result.
    pub fn with<T>(
        &self,
        cache: &Cache,
        key: &[u8],
        take: impl FnOnce(Option<&[u8]>) -> T,
    ) -> Result<T, Stop> {
        if self.is_older_than(key) {
            return Ok(take(None));
        }
        let found = self.descend(cache, key)?;
        Ok(take(found.as_ref().and_then(|(page, _)| page.get(key))))
    }
}

/// A key and its value.
pub(crate) type Entry<'a> = (&'a [u8], &'a [u8]);

/// Entries in order, from one key to before another.
pub(crate) struct Cursor<'a> {
    tree: &'a Tree,
    cache: &'a Cache,
    leaf: Option<(Page, usize, Option<Key>)>,
    /// The key at which the next leaf begins.
    from: Option<Key>,
    to: Key,
}

impl<'a> Cursor<'a> {
    pub fn new(tree: &'a Tree, cache: &'a Cache, from: &Key, to: &Key) -> Self {
        let from = (!Self::is_in_vain(tree, from, to)).then(|| from.clone());
        Self { tree, cache, leaf: None, from, to: to.clone() }
    }

    /// True if all that it looks for are of an id that the tree can't have.
    fn is_in_vain(tree: &Tree, from: &[u8], to: &[u8]) -> bool {
        tree.is_older_than(from) && from.first() == to.first()
    }

    /// The same from the last entry that is at most `at`, or else the first behind it. An entry of the leaf
    /// before is not looked for: says whether the entry is surely the last.
    pub fn around(tree: &'a Tree, cache: &'a Cache, at: &Key, to: &Key) -> Result<(Self, bool), Stop> {
        let mut cursor = Self { tree, cache, leaf: None, from: None, to: to.clone() };
        if Self::is_in_vain(tree, at, to) {
            return Ok((cursor, true));
        }
        let Some((page, upper)) = tree.leaf(cache, at)? else { return Ok((cursor, true)) };
        let next = page.search(at);
        let exact = next < page.count() && page.entry(next).0 == &at[..];
        let i = if exact { next } else { next.saturating_sub(1) };
        let sure = exact || next > 0;
        cursor.leaf = Some((page, i, upper));
        Ok((cursor, sure))
    }

    /// The entry that `advance` passes.
    pub fn peek(&mut self) -> Result<Option<Entry<'_>>, Stop> {
        loop {
            match &self.leaf {
                Some((page, i, _)) if *i < page.count() => break,
                _ => {
                    if let Some((_, _, upper)) = self.leaf.take() {
                        self.from = upper;
                    }
                    let Some(from) = &self.from else { return Ok(None) };
                    if *from >= self.to {
                        return Ok(None);
                    }
                    let Some((page, upper)) = self.tree.leaf(self.cache, from)? else { return Ok(None) };
                    let i = page.search(from);
                    self.leaf = Some((page, i, upper));
                    self.from = None;
                }
            }
        }
        let (page, i, _) = self.leaf.as_ref().expect("just looked");
        let entry = page.entry(*i);
        Ok((entry.0 < &self.to[..]).then_some(entry))
    }

    pub fn advance(&mut self) {
        if let Some((_, i, _)) = &mut self.leaf {
            *i += 1;
        }
    }

    /// The entry that the last `advance` has passed.
    pub fn passed(&self) -> Option<Entry<'_>> {
        let (page, i, _) = self.leaf.as_ref()?;
        i.checked_sub(1).map(|i| page.entry(i))
    }
}
