//! The map of managers: which is active and which stand by. Of a real cluster's, the parts that a client
//! needs are read.

use crate::{Epoch, Gid};
use std::collections::BTreeMap;
use stdx::Rng;
use wire::{AddrVec, Decode, DecodeError, Encode, Reader, Sample, Utime, Writer};

/// A manager that stands by.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MgrStandby {
    /// `x` of `mgr.x`.
    pub name: String,
    /// Feature bits of its connection.
    pub features: u64,
}

/// `MgrMap`, without modules, which are read over and written as none.
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
    /// The managers that stand by, by global id.
    pub standbys: BTreeMap<Gid, MgrStandby>,
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
            w.count(self.standbys.len());
            for (gid, standby) in &self.standbys {
                w.put(gid);
                put_standby(w, *gid, standby);
            }
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
            for _ in 0..r.count(STANDBY_SIZE)? {
                let gid = r.get()?;
                map.standbys.insert(gid, get_standby(r)?);
            }
            // A real manager's modules are of no use to a client, and are not parsed; the rest can be read
            // only if there are none.
            if r.get::<u32>()? != 0 {
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

/// Least bytes of an entry of the standbys.
const STANDBY_SIZE: usize = 8 + 6 + 8 + 4;

/// `StandbyInfo`.
fn put_standby(w: &mut Writer, gid: Gid, standby: &MgrStandby) {
    w.versioned(4, 1, |w| {
        w.put(&gid);
        w.put(&standby.name);
        w.put(&0u32); // names of its modules
        w.put(&0u32); // its modules
        w.put(&standby.features);
    });
}

fn get_standby(r: &mut Reader<'_>) -> Result<MgrStandby, DecodeError> {
    r.versioned(4, |_, r| {
        let (_gid, name): (Gid, String) = (r.get()?, r.get()?);
        let _names: Vec<String> = r.get()?;
        // The structures of modules are not parsed; the features are behind them.
        let features = if r.get::<u32>()? == 0 { r.get()? } else { 0 };
        Ok(MgrStandby { name, features })
    })
}

impl Sample for MgrStandby {
    fn sample(rng: &mut Rng) -> Self {
        Self { name: Sample::sample(rng), features: Sample::sample(rng) }
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
            standbys: Sample::sample(rng),
            services: Sample::sample(rng),
            active_change: Sample::sample(rng),
            active_features: Sample::sample(rng),
            last_failure_osd_epoch: Sample::sample(rng),
        }
    }
}
