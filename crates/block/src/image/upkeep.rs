//! Operations on the whole image: one at a time, under the lock, while no change is on its way.
//!
//! Flattening may take hours. So changes go on meanwhile, of all objects but the few that are being copied;
//! and after these others have their turn: other operations, and clients that want the lock.

use super::api::{Operation, Output, Reply};
use super::jobs::{Job, Whose};
use super::locking::notify;
use super::tasks::{Done, Purpose};
use super::{Image, Stage};
use crate::error::Error;
use crate::maintain::{self, Step};
use crate::notify::{Message, response};
use crate::script::{Cx, Flow};
use std::time::Duration;
use stdx::Instant;
use wire::Errno;

/// The shortest time between two notices of an operation's progress.
const NOTICE: Duration = Duration::from_secs(1);

impl Image {
    pub(super) fn add_job(&mut self, id: u64, operation: Operation, out: &mut Vec<Output>) {
        if self.is_read_only() {
            let error = Error::new(Errno::EROFS, "the image is open for reading only");
            return out.push(Output::Reply { id, reply: Err(error) });
        }
        if operation == Operation::Flatten && self.lock.is_free() {
            return self.delegate(id);
        }
        self.upkeep.push_back(Job::new(operation, Whose::Caller(id)));
    }

    pub(super) fn is_maintaining(&self) -> bool {
        self.tasks.is_running(&Purpose::Maintain)
    }

    /// True if no operation is in the way of changes.
    pub(super) fn lets_changes_begin(&self) -> bool {
        let layer = self.layer.as_ref().expect("the image is open");
        self.upkeep.front().is_none_or(|job| job.lets_others_go_on(layer))
    }

    /// Starts the next step of the first operation, if it may run.
    pub(super) fn start_job(&mut self, now: Instant, out: &mut Vec<Output>) {
        let ready = self.lock.is_usable() && self.is_fresh() && !self.unwatched && !self.is_maintaining();
        let Some(job) = self.upkeep.front().filter(|_| ready) else { return };
        let layer = self.layer.clone().expect("the image is open");
        let step = job.step(&layer);
        let alone = match &step {
            Step::CopyUp(objects) if job.lets_others_go_on(&layer) => self.queue.hold(objects.clone()),
            _ => self.queue.is_quiet(),
        };
        if !alone {
            return;
        }
        let work = maintain::Work {
            layer,
            name: self.spec.name.clone(),
            map: self.map.clone(),
            watch: self.me.handle,
            locked: self.lock.is_held(),
        };
        let operation = job.operation.clone();
        // It is not given away before the step has ended.
        self.lock.begin_turn();
        let run = move |cx: &mut Cx<'_>| -> Flow<Done> {
            match &step {
                Step::CopyUp(objects) => {
                    maintain::copy_up(cx, &work, objects).map(|new| Done::CopiedUp(objects.end, new))
                }
                Step::ShareLess(overlap) => {
                    maintain::share_less(cx, &work, *overlap)?;
                    cx.call(|| notify(work.header(), &Message::HeaderUpdate))?;
                    Ok(Done::SharesLess)
                }
                Step::Rest => maintain::run(cx, &work, &operation).map(Done::Maintained),
            }
        };
        self.start(now, Purpose::Maintain, run, out);
    }

    /// An operation has ended, or a step of one. Its answer waits until the other clients that have the image
    /// open know of it: what they read afterwards is read by the new header.
    pub(super) fn maintained(&mut self, now: Instant, result: Result<Done, Error>, out: &mut Vec<Output>) {
        self.queue.release();
        let reply = match result {
            Ok(Done::CopiedUp(copied, new)) => return self.copied_up(now, copied, &new, out),
            Ok(Done::SharesLess) => {
                self.stale = true;
                return self.upkeep.front_mut().into_iter().for_each(|job| job.shares_less = true);
            }
            Ok(Done::Maintained(reply)) => Ok(reply),
            Ok(_) => unreachable!("an operation ends"),
            Err(error) => Err(error),
        };
        let Some(job) = self.upkeep.pop_front() else { return };
        if job.operation == Operation::Remove && reply.is_ok() {
            self.removed = true;
            self.upkeep.clear();
            return self.report(job.whose, reply, out);
        }
        self.stale = true;
        if job.operation == Operation::Flatten && reply.is_ok() {
            // All know it.
            return self.report(job.whose, reply, out);
        }
        let number = self.announcing.add(job.whose, reply);
        let header = self.header();
        let tell = move |cx: &mut Cx<'_>| {
            cx.call(|| notify(&header, &Message::HeaderUpdate))?;
            Ok(Done::Nothing)
        };
        self.start(now, Purpose::Announce(number), tell, out);
    }

    /// Objects before a number have what they need of the parent's data.
    fn copied_up(&mut self, now: Instant, copied: u64, new: &[(u64, u8)], out: &mut Vec<Output>) {
        if let Some(map) = &mut self.map {
            new.iter().for_each(|(n, state)| map.set(*n, *state));
        }
        let total = self.layer.as_ref().map_or(0, |layer| layer.header.objects(layer.overlap));
        let Some(job) = self.upkeep.front_mut() else { return };
        job.copied = copied;
        let due = job.told_at.is_none_or(|at| at + NOTICE <= now);
        if due {
            job.told_at = Some(now);
        }
        let whose = job.whose.clone();
        if job.operation == Operation::Flatten {
            self.lock.end_turn();
            self.upkeep.rotate_left(1);
        }
        match whose {
            Whose::Caller(id) if due => out.push(Output::Progress { id, done: copied, total }),
            Whose::Peer(id) if due => self.tell(Message::AsyncProgress { id, done: copied, total }, out),
            _ => {}
        }
    }

    pub(super) fn announced(&mut self, number: u64, out: &mut Vec<Output>) {
        if let Some((whose, reply)) = self.announcing.end(number) {
            self.report(whose, reply, out);
        }
    }

    fn report(&mut self, whose: Whose, reply: Result<Reply, Error>, out: &mut Vec<Output>) {
        let code = reply.as_ref().err().map_or(0, |error| error.errno.to_result_code());
        if let (Whose::Peer(_) | Whose::Notifier(_), Ok(Reply::LastClone(parent))) = (&whose, &reply) {
            out.push(Output::Unused(parent.clone()));
        }
        match whose {
            Whose::Caller(id) => out.push(Output::Reply { id, reply }),
            Whose::Peer(id) => {
                self.seen.end(id, code);
                self.tell(Message::AsyncComplete(id, code), out);
            }
            Whose::Notifier(id) => self.acknowledge(id, response(code), out),
        }
    }

    /// An image that is being closed is not flattened for others any more: they ask its next owner.
    pub(super) fn leave_flattening(&mut self, out: &mut Vec<Output>) {
        if !matches!(self.stage, Stage::Closing(_)) || self.is_maintaining() {
            return;
        }
        let leaves = |job: &Job| job.operation == Operation::Flatten && matches!(job.whose, Whose::Peer(_));
        let (left, kept): (Vec<Job>, Vec<Job>) = self.upkeep.drain(..).partition(leaves);
        self.upkeep = kept.into();
        for job in left {
            self.queue.release();
            self.report(job.whose, Err(Error::new(Errno::ERESTART, "the image is being closed")), out);
        }
    }

    /// All operations end with an error.
    pub(super) fn fail_jobs(&mut self, error: &Error, out: &mut Vec<Output>) {
        self.queue.release();
        for job in std::mem::take(&mut self.upkeep) {
            match job.whose {
                Whose::Caller(id) => out.push(Output::Reply { id, reply: Err(error.clone()) }),
                // It asks again, perhaps somebody else.
                Whose::Peer(id) => self.seen.forget(id),
                Whose::Notifier(_) => {}
            }
        }
    }
}
