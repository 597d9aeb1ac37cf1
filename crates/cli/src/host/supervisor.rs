//! Runs a host's daemons: starts those of the record, starts again the ones that end, and follows changes of
//! the record.

use super::care::Care;
use super::{Host, HostPaths, Stage, crash};
use crate::cluster::{DirLock, Processes, export};
use crate::signals;
use anyhow::{Result, bail};
use runtime::Notice;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};
use wire::{EntityName, EntityType};

/// Between two looks at the record.
const LOOK: Duration = Duration::from_millis(500);
/// The time before a daemon that has ended is started again: first, and at most.
const BACKOFF: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];
/// A daemon that ran for so long before it ended begins with the first time again, as does one that ended in
/// order: `nacre upgrade` asked it to, and its successor is not to wait for what came before.
const STEADY: Duration = Duration::from_secs(60);
/// The size of a sparse file for a daemon without a device: monitors have one of their own size.
const OSD_SIZE: u64 = 16 << 30;

/// Runs the daemons of this host until a signal comes or the host has left its cluster.
pub(crate) fn supervise(paths: &HostPaths) -> Result<()> {
    paths.create()?;
    let host = Host::member(paths)?;
    let _lock = DirLock::take(&paths.run_dir(), &paths.lib(), "nacre run")?;
    let (tx, notices) = mpsc::channel();
    signals::watch(tx.clone())?;
    let processes = Processes::new(paths.place());
    let mut supervisor = Supervisor { paths, host, processes, tx, daemons: BTreeMap::new(), greeted: false };
    supervisor.follow_record()?;
    let care = Care::start(paths);
    export(paths.run_dir(), supervisor.host.hostname.clone());
    let result = supervisor.run(&notices);
    care.end();
    supervisor.stop_all();
    result
}

/// A daemon of the record.
struct Watched {
    state: State,
    /// The time to wait when it ends the next time.
    backoff: Duration,
}

enum State {
    Running { since: Instant, ready: bool },
    Waiting { until: Instant },
}

struct Supervisor<'a> {
    paths: &'a HostPaths,
    host: Host,
    processes: Processes,
    tx: Sender<Notice>,
    daemons: BTreeMap<EntityName, Watched>,
    /// True once all daemons were ready and that was printed.
    greeted: bool,
}

impl Supervisor<'_> {
    fn run(&mut self, notices: &Receiver<Notice>) -> Result<()> {
        loop {
            match notices.recv_timeout(LOOK) {
                Ok(Notice::Signal) => return Ok(()),
                Ok(Notice::Ready(name)) => self.ready(&name),
                Ok(Notice::Ended(name, _)) => self.ended(&name),
                Ok(Notice::Restart(..)) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => bail!("the daemons' notices have ended"),
            }
            if !self.follow_record()? {
                say!("nacre: this host has left its cluster");
                return Ok(());
            }
            self.start_due();
        }
    }

    fn ready(&mut self, name: &EntityName) {
        if let Some(Watched { state: State::Running { ready, .. }, .. }) = self.daemons.get_mut(name) {
            *ready = true;
        }
        let all = self.daemons.values().all(|d| matches!(d.state, State::Running { ready: true, .. }));
        if all && !self.greeted {
            self.greeted = true;
            let names: Vec<String> = self.daemons.keys().map(ToString::to_string).collect();
            let Host { hostname, fsid, .. } = &self.host;
            say!("nacre: ready: host {hostname} of cluster {fsid} runs {}", names.join(", "));
        }
    }

    fn ended(&mut self, name: &EntityName) {
        // One that was stopped on purpose is not in the list any more.
        let Some(daemon) = self.daemons.get_mut(name) else { return };
        let (now, status) = (Instant::now(), self.processes.status(name));
        let in_order = status.is_some_and(|status| status.success());
        if let State::Running { since, ready } = daemon.state
            && (now.duration_since(since) >= STEADY || ready && in_order)
        {
            daemon.backoff = BACKOFF[0];
        }
        let cause = status.and_then(crash::cause);
        let how = cause.as_deref().unwrap_or("see above");
        complain!("nacre: {name} has ended ({how}); it is started again in {:?}", daemon.backoff);
        if let Some(cause) = cause
            && let Err(error) = crash::note(self.paths, &self.host, name, &cause)
        {
            complain!("nacre: {error:#}");
        }
        daemon.state = State::Waiting { until: now + daemon.backoff };
        daemon.backoff = (daemon.backoff * 2).min(BACKOFF[1]);
    }

    /// Starts the daemons whose time has come.
    fn start_due(&mut self) {
        let now = Instant::now();
        let due = |(name, daemon): (&EntityName, &Watched)| {
            matches!(daemon.state, State::Waiting { until } if until <= now).then(|| name.clone())
        };
        for name in self.daemons.iter().filter_map(due).collect::<Vec<_>>() {
            let started = self.processes.start(&name, OSD_SIZE, self.tx.clone());
            let Some(daemon) = self.daemons.get_mut(&name) else { continue };
            match started {
                Ok(()) => daemon.state = State::Running { since: now, ready: false },
                Err(error) => {
                    complain!("nacre: {name}: {error:#}; tried again in {:?}", daemon.backoff);
                    daemon.state = State::Waiting { until: now + daemon.backoff };
                    daemon.backoff = (daemon.backoff * 2).min(BACKOFF[1]);
                }
            }
        }
    }

    /// Starts what is new in the record and stops what is gone. Returns false once the host has left.
    fn follow_record(&mut self) -> Result<bool> {
        let host = match Host::read(self.paths) {
            Ok(Some(host)) => host,
            Ok(None) => return Ok(false),
            // Running daemons are worth more than a record that can't be read.
            Err(error) if !self.daemons.is_empty() => {
                complain!("nacre: {error:#}");
                return Ok(true);
            }
            Err(error) => return Err(error),
        };
        let wanted: BTreeSet<EntityName> = host.daemons().into_iter().collect();
        for name in self.daemons.keys().filter(|name| !wanted.contains(name)).cloned().collect::<Vec<_>>() {
            say!("nacre: {name} is stopped: it is no daemon of this host any more");
            self.daemons.remove(&name);
            self.processes.stop(&name);
        }
        let left = host.stage == Stage::Leaving && wanted.is_empty();
        let now = Instant::now();
        for name in wanted {
            let new = || Watched { state: State::Waiting { until: now }, backoff: BACKOFF[0] };
            self.daemons.entry(name).or_insert_with(new);
        }
        self.host = host;
        self.start_due();
        Ok(!left)
    }

    /// Ends all daemons: metadata servers first, which store in OSDs, and monitors last.
    fn stop_all(&mut self) {
        self.daemons.clear();
        for role in [EntityType::MDS, EntityType::OSD, EntityType::MON] {
            self.processes.stop_role(role);
        }
    }
}
