//! `nacre status`.

use super::terminal::Format;
use crate::cluster::{ClientArgs, PATIENCE, ask};
use anyhow::Result;
use clap::Args;
use serde_json::json;
use std::io::Write;

#[derive(Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// The form of the output.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn run(args: &StatusArgs) -> Result<()> {
    let format = match args.format {
        Format::Plain => "plain",
        Format::Json => "json",
    };
    let cluster = client::Cluster::connect(&args.client.options()?, PATIENCE)?;
    let output = ask(&cluster, &json!({ "prefix": "status", "format": format }))?;
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(&output)?;
    if !output.ends_with(b"\n") {
        stdout.write_all(b"\n")?;
    }
    Ok(())
}
