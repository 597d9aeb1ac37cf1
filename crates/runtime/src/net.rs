//! A node's connections: numbers them, accepts and dials, and turns what happens on them into inputs.

mod budget;
mod dial;
mod limits;
mod link;
mod listen;
mod session;
mod shared;
mod socket;

pub use limits::Limits;
pub use listen::{ListenError, Listener};
pub(crate) use shared::NetEvent;

use crate::metrics::Metrics;
use auth::{GlobalIds, Initiator, ServerKeys};
use budget::Budgets;
use link::Link;
use node::{ConnId, Input, Msg, Target};
use shared::{Shared, Sink, to_raw};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use stdx::Reservation;
use tokio::sync::watch;
use tokio::task::JoinSet;
use wire::{AddrType, AddrVec, EntityAddr, EntityName};

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
            addrs: RefCell::new(addrs),
            client_budget: Budgets::new(spec.limits.client_bytes),
            daemon_budget: Budgets::new(spec.limits.daemon_bytes),
            answers: Budgets::of_answers(spec.limits.answer_bytes),
            limits: spec.limits,
            metrics: spec.metrics,
            bytes: Cell::default(),
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

    /// Bytes that its sockets have received and sent.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        self.shared.bytes.get()
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

    /// [`node::Output::Rebind`].
    pub(crate) fn rebind(&self) {
        let mut addrs = self.shared.addrs.borrow_mut();
        for addr in &mut addrs.0 {
            assert_eq!(addr.ty, AddrType::ANY, "a node that listens keeps its address");
            addr.nonce = crate::nonce();
        }
        // Its number was the global id of the former instance.
        self.shared.num.set(-1);
    }

    /// [`node::Output::Number`].
    pub(crate) fn set_number(&self, number: u32) {
        self.shared.num.set(number.into());
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
