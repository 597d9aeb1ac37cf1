//! The lock, while the image is open: taken when something is to be changed, kept until another client asks
//! for it, given back when no change is on its way.

use super::Image;
use super::api::Output;
use super::lock_state::State;
use super::tasks::{Done, Purpose};
use crate::call::Call;
use crate::error::Error;
use crate::header::Header;
use crate::lock::{self, Attempt, NOTIFY_TIMEOUT};
use crate::notify::Message;
use crate::script::{Cx, Flow};
use std::time::Duration;
use stdx::Instant;

/// The pause before the owner is asked again.
const RETRY: Duration = Duration::from_secs(2);
/// The time that a client which was given the lock has to take it, before we want it back.
const COURTESY: Duration = Duration::from_millis(300);

impl Image {
    /// Takes the lock if something needs it, and gives it back if another client wants it.
    pub(super) fn follow_lock(&mut self, now: Instant, out: &mut Vec<Output>) {
        let due = |at: Option<Instant>| at.is_none_or(|at| at <= now);
        match self.lock.state {
            State::Free { not_before } if self.needs_lock() && due(not_before) && !self.unwatched => {
                let (header, me) = (self.header(), self.me);
                self.lock.state = State::Taking;
                let attempt = move |cx: &mut Cx<'_>| -> Flow<Done> {
                    lock::attempt(cx, &header.place, &header.id, me).map(Done::Attempted)
                };
                self.start(now, Purpose::TryLock, attempt, out);
            }
            State::Free { not_before } if due(not_before) => self.lock.try_now(),
            State::Held if self.lock.is_due() && self.queue.is_quiet() && !self.is_maintaining() => {
                // A new watch takes the lock with it, and must find it.
                if self.loading || self.rewatching.is_some() {
                    return;
                }
                let (header, handle) = (self.header(), self.me.handle);
                self.lock.leave();
                self.map = None;
                let leave = move |cx: &mut Cx<'_>| -> Flow<Done> {
                    lock::give_back(cx, &header, handle)?;
                    Ok(Done::Nothing)
                };
                self.start(now, Purpose::GiveBack, leave, out);
            }
            _ => {}
        }
    }

    pub(super) fn attempted(&mut self, now: Instant, result: Result<Done, Error>, out: &mut Vec<Output>) {
        match result {
            Ok(Done::Attempted(Attempt::Taken)) => {
                self.lock.taken();
                // Its last owner may have changed anything.
                self.stale = true;
                out.push(Output::Event("the lock of the image has been taken".into()));
                self.tell(Message::AcquiredLock(self.me), out);
            }
            Ok(Done::Attempted(Attempt::Asked { owner, agreed })) => {
                if self.lock.owner.as_ref() != Some(&owner) {
                    let how = if agreed { "which gives it back" } else { "which has not answered yet" };
                    out.push(Output::Event(format!("the lock of the image is held by {owner}, {how}")));
                }
                self.lock.owner = Some(owner);
                self.lock.state = State::Free { not_before: Some(now + RETRY) };
            }
            Ok(_) => unreachable!("an attempt is made"),
            Err(error) => {
                self.lock.state = State::Free { not_before: Some(now + RETRY) };
                out.push(Output::Event(format!("the lock of the image cannot be taken: {error}")));
                // Who waits for it learns why.
                self.fail_waiting(&error, out);
            }
        }
    }

    fn fail_waiting(&mut self, error: &Error, out: &mut Vec<Output>) {
        for request in self.queue.clear() {
            self.requests.end(request, Some(error.clone()), out);
        }
        self.fail_jobs(error, out);
    }

    pub(super) fn given_back(&mut self, now: Instant, result: Result<Done, Error>, out: &mut Vec<Output>) {
        if let Err(error) = result {
            return self.lose(error, out);
        }
        out.push(Output::Event("the lock of the image has been given to a client that asked for it".into()));
        self.lock.wanted = false;
        self.lock.state = State::Free { not_before: Some(now + COURTESY) };
        self.tell(Message::ReleasedLock(self.me), out);
    }

    /// Tells all watchers of the header.
    pub(super) fn tell(&mut self, message: Message, out: &mut Vec<Output>) {
        let call = notify(&self.header(), &message);
        self.tasks.detach(call, out);
    }
}

pub(super) fn notify(header: &Header, message: &Message) -> Call {
    Call::Notify {
        place: header.place.clone(),
        object: header.object(),
        payload: message.encode(),
        timeout: NOTIFY_TIMEOUT,
    }
}
