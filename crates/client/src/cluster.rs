//! A connection to a cluster, as programs use it.

use crate::{Answer, Errno, Error, Fs, Options, Pool, Reply, Request};
use fsclient::Client;
use runtime::{EventLoop, Found, Handle, NodeSpec, Notice};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;
use stdx::Bufs;
use wire::{EntityName, EntityType};

/// The answer to a monitor command.
#[derive(Clone, PartialEq, Debug)]
pub struct CommandReply {
    /// Whether it was carried out.
    pub result: Result<(), Errno>,
    /// The status line: an error, or what was done.
    pub status: String,
    /// The command's output.
    pub output: Bufs,
}

/// A connection to a cluster: one client node on a thread of its own. Dropping it without
/// [`Cluster::shut_down`] is like a kill.
pub struct Cluster {
    handle: Handle<Request, Reply>,
    notices: Receiver<Notice>,
    nonce: u32,
    // Dropped after the handle, so that the node ends before its loop is waited for.
    event_loop: EventLoop,
}

/// A way to send a cluster's client any request; clones lead to the same client.
#[derive(Clone)]
pub struct Requests {
    handle: Handle<Request, Reply>,
}

impl Requests {
    /// Sends a request; `done` is called once, on the client's event loop: it must not block. The answer is
    /// ENOTCONN if the client has ended.
    pub fn submit(&self, request: Request, done: impl FnOnce(Reply) + Send + 'static) {
        self.handle.submit(request, move |reply| done(reply.unwrap_or(Err(Errno::ENOTCONN))));
    }

    /// Has `listener` called, on the client's event loop, with each answer that nobody asked for, such as
    /// [`Answer::Notified`]. It replaces the listener before it, and that of [`crate::Fs::on_invalidate`].
    pub fn listen(&self, mut listener: impl FnMut(Answer) + Send + 'static) {
        self.handle.listen(move |reply| {
            if let Ok(answer) = reply {
                listener(answer);
            }
        });
    }
}

impl Cluster {
    /// Connects, and waits at most `patience` until objects (and the file system, if wanted) can be used.
    pub fn connect(options: &Options, patience: Duration) -> Result<Self, Error> {
        let config = options.read()?;
        let start = |e: std::io::Error| Error::Connect(format!("cannot start a thread: {e}"));
        let event_loop = EventLoop::start("client").map_err(start)?;
        let (tx, notices) = mpsc::channel();
        let limits = runtime::Limits { mode: options.mode, ..runtime::Limits::default() };
        // Whatever the key's name, this is a client.
        let name = EntityName::new(EntityType::CLIENT, options.name.id.clone());
        let spec = NodeSpec { limits, ..NodeSpec::client(name) };
        let nonce = spec.nonce;
        let handle = event_loop.spawn(spec, move || Client::new(config, runtime::rng()), tx);
        let cluster = Self { handle, notices, nonce, event_loop };
        // A program that caches nothing has nothing to forget.
        cluster.fs().on_invalidate(|_, done| drop(done));
        match cluster.notices.recv_timeout(patience) {
            Ok(Notice::Ready(_)) => Ok(cluster),
            Ok(Notice::Ended(_, Err(why))) => Err(Error::Connect(why)),
            Ok(_) | Err(RecvTimeoutError::Disconnected) => Err(Error::Gone),
            Err(RecvTimeoutError::Timeout) => {
                cluster.handle.stop();
                let what = if options.mount {
                    "no monitor, or no metadata server, answered"
                } else {
                    "no monitor answered"
                };
                let of =
                    options.conf.as_ref().map_or(String::new(), |conf| format!(" of {}", conf.display()));
                Err(Error::Connect(format!("{what} within {patience:?}: is the cluster{of} running?")))
            }
        }
    }

    /// The number that tells it from other clients at its address: the cluster's blocklist would name it.
    /// After an eviction it takes another.
    pub fn nonce(&self) -> u32 {
        self.nonce
    }

    /// A pool by name; the first operation reports if there is none.
    pub fn pool(&self, name: &str) -> Pool {
        Pool::new(self.handle.clone(), name)
    }

    /// The file system, if [`Options::mount`] was set.
    pub fn fs(&self) -> Fs {
        Fs::new(self.handle.clone())
    }

    /// A way to send any request, and to hear what comes unasked.
    pub fn requests(&self) -> Requests {
        Requests { handle: self.handle.clone() }
    }

    /// Has `ready` called on the client's event loop when `fd` can be read: its requests reach the client
    /// without a change of threads. See [`EventLoop::watch`].
    pub fn watch(&self, fd: OwnedFd, ready: impl FnMut(BorrowedFd<'_>) -> Found + Send + 'static) {
        self.event_loop.watch(fd, ready);
    }

    /// Runs a monitor command: one JSON object with `prefix`.
    pub fn command(&self, command: &str, input: Bufs) -> Result<CommandReply, Error> {
        let request = Request::Command { command: command.to_owned(), input };
        match self.handle.call(request).map_err(|_| Error::Gone)? {
            Ok(Answer::Command { result, status, output }) => Ok(CommandReply { result, status, output }),
            Ok(_) => Err(Error::Errno { what: "command".into(), errno: Errno::EIO }),
            Err(errno) => Err(Error::Errno { what: "command".into(), errno }),
        }
    }

    /// Waits until the client ends by itself; an error tells why.
    pub fn wait_for_end(&self) -> Result<(), Error> {
        loop {
            match self.notices.recv() {
                Ok(Notice::Ended(_, result)) => return result.map_err(Error::Connect),
                Ok(_) => {}
                Err(_) => return Ok(()),
            }
        }
    }

    /// Writes everything back, gives all capabilities up and closes the session.
    pub fn shut_down(self) -> Result<(), Error> {
        // The answer comes just before the node ends; no answer means that it has ended already.
        let _ = self.handle.call(Request::Unmount);
        self.wait_for_end()
    }
}
