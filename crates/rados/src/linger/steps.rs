//! How lingering operations are registered, pinged and ended.

use super::{Interval, Linger, PING_EVERY, State};
use crate::engine::Waiting;
use crate::op::{Attempt, Kind, LingerId};
use crate::target::Place;
use crate::{Completion, Rados, RadosOut, RadosTold, Request};
use maps::ObjectLocator;
use msgs::op::{input, watch_op};
use msgs::{WatchNotify, notify_op};
use std::collections::BTreeSet;
use stdx::Now;
use wire::Errno;

impl Rados {
    /// Watches an object. Ends in [`RadosTold::Watched`]; then [`RadosTold::Notified`] follows for each
    /// notification, until [`RadosTold::WatchBroken`] or [`Self::unwatch`]. `cookie` must be new. `timeout`
    /// is the time in seconds for which the OSD keeps the watch of a silent client, 0 for its default.
    pub fn watch(
        &mut self,
        now: Now,
        cookie: u64,
        locator: ObjectLocator,
        oid: &[u8],
        timeout: u32,
        out: &mut Vec<RadosOut>,
    ) {
        self.lingers.ping_at.get_or_insert(now.mono + PING_EVERY);
        self.linger(now, LingerId::Watch(cookie), (locator, oid), State::Registering { timeout }, out);
    }

    /// Ends a watch, also a broken one. After [`RadosTold::Done`] no OSD knows of it.
    pub fn unwatch(&mut self, now: Now, token: u64, cookie: u64, out: &mut Vec<RadosOut>) {
        let id = LingerId::Watch(cookie);
        let Some(linger) = self.forget_linger(id) else {
            let completion = Box::new(Completion::failed(Errno::ENOENT));
            return out.push(RadosTold::Done { token, completion }.into());
        };
        self.submit(now, token, linger.watch(id, watch_op::UNWATCH, 0), out);
    }

    /// Notifies an object's watchers and waits for their answers, at most `timeout` seconds (0 for the OSD's
    /// default). Ends in [`RadosTold::NotifyEnded`]. If the notification had to be sent again, watchers may
    /// hear of it more than once, under other numbers.
    #[expect(clippy::too_many_arguments, reason = "as librados has them")]
    pub fn notify(
        &mut self,
        now: Now,
        token: u64,
        locator: ObjectLocator,
        oid: &[u8],
        payload: Vec<u8>,
        timeout: u32,
        out: &mut Vec<RadosOut>,
    ) {
        let state = State::Notifying { payload, timeout, notify_id: None };
        self.linger(now, LingerId::Notify(token), (locator, oid), state, out);
    }

    fn linger(
        &mut self,
        now: Now,
        id: LingerId,
        (locator, oid): (ObjectLocator, &[u8]),
        state: State,
        out: &mut Vec<RadosOut>,
    ) {
        let interval = Interval::of(&self.map, &locator, oid);
        let linger =
            Linger { locator, oid: oid.to_vec(), state, interval, generation: 0, alive_at: now.mono };
        let before = self.lingers.all.insert(id, linger);
        assert!(before.is_none(), "{id:?} is used twice");
        self.register(id, now.wall.into(), out);
    }

    /// Registers lost ones again.
    pub(crate) fn register_lost(&mut self, out: &mut Vec<RadosOut>) {
        for id in std::mem::take(&mut self.lingers.lost) {
            self.register(id, wire::Utime::default(), out);
        }
    }

    fn register(&mut self, id: LingerId, mtime: wire::Utime, out: &mut Vec<RadosOut>) {
        self.drop_attempts(id);
        let Some(linger) = self.lingers.all.get_mut(&id) else { return };
        if matches!(linger.state, State::Broken) {
            return;
        }
        linger.generation += 1;
        let attempt = Attempt { id, generation: linger.generation, pinged: None };
        let request = Request { mtime, ..linger.registration(id) };
        self.attempt(attempt, request, out);
    }

    fn attempt(&mut self, attempt: Attempt, request: Request, out: &mut Vec<RadosOut>) {
        let waiting: Waiting = (0, Kind::Linger(attempt), Place::Object, request);
        self.waiting.push_back(waiting);
        self.admit(out);
    }

    /// Ends all of them: their owners are told that they are of no use any more.
    pub(crate) fn end_lingers(&mut self, errno: Errno, out: &mut Vec<RadosOut>) {
        let ids: Vec<LingerId> = self.lingers.all.keys().copied().collect();
        for id in ids {
            match (&self.lingers.all[&id].state, id) {
                (State::Registering { .. }, LingerId::Watch(cookie)) => {
                    drop(self.forget_linger(id));
                    out.push(RadosTold::Watched { cookie, result: Err(errno) }.into());
                }
                (State::Notifying { .. }, _) => {
                    self.notify_ended(id, Err(errno), input::NotifyReply::default(), out);
                }
                (State::Registered, _) => self.broken(id, errno, out),
                _ => {}
            }
        }
        self.lingers.lost.clear();
    }

    fn drop_attempts(&mut self, id: LingerId) {
        let is_of = |kind: &Kind| matches!(kind, Kind::Linger(attempt) if attempt.id == id);
        self.waiting.retain(|(_, kind, ..)| !is_of(kind));
        let tids: Vec<u64> = self.ops.iter().filter(|(_, op)| is_of(&op.kind)).map(|(tid, _)| *tid).collect();
        tids.iter().for_each(|tid| drop(self.remove(*tid)));
    }

    fn forget_linger(&mut self, id: LingerId) -> Option<Linger> {
        self.drop_attempts(id);
        let linger = self.lingers.all.remove(&id);
        if !self.lingers.all.keys().any(|id| matches!(id, LingerId::Watch(_))) {
            self.lingers.ping_at = None;
        }
        linger
    }

    /// Pings OSDs, so that they know that watchers are alive.
    pub(crate) fn ping_watches(&mut self, now: Now, out: &mut Vec<RadosOut>) {
        if self.lingers.ping_at.is_none_or(|at| at > now.mono) {
            return;
        }
        self.lingers.ping_at = Some(now.mono + PING_EVERY);
        // Also if an earlier ping is unanswered: its OSD may be waiting for others for longer than a watch's
        // timeout.
        let asked: BTreeSet<LingerId> = (self.ops.values().map(|op| &op.kind))
            .chain(self.waiting.iter().map(|(_, kind, ..)| kind))
            .filter_map(|kind| match kind {
                Kind::Linger(attempt) if attempt.pinged.is_none() => Some(attempt.id),
                _ => None,
            })
            .collect();
        let others = self.lingers.all.iter().filter(|(id, _)| !asked.contains(id));
        let pings = others.filter(|(_, linger)| matches!(linger.state, State::Registered)).map(|(id, l)| {
            let attempt = Attempt { id: *id, generation: l.generation, pinged: Some(now.mono) };
            (attempt, Request { mtime: now.wall.into(), ..l.watch(*id, watch_op::PING, 0) })
        });
        for (attempt, request) in pings.collect::<Vec<_>>() {
            self.attempt(attempt, request, out);
        }
    }

    /// An OSD has answered an attempt, or there is no such pool.
    pub(crate) fn attempted(&mut self, attempt: Attempt, done: &Completion, out: &mut Vec<RadosOut>) {
        let Some(linger) = self.lingers.all.get_mut(&attempt.id) else { return };
        if linger.generation != attempt.generation {
            return;
        }
        let result = done.result.map(drop);
        match (&mut linger.state, attempt.id, result) {
            (State::Registering { .. }, LingerId::Watch(cookie), _) => {
                match result {
                    Ok(()) => linger.state = State::Registered,
                    Err(_) => drop(self.forget_linger(attempt.id)),
                }
                out.push(RadosTold::Watched { cookie, result }.into());
            }
            (State::Registered, LingerId::Watch(_), Err(errno)) => self.broken(attempt.id, errno, out),
            (State::Registered, LingerId::Watch(_), Ok(())) => {
                linger.alive_at = attempt.pinged.map_or(linger.alive_at, |at| at.max(linger.alive_at));
            }
            (State::Notifying { .. }, _, Err(_)) => {
                self.notify_ended(attempt.id, result, input::NotifyReply::default(), out);
            }
            (State::Notifying { notify_id, .. }, _, Ok(())) => {
                *notify_id = done.ops.first().and_then(|op| input::read(&op.data).ok());
            }
            _ => {}
        }
    }

    /// Handles an OSD's message about a watch or a notification.
    pub(crate) fn watch_notify(&mut self, m: WatchNotify, out: &mut Vec<RadosOut>) {
        let id = match m.opcode {
            notify_op::NOTIFY_COMPLETE => LingerId::Notify(m.cookie),
            _ => LingerId::Watch(m.cookie),
        };
        let Some(linger) = self.lingers.all.get(&id) else { return };
        match (m.opcode, &linger.state) {
            (notify_op::NOTIFY, State::Registering { .. } | State::Registered) => {
                let WatchNotify { cookie, notify_id, notifier_gid: notifier, payload, .. } = m;
                out.push(RadosTold::Notified { cookie, notify_id, notifier, payload }.into());
            }
            (notify_op::DISCONNECT, State::Registered) => self.broken(id, Errno::ENOTCONN, out),
            // An earlier attempt's end is of no use once another one has begun to wait.
            (notify_op::NOTIFY_COMPLETE, State::Notifying { notify_id, .. })
                if notify_id.is_none_or(|known| known == m.notify_id) =>
            {
                let reply = input::read(&m.data).unwrap_or_default();
                self.notify_ended(id, Errno::check(m.return_code).map(drop), reply, out);
            }
            _ => {}
        }
    }

    fn notify_ended(
        &mut self,
        id: LingerId,
        result: Result<(), Errno>,
        reply: input::NotifyReply,
        out: &mut Vec<RadosOut>,
    ) {
        let Some(linger) = self.forget_linger(id) else { return };
        let (LingerId::Notify(token) | LingerId::Watch(token)) = id;
        out.push(RadosTold::NotifyEnded { token, result, reply, attempts: linger.generation }.into());
        self.admit(out);
    }

    /// Breaks a watch. If its object is gone, the owner is told as if the OSD had said so.
    fn broken(&mut self, id: LingerId, errno: Errno, out: &mut Vec<RadosOut>) {
        self.drop_attempts(id);
        let (LingerId::Watch(cookie) | LingerId::Notify(cookie)) = id;
        if let Some(linger) = self.lingers.all.get_mut(&id) {
            linger.state = State::Broken;
            let errno = if errno == Errno::ENOENT { Errno::ENOTCONN } else { errno };
            let alive_at = linger.alive_at;
            out.push(RadosTold::WatchBroken { cookie, errno, alive_at }.into());
        }
        self.admit(out);
    }
}
