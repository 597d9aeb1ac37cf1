//! Where trace lines go: a file beside the data, or standard error; `NACRE_LOG` sets how much.

use anyhow::{Context, Result};
use std::fs::OpenOptions;
use std::io::IsTerminal;
use std::path::Path;
use tracing_subscriber::EnvFilter;

/// Sends trace lines to the end of `file`, or to standard error. May be called once.
pub(crate) fn start(file: Option<&Path>) -> Result<()> {
    let filter = EnvFilter::try_from_env("NACRE_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_target(false);
    match file {
        Some(path) => {
            let file = OpenOptions::new().create(true).append(true).open(path);
            let file = file.with_context(|| format!("cannot write the log {}", path.display()))?;
            builder.with_ansi(false).with_writer(std::sync::Mutex::new(file)).init();
        }
        None => builder.with_ansi(std::io::stderr().is_terminal()).with_writer(std::io::stderr).init(),
    }
    Ok(())
}
