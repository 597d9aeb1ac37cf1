//! Hosts: a node's state in the world, which outlives the node's process.

use super::{Boot, Due, EPOCH, HostId, HostSpec, HostState, What, World};
use crate::disk::{Crash, SECTOR, SimDisk};
use node::{ConnId, DiskId, DiskInfo};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use stdx::{Instant, Now, Wall};
use wire::EntityAddr;

impl<Req, Rep> World<Req, Rep> {
    /// Adds a host; [`Self::start`] starts its node.
    pub fn add(&mut self, spec: HostSpec<Req, Rep>) -> HostId {
        let drift = self.faults.clock_drift_ppm;
        let drift_ppm = self.rng.below(2 * drift + 1) as i64 - drift as i64;
        let disks = spec.disks.iter().map(|size| SimDisk::new(*size)).collect();
        let rng = self.rng.fork();
        if spec.service.is_some() {
            let other = self.listeners.insert(spec.addr, HostId(self.hosts.len()));
            assert!(other.is_none(), "two listen on {}", spec.addr);
        }
        self.hosts.push(HostState {
            spec,
            node: None,
            incarnation: 0,
            nonce: 0,
            disks,
            keys: None,
            global_ids: Arc::new(auth::GlobalIds::new()),
            rng,
            drift_ppm,
            timer: None,
            ready: false,
            stopped: None,
            next_accepted: ConnId::ACCEPTED,
            open: BTreeSet::new(),
            dark: false,
            paused: None,
            shutting_down: false,
            refused_before: 0,
            disk_slowness: 1,
            wall_error: 0,
        });
        HostId(self.hosts.len() - 1)
    }

    /// A host's node announces a nonce that it never had before.
    pub(super) fn rebind(&mut self, host: HostId) {
        let state = &mut self.hosts[host.0];
        assert!(state.open.is_empty(), "{} has connections under its former nonce", state.spec.name);
        state.nonce = state.rng.u32() | 1;
    }

    /// Starts a host's node, which must not be running.
    pub fn start(&mut self, host: HostId) {
        let state = &mut self.hosts[host.0];
        let wall = Wall((EPOCH + self.now.0).saturating_add_signed(state.wall_error));
        assert!(state.node.is_none(), "{} runs already", state.spec.name);
        state.incarnation += 1;
        state.nonce = state.rng.u32() | 1;
        state.timer = None;
        state.open.clear();
        state.ready = false;
        state.dark = false;
        state.stopped = None;
        state.refused_before = state.refused();
        state.keys = None;
        state.global_ids = Arc::new(auth::GlobalIds::new());
        self.processors.restarted(host);
        let disks = state.disks.iter().enumerate().map(|(i, d)| DiskInfo {
            id: DiskId(i as u8),
            size: d.size,
            sector: SECTOR as u32,
        });
        let boot = Boot {
            addr: EntityAddr::msgr2(state.spec.addr, state.nonce),
            disks: disks.collect(),
            rng: state.rng.fork(),
            wall,
        };
        state.node = Some((state.spec.make)(boot));
        let incarnation = state.incarnation;
        self.trace.note(
            self.now,
            &[1, host.0 as u64, incarnation],
            format_args!("{} starts", self.hosts[host.0].spec.name),
        );
        self.due(self.now, Due::Input { host, incarnation, what: What::Start });
    }

    /// Kills a host's node, or cuts its machine's power. Does nothing if the node is not running.
    pub fn crash(&mut self, host: HostId, how: Crash) {
        let state = &mut self.hosts[host.0];
        if state.node.take().is_none() {
            return;
        }
        (state.ready, state.shutting_down) = (false, false);
        state.paused = None;
        state.dark = how == Crash::Power;
        for disk in &mut state.disks {
            disk.crash(how, &mut self.rng);
        }
        let name = &self.hosts[host.0].spec.name;
        self.trace.note(self.now, &[2, host.0 as u64, how as u64], format_args!("{name} crashes ({how:?})"));
        self.end_links_of(host, how);
    }

    /// Asks a host's node to shut down, as a service manager does. `None` if it is not running, is paused, or
    /// was asked before.
    pub fn shut_down(&mut self, host: HostId) -> Option<()> {
        let now = self.local_time(host);
        let state = &mut self.hosts[host.0];
        if state.paused.is_some() || state.shutting_down {
            return None;
        }
        let mut out = Vec::new();
        state.node.as_mut()?.shut_down(now, &mut out);
        state.shutting_down = true;
        self.trace.note(
            self.now,
            &[9, host.0 as u64],
            format_args!("{} is asked to shut down", self.hosts[host.0].spec.name),
        );
        self.put_all_out(host, &mut out);
        Some(())
    }

    /// The address and nonce of a host's node.
    pub fn address(&self, host: HostId) -> EntityAddr {
        let state = &self.hosts[host.0];
        EntityAddr::msgr2(state.spec.addr, state.nonce)
    }

    /// Reports whether a host's node was asked to shut down and still runs.
    pub fn is_shutting_down(&self, host: HostId) -> bool {
        self.hosts[host.0].shutting_down
    }

    /// Replaces a host's disks by empty ones. Its node must not be running.
    pub fn lose_disks(&mut self, host: HostId) {
        let state = &mut self.hosts[host.0];
        assert!(state.node.is_none(), "{} runs", state.spec.name);
        state.disks = state.spec.disks.iter().map(|size| SimDisk::new(*size)).collect();
        self.trace.note(
            self.now,
            &[18, host.0 as u64],
            format_args!("{}: disks lost", self.hosts[host.0].spec.name),
        );
    }

    /// Reports whether a host's node is running.
    pub fn is_up(&self, host: HostId) -> bool {
        self.hosts[host.0].node.is_some()
    }

    /// Reports whether a host's node is ready (`node::Output::Ready`) in this incarnation.
    pub fn is_ready(&self, host: HostId) -> bool {
        self.hosts[host.0].ready
    }

    /// The result of a node that stopped by itself and unexpectedly.
    pub fn stopped(&self, host: HostId) -> Option<&Result<(), String>> {
        self.hosts[host.0].stopped.as_ref()
    }

    /// A host's disk.
    pub fn disk(&mut self, host: HostId, disk: usize) -> &mut SimDisk {
        &mut self.hosts[host.0].disks[disk]
    }

    /// The number of times that a host was started.
    pub fn incarnation(&self, host: HostId) -> u64 {
        self.hosts[host.0].incarnation
    }

    /// A host's name.
    pub fn name(&self, host: HostId) -> &str {
        &self.hosts[host.0].spec.name
    }

    /// Reports whether a host's disks have operations in flight.
    pub fn is_writing(&self, host: HostId) -> bool {
        self.hosts[host.0].disks.iter().any(SimDisk::is_busy)
    }

    /// The clocks as a node reads them.
    pub(super) fn local_time(&self, host: HostId) -> Now {
        let state = &self.hosts[host.0];
        let drift = self.now.0 as i128 * i128::from(state.drift_ppm) / 1_000_000;
        let mono = (i128::from(self.now.0) + drift) as u64;
        Now { mono: Instant(mono), wall: Wall((EPOCH + mono).saturating_add_signed(state.wall_error)) }
    }

    /// The inverse of [`Self::local_time`], rounded up.
    pub(super) fn global_time(&self, host: HostId, local: Instant) -> Instant {
        let million = 1_000_000i128;
        let scale = million + i128::from(self.hosts[host.0].drift_ppm);
        Instant((i128::from(local.0) * million / scale + 1).min(i128::from(u64::MAX)) as u64)
    }

    /// Schedules a timer for the node's deadline, unless an earlier one is scheduled.
    pub(super) fn arm(&mut self, host: HostId) {
        let Some(deadline) = self.hosts[host.0].node.as_ref().and_then(|n| n.deadline()) else { return };
        let at = self.global_time(host, deadline).max(self.now + Duration::from_nanos(1));
        let state = &mut self.hosts[host.0];
        if state.timer.is_none_or(|armed| at < armed) {
            state.timer = Some(at);
            self.due_input(at, host, What::Timer);
        }
    }
}
