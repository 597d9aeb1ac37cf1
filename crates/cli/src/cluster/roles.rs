//! The configuration of each role.

use super::Daemon;
use super::build;
use super::http::{Own, Remote};
use anyhow::{Context, Result};
use auth::Method;
use maps::{MonMap, OsdId};
use node::Never;
use runtime::{DiskBackend, DiskPool, EventLoop, Handle, Listener, Notice};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use wire::{AddrVec, EntityAddr, EntityName, EntityType};

/// The size of a monitor's sparse file, in bytes.
const MON_SIZE: u64 = 4 << 30;
/// The host's memory is this many times what its OSDs may keep of their disks in memory that is free.
const KEPT_PART: u64 = 2;
/// The part of its store's index that a monitor keeps in memory, in bytes.
const MON_CACHE: usize = 2 << 20;
/// The size of the log of a monitor's store, in bytes: commands are few and small.
const MON_LOG: u64 = 16 << 20;

impl Daemon {
    pub(super) fn start_mon(
        &self,
        pool: &DiskPool,
        on: &EventLoop,
        notices: Sender<Notice>,
    ) -> Result<Handle<Never, Never>> {
        let addrs = self.mon_addrs()?.into_iter().filter_map(|m| m.addr);
        let mons: Vec<(String, SocketAddr)> = self.mon_names().into_iter().zip(addrs).collect();
        let own = mons.iter().zip(0..).find(|((name, _), _)| *name == self.name.id);
        // A monitor that was added later need not be in `mon host`.
        let (addr, rank) = match self.conf.get(&self.name, "mon_addr") {
            Some(text) => {
                let addr = text.parse().with_context(|| format!("`mon addr = {text}` is no IP:PORT"))?;
                (addr, own.map_or(mons.len() as u32, |(_, rank)| rank))
            }
            None => own.map(|((_, addr), rank)| (*addr, rank)).with_context(|| {
                format!("neither `mon host` nor `mon addr` has an address for {}", self.name)
            })?,
        };
        let listener = Listener::bind(addr)?;
        let disk = self.disk(MON_SIZE, pool)?;
        let info = disk.info();
        let config = mon::MonConfig {
            name: self.name.id.clone(),
            monmap: MonMap::new(self.fsid()?, runtime::now().wall.into(), &mons),
            keyring: self.keyring()?,
            methods: self.methods(),
            options: self.conf.all(&self.name),
            hostname: self.hostname(),
            disk: info,
            store_path: self.dir().join("block").display().to_string(),
            joined: Some(self.joined()).filter(|file| file.exists()).map(|file| file.display().to_string()),
            build: build(),
        };
        let host = self.metadata();
        let make = move || {
            let store = store::Config {
                cache_bytes: MON_CACHE,
                data_cache_bytes: 0,
                log_bytes: Some(MON_LOG),
                ..store::Config::default()
            };
            let mut rng = runtime::rng();
            mon::Mon::new(config, store::Store::new(store, info, rng.fork()), rng).with_host(host)
        };
        // Monitors have no incarnations: their addresses identify them.
        Ok(on.spawn(self.spec(rank, listener, 0, vec![Box::new(disk)]), make, notices))
    }

    pub(super) fn start_osd(
        &self,
        pool: &DiskPool,
        on: &EventLoop,
        notices: Sender<Notice>,
    ) -> Result<Handle<Never, Never>> {
        let id: u32 =
            self.name.id.parse().ok().with_context(|| format!("{} is no OSD number", self.name.id))?;
        let listener = self.listen_anywhere()?;
        let nonce = runtime::nonce();
        let mut disk = self.disk(self.osd_size, pool)?;
        // Used only without a memory target; the kernel takes it back for whoever needs it.
        disk.keep(runtime::memory_of_host().unwrap_or(0) / KEPT_PART / self.osds());
        let info = disk.info();
        let config = osd::OsdConfig {
            id: OsdId(id as i32),
            uuid: self.uuid()?,
            fsid: self.fsid()?,
            addrs: AddrVec::from(EntityAddr::msgr2(listener.addr(), nonce)),
            credentials: self.credentials()?,
            methods: self.methods(),
            monitors: self.mon_addrs()?,
            hostname: self.hostname(),
            crush_weight: 0,
            crush_location: self.crush_location()?,
            device_class: "ssd".to_owned(),
            metadata: self.metadata(),
            options: osd::OsdOptions {
                memory_shares: self.osds(),
                levels: build().levels,
                ..osd::OsdOptions::default()
            },
        };
        let options = self.conf.all(&self.name);
        let make = move || osd::Osd::new(config, info, runtime::rng()).with_file_options(options);
        Ok(on.spawn(self.spec(id, listener, nonce, vec![Box::new(disk)]), make, notices))
    }

    pub(super) fn start_mds(&self, on: &EventLoop, notices: Sender<Notice>) -> Result<Handle<Never, Never>> {
        let listener = self.listen_anywhere()?;
        let nonce = runtime::nonce();
        let config = mds::MdsConfig {
            name: self.name.id.clone(),
            addrs: AddrVec::from(EntityAddr::msgr2(listener.addr(), nonce)),
            credentials: self.credentials()?,
            methods: self.methods(),
            monitors: self.mon_addrs()?,
            hostname: self.hostname(),
            metadata: self.metadata(),
            levels: build().levels,
            options: mds::MdsOptions::from_values(&self.conf.all(&self.name)),
        };
        let options = self.conf.all(&self.name);
        let make = move || mds::Mds::new(config, runtime::rng()).with_file_options(options);
        // Which rank it gets is the monitors' choice, and changes.
        Ok(on.spawn(self.spec(0, listener, nonce, Vec::new()), make, notices))
    }

    /// Starts the server of a monitor's process.
    pub(super) fn start_web(&self, own: Arc<Own>) -> Result<()> {
        // The monitors' shared key may do everything, as `ceph -n mon.` shows.
        let name = EntityName::new(EntityType::MON, "");
        let key = match self.methods().contains(&Method::Cephx) {
            true => Some(self.keyring()?.key(&name).context("the keyring has no key for mon.")?.clone()),
            false => None,
        };
        let options = client::Options {
            fsid: Some(self.fsid()?),
            key,
            name,
            hostname: self.hostname(),
            tells: true,
            ..client::Options::of_mons(self.mon_addrs()?)
        };
        web::Server::start(own, Arc::new(Remote::new(options))).context("cannot start a thread")
    }
}
