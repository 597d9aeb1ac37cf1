//! Faults that a scenario or the nemesis injects: slow and failing disks, wrong clocks, paused processes, cut
//! links.

use super::{Due, HostId, Paused, World};
use node::Input;
use stdx::Instant;

impl<Req, Rep> World<Req, Rep> {
    /// Makes a host's disks slower by a factor; 1 is normal.
    pub fn set_disk_slowness(&mut self, host: HostId, factor: u64) {
        self.hosts[host.0].disk_slowness = factor;
        self.trace.note(
            self.now,
            &[19, host.0 as u64, factor],
            format_args!("{host}: disks {factor} times slower"),
        );
    }

    /// Makes one in `every` operations of a host's disks fail; 0 for none.
    pub fn set_disk_failing(&mut self, host: HostId, every: u64) {
        self.hosts[host.0].disks.iter_mut().for_each(|disk| disk.fails_every = every);
        self.trace.note(
            self.now,
            &[21, host.0 as u64, every],
            format_args!("{host}: one disk operation in {every} fails"),
        );
    }

    /// Sets the error of a host's wall clock, in nanoseconds.
    pub fn set_wall_error(&mut self, host: HostId, error: i64) {
        self.hosts[host.0].wall_error = error;
        self.trace.note(
            self.now,
            &[20, host.0 as u64, error as u64],
            format_args!("{host}: wall clock wrong by {error} ns"),
        );
    }

    /// Sets all clocks right and lets all disks work normally.
    pub fn mend_all(&mut self) {
        for host in (0..self.hosts.len()).map(HostId) {
            if self.hosts[host.0].wall_error != 0 {
                self.set_wall_error(host, 0);
            }
            if self.hosts[host.0].disk_slowness != 1 {
                self.set_disk_slowness(host, 1);
            }
            if self.hosts[host.0].disks.iter().any(|disk| disk.fails_every > 0) {
                self.set_disk_failing(host, 0);
            }
        }
    }

    /// Cuts or heals the direction from `from` to `to`. Messages that were held meanwhile arrive when it is
    /// healed.
    pub fn set_cut(&mut self, from: HostId, to: HostId, cut: bool) {
        let changed = if cut { self.cut.insert((from, to)) } else { self.cut.remove(&(from, to)) };
        if changed {
            self.trace.note(
                self.now,
                &[3, from.0 as u64, to.0 as u64, u64::from(cut)],
                format_args!("{from} to {to}: cut {cut}"),
            );
        }
        if changed && !cut {
            self.release_held(from, to);
        }
    }

    /// Pauses a host's process, as a debugger, a full swap or a busy hypervisor does: its clock goes on, its
    /// disk completes operations, and all input arrives at once when it resumes. `None` if it is not running.
    pub fn pause(&mut self, host: HostId, until: Instant) -> Option<()> {
        self.pause_as(host, until, false)
    }

    /// Like [`Self::pause`], but when the process resumes it handles its input before its timers.
    pub fn pause_before_timers(&mut self, host: HostId, until: Instant) -> Option<()> {
        self.pause_as(host, until, true)
    }

    pub(super) fn pause_as(&mut self, host: HostId, until: Instant, timers_last: bool) -> Option<()> {
        let state = &mut self.hosts[host.0];
        if state.node.is_none() || state.paused.is_some() {
            return None;
        }
        state.paused = Some(Paused { until, held: Vec::new(), timers_last });
        let incarnation = state.incarnation;
        let name = &state.spec.name;
        self.trace.note(
            self.now,
            &[7, host.0 as u64, until.0],
            format_args!("{name}: paused until {until:?}"),
        );
        self.due(until, Due::Resume { host, incarnation });
        Some(())
    }

    /// Resumes all paused processes.
    pub fn resume_all(&mut self) {
        for host in (0..self.hosts.len()).map(HostId) {
            self.resume(host);
        }
    }

    pub(super) fn resume(&mut self, host: HostId) {
        let Some(paused) = self.hosts[host.0].paused.take() else { return };
        let incarnation = self.hosts[host.0].incarnation;
        self.trace.note(self.now, &[8, host.0 as u64], format_args!("{host} resumes"));
        // Timers that were due are dropped: `arm` schedules the next one.
        let held = paused.held.into_iter().filter(|i| !(paused.timers_last && matches!(i, Input::Timer)));
        for input in held.collect::<Vec<_>>() {
            if self.hosts[host.0].incarnation == incarnation {
                self.feed(host, input);
            }
        }
        self.hosts[host.0].timer = None;
        self.arm(host);
    }

    /// Heals all cuts.
    pub fn heal_all(&mut self) {
        for (from, to) in self.cut.clone() {
            self.set_cut(from, to, false);
        }
    }

    pub(crate) fn is_cut(&self, from: HostId, to: HostId) -> bool {
        self.cut.contains(&(from, to))
    }
}
