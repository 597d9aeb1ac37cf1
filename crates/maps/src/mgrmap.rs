//! The manager's map. Nacre has no manager and sends an empty one. Of a real one, the parts that a client
//! needs are read.

use crate::{Epoch, Gid};
use std::collections::BTreeMap;
use stdx::Rng;
use wire::{AddrVec, Decode, DecodeError, Encode, Reader, Sample, Utime, Writer};

/// `MgrMap`, without standbys and modules, which are read over and written as none.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MgrMap {
    /// Of this map.
    pub epoch: Epoch,
    /// Addresses of the active manager.
    pub active_addrs: AddrVec,
    /// 0 for none.
    pub active_gid: Gid,
    /// True if it has finished its start.
    pub available: bool,
    /// `x` of `mgr.x`.
    pub active_name: String,
    /// Addresses of its services, by name.
    pub services: BTreeMap<String, String>,
    /// Time at which it became active.
    pub active_change: Utime,
    /// Feature bits of its connection.
    pub active_features: u64,
    /// OSD map in which its predecessor was blocklisted.
    pub last_failure_osd_epoch: Epoch,
}

impl Encode for MgrMap {
    fn encode(&self, w: &mut Writer) {
        let none = 0u32;
        w.versioned(12, 6, |w| {
            w.put(&self.epoch);
            w.put(&self.active_addrs);
            w.put(&self.active_gid);
            w.put(&self.available);
            w.put(&self.active_name);
            w.put(&none); // standbys
            w.put(&none); // modules
            w.put(&self.services);
            w.put(&none); // available modules
            w.put(&self.active_change);
            w.put(&none); // modules that are always on
            w.put(&self.active_features);
            w.put(&self.last_failure_osd_epoch);
            w.put(&none); // addresses of its RADOS clients
            w.put(&none); // their names
        });
    }
}

impl Decode for MgrMap {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned(12, |_, r| {
            let (epoch, active_addrs, active_gid) = (r.get()?, r.get()?, r.get()?);
            let (available, active_name) = (r.get()?, r.get()?);
            let mut map = Self { epoch, active_addrs, active_gid, available, active_name, ..Self::default() };
            // A real manager's standbys and modules are of no use to a client, and are not parsed; the rest
            // can be read only if there are none.
            if r.get::<u32>()? != 0 || r.get::<u32>()? != 0 {
                return Ok(map);
            }
            map.services = r.get()?;
            if r.get::<u32>()? != 0 {
                return Ok(map);
            }
            map.active_change = r.get()?;
            if r.get::<u32>()? != 0 {
                return Ok(map);
            }
            map.active_features = r.get()?;
            map.last_failure_osd_epoch = r.get()?;
            Ok(map)
        })
    }
}

impl Sample for MgrMap {
    fn sample(rng: &mut Rng) -> Self {
        Self {
            epoch: Sample::sample(rng),
            active_addrs: Sample::sample(rng),
            active_gid: Sample::sample(rng),
            available: Sample::sample(rng),
            active_name: Sample::sample(rng),
            services: Sample::sample(rng),
            active_change: Sample::sample(rng),
            active_features: Sample::sample(rng),
            last_failure_osd_epoch: Sample::sample(rng),
        }
    }
}
