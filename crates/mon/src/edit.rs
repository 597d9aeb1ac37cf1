//! A change being prepared: handlers read the proposed state and describe the next one. Nothing takes effect
//! before the log has committed it.

use crate::config::MonConfig;
use crate::entry::Change;
use crate::export_targets;
use crate::options::FromOption;
use crate::state::State;
use crate::view::View;
use crush::CrushMap;
use maps::{FsMap, Fscid, NacreMap, OsdMap, OsdMapIncremental, Pool};
use stdx::{Now, Rng};
use wire::{Utime, Writer};

/// Maximum bytes of a name that is part of a stored key.
const NAME: usize = 1024;

/// Working context of handlers that change the state.
pub struct Edit<'a> {
    /// The state with everything proposed so far.
    pub base: &'a State,
    /// The same state together with this monitor's volatile knowledge.
    pub view: View<'a>,
    /// This monitor's configuration.
    pub config: &'a MonConfig,
    /// The time of the decision.
    pub now: Now,
    /// Randomness for new keys.
    pub rng: &'a mut Rng,
    changes: Vec<Change>,
    osd: Option<(Box<OsdMapIncremental>, NacreMap)>,
    /// CRUSH map of the next OSD map, if it changes; encoded once, at the end.
    crush: Option<Box<CrushMap>>,
    fs: Option<Box<FsMap>>,
    /// Lines for the cluster log, written when the change is committed.
    pub notes: Vec<String>,
}

impl<'a> Edit<'a> {
    /// An edit that changes nothing yet.
    pub fn new(view: View<'a>, rng: &'a mut Rng) -> Self {
        Self {
            base: view.state,
            view,
            config: view.config,
            now: view.now,
            rng,
            changes: Vec::new(),
            osd: None,
            crush: None,
            fs: None,
            notes: Vec::new(),
        }
    }

    /// Timestamp for anything created by this edit.
    pub fn stamp(&self) -> Utime {
        self.now.wall.into()
    }

    /// The OSD map that the edit starts from.
    pub fn osdmap(&self) -> &'a OsdMap {
        self.base.osdmap()
    }

    /// An option as it applies to monitors.
    pub fn option<T: FromOption>(&self, name: &str) -> T {
        self.view.option(name)
    }

    /// Adds a change other than a new map.
    pub fn push(&mut self, change: Change) {
        self.changes.push(change);
    }

    /// The incremental that makes the next OSD map.
    pub fn osd(&mut self) -> &mut OsdMapIncremental {
        &mut self.osd_and_nacre().0
    }

    /// Nacre's own map that accompanies the next OSD map.
    pub fn nacre(&mut self) -> &mut NacreMap {
        &mut self.osd_and_nacre().1
    }

    /// The servers' own map with all changes decided so far.
    pub fn nacre_now(&self) -> &NacreMap {
        self.osd.as_ref().map_or(&**self.base.osd.nacre(), |(_, nacre)| nacre)
    }

    fn osd_and_nacre(&mut self) -> &mut (Box<OsdMapIncremental>, NacreMap) {
        let (map, nacre, modified) = (self.base.osdmap(), self.base.osd.nacre(), self.now.wall.into());
        self.osd.get_or_insert_with(|| {
            let inc = OsdMapIncremental {
                fsid: map.fsid,
                epoch: map.epoch.next(),
                modified,
                ..OsdMapIncremental::default()
            };
            (Box::new(inc), (**nacre).clone())
        })
    }

    /// A copy of the next OSD map's CRUSH map as decided so far, to be changed.
    pub fn crush(&self) -> CrushMap {
        self.crush_now().clone()
    }

    /// The next OSD map's CRUSH map as decided so far, to be read.
    pub fn crush_now(&self) -> &CrushMap {
        self.crush.as_deref().unwrap_or(&self.base.osdmap().crush)
    }

    /// Replaces the CRUSH map.
    pub fn set_crush(&mut self, crush: CrushMap) {
        self.osd();
        self.crush = Some(Box::new(crush));
    }

    /// A pool of the next OSD map, to be changed. Panics if there is no such pool.
    pub fn pool(&mut self, id: i64) -> &mut Pool {
        let old = self.base.osdmap().pools.get(&id);
        let epoch = self.base.osdmap().epoch.next();
        let pool = self.osd().new_pools.entry(id).or_insert_with(|| old.expect("the pool exists").clone());
        pool.last_change = epoch;
        pool
    }

    /// The next map of file systems, to be changed.
    pub fn fsmap(&mut self) -> &mut FsMap {
        let base = &self.base.fsmap;
        self.fs.get_or_insert_with(|| {
            let mut next = (**base).clone();
            next.epoch = base.epoch.next();
            Box::new(next)
        })
    }

    /// The map of file systems as decided so far.
    pub fn fsmap_now(&self) -> &FsMap {
        self.fs.as_deref().unwrap_or(&self.base.fsmap)
    }

    /// A file system of the next map, to be changed; its own epoch advances too. Panics if there is none.
    pub fn filesystem(&mut self, id: Fscid) -> &mut maps::MdsMap {
        let modified = self.stamp();
        let map = self.fsmap();
        let epoch = map.epoch;
        let fs = &mut map.filesystems.get_mut(&id).expect("the file system exists").mds_map;
        fs.epoch = epoch;
        fs.modified = modified;
        fs
    }

    /// True if there is nothing to propose.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.osd.is_none() && self.fs.is_none()
    }

    /// Discards all changes: the request failed half way.
    pub fn discard(&mut self) {
        (self.changes, self.osd, self.crush, self.fs) = (Vec::new(), None, None, None);
        self.notes.clear();
    }

    /// A name that is too long for a stored key.
    pub fn too_long_name(&self) -> Option<&str> {
        self.changes.iter().find_map(|change| {
            let names = match change {
                Change::Kv(key, _) => [key.as_str(), ""],
                Change::Config(who, name, _) => [who.as_str(), name.as_str()],
                Change::Auth(name, _) | Change::Metadata(name, _) => [name.id.as_str(), ""],
                _ => return None,
            };
            names.into_iter().find(|name| name.len() > NAME)
        })
    }

    /// The changes to propose.
    pub fn into_changes(self) -> Vec<Change> {
        let mut changes = self.changes;
        if let Some((mut inc, mut nacre)) = self.osd {
            nacre.epoch = inc.epoch;
            inc.crush = self.crush.map(|crush| Writer::encode(&*crush)).unwrap_or_default();
            let mut next = (**self.base.osdmap()).clone();
            next.apply(&inc)
                .expect("an incremental of our own making applies to the map that it was made for");
            inc.full_crc = next.encode_with_crc().1;
            changes.push(Change::OsdMap { inc: Writer::encode(&*inc), nacre });
        }
        if let Some(mut fs) = self.fs {
            let epoch = fs.epoch;
            let changed = fs.filesystems.values_mut().filter(|f| f.mds_map.epoch == epoch);
            changed.for_each(|f| export_targets::name_targets(&mut f.mds_map));
            changes.push(Change::FsMap(fs));
        }
        changes
    }
}
