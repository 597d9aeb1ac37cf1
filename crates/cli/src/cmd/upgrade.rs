//! `nacre upgrade`: replaces the daemons of this host by those of this program.

use super::terminal::Format;
use crate::cluster::build;
use crate::host::{Host, HostPaths, Manner, MemberArgs, Planned, agrees, plan, query, refusal, upgrade};
use anyhow::{Result, bail};
use clap::Args;
use serde_json::json;
use std::time::Duration;

#[derive(Args)]
pub(crate) struct UpgradeArgs {
    /// Show which daemons would be replaced, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Replace daemons too without which nothing can be read or written for a moment.
    #[arg(long)]
    may_interrupt: bool,
    /// The seconds that each daemon has for coming back, and the cluster for being as healthy as before.
    #[arg(long, default_value_t = 600)]
    timeout: u64,
    /// The form of the output.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    member: MemberArgs,
}

pub(crate) fn run(args: &UpgradeArgs) -> Result<()> {
    let paths = HostPaths::new(&args.member.root)?;
    let host = Host::member(&paths)?;
    let cluster = paths.administer(args.member.keyring.as_deref())?;
    let build = build();
    if let Some(why) = refusal(&cluster, &build) {
        bail!("{why}");
    }
    let planned = plan(&cluster, &host, &build)?;
    if args.format == Format::Plain {
        for Planned { name, from, to } in &planned {
            say!("  {name}: {from}, is to be {to}");
        }
    }
    if args.dry_run {
        return show(args, &host, &planned, None);
    }
    let question = format!("Replace these {} daemons, one after another?", planned.len());
    if !planned.is_empty() && !agrees(&question, args.member.yes)? {
        return Ok(());
    }
    let manner = Manner { may_interrupt: args.may_interrupt, patience: Duration::from_secs(args.timeout) };
    upgrade(&cluster, (&paths, &host), &planned, &build, &manner)?;
    let versions = query(&cluster, "versions")?["overall"].as_object().map_or(0, serde_json::Map::len);
    show(args, &host, &planned, Some(versions))
}

/// Says what was done, or would be; `versions` is how many there are in the cluster now.
fn show(args: &UpgradeArgs, host: &Host, planned: &[Planned], versions: Option<usize>) -> Result<()> {
    let version = build().version;
    if args.format == Format::Json {
        let one = |p: &Planned| json!({ "name": p.name.to_string(), "from": p.from, "to": p.to });
        let daemons: Vec<_> = planned.iter().map(one).collect();
        say!(
            "{}",
            json!({
                "hostname": host.hostname, "version": version, "daemons": daemons,
                "replaced": versions.is_some(), "versions_in_cluster": versions,
            })
        );
        return Ok(());
    }
    let hostname = &host.hostname;
    match (versions, planned.len()) {
        (_, 0) => say!("nacre: all daemons of {hostname} run {version}"),
        (None, count) => say!("nacre: {count} daemons of {hostname} would be replaced"),
        (Some(_), count) => say!("nacre: {count} daemons of {hostname} were replaced"),
    }
    match versions {
        Some(1) => say!("nacre: all daemons of the cluster run it; `nacre finalize` ends the upgrade"),
        Some(_) => {
            say!("nacre: `ceph health detail` lists the daemons of other hosts that do not run it yet")
        }
        None => {}
    }
    Ok(())
}
