//! `nacre store export|import`: a copy of a PG, out of the store of an OSD that is stopped and into that of another.

use super::pg_file::{Head, Item, Object, Pairs, PgReader, PgWriter};
use super::store_driver::Driven;
use super::{probe, store::device_of};
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use maps::{Epoch, OsdMap, PgId};
use node::DiskId;
use osd::offline::{self, Owner};
use runtime::{Access, DiskOpenError, DiskPool, DiskSpec};
use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};
use store::{Config, ObjectKey, ObjectView, OmapRange, Read, ReadReply, Refusal, Transaction, TxnOp};
use wire::Reader;

#[derive(Args)]
pub(crate) struct ExportArgs {
    /// A file, a partition, a disk, or the directory of an OSD, which must be stopped.
    target: PathBuf,
    /// Which PG: `1.2f`.
    #[arg(long)]
    pg: String,
    /// The file to be made.
    file: PathBuf,
}

#[derive(Args)]
pub(crate) struct ImportArgs {
    /// A file, a partition, a disk, or the directory of an OSD, which must be stopped.
    target: PathBuf,
    /// What `nacre store export` has made.
    file: PathBuf,
}

/// Bytes of data, or of an omap, that are read and written at once.
const PIECE: u64 = 1 << 20;
/// Bytes of an omap that are written at once: a store with a small log takes no more in one transaction.
const OMAP_BYTES: usize = 64 << 10;
/// Objects listed at once.
const LIST: usize = 1000;

pub(crate) fn export(args: &ExportArgs) -> Result<()> {
    let pgid = PgId::parse(&args.pg)
        .with_context(|| format!("`{}` is no PG: give POOL.NUMBER as in 1.2f", args.pg))?;
    if args.file.exists() {
        bail!("cannot create {}: it is there already", args.file.display());
    }
    let mut local = Local::open(&args.target)?;
    let owner = local.owner()?;
    let Some(records) = local.omap(&offline::records_of(pgid))? else {
        let held: Vec<String> = local.pgs()?.iter().map(ToString::to_string).collect();
        bail!("osd.{} has no PG {pgid}; it has {}", owner.osd, held.join(" "));
    };
    let pg_num = local.pg_num(pgid, owner.newest)?;
    let part = args.file.with_extension("part");
    let file = File::options().write(true).create_new(true).open(&part);
    let file = file.with_context(|| format!("cannot create {}", part.display()))?;
    let result = (|| {
        let mut out = PgWriter::new(BufWriter::new(&file))?;
        out.put(&Item::Head(Head { fsid: owner.fsid, pgid, pg_num, osd: owner.osd, epoch: owner.newest }))?;
        out.put(&Item::Records(records))?;
        let (mut from, to) = offline::range_of(pgid, pg_num);
        let mut last = None;
        loop {
            let keys = local.list(from.clone(), to.clone(), LIST)?;
            let more = keys.len() == LIST;
            for key in keys.into_iter().filter(|key| Some(key) != last.as_ref()).collect::<Vec<_>>() {
                local.export_object(&key, &mut out)?;
                (from, last) = (key.clone(), Some(key));
            }
            if !more {
                break;
            }
        }
        let (_, objects) = out.finish()?;
        file.sync_all()?;
        std::fs::rename(&part, &args.file)
            .with_context(|| format!("cannot create {}", args.file.display()))?;
        let dir = args.file.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(dir)?.sync_all()?;
        anyhow::Ok(objects)
    })();
    if result.is_err() {
        // What is not whole is of no use.
        let _ = std::fs::remove_file(&part);
    }
    println!("PG {pgid} of osd.{}, as of map {}: {} objects", owner.osd, owner.newest, result?);
    Ok(())
}

pub(crate) fn import(args: &ImportArgs) -> Result<()> {
    let named = || args.file.display().to_string();
    let reader = || -> Result<_> {
        let file = File::open(&args.file).with_context(|| format!("cannot open {}", named()))?;
        PgReader::new(BufReader::new(file)).with_context(named)
    };
    // All of it is looked at before anything is changed.
    let mut whole = reader()?;
    while whole.next().with_context(named)?.is_some() {}
    let mut input = reader()?;
    let (Some(Item::Head(head)), Some(Item::Records(mut records))) =
        (input.next().with_context(named)?, input.next().with_context(named)?)
    else {
        bail!("{}: it does not begin as an export", named());
    };
    let mut local = Local::open(&args.target)?;
    let owner = local.owner()?;
    let (pgid, to) = (head.pgid, format!("osd.{}", owner.osd));
    if owner.fsid != head.fsid {
        bail!("{} is of cluster {}, {to} of {}", named(), head.fsid, owner.fsid);
    }
    if local.omap(&offline::records_of(pgid))?.is_some() {
        bail!("{to} has a copy of PG {pgid} already: nothing was changed");
    }
    if owner.newest < head.epoch {
        bail!(
            "{to} knows maps up to {} and the export those up to {}: start {to} once, stop it, and try again",
            owner.newest,
            head.epoch
        );
    }
    if local.pg_num(pgid, owner.newest)? != head.pg_num {
        bail!(
            "the pool of PG {pgid} had {} PGs when it was exported, and has another number now",
            head.pg_num
        );
    }
    let range = offline::range_of(pgid, head.pg_num);
    if let Some(key) = local.list(range.0, range.1, 1)?.first() {
        let name = String::from_utf8_lossy(&key.name).into_owned();
        bail!("{to} has no PG {pgid} but objects of it, `{name}` is the first: nothing was changed");
    }
    if owner.oldest > head.epoch {
        bail!("{to} knows maps from {} on, the export ends with {}: it is too old", owner.oldest, head.epoch);
    }
    let maps = (head.epoch.0..=owner.newest.0).map(|e| local.map(Epoch(e))).collect::<Result<Vec<_>>>()?;
    offline::carry_on(pgid, &mut records, &maps).map_err(|e| anyhow!("{}: PG {pgid}: {e}", named()))?;
    let mut last = Vec::new();
    let (mut object, mut objects) = (None, 0);
    while let Some(item) = input.next().with_context(named)? {
        objects += usize::from(matches!(item, Item::Object(_)));
        local.import_item(item, &mut object, &mut last)?;
    }
    // They get their names, and the OSD its knowledge of them, at once or not at all.
    last.push(TxnOp::OmapSet(offline::records_of(pgid), records));
    local.commit(last).context("nothing was changed")?;
    local.0.close()?;
    println!("PG {pgid} of osd.{} is at {to} now: {objects} objects", head.osd);
    Ok(())
}

/// The store of an OSD that is stopped.
struct Local(Driven);

impl Local {
    fn open(target: &Path) -> Result<Self> {
        let path = device_of(target);
        let spec =
            DiskSpec { path: path.clone(), id: DiskId(0), create_size: None, access: Access::default() };
        let disk = runtime::open_disk(&spec, &DiskPool::new(1)).map_err(|error| match error {
            DiskOpenError::Locked(path) => anyhow!("{}: stop that one first", probe::held(&path)),
            error => error.into(),
        })?;
        let config = Config { discard_after: None, ..Config::default() };
        let driven = Driven::open(disk, config, runtime::rng(), None);
        Ok(Self(driven.with_context(|| path.display().to_string())?))
    }

    fn read(&mut self, read: Read) -> Result<ReadReply> {
        self.0.ask(read)?;
        loop {
            if let Some((_, answer)) = self.0.answers.pop_front() {
                return Ok(answer);
            }
            self.0.step()?;
        }
    }

    fn commit(&mut self, ops: Vec<TxnOp>) -> Result<()> {
        match self.0.submit(Transaction { ops })? {
            Ok(id) => self.0.wait(id, 0),
            Err(Refusal::NoSpace) => bail!("the device is full"),
            Err(Refusal::TooLarge) => {
                bail!("it is larger than a transaction of this store may be")
            }
            Err(refusal) => bail!("the store refuses: {refusal:?}"),
        }
    }

    fn list(&mut self, from: ObjectKey, to: ObjectKey, max: usize) -> Result<Vec<ObjectKey>> {
        match self.read(Read::List { from, to, max })? {
            ReadReply::List(keys) => Ok(keys),
            _ => bail!("the store gave another answer than asked for"),
        }
    }

    fn object(
        &mut self,
        key: &ObjectKey,
        data: Vec<(u64, u64)>,
        after: Option<Vec<u8>>,
    ) -> Result<Option<ObjectView>> {
        let range = OmapRange { after, max: usize::MAX, max_bytes: PIECE as usize, ..OmapRange::default() };
        let read = Read::Object {
            key: key.clone(),
            attrs: true,
            data,
            omap_header: true,
            omap_keys: Vec::new(),
            omap_range: Some(range),
        };
        match self.read(read)? {
            ReadReply::Object(view) => Ok(view),
            _ => bail!("the store gave another answer than asked for"),
        }
    }

    /// The whole omap of an object; `None` where there is no such object.
    fn omap(&mut self, key: &ObjectKey) -> Result<Option<Pairs>> {
        let mut out = Pairs::new();
        let mut after = None;
        loop {
            let Some(view) = self.object(key, Vec::new(), after)? else { return Ok(None) };
            out.extend(view.omap_entries);
            if !view.omap_more {
                return Ok(Some(out));
            }
            after = out.last().map(|(key, _)| key.clone());
        }
    }

    fn owner(&mut self) -> Result<Owner> {
        let (key, name) = Owner::place();
        let found = self.omap(&key)?.unwrap_or_default().into_iter().find(|(key, _)| *key == name);
        let (_, value) = found.context("it is no store of an OSD that was started once")?;
        Owner::parse(&value).context("the OSD's own record")
    }

    fn pgs(&mut self) -> Result<Vec<PgId>> {
        let (from, to) = offline::all_records();
        Ok(self.list(from, to, usize::MAX)?.iter().filter_map(offline::pg_of_records).collect())
    }

    fn map(&mut self, epoch: Epoch) -> Result<OsdMap> {
        let view = self.object(&offline::map_object(epoch), vec![(0, u64::MAX)], None)?;
        let view = view.with_context(|| format!("map {epoch} is not in the store"))?;
        let bytes = view.data.first().map(stdx::Bufs::to_vec).unwrap_or_default();
        Reader::new(&bytes).get().with_context(|| format!("map {epoch}"))
    }

    fn pg_num(&mut self, pgid: PgId, epoch: Epoch) -> Result<u32> {
        let map = self.map(epoch)?;
        let pool = map.pools.get(&pgid.pool).filter(|pool| pgid.seed < pool.pg_num);
        Ok(pool.with_context(|| format!("there is no PG {pgid} in map {epoch}"))?.pg_num)
    }

    fn export_object<W: std::io::Write>(&mut self, key: &ObjectKey, out: &mut PgWriter<W>) -> Result<()> {
        let gone = || anyhow!("an object that was listed is gone");
        let view = self.object(key, Vec::new(), None)?.ok_or_else(gone)?;
        let (size, mut entries, mut more) = (view.size, view.omap_entries, view.omap_more);
        out.put(&Item::Object(Object {
            key: key.clone(),
            size,
            attrs: view.attrs,
            header: view.omap_header,
        }))?;
        let mut at = 0;
        while at < size {
            let len = PIECE.min(size - at);
            let view = self.object(key, vec![(at, len)], None)?.ok_or_else(gone)?;
            let bytes = view.data.first().map(stdx::Bufs::to_vec).unwrap_or_default();
            if bytes.len() as u64 != len {
                bail!("an object of {size} bytes gave {} at {at}", bytes.len());
            }
            if bytes.iter().any(|byte| *byte != 0) {
                out.put(&Item::Data(at, bytes))?;
            }
            at += len;
        }
        while !entries.is_empty() {
            let after = entries.last().map(|(key, _)| key.clone());
            out.put(&Item::Omap(std::mem::take(&mut entries)))?;
            if more {
                let view = self.object(key, Vec::new(), after)?.ok_or_else(gone)?;
                (entries, more) = (view.omap_entries, view.omap_more);
            }
        }
        Ok(())
    }

    /// Puts a part of an object where it waits for the rest; `last` gets the step that names it.
    fn import_item(
        &mut self,
        item: Item,
        object: &mut Option<ObjectKey>,
        last: &mut Vec<TxnOp>,
    ) -> Result<()> {
        let order = || anyhow!("records are not in order");
        match item {
            Item::Object(Object { key, size, attrs, header }) => {
                let temp = offline::temporary(&key);
                last.extend(offline::index_of(&key, &attrs));
                let mut ops = vec![TxnOp::Remove(temp.clone()), TxnOp::Touch(temp.clone())];
                ops.push(TxnOp::Truncate(temp.clone(), size));
                ops.extend(attrs.into_iter().map(|(name, value)| TxnOp::SetAttr(temp.clone(), name, value)));
                if !header.is_empty() {
                    ops.push(TxnOp::OmapSetHeader(temp.clone(), header));
                }
                last.push(TxnOp::Rename(temp.clone(), key));
                *object = Some(temp);
                self.commit(ops)
            }
            Item::Data(offset, bytes) => {
                let key = object.clone().ok_or_else(order)?;
                self.commit(vec![TxnOp::Write(key, offset, bytes.into())])
            }
            Item::Omap(pairs) => {
                let key = object.clone().ok_or_else(order)?;
                let mut rest = &pairs[..];
                while !rest.is_empty() {
                    let mut bytes = 0;
                    let few = rest.iter().take_while(|(key, value)| {
                        bytes += key.len() + value.len();
                        bytes <= OMAP_BYTES
                    });
                    let (now, later) = rest.split_at(few.count().max(1));
                    self.commit(vec![TxnOp::OmapSet(key.clone(), now.to_vec())])?;
                    rest = later;
                }
                Ok(())
            }
            Item::End(_) => Ok(()),
            Item::Head(_) | Item::Records(_) => Err(order()),
        }
    }
}
