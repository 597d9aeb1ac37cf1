//! A node's queue: events of its connections and disks, and of callers on any thread.

use crate::answer::Answer;
use crate::net::NetEvent;
use node::{DiskOpId, DiskResult};
use tokio::sync::{mpsc, oneshot};

/// An event for a node, before it becomes an [`node::Input`].
pub(crate) enum Event<Req, Rep> {
    /// From the node's connections.
    Net(NetEvent),
    /// From the node's disks.
    Disk(DiskOpId, DiskResult),
    /// A command from its admin socket, with the channel for the answer.
    Admin(String, oneshot::Sender<(i32, String)>),
    /// From a local caller.
    Request(Req, Answer<Rep>),
    /// A local caller wants the node's notices.
    Listen(Listener<Rep>),
    /// The process ends.
    Stop,
}

/// Gets a node's notices to all local callers, which reply to no request.
pub(crate) type Listener<Rep> = Box<dyn FnMut(Rep) + Send>;

/// The sending end of a node's queue, for any thread.
pub(crate) struct Inbox<Req, Rep> {
    queue: mpsc::UnboundedSender<Event<Req, Rep>>,
    urgent: mpsc::UnboundedSender<Event<Req, Rep>>,
}

impl<Req, Rep> Clone for Inbox<Req, Rep> {
    fn clone(&self) -> Self {
        Self { queue: self.queue.clone(), urgent: self.urgent.clone() }
    }
}

/// The receiving end.
pub(crate) struct Events<Req, Rep> {
    queue: mpsc::UnboundedReceiver<Event<Req, Rep>>,
    urgent: mpsc::UnboundedReceiver<Event<Req, Rep>>,
}

impl<Req, Rep> Events<Req, Rep> {
    /// The next event, urgent ones first; `None` if no sender is left.
    pub(crate) async fn recv(&mut self) -> Option<Event<Req, Rep>> {
        tokio::select! {
            biased;
            Some(event) = self.urgent.recv() => Some(event),
            event = self.queue.recv() => event,
        }
    }

    /// The next event, if there is one now.
    pub(crate) fn try_recv(&mut self) -> Option<Event<Req, Rep>> {
        self.urgent.try_recv().or_else(|_| self.queue.try_recv()).ok()
    }
}

impl<Req, Rep> Inbox<Req, Rep> {
    /// The two ends. The queue is not bounded by itself: its content is paid from the connections' budgets,
    /// the node's own disk operations and the callers' patience.
    pub(crate) fn new() -> (Self, Events<Req, Rep>) {
        let (queue, queued) = mpsc::unbounded_channel();
        let (urgent, first) = mpsc::unbounded_channel();
        (Self { queue, urgent }, Events { queue: queued, urgent: first })
    }

    /// Queues an event; lost if the node has ended.
    pub(crate) fn send(&self, event: Event<Req, Rep>) {
        let to = match &event {
            Event::Net(NetEvent::Message { urgent: true, .. }) => &self.urgent,
            _ => &self.queue,
        };
        let _ = to.send(event);
    }
}
