//! Trace lines, which go to a file beside the data or to standard error; `NACRE_LOG` sets their level.

use anyhow::{Context, Result};
use std::fs::OpenOptions;
use std::io::IsTerminal;
use std::path::Path;
use tracing_subscriber::EnvFilter;

/// Appends trace lines to `file`, or sends them to standard error. May be called once.
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
