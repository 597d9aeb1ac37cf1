//! `nacre finalize`: ends an upgrade, after which daemons may use what is new.

use super::terminal::Format;
use crate::cluster::{ClientArgs, PATIENCE, ask};
use crate::host::{agrees, query_with};
use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};

#[derive(Args)]
pub(crate) struct FinalizeArgs {
    /// Say what would be done, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Do it without asking.
    #[arg(long, short = 'y')]
    yes: bool,
    #[command(flatten)]
    client: ClientArgs,
    /// The form of the output.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn run(args: &FinalizeArgs) -> Result<()> {
    let cluster = client::Cluster::connect(&args.client.options()?, PATIENCE)?;
    // What stands in the way is the answer to this already.
    let found = query_with(&cluster, json!({ "prefix": "finalize", "dry_run": true }))?;
    let raises = found["possible"] != found["was"];
    if args.dry_run || !raises {
        return show(args.format, &found, raises);
    }
    let question = format!(
        "Use feature level {} from now on, instead of {}? No daemon can go back to the former version then.",
        found["possible"], found["was"]
    );
    if !agrees(&question, args.yes)? {
        return Ok(());
    }
    let done = ask(&cluster, &json!({ "prefix": "finalize", "format": "json" }))?;
    show(args.format, &serde_json::from_slice(&done)?, true)
}

fn show(format: Format, found: &Value, raises: bool) -> Result<()> {
    if format == Format::Json {
        say!("{found}");
        return Ok(());
    }
    let (was, possible) = (&found["was"], &found["possible"]);
    match (found["raised"] == true, raises) {
        (true, _) => {
            say!("nacre: feature level {possible} is in use: daemons may use what is new since level {was}")
        }
        (false, true) => say!("nacre: feature level {was} is in use; all daemons can do {possible}"),
        (false, false) => say!("nacre: feature level {was} is in use, the highest that the daemons can do"),
    }
    Ok(())
}
