//! Inputs into nodes and their outputs.

use super::{At, HostId, LONGEST_OPERATION, Seen, What, World};
use crate::disk::Crash;
use crate::trace::Trace;
use node::{AdminId, ConnId, DiskOp, DiskOpId, Input, Level, Output, RequestId};
use std::time::Duration;

impl<Req, Rep> World<Req, Rep> {
    /// Hands a request to a host's node. The reply appears in [`Self::take_replies`], or never if the node
    /// dies.
    pub fn request(&mut self, host: HostId, request: Req) -> RequestId {
        let id = RequestId(self.next_request);
        self.next_request += 1;
        self.trace.note(
            self.now,
            &[4, host.0 as u64, id.0],
            format_args!("{id} to {}", self.hosts[host.0].spec.name),
        );
        self.feed(host, Input::Request { id, request });
        id
    }

    /// Gives a host's node a command of its admin socket; `None` if it is down.
    pub fn admin(&mut self, host: HostId, command: &str) -> Option<(i32, String)> {
        let id = AdminId(self.next_request);
        self.next_request += 1;
        self.feed(host, Input::Admin { id, command: command.to_owned() });
        self.admin_reply.take()
    }

    /// Tells a host's node how busy it is.
    pub fn load(&mut self, host: HostId, load: node::Load) {
        self.feed(host, Input::Load(load));
    }

    /// Takes the replies since the last call, in order.
    pub fn take_replies(&mut self) -> Vec<(HostId, RequestId, Rep)> {
        std::mem::take(&mut self.replies)
    }

    /// Writes an input to the trace.
    pub(super) fn note_input(&mut self, host: HostId, input: &Input<Req>) {
        let name = &self.hosts[host.0].spec.name;
        let at = self.now;
        let who = host.0 as u64;
        let note = |trace: &mut Trace, numbers: &[u64], text: std::fmt::Arguments<'_>| {
            trace.note(at, numbers, format_args!("{name}: {text}"));
        };
        match input {
            Input::Start => note(&mut self.trace, &[10, who], format_args!("start")),
            Input::Timer => note(&mut self.trace, &[11, who], format_args!("timer")),
            Input::Connected { conn, peer } => {
                note(&mut self.trace, &[12, who, conn.0], format_args!("{conn} connected to {}", peer.name));
            }
            Input::Message { conn, msg } => {
                note(
                    &mut self.trace,
                    &[13, who, conn.0, msg.tid, u64::from(msg.kind())],
                    format_args!("{conn} {msg:?}"),
                );
            }
            Input::Closed { conn, reason } => {
                note(&mut self.trace, &[14, who, conn.0, *reason as u64], format_args!("{conn} {reason}"));
            }
            Input::Disk { id, result } => {
                note(
                    &mut self.trace,
                    &[15, who, id.0, u64::from(result.is_ok())],
                    format_args!("{id} ended"),
                );
            }
            Input::Load(load) => {
                let (busy, idle) = (u64::from(load.busy), u64::from(load.idle));
                note(&mut self.trace, &[22, who, busy, idle], format_args!("{load:?}"));
            }
            Input::Admin { id, .. } => note(&mut self.trace, &[16, who, id.0], format_args!("{id}")),
            Input::Request { id, .. } => note(&mut self.trace, &[17, who, id.0], format_args!("{id}")),
        }
    }

    /// Hands an input to a node and carries out its outputs; a paused node gets it when it resumes.
    pub(super) fn feed(&mut self, host: HostId, input: Input<Req>) {
        if let Some(paused) = &mut self.hosts[host.0].paused {
            return paused.held.push(input);
        }
        match &input {
            Input::Message { conn, msg } => self.show(host, *conn, Seen::Took(msg)),
            Input::Closed { conn, .. } => self.show(host, *conn, Seen::Ended),
            _ => {}
        }
        let now = self.local_time(host);
        let mut out = std::mem::take(&mut self.scratch);
        let Some(node) = &mut self.hosts[host.0].node else { return };
        node.handle(now, input, &mut out);
        let mut wanted = usize::MAX;
        while wanted != out.len() {
            wanted = out.len();
            node.batch_ended(now, &mut out);
        }
        self.put_all_out(host, &mut out);
        self.scratch = out;
    }

    pub(super) fn show(&mut self, host: HostId, conn: ConnId, seen: Seen<'_>) {
        let at = At { host, incarnation: self.hosts[host.0].incarnation, conn };
        let found = self.witness.as_mut().and_then(|witness| witness(at, seen));
        self.violations.extend(found);
    }

    /// Reports whether a connection still exists.
    pub fn is_connected(&self, at: At) -> bool {
        self.hosts[at.host.0].incarnation == at.incarnation && self.links.has(at.host, at.conn)
    }

    pub(super) fn put_all_out(&mut self, host: HostId, out: &mut Vec<Output<Rep>>) {
        let incarnation = self.hosts[host.0].incarnation;
        for output in out.drain(..) {
            // A node that stopped in the middle of its outputs makes no more of them.
            if self.hosts[host.0].node.is_some() && self.hosts[host.0].incarnation == incarnation {
                self.put_out(host, output);
            }
        }
        self.arm(host);
    }

    pub(super) fn put_out(&mut self, host: HostId, output: Output<Rep>) {
        match output {
            Output::Connect { conn, to } => self.connect(host, conn, to),
            Output::Send { conn, msg } => {
                self.show(host, conn, Seen::Sent(&msg));
                self.send(host, conn, msg);
            }
            Output::Close { conn } => {
                self.show(host, conn, Seen::Ended);
                self.hosts[host.0].open.remove(&conn);
                self.close(host, conn);
            }
            // A lossless link of this world ends only with a node, so it is never dialled again.
            Output::Renew { .. } => {}
            Output::Rebind => self.rebind(host),
            Output::Disk { id, op } => self.issue(host, id, op),
            Output::AdminReply { code, output, .. } => self.admin_reply = Some((code, output)),
            Output::Reply { id, reply } => {
                self.trace.note(self.now, &[5, host.0 as u64, id.0], format_args!("{id} answered"));
                self.replies.push((host, id, reply));
            }
            // No simulated peer looks at it.
            Output::Number(_) => {}
            Output::Keys(keys) => self.hosts[host.0].keys = Some(keys),
            Output::GlobalIds(range) => {
                self.hosts[host.0].global_ids.push(range);
            }
            Output::Event(event) => {
                self.trace.note(
                    self.now,
                    &[6, host.0 as u64],
                    format_args!("{host} {}: {}", event.name, event.detail),
                );
                if self.follows.contains(&event.name) {
                    self.followed.push((host, event.clone()));
                }
                if event.level <= Level::Warn {
                    self.complaints.push((self.hosts[host.0].spec.name.clone(), event));
                }
            }
            Output::Ready => self.hosts[host.0].ready = true,
            Output::Stop(result) => {
                // A node may stop because its disk failed, even if it learns of that only when it resumes
                // from a pause. Whoever injected the fault starts it again.
                let state = &self.hosts[host.0];
                let fails = state.refused() > state.refused_before;
                let expected = if result.is_ok() { state.shutting_down } else { fails };
                self.crash(host, Crash::Process);
                self.hosts[host.0].stopped = Some(result).filter(|_| !expected);
            }
            Output::Restart(why) => {
                let name = &self.hosts[host.0].spec.name;
                self.trace.note(self.now, &[12, host.0 as u64], format_args!("{name} restarts: {why}"));
                self.crash(host, Crash::Process);
                self.start(host);
            }
            Output::ShutDown => drop(self.shut_down(host)),
        }
    }

    pub(super) fn issue(&mut self, host: HostId, id: DiskOpId, op: DiskOp) {
        let disk = match &op {
            DiskOp::Read { disk, .. }
            | DiskOp::Write { disk, .. }
            | DiskOp::Flush { disk }
            | DiskOp::Discard { disk, .. } => *disk,
        };
        if let Some(machines) = &mut self.machines {
            let ends = machines.operate(self.now, host, &op);
            self.hosts[host.0].disks[disk.0 as usize].issue(id, op);
            return self.due_input(ends, host, What::DiskEnd { disk, id });
        }
        let (least, most) = self.faults.disk;
        let mut time = self.rng.range(least, most + 1);
        if matches!(op, DiskOp::Flush { .. } | DiskOp::Write { through: true, .. }) {
            time *= 10;
        }
        if self.faults.slow_disk_every > 0 && self.rng.chance(1, self.faults.slow_disk_every) {
            time *= 100;
        }
        // All factors together would make minutes.
        time = (time * self.hosts[host.0].disk_slowness).min(LONGEST_OPERATION.as_nanos() as u64);
        self.hosts[host.0].disks[disk.0 as usize].issue(id, op);
        self.due_input(self.now + Duration::from_nanos(time), host, What::DiskEnd { disk, id });
    }
}
