//! A node's connections: numbers them, accepts and dials, and turns what happens on them into inputs.

mod budget;
mod dial;
mod link;
mod listen;
mod session;
mod socket;

pub use listen::{ListenError, Listener};

use crate::limit::LineLimit;
use crate::metrics::Metrics;
use auth::{GlobalIds, Initiator, ServerKeys};
use budget::Budgets;
use link::Link;
use msgr::SessionTable;
use node::{CloseReason, ConnId, Input, Msg, Peer, Target};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use stdx::{Reservation, Rng};
use tokio::sync::watch;
use tokio::task::JoinSet;
use wire::{AddrType, AddrVec, EntityAddr, EntityName, EntityType, RawMsg};

/// Limits of a node's connections in memory and time.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of large messages from clients that were read and not completed; beyond it nothing more is read.
    /// A single message may be larger.
    pub client_bytes: u64,
    /// The same for other daemons, separate so that daemons never wait for one another's clients.
    pub daemon_bytes: u64,
    /// OSDs: bytes of answers to clients that were requested and have not left; beyond it no large request is
    /// served. Small answers and one answer of any size are not counted in it.
    pub answer_bytes: u64,
    /// OSDs: what one connection may have of that.
    pub answer_share: u64,
    /// Bytes that wait for a client to read them, in addition to answers; a connection with more is not read.
    pub unread_bytes: usize,
    /// Bytes that wait for a peer to read them; one with more is closed.
    pub queued_bytes: usize,
    /// Time for a dialled socket to open.
    pub connect_timeout: Duration,
    /// Time for the handshake.
    pub handshake_timeout: Duration,
    /// Time without a byte after which a dialled connection is dead; keepalives are sent at a third of it.
    pub idle_timeout: Duration,
    /// Time for which a peer may leave our output unread.
    pub stall_timeout: Duration,
    /// Time for which a lossless session waits for its client.
    pub session_timeout: Duration,
    /// Connections at once.
    pub connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            client_bytes: 64 << 20,
            daemon_bytes: 64 << 20,
            answer_bytes: 16 << 20,
            answer_share: 12 << 20,
            unread_bytes: 128 << 20,
            queued_bytes: 256 << 20,
            connect_timeout: Duration::from_secs(10),
            handshake_timeout: Duration::from_secs(20),
            idle_timeout: Duration::from_secs(30),
            stall_timeout: Duration::from_secs(60),
            session_timeout: Duration::from_secs(600),
            connections: 10_000,
        }
    }
}

impl Limits {
    /// Limits of an OSD. Its clients lose nothing with a connection, and its answers are counted one by one.
    /// With full caches of 16 MiB each, now 12, it had 73 to 79 MiB (`docs/performance.md`) and may have 96
    /// and a message: the difference is left for large messages, in either direction. With three copies,
    /// twice the bytes of clients' writes come from other OSDs, so daemons have twice the budget of clients;
    /// a larger one for clients would only fill with writes that wait for members without memory.
    ///
    /// The parts are fixed, not one pot. A client's write is held until its members have it, and they may be
    /// waiting for our memory for theirs. Messages of OSDs are held until our own disk has them, which waits
    /// for nobody, so their memory becomes free whatever clients do. Answers are held until clients read
    /// them, which must not stop writes.
    ///
    /// Only clients send an OSD much more at once: the data of an update beyond 4 MiB comes from its primary
    /// in parts of 1 MiB. A larger message of a daemon is from an older version, or has a large omap or log,
    /// and is read alone.
    pub fn of_osd() -> Self {
        Self { client_bytes: 8 << 20, daemon_bytes: 16 << 20, unread_bytes: 1 << 20, ..Self::default() }
    }
}

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

/// Configuration of a node's connections.
pub(crate) struct NetSpec {
    pub(crate) name: EntityName,
    pub(crate) number: Option<u32>,
    pub(crate) nonce: u32,
    pub(crate) listener: Option<Listener>,
    pub(crate) limits: Limits,
    pub(crate) metrics: Metrics,
}

/// All connections of one node. It stays on one thread; tasks share it by `Rc`.
pub(crate) struct Net {
    shared: Rc<Shared>,
}

/// State shared by the tasks of a node's connections. No borrow is held across an `await`.
pub(crate) struct Shared {
    service: EntityType,
    num: Cell<i64>,
    addrs: AddrVec,
    limits: Limits,
    metrics: Metrics,
    denials: RefCell<LineLimit>,
    sink: Sink,
    client_budget: Budgets,
    daemon_budget: Budgets,
    answers: Budgets,
    /// `None` if a lossless session waits for its client.
    links: RefCell<BTreeMap<ConnId, Option<Rc<Link>>>>,
    sessions: RefCell<SessionTable<ConnId>>,
    keys: watch::Sender<Option<Arc<ServerKeys>>>,
    global_ids: Arc<GlobalIds>,
    /// Ranges that did not fit into `global_ids` yet.
    more_global_ids: RefCell<Vec<Range<u64>>>,
    rng: RefCell<Rng>,
    next_accepted: Cell<u64>,
    global_seq: Cell<u64>,
    tasks: RefCell<JoinSet<()>>,
}

/// Time for connections to send the rest when their node ends.
const LAST_WORDS: Duration = Duration::from_millis(300);

impl Net {
    /// Starts accepting (once the node has given keys). Called on the node's event loop.
    pub(crate) fn start(spec: NetSpec, sink: Sink) -> Result<Self, String> {
        let addrs = match &spec.listener {
            Some(listener) => AddrVec::from(EntityAddr::msgr2(listener.addr(), spec.nonce)),
            None => {
                let any = std::net::SocketAddr::from(([0, 0, 0, 0], 0));
                AddrVec::from(EntityAddr { ty: AddrType::ANY, nonce: spec.nonce, addr: Some(any) })
            }
        };
        let shared = Rc::new(Shared {
            service: spec.name.ty,
            num: Cell::new(spec.number.map_or(-1, i64::from)),
            addrs,
            client_budget: Budgets::new(spec.limits.client_bytes),
            daemon_budget: Budgets::new(spec.limits.daemon_bytes),
            answers: Budgets::of_answers(spec.limits.answer_bytes),
            limits: spec.limits,
            metrics: spec.metrics,
            denials: RefCell::default(),
            sink,
            links: RefCell::default(),
            sessions: RefCell::default(),
            keys: watch::Sender::new(None),
            global_ids: Arc::new(GlobalIds::new()),
            more_global_ids: RefCell::default(),
            rng: RefCell::new(crate::entropy::rng()),
            next_accepted: Cell::new(0),
            global_seq: Cell::new(0),
            tasks: RefCell::new(JoinSet::new()),
        });
        if let Some(listener) = spec.listener {
            let listener = listener.into_tokio().map_err(|e| format!("cannot listen: {e}"))?;
            shared.spawn(listen::accept_all(listener, shared.clone()));
            shared.spawn(session::expire(shared.clone()));
        }
        Ok(Self { shared })
    }

    /// [`node::Output::Connect`].
    pub(crate) fn connect(&self, conn: ConnId, to: Target) {
        assert!(conn.0 & ConnId::ACCEPTED == 0, "{conn}: numbers with the top bit are the world's");
        let link = Rc::new(dial::new_link(&self.shared, &to));
        link.set_id(conn);
        let old = self.shared.links.borrow_mut().insert(conn, Some(link.clone()));
        assert!(old.is_none(), "{conn} is used twice");
        self.shared.spawn(dial::run(conn, to, link, self.shared.clone()));
    }

    /// [`node::Output::Send`].
    pub(crate) fn send(&self, conn: ConnId, msg: Msg) {
        self.shared.metrics.count("messages_out");
        let link = self.shared.links.borrow().get(&conn).cloned();
        match link {
            Some(Some(link)) => link.send(to_raw(msg)),
            Some(None) => self.shared.send_parked(conn, msg),
            None => {}
        }
    }

    /// [`node::Output::Close`].
    pub(crate) fn close(&self, conn: ConnId) {
        self.shared.sessions.borrow_mut().remove(conn);
        if let Some(Some(link)) = self.shared.links.borrow_mut().remove(&conn) {
            link.finish();
        }
    }

    /// [`node::Output::Renew`].
    pub(crate) fn renew(&self, conn: ConnId, auth: Initiator) {
        if let Some(Some(link)) = self.shared.links.borrow().get(&conn) {
            link.set_auth(auth);
        }
    }

    /// [`node::Output::Keys`].
    pub(crate) fn set_keys(&self, keys: Arc<ServerKeys>) {
        self.shared.keys.send_replace(Some(keys));
    }

    /// [`node::Output::GlobalIds`].
    pub(crate) fn add_global_ids(&self, range: Range<u64>) {
        self.shared.more_global_ids.borrow_mut().push(range);
        self.shared.refill_global_ids();
    }

    /// The node's input for an event, with the guards that must live until it is handled; `None` for a
    /// connection that the node has closed.
    pub(crate) fn to_input<R>(&self, event: NetEvent) -> Option<(Input<R>, Option<Reservation>)> {
        let shared = &self.shared;
        match event {
            NetEvent::Connected { conn, peer } if shared.is_open(conn) => {
                shared.taken(conn);
                shared.metrics.count("connected");
                Some((Input::Connected { conn, peer }, None))
            }
            NetEvent::Message { conn, msg, held, urgent } if shared.is_open(conn) => {
                if !urgent {
                    shared.taken(conn);
                }
                shared.metrics.count("messages_in");
                Some((Input::Message { conn, msg }, held))
            }
            NetEvent::Closed { conn, reason } if shared.is_open(conn) => {
                shared.links.borrow_mut().remove(&conn);
                shared.sessions.borrow_mut().remove(conn);
                Some((Input::Closed { conn, reason }, None))
            }
            _ => None,
        }
    }

    /// After some inputs were handled.
    pub(crate) fn after_batch(&self) {
        self.shared.serve_budgets();
        // Finished tasks are collected, so that the set does not grow without bound.
        while self.shared.tasks.borrow_mut().try_join_next().is_some() {}
    }

    /// Lets connections send what waits, for a moment, and ends them.
    pub(crate) async fn shut_down(&self) {
        let links = std::mem::take(&mut *self.shared.links.borrow_mut());
        let links: Vec<Rc<Link>> = links.into_values().flatten().collect();
        links.iter().for_each(|link| link.finish());
        let deadline = tokio::time::Instant::now() + LAST_WORDS;
        for link in &links {
            // Unsent output is lost then, as in any crash.
            let _ = tokio::time::timeout_at(deadline, link.ended()).await;
        }
        self.shared.tasks.borrow_mut().abort_all();
    }

    /// The open connections, for the admin socket.
    pub(crate) fn to_json(&self) -> String {
        let links = self.shared.links.borrow();
        let parts: Vec<String> = links.values().flatten().map(|link| link.to_json()).collect();
        let Shared { client_budget, daemon_budget, answers, .. } = &*self.shared;
        let (client, daemon, answers) = (client_budget.used(), daemon_budget.used(), answers.used());
        format!(
            "{{\"client_bytes\":{client},\"daemon_bytes\":{daemon},\"answer_bytes\":{answers},\"sessions\":{},\"connections\":[{}]}}\n",
            self.shared.sessions.borrow().len(),
            parts.join(",")
        )
    }
}

/// The raw form for the messenger. Its reservation is held until its data has left.
fn to_raw(mut msg: Msg) -> RawMsg {
    let mut raw = msg.to_raw();
    msg.hold.settle(raw.data.len() as u64);
    if let Some(reservation) = msg.hold.into_reservation() {
        raw.data = raw.data.held(&reservation);
    }
    raw
}

impl Shared {
    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.tasks.borrow_mut().spawn_local(task);
    }

    /// True if the node knows the connection and has not closed it.
    fn is_open(&self, conn: ConnId) -> bool {
        self.links.borrow().contains_key(&conn)
    }

    /// The node has got something of a connection that was queued.
    fn taken(&self, conn: ConnId) {
        if let Some(Some(link)) = self.links.borrow().get(&conn) {
            link.taken();
        }
    }

    fn next_accepted(&self) -> ConnId {
        self.next_accepted.set(self.next_accepted.get() + 1);
        ConnId(self.next_accepted.get() | ConnId::ACCEPTED)
    }

    fn refill_global_ids(&self) {
        self.more_global_ids.borrow_mut().retain(|range| !self.global_ids.push(range.clone()));
    }

    /// The part of a messenger's configuration that all connections have in common.
    fn common(&self, peer_addr: EntityAddr) -> msgr::Common {
        self.global_seq.set(self.global_seq.get() + 1);
        let mut common = msgr::Common::new(self.service, self.num.get(), self.addrs.clone(), peer_addr);
        common.global_seq = self.global_seq.get();
        common.handshake_timeout = self.limits.handshake_timeout;
        common.max_queued = self.limits.queued_bytes;
        common
    }

    fn fork_rng(&self) -> Rng {
        self.rng.borrow_mut().fork()
    }

    /// Some memory may be free again.
    fn serve_budgets(&self) {
        self.client_budget.serve();
        self.daemon_budget.serve();
        self.answers.serve();
    }

    /// True if we are a client of an OSD, which may let us wait for as long as others use its memory. The map
    /// tells when it is gone.
    fn is_patient(&self, peer: EntityType) -> bool {
        self.service == EntityType::CLIENT && peer == EntityType::OSD
    }

    /// Time without a byte after which a connection that we dial is dead.
    fn idle_timeout(&self, peer: EntityType) -> Duration {
        if self.is_patient(peer) { listen::ACCEPTED_IDLE } else { self.limits.idle_timeout }
    }

    /// Time for which a peer may leave our output unread.
    fn stall_timeout(&self, peer: EntityType) -> Duration {
        if self.is_patient(peer) { listen::ACCEPTED_IDLE } else { self.limits.stall_timeout }
    }

    /// The budget that messages of this kind of peer are counted in.
    fn budget(&self, peer: EntityType) -> &Budgets {
        if peer == EntityType::CLIENT { &self.client_budget } else { &self.daemon_budget }
    }

    /// Memory to reserve for the answer to a message before the node gets it. Other daemons' requests do not
    /// wait for it: messages that we wait for may come behind them, and daemons limit their requests
    /// themselves.
    fn largest_answer(&self, peer: EntityType, msg: &Msg) -> u64 {
        let counts = self.service == EntityType::OSD && peer == EntityType::CLIENT;
        if counts { msg.largest_answer() } else { 0 }
    }
}
