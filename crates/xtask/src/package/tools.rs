//! Programs that this one runs to make packages.

use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;

/// Runs a program and returns what it printed; `from` names the package to install if it is missing.
pub fn output(command: &mut Command, from: &str) -> Result<String> {
    let line = format!("{command:?}").replace('"', "");
    let ran = command.output().with_context(|| format!("cannot run {line} (Debian: {from})"))?;
    if !ran.status.success() {
        let said = [&ran.stdout[..], &ran.stderr[..]].concat();
        bail!("{line} failed:\n{}", String::from_utf8_lossy(&said).trim());
    }
    Ok(String::from_utf8_lossy(&ran.stdout).into_owned())
}

/// The time of all that is packaged: `SOURCE_DATE_EPOCH`, or that of the last commit.
pub fn epoch(root: &Path) -> Result<u64> {
    let text = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => text,
        Err(_) => output(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root), "git")
            .context("set SOURCE_DATE_EPOCH to the time of this source, in seconds since 1970")?,
    };
    text.trim().parse().with_context(|| format!("`{}` is no number of seconds", text.trim()))
}

/// A time in UTC, in a format of date(1).
pub fn date(epoch: u64, format: &str) -> Result<String> {
    let mut command = Command::new("date");
    command.args(["--utc", &format!("+{format}"), "--date", &format!("@{epoch}")]).env("LC_ALL", "C");
    Ok(output(&mut command, "coreutils")?.trim().to_owned())
}

/// A directory that is removed with everything below it.
pub struct Scratch(pub std::path::PathBuf);

impl Scratch {
    pub fn new(out: &Path, what: &str) -> Result<Self> {
        let dir = out.join(format!(".{what}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        Ok(Self(dir))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left over does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
