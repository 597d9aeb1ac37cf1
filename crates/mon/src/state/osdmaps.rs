//! History of the OSD map: the newest in full, the incrementals up to it, and the oldest one kept in full,
//! from which any map in between can be rebuilt.

use maps::{Epoch, NacreMap, OsdMap, OsdMapIncremental};
use std::collections::BTreeMap;
use std::sync::Arc;
use stdx::Buf;
use wire::{DecodeError, Reader, Writer};

/// Epochs kept; an OSD or client that is further behind gets a full map.
const KEEP: usize = 500;
/// Epochs dropped at a time, because each trim rebuilds a full map.
const TRIM_STEP: usize = 64;

/// All OSD maps that can be served.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct OsdMaps {
    map: Arc<OsdMap>,
    nacre: Arc<NacreMap>,
    full: Buf,
    /// Incrementals by the epoch that they lead to.
    incs: BTreeMap<Epoch, Buf>,
    oldest: (Epoch, Buf),
}

impl OsdMaps {
    /// The newest map.
    pub fn map(&self) -> &Arc<OsdMap> {
        &self.map
    }

    /// Nacre's own map that accompanies the newest; its epoch is that of its last change.
    pub fn nacre(&self) -> &Arc<NacreMap> {
        &self.nacre
    }

    /// The newest, encoded.
    pub fn full(&self) -> &Buf {
        &self.full
    }

    /// The newest epoch.
    pub fn epoch(&self) -> Epoch {
        self.map.epoch
    }

    /// The oldest epoch that can be served.
    pub fn oldest(&self) -> Epoch {
        self.oldest.0
    }

    /// The oldest epoch that can be served, and its map, encoded.
    pub fn oldest_full(&self) -> (Epoch, &Buf) {
        (self.oldest.0, &self.oldest.1)
    }

    /// The encoded incremental that leads to `epoch`.
    pub fn inc(&self, epoch: Epoch) -> Option<&Buf> {
        self.incs.get(&epoch)
    }

    /// The map of an epoch that is still kept.
    pub fn at(&self, epoch: Epoch) -> Option<Arc<OsdMap>> {
        if epoch == self.map.epoch {
            return Some(self.map.clone());
        }
        (epoch >= self.oldest.0 && epoch < self.map.epoch).then(|| Arc::new(self.replay_to(epoch)))
    }

    fn replay_to(&self, epoch: Epoch) -> OsdMap {
        let mut map: OsdMap =
            Reader::new(&self.oldest.1).get().expect("the oldest full map is our own encoding");
        for (_, inc) in self.incs.range(..=epoch) {
            apply(&mut map, inc).expect("a kept incremental was applied before");
        }
        map
    }

    /// Applies the next incremental.
    pub fn apply(&mut self, inc: &[u8], nacre: &NacreMap) -> Result<(), DecodeError> {
        apply(Arc::make_mut(&mut self.map), inc)?;
        // It is sent in full, so it counts as new only if its content changed.
        let same = NacreMap { epoch: self.nacre.epoch, ..nacre.clone() } == *self.nacre;
        if !same || self.nacre.epoch == Epoch(0) {
            self.nacre = Arc::new(NacreMap { epoch: self.map.epoch, ..nacre.clone() });
        }
        self.full = Writer::encode(&*self.map).into();
        if self.oldest.0 == Epoch(0) {
            self.oldest = (self.map.epoch, self.full.clone());
        } else {
            self.incs.insert(self.map.epoch, inc.to_vec().into());
        }
        if self.incs.len() >= KEEP + TRIM_STEP {
            let oldest = Epoch(self.map.epoch.0 - KEEP as u32);
            self.oldest = (oldest, Writer::encode(&self.replay_to(oldest)).into());
            self.incs = self.incs.split_off(&oldest.next());
        }
        Ok(())
    }

    /// The rows as stored in a checkpoint.
    pub fn rows(&self) -> [Buf; 3] {
        [self.full.clone(), self.oldest.1.clone(), Writer::encode(&*self.nacre).into()]
    }

    /// The inverse of [`Self::rows`] with the kept incrementals.
    pub fn from_rows(rows: [&[u8]; 3], incs: BTreeMap<Epoch, Buf>) -> Result<Self, DecodeError> {
        let map: OsdMap = Reader::new(rows[0]).get()?;
        let oldest: OsdMap = Reader::new(rows[1]).get()?;
        let nacre = Reader::new(rows[2]).get()?;
        let incs = incs.into_iter().filter(|(e, _)| *e > oldest.epoch && *e <= map.epoch).collect();
        Ok(Self {
            map: Arc::new(map),
            nacre: Arc::new(nacre),
            full: rows[0].to_vec().into(),
            incs,
            oldest: (oldest.epoch, rows[1].to_vec().into()),
        })
    }
}

fn apply(map: &mut OsdMap, inc: &[u8]) -> Result<(), DecodeError> {
    let inc: OsdMapIncremental = Reader::new(inc).get()?;
    assert_eq!(inc.epoch, map.epoch.next(), "incrementals are applied in order");
    map.apply(&inc).map_err(|e| DecodeError::of_all(e.to_string()))
}
