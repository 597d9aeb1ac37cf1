//! An open image: a machine that reads and writes its data, holds its lock, and follows its header.
//!
//! Reads go out at once. Changes wait in `queue.rs` until they may be made: the lock is held (`locking.rs`),
//! the header is fresh (`loading.rs`), and no operation on the whole image is under way (`upkeep.rs`). What
//! other clients say to the header's watchers comes in `watching.rs`.

mod api;
mod closing;
mod data;
mod delegated;
mod delegating;
mod jobs;
mod loading;
mod lock_state;
mod locking;
mod queue;
mod requests;
mod tasks;
mod upkeep;
mod watching;

use crate::error::Error;
use crate::layer::Layer;
use crate::map::ObjectMap;
use crate::notify::ClientId;
use crate::operation::Reply;
pub use api::{Access, Input, Opened, Output, Request, Spec};
use std::collections::VecDeque;
use std::sync::Arc;
use stdx::{Instant, Rng};
use tasks::{Done, Ended, Purpose, Tasks};
use wire::Errno;

/// How far it is.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Stage {
    Opening,
    Open,
    /// No more requests are taken; this one is answered at the end.
    Closing(u64),
    /// The lock and the watch are given back. Nothing else is begun: others may have the lock already.
    Leaving,
    Closed,
    /// It can not be used any more.
    Lost(Error),
}

/// An open image. Each output [`Output::Call`] is to be answered once, in any order.
///
/// Invariant: a change is on its way only while the lock is held, if the image has one.
#[derive(Debug)]
pub struct Image {
    spec: Spec,
    stage: Stage,
    /// What is read: the image itself, or a snapshot.
    layer: Option<Arc<Layer>>,
    /// The map of the image itself, while the lock is held and the map is to be believed.
    map: Option<ObjectMap>,
    /// Our watch of the header.
    me: ClientId,
    /// The watch is lost.
    unwatched: bool,
    /// The watch that is being begun in its place.
    rewatching: Option<u64>,
    lock: lock_state::Lock,
    /// The header is to be read again before anything is changed.
    stale: bool,
    /// It is being read. What is heard meanwhile makes it stale again.
    loading: bool,
    tasks: Tasks,
    requests: requests::Requests,
    queue: queue::Queue,
    upkeep: VecDeque<jobs::Job>,
    /// Operations that have ended, and are answered when others know of it.
    announcing: jobs::Announcing,
    /// Reads that wait for the header: number, offset, length.
    reads: VecDeque<(u64, u64, u64)>,
    /// Recent requests of other clients, which may come twice.
    seen: jobs::Seen,
    /// Operations that the lock's owner carries out for us.
    delegated: delegated::Delegated,
    removed: bool,
}

impl Image {
    /// A machine that has done nothing yet: it begins with [`Input::Start`].
    pub fn new(mut spec: Spec) -> Self {
        let me = ClientId { gid: 0, handle: cookie(&mut spec.rng) };
        Self {
            spec,
            stage: Stage::Opening,
            layer: None,
            map: None,
            me,
            unwatched: false,
            rewatching: None,
            lock: lock_state::Lock::default(),
            stale: false,
            loading: false,
            tasks: Tasks::default(),
            requests: requests::Requests::default(),
            queue: queue::Queue::default(),
            upkeep: VecDeque::new(),
            announcing: jobs::Announcing::default(),
            reads: VecDeque::new(),
            seen: jobs::Seen::default(),
            delegated: delegated::Delegated::default(),
            removed: false,
        }
    }

    /// Takes an input.
    pub fn handle(&mut self, now: Instant, input: Input, out: &mut Vec<Output>) {
        match input {
            Input::Start => self.start_open(now, out),
            Input::Request { id, request } => self.request(id, request, out),
            Input::Answer { token, answer } => {
                if let Some(ended) = self.tasks.answer(token, answer, out) {
                    self.ended(now, ended, out);
                }
            }
            Input::Notified { cookie, notify_id, payload } => {
                self.notified(now, cookie, notify_id, &payload, out);
            }
            Input::WatchBroken { cookie } if cookie == self.me.handle => {
                self.unwatched = true;
                out.push(Output::Event("the watch of the image was lost; it is begun again".into()));
            }
            Input::WatchBroken { .. } | Input::Timer => {}
        }
        self.settle(now, out);
    }

    /// The time at which [`Input::Timer`] is wanted.
    pub fn deadline(&self) -> Option<Instant> {
        match self.stage {
            Stage::Open | Stage::Closing(_) => {
                self.lock.retry_at().into_iter().chain(self.delegated.next_at()).min()
            }
            _ => None,
        }
    }

    /// Starts a script.
    fn start(
        &mut self,
        now: Instant,
        purpose: Purpose,
        run: impl FnMut(&mut crate::script::Cx<'_>) -> crate::script::Flow<Done> + Send + 'static,
        out: &mut Vec<Output>,
    ) {
        let script = crate::script::Script::new(run);
        if let Some(ended) = self.tasks.start(purpose, script, out) {
            self.ended(now, ended, out);
        }
    }

    /// Takes the end of a script.
    fn ended(&mut self, now: Instant, (purpose, result): Ended, out: &mut Vec<Output>) {
        if let Err(error) = &result
            && error.errno == Errno::EBLOCKLISTED
        {
            self.lose(error.clone(), out);
        }
        match (purpose, result) {
            (Purpose::Open, result) => self.opened(now, result, out),
            (Purpose::Read(read), result) => self.read_ended(&read, result, out),
            (Purpose::Change { object, request }, result) => {
                self.change_ended(object, request, result, out);
            }
            (Purpose::TryLock, result) => self.attempted(now, result, out),
            (Purpose::Load, result) => self.loaded(result, out),
            (Purpose::GiveBack, result) => self.given_back(now, result, out),
            (Purpose::Rewatch { cookie }, result) => self.rewatched(cookie, result, out),
            (Purpose::Maintain, result) => self.maintained(now, result, out),
            (Purpose::Ask(id), result) => self.asked(now, id, result),
            (Purpose::Announce(number), _) => self.announced(number, out),
            (Purpose::Close(id), result) => {
                self.stage = Stage::Closed;
                out.push(Output::Reply { id, reply: result.map(|_| Reply::Done) });
            }
            (Purpose::Detached, _) => {}
        }
    }

    fn request(&mut self, id: u64, request: Request, out: &mut Vec<Output>) {
        let error = match (&self.stage, &request) {
            (Stage::Open, Request::Read { .. } | Request::Write { .. } | Request::Zero { .. })
                if !self.spec.access.has_data() =>
            {
                Some(Error::new(Errno::EPERM, "the image is open only to be removed or flattened"))
            }
            (Stage::Open, _) => None,
            (Stage::Lost(_), Request::Close) => {
                self.stage = Stage::Closed;
                return out.push(Output::Reply { id, reply: Ok(Reply::Done) });
            }
            (Stage::Lost(error), _) => Some(error.clone()),
            (Stage::Opening, _) => Some(Error::new(Errno::EAGAIN, "the image is not open yet")),
            (Stage::Closing(_) | Stage::Leaving | Stage::Closed, _) => {
                Some(Error::new(Errno::ESHUTDOWN, "the image is being closed"))
            }
        };
        if let Some(error) = error {
            return out.push(Output::Reply { id, reply: Err(error) });
        }
        match request {
            Request::Read { offset, len } => self.reads.push_back((id, offset, len)),
            Request::Write { offset, data } => self.change(id, offset, data.len() as u64, Some(&data), out),
            Request::Zero { offset, len } => self.change(id, offset, len, None, out),
            Request::Flush => self.requests.add_flush(id, out),
            Request::Maintain(operation) => self.add_job(id, operation, out),
            Request::Close => self.stage = Stage::Closing(id),
        }
    }

    /// Ends everything: this client may not go on.
    fn lose(&mut self, error: Error, out: &mut Vec<Output>) {
        if matches!(self.stage, Stage::Lost(_) | Stage::Closed) {
            return;
        }
        let closing = if let Stage::Closing(id) = self.stage { Some(id) } else { None };
        out.push(Output::Lost(error.clone()));
        for request in self.queue.clear() {
            self.requests.end(request, Some(error.clone()), out);
        }
        self.fail_jobs(&error, out);
        let reads = std::mem::take(&mut self.reads).into_iter().map(|(id, ..)| id);
        for id in reads.chain(self.delegated.clear()) {
            out.push(Output::Reply { id, reply: Err(error.clone()) });
        }
        if let Some(id) = closing {
            out.push(Output::Reply { id, reply: Err(error.clone()) });
        }
        self.stage = Stage::Lost(error);
        self.map = None;
    }

    /// Does what can be done now.
    fn settle(&mut self, now: Instant, out: &mut Vec<Output>) {
        if !matches!(self.stage, Stage::Open | Stage::Closing(_)) {
            return;
        }
        self.watch_again(now, out);
        self.load_again(now, out);
        self.start_reads(now, out);
        self.leave_flattening(out);
        self.ask_owner(now, out);
        self.start_job(now, out);
        self.start_changes(now, out);
        if self.is_fresh() && self.upkeep.is_empty() {
            self.lock.end_turn();
        }
        self.follow_lock(now, out);
        self.close_if_done(now, out);
    }

    /// True if changes may be made.
    fn may_change(&self) -> bool {
        self.lock.is_usable() && self.is_fresh() && self.lets_changes_begin()
    }

    /// True if the header, and the object map with it, are as they were when the lock was taken or later.
    fn is_fresh(&self) -> bool {
        !self.stale && !self.loading
    }

    /// True if there is something for which the lock is needed.
    fn needs_lock(&self) -> bool {
        !self.queue.is_empty() || !self.upkeep.is_empty()
    }
}

/// A number for a watch that no other client is likely to have. librbd shows it as a signed number.
fn cookie(rng: &mut Rng) -> u64 {
    rng.range(1 << 32, 1 << 62)
}

#[cfg(test)]
mod tests;
