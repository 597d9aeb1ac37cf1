//! The store of a stopped OSD, for tools.

use super::pg_file::Pairs;
use super::probe::{self, device_of};
use super::store_driver::Driven;
use anyhow::{Context, Result, anyhow, bail};
use maps::{Epoch, OsdMap, Spg};
use node::DiskId;
use osd::offline::{self, Owner};
use runtime::{Access, DiskOpenError, DiskPool, DiskSpec};
use std::path::Path;
use store::{Config, ObjectKey, ObjectView, OmapRange, Read, ReadReply, Refusal, Transaction, TxnOp};
use wire::Reader;

/// The size of a read of data or of an omap, in bytes.
pub(super) const PIECE: u64 = 1 << 20;
/// The number of objects that are listed at once.
const LIST: usize = 1000;
/// The largest number of transactions that are not durable yet.
const UNDER_WAY: u64 = 32;

/// The store of a stopped OSD.
pub(super) struct Local(Driven);

impl Local {
    pub(super) fn open(target: &Path) -> Result<Self> {
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

    /// Submits a transaction, and waits until at most `left` are not durable.
    fn submit_until(&mut self, ops: Vec<TxnOp>, left: u64) -> Result<()> {
        match self.0.submit(Transaction { ops })? {
            Ok(id) => self.0.wait(id, left),
            Err(Refusal::NoSpace) => bail!("the device is full"),
            Err(Refusal::TooLarge) => bail!("it is larger than a transaction of this store may be"),
            Err(refusal) => bail!("the store refuses: {refusal:?}"),
        }
    }

    /// Submits a transaction.
    pub(super) fn submit(&mut self, ops: Vec<TxnOp>) -> Result<()> {
        self.submit_until(ops, UNDER_WAY)
    }

    /// Submits a transaction, and waits until it and all before are durable.
    pub(super) fn commit(&mut self, ops: Vec<TxnOp>) -> Result<()> {
        self.submit_until(ops, 0)
    }

    /// Shuts the store down.
    pub(super) fn close(&mut self) -> Result<()> {
        self.0.close()
    }

    /// The number of objects of a PG.
    pub(super) fn count(&mut self, pgid: Spg, epoch: Epoch) -> Result<u64> {
        let (pg_num, mut count) = (self.pg_num(pgid, epoch)?, 0);
        self.each_page(pgid, pg_num, |_, keys| {
            count += keys.len() as u64;
            Ok(())
        })?;
        Ok(count)
    }

    /// Removes all objects of a PG. Returns their number. The index of clones may keep entries that lead
    /// nowhere.
    pub(super) fn clear(&mut self, pgid: Spg, epoch: Epoch) -> Result<u64> {
        let (pg_num, mut count) = (self.pg_num(pgid, epoch)?, 0);
        self.each_page(pgid, pg_num, |local, keys| {
            count += keys.len() as u64;
            keys.chunks(100)
                .try_for_each(|few| local.submit(few.iter().cloned().map(TxnOp::Remove).collect()))
        })?;
        self.commit(Vec::new())?;
        Ok(count)
    }

    /// Visits a PG's objects in order, a page at a time.
    pub(super) fn each_page(
        &mut self,
        pgid: Spg,
        pg_num: u32,
        mut take: impl FnMut(&mut Self, &[ObjectKey]) -> Result<()>,
    ) -> Result<()> {
        let (mut from, to) = offline::range_of(pgid, pg_num);
        let mut last = None;
        loop {
            let mut keys = self.list(from.clone(), to.clone(), LIST)?;
            let more = keys.len() == LIST;
            keys.retain(|key| Some(key) != last.as_ref());
            take(self, &keys)?;
            if let Some(key) = keys.pop() {
                (from, last) = (key.clone(), Some(key));
            }
            if !more {
                return Ok(());
            }
        }
    }

    pub(super) fn list(&mut self, from: ObjectKey, to: ObjectKey, max: usize) -> Result<Vec<ObjectKey>> {
        match self.read(Read::List { from, to, max })? {
            ReadReply::List(keys) => Ok(keys),
            _ => bail!("the store gave another answer than asked for"),
        }
    }

    pub(super) fn object(
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

    /// The whole omap of an object; `None` if there is no such object.
    pub(super) fn omap(&mut self, key: &ObjectKey) -> Result<Option<Pairs>> {
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

    pub(super) fn owner(&mut self) -> Result<Owner> {
        let (key, name) = Owner::place();
        let found = self.omap(&key)?.unwrap_or_default().into_iter().find(|(key, _)| *key == name);
        let (_, value) = found.context("it is no store of an OSD that was started once")?;
        Owner::parse(&value).context("the OSD's own record")
    }

    pub(super) fn pgs(&mut self) -> Result<Vec<Spg>> {
        let (from, to) = offline::all_records();
        Ok(self.list(from, to, usize::MAX)?.iter().filter_map(offline::pg_of_records).collect())
    }

    pub(super) fn map(&mut self, epoch: Epoch) -> Result<OsdMap> {
        let view = self.object(&offline::map_object(epoch), vec![(0, u64::MAX)], None)?;
        let view = view.with_context(|| format!("map {epoch} is not in the store"))?;
        let bytes = view.data.first().map(stdx::Bufs::to_vec).unwrap_or_default();
        Reader::new(&bytes).get().with_context(|| format!("map {epoch}"))
    }

    pub(super) fn pg_num(&mut self, pgid: Spg, epoch: Epoch) -> Result<u32> {
        let map = self.map(epoch)?;
        let pool = map.pools.get(&pgid.pgid.pool).filter(|pool| pgid.pgid.seed < pool.pg_num);
        Ok(pool.with_context(|| format!("there is no PG {pgid} in map {epoch}"))?.pg_num)
    }
}
