//! Operations that the lock's owner carries out for us: it may serve the image to a machine, and goes on with
//! that. It answers our notification, says from time to time how far it is, and notifies of the end. If it is
//! silent for long it is asked again; if nobody answers, or whoever does cannot do it, we take the lock.

use super::Image;
use super::api::{Operation, Output, Reply};
use super::jobs::{Job, Whose};
use super::locking::notify;
use super::tasks::{Done, Purpose};
use crate::error::Error;
use crate::notify::{AsyncId, Message, response_of};
use crate::script::Cx;
use std::time::Duration;
use stdx::Instant;
use wire::Errno;

/// The longest silence of an owner that carries out a request.
const SILENCE: Duration = Duration::from_secs(30);

impl Image {
    /// The image is to be flattened by whoever has the lock, for a caller.
    pub(super) fn delegate(&mut self, caller: u64) {
        self.delegated.add(self.me, caller);
    }

    /// Asks the owner for what is due.
    pub(super) fn ask_owner(&mut self, now: Instant, out: &mut Vec<Output>) {
        // The answers come to our watch.
        if self.unwatched {
            return;
        }
        let Some(id) = self.delegated.begin_asking(now) else { return };
        let header = self.header();
        let ask = move |cx: &mut Cx<'_>| {
            let answer = cx.call(|| notify(&header, &Message::Flatten(id)))?;
            Ok(Done::Asked(response_of(answer)))
        };
        self.start(now, Purpose::Ask(id), ask, out);
    }

    /// The owner has answered, or nobody has.
    pub(super) fn asked(&mut self, now: Instant, id: AsyncId, result: Result<Done, Error>) {
        if let Ok(Done::Asked(Some(Ok(())))) = result {
            if let Some(one) = self.delegated.get(id) {
                (one.asking, one.ask_at) = (false, Some(now + SILENCE));
            }
        } else if let Some(one) = self.delegated.take(id) {
            self.upkeep.push_back(Job::new(Operation::Flatten, Whose::Caller(one.caller)));
        }
    }

    /// The owner says how far it is.
    pub(super) fn hear_progress(
        &mut self,
        now: Instant,
        id: AsyncId,
        (done, total): (u64, u64),
        out: &mut Vec<Output>,
    ) {
        if let Some(one) = self.delegated.get(id) {
            one.ask_at = Some(now + SILENCE);
            out.push(Output::Progress { id: one.caller, done, total });
        }
    }

    /// The owner has ended what we asked for. It may have lost the lock in between: then the next one is
    /// asked.
    pub(super) fn hear_end(&mut self, id: AsyncId, code: i32, out: &mut Vec<Output>) {
        let Some(one) = self.delegated.take(id) else { return };
        let reply = match Errno::check(code) {
            Ok(_) => Ok(Reply::Done),
            Err(Errno::ERESTART) => return self.delegate(one.caller),
            Err(errno) => Err(Error::of(errno, "the client that has the image cannot flatten it")),
        };
        out.push(Output::Reply { id: one.caller, reply });
    }
}
