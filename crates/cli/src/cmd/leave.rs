//! `nacre leave`: takes this host out of its cluster.

use crate::cluster::advise;
use crate::host::{
    Host, HostPaths, MemberArgs, Stage, agrees, check_drain, drain, forget, list, query, remove_dir, retire,
    stop_unit, wait_for_end,
};
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use wire::{EntityName, EntityType};

pub(crate) fn run(args: &MemberArgs) -> Result<()> {
    let paths = HostPaths::new(&args.root)?;
    let mut host = Host::member(&paths)?;
    let cluster = paths.administer(args.keyring.as_deref())?;
    let osds: BTreeSet<u64> = host.osds.iter().filter_map(|osd| osd.id).map(u64::from).collect();
    check(&cluster, &host, &osds)?;
    say!("nacre: {} leaves cluster {}:", host.hostname, host.fsid);
    say!("  1. the data of its {} OSDs moves to other hosts", osds.len());
    say!("  2. its daemons are stopped and forgotten, its disks erased");
    say!("  3. {} and its files below {} are removed", paths.conf().display(), paths.lib().display());
    if host.stage != Stage::Leaving && !agrees("Go on?", args.yes)? {
        return Ok(());
    }
    host.stage = Stage::Leaving;
    host.write(&paths)?;
    if !osds.is_empty() {
        drain(&cluster, &osds)?;
    }
    leave(&cluster, &paths, &mut host)
}

/// Refuses what would leave the others without data, quorum or metadata server.
fn check(cluster: &client::Cluster, host: &Host, osds: &BTreeSet<u64>) -> Result<()> {
    if host.mon {
        let quorum = query(cluster, "quorum_status")?;
        let all = list(&quorum["monmap"]["mons"]).len();
        let others = list(&quorum["quorum_names"]).iter().filter(|name| **name != *host.hostname).count();
        if all < 2 {
            bail!("mon.{} is the only monitor: without it there is no cluster", host.hostname);
        }
        let rest = all - 1;
        if others * 2 <= rest {
            bail!(
                "only {others} of the {rest} other monitors are in the quorum: bring the rest \
                 back first, or they could not agree on anything"
            );
        }
    }
    if host.mds {
        let fs = query(cluster, "fs dump")?;
        let ranks = list(&fs["filesystems"]).iter().filter_map(|fs| fs["mdsmap"]["info"].as_object());
        let all = ranks.flat_map(|info| info.values()).chain(list(&fs["standbys"]));
        let others = all.filter(|mds| mds["name"] != *host.hostname).count();
        if others == 0 && !list(&fs["filesystems"]).is_empty() {
            bail!("mds.{} is the only metadata server: start another one first", host.hostname);
        }
    }
    if osds.is_empty() { Ok(()) } else { check_drain(cluster, osds) }
}

/// Stops and forgets the daemons, and removes the files. Each step can be done again.
fn leave(cluster: &client::Cluster, paths: &HostPaths, host: &mut Host) -> Result<()> {
    let own = |ty| EntityName::new(ty, host.hostname.as_str());
    let (mon, mds) = (own(EntityType::MON), own(EntityType::MDS));
    // OSDs that were never registered hold nothing.
    host.osds.retain(|osd| osd.id.is_some());
    host.mds = false;
    let ids: Vec<u32> = host.osds.iter().filter_map(|osd| osd.id).collect();
    retire(cluster, paths, host, &ids)?;
    let mons: Vec<String> = host.mon.then(|| host.hostname.clone()).into_iter().collect();
    wait_for_end(paths, &mds)?;
    forget(cluster, &host.hostname, &mons)?;
    remove_dir(&paths.daemon(&mds))?;
    host.mon = false;
    host.write(paths)?;
    stop_unit(paths)?;
    remove_dir(&paths.daemon(&mon))?;
    for file in [paths.conf(), paths.admin_keyring(), paths.record()] {
        match std::fs::remove_file(&file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(advise("remove", &file, error)).context("everything else is done");
            }
            _ => {}
        }
    }
    say!("nacre: {} has left the cluster", host.hostname);
    Ok(())
}
