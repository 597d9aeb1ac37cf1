//! `nacre host`: the hosts of a cluster.

use super::terminal::Format;
use crate::cluster::{ClientArgs, PATIENCE};
use crate::host::{Member, agrees, check_drain, drain, forget, members, purge};
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use comfy_table::{Table, presets};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Args)]
pub(crate) struct HostCommands {
    #[command(subcommand)]
    command: HostCommand,
}

#[derive(Subcommand)]
enum HostCommand {
    /// List the hosts with their daemons, disks and states.
    Ls(LsArgs),
    /// Forget a host that is gone for good.
    Rm(RmArgs),
}

#[derive(Args)]
struct LsArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// The form of the output.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Args)]
struct RmArgs {
    /// The host, as `nacre host ls` names it. None of its daemons may run.
    host: String,
    /// Do it without asking.
    #[arg(long, short = 'y')]
    yes: bool,
    #[command(flatten)]
    client: ClientArgs,
}

pub(crate) fn run(args: &HostCommands) -> Result<()> {
    match &args.command {
        HostCommand::Ls(args) => ls(args),
        HostCommand::Rm(args) => rm(args),
    }
}

fn ls(args: &LsArgs) -> Result<()> {
    let cluster = client::Cluster::connect(&args.client.options()?, PATIENCE)?;
    let members = members(&cluster)?;
    match args.format {
        Format::Plain => say!("{}", table(&members)),
        Format::Json => {
            let all: Vec<Value> = members.iter().map(|(name, member)| member.json(name)).collect();
            say!("{}", Value::from(all));
        }
    }
    Ok(())
}

/// Forgets a host once everything that it stored has all its copies elsewhere.
fn rm(args: &RmArgs) -> Result<()> {
    let cluster = client::Cluster::connect(&args.client.options()?, PATIENCE)?;
    let mut members = members(&cluster)?;
    let member = members.remove(&args.host).with_context(|| {
        let known: Vec<&str> = members.keys().map(String::as_str).collect();
        format!("there is no host `{}` in the cluster: it has {}", args.host, known.join(", "))
    })?;
    let osds = member.osds.iter().filter(|osd| osd.up).map(|osd| format!("osd.{}", osd.id));
    let mons = member.mons.iter().filter(|(_, inside)| *inside).map(|(name, _)| format!("mon.{name}"));
    let mds = member.mds.iter().map(|(name, _)| format!("mds.{name}"));
    let alive: Vec<String> = osds.chain(mons).chain(mds).collect();
    if !alive.is_empty() {
        bail!(
            "{} of {} ran a moment ago: `nacre leave` there takes it out of the cluster; if it has just \
             died, try again in a minute",
            alive.join(", "),
            args.host
        );
    }
    let osds: BTreeSet<u64> = member.osds.iter().map(|osd| osd.id).collect();
    if !osds.is_empty() {
        check_drain(&cluster, &osds)?;
    }
    let question = format!("Forget {} with its {} OSDs?", args.host, osds.len());
    if !agrees(&question, args.yes)? {
        return Ok(());
    }
    if !osds.is_empty() {
        say!("nacre: waits until all that {} stored has its copies elsewhere", args.host);
        drain(&cluster, &osds)?;
    }
    osds.iter().try_for_each(|id| purge(&cluster, *id))?;
    let mons: Vec<String> = member.mons.into_iter().map(|(name, _)| name).collect();
    forget(&cluster, &args.host, &mons)?;
    say!("nacre: {} is forgotten; should it come back, erase what it has before it joins", args.host);
    Ok(())
}

/// Hosts as a table for people.
fn table(members: &BTreeMap<String, Member>) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(["HOST", "RACK", "STATE", "MON", "MDS", "OSDS", "USED"]);
    let or_dash = |text: String| if text.is_empty() { "-".to_owned() } else { text };
    for (name, member) in members {
        let quorum = |(_, inside): &(String, bool)| if *inside { "in quorum" } else { "not in quorum" };
        let up = member.osds.iter().filter(|osd| osd.up).count();
        let (size, used) = member.space();
        let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
        table.add_row([
            name.clone(),
            member.rack.clone().unwrap_or_else(|| "-".to_owned()),
            member.state().to_owned(),
            or_dash(member.mons.iter().map(quorum).collect::<Vec<_>>().join(", ")),
            or_dash(member.mds.iter().map(|(_, state)| state.as_str()).collect::<Vec<_>>().join(", ")),
            format!("{up} of {} up", member.osds.len()),
            format!("{:.1} of {:.1} GiB", gib(used), gib(size)),
        ]);
    }
    table
}
