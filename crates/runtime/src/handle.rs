//! Local callers' access to a node from any thread: blocking, or with a completion.

use crate::answer::{Answer, Gone};
use crate::inbox::{Event, Inbox};
use crate::metrics::Metrics;
use std::sync::mpsc;

/// A way to a running node. Clones lead to the same node.
pub struct Handle<Req, Rep> {
    inbox: Inbox<Req, Rep>,
    metrics: Metrics,
}

impl<Req, Rep> Clone for Handle<Req, Rep> {
    fn clone(&self) -> Self {
        Self { inbox: self.inbox.clone(), metrics: self.metrics.clone() }
    }
}

impl<Req: Send + 'static, Rep: Send + 'static> Handle<Req, Rep> {
    pub(crate) fn new(inbox: Inbox<Req, Rep>, metrics: Metrics) -> Self {
        Self { inbox, metrics }
    }

    /// The node's counters.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Sends a request. `done` is called once with the reply, or with [`Gone`] if the node has ended or ends
    /// before replying.
    pub fn submit(&self, request: Req, done: impl FnOnce(Result<Rep, Gone>) + Send + 'static) {
        self.inbox.send(Event::Request(request, Answer::new(done)));
    }

    /// Sends a request and waits for the answer. Not to be called on an event loop.
    pub fn call(&self, request: Req) -> Result<Rep, Gone> {
        let (tx, rx) = mpsc::sync_channel(1);
        self.submit(request, move |reply| {
            // The caller waits below, whatever happens.
            let _ = tx.send(reply);
        });
        rx.recv().unwrap_or(Err(Gone))
    }

    /// Calls `listener` on the node's event loop with the node's notices. A later listener replaces it.
    pub fn listen(&self, listener: impl FnMut(Rep) + Send + 'static) {
        self.inbox.send(Event::Listen(Box::new(listener)));
    }

    /// Gives a command as on the admin socket, one JSON object, and waits for its code and output. Not to be
    /// called on an event loop.
    pub fn admin(&self, command: &str) -> Result<(i32, String), Gone> {
        let (tx, answer) = tokio::sync::oneshot::channel();
        self.inbox.send(Event::Admin(command.to_owned(), tx));
        answer.blocking_recv().map_err(|_| Gone)
    }

    /// Ends the node as a signal would: it shuts down its disks and closes them. A second call ends it at
    /// once.
    pub fn stop(&self) {
        self.inbox.send(Event::Stop);
    }
}
