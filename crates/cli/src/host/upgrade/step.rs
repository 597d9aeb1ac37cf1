//! One daemon's replacement: wait until it may stop, end it, wait until its successor is there and the
//! cluster is as healthy as before. `nacre run` starts what has ended, with the program that is installed.

use super::plan::{Runs, runs};
use crate::host::HostPaths;
use crate::host::query::{list, query, unclean};
use crate::host::retire::process_of;
use crate::host::wait::wait_while;
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use stdx::Bufs;
use wire::{EntityName, EntityType};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(500);
/// A refusal counts if it stands for so long although nothing in the cluster moves.
const STANDS: Duration = Duration::from_secs(10);

/// Health codes that an upgrade raises itself.
const OWN_CODES: [&str; 3] = ["DAEMON_OLD_VERSION", "OSD_UPGRADE_FINISHED", "OSDMAP_FLAGS"];

/// How an upgrade is done.
pub(crate) struct Manner {
    /// True if daemons are replaced too without which something stops for a moment.
    pub(crate) may_interrupt: bool,
    /// The time for a daemon to come back, and for the cluster to be as healthy as before.
    pub(crate) patience: Duration,
}

/// How the cluster is.
pub(super) struct Condition {
    /// The health codes that are raised, without those of upgrades.
    codes: BTreeSet<String>,
    /// The PGs that are not clean: with fewer hosts than copies, all.
    unclean: u64,
}

impl Condition {
    pub(super) fn of(cluster: &client::Cluster) -> Result<Self> {
        let health = query(cluster, "health")?;
        let checks = health["checks"].as_object();
        let codes = checks.into_iter().flatten().map(|(code, _)| code.clone());
        let codes = codes.filter(|code| !OWN_CODES.contains(&code.as_str())).collect();
        Ok(Self { codes, unclean: unclean(&query(cluster, "status")?) })
    }

    /// What is wrong that was not before.
    fn since(&self, before: &Self) -> Vec<String> {
        let new = self.codes.difference(&before.codes).cloned();
        let pgs = (self.unclean > before.unclean).then(|| "PGs that are not clean".to_owned());
        new.chain(pgs).collect()
    }
}

/// A daemon's replacement.
pub(super) struct Step<'a> {
    pub(super) cluster: &'a client::Cluster,
    pub(super) paths: &'a HostPaths,
    pub(super) name: &'a EntityName,
    /// What it is to run.
    pub(super) to: &'a Runs,
    pub(super) manner: &'a Manner,
    /// From before the upgrade.
    pub(super) before: &'a Condition,
}

impl Step<'_> {
    pub(super) fn run(&self) -> Result<()> {
        self.await_permission()?;
        let pid_file = self.paths.run_dir().join(format!("{}.pid", self.name));
        // One that has ended just now, or before an upgrade was cut short, is about to be started again.
        if let Some(pid) = process_of(&pid_file).and_then(Pid::from_raw) {
            kill_process(pid, Signal::TERM).with_context(|| format!("cannot end {}", self.name))?;
        }
        self.await_successor()?;
        self.await_health()
    }

    /// Waits until it may stop.
    fn await_permission(&self) -> Result<()> {
        let (began, mut stands) = (Instant::now(), None);
        while let Some(why) = refusal(self.cluster, self.name)? {
            if self.manner.may_interrupt {
                return Ok(());
            }
            let moves = Condition::of(self.cluster)?.unclean > self.before.unclean;
            let since = *stands.get_or_insert_with(Instant::now);
            if moves {
                stands = None;
            }
            if began.elapsed() > self.manner.patience || !moves && since.elapsed() > STANDS {
                bail!("{} can't be replaced now: {why}; --may-interrupt does it all the same", self.name);
            }
            std::thread::park_timeout(LOOK);
        }
        Ok(())
    }

    /// Waits until it is there again, as the right program.
    fn await_successor(&self) -> Result<()> {
        let is_back = || {
            matches!(runs(self.cluster, self.name), Ok(Some(found)) if found == *self.to)
                && is_up(self.cluster, self.name).unwrap_or(false)
        };
        wait_while(
            self.manner.patience,
            // While a monitor without others is away, nothing is answered.
            || Ok((!is_back()).then_some(())),
            |()| {
                format!(
                    "{} has not come back as {} within {:?}: see its log, and whether `nacre run` \
                     runs on this host and is the same program as this one",
                    self.name,
                    self.to.version(),
                    self.manner.patience
                )
            },
        )
    }

    /// Waits until nothing is wrong that was not before.
    fn await_health(&self) -> Result<()> {
        let new = || Ok(Some(Condition::of(self.cluster)?.since(self.before)).filter(|new| !new.is_empty()));
        wait_while(self.manner.patience, new, |new| {
            format!(
                "since {} was replaced there is {}: `ceph health detail` says what to do; give the command \
                 again then",
                self.name,
                new.join(", ")
            )
        })
    }
}

/// The reason why a daemon may not stop, by the monitors.
fn refusal(cluster: &client::Cluster, name: &EntityName) -> Result<Option<String>> {
    let prefix = format!("{} ok-to-stop", name.ty.name());
    let command = json!({ "prefix": prefix, "ids": [name.id] });
    let reply = cluster.command(&command.to_string(), Bufs::new())?;
    // Monitors of a former version have no such command for themselves.
    let unknown = reply.result == Err(wire::Errno::EINVAL);
    Ok(reply.result.is_err().then_some(reply.status).filter(|_| !unknown))
}

/// True if the monitors see it at work.
fn is_up(cluster: &client::Cluster, name: &EntityName) -> Result<bool> {
    Ok(match name.ty {
        EntityType::MON => {
            list(&query(cluster, "quorum_status")?["quorum_names"]).iter().any(|other| *other == name.id)
        }
        EntityType::OSD => {
            let (osds, id) = (query(cluster, "osd dump")?, name.id.parse().ok());
            list(&osds["osds"]).iter().any(|osd| osd["osd"].as_u64() == id && osd["up"] == 1)
        }
        _ => serves(&query(cluster, "fs dump")?, &name.id),
    })
}

/// True if a metadata server holds a rank or stands by.
fn serves(fs: &Value, name: &str) -> bool {
    let ranks = list(&fs["filesystems"]).iter().filter_map(|fs| fs["mdsmap"]["info"].as_object());
    ranks.flat_map(|info| info.values()).chain(list(&fs["standbys"])).any(|mds| mds["name"] == name)
}
