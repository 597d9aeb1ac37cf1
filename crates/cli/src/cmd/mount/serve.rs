//! The process of a mount: connects, mounts, and serves until somebody unmounts it.

use super::settings::Settings;
use super::umount;
use super::utab::Registered;
use crate::{logging, signals};
use anyhow::{Context, Result, bail};
use client::{Caller, Cluster, Fs, FsRequest, Reply};
use runtime::Notice;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::io::Write;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Who waits longer than this for the end of a mount is told why.
const SAVE_PATIENCE: Duration = Duration::from_secs(5);

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
    let options = settings.fuse();
    let mount = fuse::Mount::new(&cluster, point, &options)
        .with_context(|| format!("cannot mount at {}", point.display()))?;
    let registered = Registered::new(&options.source, point).unwrap_or_else(|error| {
        eprintln!("nacre: {error:#}");
        None
    });
    let told = tell(point);
    if detached {
        // Who waited for the mount and gave up does not want it any more.
        told.context("nobody waits for the mount")?;
        leave_terminal()?;
    }
    let fs = cluster.fs();
    wait_and_unmount(mount, &fs, point, &signals)?;
    drop(registered);
    let saved = save(&fs, point, &signals)?;
    cluster.shut_down()?;
    saved.map_err(lost)
}

/// Saves everything, for as long as it takes; an error of the client tells what is lost. The first signal is
/// that of a host that shuts down, or of a user: it says how to give up, and the next one does that.
fn save(fs: &Fs, point: &Path, signals: &mpsc::Receiver<Notice>) -> Result<Result<(), client::Errno>> {
    let (tx, saved) = mpsc::channel();
    let done = move |result: Reply| {
        // The receiver lives until it has heard this or two signals.
        let _ = tx.send(result);
    };
    fs.submit(Caller::default(), FsRequest::Sync, done);
    let (shown, began) = (point.display(), Instant::now());
    let (mut is_told, mut is_asked) = (false, false);
    loop {
        match saved.recv_timeout(Duration::from_millis(200)) {
            Ok(result) => return Ok(result.map(drop)),
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => bail!("the client has ended before all was saved"),
        }
        if signals.try_recv().is_ok() {
            if is_asked {
                bail!("{shown}: given up by a second signal: what was not saved is lost");
            }
            (is_asked, is_told) = (true, true);
            eprintln!("nacre: {shown}: what was written is not saved yet; a second signal gives it up");
        } else if !is_told && began.elapsed() >= SAVE_PATIENCE {
            is_told = true;
            eprintln!(
                "nacre: {shown}: it is unmounted, and waits until the cluster has saved what was written"
            );
        }
    }
}

fn lost(errno: client::Errno) -> anyhow::Error {
    let error = std::io::Error::from_raw_os_error(errno.get());
    anyhow::Error::new(error).context("some of what was written is lost")
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
fn wait_and_unmount(
    mount: fuse::Mount,
    fs: &Fs,
    point: &Path,
    signals: &mpsc::Receiver<Notice>,
) -> Result<()> {
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
            unmount(fs, point)?;
        }
    }
}

/// Unmounts at once, or when nobody uses the mount any more. That may be too late if the host shuts down: so
/// what was written until now is saved now.
fn unmount(fs: &Fs, path: &Path) -> Result<()> {
    let shown = path.display();
    match umount::unmount(path, UnmountFlags::empty()) {
        Ok(()) => return Ok(()),
        // It is unmounted already.
        Err(error) if Errno::from_io_error(&error) == Some(Errno::INVAL) => return Ok(()),
        Err(error) => eprintln!("nacre: {shown}: {error}; it ends when nobody uses it any more"),
    }
    umount::unmount(path, UnmountFlags::DETACH).with_context(|| format!("cannot unmount {shown}"))?;
    let point = path.to_owned();
    fs.submit(Caller::default(), FsRequest::Sync, move |saved| {
        let saved = saved.map_or_else(|e| format!("{:#}", lost(e)), |_| "what was written is saved".into());
        eprintln!("nacre: {}: {saved}", point.display());
    });
    Ok(())
}

/// Unmounts a mount point whose process was killed: it answers ENOTCONN to everything.
fn clean_up_dead_mount(path: &Path) -> Result<()> {
    // Attributes would come from Linux's cache for a while. It never answers this by itself.
    match rustix::fs::statfs(path) {
        Err(Errno::NOTCONN) => rustix::mount::unmount(path, UnmountFlags::DETACH)
            .with_context(|| format!("{} is a dead mount and cannot be unmounted", path.display())),
        _ => Ok(()),
    }
}
