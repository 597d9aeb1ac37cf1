//! READDIR: a page of a directory in order of hash and name. A page is a range of the omap, merged with the
//! cache.

use super::context::Cx;
use super::plan::{Extra, Listed, Plan, Reply};
use crate::types::{Need, Stop};
use fsfmt::{DentryKey, DirFrag, Frag, InodeKey};
use msgs::ReaddirArgs;
use msgs::readdir_flag::{FRAG_COMPLETE, FRAG_END, HASH_ORDER, OFFSET_HASH};
use std::ops::Bound;

/// A page has at most so many entries; a client may ask for fewer.
const MAX_PAGE_ENTRIES: usize = 1024;
/// A page has at most so many bytes; a client may ask for fewer.
const MAX_PAGE_BYTES: usize = 512 << 10;

/// The part of a directory that a request asks for.
pub(super) struct Asked {
    /// The fragment.
    pub dir: DirFrag,
    /// Where the page begins.
    pub start: Bound<DentryKey>,
    /// Entries that it may have.
    pub most: usize,
    /// Bytes that the answer may have.
    pub max_bytes: usize,
    /// True if the client counts offsets by hash.
    by_hash: bool,
}

impl Asked {
    /// The part that a request asks for, of a directory whose fragments `frag_of` knows.
    pub fn of(cx: &Cx<'_>, frag_of: impl FnOnce(u32) -> DirFrag) -> Self {
        let args: ReaddirArgs = cx.request.args.get();
        // A client may not know yet that the fragment it asks for was split or joined with others, also in
        // the midst of a listing.
        let asked = Frag::from_raw(args.frag).unwrap_or_default().value();
        let start = start_of(cx, &args);
        let first = first_hash(asked, &start);
        let dir = frag_of(first);
        let start = match start {
            // The fragment begins with names of which the client has been told before.
            Bound::Unbounded if asked > dir.frag.value() => Bound::Included(DentryKey::start_of(asked)),
            start => start,
        };
        let most = match args.max_entries as usize {
            0 => MAX_PAGE_ENTRIES,
            n => n.min(MAX_PAGE_ENTRIES),
        };
        let max_bytes = match args.max_bytes as usize {
            0 => MAX_PAGE_BYTES,
            n => n.clamp(16 << 10, MAX_PAGE_BYTES),
        };
        Self { dir, start, most, max_bytes, by_hash: args.flags & 1 != 0 }
    }

    /// The answer's bits of `readdir_flag`.
    pub fn flags(&self, at_end: bool) -> u16 {
        let mut flags = HASH_ORDER | if self.by_hash { OFFSET_HASH } else { 0 };
        if at_end {
            flags |= FRAG_END;
            let is_from_the_start = match &self.start {
                Bound::Unbounded => true,
                Bound::Included(key) => *key <= DentryKey::start_of(self.dir.frag.value()),
                Bound::Excluded(_) => false,
            };
            if is_from_the_start {
                flags |= FRAG_COMPLETE;
            }
        }
        flags
    }
}

/// The smallest hash of a page in a fragment that begins with `asked`.
fn first_hash(asked: u32, start: &Bound<DentryKey>) -> u32 {
    match start {
        Bound::Included(key) | Bound::Excluded(key) => asked.max(key.hash),
        Bound::Unbounded => asked,
    }
}

/// The directory that is to be listed. The rank that has one of its shards need not have the directory.
fn listed(cx: &Cx<'_>) -> Result<(InodeKey, Asked), Stop> {
    let path = &cx.request.path;
    if cx.cache.subtrees.has_shards() {
        let args: ReaddirArgs = cx.request.args.get();
        let asked = Frag::from_raw(args.frag).unwrap_or_default().value();
        let first = first_hash(asked, &start_of(cx, &args));
        let dir = cx.find(path)?;
        let root = cx.cache.subtrees.shard(dir.ino, first);
        if let Some((root, shard)) = root.and_then(|root| Some((root, root.as_shard()?))) {
            cx.stay(root.head())?;
            cx.dir_of(shard)?;
            return Ok((dir, Asked::of(cx, |_| shard)));
        }
    }
    let dir = cx.resolve(path)?.ino;
    let data = &cx.dir(dir)?.data;
    Ok((dir, Asked::of(cx, |hash| data.frag_of(hash))))
}

pub(super) fn prepare(cx: &Cx<'_>) -> Result<Plan, Stop> {
    let (target, asked) = listed(cx)?;
    let (entries, at_end) = page(cx, asked.dir, &asked.start, asked.most)?;
    let (flags, max_bytes) = (asked.flags(at_end), asked.max_bytes);
    let reply = Reply {
        target: Some(target),
        extra: Extra::Listing { frag: asked.dir.frag, entries, flags, max_bytes },
        ..Reply::default()
    };
    cx.finish(Plan { reply, ..Plan::default() })
}

fn start_of(cx: &Cx<'_>, args: &ReaddirArgs) -> Bound<DentryKey> {
    let after = &cx.request.path2.path;
    if !after.is_empty() {
        return Bound::Excluded(DentryKey::new(after));
    }
    match args.offset_hash & DentryKey::HASH_MASK {
        0 => Bound::Unbounded,
        hash => Bound::Included(DentryKey::start_of(hash)),
    }
}

/// Names and inodes after `start`, and whether these are all.
fn page(
    cx: &Cx<'_>,
    dir: DirFrag,
    start: &Bound<DentryKey>,
    most: usize,
) -> Result<(Vec<Listed>, bool), Stop> {
    let cached = cx.fragment(dir)?;
    let complete = cached.is_some_and(|d| d.complete);
    // Known without gaps up to `known`, or to the end.
    let known = if complete { None } else { Some(reach(cx, dir, start)?) };
    let until = known.flatten();
    let mut entries = Vec::new();
    let Some(d) = cached else { return Ok((entries, until.is_none())) };
    for (key, slot) in d.slots.range((start.clone(), Bound::Unbounded)) {
        if until.as_ref().is_some_and(|u| key > u) {
            break;
        }
        let Some(ino) = slot.link(key).inode().filter(|_| key.is_head()) else { continue };
        if entries.len() == most {
            return Ok((entries, false));
        }
        cx.entry(dir, key)?;
        match cx.shown(ino) {
            Ok(_) => entries.push((key.name.clone(), ino)),
            // A further name of an inode that is gone or damaged: the others are listed all the same.
            Err(Stop::Fail(_)) => {}
            Err(needs) => return Err(needs),
        }
    }
    if entries.is_empty()
        && let Some(last) = until
    {
        // All names of the page are removed: continue after it.
        return page(cx, dir, &Bound::Excluded(last), most);
    }
    Ok((entries, until.is_none()))
}

/// How far after `start` the cache has no gaps: up to an entry, or to the end. If it knows nothing there, a
/// page is fetched.
pub(super) fn reach(cx: &Cx<'_>, dir: DirFrag, start: &Bound<DentryKey>) -> Result<Option<DentryKey>, Stop> {
    let after = match start {
        Bound::Unbounded => Vec::new(),
        Bound::Excluded(key) => key.to_omap(),
        Bound::Included(key) => DentryKey::omap_start_of(key.hash),
    };
    for page in cx.pages(dir) {
        let covers = page.after <= after && page.last.as_ref().is_none_or(|l| l.to_omap() > after);
        if covers {
            return Ok(page.last.clone());
        }
    }
    Err(Need::Page(dir, after).into())
}
