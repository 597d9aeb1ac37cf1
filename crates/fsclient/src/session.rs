//! The session with one rank: its connection, its state and its timers.

use crate::gathered::Gathered;
use crate::op::Outs;
use crate::releases::Releases;
use maps::{Gid, IntervalSet, MdsMap, MdsRank, MdsState};
use msgs::{Body, CapReleaseItem, ClientSession, session_metadata, session_op};
use node::{CloseReason, ConnId, Msg, Output};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use stdx::{Instant, Now};

/// The longest wait, after a session broke, until the map tells who is next.
const GIVE_UP_SESSION: Duration = Duration::from_secs(3);
/// The same if it is not known whether the MDS still has the session: by then it has dropped it.
const GIVE_UP_UNKNOWN: Duration = Duration::from_secs(60);
/// The pause before an MDS that could not be reached is tried again.
const RETRY: Duration = Duration::from_millis(500);
/// The pause before a session that an MDS closed is opened again.
const REOPEN: Duration = Duration::from_secs(1);

/// The state of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum State {
    /// There is none, and the map names no MDS that would open one.
    #[default]
    Closed,
    /// REQUEST_OPEN is on its way.
    Opening,
    /// It serves.
    Open,
    /// The MDS is gone; the map will name its successor.
    Lost,
    /// The successor has our claims.
    Reconnecting,
    /// REQUEST_CLOSE is on its way.
    Closing,
}

/// The next step that a session needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum Next {
    Nothing,
    Open,
    /// The session can't be had back: forget it, for this reason, and open another.
    Reopen(&'static str),
    /// Send our claims.
    Reconnect,
    /// Send requests, as this state of the MDS allows.
    Resend,
    /// It has ended while the client leaves.
    Left,
}

/// The session with one rank.
///
/// Invariants: a session that serves or is being opened, claimed or closed has a connection; only one that is
/// closed, lost or closing waits for something with a limit.
#[derive(Debug)]
pub(crate) struct Session {
    rank: MdsRank,
    state: State,
    conn: Option<ConnId>,
    /// The MDS that the session is with.
    gid: Gid,
    seq: u64,
    renew_at: Option<Instant>,
    give_up_at: Option<Instant>,
    /// The MDS's process is dead: however late the map names a successor, that one still takes our claims.
    is_dead: bool,
    /// The MDS could not be reached with our claims: it waits for them, so they are sent again.
    claims_undelivered: bool,
    /// The MDS takes renames with flags.
    renames_with_flags: bool,
    /// It takes asynchronous MKDIRs and RMDIRs.
    takes_async_dirs: bool,
    takes_small_files: bool,
    /// Inode numbers for asynchronous creates, as ranges (first, count). No other MDS knows of them.
    numbers: VecDeque<(u64, u64)>,
    gathered: Gathered,
    releases: Releases,
}

impl Session {
    /// No session yet. Messages that nobody waits for gather for the time `gather`.
    pub(crate) fn new(rank: MdsRank, gather: Duration) -> Self {
        Self {
            rank,
            state: State::Closed,
            conn: None,
            gid: Gid::default(),
            seq: 0,
            renew_at: None,
            give_up_at: None,
            is_dead: false,
            claims_undelivered: false,
            renames_with_flags: false,
            takes_async_dirs: false,
            takes_small_files: false,
            numbers: VecDeque::new(),
            gathered: Gathered::new(gather),
            releases: Releases::default(),
        }
    }

    pub(crate) fn state(&self) -> State {
        self.state
    }

    pub(crate) fn conn(&self) -> Option<ConnId> {
        self.conn
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        let sends = [self.gathered.deadline(), self.releases.deadline()];
        [self.renew_at, self.give_up_at].into_iter().chain(sends).flatten().min()
    }

    /// True if requests may be sent.
    pub(crate) fn serves(&self, map: &MdsMap) -> bool {
        self.state == State::Open && map.state_of(self.rank).serves()
    }

    /// True if the MDS takes renames with flags.
    pub(crate) fn renames_with_flags(&self) -> bool {
        self.renames_with_flags
    }

    /// True if the MDS takes asynchronous MKDIRs and RMDIRs.
    pub(crate) fn takes_async_dirs(&self) -> bool {
        self.takes_async_dirs
    }

    /// True if the MDS takes the data of small new files.
    pub(crate) fn takes_small_files(&self) -> bool {
        self.takes_small_files
    }

    /// True if there is no session.
    pub(crate) fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// Sends a message, after those that gather.
    pub(crate) fn send(&mut self, body: impl Into<node::Body>, tid: u64, out: &mut Outs) {
        self.send_awaited(out);
        if let Some(conn) = self.conn {
            out.push(Output::Send { conn, msg: Msg::new(tid, body) });
        }
    }

    /// Sends a message that nobody here waits for, soon.
    pub(crate) fn send_soon(&mut self, now: Now, body: node::Body, tid: u64, out: &mut Outs) {
        if self.conn.is_some() && self.gathered.add(now.mono, tid, body) {
            self.send_gathered(out);
        }
    }

    /// Gives a capability back, with others. Returns true if there are enough to be sent.
    pub(crate) fn release_later(&mut self, now: Now, item: CapReleaseItem) -> bool {
        self.conn.is_some() && self.releases.add(now.mono, item)
    }

    /// Gives back, soon, the capabilities that the MDS was not told of yet.
    pub(crate) fn send_releases(&mut self, now: Now, out: &mut Outs) {
        let caps = self.releases.take();
        if !caps.is_empty() && self.gathered.add_releases(now.mono, caps) {
            self.send_gathered(out);
        }
    }

    /// Sends the messages that gather: somebody waits for what follows from them.
    pub(crate) fn send_awaited(&mut self, out: &mut Outs) {
        self.gathered.is_waited_for();
        self.send_gathered(out);
    }

    /// Sends the messages that gather.
    pub(crate) fn send_gathered(&mut self, out: &mut Outs) {
        let messages = self.gathered.take();
        if let Some(conn) = self.conn {
            let send = |(tid, body)| Output::Send { conn, msg: Msg::new(tid, body) };
            out.extend(messages.into_iter().map(send));
        }
    }

    /// Sends a session message with the next sequence number.
    pub(crate) fn send_op(&mut self, op: u32, out: &mut Outs) {
        self.seq += 1;
        self.send(Body::from(ClientSession::of(op, self.seq)), 0, out);
    }

    /// The session uses this connection to this MDS from now on. Returns the former connection, to be closed.
    pub(crate) fn connect(&mut self, state: State, conn: ConnId, gid: Gid) -> Option<ConnId> {
        (self.state, self.gid) = (state, gid);
        // What was waited for has come, perhaps by the map before the pause was over.
        self.give_up_at = None;
        self.drop_unsent();
        self.conn.replace(conn)
    }

    /// True if the session is lost by a newer map: its MDS no longer holds the rank.
    pub(crate) fn is_lost_by(&self, map: &MdsMap) -> bool {
        map.holder(self.rank).is_none_or(|holder| self.state != State::Closed && holder.gid != self.gid)
    }

    /// Follows a newer map, after a loss that it brought.
    pub(crate) fn follow_map(&mut self, map: &MdsMap) -> Next {
        let Some(holder) = map.holder(self.rank) else { return Next::Nothing };
        if self.state != State::Closed && holder.gid != self.gid {
            self.gid = holder.gid;
            self.give_up_at = None;
        }
        match (self.state, holder.state) {
            (State::Closed, MdsState::ACTIVE) => Next::Open,
            (State::Lost, MdsState::RECONNECT) => Next::Reconnect,
            // We were not there when claims were taken. A server of ours takes them for some time yet;
            // another closes the session, and all that rests on it is gone.
            (State::Lost, state) if state.serves() && self.give_up_at.is_none() => Next::Reconnect,
            (State::Open, state) if state.serves() || state == MdsState::CLIENTREPLAY => Next::Resend,
            _ => Next::Nothing,
        }
    }

    /// The session is lost. Returns its connection, to be closed. If capabilities rest on it, the MDS that
    /// they came to had recorded the session before it was open here.
    pub(crate) fn lose(&mut self, now: Now, has_caps: bool) -> Option<ConnId> {
        self.renew_at = None;
        self.state = match self.state {
            State::Closed | State::Opening if !has_caps => State::Closed,
            _ => State::Lost,
        };
        self.give_up_at = (self.state == State::Lost).then(|| now.mono + GIVE_UP_SESSION);
        self.claims_undelivered = false;
        self.numbers.clear();
        self.disconnect()
    }

    /// The MDS serves, and takes claims still.
    pub(crate) fn claim_now(&mut self) {
        self.give_up_at = None;
    }

    /// The session can't be had back.
    pub(crate) fn forget(&mut self) {
        self.state = State::Closed;
        (self.renew_at, self.give_up_at) = (None, None);
        self.numbers.clear();
    }

    /// The MDS has delegated inode numbers.
    pub(crate) fn add_numbers(&mut self, numbers: &IntervalSet) {
        self.numbers.extend(numbers.iter());
    }

    /// Takes one of the delegated numbers.
    pub(crate) fn take_number(&mut self) -> Option<u64> {
        let (first, count) = self.numbers.pop_front()?;
        if count > 1 {
            self.numbers.push_front((first + 1, count - 1));
        }
        Some(first)
    }

    /// Gives the connection up. Returns it, to be closed.
    pub(crate) fn disconnect(&mut self) -> Option<ConnId> {
        self.drop_unsent();
        self.conn.take()
    }

    /// Drops what has not been sent: the next MDS is told what is held.
    fn drop_unsent(&mut self) {
        self.gathered.take();
        self.releases.take();
    }

    /// The MDS has closed the session: another is opened after a pause.
    pub(crate) fn reopen_later(&mut self, now: Now) {
        self.give_up_at = Some(now.mono + REOPEN);
    }

    /// The connection has ended before the session was open.
    pub(crate) fn failed_to_open(&mut self, now: Now) {
        self.state = State::Closed;
        self.give_up_at = Some(now.mono + RETRY);
    }

    /// The connection has ended: forgets it. Returns the state that the session was in.
    pub(crate) fn disconnected(&mut self) -> State {
        self.disconnect();
        self.state
    }

    /// The session is lost because its connection ended, in state `was`: decides how long to wait for the
    /// map.
    pub(crate) fn wait_after(&mut self, now: Now, was: State, reason: CloseReason) {
        self.is_dead = reason == CloseReason::Refused;
        // `Denied` means that our tickets have expired: by the next time there are new ones.
        self.claims_undelivered =
            was == State::Reconnecting && matches!(reason, CloseReason::TimedOut | CloseReason::Denied);
        if self.claims_undelivered {
            self.give_up_at = Some(now.mono + RETRY);
        } else if reason != CloseReason::Reset {
            self.give_up_at = Some(now.mono + GIVE_UP_UNKNOWN);
        }
    }

    /// The MDS serves the session from now on, with what it announces.
    pub(crate) fn opened(&mut self, now: Now, map: &MdsMap, announced: &BTreeMap<String, String>) {
        self.renames_with_flags = announced.contains_key(session_metadata::RENAME_FLAGS);
        self.takes_async_dirs = announced.contains_key(session_metadata::ASYNC_DIRS);
        self.takes_small_files = announced.contains_key(session_metadata::SMALL_FILES);
        self.state = State::Open;
        self.renew_at = Some(now.mono + renew_every(map));
    }

    /// Gives the session back. Returns false if it is not open: then nothing is to be waited for.
    pub(crate) fn close(&mut self, now: Now, out: &mut Outs) -> bool {
        if self.state != State::Open {
            return false;
        }
        self.state = State::Closing;
        self.renew_at = None;
        self.give_up_at = Some(now.mono + GIVE_UP_SESSION);
        self.send_op(session_op::REQUEST_CLOSE, out);
        true
    }

    /// Renews capabilities when that is due, and gives up waiting. Returns what follows.
    pub(crate) fn timer(&mut self, now: Now, map: &MdsMap, out: &mut Outs) -> Next {
        if self.renew_at.is_some_and(|at| at <= now.mono) {
            self.send_op(session_op::REQUEST_RENEWCAPS, out);
            self.renew_at = Some(now.mono + renew_every(map));
        }
        if self.releases.deadline().is_some_and(|at| at <= now.mono) {
            self.send_releases(now, out);
        }
        if self.gathered.deadline().is_some_and(|at| at <= now.mono) {
            self.send_gathered(out);
        }
        if self.give_up_at.is_none_or(|at| at > now.mono) {
            return Next::Nothing;
        }
        self.give_up_at = None;
        let lost = self.state == State::Lost;
        let holder = map.holder(self.rank);
        let is_same = holder.is_some_and(|h| h.gid == self.gid);
        match holder.map(|h| h.state) {
            _ if self.state == State::Closing => Next::Left,
            // Until it gives up waiting it takes claims, in whatever state; then it answers them with CLOSE.
            Some(_) if lost && self.claims_undelivered && is_same => Next::Reconnect,
            _ if lost && self.is_dead && is_same => self.wait_on(now),
            // The MDS that we lost still holds the rank: it has dropped our session.
            Some(MdsState::ACTIVE) if lost => Next::Reopen("the MDS dropped the session"),
            Some(MdsState::ACTIVE) => Next::Open,
            _ if lost => self.wait_on(now),
            _ => Next::Nothing,
        }
    }

    fn wait_on(&mut self, now: Now) -> Next {
        self.give_up_at = Some(now.mono + GIVE_UP_SESSION);
        Next::Nothing
    }

    /// Asserts the invariants.
    pub(crate) fn check(&self) {
        self.gathered.check();
        self.releases.check();
        let waits = matches!(self.state, State::Closed | State::Lost | State::Closing);
        assert!(waits || self.give_up_at.is_none(), "{} is {:?} and gives up later", self.rank, self.state);
        let needs_conn =
            matches!(self.state, State::Opening | State::Open | State::Reconnecting | State::Closing);
        assert!(!needs_conn || self.conn.is_some(), "{} is {:?} without a connection", self.rank, self.state);
    }

    /// A session whose server has announced this alone.
    #[cfg(test)]
    pub(crate) fn pretend_announced(&mut self, what: &str) {
        self.renames_with_flags = what == session_metadata::RENAME_FLAGS;
        self.takes_async_dirs = what == session_metadata::ASYNC_DIRS;
        self.takes_small_files = what == session_metadata::SMALL_FILES;
    }

    /// A session of which messages that nobody waits for gather for this time.
    #[cfg(test)]
    pub(crate) fn pretend_gathering(&mut self, time: Duration) {
        self.gathered = Gathered::new(time);
    }

    /// A session as if it had been opened.
    #[cfg(test)]
    pub(crate) fn pretend(&mut self, state: State, conn: ConnId) {
        (self.conn, self.state, self.give_up_at) = (Some(conn), state, None);
    }

    #[cfg(test)]
    pub(crate) fn gid(&self) -> Gid {
        self.gid
    }
}

fn renew_every(map: &MdsMap) -> Duration {
    Duration::from_secs(u64::from(map.session_timeout.max(3)) / 3)
}
