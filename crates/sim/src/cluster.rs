//! A simulated cluster of the real roles, and the small language in which scenarios are written:
//!
//! ```text
//! let mut c = Cluster::new(7, Faults::none(), &Spec::default());
//! c.bring_up()?;
//! c.client(0).write("a", b"1");
//! c.osd(1).crash(Crash::Power);
//! c.client(0).write("a", b"2");
//! c.osd(1).start();
//! c.wait_healthy(limit)?;
//! ```
//!
//! Nothing in a cluster is mocked: keys are real, connections run the whole cephx handshake, and an
//! administrator's commands make pools and the file system.

use crate::any::Daemon;
use crate::builds::{Builds, name_version};
use crate::disk::Crash;
use crate::faults::Faults;
use crate::host::HostId;
use crate::kind::Kind;
use crate::objects::{OBJECTS, object_request};
use crate::oracle::backoffs::Backoffs;
use crate::oracle::terms::Terms;
use crate::world::{Boot, HostSpec, Observer, World};
use auth::{Credentials, Key, Keyring, KeyringEntry, Method};
use fsclient::{Answer, ClientConfig, ClientOptions, Reply, Request};
use msgs::{Caps, cap_op};
use node::{Node, RequestId};
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use stdx::{Bufs, Rng, Wall};
use wire::{AddrVec, EntityAddr, EntityName, EntityType, Errno, Uuid};

/// The pool whose snapshots clients manage.
pub const SNAPSHOTS: &str = "snaps";
/// The pool of block-device images.
pub const IMAGES: &str = "images";
/// The pools of the file system: for metadata, and for data.
const FS_POOLS: [&str; 2] = ["meta", "data"];
/// The command that sets the number of ranks, or `auto`.
pub(crate) fn max_mds(most: &str) -> Value {
    json!({"prefix": "fs set", "fs_name": "cephfs", "var": "max_mds", "val": most})
}

/// The longest time until a cluster's pools exist, in simulated time.
const BRING_UP: Duration = Duration::from_secs(60);

/// Size and configuration of a cluster.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Number of monitors.
    pub mons: u32,
    /// Number of OSDs.
    pub osds: u32,
    /// Clients, each of objects and of the file system.
    pub clients: u32,
    /// The clients' kinds, by number; the others are [`Kind::Ours`].
    pub kinds: Vec<Kind>,
    /// The clients' options.
    pub client: ClientOptions,
    /// True if there is a file system.
    pub fs: bool,
    /// Metadata servers beside the one that a file system needs.
    pub standbys: u32,
    /// Ranks of the file system, of which each takes one of them.
    pub ranks: u32,
    /// True if there is the pool [`SNAPSHOTS`].
    pub snapshots: bool,
    /// True if there is the pool [`IMAGES`].
    pub images: bool,
    /// PGs of the pool [`OBJECTS`].
    pub pgs: u32,
    /// PGs of each of the file system's pools.
    pub fs_pgs: u32,
    /// Size of each OSD's disk, in bytes.
    pub osd_disk: u64,
    /// Limits of the MDS.
    pub mds: mds::MdsOptions,
    /// Tunables of OSDs.
    pub osd: osd::OsdOptions,
    /// Options of the monitor's configuration file.
    pub options: BTreeMap<String, String>,
    /// Size of each monitor's disk, in bytes.
    pub mon_disk: u64,
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            mons: 1,
            osds: 3,
            clients: 2,
            kinds: Vec::new(),
            client: ClientOptions::default(),
            fs: false,
            standbys: 0,
            ranks: 1,
            snapshots: false,
            images: false,
            pgs: 4,
            fs_pgs: 4,
            osd_disk: 256 << 20,
            mds: mds::MdsOptions::default(),
            osd: osd::OsdOptions::default(),
            options: BTreeMap::new(),
            mon_disk: 64 << 20,
        }
    }
}

/// A node of a cluster.
pub(crate) type AnyNode = Box<dyn Node<Request = Request, Reply = Reply>>;

/// Constructors of the daemons; by default the real roles, each OSD on a host of its own.
#[derive(Clone)]
pub(crate) struct Parts {
    /// Makes an OSD.
    pub osd: Rc<dyn Fn(osd::OsdConfig, Boot) -> AnyNode>,
    /// CRUSH location of an OSD: name by bucket type.
    pub location: Rc<dyn Fn(u32) -> BTreeMap<String, String>>,
    /// Metadata that OSDs report of themselves and their hosts.
    pub metadata: BTreeMap<String, String>,
    /// Wraps each monitor, given its rank.
    pub mon: Rc<dyn Fn(usize, AnyNode) -> AnyNode>,
    /// What is installed on the hosts.
    pub builds: Builds,
}

impl Default for Parts {
    fn default() -> Self {
        let at = |pairs: [(&str, String); 2]| pairs.map(|(ty, name)| (ty.to_owned(), name)).into();
        Self {
            osd: Rc::new(|config, boot| {
                Box::new(Daemon::new(osd::Osd::new(config, boot.disks[0], boot.rng)))
            }),
            location: Rc::new(move |n| at([("host", format!("sim-{n}")), ("root", "default".to_owned())])),
            metadata: BTreeMap::new(),
            mon: Rc::new(|_, mon| mon),
            builds: Builds::default(),
        }
    }
}

/// A cluster in its world.
pub struct Cluster {
    /// The world that it runs in.
    pub world: World<Request, Reply>,
    /// Monitors' hosts, by rank.
    pub mons: Vec<HostId>,
    /// OSDs' hosts, by number.
    pub osds: Vec<HostId>,
    /// The first metadata server's host.
    pub mds: Option<HostId>,
    /// The hosts of further ones.
    pub standbys: Vec<HostId>,
    /// Clients' hosts. Clients may crash; [`Self::admin`] never does.
    pub clients: Vec<HostId>,
    /// What is installed on their hosts.
    pub builds: Builds,
    /// The client that gives commands.
    pub admin: HostId,
    /// The OSD that last answered each client, kept up to date by [`Self::watch_with`].
    pub primaries: Rc<RefCell<BTreeMap<HostId, HostId>>>,
    /// Terms of the monitors and their leaders, kept up to date in the same way.
    pub terms: Rc<RefCell<Terms>>,
    /// The flushes so far by which clients gave up bits under which they had changed something, and the
    /// server of the last, kept up to date in the same way.
    pub flushes: Rc<Cell<(u64, Option<HostId>)>>,
    /// Backoffs that OSDs have sent to clients, kept up to date in the same way.
    pub backoffs: Rc<RefCell<Backoffs>>,
    /// Clients whose callers confirm nothing, as a kernel that hangs: what it has cached stays there.
    pub hung: BTreeSet<HostId>,
    pub(crate) spec: Spec,
    /// Answers that no caller has taken yet.
    answers: BTreeMap<RequestId, (HostId, Reply)>,
}

/// Keys and addresses for the daemons' configuration.
struct Identity {
    fsid: Uuid,
    keyring: Keyring,
    mons: Vec<EntityAddr>,
    monmap: Vec<(String, SocketAddr)>,
}

impl Identity {
    fn new(spec: &Spec, rng: &mut Rng) -> Self {
        let mut ring = Keyring::default();
        let mut add = |name: EntityName, caps: &[(&str, &str)]| {
            let key = Key::generate(Wall(crate::world::EPOCH), rng);
            let caps = caps.iter().map(|(s, c)| ((*s).to_owned(), (*c).to_owned())).collect();
            ring.0.insert(name, KeyringEntry { key, caps });
        };
        add(EntityName::new(EntityType::MON, ""), &[("mon", "allow *")]);
        add(EntityName::new(EntityType::CLIENT, "admin"), ALL);
        for i in 0..spec.clients {
            add(EntityName::new(EntityType::CLIENT, i.to_string()), ALL);
        }
        for i in 0..spec.osds {
            let caps = [("mon", "allow profile osd"), ("osd", "allow *")];
            add(EntityName::new(EntityType::OSD, i.to_string()), &caps);
        }
        let caps = [("mon", "allow profile mds"), ("osd", "allow rwx"), ("mds", "allow *")];
        for n in 0..=spec.standbys {
            add(EntityName::new(EntityType::MDS, mds_name(n)), &caps);
        }
        let mon = |n: u8| (char::from(b'a' + n).to_string(), SocketAddr::from(([10, 0, 0, n + 1], 3300)));
        let monmap: Vec<_> = (0..spec.mons as u8).map(mon).collect();
        let mons = monmap.iter().map(|(_, addr)| EntityAddr::msgr2(*addr, 0)).collect();
        Self { fsid: uuid(rng), keyring: ring, mons, monmap }
    }

    fn credentials(&self, ty: EntityType, id: &str) -> Credentials {
        let name = EntityName::new(ty, id);
        let key = self.keyring.key(&name).cloned();
        assert!(key.is_some(), "{name} has a key");
        Credentials { name, key }
    }
}

const ALL: &[(&str, &str)] =
    &[("mon", "allow *"), ("osd", "allow *"), ("mds", "allow *"), ("mgr", "allow *")];

fn uuid(rng: &mut Rng) -> Uuid {
    let mut bytes = [0; 16];
    rng.fill(&mut bytes);
    Uuid::from_random(bytes)
}

impl Cluster {
    /// A cluster of real roles, with all hosts; nothing runs yet.
    pub fn new(seed: u64, faults: Faults, spec: &Spec) -> Self {
        Self::of(seed, faults, spec, &Parts::default())
    }

    /// A cluster with other constructors of its daemons.
    pub(crate) fn of(seed: u64, faults: Faults, spec: &Spec, parts: &Parts) -> Self {
        let mut world = World::new(seed, faults);
        let mut rng = world.rng().fork();
        let id = Identity::new(spec, &mut rng);
        let mons = (0..id.monmap.len()).map(|rank| world.add(mon_spec(rank, spec, &id, parts))).collect();
        let osds = (0..spec.osds).map(|n| world.add(osd_spec(n, spec, &id, uuid(&mut rng), parts))).collect();
        let mds = spec.fs.then(|| world.add(mds_spec(0, spec, &id, parts)));
        let admin =
            world.add(client_spec("admin", ADMIN, &Spec { fs: false, ..spec.clone() }, Kind::Ours, &id));
        let clients = (0..spec.clients)
            .map(|n| {
                let kind = spec.kinds.get(n as usize).copied().unwrap_or(Kind::Ours);
                world.add(client_spec(&n.to_string(), n, spec, kind, &id))
            })
            .collect();
        let standbys = (1..=spec.standbys).map(|n| world.add(mds_spec(n, spec, &id, parts))).collect();
        Self {
            world,
            mons,
            osds,
            mds,
            standbys,
            clients,
            builds: parts.builds.clone(),
            admin,
            primaries: Default::default(),
            flushes: Rc::default(),
            backoffs: Rc::default(),
            terms: Rc::new(RefCell::new(Terms::new(spec.mons as usize))),
            hung: BTreeSet::new(),
            spec: spec.clone(),
            answers: BTreeMap::new(),
        }
    }

    /// Starts everything and makes pools and file system, without faults.
    pub fn bring_up(&mut self) -> Result<(), String> {
        let faults = std::mem::replace(&mut self.world.faults, Faults::none());
        for host in [&self.mons[..], &self.osds[..], &[self.admin]].concat() {
            self.world.start(host);
        }
        let began = self.world.now();
        let up = |c: &Value| c["osdmap"]["num_up_osds"].as_u64();
        let all = Some(u64::from(self.spec.osds));
        self.wait_status(BRING_UP, |status| up(status) == all)?;
        self.command(&json!({ "prefix": "osd pool create", "pool": OBJECTS, "pg_num": self.spec.pgs }))?;
        let enable = json!({ "prefix": "osd pool application enable", "pool": OBJECTS, "app": "sim" });
        self.command(&enable)?;
        if self.spec.fs {
            for pool in FS_POOLS {
                let pgs = self.spec.fs_pgs;
                self.command(&json!({ "prefix": "osd pool create", "pool": pool, "pg_num": pgs }))?;
            }
            let [metadata, data] = FS_POOLS;
            let fs = json!({ "prefix": "fs new", "fs_name": "cephfs", "metadata": metadata, "data": data });
            self.command(&fs)?;
        }
        if self.spec.snapshots {
            let pool = json!({ "prefix": "osd pool create", "pool": SNAPSHOTS, "pg_num": self.spec.pgs });
            self.command(&pool)?;
            let enable = json!({ "prefix": "osd pool application enable", "pool": SNAPSHOTS, "app": "sim" });
            self.command(&enable)?;
        }
        if self.spec.images {
            let pool = json!({ "prefix": "osd pool create", "pool": IMAGES, "pg_num": self.spec.pgs });
            self.command(&pool)?;
            let enable = json!({ "prefix": "osd pool application enable", "pool": IMAGES, "app": "rbd" });
            self.command(&enable)?;
        }
        for host in [&self.mdss()[..], &self.clients].concat() {
            self.world.start(host);
        }
        let clients = self.clients.clone();
        let ready = self.world.run_until(BRING_UP, |w| clients.iter().all(|c| w.is_ready(*c)));
        if !ready {
            let late: Vec<_> = clients
                .iter()
                .filter(|c| !self.world.is_ready(**c))
                .map(|c| self.world.name(*c).to_owned())
                .collect();
            return Err(format!("not ready {BRING_UP:?} after the cluster's start: {}", late.join(", ")));
        }
        if self.spec.ranks > 1 {
            self.command(&max_mds(&self.spec.ranks.to_string()))?;
        }
        self.wait_healthy(BRING_UP)?;
        let took = self.world.now().since(began);
        self.world.faults = faults;
        assert!(took < BRING_UP * 3, "bounded by the waits above");
        Ok(())
    }

    /// Observes all messages: with `observer`, and for [`Self::primaries`], [`Self::terms`],
    /// [`Self::flushes`] and [`Self::backoffs`].
    pub fn watch_with(&mut self, mut observer: Observer) {
        let (primaries, terms, flushes) = (self.primaries.clone(), self.terms.clone(), self.flushes.clone());
        self.world.observer = Some(Box::new(move |now, from, to, msg| {
            if matches!(msg.body, node::Body::Client(msgs::Body::OsdOpReply(_))) {
                primaries.borrow_mut().insert(to, from);
            }
            if let node::Body::Client(msgs::Body::ClientCaps(caps)) = &msg.body
                && caps.op == cap_op::FLUSH
                && caps.dirty & !caps.caps != Caps::NONE
            {
                flushes.set((flushes.get().0 + 1, Some(to)));
            }
            let found = terms.borrow_mut().observe(now, from, msg);
            observer(now, from, to, msg).or(found)
        }));
        let backoffs = self.backoffs.clone();
        self.world.witness = Some(Box::new(move |at, seen| backoffs.borrow_mut().see(at, seen)));
    }

    /// The hosts of all daemons.
    pub fn daemons(&self) -> Vec<HostId> {
        [&self.mons[..], &self.osds, &self.mdss()].concat()
    }

    /// The hosts of all metadata servers.
    pub fn mdss(&self) -> Vec<HostId> {
        self.mds.into_iter().chain(self.standbys.iter().copied()).collect()
    }

    /// A daemon or client, to be crashed or started.
    pub fn at(&mut self, host: HostId) -> Place<'_> {
        Place { world: &mut self.world, host }
    }

    /// Selects an OSD.
    pub fn osd(&mut self, id: usize) -> Place<'_> {
        let host = self.osds[id];
        self.at(host)
    }

    /// Selects a monitor.
    pub fn mon(&mut self, rank: usize) -> Place<'_> {
        let host = self.mons[rank];
        self.at(host)
    }

    /// Selects the first MDS.
    pub fn mds(&mut self) -> Place<'_> {
        let host = self.mds.expect("a cluster with a file system");
        self.at(host)
    }

    /// Selects a client.
    pub fn client(&mut self, id: usize) -> ClientAt<'_> {
        let host = self.clients[id];
        ClientAt { cluster: self, host }
    }

    /// Makes a request and waits for the answer; `None` if none came within `limit`.
    pub fn ask(&mut self, host: HostId, request: Request, limit: Duration) -> Option<Reply> {
        let id = self.world.request(host, request);
        let (answers, hung) = (&mut self.answers, &self.hung);
        self.world.run_until(limit, |world| {
            for (host, id, reply) in world.take_replies() {
                match reply {
                    Ok(Answer::Invalidate { .. }) if hung.contains(&host) => {}
                    // Nothing above a simulated client caches.
                    Ok(Answer::Invalidate { id, .. }) => {
                        world.request(host, Request::Invalidated { id });
                    }
                    reply => {
                        answers.insert(id, (host, reply));
                    }
                }
            }
            answers.contains_key(&id)
        });
        self.answers.remove(&id).map(|(_, reply)| reply)
    }

    /// Takes the answers that came during the wait for another one.
    pub fn take_answers(&mut self) -> Vec<(HostId, RequestId, Reply)> {
        std::mem::take(&mut self.answers).into_iter().map(|(id, (host, reply))| (host, id, reply)).collect()
    }

    /// Runs a monitor command and returns its output.
    pub fn command(&mut self, command: &Value) -> Result<Vec<u8>, String> {
        let request = Request::Command { command: command.to_string(), input: Bufs::default() };
        match self.ask(self.admin, request, BRING_UP) {
            Some(Ok(Answer::Command { result: Ok(()), output, .. })) => Ok(output.to_vec()),
            Some(Ok(Answer::Command { result: Err(errno), status, .. })) => {
                Err(format!("{command}: {errno}: {status}"))
            }
            Some(other) => Err(format!("{command}: {other:?}")),
            None => Err(format!("{command}: no answer within {BRING_UP:?}")),
        }
    }

    /// `ceph status` as JSON.
    pub fn status(&mut self) -> Result<Value, String> {
        let output = self.command(&json!({ "prefix": "status", "format": "json" }))?;
        serde_json::from_slice(&output).map_err(|e| format!("status is no JSON: {e}"))
    }

    /// Polls the status until it satisfies `done`.
    pub fn wait_status(&mut self, limit: Duration, done: impl Fn(&Value) -> bool) -> Result<(), String> {
        let until = self.world.now() + limit;
        loop {
            let status = self.status()?;
            if done(&status) {
                return Ok(());
            }
            if self.world.now() >= until {
                return Err(format!("after {limit:?} still: {}", brief(&status)));
            }
            self.world.run_for(Duration::from_millis(500));
        }
    }

    /// Reports whether the cluster is healthy, or the reason why not. `DEVICE_HEALTH` is accepted if disks
    /// had errors.
    pub fn healthy_now(&mut self, errors: bool) -> Result<(), String> {
        let status = self.status()?;
        let is_told = |code: &String| code == "DEVICE_HEALTH";
        let told = || status["health"]["checks"].as_object().is_some_and(|checks| checks.keys().all(is_told));
        if are_clean(&status) && (status["health"]["status"] == "HEALTH_OK" || errors && told()) {
            return Ok(());
        }
        Err(brief(&status))
    }

    /// Reports whether each pool has its target number of PGs, each of them placed.
    pub fn pools_are_settled(&mut self) -> Result<(), String> {
        let dump = self.command(&json!({ "prefix": "osd dump", "format": "json" }))?;
        let dump: Value = serde_json::from_slice(&dump).map_err(|error| error.to_string())?;
        for pool in dump["pools"].as_array().into_iter().flatten() {
            if pool["pg_num"] != pool["pg_num_target"]
                || pool["pg_placement_num"] != pool["pg_placement_num_target"]
            {
                return Err(format!(
                    "pool {} is on its way to {} PGs: {}, {} after the next merge, {} places of {}",
                    pool["pool_name"],
                    pool["pg_num_target"],
                    pool["pg_num"],
                    pool["pg_num_pending"],
                    pool["pg_placement_num"],
                    pool["pg_placement_num_target"]
                ));
            }
        }
        Ok(())
    }

    /// The replicated pools by name, with their minimum number of PGs according to the spec and the commands
    /// so far.
    pub fn pools(&self) -> Vec<(&'static str, u32)> {
        let mut pools = vec![(OBJECTS, self.spec.pgs)];
        if self.mds.is_some() {
            pools.extend(FS_POOLS.map(|pool| (pool, self.spec.fs_pgs)));
        }
        if self.spec.snapshots {
            pools.push((SNAPSHOTS, self.spec.pgs));
        }
        if self.spec.images {
            pools.push((IMAGES, self.spec.pgs));
        }
        pools
    }

    /// Waits until all PGs are clean and the cluster is healthy.
    pub fn wait_healthy(&mut self, limit: Duration) -> Result<(), String> {
        self.wait_status(limit, |s| are_clean(s) && s["health"]["status"] == "HEALTH_OK")
    }
}

/// Reports whether all PGs are active and clean.
fn are_clean(status: &Value) -> bool {
    let empty = Vec::new();
    let states = status["pgmap"]["pgs_by_state"].as_array().unwrap_or(&empty);
    let clean = states.iter().all(|s| s["state_name"] == "active+clean");
    let counted: u64 = states.iter().filter_map(|s| s["count"].as_u64()).sum();
    clean && Some(counted) == status["pgmap"]["num_pgs"].as_u64()
}

fn brief(status: &Value) -> String {
    let checks = status["health"]["checks"].as_object();
    let codes: Vec<String> = checks
        .into_iter()
        .flatten()
        .map(|(code, check)| format!("{code} ({})", check["summary"]["message"].as_str().unwrap_or("")))
        .collect();
    let states: Vec<String> = (status["pgmap"]["pgs_by_state"].as_array().into_iter().flatten())
        .map(|s| format!("{} {}", s["count"], s["state_name"].as_str().unwrap_or("?")))
        .collect();
    format!("{}: {}; PGs: {}", status["health"]["status"], codes.join(", "), states.join(", "))
}

/// One daemon or client.
pub struct Place<'a> {
    world: &'a mut World<Request, Reply>,
    host: HostId,
}

impl Place<'_> {
    /// Crashes the selected node.
    pub fn crash(&mut self, how: Crash) {
        self.world.crash(self.host, how);
    }

    /// Starts it again.
    pub fn start(&mut self) {
        self.world.start(self.host);
    }
}

/// One client, which makes one request at a time.
pub struct ClientAt<'a> {
    cluster: &'a mut Cluster,
    host: HostId,
}

/// The longest wait of a scenario for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

impl ClientAt<'_> {
    /// Carries out operations on one object of [`OBJECTS`]. Returns the result and each operation's
    /// output.
    pub fn object(&mut self, name: &str, ops: Vec<msgs::Op>) -> (Result<u32, Errno>, Vec<Vec<u8>>) {
        let request = object_request(name, ops);
        match self.cluster.ask(self.host, request, PATIENCE) {
            Some(Ok(Answer::Object { result, ops, .. })) => {
                (result, ops.into_iter().map(|(_, data)| data.to_vec()).collect())
            }
            other => panic!("{name}: {other:?}"),
        }
    }

    /// Replaces an object's content; the write must succeed.
    pub fn write(&mut self, name: &str, data: &[u8]) {
        let extent = msgs::Extent::new(0, data.len() as u64);
        let (result, _) = self.object(name, vec![msgs::Op::WriteFull { extent, data: data.to_vec().into() }]);
        assert_eq!(result, Ok(0), "write of {name}");
    }

    /// An object's content; `None` if there is no such object.
    pub fn read(&mut self, name: &str) -> Option<Vec<u8>> {
        let (result, mut out) = self.object(name, vec![msgs::Op::Read(msgs::Extent::new(0, 0))]);
        result.is_ok().then(|| out.remove(0))
    }
}

fn mon_spec(rank: usize, spec: &Spec, id: &Identity, parts: &Parts) -> HostSpec<Request, Reply> {
    let created = Wall(crate::world::EPOCH).into();
    let monmap = maps::MonMap::new(id.fsid, created, &id.monmap);
    let (name, addr) = id.monmap[rank].clone();
    let size = spec.osds.clamp(1, 3);
    let mut options = BTreeMap::from([
        ("osd_crush_chooseleaf_type".to_owned(), "0".to_owned()),
        // Simulated clocks drift further apart in a long run than those of real hosts may.
        ("mon_clock_drift_allowed".to_owned(), "10".to_owned()),
        // Simulated disks are small.
        ("mon_data_avail_warn".to_owned(), "0".to_owned()),
        ("mon_data_avail_crit".to_owned(), "0".to_owned()),
        // Scenarios change pg_num themselves.
        ("osd_pool_default_pg_autoscale_mode".to_owned(), "off".to_owned()),
        ("osd_pool_default_min_size".to_owned(), (size - size / 2).to_string()),
    ]);
    // What the file says counts for more than `ceph config set`; three is the default.
    if size < 3 {
        options.insert("osd_pool_default_size".to_owned(), size.to_string());
    }
    options.extend(spec.options.clone());
    let (keyring, wrap, builds) = (id.keyring.clone(), parts.mon.clone(), parts.builds.clone());
    HostSpec {
        name: format!("mon.{name}"),
        service: Some(EntityType::MON),
        addr,
        disks: vec![spec.mon_disk],
        make: Box::new(move |mut boot: Boot| {
            let disk = boot.disks[0];
            let config = mon::MonConfig {
                name: name.clone(),
                monmap: monmap.clone(),
                keyring: keyring.clone(),
                methods: vec![Method::Cephx],
                options: options.clone(),
                hostname: "sim-mon".to_owned(),
                disk,
                store_path: format!("{name}/block"),
                joined: None,
                build: builds.of(&format!("mon.{name}")),
            };
            let store = store::Store::new(store::Config::default(), disk, boot.rng.fork());
            wrap(rank, Box::new(Daemon::new(mon::Mon::new(config, store, boot.rng))))
        }),
    }
}

fn osd_spec(n: u32, spec: &Spec, id: &Identity, uuid: Uuid, parts: &Parts) -> HostSpec<Request, Reply> {
    let credentials = id.credentials(EntityType::OSD, &n.to_string());
    let (fsid, monitors, options) = (id.fsid, id.mons.clone(), spec.osd.clone());
    let (parts, [_, high, middle, low]) = (parts.clone(), n.to_be_bytes());
    HostSpec {
        name: format!("osd.{n}"),
        service: Some(EntityType::OSD),
        addr: ([10, 64 + high, middle, low], 6800).into(),
        disks: vec![spec.osd_disk],
        make: Box::new(move |boot: Boot| {
            let build = parts.builds.of(&format!("osd.{n}"));
            let mut metadata = parts.metadata.clone();
            name_version(&mut metadata, &build);
            let config = osd::OsdConfig {
                id: maps::OsdId(n as i32),
                uuid,
                fsid,
                addrs: AddrVec::from(boot.addr),
                credentials: credentials.clone(),
                methods: vec![Method::Cephx],
                monitors: monitors.clone(),
                hostname: format!("sim-{n}"),
                crush_weight: 0x1_0000,
                crush_location: (parts.location)(n),
                device_class: "ssd".to_owned(),
                metadata,
                options: osd::OsdOptions { levels: build.levels, ..options.clone() },
            };
            (parts.osd)(config, boot)
        }),
    }
}

/// The name of a metadata server: a, b, c … z, and then by number.
fn mds_name(n: u32) -> String {
    match u8::try_from(n) {
        Ok(n) if n < 26 => char::from(b'a' + n).to_string(),
        _ => format!("m{n}"),
    }
}

fn mds_spec(n: u32, spec: &Spec, id: &Identity, parts: &Parts) -> HostSpec<Request, Reply> {
    let name = mds_name(n);
    let credentials = id.credentials(EntityType::MDS, &name);
    let (mons, options, builds) = (id.mons.clone(), spec.mds.clone(), parts.builds.clone());
    HostSpec {
        name: format!("mds.{name}"),
        service: Some(EntityType::MDS),
        addr: ([10, 0, 2, 1 + u8::try_from(n).expect("few metadata servers")], 6800).into(),
        disks: vec![],
        make: Box::new(move |boot: Boot| {
            let build = builds.of(&format!("mds.{name}"));
            let mut metadata = BTreeMap::new();
            name_version(&mut metadata, &build);
            let config = mds::MdsConfig {
                name: name.clone(),
                addrs: AddrVec::from(boot.addr),
                credentials: credentials.clone(),
                methods: vec![Method::Cephx],
                hostname: "sim-mds".to_owned(),
                metadata,
                levels: build.levels,
                monitors: mons.clone(),
                options: options.clone(),
            };
            Box::new(Daemon::new(mds::Mds::new(config, boot.rng)))
        }),
    }
}

/// The address of the administrator's client among those of clients.
const ADMIN: u32 = 250;

fn client_spec(name: &str, host: u32, spec: &Spec, kind: Kind, id: &Identity) -> HostSpec<Request, Reply> {
    // The first of them have the addresses that they always had.
    let [_, high, middle, low] = if host <= ADMIN { 0x3_00 | host } else { 0x80_00_00 | host }.to_be_bytes();
    let config = ClientConfig {
        credentials: id.credentials(EntityType::CLIENT, name),
        mons: id.mons.clone(),
        fsid: Some(id.fsid),
        mount: spec.fs,
        tells: false,
        hostname: format!("sim-client-{name}"),
        mount_point: "/".to_owned(),
        options: spec.client.clone(),
    };
    HostSpec {
        name: format!("client.{name}"),
        service: None,
        addr: ([10, high, middle, low], 0).into(),
        disks: vec![],
        make: Box::new(move |boot: Boot| kind.client(config.clone(), boot.rng)),
    }
}
