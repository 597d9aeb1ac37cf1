//! Looks at a device without a running store: what is on it, and whether it is sound. Never writes, and goes
//! on behind what is damaged as far as it can.
//!
//! The index is read page by page from the root; memory grows with the number of objects (8 bytes each) and
//! with the size of the device (2 bits for each block), so this is for tools and tests and not for daemons.

use crate::api::ObjectKey;
use crate::config::Identity;
use crate::extents::{decode_extent, decode_refs};
use crate::key;
use crate::onode::{Cell, Onode};
use crate::page::{PAGE, Page, Ptr};
use crate::ring::{Look, Ring};
use crate::space_map::marked_blocks;
use crate::superblock::{COPIES, Found, Super};
use std::collections::{BTreeMap, BTreeSet};
use stdx::{BLOCK, Buf};
use wire::Reader;

/// Reads bytes of the device: offset, length.
pub type ReadAt<'a> = dyn FnMut(u64, usize) -> Result<Buf, String> + 'a;

/// The findings about a device.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// The state of each copy of the superblock, in words.
    pub superblocks: Vec<String>,
    /// Whose store it is, where a superblock could be read.
    pub identity: Option<Identity>,
    /// Fields of the newest superblock, by name.
    pub fields: Vec<(&'static str, String)>,
    /// Pages of the index by level, the leaves first.
    pub pages: Vec<u64>,
    /// Bytes of these pages that are in use.
    pub page_bytes: u64,
    /// Entries of the leaves by kind: what, number, bytes.
    pub entries: Vec<(&'static str, u64, u64)>,
    /// Objects, and the sum of their sizes in bytes.
    pub objects: (u64, u64),
    /// Blocks of 4 KiB with data, and further references to them.
    pub blocks: (u64, u64),
    /// Free blocks.
    pub free: u64,
    /// Records in the log that may be needed, their transactions, their bytes.
    pub log: (u64, u64, u64),
    /// The end of the log, in words.
    pub log_end: String,
    /// Blocks of data whose checksums were compared.
    pub compared: u64,
    /// Damage found; empty for a sound store.
    pub damage: Vec<String>,
}

/// The depth of an inspection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Depth {
    /// The superblocks and the log.
    Outline,
    /// The index too: every page, every owner of every block.
    Index,
    /// The data too: every checksum.
    Data,
}

/// The most findings that are kept.
const FINDINGS: usize = 1000;
const KINDS: [(u8, &str); 6] = [
    (b'B', "blobs"),
    (b'F', "map of blocks"),
    (b'G', "removed omaps"),
    (b'M', "omap entries"),
    (b'O', "objects"),
    (b'R', "shared blocks"),
];

/// Looks at a device of `size` bytes. `progress` hears how many of how many blocks were looked at.
pub fn inspect(
    size: u64,
    depth: Depth,
    read: &mut ReadAt<'_>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Report, String> {
    let mut report = Report::default();
    let Some(sup) = superblocks(size, read, &mut report)? else { return Ok(report) };
    log(&sup, read, &mut report);
    if depth > Depth::Outline {
        let mut walk = Walk::new(&sup, depth, read, progress, &mut report);
        walk.pages();
        walk.compare();
        walk.data();
        walk.name_the_damaged();
    }
    Ok(report)
}

/// Whose store a device of `size` bytes holds, as its superblocks say; `None` if none can be read.
pub fn identify(size: u64, read: &mut ReadAt<'_>) -> Option<Identity> {
    let mut report = Report::default();
    superblocks(size, read, &mut report).ok()?;
    report.identity
}

fn superblocks(size: u64, read: &mut ReadAt<'_>, report: &mut Report) -> Result<Option<Super>, String> {
    let mut newest: Option<Super> = None;
    for at in COPIES.into_iter().filter(|at| at + BLOCK as u64 <= size) {
        let text = match Super::parse(&read(at, BLOCK)?) {
            Found::Valid(sup) => {
                let text = format!("generation {}", sup.generation);
                if newest.as_ref().is_none_or(|n| n.generation < sup.generation) {
                    newest = Some(*sup);
                }
                text
            }
            Found::Blank => "blank".to_owned(),
            Found::Other(what) => what,
        };
        report.superblocks.push(text);
    }
    let Some(sup) = newest else {
        report.damage.push("no superblock can be read".to_owned());
        return Ok(None);
    };
    report.identity = Some(sup.identity());
    report.fields = sup.fields();
    if sup.blocks * BLOCK as u64 > size {
        report.damage.push(format!(
            "the store has {} blocks, the device {}",
            sup.blocks,
            size / BLOCK as u64
        ));
    }
    // A power loss while they are written leaves the second one behind by one.
    let sound = [sup.generation, sup.generation - 1].map(|generation| format!("generation {generation}"));
    if let Some(other) = report.superblocks.iter().find(|text| !sound.contains(text)) {
        report.damage.push(format!("a superblock: {other}"));
    }
    Ok(Some(sup))
}

/// Goes through the log as far as it is whole.
fn log(sup: &Super, read: &mut ReadAt<'_>, report: &mut Report) {
    if sup.clean {
        report.log_end = "closed in order".to_owned();
        return;
    }
    let ring = Ring::of(sup);
    let (mut pos, mut seq, mut bytes) = (sup.log_pos, sup.log_seq, Vec::new());
    let end = sup.log_pos + sup.log_bytes;
    loop {
        match ring.look(&bytes, pos, seq) {
            Look::More => {
                let from = pos + bytes.len() as u64;
                let (place, left) = ring.place(from);
                let len = (1 << 20).min(left).min(end - from);
                match read(place, len as usize) {
                    Ok(piece) if len > 0 => bytes.extend_from_slice(&piece),
                    Ok(_) => {
                        report.log_end = "full".to_owned();
                        return;
                    }
                    Err(error) => {
                        report.damage.push(format!("log record {seq}: {error}"));
                        return;
                    }
                }
            }
            Look::Record(record) => {
                report.log.0 += 1;
                report.log.1 += record.txns.len() as u64;
                report.log.2 += record.len;
                bytes.drain(..record.len as usize);
                (pos, seq) = (pos + record.len, seq + 1);
            }
            Look::End => {
                report.log_end = format!("record {seq} was never written whole");
                if seq < sup.log_durable {
                    report.damage.push(format!("log record {seq}: it was durable and is not there"));
                }
                return;
            }
            Look::Rotten => {
                report.log_end = format!("record {seq} is damaged");
                report.damage.push(format!("log record {seq}: a sector of it"));
                return;
            }
        }
    }
}

/// A set of blocks.
struct Bits(Vec<u64>);

impl Bits {
    /// Adds one; false if it was there.
    fn add(&mut self, block: u64) -> bool {
        let (word, bit) = (&mut self.0[(block / 64) as usize], 1 << (block % 64));
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    fn has(&self, block: u64) -> bool {
        self.0[(block / 64) as usize] >> (block % 64) & 1 == 1
    }
}

struct Walk<'a, 'r> {
    sup: &'a Super,
    depth: Depth,
    read: &'a mut ReadAt<'r>,
    progress: &'a mut dyn FnMut(u64, u64),
    report: &'a mut Report,
    /// Blocks of pages and of data, and those that the map says to hold data.
    used: Bits,
    mapped: Bits,
    /// Further references, as counted and as stored.
    extra: BTreeMap<u64, u64>,
    stored: BTreeMap<u64, u64>,
    /// Ids of objects, and of those with data, xattrs or a header.
    ids: BTreeSet<u64>,
    parts: BTreeSet<u64>,
    /// Entries and bytes of omaps, as counted and as their objects say.
    omaps: BTreeMap<u64, (u64, u64)>,
    owned: BTreeMap<u64, (u64, u64)>,
    garbage: BTreeSet<u64>,
    /// Bytes of blobs, as counted and as cells say.
    blobs: BTreeMap<u64, u64>,
    cells: BTreeMap<u64, u64>,
    /// Extents in the order of their places, for reading: place, object id, first block, checksums.
    extents: Vec<(u64, u64, u64, Vec<u32>)>,
    /// Objects by id of which something is wrong, and what.
    damaged: BTreeMap<u64, Vec<String>>,
    done: u64,
}

impl<'a, 'r> Walk<'a, 'r> {
    fn new(
        sup: &'a Super,
        depth: Depth,
        read: &'a mut ReadAt<'r>,
        progress: &'a mut dyn FnMut(u64, u64),
        report: &'a mut Report,
    ) -> Self {
        let bits = || Bits(vec![0; sup.blocks.div_ceil(64) as usize]);
        report.entries = KINDS.iter().map(|(_, name)| (*name, 0, 0)).collect();
        report.entries.extend([
            ("xattrs", 0, 0),
            ("data in the index", 0, 0),
            ("extents", 0, 0),
            ("omap headers", 0, 0),
        ]);
        Self {
            sup,
            depth,
            read,
            progress,
            report,
            used: bits(),
            mapped: bits(),
            extra: BTreeMap::new(),
            stored: BTreeMap::new(),
            ids: BTreeSet::new(),
            parts: BTreeSet::new(),
            omaps: BTreeMap::new(),
            owned: BTreeMap::new(),
            garbage: BTreeSet::new(),
            blobs: BTreeMap::new(),
            cells: BTreeMap::new(),
            extents: Vec::new(),
            damaged: BTreeMap::new(),
            done: 0,
        }
    }

    fn damage(&mut self, what: impl Into<String>) {
        if self.report.damage.len() < FINDINGS {
            self.report.damage.push(what.into());
        }
    }

    fn step(&mut self, blocks: u64) {
        self.done += blocks;
        let all = self.sup.blocks - self.sup.first_block();
        (self.progress)(self.done.min(all), all);
    }

    fn inside(&self, block: u64, count: u64) -> bool {
        block >= self.sup.first_block() && block.checked_add(count).is_some_and(|end| end <= self.sup.blocks)
    }

    fn page(&mut self, ptr: Ptr, level: u8) -> Result<Page, String> {
        let mut bytes = Vec::with_capacity(PAGE);
        for block in ptr.place().blocks() {
            if !self.inside(block, 1) {
                return Err(format!("index page at block {block}: outside the device"));
            }
            bytes.extend_from_slice(&(self.read)(block * BLOCK as u64, BLOCK)?);
        }
        Page::parse(Buf::from(bytes), ptr, level)
    }

    /// Walks the index from the root, in the order of keys.
    fn pages(&mut self) {
        let tree = self.sup.tree();
        self.report.pages = vec![0; usize::from(tree.levels)];
        let mut todo: Vec<(Ptr, u8)> = tree.root.map(|root| (root, tree.levels - 1)).into_iter().collect();
        while let Some((ptr, level)) = todo.pop() {
            let page = match self.page(ptr, level) {
                Ok(page) => page,
                Err(what) => {
                    self.damage(what);
                    continue;
                }
            };
            for block in ptr.place().blocks() {
                if !self.used.add(block) {
                    self.damage(format!("block {block}: two index pages claim it"));
                }
            }
            self.report.pages[usize::from(level)] += 1;
            self.report.page_bytes += page.used() as u64;
            self.step(2);
            if level > 0 {
                todo.extend((0..page.count()).rev().map(|i| (page.child(i), level - 1)));
                continue;
            }
            for i in 0..page.count() {
                let (key, value) = page.entry(i);
                if let Err(what) = self.entry(key, value) {
                    self.damage(format!("entry {i} of the index page at block {}: {what}", ptr.block));
                }
            }
        }
        if self.report.pages.iter().sum::<u64>() != tree.pages {
            let found: u64 = self.report.pages.iter().sum();
            self.damage(format!("the index has {found} pages, the superblock says {}", tree.pages));
        }
    }

    fn count(&mut self, name: &str, bytes: usize) {
        if let Some(kind) = self.report.entries.iter_mut().find(|e| e.0 == name) {
            kind.1 += 1;
            kind.2 += bytes as u64;
        }
    }

    fn entry(&mut self, key: &[u8], value: &[u8]) -> Result<(), String> {
        let size = key.len() + value.len();
        let id = || key::number(key, 1).ok_or_else(|| "its key is too short".to_owned());
        let Some(&tag) = key.first() else { return Err("it has no key".to_owned()) };
        if let Some(id) = key::id(key) {
            self.given(id)?;
        }
        if let Some((_, name)) = KINDS.iter().find(|(kind, _)| *kind == tag) {
            self.count(name, size);
        }
        match tag {
            b'B' => *self.blobs.entry(id()?).or_default() += value.len() as u64,
            b'F' => self.space(id()?, value)?,
            b'G' => drop(self.garbage.insert(id()?)),
            b'M' => {
                let len = self.cell(value)?;
                let omap = self.omaps.entry(id()?).or_default();
                omap.0 += 1;
                omap.1 += (key.len() - key::OMAP_KEY_AT) as u64 + len;
            }
            b'O' => self.object(key, value)?,
            b'R' => {
                for (block, extra) in decode_refs(value)? {
                    self.stored.insert(id()? * 64 + u64::from(block), extra.into());
                }
            }
            b'X' => self.part(id()?, key, value)?,
            other => return Err(format!("of unknown kind {other}")),
        }
        Ok(())
    }

    /// Nothing is looked for under ids that the superblock says are not given yet.
    fn given(&self, id: u64) -> Result<(), String> {
        let last = self.sup.next_id;
        if id <= last { Ok(()) } else { Err(format!("id {id} is not given yet, {last} is the last")) }
    }

    fn part(&mut self, id: u64, key: &[u8], value: &[u8]) -> Result<(), String> {
        self.parts.insert(id);
        let size = key.len() + value.len();
        match key.get(9) {
            Some(b'a') => self.count("xattrs", size),
            Some(b'd') => self.count("data in the index", size),
            Some(b'h') => self.count("omap headers", size),
            Some(b'e') => {
                self.count("extents", size);
                return self.extent(id, key, value);
            }
            _ => return Err("a part of an object of unknown kind".to_owned()),
        }
        self.cell(value).map(drop)
    }

    fn cell(&mut self, value: &[u8]) -> Result<u64, String> {
        let cell = Cell::parse(value).map_err(|_| "its value is of an unknown kind".to_owned())?;
        if let Cell::Blob(id, len) = cell {
            self.cells.insert(id, u64::from(len));
        }
        Ok(cell.len())
    }

    fn object(&mut self, key: &[u8], value: &[u8]) -> Result<(), String> {
        let object = key::parse_object(key).ok_or("the name of an object")?;
        let name = key::describe(&object);
        let onode: Onode = Reader::new(value).get().map_err(|e| format!("{name}: {e}"))?;
        self.given(onode.id.max(onode.omap)).map_err(|what| format!("{name}: {what}"))?;
        self.report.objects.0 += 1;
        self.report.objects.1 += onode.size;
        if !self.ids.insert(onode.id) {
            self.damage(format!("{name}: another object has its id {}", onode.id));
        }
        if onode.omap != 0 && self.owned.insert(onode.omap, (onode.omap_count, onode.omap_bytes)).is_some() {
            self.damage(format!("{name}: another object has its omap {}", onode.omap));
        }
        Ok(())
    }

    fn space(&mut self, chunk: u64, bits: &[u8]) -> Result<(), String> {
        let marked = marked_blocks(chunk, bits, self.sup.blocks);
        for block in marked.ok_or_else(|| "the map of blocks".to_owned())? {
            if !self.inside(block, 1) {
                return Err(format!("block {block} is outside the device"));
            }
            self.mapped.add(block);
        }
        Ok(())
    }

    fn extent(&mut self, id: u64, key: &[u8], value: &[u8]) -> Result<(), String> {
        let extent = decode_extent(key, value).ok_or_else(|| format!("an extent of object id {id}"))?;
        let count = extent.crcs.len() as u64;
        if !self.inside(extent.place, count) {
            return Err(format!("an extent of object id {id} outside the device"));
        }
        for block in extent.place..extent.place + count {
            if self.used.add(block) {
                self.report.blocks.0 += 1;
            } else {
                *self.extra.entry(block).or_default() += 1;
                self.report.blocks.1 += 1;
                if !extent.shared {
                    self.damage(format!("block {block}: in use twice, and object id {id} does not say so"));
                }
            }
        }
        if self.depth == Depth::Data {
            self.extents.push((extent.place, id, extent.block, extent.crcs));
        }
        Ok(())
    }

    /// Compares what must agree.
    fn compare(&mut self) {
        let first = self.sup.first_block();
        let pages = self.report.pages.iter().sum::<u64>() * 2;
        self.report.free = (self.sup.blocks - first).saturating_sub(pages + self.report.blocks.0);
        let whole = self.report.damage.is_empty();
        if !whole {
            // What hangs on damaged pages would be reported once more, as missing.
            return;
        }
        let mapped = self.mapped.0.iter().map(|w| u64::from(w.count_ones())).sum::<u64>();
        if mapped != self.report.blocks.0 {
            self.damage(format!("{mapped} blocks are marked as in use, {} are", self.report.blocks.0));
        }
        let wrong: Vec<u64> =
            (first..self.sup.blocks).filter(|b| self.mapped.has(*b) && !self.used.has(*b)).collect();
        wrong
            .into_iter()
            .for_each(|block| self.damage(format!("block {block}: marked as in use, and nobody's")));
        if self.extra != self.stored {
            let differs = |block: &&u64| self.extra.get(block) != self.stored.get(block);
            let blocks: BTreeSet<u64> =
                self.extra.keys().chain(self.stored.keys()).filter(differs).copied().collect();
            for block in blocks {
                let (is, says) = (self.extra.get(&block).copied(), self.stored.get(&block).copied());
                self.damage(format!("block {block}: {is:?} further references, {says:?} are counted"));
            }
        }
        for id in self.parts.difference(&self.ids).copied().collect::<Vec<_>>() {
            if self.garbage.contains(&id) {
                continue;
            }
            self.damage(format!("object id {id}: it has parts but no name"));
        }
        if self.cells != self.blobs {
            self.damage("blobs and the values that refer to them differ");
        }
        self.compare_omaps();
        let totals = self.sup.stats();
        if (totals.objects, totals.data) != self.report.objects {
            let (objects, data) = self.report.objects;
            self.damage(format!(
                "{objects} objects of {data} bytes, the superblock says {} of {}",
                totals.objects, totals.data
            ));
        }
    }

    fn compare_omaps(&mut self) {
        let empty = |counts: &(u64, u64)| counts.0 == 0;
        let owned: BTreeMap<_, _> = self.owned.iter().filter(|o| !empty(o.1)).map(|o| (*o.0, *o.1)).collect();
        let found: BTreeMap<_, _> =
            self.omaps.iter().filter(|o| !self.garbage.contains(o.0)).map(|o| (*o.0, *o.1)).collect();
        let ids: BTreeSet<u64> = owned.keys().chain(found.keys()).copied().collect();
        for id in ids {
            if owned.get(&id) != found.get(&id) {
                let (says, is) = (owned.get(&id), found.get(&id));
                self.damage(format!("omap {id}: entries and bytes are {is:?}, its object says {says:?}"));
            }
        }
    }

    /// Reads all data and compares checksums.
    fn data(&mut self) {
        let mut extents = std::mem::take(&mut self.extents);
        extents.sort();
        for (place, id, block, crcs) in extents {
            let read = (self.read)(place * BLOCK as u64, crcs.len() * BLOCK);
            self.step(crcs.len() as u64);
            let bytes = match read {
                Ok(bytes) => bytes,
                Err(error) => {
                    self.damaged.entry(id).or_default().push(error);
                    continue;
                }
            };
            self.report.compared += crcs.len() as u64;
            for (i, ((is, _), crc)) in bytes.block_crcs().zip(&crcs).enumerate() {
                if is != *crc {
                    let at = (block + i as u64) * BLOCK as u64;
                    let text =
                        format!("data at byte {at} (block {}): checksum does not match", place + i as u64);
                    self.damaged.entry(id).or_default().push(text);
                }
            }
        }
    }

    /// Finds the names of objects that damage was found in.
    fn name_the_damaged(&mut self) {
        let damaged = std::mem::take(&mut self.damaged);
        if damaged.is_empty() {
            return;
        }
        let mut names: BTreeMap<u64, ObjectKey> = BTreeMap::new();
        let tree = self.sup.tree();
        let mut todo: Vec<(Ptr, u8)> = tree.root.map(|root| (root, tree.levels - 1)).into_iter().collect();
        while let Some((ptr, level)) = todo.pop() {
            let Ok(page) = self.page(ptr, level) else { continue };
            for i in 0..page.count() {
                let (key, value) = page.entry(i);
                if level > 0 {
                    todo.push((page.child(i), level - 1));
                } else if let (Some(object), Ok(onode)) =
                    (key::parse_object(key), Reader::new(value).get::<Onode>())
                    && damaged.contains_key(&onode.id)
                {
                    names.insert(onode.id, object);
                }
            }
        }
        for (id, findings) in damaged {
            let name = names.get(&id).map_or(format!("object id {id}"), key::describe);
            findings.into_iter().for_each(|what| self.damage(format!("{name}, {what}")));
        }
    }
}
