//! The index phase of a read: everything that the index says about the object, of one state.

use super::data::DataRead;
use super::omap::OmapRead;
use crate::api::{Lookups, ObjectKey, ObjectView, Read, ReadClass, ReadReply, StoreError, StoreOut};
use crate::core::Core;
use crate::extents::parts;
use crate::io::Io;
use crate::key::{self, Key};
use crate::onode::{Cell, Onode, inline_data, onode};
use crate::page::Ptr;
use crate::stop::{Stop, corrupt};
use crate::table::View;
use stdx::BLOCK;

const BLOCK_LEN: u64 = BLOCK as u64;

/// The most pages that are loaded before they are needed.
const PAGES_AHEAD: usize = 32;
/// Names that a leaf holds, about.
const NAMES_OF_LEAF: usize = 64;

/// Progress of the index phase.
#[derive(Default)]
pub(super) struct Lookup {
    /// The block of the page that it waits for.
    waits_for: Option<u64>,
    /// Pages that it has waited for since it last found anything.
    stops: usize,
    /// True once it has looked for the object.
    is_counted: bool,
    /// The names that a list has found so far. Transactions that it must not see wait until it is complete.
    listed: Vec<ObjectKey>,
    /// What a read of an omap has found so far; the same holds of it.
    omap: OmapRead,
}

/// The result of a step of a lookup.
pub(super) enum Found {
    /// A page is missing.
    Nothing,
    /// The whole reply.
    Reply(Result<ReadReply, StoreError>),
    /// The reply but for data, which is to be read.
    Data(DataRead),
}

/// The result of a lookup.
enum Entries {
    Done(ReadReply),
    Data(DataRead),
}

impl Lookup {
    /// True if the page that it waits for has come.
    pub fn is_due(&self, io: &Io) -> bool {
        !self.waits_for.is_some_and(|block| io.is_loading(block))
    }

    /// Pages that it has waited for since it last found anything: it may need them all at once.
    pub fn stops(&self) -> usize {
        self.stops
    }

    /// Looks into the index. Loads the page that is missing, if one is.
    pub fn step(
        &mut self,
        read: &Read,
        class: ReadClass,
        core: &Core,
        (io, lookups): (&mut Io, &mut Lookups),
        out: &mut Vec<StoreOut>,
    ) -> Found {
        let before = self.found();
        let found = self.look_up(read, class, core);
        if let Some(key) = read.object().filter(|_| !std::mem::replace(&mut self.is_counted, true)) {
            // What it still lacks may be another part of the index than the object's own entry.
            let is_hit = found.is_ok() || onode(&core.view(), key).is_ok();
            *(if is_hit { &mut lookups.hits } else { &mut lookups.misses }) += 1;
        }
        let stop = match found {
            Ok(Entries::Done(reply)) => return Found::Reply(Ok(reply)),
            Ok(Entries::Data(mut data)) if data.is_complete() => return Found::Reply(data.take_reply()),
            Ok(Entries::Data(data)) => return Found::Data(data),
            Err(stop) => stop,
        };
        self.waits_for = if let Stop::Page(ptr, _) = &stop { Some(ptr.block) } else { None };
        self.stops = if self.found() > before { 1 } else { self.stops + 1 };
        // A damaged page fails this read only; others may not need it.
        if let Err(error) = io.wait_for(stop, out) {
            return Found::Reply(Err(error));
        }
        for (ptr, level) in self.pages_ahead(read, core) {
            // The error of an unreadable page is reported when the page is needed.
            let _ = io.load(ptr, level, out);
        }
        Found::Nothing
    }

    /// Names, keys and entries found so far.
    fn found(&self) -> usize {
        self.listed.len() + self.omap.looked()
    }

    /// The missing pages that it comes to next.
    fn pages_ahead(&self, read: &Read, core: &Core) -> Vec<(Ptr, u8)> {
        let most = PAGES_AHEAD.min(core.cache_limit() / 4);
        match read {
            Read::List { from, to, max } => {
                let leaves = (max.saturating_sub(self.listed.len()) / NAMES_OF_LEAF).min(most);
                let at = key::object(self.listed.last().unwrap_or(from));
                core.leaves_after(&at, &key::object(to), leaves)
            }
            Read::Object { key, omap_range, .. } => {
                let Ok(Some(onode)) = onode(&core.view(), key) else { return Vec::new() };
                let keys: Vec<Key> = self.omap.next_keys(&onode).take(most).collect();
                match omap_range {
                    Some(range) if keys.is_empty() => {
                        let (from, to) = self.omap.rest(&onode, range);
                        core.leaves_after(&from, &to, self.omap.leaves_left(range).min(most))
                    }
                    _ => missing_pages(&core.view(), &keys),
                }
            }
            Read::Extents { .. } => Vec::new(),
        }
    }

    fn look_up(&mut self, read: &Read, class: ReadClass, core: &Core) -> Result<Entries, Stop> {
        let view = core.view();
        match read {
            Read::List { from, to, max } => {
                list(&view, from, to, *max, &mut self.listed)?;
                Ok(Entries::Done(ReadReply::List(std::mem::take(&mut self.listed))))
            }
            Read::Extents { key, offset, len } => {
                let extents = match onode(&view, key)? {
                    None => None,
                    Some(onode) => Some(written(&view, &onode, *offset, *len)?),
                };
                Ok(Entries::Done(ReadReply::Extents(extents)))
            }
            Read::Object { key, attrs, data, omap_header, omap_keys, omap_range } => {
                let Some(onode) = onode(&view, key)? else {
                    return Ok(Entries::Done(ReadReply::Object(None)));
                };
                let mut found = ObjectView { size: onode.size, ..ObjectView::default() };
                if *attrs {
                    xattrs(&view, &onode, &mut found)?;
                }
                if *omap_header && let Some(cell) = view.get(&key::header(onode.id))? {
                    found.omap_header = Cell::parse(&cell)?.load(&view)?;
                }
                if onode.omap != 0 {
                    self.omap.carry_on(&view, &onode, omap_keys, omap_range.as_ref())?;
                }
                let data = DataRead::new(core, (key, &onode), class, data)?;
                std::mem::take(&mut self.omap).give(&mut found);
                Ok(Entries::Data(data.with(found)))
            }
        }
    }
}

/// The pages that must come before these keys can be looked up, each once.
fn missing_pages(view: &View<'_>, keys: &[Key]) -> Vec<(Ptr, u8)> {
    let mut out: Vec<(Ptr, u8)> = Vec::new();
    for key in keys {
        if let Err(Stop::Page(ptr, level)) = view.with(key, |_| ())
            && !out.contains(&(ptr, level))
        {
            out.push((ptr, level));
        }
    }
    out
}

/// All xattrs, by name.
fn xattrs(view: &View<'_>, onode: &Onode, found: &mut ObjectView) -> Result<(), Stop> {
    let prefix = key::attr(onode.id, b"");
    let mut scan = view.scan(&prefix, &key::end_of(&prefix));
    while let Some((key, cell)) = scan.next()? {
        found.attrs.push((key[key::ATTR_NAME_AT..].to_vec(), Cell::parse(cell)?.load(view)?));
    }
    Ok(())
}

/// Carries on a list.
fn list(
    view: &View<'_>,
    from: &ObjectKey,
    to: &ObjectKey,
    max: usize,
    out: &mut Vec<ObjectKey>,
) -> Result<(), Stop> {
    let from = match out.last() {
        // The next possible key.
        Some(last) => key::after(&key::object(last)),
        None => key::object(from),
    };
    let mut scan = view.scan(&from, &key::object(to));
    while out.len() < max
        && let Some((key, _)) = scan.next()?
    {
        out.push(key::parse_object(key).ok_or_else(|| corrupt("the name of an object in the index"))?);
    }
    Ok(())
}

/// The parts of a range that are not holes: offset and length in bytes.
fn written(view: &View<'_>, onode: &Onode, offset: u64, len: u64) -> Result<Vec<(u64, u64)>, Stop> {
    let end = offset.saturating_add(len).min(onode.size);
    let mut out: Vec<(u64, u64)> = Vec::new();
    if offset >= end {
        return Ok(out);
    }
    if onode.inline {
        let end = end.min(inline_data(view, onode)?.len() as u64);
        out.extend((offset < end).then(|| (offset, end - offset)));
        return Ok(out);
    }
    for extent in parts(view, onode.id, offset / BLOCK_LEN, end.div_ceil(BLOCK_LEN))? {
        let (from, to) = ((extent.block * BLOCK_LEN).max(offset), (extent.end() * BLOCK_LEN).min(end));
        match out.last_mut() {
            Some((at, len)) if *at + *len == from => *len += to - from,
            _ => out.push((from, to - from)),
        }
    }
    Ok(out)
}
