//! Starts one daemon on an event loop, from its configuration file and directory; `nacre dev` and `nacre
//! mon|osd|mds` start them alike.

use super::host::cores;
use super::http::Own;
use super::layout::advise;
use super::{files, hostname};
use crate::cmd::probe;
use anyhow::{Context, Result, bail};
use auth::{Credentials, Keyring, Method};
use decl::{Conf, Settings};
use node::{DiskId, Never};
use runtime::{
    Access, DiskBackend, DiskOpenError, DiskPool, DiskSpec, EventLoop, FileDisk, Handle, Limits, Listener,
    NodeSpec, Notice,
};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use wire::{EntityAddr, EntityName, EntityType, Uuid};

/// Threads of a daemon for blocking disk calls: more than it has disks, since a flush holds one.
const DISK_THREADS: usize = 8;

/// The least memory in bytes for each kind of large messages (of clients, of daemons, answers) of one of many
/// OSDs in a process.
const LEAST_MESSAGES: u64 = 2 << 20;
/// The most memory in bytes for each kind: more makes nothing faster.
const MOST_MESSAGES: u64 = 64 << 20;

/// The error that another process uses the device.
#[derive(Debug)]
pub(crate) struct InUse(String);

impl InUse {
    /// Names the user of a device.
    pub(crate) fn of(path: &Path) -> Self {
        Self(probe::held(path))
    }
}

impl std::fmt::Display for InUse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: stop that one first", self.0)
    }
}

impl std::error::Error for InUse {}

/// The memory that the connections of one of `osds` OSDs of a process may hold: more than the default if
/// `target`, the memory of all of them in bytes, allows it.
fn limits_of_osd(target: Option<u64>, osds: u64) -> Limits {
    let usual = decl::options::find("osd_memory_target").and_then(|o| decl::options::parse_size(o.default));
    let usual = usual.unwrap_or(u64::MAX).max(1);
    let target = target.map_or(usual, |target| target / osds.max(1));
    let all = Limits::of_osd();
    let part = |bytes: u64| {
        let bytes = u128::from(bytes) * u128::from(target) / u128::from(usual);
        u64::try_from(bytes).unwrap_or(u64::MAX).clamp(LEAST_MESSAGES, MOST_MESSAGES)
    };
    Limits {
        client_bytes: part(all.client_bytes),
        daemon_bytes: part(all.daemon_bytes),
        answer_bytes: part(all.answer_bytes),
        answer_share: part(all.answer_share),
        ..all
    }
}

/// The resources that all daemons of a process share.
pub(crate) struct Daemons {
    loops: Loops,
    notices: Sender<Notice>,
    /// The managers beside metadata servers. They go on when their server begins anew.
    managers: BTreeMap<EntityName, Handle<mgr::Request, mgr::Notice>>,
    /// The monitors that HTTP servers stand beside. The servers go on when their monitor begins anew.
    monitors: BTreeMap<EntityName, Arc<Own>>,
}

/// The threads of a process, each started when the first daemon needs it.
#[derive(Default)]
struct Loops {
    /// As many as there are cores, at most.
    shared: Vec<EventLoop>,
    /// The number of daemons that were given one of these.
    given: usize,
    /// Metadata servers have threads of their own: how busy one is says whether there should be more ranks
    /// (ADR 0022).
    of_mds: BTreeMap<EntityName, EventLoop>,
}

impl Loops {
    /// The one that a daemon is to run on.
    fn choose(&mut self, name: &EntityName) -> std::io::Result<&EventLoop> {
        if name.ty == EntityType::MDS {
            return Ok(match self.of_mds.entry(name.clone()) {
                Entry::Occupied(own) => own.into_mut(),
                Entry::Vacant(place) => place.insert(EventLoop::start(&name.to_string())?),
            });
        }
        if self.shared.len() < cores() {
            self.shared.push(EventLoop::start(&format!("loop-{}", self.shared.len()))?);
        }
        let at = self.given % self.shared.len();
        self.given += 1;
        Ok(&self.shared[at])
    }
}

/// A daemon to be started.
pub(crate) struct Daemon {
    pub(super) name: EntityName,
    pub(super) conf: Conf,
    pub(super) osd_size: u64,
    dir: PathBuf,
    /// The number of OSDs in its process.
    osds: u64,
}

impl Daemons {
    /// Daemons that are to send their notices there.
    pub(crate) fn new(notices: Sender<Notice>) -> Self {
        Self { loops: Loops::default(), notices, managers: BTreeMap::new(), monitors: BTreeMap::new() }
    }

    /// Starts a daemon.
    pub(crate) fn start(&mut self, daemon: &Daemon) -> Result<Handle<Never, Never>> {
        let notices = self.notices.clone();
        let event_loop = self.loops.choose(&daemon.name).context("cannot start a thread")?;
        // Each daemon has threads of its own: a device that hangs holds only these.
        let pool = DiskPool::new(DISK_THREADS);
        match daemon.name.ty {
            EntityType::MON => daemon.start_mon(&pool, event_loop, notices).inspect(|handle| {
                if !self.monitors.contains_key(&daemon.name) {
                    let own = Arc::new(Own::default());
                    if let Err(error) = daemon.start_web(Arc::clone(&own)) {
                        // The monitor does without.
                        tracing::warn!(name = %daemon.name, "no dashboard and no metrics: {error:#}");
                    }
                    self.monitors.insert(daemon.name.clone(), own);
                }
                self.monitors[&daemon.name].set((*handle).clone());
            }),
            EntityType::OSD => daemon.start_osd(&pool, event_loop, notices),
            _ => daemon.start_mds(event_loop, notices).and_then(|handle| {
                if !self.managers.contains_key(&daemon.name) {
                    self.managers.insert(daemon.name.clone(), daemon.start_manager(event_loop)?);
                }
                Ok(handle)
            }),
        }
        .with_context(|| daemon.name.to_string())
    }
}

impl Daemon {
    /// The daemon `name` as the file at `conf` describes it.
    pub(crate) fn new(name: EntityName, conf: &Path, osd_size: u64) -> Result<Self> {
        let text = std::fs::read_to_string(conf).map_err(|e| advise("read", conf, e))?;
        let conf_path = conf;
        let conf = Conf::parse(&text).with_context(|| conf_path.display().to_string())?;
        let option = format!("{}_data", name.ty.name());
        let dir = conf.get(&name, &option).map(PathBuf::from).with_context(|| {
            format!("{}: no `{} data` in [{}]", conf_path.display(), name.ty.name(), name.ty.name())
        })?;
        if !dir.is_dir() {
            bail!("{} has no directory {}: check --id", name, dir.display());
        }
        Ok(Self { name, conf, dir, osd_size, osds: 1 })
    }

    /// The same, as one of `osds` OSDs in a process.
    pub(crate) fn among(self, osds: usize) -> Self {
        Self { osds: osds.max(1) as u64, ..self }
    }

    /// Its name.
    pub(crate) fn name(&self) -> &EntityName {
        &self.name
    }

    /// The device that it stores on.
    pub(crate) fn device(&self) -> PathBuf {
        self.dir.join("block")
    }

    /// Reports whether another process uses its device.
    pub(crate) fn is_in_use(&self) -> bool {
        matches!(runtime::open_alone(&self.device(), false), Err(DiskOpenError::Locked(_)))
    }

    /// The number of OSDs in its process. They share one memory target in equal parts, so that none takes
    /// what another needs.
    pub(super) fn osds(&self) -> u64 {
        self.osds
    }

    /// The memory that its connections may hold.
    fn limits(&self) -> Limits {
        if self.name.ty != EntityType::OSD {
            return Limits::default();
        }
        let settings = Settings::new(self.name.to_string(), self.conf.all(&self.name));
        limits_of_osd(settings.size("osd_memory_target"), self.osds)
    }

    /// Its directory.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The file in a monitor's directory that marks it as a former member of a cluster: an empty store in its
    /// place must not make another cluster.
    pub(super) fn joined(&self) -> PathBuf {
        self.dir.join("joined")
    }

    /// Notes for its next start that it has served.
    pub(crate) fn note_ready(&self) -> Result<()> {
        let file = self.joined();
        if self.name.ty == EntityType::MON && !file.exists() {
            std::fs::write(&file, format!("{}\n", self.fsid()?)).map_err(|e| advise("write", &file, e))?;
        }
        Ok(())
    }

    /// The file for its process id.
    pub(crate) fn pid_file(&self) -> Option<PathBuf> {
        self.conf.get(&self.name, "pid_file").map(PathBuf::from)
    }

    pub(super) fn fsid(&self) -> Result<Uuid> {
        let text = self.conf.get(&self.name, "fsid").context("no `fsid` in the configuration")?;
        Uuid::parse(&text).with_context(|| format!("`fsid = {text}` is no uuid"))
    }

    pub(super) fn mon_addrs(&self) -> Result<Vec<EntityAddr>> {
        Ok(self.conf.mon_hosts(&self.name)?)
    }

    /// The names of the monitors whose addresses `mon host` lists: those of `mon initial members`, or a, b,
    /// c …
    pub(super) fn mon_names(&self) -> Vec<String> {
        match self.conf.get(&self.name, "mon_initial_members") {
            Some(text) => text.split([',', ' ']).filter(|n| !n.is_empty()).map(str::to_owned).collect(),
            None => ('a'..='z').map(String::from).collect(),
        }
    }

    /// The name of its host: that of the configuration (`host`), or what the machine is called.
    pub(super) fn hostname(&self) -> String {
        self.conf.get(&self.name, "host").unwrap_or_else(hostname)
    }

    /// An OSD's place in the CRUSH hierarchy: `crush location = root=default rack=r1 host=h1`, or the host
    /// below the root.
    pub(super) fn crush_location(&self) -> Result<BTreeMap<String, String>> {
        let text = self.conf.get(&self.name, "crush_location");
        let text = text.unwrap_or_else(|| format!("root=default host={}", self.hostname()));
        let pairs = text.split([' ', ',', ';']).filter(|pair| !pair.is_empty()).map(|pair| {
            let (ty, name) = pair.split_once('=').with_context(|| {
                format!("`crush location = {text}`: `{pair}` is not TYPE=NAME, such as host=h1")
            })?;
            anyhow::Ok((ty.to_owned(), name.to_owned()))
        });
        pairs.collect()
    }

    pub(super) fn methods(&self) -> Vec<Method> {
        if self.conf.uses_cephx(&self.name) { vec![Method::Cephx] } else { vec![Method::None] }
    }

    pub(super) fn keyring(&self) -> Result<Keyring> {
        let path = match self.conf.get(&self.name, "keyring") {
            Some(path) => PathBuf::from(path),
            None => self.dir.join("keyring"),
        };
        let text = std::fs::read_to_string(&path).map_err(|e| advise("read", &path, e))?;
        Keyring::parse(&text).with_context(|| path.display().to_string())
    }

    pub(super) fn credentials(&self) -> Result<Credentials> {
        if !self.conf.uses_cephx(&self.name) {
            return Ok(Credentials { name: self.name.clone(), key: None });
        }
        let ring = self.keyring()?;
        let key =
            ring.key(&self.name).with_context(|| format!("the keyring has no key for {}", self.name))?;
        Ok(Credentials { name: self.name.clone(), key: Some(key.clone()) })
    }

    /// An address for a daemon whose port is not fixed: the configured one, or that from which the monitors
    /// are reached.
    pub(super) fn listen_anywhere(&self) -> Result<Listener> {
        let ip = match self.conf.get(&self.name, "public_addr") {
            Some(text) => {
                text.parse::<IpAddr>().with_context(|| format!("`public addr = {text}` is no address"))?
            }
            None => local_ip_towards(self.mon_addrs()?.first().and_then(|m| m.addr))?,
        };
        Ok(Listener::bind(SocketAddr::new(ip, 0))?)
    }

    pub(super) fn spec(
        &self,
        number: u32,
        listener: Listener,
        nonce: u32,
        disks: Vec<Box<dyn DiskBackend>>,
    ) -> NodeSpec {
        let admin_socket = self.conf.get(&self.name, "admin_socket").map(PathBuf::from);
        NodeSpec {
            name: self.name.clone(),
            number: Some(number),
            listener: Some(listener),
            nonce,
            disks,
            admin_socket,
            limits: self.limits(),
            gets_load: self.name.ty != EntityType::MON,
        }
    }

    pub(super) fn disk(&self, size: u64, pool: &DiskPool) -> Result<FileDisk> {
        let device = self.device();
        if device.is_symlink() && !device.exists() {
            // A file made in its place would be an empty store under the name of one that has data.
            let disk = std::fs::read_link(&device).unwrap_or_default();
            bail!("the disk {} is not there: attach it, or replace it", disk.display());
        }
        let spec =
            DiskSpec { path: device, id: DiskId(0), create_size: Some(size), access: Access::default() };
        let disk = runtime::open_disk(&spec, pool).map_err(|error| match error {
            DiskOpenError::Locked(path) => anyhow::Error::new(InUse::of(&path)),
            error => error.into(),
        })?;
        let (access, discards) = (disk.describe(), disk.describe_discards());
        tracing::debug!(node = %self.name, path = %spec.path.display(), access, discards, "disk");
        Ok(disk)
    }

    /// The UUID of its store, made at the first start.
    pub(super) fn uuid(&self) -> Result<Uuid> {
        let path = self.dir.join("fsid");
        match std::fs::read_to_string(&path) {
            Ok(text) => Uuid::parse(text.trim()).with_context(|| format!("{} holds no uuid", path.display())),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                let mut bytes = [0; 16];
                runtime::rng().fill(&mut bytes);
                let uuid = Uuid::from_random(bytes);
                files::write(&path, &format!("{uuid}\n"), 0o644)?;
                Ok(uuid)
            }
            Err(e) => Err(advise("read", &path, e)),
        }
    }

    /// Its description for `ceph osd metadata` and `ceph mds metadata`.
    pub(super) fn metadata(&self) -> BTreeMap<String, String> {
        let version = super::build().version;
        let mut out = super::host::metadata(&self.dir);
        match self.name.ty {
            EntityType::OSD => drop(out.insert("osd_data".into(), self.dir.display().to_string())),
            // An MDS stores nothing.
            EntityType::MDS => out.retain(|key, _| !key.starts_with("device")),
            _ => {}
        }
        let pairs = [
            ("hostname", self.hostname()),
            ("ceph_release", "pacific".to_owned()),
            ("ceph_version", format!("nacre version {version}")),
            ("ceph_version_short", version),
        ];
        let program = super::program().map(|program| (super::PROGRAM, program));
        out.extend(pairs.into_iter().chain(program).map(|(k, v)| (k.to_owned(), v)));
        out
    }
}

/// The address of this machine from which `peer` is reached.
pub(crate) fn local_ip_towards(peer: Option<SocketAddr>) -> Result<IpAddr> {
    let peer = peer.context("`mon host` is empty")?;
    let any: SocketAddr =
        if peer.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { (std::net::Ipv6Addr::UNSPECIFIED, 0).into() };
    // Connecting a datagram socket sends nothing: it only looks up the route.
    let socket = std::net::UdpSocket::bind(any).and_then(|s| s.connect(peer).and_then(|()| s.local_addr()));
    Ok(socket.with_context(|| format!("no route to the monitor {peer}"))?.ip())
}

#[cfg(test)]
mod tests {
    use super::limits_of_osd;

    #[test]
    fn messages_take_a_part_of_the_memory_target() {
        let of = |target: Option<u64>, osds| {
            let limits = limits_of_osd(target.map(|mib| mib << 20), osds);
            (limits.client_bytes >> 20, limits.daemon_bytes >> 20, limits.answer_bytes >> 20)
        };
        assert_eq!(of(None, 1), (8, 16, 16));
        assert_eq!(
            (of(None, 12), of(Some(48), 1), of(Some(144), 3)),
            (of(None, 1), of(None, 1), of(None, 1))
        );
        assert_eq!(of(Some(96), 1), (16, 32, 32));
        assert_eq!(of(Some(96), 8), (2, 4, 4));
        assert_eq!(of(Some(1 << 20), 1), (64, 64, 64));
    }
}
