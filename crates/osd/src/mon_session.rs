//! The session to a monitor, with what it has told and nobody has handled.

use maps::Epoch;
use monc::{Monc, MoncConfig, MoncOut};
use node::{CloseReason, ConnId, Msg, Peer};
use stdx::{Instant, Now, Rng};

/// The session, and its events in order.
///
/// Invariant: an event is taken once, in the input that brought it about.
#[derive(Debug)]
pub struct MonSession {
    monc: Monc,
    events: Vec<MoncOut>,
}

impl MonSession {
    /// A session that has not begun.
    pub fn new(config: MoncConfig, rng: Rng) -> Self {
        Self { monc: Monc::new(config, rng), events: Vec::new() }
    }

    /// The session, whose tickets open connections to other OSDs.
    pub fn session(&self) -> &Monc {
        &self.monc
    }

    /// Takes the events that nobody has handled.
    pub fn take_events(&mut self) -> Vec<MoncOut> {
        std::mem::take(&mut self.events)
    }

    /// True if the connection is one to a monitor.
    pub fn owns(&self, conn: ConnId) -> bool {
        self.monc.owns(conn)
    }

    /// True if messages can be sent.
    pub fn is_open(&self) -> bool {
        self.monc.is_open()
    }

    /// Time at which something may be due.
    pub fn deadline(&self) -> Option<Instant> {
        self.monc.deadline()
    }

    /// Begins: subscribes to the maps after ours, or to the newest if we have none, and to all else that
    /// monitors tell an OSD.
    pub fn begin(&mut self, now: Now, ours: Epoch) {
        let next = if ours == Epoch(0) { 0 } else { u64::from(ours.0) + 1 };
        self.monc.subscribe("osdmap", next, false, &mut self.events);
        self.monc.subscribe("nacremap", 0, false, &mut self.events);
        self.monc.subscribe("config", 0, false, &mut self.events);
        self.monc.start(now, &mut self.events);
    }

    /// Handles the passage of time.
    pub fn timer(&mut self, now: Now) {
        self.monc.timer(now, &mut self.events);
    }

    /// A connection to a monitor is made.
    pub fn connected(&mut self, now: Now, conn: ConnId, peer: &Peer) {
        self.monc.connected(now, conn, peer, &mut self.events);
    }

    /// A monitor has sent a message.
    pub fn message(&mut self, now: Now, conn: ConnId, msg: Msg) {
        self.monc.message(now, conn, msg, &mut self.events);
    }

    /// A connection to a monitor is closed.
    pub fn closed(&mut self, now: Now, conn: ConnId, reason: CloseReason) {
        self.monc.closed(now, conn, reason, &mut self.events);
    }

    /// Another OSD does not accept our tickets.
    pub fn tickets_refused(&mut self, now: Now) {
        self.monc.tickets_refused(now, &mut self.events);
    }

    /// Sends a message to the monitor.
    pub fn send(&mut self, body: impl Into<node::Body>) {
        self.monc.send(body, &mut self.events);
    }

    /// Asks for all maps after `epoch` once more.
    pub fn ask_for_maps(&mut self, epoch: Epoch) {
        self.monc.ask_again("osdmap", u64::from(epoch.0) + 1, &mut self.events);
    }

    /// A newer map is expected: a monitor that does not send one is given up for another.
    pub fn expect_map(&mut self, now: Now) {
        self.monc.expect(now, "osdmap");
    }

    /// The map of `epoch` is here.
    pub fn got_map(&mut self, epoch: Epoch) {
        self.monc.got("osdmap", u64::from(epoch.0));
    }
}
