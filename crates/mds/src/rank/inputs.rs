//! The inputs of a rank: completions of object operations, time, and messages of clients.

use super::Rank;
use super::effect::{Effect, Stage};
use super::reconnect::{Resumed, Said, tell_new_session};
use super::replay::Replay;
use super::sessions::{ClientPeer, Sessions};
use crate::io::{IoResult, IoWhy};
use crate::rank::env::Due;
use crate::types::{ClientId, IoId, Lsn, Need};
use fsfmt::Ino;
use maps::SnapId;
use msgs::{Body, ClientRequest, ClientSession, session_op};
use node::Level;
use std::time::Duration;
use stdx::{Instant, Now};
use wire::Errno;

impl Rank {
    /// Handles the completion of an object operation.
    pub fn io_done(&mut self, now: Now, id: IoId, result: IoResult) {
        self.env.set_now(now);
        let Some(why) = self.env.end_io(id) else { return };
        match &result {
            Err(Errno::EBLOCKLISTED) => return self.env.effect(Effect::Replaced),
            // What can't be read is damaged; the rest of the file system goes on.
            Err(Errno::EIO)
                if matches!(why, IoWhy::Load | IoWhy::Scrub | IoWhy::Refragment | IoWhy::PartitionRead) => {}
            Err(e) if !matches!(*e, Errno::ENOENT | Errno::ENODATA) || why == IoWhy::Journal => {
                let name = e.name().unwrap_or("an unknown error");
                let text = format!("{why:?} failed with {name}: the rank can't trust what is stored");
                return self.env.effect(Effect::Fail(text));
            }
            _ => {}
        }
        let Self { env, cache, sessions, .. } = self;
        match why {
            IoWhy::Journal => env.journal_written(),
            IoWhy::Boot => self.replay_read(id, result),
            IoWhy::Partition => self.partition_written(id),
            IoWhy::PartitionRead => self.partition_read(id, result),
            IoWhy::Load => self.loader.io_done(env, cache, id, result),
            IoWhy::Scrub => self.scrub.io_done(env, cache, sessions, id, result),
            IoWhy::Refragment => self.fragments.io_done(env, result),
            IoWhy::Data(ino) => self.strays.io_done(env, cache, sessions, ino, result.is_ok()),
            written => self.write_back.io_done(env, cache, sessions, written, result.is_ok()),
        }
    }

    /// Handles the passage of time.
    pub fn timer(&mut self, now: Now) {
        self.env.set_now(now);
        if now.mono >= self.next_second {
            self.next_second = now.mono + Duration::from_secs(1);
            self.every_second();
        }
        let takes_changes = self.write_back.takes_changes(&self.env);
        let Self { env, cache, sessions, .. } = self;
        self.reconnect.check_window(env, cache, sessions);
        if self.accounting.advance(env, cache, sessions, takes_changes) {
            self.tell_stats();
        }
    }

    fn every_second(&mut self) {
        let Self { env, cache, sessions, ops, migration, .. } = self;
        self.reconnect.check_window(env, cache, sessions);
        if env.stage() == Stage::Active {
            let late = |client| {
                let revocations = [ops.late_revocation(cache, client), migration.late(cache, client)];
                revocations.into_iter().flatten().min()
            };
            sessions.check_silence(env, cache, late);
            sessions.recall(env, cache);
        }
        self.caps.revoke_unwanted(env, cache, sessions);
        self.caps.end_sharing(env, cache);
        self.strays.every_second(cache);
        self.fragments.every_second(env, cache);
        self.join_own();
        self.note_distributed();
        self.migrate_pinned();
        self.advance_balance();
        self.send_heartbeats();
        self.run();
        self.trim_thoroughly();
    }

    /// Handles the monitors' answer to a request for a snapshot id.
    pub fn snap_id(&mut self, now: Now, id: Result<SnapId, Errno>) {
        self.env.set_now(now);
        self.env.keep_snap_id(id);
        self.ops.wake_for(&Need::SnapId);
        self.run();
    }

    /// Handles the monitors' answer to the removal of a snapshot from the data pool.
    pub fn snap_removed(&mut self, now: Now, snap: SnapId, failure: Option<Errno>) {
        self.env.set_now(now);
        self.trimming.given_back(&mut self.env, snap, failure);
    }

    /// Time of the next [`Self::timer`].
    pub fn deadline(&self) -> Instant {
        let look = self.replay.as_ref().and_then(Replay::deadline);
        let migration = self.migration_deadline().filter(|_| self.stage() == Stage::Active);
        let told = self.accounting.deadline().filter(|_| self.stage() == Stage::Active);
        let others = [self.reconnect.deadline(), self.client_replay.deadline(), migration, look, told];
        others.into_iter().chain([self.journal_deadline()]).flatten().fold(self.next_second, Instant::min)
    }

    /// Time at which the journal writes events that nobody waits for.
    pub fn journal_deadline(&self) -> Option<Instant> {
        self.env.journal().deadline()
    }

    /// Notes that a client has connected.
    pub fn client_connected(&mut self, client: ClientId, peer: ClientPeer) {
        self.sessions.connected(client, peer);
    }

    /// Handles a message of a client.
    pub fn client_message(&mut self, now: Now, client: ClientId, tid: u64, body: Body) {
        self.env.set_now(now);
        self.take_message(client, tid, body);
    }

    pub(super) fn take_message(&mut self, client: ClientId, tid: u64, body: Body) {
        let Self { env, cache, sessions, reconnect, caps, .. } = self;
        match body {
            // Before the map allows clients to reconnect, their claims are only kept.
            Body::ClientReconnect(m) if env.stage() == Stage::Replayed => {
                reconnect.keep_early(client, tid, Body::ClientReconnect(m));
            }
            Body::ClientReconnect(m) => reconnect.client_reconnect(env, cache, sessions, caps, client, *m),
            body => {
                if let Body::ClientRequest(m) = &body
                    && reconnect.is_absent(client)
                {
                    self.client_replay.expect(client, m);
                }
                self.take_other(client, tid, body);
            }
        }
        self.run();
    }

    /// Handles a message that is no claim, unless it has to wait.
    fn take_other(&mut self, client: ClientId, tid: u64, body: Body) {
        if matches!(body, Body::ClientSession(_)) {
            // It may end the session that the client's other messages are about.
            let earlier = self.postponed.take_of(client);
            earlier.into_iter().for_each(|(client, tid, body)| self.take_now(client, tid, body));
        }
        let drains = self.write_back.is_draining();
        if let Some(body) = self.postponed.hold_back(drains, client, tid, body) {
            self.take_now(client, tid, body);
        }
    }

    /// Handles the messages that waited for the journal to drain, if it has.
    pub(super) fn take_postponed(&mut self) {
        if !self.write_back.is_draining() {
            let earlier = self.postponed.take();
            earlier.into_iter().for_each(|(client, tid, body)| self.take_now(client, tid, body));
        }
    }

    /// Handles a message that does not wait for the journal.
    fn take_now(&mut self, client: ClientId, tid: u64, body: Body) {
        let Self { env, cache, reconnect, .. } = self;
        match reconnect.hold_back(env, client, tid, body) {
            Some(body) if env.stage() == Stage::Active => {
                let said = self.client_replay.hold_back(env, cache, client, (tid, body));
                said.into_iter().for_each(|(tid, body)| self.dispatch(client, tid, body));
            }
            Some(body) => reconnect.keep_early(client, tid, body),
            None => {}
        }
    }

    pub(super) fn dispatch(&mut self, client: ClientId, tid: u64, body: Body) {
        let Some(body) = self.hold_for_join(client, tid, body) else { return };
        match body {
            Body::ClientSession(m) => self.client_session(client, &m),
            Body::ClientRequest(m) => self.client_request(client, tid, *m),
            Body::ClientCaps(m) => {
                self.announce_if_new(Ino(m.ino).head());
                if let Some(m) = self.hold_flush(client, tid, m) {
                    self.take_caps(client, tid, &m);
                }
            }
            Body::ClientCapRelease(m) => {
                m.caps.iter().for_each(|item| self.announce_if_new(Ino(item.ino).head()));
                let Self { env, cache, sessions, caps, .. } = self;
                caps.client_release(env, cache, sessions, client, &m);
            }
            Body::ClientReclaim(m) => self.reclaims.ask(&mut self.env, &mut self.sessions, client, &m),
            Body::ClientLease(_) | Body::ClientMetrics(_) => {}
            other => {
                let detail = format!("{client} sends {}", other.name());
                self.env.log(Level::Debug, "unexpected_message_seen", detail);
            }
        }
    }

    fn client_session(&mut self, client: ClientId, m: &ClientSession) {
        let (is_closing, is_all) = (self.is_closing(), self.migration.is_certain());
        let Self { env, cache, sessions, reconnect, write_back, .. } = self;
        match m.head.op {
            // The client asks another rank when the map does not have this one any more.
            session_op::REQUEST_OPEN if is_closing && sessions.get(client).is_none() => {}
            session_op::REQUEST_OPEN => {
                let imported = reconnect.abandon(env, cache, sessions, client, is_all);
                self.client_replay.expect_nothing(client);
                sessions.open(env, cache, client, m, write_back.ino_next());
                tell_new_session(env, cache, sessions, client, imported);
            }
            session_op::REQUEST_RENEWCAPS => {
                sessions.renew(env, client, m.head.seq);
                self.run();
                let Self { env, cache, sessions, reconnect, .. } = self;
                reconnect.settle_doubts(env, cache, sessions, client);
            }
            session_op::REQUEST_CLOSE => self.close_session(client),
            session_op::REQUEST_FLUSH_MDLOG => env.want_durable(env.journal().last()),
            _ => {}
        }
    }

    fn client_request(&mut self, client: ClientId, tid: u64, request: ClientRequest) {
        self.strays.client_asks(self.env.now());
        let Self { env, sessions, .. } = self;
        if sessions.get(client).is_none() {
            let detail = format!("{client} has no session and asks for {}", request.op);
            return env.log(Level::Info, "request_without_session_seen", detail);
        }
        if !sessions.begin_request(env.now(), client, tid, request.oldest_client_tid) {
            return;
        }
        request.releases.iter().for_each(|r| self.announce_if_new(Ino(r.ino).head()));
        let Self { env, cache, sessions, caps, ops, .. } = self;
        for r in &request.releases {
            caps.release_embedded(env, cache, sessions, client, r);
        }
        if ops.interrupt_lock(env, cache, sessions, caps, client, (tid, &request)) {
            return;
        }
        let released: Vec<Ino> = request.releases.iter().map(|r| Ino(r.ino)).collect();
        ops.start(env.now(), client, tid, request);
        self.run();
        // Not before the request has run: it may need what its client has just given up.
        released.into_iter().for_each(|ino| self.env.due(Due::CapsChanged(ino.head())));
    }

    pub(super) fn close_session(&mut self, client: ClientId) {
        if self.sessions.get(client).is_none() {
            let close = Sessions::message(&self.env, session_op::CLOSE, 0);
            return self.sessions.send(&mut self.env, client, 0, 0, close);
        }
        let lsn = self.end_session(client, "session close");
        self.sessions.send_closed(&mut self.env, client, lsn);
    }

    /// Takes a client's capabilities and locks away and ends its session.
    fn end_session(&mut self, client: ClientId, what: &str) -> Lsn {
        let Self { env, cache, sessions, caps, .. } = self;
        self.ops.drop_client(env, cache, sessions, caps, client);
        self.client_replay.drop_client(client);
        cache.locks.release_all(client).into_iter().for_each(|ino| env.due(Due::Wake(ino)));
        for ino in sessions.held(client) {
            caps.remove(env, cache, sessions, ino, client);
        }
        let lsn = sessions.end(env, cache, client, what);
        self.reclaims.session_ended(env, sessions, client, lsn);
        lsn
    }

    /// An administrator has a client evicted.
    pub fn evict(&mut self, client: ClientId) {
        self.sessions.evict(&mut self.env, client, "an administrator asked for it");
    }

    /// The OSDs refuse a client, although no eviction of it was asked for here.
    pub fn refused(&mut self, now: Now, client: ClientId) {
        if self.env.stage() == Stage::Active && self.sessions.refuse(&mut self.env, client) {
            self.evicted(now, client);
        }
    }

    /// Handles the completed eviction of a client.
    pub fn evicted(&mut self, now: Now, client: ClientId) {
        self.env.set_now(now);
        if self.sessions.is_evicting(client) {
            self.reconnect.drop_client(&mut self.env, &mut self.cache, client);
            self.sessions.raise_barrier(self.env.cfg().osd_epoch);
            self.end_session(client, "session evict");
            self.env.effect(Effect::Closed(client));
            self.run();
        }
    }

    /// Resumes clients that have claimed everything; false if there was none.
    pub(super) fn resume_reconnected(&mut self) -> bool {
        let Some(client) = self.reconnect.next_reconnected() else { return false };
        let is_all = self.migration.is_certain();
        let Self { env, cache, sessions, .. } = self;
        let Resumed { said, held, missing } = self.reconnect.resume(env, cache, sessions, client, is_all);
        let said = self.client_replay.add(sessions, client, said, missing);
        self.take_messages(client, said);
        if self.env.stage() == Stage::Active {
            held.into_iter().for_each(|ino| self.env.due(Due::CapsChanged(ino)));
        }
        self.run();
        true
    }

    /// Goes on with the requests that clients repeat; false if there was nothing to do.
    pub(super) fn advance_client_replay(&mut self) -> bool {
        if self.env.stage() != Stage::Active {
            return false;
        }
        let Self { env, sessions, ops, client_replay, .. } = self;
        let ended = client_replay.advance(env, sessions, ops);
        let others = self.client_replay.release_others(self.env.now());
        let is_idle = ended.is_none() && others.is_empty();
        if let Some(ended) = ended {
            match ended.unfound(&self.cache).filter(|_| !self.migration.ranks.is_empty()) {
                Some(ino) => {
                    self.seek(ino.ino);
                    self.client_replay.search(ended, ino);
                }
                None => {
                    let Self { env, cache, sessions, .. } = self;
                    ended.settle(env, cache, sessions);
                    self.take_messages(ended.client, ended.said);
                }
            }
        }
        for (client, said) in others {
            self.take_messages(client, vec![said]);
        }
        self.run() || !is_idle
    }

    pub(super) fn take_messages(&mut self, client: ClientId, said: Vec<Said>) {
        for (tid, body) in said {
            self.take_message(client, tid, body);
        }
    }
}
