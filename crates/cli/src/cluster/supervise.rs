//! Daemons that are processes of their own, started and ended by this one: `nacre dev --separate`, `nacre
//! run`.

use super::layout::{Layout, Place};
use anyhow::{Context, Result, bail};
use runtime::Notice;
use rustix::process::{Pid, Signal};
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};
use wire::{EntityName, EntityType};

/// The line that a daemon prints on its standard output once it is ready.
pub(crate) fn ready_line(name: &EntityName) -> String {
    format!("{name}: ready")
}

/// Running daemons. Dropping it ends them and waits, also for those that were started again by hand.
pub(crate) struct Processes {
    place: Place,
    /// The own program, as it was found at the start: an upgrade puts another file in its place.
    program: Option<PathBuf>,
    children: Vec<(EntityName, Child)>,
}

/// A mount in a process of its own. Dropping it unmounts and waits; that must happen before the daemons end.
pub(crate) struct MountProcess(Child);

impl MountProcess {
    /// Mounts the cluster's file system at `point` and waits until it is mounted.
    pub(crate) fn start(layout: &Layout, point: &Path) -> Result<Self> {
        let log = layout.log("mount");
        let errors = OpenOptions::new().create(true).append(true).open(&log);
        let errors = errors.with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = Command::new(std::env::current_exe().context("cannot find the own program")?);
        command.arg("mount").arg(point).arg("--conf").arg(layout.conf());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors).process_group(0);
        // SAFETY: prctl is async-signal-safe and touches only the child.
        unsafe { command.pre_exec(end_with_parent) };
        let mut child = command.spawn().context("cannot start the mount's process")?;
        let mut said = String::new();
        BufReader::new(child.stdout.take().context("standard output is piped")?).read_line(&mut said)?;
        if said.is_empty() {
            // It has closed its output, so it is ending already.
            let _ = child.wait();
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            let why = text.lines().rfind(|line| line.starts_with("nacre: ")).unwrap_or("nacre: it ended");
            bail!("cannot mount at {}: {}", point.display(), why.trim_start_matches("nacre: "));
        }
        Ok(Self(child))
    }
}

impl Drop for MountProcess {
    fn drop(&mut self) {
        end(&mut self.0);
    }
}

/// Asks a child to end and waits; kills it if it takes too long.
fn end(child: &mut Child) {
    ask_to_end(child);
    wait_or_kill(child, Instant::now() + PATIENCE);
}

/// The same for several at once.
fn end_all(children: impl Iterator<Item = (EntityName, Child)>) {
    let mut children: Vec<Child> = children.map(|(_, child)| child).collect();
    children.iter().for_each(ask_to_end);
    let deadline = Instant::now() + PATIENCE;
    children.iter_mut().for_each(|child| wait_or_kill(child, deadline));
}

fn ask_to_end(child: &Child) {
    if let Some(pid) = Pid::from_raw(child.id() as i32) {
        // It may have ended already.
        let _ = rustix::process::kill_process(pid, Signal::TERM);
    }
}

fn wait_or_kill(child: &mut Child, deadline: Instant) {
    while !matches!(child.try_wait(), Ok(Some(_)) | Err(_)) {
        if Instant::now() > deadline {
            // It is gone in any case.
            let _ = child.kill();
            let _ = child.wait();
            return;
        }
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

/// The time that a daemon has for ending before it is killed.
const PATIENCE: Duration = Duration::from_secs(5);

/// Has a child killed with its parent: a daemon that outlived it would keep the data from the next start.
fn end_with_parent() -> std::io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM)).map_err(Into::into)
}

impl Processes {
    /// No daemons yet.
    pub(crate) fn new(place: Place) -> Self {
        Self { place, program: std::env::current_exe().ok(), children: Vec::new() }
    }

    /// Starts a daemon; `notices` hears when it is ready, and of its end, which does not end the others: it
    /// may be started again, by this or by hand.
    pub(crate) fn start(&mut self, name: &EntityName, osd_size: u64, notices: Sender<Notice>) -> Result<()> {
        let log = self.place.log(name)?;
        let mut command = Command::new(self.program.as_ref().context("cannot find the own program")?);
        command
            .args([name.ty.name(), "--conf"])
            .arg(&self.place.conf)
            .args(["--id", &name.id, "--osd-size", &osd_size.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            // Ctrl-C in the terminal is for this process, which ends the daemons in order.
            .process_group(0);
        // SAFETY: prctl is async-signal-safe and touches only the child.
        unsafe { command.pre_exec(end_with_parent) };
        let mut child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        let stdout = child.stdout.take().context("standard output is piped")?;
        let (name_there, line) = (name.clone(), ready_line(name));
        std::thread::Builder::new().name(format!("watch-{name}")).spawn(move || {
            for said in BufReader::new(stdout).lines().map_while(Result::ok) {
                if said == line {
                    // Nobody listens any more if this process is ending.
                    let _ = notices.send(Notice::Ready(name_there.clone()));
                }
            }
            let _ = notices.send(Notice::Ended(name_there, Err("the process has ended, see its log".into())));
        })?;
        // Its former process has ended, as the notice said: it is only waited for.
        for (_, former) in self.children.extract_if(.., |(other, _)| other == name) {
            let mut former = former;
            wait_or_kill(&mut former, Instant::now() + PATIENCE);
        }
        self.children.push((name.clone(), child));
        Ok(())
    }

    /// The status of a daemon that has ended.
    pub(crate) fn status(&mut self, name: &EntityName) -> Option<ExitStatus> {
        let (_, child) = self.children.iter_mut().find(|(other, _)| other == name)?;
        // Its output is closed already: it ends now.
        wait_or_kill(child, Instant::now() + PATIENCE);
        child.try_wait().ok()?
    }

    /// Ends a daemon and waits.
    pub(crate) fn stop(&mut self, name: &EntityName) {
        end_all(self.children.extract_if(.., |(other, _)| other == name));
    }

    /// Ends all daemons of a role and waits.
    pub(crate) fn stop_role(&mut self, role: EntityType) {
        end_all(self.children.extract_if(.., |(name, _)| name.ty == role));
    }

    /// The process in the daemon's pid file, if it is a daemon of this cluster.
    fn running(&self, name: &EntityName) -> Option<Pid> {
        let pid = std::fs::read_to_string(self.place.run_dir.join(format!("{name}.pid"))).ok()?;
        let pid = Pid::from_raw(pid.trim().parse().ok()?)?;
        let line = std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).ok()?;
        let conf = &self.place.conf;
        let mut words = line.split(|b| *b == 0);
        words.any(|word| Path::new(std::ffi::OsStr::from_bytes(word)) == conf).then_some(pid)
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for (name, child) in &self.children {
            let own = Pid::from_raw(child.id() as i32);
            for pid in own.into_iter().chain(self.running(name).filter(|pid| Some(*pid) != own)) {
                // It may have ended already.
                let _ = rustix::process::kill_process(pid, Signal::TERM);
            }
        }
        let deadline = Instant::now() + PATIENCE;
        for (_, child) in &mut self.children {
            wait_or_kill(child, deadline);
        }
    }
}
