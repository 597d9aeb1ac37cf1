//! What other clients say to the watchers of the header, and the watch itself.

use super::api::{Operation, Output};
use super::jobs::{Job, Whose};
use super::tasks::{Done, Purpose};
use super::{Image, Stage, cookie};
use crate::call::{Call, ObjectCall};
use crate::error::Error;
use crate::format::snap_kind;
use crate::lock;
use crate::notify::{AsyncId, Message, response};
use crate::script::{Cx, Flow};
use msgs::Op;
use msgs::op::input;
use stdx::Instant;
use wire::Errno;

impl Image {
    pub(super) fn notified(
        &mut self,
        now: Instant,
        cookie: u64,
        notify_id: u64,
        payload: &[u8],
        out: &mut Vec<Output>,
    ) {
        if self.layer.is_none() {
            return;
        }
        if self.rewatching == Some(cookie) {
            // The header is read once the new watch is known to be there; who wants the lock asks again.
            return self.acknowledge_by(cookie, notify_id, Vec::new(), out);
        }
        if cookie != self.me.handle {
            return;
        }
        let reply = match Message::decode(payload) {
            Some(message) if matches!(self.stage, Stage::Open | Stage::Closing(_) | Stage::Leaving) => {
                self.hear(now, notify_id, message, out)
            }
            _ => Some(Vec::new()),
        };
        if let Some(reply) = reply {
            self.acknowledge(notify_id, reply, out);
        }
    }

    /// Takes a message. Returns the answer, which is empty for one that we have nothing to say to; `None` if
    /// the answer comes later.
    fn hear(
        &mut self,
        now: Instant,
        notify_id: u64,
        message: Message,
        out: &mut Vec<Output>,
    ) -> Option<Vec<u8>> {
        let whole = self.stage != Stage::Leaving && self.spec.access.has_data();
        let owner = self.lock.is_held() && whole;
        match message {
            Message::RequestLock(client) if client != self.me => {
                // An answer says that it is given back.
                return Some(if self.lock.ask() { response(0) } else { Vec::new() });
            }
            Message::ReleasedLock(client) if client != self.me => self.lock.try_now(),
            Message::HeaderUpdate => self.stale = true,
            Message::AsyncProgress { id, done, total } => self.hear_progress(now, id, (done, total), out),
            Message::AsyncComplete(id, code) => self.hear_end(id, code, out),
            Message::Flatten(id) if owner && self.stage == Stage::Open => {
                return Some(self.ask_for(id, Operation::Flatten, out));
            }
            Message::Resize { size, id, allow_shrink } if owner => {
                return Some(self.ask_for(id, Operation::Resize { size, allow_shrink }, out));
            }
            Message::SnapCreate { name, namespace, id: Some(id) }
                if owner && namespace.kind == snap_kind::USER =>
            {
                return Some(self.ask_for(id, Operation::SnapCreate { name }, out));
            }
            Message::SnapRemove { name, namespace } if owner && namespace.kind == snap_kind::USER => {
                let whose = Whose::Notifier(notify_id);
                self.upkeep.push_back(Job::new(Operation::SnapRemove { name }, whose));
                return None;
            }
            Message::SnapCreate { .. } | Message::SnapRemove { .. } | Message::Unsupported if owner => {
                // Whoever asks takes the lock and does it.
                return Some(response(Errno::EOPNOTSUPP.to_result_code()));
            }
            _ => {}
        }
        Some(Vec::new())
    }

    /// Another client asks for an operation, perhaps again. It hears of its end, perhaps again.
    fn ask_for(&mut self, id: AsyncId, operation: Operation, out: &mut Vec<Output>) -> Vec<u8> {
        match self.seen.get(id) {
            None => {
                self.seen.add(id);
                self.upkeep.push_back(Job::new(operation, Whose::Peer(id)));
            }
            Some(None) => {}
            Some(Some(code)) => self.tell(Message::AsyncComplete(id, code), out),
        }
        response(0)
    }

    /// Answers a notification.
    pub(super) fn acknowledge(&mut self, notify_id: u64, reply: Vec<u8>, out: &mut Vec<Output>) {
        self.acknowledge_by(self.me.handle, notify_id, reply, out);
    }

    fn acknowledge_by(&mut self, cookie: u64, notify_id: u64, reply: Vec<u8>, out: &mut Vec<Output>) {
        let header = self.header();
        let ack = input::NotifyAckInput { notify_id, watch_cookie: cookie, reply };
        let op = Op::NotifyAck { cookie, data: input::write(&ack) };
        let call = Call::Object(ObjectCall::new(&header.place, header.object(), vec![op]));
        self.tasks.detach(call, out);
    }

    /// Begins a new watch for one that was lost. The lock follows it: by its watch an owner is seen to be
    /// alive.
    pub(super) fn watch_again(&mut self, now: Instant, out: &mut Vec<Output>) {
        let moving = self.lock.is_moving() || self.is_maintaining();
        if !self.unwatched || moving || self.is_rewatching() || self.removed {
            return;
        }
        let (header, old, held) = (self.header(), self.me.handle, self.lock.is_held());
        let new = cookie(&mut self.spec.rng);
        let watch = move |cx: &mut Cx<'_>| -> Flow<Done> {
            // The old one is forgotten by the client too.
            cx.call(|| Call::Unwatch { cookie: old })?;
            let (place, object) = (header.place.clone(), header.object());
            let answer = cx.call(|| Call::Watch { place, object, cookie: new })?;
            answer.result().map_err(|errno| Error::of(errno, "cannot watch the image"))?;
            if held {
                lock::rename(cx, &header, old, new)?;
            }
            Ok(Done::Nothing)
        };
        self.rewatching = Some(new);
        self.start(now, Purpose::Rewatch { cookie: new }, watch, out);
    }

    fn is_rewatching(&self) -> bool {
        self.rewatching.is_some()
    }

    pub(super) fn rewatched(&mut self, cookie: u64, result: Result<Done, Error>, out: &mut Vec<Output>) {
        self.rewatching = None;
        match result {
            Ok(_) => {
                self.me.handle = cookie;
                self.unwatched = false;
                // What was notified meanwhile is unknown.
                self.stale = true;
            }
            Err(error) => self.lose(error, out),
        }
    }
}
