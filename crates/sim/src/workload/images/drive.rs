//! Feeds machines and scripts with inputs, carries out their calls, and takes what they say.

use super::machine::{Act, Machine, Stage};
use super::subject::{Phase, SnapPhase};
use super::{ClientWorld, ImageLoad, Job, Pending, Running, Whose};
use crate::disk::Crash;
use crate::host::HostId;
use crate::image_calls::{Kind, answer_of, request_of};
use crate::oracle::images::UNIT;
use crate::workload::Load;
use block::{Access, Answer, Call, Error, Image, Input, Opened, Output, Progress, Script, Spec};
use fsclient::{Answer as ClientAnswer, Reply};
use msgs::Op;
use node::RequestId;
use std::collections::{BTreeMap, VecDeque};
use wire::Errno;

/// Adds a line to the trace.
fn note(world: &mut ClientWorld, seat: usize, key: u64, text: std::fmt::Arguments<'_>) {
    let now = world.now();
    world.trace.note(now, &[30, seat as u64, key], format_args!("client.{seat} machine {key}: {text}"));
}

/// A call in a few words.
fn name_of(call: &Call) -> String {
    let Call::Object(call) = call else { return format!("calls {call:.200?}") };
    let op = |op: &Op| match op {
        Op::Call { method, .. } => method.clone(),
        op => format!("{:?}", op.code()),
    };
    let ops: Vec<String> = call.ops.iter().map(op).collect();
    let snaps = &call.snapc.snaps;
    format!("calls {}@{} {ops:?} under {snaps:?}", String::from_utf8_lossy(&call.object), call.snap)
}

impl ImageLoad {
    /// Opens an image, or a snapshot of it. Without a plan it stays open.
    pub(super) fn open(
        &mut self,
        world: &mut ClientWorld,
        seat: usize,
        image: usize,
        snap: Option<usize>,
        plan: Vec<Act>,
    ) {
        let subject = &self.subjects[image];
        let spec = Spec {
            place: subject.new.place.clone(),
            name: subject.new.name.clone(),
            snap: snap.map(|snap| subject.snaps[snap].name.clone()),
            access: if plan.first().is_some_and(Act::removes) { Access::Remove } else { Access::Write },
            rng: self.rng.fork(),
        };
        let machine = Machine {
            seat,
            image,
            snap,
            block: Image::new(spec),
            stage: Stage::Opening,
            units: 0,
            plan: VecDeque::from(plan),
            waiting: BTreeMap::new(),
            next_request: 0,
        };
        let key = self.key();
        self.machines.insert(key, machine);
        self.inbox.push_back((key, Input::Start));
        self.pump(world);
    }

    /// Begins a script.
    pub(super) fn run(&mut self, world: &mut ClientWorld, seat: usize, job: Job, script: Script<()>) {
        let key = self.key();
        self.scripts.insert(key, Running { seat, script, job });
        let progress = self.scripts.get_mut(&key).map(|running| running.script.start());
        self.progressed(world, key, progress);
        self.pump(world);
    }

    fn progressed(&mut self, world: &mut ClientWorld, key: u64, progress: Option<Progress<()>>) {
        match progress {
            None | Some(Progress::Waits) => {}
            Some(Progress::Calls(calls)) => {
                let Some(seat) = self.scripts.get(&key).map(|running| running.seat) else { return };
                for (i, call) in calls.into_iter().enumerate() {
                    self.send(world, seat, key, Whose::Script(key, i), call);
                }
            }
            Some(Progress::Ended(result)) => {
                if let Some(running) = self.scripts.remove(&key) {
                    self.job_ended(world, running.seat, running.job, result);
                }
            }
        }
    }

    fn send(&mut self, world: &mut ClientWorld, seat: usize, key: u64, whose: Whose, call: Call) {
        let (gist, wrong) = self.locks.sent(self.seats[seat].writer, key, &call);
        if let Some(what) = wrong {
            Self::violation(world, "image_lock_excludes", what);
        }
        note(world, seat, key, format_args!("{}", name_of(&call)));
        let (request, kind) = request_of(call, self.watch_timeout);
        let id = world.request(self.seats[seat].host, request);
        self.pending.insert(id, Pending { whose, kind, gist });
    }

    pub(super) fn take_answer(
        &mut self,
        world: &mut ClientWorld,
        host: HostId,
        id: RequestId,
        reply: &Reply,
    ) -> bool {
        if id == RequestId(0) {
            self.told(host, reply);
            self.pump(world);
            return true;
        }
        let Some(Pending { whose, kind, gist }) = self.pending.remove(&id) else { return false };
        let answer = answer_of(kind, reply);
        if let (Kind::PoolSnap(Some(_)), Answer::Snap(Ok(snap))) = (kind, &answer) {
            self.removed.insert(snap.0);
        }
        let (Whose::Machine(key, _) | Whose::Script(key, _)) = whose;
        let machine = self.machines.get(&key).map(|m| m.seat);
        let seat = machine.or_else(|| self.scripts.get(&key).map(|s| s.seat));
        let Some(seat) = seat else { return true };
        self.locks.answered(self.seats[seat].writer, key, gist, &answer);
        match whose {
            Whose::Machine(key, token) => self.inbox.push_back((key, Input::Answer { token, answer })),
            Whose::Script(key, i) => {
                let progress = self.scripts.get_mut(&key).map(|running| running.script.answer(i, answer));
                self.progressed(world, key, progress);
            }
        }
        self.pump(world);
        true
    }

    /// A client is told something unasked, which may concern any of its machines.
    fn told(&mut self, host: HostId, reply: &Reply) {
        let of_host = self.machines.iter().filter(|(_, m)| self.seats[m.seat].host == host);
        for key in of_host.map(|(key, _)| *key) {
            let input = match reply {
                Ok(ClientAnswer::Notified { cookie, notify_id, payload, .. }) => {
                    Input::Notified { cookie: *cookie, notify_id: *notify_id, payload: payload.clone() }
                }
                Ok(ClientAnswer::WatchBroken { cookie, .. }) => Input::WatchBroken { cookie: *cookie },
                _ => continue,
            };
            self.inbox.push_back((key, input));
        }
    }

    /// Feeds what waits in the inbox, and what comes of it.
    pub(super) fn pump(&mut self, world: &mut ClientWorld) {
        while let Some((key, input)) = self.inbox.pop_front() {
            let Some(machine) = self.machines.get_mut(&key) else { continue };
            let seat = machine.seat;
            if let Input::Request { id, request } = &input {
                note(world, seat, key, format_args!("request {id}: {request:?}"));
            }
            let mut out = Vec::new();
            machine.block.handle(world.now(), input, &mut out);
            for output in out {
                match output {
                    Output::Call { token, call } => {
                        self.send(world, seat, key, Whose::Machine(key, token), call);
                    }
                    Output::Opened(opened) => self.opened(world, key, *opened),
                    Output::Reply { id, reply } => {
                        let result = reply.as_ref().map(|_| ()).map_err(|error| error.errno);
                        note(world, seat, key, format_args!("request {id} ends: {result:?}"));
                        self.replied(world, key, id, reply);
                    }
                    Output::Resized(size) => {
                        if let Some(machine) = self.machines.get_mut(&key) {
                            machine.units = size as usize / UNIT;
                        }
                    }
                    Output::Lost(error) => {
                        self.excuse(world, seat, "the image is lost".to_owned(), &error, &[]);
                    }
                    Output::Event(text) => note(world, seat, key, format_args!("{text}")),
                    Output::Progress { id, done, total } => {
                        note(world, seat, key, format_args!("request {id}: {done} of {total}"));
                    }
                    Output::Unused(parent) => self.look_again(&parent.image),
                }
            }
            self.go_on(key);
        }
        self.end_lost(world);
    }

    /// Clients that are on the blocklist end, and are started again.
    fn end_lost(&mut self, world: &mut ClientWorld) {
        let lost: Vec<HostId> = self.seats.iter().filter(|s| s.is_lost).map(|s| s.host).collect();
        for host in lost {
            self.died(host, world.now());
            if world.is_up(host) {
                world.crash(host, Crash::Process);
                world.start(host);
            }
        }
        self.begin_lives(world);
    }

    fn opened(&mut self, world: &mut ClientWorld, key: u64, opened: Result<Opened, Error>) {
        let Some(machine) = self.machines.get_mut(&key) else { return };
        let (seat, image, snap) = (machine.seat, machine.image, machine.snap);
        match opened {
            Ok(opened) => {
                machine.units = opened.size as usize / UNIT;
                machine.stage = Stage::Open;
                self.plan_by_header(key, &opened.header);
            }
            Err(error) => {
                self.machines.remove(&key);
                let subject = &self.subjects[image];
                let may_lack = match snap {
                    Some(snap) => subject.snaps[snap].phase != SnapPhase::Live,
                    None => subject.phase != Phase::Live,
                };
                let known: &[Errno] = if may_lack { &[Errno::ENOENT] } else { &[] };
                let what = format!("cannot open {} {snap:?}", subject.new.name);
                self.excuse(world, seat, what, &error, known);
                if error.errno == Errno::ENOENT && snap.is_none() {
                    self.clean(world, seat, image);
                }
            }
        }
    }
}
