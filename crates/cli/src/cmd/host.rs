//! `nacre host`: the hosts of a cluster.

use super::terminal::Format;
use crate::cluster::{ClientArgs, PATIENCE};
use crate::host::{Member, members};
use anyhow::Result;
use clap::{Args, Subcommand};
use comfy_table::{Table, presets};
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Args)]
pub(crate) struct HostCommands {
    #[command(subcommand)]
    command: HostCommand,
}

#[derive(Subcommand)]
enum HostCommand {
    /// List the hosts with their daemons, disks and states.
    Ls(LsArgs),
}

#[derive(Args)]
struct LsArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// The form of the output.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn run(args: &HostCommands) -> Result<()> {
    let HostCommand::Ls(args) = &args.command;
    let cluster = client::Cluster::connect(&args.client.options()?, PATIENCE)?;
    let members = members(&cluster)?;
    match args.format {
        Format::Plain => println!("{}", table(&members)),
        Format::Json => {
            let all: Vec<Value> = members.iter().map(|(name, member)| member.json(name)).collect();
            println!("{}", Value::from(all));
        }
    }
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
