//! The process of a mount: connects, mounts, and serves until somebody unmounts it.

use super::settings::Settings;
use crate::{logging, signals};
use anyhow::{Context, Result, bail};
use client::Cluster;
use runtime::Notice;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

/// Mounts and serves. `detached`: alone, in no terminal, once it is mounted.
pub(super) fn run(settings: &Settings, detached: bool) -> Result<()> {
    let point = &settings.point;
    if detached {
        // It may be one already, if somebody started it that way.
        let _ = rustix::process::setsid();
    }
    clean_up_dead_mount(point)?;
    if !point.is_dir() {
        bail!("{} is no directory: make it first", point.display());
    }
    if !detached || settings.log.is_some() {
        logging::start(settings.log.as_deref())?;
    }
    let (tx, signals) = mpsc::channel();
    signals::watch(tx)?;
    for note in &settings.parsed.notes {
        eprintln!("nacre: {note}");
    }
    let cluster = Cluster::connect(&settings.client()?, Duration::from_secs(settings.timeout))?;
    let mount = fuse::Mount::new(&cluster, point, &settings.fuse())
        .with_context(|| format!("cannot mount at {}", point.display()))?;
    let told = tell(point);
    if detached {
        // Who waited for the mount and gave up does not want it any more.
        told.context("nobody waits for the mount")?;
        leave_terminal()?;
    }
    wait_and_unmount(mount, point, &signals)?;
    cluster.shut_down()?;
    Ok(())
}

/// Tells whoever started this process that the file system can be used.
fn tell(point: &Path) -> std::io::Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "nacre: mounted at {}", point.display())?;
    out.flush()
}

/// Holds nothing of the place that it was started in: no directory, terminal or pipe.
fn leave_terminal() -> Result<()> {
    std::env::set_current_dir("/")?;
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}

/// Serves until somebody unmounts it; a signal unmounts it too.
fn wait_and_unmount(mount: fuse::Mount, point: &Path, signals: &mpsc::Receiver<Notice>) -> Result<()> {
    let (tx, done) = mpsc::channel();
    let thread = std::thread::Builder::new().name("fuse-wait".into()).spawn(move || {
        let result = mount.wait();
        // The receiver lives until it has heard this or a signal.
        let _ = tx.send(result);
    })?;
    loop {
        match done.recv_timeout(Duration::from_millis(200)) {
            Ok(result) => {
                drop(thread.join());
                return result.context("the mount ended");
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(()),
        }
        if signals.try_recv().is_ok() {
            unmount(point)?;
        }
    }
}

/// Unmounts at once, or when nobody uses the mount any more.
fn unmount(path: &Path) -> Result<()> {
    use rustix::mount::{UnmountFlags, unmount};
    let shown = path.display();
    match unmount(path, UnmountFlags::empty()) {
        Err(rustix::io::Errno::BUSY) => {
            eprintln!("nacre: {shown} is in use: it ends when nobody uses it any more");
            unmount(path, UnmountFlags::DETACH).with_context(|| format!("cannot unmount {shown}"))
        }
        Err(rustix::io::Errno::PERM) => {
            // Without privileges the helper that mounted it has to unmount it.
            let status = Command::new("fusermount3").args(["-u", "-z"]).arg(path).status();
            let done = status.context("cannot run fusermount3")?.success();
            if done { Ok(()) } else { bail!("fusermount3 cannot unmount {shown}") }
        }
        // It is unmounted already.
        Err(rustix::io::Errno::INVAL) => Ok(()),
        other => other.with_context(|| format!("cannot unmount {shown}")),
    }
}

/// Unmounts a mount point whose process was killed: it answers ENOTCONN to everything.
fn clean_up_dead_mount(path: &Path) -> Result<()> {
    // Attributes would come from Linux's cache for a while. It never answers this by itself.
    match rustix::fs::statfs(path) {
        Err(rustix::io::Errno::NOTCONN) => rustix::mount::unmount(path, rustix::mount::UnmountFlags::DETACH)
            .with_context(|| format!("{} is a dead mount and cannot be unmounted", path.display())),
        _ => Ok(()),
    }
}
