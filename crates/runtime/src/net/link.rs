//! One connection as the node's outputs and the socket's task share it.

use super::budget::{Budgets, Place};
use auth::Initiator;
use msgr::Conn;
use node::{ConnId, Msg, Peer};
use std::cell::{Cell, RefCell, RefMut};
use std::net::SocketAddr;
use std::rc::Rc;
use stdx::{Budget, Reservation};
use tokio::sync::Notify;
use wire::{EntityType, RawMsg};

/// The messenger's machine, and signals to its task.
pub(super) struct Link {
    conn: RefCell<Conn>,
    /// Credentials for the next attempt, if we dial.
    auth: RefCell<Option<Initiator>>,
    /// Set once the node knows it (dialled: from the start; accepted: when it is ready).
    id: Cell<Option<ConnId>>,
    socket_addr: SocketAddr,
    peer: Cell<EntityType>,
    peer_name: RefCell<String>,
    is_ready: Cell<bool>,
    /// Received bytes that wait in the node's queue.
    waiting: Cell<usize>,
    /// Its place in line for message memory.
    place: Rc<Place>,
    /// Its place in line for answer memory.
    answer_place: Rc<Place>,
    /// Memory of its answers.
    answers: Budget,
    /// A request that waits for that; what came after it waits in `conn`.
    request: RefCell<Option<Request>>,
    /// There is something to send, or to end, or to read.
    wake: Rc<Notify>,
    /// Ends once everything is sent.
    finishing: Cell<bool>,
    ended: Notify,
    has_ended: Cell<bool>,
}

/// A message with what is held for its own bytes.
pub(super) type Request = (ConnId, Msg, Option<Reservation>);

impl Link {
    /// Its answers may take `answers` bytes.
    pub(super) fn new(conn: Conn, socket_addr: SocketAddr, answers: u64) -> Self {
        let wake = Rc::new(Notify::new());
        Self {
            conn: RefCell::new(conn),
            auth: RefCell::default(),
            id: Cell::new(None),
            socket_addr,
            peer: Cell::new(EntityType::CLIENT),
            peer_name: RefCell::default(),
            is_ready: Cell::new(false),
            waiting: Cell::new(0),
            place: Rc::new(Place::new(wake.clone())),
            answer_place: Rc::new(Place::new(wake.clone())),
            answers: Budget::new(answers),
            request: RefCell::default(),
            wake,
            finishing: Cell::new(false),
            ended: Notify::new(),
            has_ended: Cell::new(false),
        }
    }

    pub(super) fn conn(&self) -> RefMut<'_, Conn> {
        self.conn.borrow_mut()
    }

    /// A lossless session that dials again does so with a new machine.
    pub(super) fn replace_conn(&self, conn: Conn) {
        *self.conn.borrow_mut() = conn;
        self.is_ready.set(false);
        self.wants_nothing();
    }

    pub(super) fn set_auth(&self, auth: Initiator) {
        *self.auth.borrow_mut() = Some(auth);
    }

    /// The last argument of [`Self::set_auth`].
    pub(super) fn auth(&self) -> Option<Initiator> {
        self.auth.borrow().clone()
    }

    pub(super) fn id(&self) -> Option<ConnId> {
        self.id.get()
    }

    pub(super) fn set_id(&self, id: ConnId) {
        self.id.set(Some(id));
    }

    pub(super) fn socket_addr(&self) -> SocketAddr {
        self.socket_addr
    }

    /// The peer's role; a client's until it is known.
    pub(super) fn peer(&self) -> EntityType {
        self.peer.get()
    }

    pub(super) fn set_ready(&self, peer: &Peer) {
        self.peer.set(peer.id.ty);
        *self.peer_name.borrow_mut() = peer.id.to_string();
        self.is_ready.set(true);
    }

    pub(super) fn is_ready(&self) -> bool {
        self.is_ready.get()
    }

    /// Something of it is queued for the node.
    pub(super) fn queued(&self) {
        self.waiting.set(self.waiting.get() + 1);
    }

    /// The node has got it.
    pub(super) fn taken(&self) {
        self.waiting.set(self.waiting.get().saturating_sub(1));
    }

    /// True if a message may overtake everything that is queued: only daemons' may, and nothing of the same
    /// connection.
    pub(super) fn may_overtake(&self) -> bool {
        self.waiting.get() == 0 && self.peer() != EntityType::CLIENT
    }

    /// Its place in the line for memory.
    pub(super) fn place(&self) -> &Rc<Place> {
        &self.place
    }

    /// Memory for the answer to a request; `None`: it waits for its turn, or for its own answers to leave.
    pub(super) fn reserve_answer(&self, from: &Budgets, bytes: u64) -> Option<Reservation> {
        if !self.answer_place.waits() && !self.answers.has(bytes) {
            return None;
        }
        Some(from.reserve(&self.answer_place, bytes)?.counted_in(&self.answers))
    }

    /// True if nobody would wake it when there is memory for its request: it is the first in line, or waits
    /// for its own answers, which may be dropped unsent.
    pub(super) fn must_look_for_answer(&self, from: &Budgets) -> bool {
        self.has_request() && (!self.answer_place.waits() || from.is_first(&self.answer_place))
    }

    /// Bytes of its answers that have not left.
    pub(super) fn answer_bytes(&self) -> u64 {
        self.answers.used()
    }

    pub(super) fn has_request(&self) -> bool {
        self.request.borrow().is_some()
    }

    pub(super) fn take_request(&self) -> Option<Request> {
        self.request.take()
    }

    /// A request waits for the memory of its answer.
    pub(super) fn keep_request(&self, request: Request) {
        self.request.replace(Some(request));
    }

    fn wants_nothing(&self) {
        self.place.leave();
        self.answer_place.leave();
        self.request.take();
    }

    /// Queues a message.
    pub(super) fn send(&self, msg: RawMsg) {
        self.conn.borrow_mut().send(msg);
        self.wake.notify_one();
    }

    /// Ends it after what is queued was sent.
    pub(super) fn finish(&self) {
        self.finishing.set(true);
        self.wake.notify_one();
    }

    pub(super) fn is_finishing(&self) -> bool {
        self.finishing.get()
    }

    /// Its machine was changed from outside its task.
    pub(super) fn poke(&self) {
        self.wake.notify_one();
    }

    pub(super) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Its task is over.
    pub(super) fn set_ended(&self) {
        self.has_ended.set(true);
        self.wants_nothing();
        self.ended.notify_waiters();
    }

    pub(super) async fn ended(&self) {
        if !self.has_ended.get() {
            self.ended.notified().await;
        }
    }

    pub(super) fn to_json(&self) -> String {
        let queued = self.conn.borrow().queued();
        let id = self.id.get().unwrap_or_default();
        let (peer, addr) = (self.peer_name.borrow(), self.socket_addr);
        format!(
            "{{\"conn\":\"{id}\",\"peer\":\"{peer}\",\"addr\":\"{addr}\",\"queued\":{queued},\"answers\":{}}}",
            self.answer_bytes()
        )
    }
}
