//! `nacre mount`: the file system through FUSE.

use crate::cluster::ClientArgs;
use crate::{logging, signals};
use anyhow::{Context, Result, bail};
use clap::Args;
use client::Cluster;
use runtime::Notice;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

#[derive(Args)]
pub(crate) struct MountArgs {
    /// The mount point.
    mount_point: PathBuf,
    #[command(flatten)]
    client: ClientArgs,
    /// Return once the file system is mounted.
    #[arg(long)]
    fork: bool,
    /// Refuse writes.
    #[arg(long, short = 'r')]
    read_only: bool,
    /// Admit other users [default for root].
    #[arg(long)]
    allow_other: bool,
    /// Seconds to wait for the cluster.
    #[arg(long, default_value_t = 60)]
    timeout: u64,
    /// Limit of buffered writes, beyond which writers wait.
    #[arg(long, default_value = "64M", value_parser = super::terminal::size)]
    dirty: u64,
    /// The log file [default: standard error].
    #[arg(long)]
    log: Option<PathBuf>,
}

pub(crate) fn run(args: &MountArgs) -> Result<()> {
    clean_up_dead_mount(&args.mount_point)?;
    if !args.mount_point.is_dir() {
        bail!("{} is no directory: make it first", args.mount_point.display());
    }
    if args.fork {
        return detach(args);
    }
    logging::start(args.log.as_deref())?;
    let (tx, signals) = mpsc::channel();
    signals::watch(tx)?;
    let mut options = args.client.options()?;
    options.mount = true;
    options.mount_point = args.mount_point.display().to_string();
    options.limits.dirty_bytes = args.dirty;
    let cluster = Cluster::connect(&options, Duration::from_secs(args.timeout))?;
    let allow_other = args.allow_other || rustix::process::geteuid().is_root();
    let how = fuse::Options { read_only: args.read_only, allow_other };
    let mount = fuse::Mount::new(&cluster, &args.mount_point, &how)
        .with_context(|| format!("cannot mount at {}", args.mount_point.display()))?;
    // The process that started this one may have gone.
    let _ = writeln!(std::io::stdout(), "nacre: mounted at {}", args.mount_point.display());
    let _ = std::io::stdout().flush();
    wait_and_unmount(mount, &args.mount_point, &signals)?;
    cluster.shut_down()?;
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

/// Starts this program again without `--fork`, and waits until that has mounted.
fn detach(args: &MountArgs) -> Result<()> {
    let own = std::env::current_exe()?;
    let rest = std::env::args_os().skip(1).filter(|a| a != "--fork");
    let mut command = Command::new(own);
    command.args(rest).stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
    if args.log.is_some() {
        command.stderr(Stdio::null());
    }
    let mut child = command.spawn().context("cannot start the mount process")?;
    let mut line = String::new();
    let stdout = child.stdout.take().expect("piped above");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line)?;
    if line.starts_with("nacre: mounted") {
        print!("{line}");
        return Ok(());
    }
    let status = child.wait()?;
    bail!("the mount process ended: {status}")
}
