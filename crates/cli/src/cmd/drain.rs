//! `nacre drain`: moves all data away from a host.

use crate::cluster::{ClientArgs, PATIENCE, ask};
use crate::host::{agrees, check_drain, drain, members};
use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::json;
use std::collections::BTreeSet;

#[derive(Args)]
pub(crate) struct DrainArgs {
    /// The host, as `nacre host ls` names it.
    host: String,
    /// Let it store data again.
    #[arg(long)]
    cancel: bool,
    /// Do it without asking.
    #[arg(long, short = 'y')]
    yes: bool,
    #[command(flatten)]
    client: ClientArgs,
}

pub(crate) fn run(args: &DrainArgs) -> Result<()> {
    let cluster = client::Cluster::connect(&args.client.options()?, PATIENCE)?;
    let members = members(&cluster)?;
    let known = || members.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
    let member = members
        .get(&args.host)
        .with_context(|| format!("there is no host `{}` in the cluster: it has {}", args.host, known()))?;
    let osds: BTreeSet<u64> = member.osds.iter().map(|osd| osd.id).collect();
    if osds.is_empty() {
        bail!("{} stores nothing: there is nothing to move", args.host);
    }
    let ids: Vec<String> = osds.iter().map(ToString::to_string).collect();
    if args.cancel {
        ask(&cluster, &json!({ "prefix": "osd in", "ids": ids }))?;
        say!("nacre: {} stores data again", args.host);
        return Ok(());
    }
    check_drain(&cluster, &osds)?;
    let question = format!("Move all data of {} ({} OSDs) to other hosts?", args.host, osds.len());
    if !agrees(&question, args.yes)? {
        return Ok(());
    }
    say!("nacre: {} is drained; Ctrl-C only ends the wait, `--cancel` takes it back", args.host);
    drain(&cluster, &osds)?;
    say!("nacre: nothing is needed on {} any more; its daemons still run", args.host);
    Ok(())
}
