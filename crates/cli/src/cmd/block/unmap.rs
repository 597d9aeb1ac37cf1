//! What is mapped on this host, and its end.

use super::args::BlockArgs;
use crate::block::{Mapped, list_mapped};
use crate::cmd::terminal::Format;
use anyhow::{Context, Result, bail};
use serde_json::json;
use std::time::{Duration, Instant};

/// The time that a process may take to end.
const PATIENCE: Duration = Duration::from_secs(120);

pub(super) fn list(args: &BlockArgs) -> Result<()> {
    let all = list_mapped(&args.run_dir());
    if args.format == Format::Json {
        let rows = all.iter().map(
            |m| json!({ "image": m.image, "endpoint": m.endpoint, "pid": m.pid, "read_only": m.read_only }),
        );
        say!("{}", serde_json::Value::Array(rows.collect()));
        return Ok(());
    }
    for Mapped { image, endpoint, pid, read_only, .. } in &all {
        say!("{image}  {endpoint}  pid {pid}{}", if *read_only { "  read-only" } else { "" });
    }
    Ok(())
}

pub(super) fn run(args: &BlockArgs, what: &str) -> Result<()> {
    let dir = args.run_dir();
    let all = list_mapped(&dir);
    let path = std::path::absolute(what)?.display().to_string();
    let meant = |m: &&Mapped| m.image == what || m.endpoint == what || m.endpoint == path;
    let found: Vec<&Mapped> = all.iter().filter(meant).collect();
    let mapped = match found.as_slice() {
        [one] => *one,
        [] => bail!("`{what}` is not mapped here: `nacre block ls --mapped` shows what is"),
        _ => bail!("`{what}` is mapped several times: name one by its socket (`nacre block ls --mapped`)"),
    };
    let pid = i32::try_from(mapped.pid).ok().and_then(rustix::process::Pid::from_raw);
    let pid = pid.context("the record has no process id")?;
    rustix::process::kill_process(pid, rustix::process::Signal::TERM)
        .with_context(|| format!("cannot end process {}", mapped.pid))?;
    let began = Instant::now();
    let (_open, never) = std::sync::mpsc::channel::<()>();
    while mapped.is_there() {
        if began.elapsed() > PATIENCE {
            bail!(
                "process {} has not ended within {PATIENCE:?}: the cluster does not confirm its writes, or \
                 another client keeps the lock; a second SIGTERM ends it at once",
                mapped.pid
            );
        }
        // Nothing is ever sent: this waits.
        let _ = never.recv_timeout(Duration::from_millis(20));
    }
    Ok(())
}
