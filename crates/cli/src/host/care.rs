//! What a running host does for its cluster beside running daemons: it keeps the monitors in its
//! configuration file up to date, files reports of crashes, and raises `min_size` once there are enough
//! hosts.

use super::conf::refresh_monitors;
use super::crash;
use super::query::{hosts_up, list, query, query_with, unclean};
use super::{Host, HostPaths, Stage, monitors};
use crate::cluster::{PATIENCE, ask};
use anyhow::Result;
use serde_json::{Value, json};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;
use wire::{EntityName, EntityType};

/// Between two rounds. The monitors' map is small, and a round is three commands.
const PERIOD: Duration = Duration::from_secs(5);
/// The option by which `nacre init` marks a cluster that has fewer hosts than its pools want copies: pools
/// begin with it.
pub(crate) const FEW_HOSTS: &str = "osd_pool_default_min_size";
/// The hosts with running OSDs from which on one may fail while each write still has two copies.
const ENOUGH_HOSTS: usize = 3;

/// The thread that does it.
pub(crate) struct Care {
    stop: Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Care {
    /// Starts it.
    pub(crate) fn start(paths: &HostPaths) -> Self {
        let (stop, stopped) = mpsc::channel();
        let paths = paths.clone();
        let thread = std::thread::Builder::new().name("care".into()).spawn(move || work(&paths, &stopped));
        if let Err(error) = &thread {
            complain!("nacre: no thread to look after the configuration file: {error}");
        }
        Self { stop, thread: thread.ok() }
    }

    /// Ends it, once its round is over; without waiting for monitors that do not answer.
    pub(crate) fn end(self) {
        drop(self.stop);
        if let Some(thread) = self.thread.filter(JoinHandle::is_finished) {
            // It ends by itself; nothing is to be learnt from how.
            let _ = thread.join();
        }
    }
}

/// Rounds until the host stops.
fn work(paths: &HostPaths, stopped: &Receiver<()>) {
    let mut cluster = None;
    while stopped.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
        if let Err(error) = round(paths, &mut cluster) {
            tracing::debug!("{error:#}");
            // The next round connects anew, to the monitors that the file names then.
            cluster = None;
        }
    }
}

fn round(paths: &HostPaths, cluster: &mut Option<client::Cluster>) -> Result<()> {
    let host = Host::member(paths)?;
    if host.stage == Stage::Leaving {
        // `nacre leave` removes the file.
        return Ok(());
    }
    if cluster.is_none() {
        let Some(name) = identity(&host) else { return Ok(()) };
        let mut options = client::Options::new(paths.conf());
        options.keyring = Some(paths.daemon(&name).join("keyring"));
        options.name = name;
        options.hostname.clone_from(&host.hostname);
        *cluster = Some(client::Cluster::connect(&options, PATIENCE)?);
    }
    let Some(cluster) = cluster else { return Ok(()) };
    refresh_monitors(paths, &monitors(cluster)?)?;
    crash::file_all(paths, cluster);
    if host.mds { raise_min_size(cluster) } else { Ok(()) }
}

/// The daemon whose key is used: that of a metadata server, with its manager, allows all of it; any other
/// allows to see the monitors.
fn identity(host: &Host) -> Option<EntityName> {
    let daemons = host.daemons();
    let of = |role| daemons.iter().find(|name| name.ty == role).cloned();
    of(EntityType::MDS).or_else(|| of(EntityType::OSD))
}

/// Ends the time in which one copy had to be enough: when three hosts have OSDs that run and all PGs have all
/// their copies, pools want two for a write, as they do in a cluster that was born large.
fn raise_min_size(cluster: &client::Cluster) -> Result<()> {
    let dump = query(cluster, "config dump")?;
    let marked = |option: &Value| option["name"] == FEW_HOSTS && option["section"] == "global";
    if !list(&dump).iter().any(marked) {
        return Ok(());
    }
    let enough = hosts_up(&query(cluster, "osd tree")?) >= ENOUGH_HOSTS;
    if !enough || unclean(&query(cluster, "status")?) > 0 {
        return Ok(());
    }
    let pools = query_with(cluster, json!({ "prefix": "osd pool ls", "detail": "detail" }))?;
    for pool in list(&pools) {
        let (Some(name), Some(1), Some(3..)) =
            (pool["pool_name"].as_str(), pool["min_size"].as_u64(), pool["size"].as_u64())
        else {
            continue;
        };
        ask(cluster, &json!({ "prefix": "osd pool set", "pool": name, "var": "min_size", "val": "2" }))?;
    }
    ask(cluster, &json!({ "prefix": "config rm", "who": "global", "name": FEW_HOSTS })).map(drop)
}
