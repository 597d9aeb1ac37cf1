//! `nacre umount`, and `umount.nacre`, by which umount(8) calls it. umount(2) returns while the process that
//! serves the mount still writes back what it has buffered, since Linux tells it of the end only afterwards.
//! This one returns when it is saved.

use super::{elsewhere, helper};
use anyhow::{Context, Result};
use clap::{Args, Parser};
use fuse::ServerProcess;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::mpsc;
use std::time::Duration;

/// The time after which the user is told that something takes long.
const SILENCE: Duration = Duration::from_secs(1);

#[derive(Args, Clone, Debug)]
pub(crate) struct UmountArgs {
    /// The mount point.
    point: PathBuf,
    /// Unmount without waiting for anything, even if the mount does not answer. Programs that wait for it get
    /// errors. What was written and not synced goes on to be saved.
    #[arg(long, short)]
    force: bool,
    /// Unmount although programs use it: they go on until they end.
    #[arg(long, short)]
    lazy: bool,
}

/// The arguments that umount(8) gives its helpers.
#[derive(Parser, Debug)]
#[command(name = "umount.nacre", disable_version_flag = true)]
struct Call {
    #[command(flatten)]
    args: UmountArgs,
    /// Say what is done.
    #[arg(short)]
    verbose: bool,
    /// Ignored: there has been no /etc/mtab for long.
    #[arg(short = 'n')]
    _no_mtab: bool,
    /// Ignored: it is not mounted read-only instead.
    #[arg(short = 'r')]
    _read_only: bool,
    /// A mount namespace: a path or a process.
    #[arg(short = 'N')]
    namespace: Option<String>,
    /// Ignored: the type is known.
    #[arg(short = 't')]
    _kind: Option<String>,
}

/// `nacre umount`.
pub(crate) fn run(args: &UmountArgs) -> Result<()> {
    carry_out(args, "nacre")
}

/// Carries a call by umount(8) out, with its exit statuses.
pub(super) fn main() -> ExitCode {
    let fails = |status: u8, why: &str| {
        eprintln!("umount.nacre: {why}");
        ExitCode::from(status)
    };
    let call = match Call::try_parse() {
        Ok(call) => call,
        Err(error) => {
            return fails(helper::INCORRECT, error.to_string().trim_start_matches("error: ").trim());
        }
    };
    let namespace = call.namespace.map(|namespace| helper::namespace(namespace.into()));
    if let Err(error) = namespace.iter().try_for_each(|namespace| helper::enter(namespace)) {
        return fails(helper::SYSTEM, &format!("{error:#}"));
    }
    if let Err(error) = carry_out(&call.args, "umount.nacre") {
        return fails(helper::FAILED, &format!("{error:#}"));
    }
    if call.verbose {
        println!("umount.nacre: {} unmounted", call.args.point.display());
    }
    ExitCode::SUCCESS
}

/// Saves everything, unmounts, and waits for the process that has served the mount.
fn carry_out(args: &UmountArgs, who: &str) -> Result<()> {
    let UmountArgs { point, force, lazy } = args;
    let unmount = |flags| {
        let done = unmount(point, flags).map_err(explained);
        done.with_context(|| format!("cannot unmount {}", point.display()))
    };
    let say = |what: String| eprintln!("{who}: {}: {what}", point.display());
    let flags = if *lazy { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    if *force {
        return unmount(flags | UnmountFlags::FORCE);
    }
    let Served { root, device, server } = match ask(point)? {
        Asked::Answers(served) => served,
        // What had been open there stays so until it is closed.
        Asked::Dead => return unmount(UnmountFlags::DETACH),
        Asked::Refuses => {
            say("only its owner may look there, so it is not waited for until everything is saved".into());
            return unmount(flags);
        }
    };
    if *lazy {
        // Others may go on for long, so their process is not waited for.
        unmount(flags)?;
        return save(root, say);
    }
    save(root, say).with_context(|| format!("{} stays mounted", point.display()))?;
    unmount(flags)?;
    match server {
        // For what was written since, and for its capabilities: others would wait for these.
        Some(server) => wait(&server, device, say),
        None => {
            say("its process cannot be seen from here, so its end is not waited for".into());
            Ok(())
        }
    }
}

/// A mount that is served.
struct Served {
    root: OwnedFd,
    device: u64,
    /// Its process, if that can be seen from here.
    server: Option<ServerProcess>,
}

/// What is known of a mount.
enum Asked {
    Answers(Served),
    /// It is another user's, who admits nobody else.
    Refuses,
    /// Its process has ended.
    Dead,
}

fn ask(point: &Path) -> Result<Asked> {
    let shown = point.display();
    // A file may be mounted too, with `--bind`.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let root = match rustix::fs::open(point, flags, Mode::empty()) {
        Ok(root) => root,
        Err(Errno::NOTCONN) => return Ok(Asked::Dead),
        Err(Errno::ACCESS) => return Ok(Asked::Refuses),
        other => other.with_context(|| format!("cannot open {shown}"))?,
    };
    let server = match ServerProcess::of(&root) {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::NOTCONN) => return Ok(Asked::Dead),
        server => server.with_context(|| shown.to_string())?,
    };
    let device = rustix::fs::fstat(&root).with_context(|| shown.to_string())?.st_dev;
    Ok(Asked::Answers(Served { root, device, server }))
}

/// Waits for the end of a process, unless it serves other mounts of the file system too.
fn wait(server: &ServerProcess, device: u64, say: impl Fn(String)) -> Result<()> {
    let mut is_told = false;
    while !server.wait(SILENCE)? {
        let pid = server.pid();
        if elsewhere::is_mounted(device) {
            say(format!("it is mounted elsewhere too, where process {pid} goes on to serve it"));
            return Ok(());
        }
        if !std::mem::replace(&mut is_told, true) {
            say(format!("waits for process {pid}, which saves the rest and leaves the cluster"));
        }
    }
    Ok(())
}

/// Has everything written back, and tells if that takes long.
fn save(root: OwnedFd, say: impl Fn(String)) -> Result<()> {
    let (tx, saved) = mpsc::channel();
    std::thread::spawn(move || {
        // fsync(2) of the mounted directory is that of everything.
        let result = rustix::fs::fsync(&root);
        drop(root);
        // The receiver waits for it.
        let _ = tx.send(result);
    });
    let result = match saved.recv_timeout(SILENCE) {
        Err(mpsc::RecvTimeoutError::Timeout) => {
            say("waits until the cluster has saved what was written".into());
            saved.recv()
        }
        result => result.map_err(|_| mpsc::RecvError),
    };
    match result? {
        Ok(()) => Ok(()),
        Err(error @ Errno::INTR) => Err(error).context("what was written is not saved yet"),
        Err(error) => {
            Err(error).context("some of what was written is lost; programs were not told of it before")
        }
    }
}

/// umount(2), or `fusermount3` if this process lacks the privilege.
pub(super) fn unmount(point: &Path, flags: UnmountFlags) -> io::Result<()> {
    match rustix::mount::unmount(point, flags) {
        Err(Errno::PERM) => {
            let mut command = Command::new("fusermount3");
            command.arg("-u").args(flags.contains(UnmountFlags::DETACH).then_some("-z")).arg(point);
            let out = command.output()?;
            let said = || String::from_utf8_lossy(&out.stderr).trim().to_owned();
            if out.status.success() { Ok(()) } else { Err(io::Error::other(said())) }
        }
        other => Ok(other?),
    }
}

/// Why [`unmount`] has failed, in words.
fn explained(error: io::Error) -> anyhow::Error {
    let what = match Errno::from_io_error(&error) {
        Some(Errno::BUSY) => "programs use it (`fuser -vm` names them); -l unmounts it all the same",
        Some(Errno::INVAL) => "nothing is mounted there",
        _ => return error.into(),
    };
    anyhow::anyhow!(what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Call, clap::Error> {
        Call::try_parse_from(std::iter::once("umount.nacre").chain(line.split_whitespace()))
    }

    #[test]
    fn calls_of_umount_are_read() {
        for line in ["/mnt", "/mnt -n -r -v", "/mnt -nrv", "-v /mnt -t fuse.nacre", "/mnt -N /run/ns"] {
            let call = parse(line).expect(line);
            assert_eq!(
                (call.args.point.to_str(), call.args.force, call.args.lazy),
                (Some("/mnt"), false, false)
            );
            assert_eq!(call.namespace.is_some(), line.contains("-N"), "{line}");
            assert_eq!(call.verbose, line.contains('v'), "{line}");
        }
        let call = parse("/mnt -fl").expect("both");
        assert!(call.args.force && call.args.lazy);
        for line in ["", "/mnt /other", "/mnt -x", "/mnt -N"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
