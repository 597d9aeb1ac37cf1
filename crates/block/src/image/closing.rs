//! The end of an image that is not needed any more: when nothing is left to be done, the lock is given back
//! and the watch is ended.

use super::api::Output;
use super::locking::notify;
use super::tasks::{Done, Purpose};
use super::{Image, Stage};
use crate::call::Call;
use crate::error::Error;
use crate::header::Header;
use crate::lock;
use crate::notify::{ClientId, Message};
use crate::script::{Cx, Flow};
use stdx::Instant;
use wire::Errno;

impl Image {
    pub(super) fn close_if_done(&mut self, now: Instant, out: &mut Vec<Output>) {
        let Stage::Closing(id) = self.stage else { return };
        let reads = !self.reads.is_empty() || self.tasks.is_reading();
        let waits = reads || !self.announcing.is_empty() || !self.delegated.is_empty();
        let changes = !self.requests.is_empty() || !self.queue.is_quiet() || self.needs_lock();
        let busy = waits || changes || !self.is_fresh() && !self.removed;
        if busy || self.lock.is_moving() || self.rewatching.is_some() {
            return;
        }
        let (header, me) = (self.header(), self.me);
        let (held, watching) = (self.lock.is_held() && !self.removed, self.is_watching() && !self.removed);
        self.stage = Stage::Leaving;
        self.start(now, Purpose::Close(id), move |cx| leave(cx, &header, me, held, watching), out);
    }
}

/// Ends the lock and the watch.
fn leave(cx: &mut Cx<'_>, header: &Header, me: ClientId, held: bool, watching: bool) -> Flow<Done> {
    if held {
        lock::give_back(cx, header, me.handle)?;
        // Others have the lock whether they hear of it or not.
        cx.call(|| notify(header, &Message::ReleasedLock(me)))?;
    }
    if watching {
        match cx.call(|| Call::Unwatch { cookie: me.handle })?.result() {
            Ok(()) | Err(Errno::ENOENT | Errno::ENOTCONN) => {}
            Err(errno) => return Err(Error::of(errno, "cannot end the watch of the image").into()),
        }
    }
    Ok(Done::Nothing)
}
