//! Operations on the whole image: one at a time, under the lock, while no change is on its way.

use super::Image;
use super::api::{Operation, Output, Reply};
use super::jobs::{Job, Whose};
use super::locking::notify;
use super::tasks::{Done, Purpose};
use crate::error::Error;
use crate::maintain;
use crate::map::state;
use crate::notify::{Message, response};
use crate::script::{Cx, Flow};
use stdx::Instant;
use wire::Errno;

impl Image {
    pub(super) fn add_job(&mut self, id: u64, operation: Operation, out: &mut Vec<Output>) {
        if self.is_read_only() {
            let error = Error::new(Errno::EROFS, "the image is open for reading only");
            return out.push(Output::Reply { id, reply: Err(error) });
        }
        self.upkeep.push_back(Job::new(operation, Whose::Caller(id)));
    }

    pub(super) fn is_maintaining(&self) -> bool {
        self.tasks.is_running(&Purpose::Maintain)
    }

    /// Starts the first operation, if it may run.
    pub(super) fn start_job(&mut self, now: Instant, out: &mut Vec<Output>) {
        let ready = self.lock.is_usable() && self.is_fresh() && self.queue.is_quiet() && !self.unwatched;
        let Some(job) = self.upkeep.front().filter(|_| ready && !self.is_maintaining()) else { return };
        let work = maintain::Work {
            layer: self.layer.clone().expect("the image is open"),
            name: self.spec.name.clone(),
            map: self.map.clone(),
            watch: self.me.handle,
            locked: self.lock.is_held(),
        };
        let operation = job.operation.clone();
        let wanted = maintain::copy_up::wanted(&work, &operation);
        let wanted = wanted.start.max(job.copied)..wanted.end;
        // It is not given away before the operation has ended.
        self.lock.begin_turn();
        if !wanted.is_empty() {
            let run = move |cx: &mut Cx<'_>| maintain::copy_up::some(cx, &work, &wanted).map(Done::CopiedUp);
            return self.start(now, Purpose::Maintain, run, out);
        }
        if let Some(overlap) = maintain::shares_less(&work, &operation).filter(|_| !job.shares_less) {
            let run = move |cx: &mut Cx<'_>| -> Flow<Done> {
                maintain::share_less(cx, &work, overlap)?;
                cx.call(|| notify(work.header(), &Message::HeaderUpdate))?;
                Ok(Done::SharesLess)
            };
            return self.start(now, Purpose::Maintain, run, out);
        }
        let run = move |cx: &mut Cx<'_>| maintain::run(cx, &work, &operation).map(Done::Maintained);
        self.start(now, Purpose::Maintain, run, out);
    }

    /// An operation has ended, or a part of one. Its answer waits until the other clients that have the image
    /// open know of it: what they read afterwards is read by the new header.
    pub(super) fn maintained(&mut self, now: Instant, result: Result<Done, Error>, out: &mut Vec<Output>) {
        if let (Ok(Done::CopiedUp(objects)), Some(job)) = (&result, self.upkeep.front_mut()) {
            job.copied = objects.end;
            // Those that had nothing to copy do not exist: that is known when the header is read again.
            if let Some(map) = &mut self.map {
                objects.clone().for_each(|n| map.set(n, state::EXISTS));
            }
            return;
        }
        if let (Ok(Done::SharesLess), Some(job)) = (&result, self.upkeep.front_mut()) {
            (job.shares_less, self.stale) = (true, true);
            return;
        }
        let Some(job) = self.upkeep.pop_front() else { return };
        let reply = result.map(|done| match done {
            Done::Maintained(reply) => reply,
            _ => unreachable!("an operation ends"),
        });
        if job.operation == Operation::Remove && reply.is_ok() {
            self.removed = true;
            self.upkeep.clear();
            return self.report(job.whose, reply, out);
        }
        self.stale = true;
        let number = self.announcing.add(job.whose, reply);
        let header = self.header();
        let tell = move |cx: &mut Cx<'_>| {
            cx.call(|| notify(&header, &Message::HeaderUpdate))?;
            Ok(Done::Nothing)
        };
        self.start(now, Purpose::Announce(number), tell, out);
    }

    pub(super) fn announced(&mut self, number: u64, out: &mut Vec<Output>) {
        if let Some((whose, reply)) = self.announcing.end(number) {
            self.report(whose, reply, out);
        }
    }

    fn report(&mut self, whose: Whose, reply: Result<Reply, Error>, out: &mut Vec<Output>) {
        let code = reply.as_ref().err().map_or(0, |error| error.errno.to_result_code());
        match whose {
            Whose::Caller(id) => out.push(Output::Reply { id, reply }),
            Whose::Peer(id) => self.tell(Message::AsyncComplete(id, code), out),
            Whose::Notifier(id) => self.acknowledge(id, response(code), out),
        }
    }

    /// All operations end with an error.
    pub(super) fn fail_jobs(&mut self, error: &Error, out: &mut Vec<Output>) {
        for job in std::mem::take(&mut self.upkeep) {
            if let Whose::Caller(id) = job.whose {
                out.push(Output::Reply { id, reply: Err(error.clone()) });
            }
        }
    }
}
