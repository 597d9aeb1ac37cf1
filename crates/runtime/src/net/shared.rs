//! What the tasks of a node's connections share, and the events that they send to the node.

use super::budget::Budgets;
use super::limits::Limits;
use super::link::Link;
use crate::limit::LineLimit;
use crate::metrics::Metrics;
use auth::{GlobalIds, ServerKeys};
use msgr::SessionTable;
use node::{CloseReason, ConnId, Msg, Peer};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use stdx::{Reservation, Rng};
use tokio::sync::watch;
use tokio::task::JoinSet;
use wire::{AddrVec, EntityAddr, EntityType, RawMsg};

/// Time without a byte after which an accepted connection is dead, as long as Ceph's. The role's own timeouts
/// notice earlier that a client is gone.
pub(super) const ACCEPTED_IDLE: Duration = Duration::from_secs(900);

/// An event of a connection, on its way to the node.
pub(crate) enum NetEvent {
    Connected {
        conn: ConnId,
        peer: Box<Peer>,
    },
    /// `urgent`: it may overtake what other connections have queued.
    Message {
        conn: ConnId,
        msg: Msg,
        held: Option<Reservation>,
        urgent: bool,
    },
    Closed {
        conn: ConnId,
        reason: CloseReason,
    },
}

/// Destination of connections' events: the node's inbox.
pub(crate) type Sink = Box<dyn Fn(NetEvent)>;

/// State shared by the tasks of a node's connections. No borrow is held across an `await`.
pub(crate) struct Shared {
    pub(super) service: EntityType,
    pub(super) num: Cell<i64>,
    pub(super) addrs: RefCell<AddrVec>,
    pub(super) limits: Limits,
    pub(super) metrics: Metrics,
    /// Bytes that sockets have received and sent.
    pub(super) bytes: Cell<(u64, u64)>,
    pub(super) denials: RefCell<LineLimit>,
    pub(super) sink: Sink,
    pub(super) client_budget: Budgets,
    pub(super) daemon_budget: Budgets,
    pub(super) answers: Budgets,
    /// `None` if a lossless session waits for its client.
    pub(super) links: RefCell<BTreeMap<ConnId, Option<Rc<Link>>>>,
    pub(super) sessions: RefCell<SessionTable<ConnId>>,
    pub(super) keys: watch::Sender<Option<Arc<ServerKeys>>>,
    pub(super) global_ids: Arc<GlobalIds>,
    /// Ranges that did not fit into `global_ids` yet.
    pub(super) more_global_ids: RefCell<Vec<Range<u64>>>,
    pub(super) rng: RefCell<Rng>,
    pub(super) next_accepted: Cell<u64>,
    pub(super) global_seq: Cell<u64>,
    pub(super) tasks: RefCell<JoinSet<()>>,
}

/// The raw form for the messenger. Its reservation is held until its data has left.
pub(super) fn to_raw(mut msg: Msg) -> RawMsg {
    let mut raw = msg.to_raw();
    msg.hold.settle(raw.data.len() as u64);
    if let Some(reservation) = msg.hold.into_reservation() {
        raw.data = raw.data.held(&reservation);
    }
    raw
}

impl Shared {
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.tasks.borrow_mut().spawn_local(task);
    }

    /// A socket has received and sent so many bytes more.
    pub(super) fn add_bytes(&self, received: usize, sent: usize) {
        let (all_received, all_sent) = self.bytes.get();
        self.bytes.set((all_received + received as u64, all_sent + sent as u64));
    }

    /// True if the node knows the connection and has not closed it.
    pub(super) fn is_open(&self, conn: ConnId) -> bool {
        self.links.borrow().contains_key(&conn)
    }

    /// The node has got something of a connection that was queued.
    pub(super) fn taken(&self, conn: ConnId) {
        if let Some(Some(link)) = self.links.borrow().get(&conn) {
            link.taken();
        }
    }

    pub(super) fn next_accepted(&self) -> ConnId {
        self.next_accepted.set(self.next_accepted.get() + 1);
        ConnId(self.next_accepted.get() | ConnId::ACCEPTED)
    }

    pub(super) fn refill_global_ids(&self) {
        self.more_global_ids.borrow_mut().retain(|range| !self.global_ids.push(range.clone()));
    }

    /// The part of a messenger's configuration that all connections have in common.
    pub(super) fn common(&self, peer_addr: EntityAddr) -> msgr::Common {
        self.global_seq.set(self.global_seq.get() + 1);
        let mut common =
            msgr::Common::new(self.service, self.num.get(), self.addrs.borrow().clone(), peer_addr);
        common.global_seq = self.global_seq.get();
        common.handshake_timeout = self.limits.handshake_timeout;
        common.max_queued = self.limits.queued_bytes;
        common
    }

    pub(super) fn fork_rng(&self) -> Rng {
        self.rng.borrow_mut().fork()
    }

    /// Some memory may be free again.
    pub(super) fn serve_budgets(&self) {
        self.client_budget.serve();
        self.daemon_budget.serve();
        self.answers.serve();
    }

    /// True if we are a client of an OSD, which may let us wait for as long as others use its memory. The map
    /// tells when it is gone.
    pub(super) fn is_patient(&self, peer: EntityType) -> bool {
        self.service == EntityType::CLIENT && peer == EntityType::OSD
    }

    /// Time without a byte after which a connection that we dial is dead.
    pub(super) fn idle_timeout(&self, peer: EntityType) -> Duration {
        if self.is_patient(peer) { ACCEPTED_IDLE } else { self.limits.idle_timeout }
    }

    /// Time for which a peer may leave our output unread.
    pub(super) fn stall_timeout(&self, peer: EntityType) -> Duration {
        if self.is_patient(peer) { ACCEPTED_IDLE } else { self.limits.stall_timeout }
    }

    /// The budget that messages of this kind of peer are counted in.
    pub(super) fn budget(&self, peer: EntityType) -> &Budgets {
        if peer == EntityType::CLIENT { &self.client_budget } else { &self.daemon_budget }
    }

    /// Memory to reserve for the answer to a message before the node gets it. Other daemons' requests do not
    /// wait for it: messages that we wait for may come behind them, and daemons limit their requests
    /// themselves.
    pub(super) fn largest_answer(&self, peer: EntityType, msg: &Msg) -> u64 {
        let counts = self.service == EntityType::OSD && peer == EntityType::CLIENT;
        if counts { msg.largest_answer() } else { 0 }
    }
}
