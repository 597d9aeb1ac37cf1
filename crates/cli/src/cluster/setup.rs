//! Makes a new cluster's files, or reads those of an existing one: `ceph.conf`, keyrings, the daemons'
//! directories.

use super::files;
use super::host::cores;
use super::keys::{ADMIN_CAPS, daemon_caps, take_key};
use super::layout::{Layout, advise};
use anyhow::{Context, Result, bail};
use auth::Keyring;
use decl::Conf;
use std::net::{IpAddr, SocketAddr};
use wire::{EntityName, EntityType, Uuid};

/// The options of `nacre dev`; `None` if an option was not given.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// The number of monitors.
    pub(crate) mons: Option<u32>,
    /// The number of OSDs.
    pub(crate) osds: Option<u32>,
    /// The number of metadata servers.
    pub(crate) mds: Option<u32>,
    /// The address of all daemons.
    pub(crate) addr: Option<IpAddr>,
    /// The first monitor's port.
    pub(crate) port: Option<u16>,
    /// True if clients authenticate by cephx.
    pub(crate) cephx: Option<bool>,
}

/// A cluster whose files exist.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    /// Its paths.
    pub(crate) layout: Layout,
    /// Its identity.
    pub(crate) fsid: Uuid,
    /// The monitors' addresses, in the order a, b, c …
    pub(crate) mons: Vec<SocketAddr>,
    /// The numbers of its OSDs.
    pub(crate) osds: Vec<u32>,
    /// The number of its metadata servers a, b, c …
    pub(crate) mds: usize,
    /// True if clients authenticate by cephx.
    pub(crate) cephx: bool,
}

const DEFAULT_OSDS: u32 = 3;
/// The most metadata servers of a new cluster that was not told a number.
const MOST_MDS: usize = 9;
const DEFAULT_PORT: u16 = 3300;

/// Opens the cluster in `layout`, or makes one. An existing cluster keeps its address, port, authentication
/// and numbers of OSDs and metadata servers.
pub(crate) fn open_or_create(layout: &Layout, wanted: &Wanted) -> Result<Cluster> {
    let found = match std::fs::read_to_string(layout.conf()) {
        Ok(text) => Some(text),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
        Err(e) => return Err(advise("read", &layout.conf(), e)),
    };
    let is_new = found.is_none();
    let (fsid, mons, cephx) = match found {
        Some(text) => existing(layout, &text, wanted)?,
        None => {
            layout.check_space()?;
            let ip = wanted.addr.unwrap_or(IpAddr::from([127, 0, 0, 1]));
            let mut bytes = [0; 16];
            runtime::rng().fill(&mut bytes);
            let first = wanted.port.unwrap_or(DEFAULT_PORT);
            let ports = (first..=u16::MAX).take(wanted.mons.unwrap_or(1) as usize);
            let mons: Vec<SocketAddr> = ports.map(|port| SocketAddr::new(ip, port)).collect();
            (Uuid::from_random(bytes), mons, wanted.cephx.unwrap_or(true))
        }
    };
    let osds = osds(layout, wanted)?;
    let mds = metadata_servers(layout, wanted, is_new);
    let names = daemon_names(mons.len(), &osds, mds);
    for name in &names {
        let dir = layout.daemon(&name.to_string());
        std::fs::create_dir_all(&dir).map_err(|e| advise("create", &dir, e))?;
    }
    keyrings(layout, &names)?;
    if is_new {
        // This file comes last: if it exists, everything else does.
        files::write(&layout.conf(), &conf_text(layout, fsid, &mons, cephx, osds.len()), 0o644)?;
    }
    Ok(Cluster { layout: layout.clone(), fsid, mons, osds, mds, cephx })
}

/// The numbers of the OSDs that there are to be.
fn osds(layout: &Layout, wanted: &Wanted) -> Result<Vec<u32>> {
    let mut osds = layout.osds()?;
    let count = wanted.osds.unwrap_or(if osds.is_empty() { DEFAULT_OSDS } else { 0 });
    if (count as usize) < osds.len() && wanted.osds.is_some() {
        bail!(
            "{} holds {} OSDs, --osds {count} would leave data out: start it without \
             --osds, or with at least {}",
            layout.dir().display(),
            osds.len(),
            osds.len()
        );
    }
    if !osds.is_empty() && count as usize > osds.len() {
        bail!(
            "{} holds {} OSDs, adding some to a cluster is not supported yet: start it without --osds",
            layout.dir().display(),
            osds.len()
        );
    }
    osds.extend((osds.len() as u32..count).collect::<Vec<_>>());
    Ok(osds)
}

/// One that serves, one that stands by, and one more for each further core: they become active when the load
/// asks for it (`max_mds auto`).
pub(super) fn default_mds() -> usize {
    (cores() + 1).min(MOST_MDS)
}

/// The number of metadata servers that there are to be. They store nothing, so some may be left out or added.
fn metadata_servers(layout: &Layout, wanted: &Wanted, is_new: bool) -> usize {
    let found = ('a'..='z').take_while(|id| layout.daemon(&format!("mds.{id}")).is_dir()).count();
    match wanted.mds {
        Some(count) => count as usize,
        None if is_new => default_mds(),
        None => found.max(1),
    }
}

fn existing(layout: &Layout, text: &str, wanted: &Wanted) -> Result<(Uuid, Vec<SocketAddr>, bool)> {
    let path = layout.conf();
    let conf = Conf::parse(text).with_context(|| path.display().to_string())?;
    let admin = EntityName::new(EntityType::CLIENT, "admin");
    let fsid = conf.get(&admin, "fsid").and_then(|f| Uuid::parse(&f));
    let fsid =
        fsid.with_context(|| format!("{}: no `fsid`: this is no cluster's directory", path.display()))?;
    let mons = conf.mon_hosts(&admin).with_context(|| path.display().to_string())?;
    let mons: Vec<SocketAddr> = mons.into_iter().filter_map(|m| m.addr).collect();
    let mon = *mons.first().context("`mon host` is empty")?;
    let cephx = conf.uses_cephx(&admin);
    let differs = |option: &str, is: String| {
        anyhow::anyhow!(
            "the cluster in {} has {option} {is}: leave the option out, or choose another directory",
            layout.dir().display()
        )
    };
    if wanted.port.is_some_and(|p| p != mon.port()) {
        return Err(differs("--port", mon.port().to_string()));
    }
    if wanted.addr.is_some_and(|a| a != mon.ip()) {
        return Err(differs("--addr", mon.ip().to_string()));
    }
    if wanted.mons.is_some_and(|n| n as usize != mons.len()) {
        return Err(differs("--mons", mons.len().to_string()));
    }
    if wanted.cephx.is_some_and(|c| c != cephx) {
        return Err(differs("--auth", if cephx { "cephx" } else { "none" }.to_owned()));
    }
    Ok((fsid, mons, cephx))
}

/// The daemons of a cluster with `mons` monitors, these OSDs and `mds` metadata servers.
pub(crate) fn daemon_names(mons: usize, osds: &[u32], mds: usize) -> Vec<EntityName> {
    let letters = ('a'..='z').take(mons).map(String::from);
    let mut out: Vec<EntityName> = letters.map(|id| EntityName::new(EntityType::MON, id)).collect();
    out.extend(osds.iter().map(|n| EntityName::new(EntityType::OSD, n.to_string())));
    out.extend(('a'..='z').take(mds).map(|id| EntityName::new(EntityType::MDS, id.to_string())));
    out
}

/// Reads or makes `DIR/keyring` (the administrator's) and each daemon's `keyring`. Returns all keys. Monitors
/// have everybody's keys in theirs, for the first start of a cluster.
fn keyrings(layout: &Layout, daemons: &[EntityName]) -> Result<Keyring> {
    let mut all = Keyring::default();
    let admin = EntityName::new(EntityType::CLIENT, "admin");
    take_key(&layout.keyring(), admin, &ADMIN_CAPS, &mut all)?;
    for name in daemons.iter().filter(|n| n.ty != EntityType::MON) {
        let path = layout.daemon(&name.to_string()).join("keyring");
        take_key(&path, name.clone(), daemon_caps(name.ty), &mut all)?;
    }
    for name in daemons.iter().filter(|n| n.ty == EntityType::MON) {
        // All monitors share one key, that of the first one.
        let path = layout.daemon(&name.to_string()).join("keyring");
        let had = Keyring::parse(&std::fs::read_to_string(&path).unwrap_or_default()).unwrap_or_default();
        let shared = EntityName::new(EntityType::MON, "");
        if !all.0.contains_key(&shared) {
            take_key(&path, shared, daemon_caps(name.ty), &mut all)?;
        }
        if had != all {
            files::write(&path, &all.to_string(), 0o600)?;
        }
    }
    Ok(all)
}

/// The section of a configuration file that Ceph's clients read.
pub(crate) const CLIENT_SECTION: &str = "[client]\n\
     \t# Leave a monitor that has fallen silent; without these lines librados waits for 30 s.\n\
     \tmon client ping interval = 0.5\n\tmon client ping timeout = 1.5\n\
     \tmon client hunt interval = 0.5\n";

/// The configuration file for both Ceph's clients and our daemons. Paths of daemons are in the daemons'
/// sections, so that no client writes a log or a socket there.
fn conf_text(layout: &Layout, fsid: Uuid, mons: &[SocketAddr], cephx: bool, osds: usize) -> String {
    // All OSDs are on one host, so copies are spread over OSDs, not hosts.
    let size = osds.clamp(1, 3);
    let min_size = size - size / 2;
    let dir = layout.dir().display();
    let auth = if cephx { "cephx" } else { "none" };
    let hosts: Vec<String> = mons.iter().map(|mon| format!("[v2:{mon}]")).collect();
    let hosts = hosts.join(",");
    let mut out = format!(
        "[global]\n\tfsid = {fsid}\n\tmon host = {hosts}\n\tkeyring = {dir}/keyring\n\
         \tauth cluster required = {auth}\n\tauth service required = {auth}\n\
         \tauth client required = {auth}\n\
         \tosd crush chooseleaf type = 0\n\tosd pool default size = {size}\n\
         \tosd pool default min size = {min_size}\n\
         \n{CLIENT_SECTION}"
    );
    for role in ["mon", "osd", "mds"] {
        out.push_str(&format!(
            "\n[{role}]\n\t{role} data = {dir}/$name\n\tkeyring = {dir}/$name/keyring\n\
             \tadmin socket = {dir}/run/$name.asok\n\tpid file = {dir}/run/$name.pid\n\
             \tlog file = {dir}/log/$name.log\n"
        ));
    }
    out
}
