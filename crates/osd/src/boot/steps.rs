//! The steps of a start.

use crate::completion::{CommitFor, ReadFor};
use crate::osd::Osd;
use crate::pg::Pg;
use crate::pg::meta::{Loader, META_POOL, TEMP_POOL, meta_key, meta_pgid};
use crate::removal::Removal;
use crate::superblock::{SUPER_POOL, SUPERBLOCK, SUPERBLOCK_KEY, Superblock, map_key};
use maps::{Epoch, OsdMap, Spg};
use node::Level;
use store::{MkfsInfo, ObjectKey, ObjectView, OmapRange, Read, ReadReply, Transaction, TxnOp};
use wire::Reader;

/// Entries and bytes of one page of a PG's records.
const PAGE: (usize, usize) = (2000, 1 << 20);
/// Keys listed at once.
const LIST: usize = 4096;

impl Osd {
    fn label(&self) -> Vec<u8> {
        format!("osd.{} of cluster {}", self.core.id(), self.core.config().fsid).into_bytes()
    }

    pub(crate) fn open_store(&mut self) {
        let mkfs = MkfsInfo { uuid: self.core.config().uuid, label: self.label() };
        self.core.open_store(mkfs);
        if self.core.config().credentials.key.is_none() {
            self.publish_keys(None);
        }
    }

    /// The store is open: checks that it is ours, and reads the superblock.
    pub(crate) fn store_opened(&mut self) {
        let found = self.core.store().identity();
        let (label, uuid) = (self.label(), self.core.config().uuid);
        if found.label != label || found.uuid != uuid {
            return self.stop(format!(
                "the device holds the store {} ({}), and this is {} with store {uuid}: give it its own device",
                found.uuid,
                String::from_utf8_lossy(&found.label),
                String::from_utf8_lossy(&label),
            ));
        }
        let key = ObjectKey::private(SUPER_POOL, SUPERBLOCK);
        let keys = vec![SUPERBLOCK_KEY.to_vec()];
        let read = Read::Object {
            key,
            attrs: false,
            data: vec![],
            omap_header: false,
            omap_keys: keys,
            omap_range: None,
        };
        self.core.read(read, ReadFor::Superblock);
    }

    /// Handles a completed read of the start.
    pub(crate) fn boot_read(&mut self, what: ReadFor, reply: ReadReply) {
        match (what, reply) {
            (ReadFor::Superblock, ReadReply::Object(view)) => self.superblock_read(view),
            (ReadFor::Map(epoch), ReadReply::Object(view)) => self.map_read(epoch, view),
            (ReadFor::Pgs, ReadReply::List(keys)) => {
                // A page begins with the last key of the previous one.
                let new = keys.iter().filter_map(meta_pgid);
                let known = self.boot.to_load.back().copied();
                self.boot.to_load.extend(new.filter(|pgid| Some(*pgid) != known));
                match keys.last() {
                    Some(last) if keys.len() == LIST => self.list_from(last.clone(), ReadFor::Pgs),
                    _ => self.load_next_pg(None),
                }
            }
            (ReadFor::PgMeta(pgid), ReadReply::Object(view)) => self.pg_page(pgid, view.unwrap_or_default()),
            (ReadFor::Temps, ReadReply::List(keys)) => {
                let more = keys.len() == LIST;
                let ops = keys.into_iter().map(TxnOp::Remove).collect();
                self.core.submit_own(Transaction { ops }, CommitFor::Nothing);
                match more {
                    true => self.list_private(TEMP_POOL, ReadFor::Temps),
                    false => self.run(),
                }
            }
            (what, _) => self.stop(format!("the store gave another answer than asked for ({what:?})")),
        }
    }

    fn superblock_read(&mut self, view: Option<ObjectView>) {
        let stored = view.and_then(|v| v.omap_values.into_iter().next());
        let config = &self.core.config();
        let fresh =
            Superblock { fsid: config.fsid, id: config.id.0, uuid: config.uuid, ..Superblock::default() };
        let superblock = match stored {
            None => fresh,
            Some((_, bytes)) => match Reader::new(&bytes).get::<Superblock>() {
                Ok(superblock) => superblock,
                Err(error) => {
                    return self.stop(format!("the superblock can not be read: {}", error.of_stored()));
                }
            },
        };
        let (levels, whose) = (config.options.levels, format!("osd.{}", config.id));
        if let Some(why) = levels.refusal_of_store(&whose, superblock.feature_level) {
            return self.stop(why);
        }
        let newest = superblock.newest;
        self.maps.load(superblock);
        if newest == Epoch(0) {
            return self.run();
        }
        let data = vec![(0, u64::from(u32::MAX))];
        let read = Read::Object {
            key: map_key(newest),
            attrs: false,
            data,
            omap_header: false,
            omap_keys: vec![],
            omap_range: None,
        };
        self.core.read(read, ReadFor::Map(newest));
    }

    fn map_read(&mut self, epoch: Epoch, view: Option<ObjectView>) {
        let bytes = view.and_then(|v| v.data.into_iter().next()).unwrap_or_default().to_buf();
        match Reader::new(&bytes).get::<OsdMap>() {
            Ok(map) if map.epoch == epoch => self.core.load_map(map),
            Ok(map) => return self.stop(format!("stored map {epoch} says that it is {}", map.epoch)),
            Err(error) => {
                return self.stop(format!("stored map {epoch} can not be read: {}", error.of_stored()));
            }
        }
        self.list_private(META_POOL, ReadFor::Pgs);
    }

    fn list_private(&mut self, pool: i64, then: ReadFor) {
        self.list_from(ObjectKey::first_at(pool, i8::MIN, 0), then);
    }

    /// Lists the objects of a private pool, a page of them.
    fn list_from(&mut self, from: ObjectKey, then: ReadFor) {
        let to = ObjectKey::first_at(from.pool + 1, i8::MIN, 0);
        self.core.read(Read::List { from, to, max: LIST }, then);
    }

    fn load_next_pg(&mut self, done: Option<Spg>) {
        if let Some(loader) = done.and_then(|pgid| Some((pgid, self.boot.loading.remove(&pgid)?))) {
            self.pg_loaded(loader.0, loader.1);
        }
        match self.boot.to_load.pop_front() {
            Some(pgid) => {
                self.boot.loading.insert(pgid, Loader::default());
                self.read_pg_page(pgid, None);
            }
            None => self.list_private(TEMP_POOL, ReadFor::Temps),
        }
    }

    fn read_pg_page(&mut self, pgid: Spg, after: Option<Vec<u8>>) {
        let range = OmapRange { after, prefix: Vec::new(), max: PAGE.0, max_bytes: PAGE.1 };
        let read = Read::Object {
            key: meta_key(pgid),
            attrs: false,
            data: Vec::new(),
            omap_header: false,
            omap_keys: Vec::new(),
            omap_range: Some(range),
        };
        self.core.read(read, ReadFor::PgMeta(pgid));
    }

    fn pg_page(&mut self, pgid: Spg, view: ObjectView) {
        let Some(loader) = self.boot.loading.get_mut(&pgid) else { return };
        for (key, value) in &view.omap_entries {
            if let Err(error) = loader.take(key, value) {
                let why = error.of_stored();
                return self.stop(format!("pg {pgid}: its records can not be read: {why}"));
            }
        }
        match view.omap_entries.last() {
            Some((last, _)) if view.omap_more => self.read_pg_page(pgid, Some(last.clone())),
            _ => self.load_next_pg(Some(pgid)),
        }
    }

    fn pg_loaded(&mut self, pgid: Spg, loader: Loader) {
        let Some(pool) = self.core.map().pools.get(&pgid.pgid.pool) else {
            self.removals.begin(pgid, Removal::whole_pool_part(pgid));
            return;
        };
        if loader.importing {
            return self.stop(format!(
                "pg {pgid} is only partly here: its import was begun and has not ended. Import it again (`nacre store import`), or \
                 remove what there is (`nacre store remove`)"
            ));
        }
        let stored = loader.finish();
        if pgid.pgid.seed >= pool.pg_num && stored.pg_num_before.is_none() {
            let (n, epoch) = (pool.pg_num, self.core.epoch());
            return self.stop(format!(
                "pg {pgid} is here, its pool has {n} PGs by map {epoch}, and no merge was begun: the store is damaged"
            ));
        }
        let pg = Pg::from_disk(&self.core, pgid, pool.pg_num, stored);
        self.pgs.add(pg);
    }

    /// Ends the start: everything is loaded, so the session to the monitors begins.
    fn run(&mut self) {
        self.boot.running = true;
        self.split_pgs();
        self.merge_pgs();
        self.core.event(
            Level::Info,
            "store_opened",
            format!("{} PGs, map {}", self.pgs.len(), self.core.epoch()),
        );
        self.removals.ids().into_iter().for_each(|pgid| self.removal_step(pgid));
        self.mon.begin(self.core.now(), self.core.epoch());
        self.heartbeats.begin(self.core.now().mono);
        self.report_later();
    }
}
