//! The unit of systemd that runs a host's daemons, where there is systemd. A package brings it along; whoever
//! copied the program by hand has it written.

use super::HostPaths;
use crate::cluster::files;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

const UNIT: &str = "nacre.service";
/// The packages' unit. Another program than theirs gets the same one with its own path.
const TEXT: &str = include_str!("../../../../packaging/nacre.service");
const PACKAGED_PROGRAM: &str = "/usr/bin/nacre";
/// Where units of administrators are, and ours without a package.
const OWN_DIR: &str = "etc/systemd/system";
/// Where packages put theirs.
const PACKAGED_DIRS: [&str; 2] = ["usr/lib/systemd/system", "lib/systemd/system"];

/// True if this host is started by systemd.
fn is_here(paths: &HostPaths) -> bool {
    paths.is_machine() && Path::new("/run/systemd/system").is_dir()
}

/// Has systemd run the host's daemons, now and from each boot on. Returns false where there is no systemd.
pub(crate) fn hand_over(paths: &HostPaths) -> Result<bool> {
    if !is_here(paths) {
        return Ok(false);
    }
    let program = std::env::current_exe().context("cannot find the own program")?;
    let root = Path::new("/");
    if !is_served(root, &program) {
        files::write(&root.join(OWN_DIR).join(UNIT), &unit(&program), 0o644)?;
    }
    systemctl(&["daemon-reload"])?;
    systemctl(&["enable", UNIT])?;
    systemctl(&["restart", UNIT])?;
    Ok(true)
}

/// Has systemd stop the host's daemons for good. A package's unit stays, as its program does.
pub(crate) fn stop(paths: &HostPaths) -> Result<()> {
    let root = Path::new("/");
    if !is_here(paths) || effective(root).is_none() {
        return Ok(());
    }
    systemctl(&["disable", "--now", UNIT])?;
    let own = root.join(OWN_DIR).join(UNIT);
    if own.exists() && packaged(root).is_none() {
        std::fs::remove_file(&own).with_context(|| format!("cannot remove {}", own.display()))?;
    }
    systemctl(&["daemon-reload"])
}

/// The unit that runs `program`.
fn unit(program: &Path) -> String {
    TEXT.replace(PACKAGED_PROGRAM, &program.display().to_string())
}

/// The package's unit.
fn packaged(root: &Path) -> Option<PathBuf> {
    PACKAGED_DIRS.iter().map(|dir| root.join(dir).join(UNIT)).find(|path| path.is_file())
}

/// The unit that systemd reads: that of an administrator hides the package's.
fn effective(root: &Path) -> Option<PathBuf> {
    Some(root.join(OWN_DIR).join(UNIT)).filter(|path| path.is_file()).or_else(|| packaged(root))
}

/// True if the unit that systemd reads is a package's, or an administrator's above a package's, and runs
/// `program`. One that is there without a package is ours, of some former version, and is written anew.
fn is_served(root: &Path, program: &Path) -> bool {
    let starts = format!("ExecStart={} run", program.display());
    let text = effective(root).and_then(|path| std::fs::read_to_string(path).ok());
    packaged(root).is_some() && text.is_some_and(|text| text.lines().any(|line| line == starts))
}

fn systemctl(args: &[&str]) -> Result<()> {
    let ran = Command::new("systemctl").args(args).output().context("cannot run systemctl")?;
    if !ran.status.success() {
        bail!("systemctl {}: {}", args.join(" "), String::from_utf8_lossy(&ran.stderr).trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, dir: &str, text: &str) {
        std::fs::create_dir_all(root.join(dir)).expect("makes a directory");
        std::fs::write(root.join(dir).join(UNIT), text).expect("writes");
    }

    #[test]
    fn the_packaged_unit_is_used_by_the_packaged_program_only() {
        let root = tempfile::tempdir().expect("a directory");
        let (packaged, copied) = (Path::new(PACKAGED_PROGRAM), Path::new("/usr/local/bin/nacre"));
        let served = |program| is_served(root.path(), program);
        assert!(!served(packaged), "there is no unit");
        for dir in PACKAGED_DIRS {
            write(root.path(), dir, TEXT);
            assert!(served(packaged) && !served(copied), "{dir}");
            std::fs::remove_file(root.path().join(dir).join(UNIT)).expect("removes");
        }
        write(root.path(), OWN_DIR, TEXT);
        assert!(!served(packaged), "a former version's, of which no package keeps account");
    }

    #[test]
    fn an_administrators_unit_above_the_packaged_one_is_kept_if_it_runs_this_program() {
        let root = tempfile::tempdir().expect("a directory");
        write(root.path(), PACKAGED_DIRS[0], TEXT);
        write(root.path(), OWN_DIR, &format!("{TEXT}\n# mine\n"));
        assert!(is_served(root.path(), Path::new(PACKAGED_PROGRAM)));
        write(root.path(), OWN_DIR, &unit(Path::new("/opt/nacre")));
        assert!(!is_served(root.path(), Path::new(PACKAGED_PROGRAM)), "it runs another one");
    }
}
