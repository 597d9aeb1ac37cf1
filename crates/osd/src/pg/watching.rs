//! Effects of requests on watches: carried out with the answer, or caused by timeouts.

use super::Pg;
use super::request::ClientOp;
use crate::core::Core;
use crate::watch::{Effect, Told};
use msgs::Op;
use msgs::op::watch_op;

impl Pg {
    /// The messages that a request causes for watches: those before the answer, and those after it.
    pub(super) fn carry_out_effects(
        &mut self,
        core: &Core,
        op: &mut ClientOp,
        succeeded: bool,
    ) -> (Vec<Told>, Vec<Told>) {
        let (mut before, mut after) = (Vec::new(), Vec::new());
        let now = core.now().mono;
        for effect in std::mem::take(&mut op.effects) {
            let notifies = matches!(effect, Effect::Notify { .. });
            let connects = match &effect {
                Effect::Connect { watcher, .. } => Some(*watcher),
                _ => None,
            };
            let told = if notifies { &mut before } else { &mut after };
            self.watches.apply(now, &op.key, (op.conn, op.from.0), effect, told);
            if let Some(watcher) = connects {
                self.watches.is_at(&op.key, watcher, op.from.1);
            }
        }
        self.watches.complete_ready(&mut after);
        if let (Some(watcher), false) = (op.expired, succeeded) {
            self.watches.keep(now, &op.key, watcher);
        }
        (before, after)
    }

    /// Watchers live from when they say so.
    pub(super) fn hear_of_watchers(&mut self, core: &Core, op: &ClientOp) {
        for sub in &op.request.ops {
            let Op::Watch { cookie, op: what, .. } = sub.op else { continue };
            let conn = match what {
                watch_op::PING => op.conn,
                watch_op::UNWATCH => continue,
                _ => None,
            };
            self.watches.heard_of(core.now().mono, &op.key, (cookie, op.from.0), conn);
        }
    }

    /// Notifications and watches whose time is over.
    pub fn on_watch_time(&mut self, core: &mut Core) {
        let mut told = Vec::new();
        for (key, watcher) in self.watches.expire(core.now().mono, &mut told) {
            let id = core.next_op();
            core.count("watches_expired", 1);
            self.on_client_op(core, id, ClientOp::expiry(watcher, key, core.now()));
        }
        tell(core, told);
    }

    /// Clients that the map has blocklisted are gone for good: nobody waits for their watches' time.
    pub fn end_blocklisted(&mut self, core: &mut Core) {
        let map = core.map().clone();
        if !map.blocklist.is_empty() && self.watches.cut_off(core.now().mono, |addr| map.is_blocklisted(addr))
        {
            self.on_watch_time(core);
        }
    }

    /// A watch lives after all, or the object does not have it.
    pub(super) fn drop_expiry(&mut self, core: &mut Core, op: ClientOp) {
        self.requests.end(&op);
        let mut told = Vec::new();
        if let Some(watcher) = op.expired {
            if op.loaded.watches.contains_key(&watcher) {
                self.watches.keep(core.now().mono, &op.key, watcher);
            } else {
                let end = Effect::End { watcher, tell: true };
                self.watches.apply(core.now().mono, &op.key, (None, watcher.1), end, &mut told);
            }
        }
        tell(core, told);
        self.run_queue(core, &op.key);
    }
}

/// Sends clients what they are to know of their watches and notifications.
pub(super) fn tell(core: &mut Core, told: Vec<Told>) {
    for (conn, message) in told {
        core.send(conn, 0, msgs::Body::from(message));
    }
}
