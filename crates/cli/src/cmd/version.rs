//! `nacre version`.

use super::terminal::Format;
use anyhow::Result;
use clap::Args;
use std::io::Write;

#[derive(Args)]
pub(crate) struct VersionArgs {
    /// The form of the output.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn run(args: &VersionArgs) -> Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    let text = match args.format {
        Format::Plain => format!("nacre {version}"),
        Format::Json => serde_json::json!({ "name": "nacre", "version": version }).to_string(),
    };
    Ok(writeln!(std::io::stdout(), "{text}")?)
}
