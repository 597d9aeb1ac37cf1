//! Moves bytes between a socket and a messenger's machine, and the machine's events to the node.
//!
//! There is one task for each socket. It reads only what the machine asks for, into the memory that it names.
//! It does not read while the message budget is exhausted, a request waits for the memory of its answer, or a
//! client leaves its answers unread; TCP then holds the peer back.

use super::link::{Link, Request};
use super::session;
use super::shared::{NetEvent, Shared};
use crate::clock;
use msgr::{Event, Reason, Want};
use node::Msg;
use std::collections::VecDeque;
use std::io::{ErrorKind, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;
use stdx::{Buf, Instant, Now};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::Sleep;
use wire::EntityType;

/// Reads of one turn; then others of the loop get theirs.
const READS_A_TURN: usize = 64;
/// Bytes of one turn.
const BYTES_A_TURN: usize = 2 << 20;
/// The most bytes of frames taken from the machine ahead of the socket.
const WRITE_AHEAD: usize = 1 << 20;
/// Segments of one vectored write.
const SEGMENTS: usize = 128;
/// The interval at which the first in line for the budget checks it, in case nobody wakes it.
const BUDGET_RETRY: Duration = Duration::from_millis(20);
/// A client that reads none of its answers for this long, while others wait for their memory, is
/// disconnected. It asks again when it can read them.
const STALL_WHILE_WANTED: Duration = Duration::from_secs(2);
/// A message of a daemon with fewer bytes than a block of data needs no budget.
const MAX_UNBUDGETED_BYTES: u64 = 4 << 10;
/// Time for a connection that its node has closed to send the rest.
const FINISH_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves an accepted socket to its end.
pub(super) async fn serve_accepted(stream: TcpStream, link: Rc<Link>, shared: Rc<Shared>) {
    let reason = Pump::new(&stream, &link, &shared).run().await;
    shared.count_closed(&link, &reason);
    session::socket_ended(&link, &reason, &shared);
    link.set_ended();
}

/// A socket, its machine, and the bytes in between.
pub(super) struct Pump<'a> {
    stream: &'a TcpStream,
    link: &'a Rc<Link>,
    shared: &'a Rc<Shared>,
    out: VecDeque<Buf>,
    out_bytes: usize,
    /// The time since which waiting output could not be written.
    stalled: Option<Instant>,
    finishing_since: Option<Instant>,
    timer: Pin<Box<Sleep>>,
    timer_at: Option<Instant>,
}

/// Reason for which reading stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reading {
    /// The socket has no more bytes.
    Socket,
    /// The budget is exhausted.
    Budget,
    /// Until there is memory for the answer to what was read.
    Answer,
    /// The peer must first read.
    Paused,
    /// The machine wants nothing until its events were handled.
    Nothing,
    /// Nothing: the turn is over.
    More,
}

impl<'a> Pump<'a> {
    pub(super) fn new(stream: &'a TcpStream, link: &'a Rc<Link>, shared: &'a Rc<Shared>) -> Self {
        // Small messages are what latency is made of. An error would show at the first read.
        let _ = stream.set_nodelay(true);
        Self {
            stream,
            link,
            shared,
            out: VecDeque::new(),
            out_bytes: 0,
            stalled: None,
            finishing_since: None,
            timer: Box::pin(tokio::time::sleep(Duration::ZERO)),
            timer_at: None,
        }
    }

    /// Runs until the connection is over.
    pub(super) async fn run(mut self) -> Reason {
        loop {
            let mut reading = self.read();
            match deliver(self.link, self.shared) {
                Delivered::All => {}
                Delivered::Waits => reading = Reading::Answer,
                Delivered::Closed(reason) => {
                    // The machine's last output is the reason of its refusal.
                    self.write();
                    return reason;
                }
            }
            // It may say something when its time has come, such as a keepalive.
            let now = clock::now();
            self.tick(now);
            let wrote = self.write();
            if wrote {
                self.shared.serve_budgets();
            }
            self.check_patience(now.mono);
            if self.is_finished() {
                self.link.conn().close(Reason::Local);
                return Reason::Local;
            }
            if self.link.conn().is_closed() {
                continue;
            }
            match reading {
                // A returning client's session was found: its next message may be here already.
                Reading::Nothing if !matches!(self.link.conn().want(), Want::Nothing) => {}
                Reading::More => tokio::task::yield_now().await,
                // It may have been the memory of its own answers that it waits for.
                Reading::Answer if wrote => {}
                _ => self.wait(reading).await,
            }
        }
    }

    fn read(&mut self) -> Reading {
        if self.link.has_request() {
            return Reading::Answer;
        }
        let (mut bytes, mut drained) = (0, false);
        for _ in 0..READS_A_TURN {
            let mut conn = self.link.conn();
            let client = self.link.peer() == EntityType::CLIENT;
            let unread = (conn.queued() + self.out_bytes) as u64;
            if client && unread > self.shared.limits.unread_bytes as u64 + self.link.answer_bytes() {
                return Reading::Paused;
            }
            match conn.want() {
                Want::Read(_) if drained => return Reading::Socket,
                Want::Read(memory) => match self.read_some(memory) {
                    Ok((n, is_empty)) => {
                        conn.filled(n, clock::now());
                        self.shared.add_bytes(n, 0);
                        bytes += n;
                        drained = is_empty;
                    }
                    Err(e) if e.kind() == ErrorKind::WouldBlock => return Reading::Socket,
                    Err(e) if e.kind() == ErrorKind::Interrupted => {}
                    Err(_) => conn.close(Reason::Eof),
                },
                // A client asked for what it receives, and may keep it in its cache: it counts its requests
                // instead.
                Want::Budget(_) if self.shared.service == EntityType::CLIENT => {
                    conn.grant(None, clock::now())
                }
                Want::Budget(wanted) if self.is_tiny(wanted) => conn.grant(None, clock::now()),
                Want::Budget(wanted) => {
                    let waited = self.link.place().waits();
                    match self.shared.budget(self.link.peer()).reserve(self.link.place(), wanted) {
                        Some(reservation) => conn.grant(Some(reservation), clock::now()),
                        None => {
                            if !waited {
                                self.shared.metrics.count("reads_waited_for_budget");
                            }
                            return Reading::Budget;
                        }
                    }
                }
                Want::Nothing => return Reading::Nothing,
            }
            if bytes > BYTES_A_TURN {
                break;
            }
        }
        Reading::More
    }

    /// True if another daemon's message is so small that it never waits: daemons without free memory wait for
    /// heartbeats and answers.
    fn is_tiny(&self, bytes: u64) -> bool {
        bytes <= MAX_UNBUDGETED_BYTES && self.link.peer() != EntityType::CLIENT
    }

    /// Reads once. If less came than fitted, nothing is left: the task waits for the next arrival without
    /// another read.
    fn read_some(&self, memory: &mut [u8]) -> std::io::Result<(usize, bool)> {
        let mut short = None;
        let read = self.stream.try_io(Interest::READABLE, || {
            let (n, _) = rustix::net::recv(self.stream, &mut *memory, rustix::net::RecvFlags::empty())?;
            if n == 0 || n == memory.len() {
                return Ok(n);
            }
            short = Some(n);
            Err(ErrorKind::WouldBlock.into())
        });
        match (short, read) {
            (Some(n), _) => Ok((n, true)),
            (None, read) => Ok((read?, false)),
        }
    }

    /// Writes until nothing waits or the socket is full. Whether anything was written.
    fn write(&mut self) -> bool {
        let mut any = false;
        loop {
            while self.out_bytes < WRITE_AHEAD {
                let Some(bufs) = self.link.conn().poll_write() else { break };
                self.out_bytes += bufs.len();
                self.out.extend(bufs.parts().iter().cloned());
            }
            if self.out.is_empty() {
                self.stalled = None;
                return any;
            }
            let slices: Vec<IoSlice<'_>> = self.out.iter().take(SEGMENTS).map(|b| IoSlice::new(b)).collect();
            match self.stream.try_write_vectored(&slices) {
                Ok(n) => {
                    self.written(n);
                    self.stalled = None;
                    any = true;
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    self.stalled.get_or_insert_with(|| clock::now().mono);
                    return any;
                }
                Err(_) => {
                    self.out.clear();
                    self.out_bytes = 0;
                    self.link.conn().close(Reason::Eof);
                    return any;
                }
            }
        }
    }

    fn written(&mut self, mut n: usize) {
        self.shared.add_bytes(0, n);
        self.out_bytes -= n;
        while n > 0 {
            let first = self.out.front_mut().expect("the socket takes no more than it was given");
            if first.len() > n {
                *first = first.slice(n..first.len());
                return;
            }
            n -= first.len();
            self.out.pop_front();
        }
    }

    /// The machine's deadline.
    fn tick(&mut self, now: Now) {
        let mut conn = self.link.conn();
        if conn.deadline().is_some_and(|at| at <= now.mono) {
            conn.tick(now);
        }
    }

    /// Our own deadlines.
    fn check_patience(&mut self, now: Instant) {
        let mut conn = self.link.conn();
        if self.stalled.is_some_and(|since| now >= since + self.patience()) {
            self.shared.metrics.count("peers_stalled");
            conn.close(Reason::QueueFull);
        }
        if self.link.is_finishing() {
            self.finishing_since.get_or_insert(now);
        }
    }

    /// The time for which the peer may leave our output unread.
    fn patience(&self) -> Duration {
        let patience = self.shared.stall_timeout(self.link.peer());
        match self.link.answer_bytes() > 0 && self.shared.answers.is_wanted() {
            true => patience.min(STALL_WHILE_WANTED),
            false => patience,
        }
    }

    /// True if the node has closed it and nothing is left to send.
    fn is_finished(&self) -> bool {
        let Some(since) = self.finishing_since else { return false };
        let sent = self.out.is_empty() && self.link.conn().queued() == 0;
        sent || clock::now().mono >= since + FINISH_TIMEOUT
    }

    fn next_deadline(&self, reading: Reading) -> Option<Instant> {
        let (peer, now) = (self.link.peer(), clock::now().mono);
        let looks = match reading {
            Reading::Budget => self.shared.budget(peer).is_first(self.link.place()),
            Reading::Answer => self.link.must_look_for_answer(&self.shared.answers),
            _ => false,
        };
        let retry = looks.then(|| now + BUDGET_RETRY);
        let stalled = self.stalled.map(|since| {
            let at = since + self.shared.stall_timeout(peer);
            // Another connection may begin to wait at any time.
            let look = Some(since + STALL_WHILE_WANTED).filter(|at| *at > now);
            if self.link.answer_bytes() > 0 { at.min(look.unwrap_or(now + STALL_WHILE_WANTED)) } else { at }
        });
        let finish = self.finishing_since.map(|since| since + FINISH_TIMEOUT);
        [self.link.conn().deadline(), stalled, finish, retry].into_iter().flatten().min()
    }

    async fn wait(&mut self, reading: Reading) {
        let deadline = self.next_deadline(reading);
        self.arm(deadline);
        let interest = match (reading, self.out.is_empty()) {
            (Reading::Socket, true) => Some(Interest::READABLE),
            (Reading::Socket, false) => Some(Interest::READABLE | Interest::WRITABLE),
            (_, false) => Some(Interest::WRITABLE),
            (_, true) => None,
        };
        tokio::select! {
            // An error shows at the next read or write.
            _ = self.stream.ready(interest.unwrap_or(Interest::READABLE)), if interest.is_some() => {}
            () = self.link.woken() => {}
            () = self.timer.as_mut(), if deadline.is_some() => self.timer_at = None,
        }
        if matches!(reading, Reading::Budget | Reading::Answer) {
            self.shared.serve_budgets();
        }
    }

    /// A timer that fires too early costs less than one that is moved at every message.
    fn arm(&mut self, deadline: Option<Instant>) {
        if let Some(at) = deadline
            && self.timer_at.is_none_or(|armed| at < armed)
        {
            self.timer.as_mut().reset(clock::to_host(at));
            self.timer_at = Some(at);
        }
    }
}

/// The outcome of delivering the machine's events.
enum Delivered {
    All,
    /// A request waits for the memory of its answer, and others behind it.
    Waits,
    /// It is over.
    Closed(Reason),
}

/// Takes the machine's events.
fn deliver(link: &Rc<Link>, shared: &Rc<Shared>) -> Delivered {
    if let Some(request) = link.take_request()
        && !link.conn().is_closed()
        && !link.is_finishing()
        && !hand_over(link, shared, request)
    {
        return Delivered::Waits;
    }
    loop {
        let Some(event) = link.conn().poll_event() else { return Delivered::All };
        match event {
            Event::Ready(ready) => session::ready(link, *ready, shared),
            Event::Resume(wanted) => session::resume(link, &wanted, shared),
            Event::Message { .. } if link.is_finishing() => {}
            Event::Message { msg, hold } => match (Msg::from_raw(msg), link.id()) {
                (Ok(msg), Some(conn)) => {
                    if !hand_over(link, shared, (conn, msg, hold)) {
                        shared.metrics.count("answers_waited_for_budget");
                        return Delivered::Waits;
                    }
                }
                (Ok(_), None) => unreachable!("messages come after Ready"),
                (Err(error), _) => {
                    tracing::warn!(peer = %link.socket_addr(), %error, "undecodable message");
                    link.conn().close(Reason::Malformed(error));
                }
            },
            Event::Closed(reason) => return Delivered::Closed(reason),
        }
    }
}

/// Passes a message to the node; `false` if it is a request that has to wait.
fn hand_over(link: &Rc<Link>, shared: &Rc<Shared>, (conn, mut msg, held): Request) -> bool {
    let answer = shared.largest_answer(link.peer(), &msg);
    if answer > 0 {
        let Some(reservation) = link.reserve_answer(&shared.answers, answer) else {
            link.keep_request((conn, msg, held));
            return false;
        };
        msg.hold = reservation.into();
    }
    let urgent = msg.is_urgent() && link.may_overtake();
    if !urgent {
        link.queued();
    }
    (shared.sink)(NetEvent::Message { conn, msg, held, urgent });
    true
}
