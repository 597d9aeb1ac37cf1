//! Event loops: each is one thread with a current-thread tokio runtime, and owns the sockets of the nodes on
//! it.

use crate::admin::AdminSocket;
use crate::disk::DiskBackend;
use crate::driver::{Driver, End};
use crate::handle::Handle;
use crate::inbox::{Event, Inbox};
use crate::metrics::Metrics;
use crate::net::{Limits, Listener, Net, NetSpec};
use node::Node;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::{JoinHandle, LocalSet, spawn_local};
use wire::EntityName;

/// The world of one node, made before the node itself because a node wants to know its addresses and disks.
pub struct NodeSpec {
    /// `osd.0`; names its log lines and notices.
    pub name: EntityName,
    /// Its number within its role (OSD id, monitor's or MDS's rank), by which peers know it; `None` for
    /// clients, whose number is the global id that the monitors give them.
    pub number: Option<u32>,
    /// Its listening socket; `None` for clients.
    pub listener: Option<Listener>,
    /// The incarnation that it announces, see [`crate::nonce`].
    pub nonce: u32,
    /// Its disks, in the order of their ids.
    pub disks: Vec<Box<dyn DiskBackend>>,
    /// Path of its admin socket.
    pub admin_socket: Option<PathBuf>,
    /// Limits of its connections.
    pub limits: Limits,
    /// True if it gets [`node::Input::Load`].
    pub gets_load: bool,
}

impl NodeSpec {
    /// A client's: it has no number, listens nowhere and has no disks.
    pub fn client(name: EntityName) -> Self {
        Self {
            name,
            number: None,
            listener: None,
            nonce: crate::nonce(),
            disks: Vec::new(),
            admin_socket: None,
            limits: Limits::default(),
            gets_load: false,
        }
    }
}

/// News of nodes.
#[derive(Debug)]
pub enum Notice {
    /// It is ready for its clients.
    Ready(EntityName),
    /// It has ended, for the reason of the error if there is one.
    Ended(EntityName, Result<(), String>),
    /// It has ended and is to be restarted ([`node::Output::Restart`]).
    Restart(EntityName, String),
    /// The process was asked to end.
    Signal,
}

type Task = Box<dyn FnOnce() + Send>;

/// A running event loop. Dropping it ends its nodes and waits for its thread.
pub struct EventLoop {
    tasks: Option<UnboundedSender<Task>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl EventLoop {
    /// Starts a thread.
    pub fn start(name: &str) -> std::io::Result<Self> {
        let (tasks, mut queue) = unbounded_channel::<Task>();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            let local = LocalSet::new();
            local.block_on(&runtime, async move {
                while let Some(task) = queue.recv().await {
                    task();
                }
            });
        })?;
        Ok(Self { tasks: Some(tasks), thread: Some(thread) })
    }

    /// Runs a node on this loop. `make` is called on the loop's thread; `notices` is called when the node is
    /// ready and when it has ended, also by a panic.
    pub fn spawn<N>(
        &self,
        spec: NodeSpec,
        make: impl FnOnce() -> N + Send + 'static,
        notices: Sender<Notice>,
    ) -> Handle<N::Request, N::Reply>
    where
        N: Node + 'static,
        N::Request: Send + 'static,
        N::Reply: Send + 'static,
    {
        let (inbox, events) = Inbox::new();
        let metrics = Metrics::default();
        let handle = Handle::new(inbox.clone(), metrics.clone());
        let task = move || {
            let (name, ready) = (spec.name.clone(), notices.clone());
            let on_ready = {
                let name = name.clone();
                // Nobody receives if the process is ending.
                Box::new(move || drop(ready.send(Notice::Ready(name))))
            };
            match prepare(spec, make, inbox, metrics, on_ready) {
                Ok((driver, admin)) => drop(spawn_local(async move {
                    let result = spawn_local(driver.run(events)).await;
                    let end = result.unwrap_or_else(|e| End::Failed(format!("internal error: {e}")));
                    // Removed before anyone who learns of the end starts it again and binds the same path.
                    if let Some(admin) = admin {
                        admin.abort();
                        let _ = admin.await;
                    }
                    drop(notices.send(match end {
                        End::Done => Notice::Ended(name, Ok(())),
                        End::Failed(why) => Notice::Ended(name, Err(why)),
                        End::Restart(why) => Notice::Restart(name, why),
                    }));
                })),
                Err(error) => drop(notices.send(Notice::Ended(name, Err(error)))),
            }
        };
        self.run(task);
        handle
    }

    /// Has `task` run on the loop's thread.
    fn run(&self, task: impl FnOnce() + Send + 'static) {
        let queue = self.tasks.as_ref().expect("taken only by drop");
        queue.send(Box::new(task)).unwrap_or_else(|_| panic!("the loop outlives its handle"));
    }

    /// Has `ready` called on the loop's thread when `fd` can be read or has failed, until it finds the end.
    /// It must read until there is nothing left, without blocking. What it gives to a node of this loop is
    /// handled without a change of threads.
    pub fn watch(&self, fd: OwnedFd, ready: impl FnMut(BorrowedFd<'_>) -> Found + Send + 'static) {
        self.run(move || {
            drop(spawn_local(async move {
                if let Err(error) = watch(fd, ready).await {
                    tracing::error!(%error, "cannot watch a file descriptor");
                }
            }));
        });
    }
}

/// What somebody who watches a file descriptor found there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// Nothing is left to be read.
    Nothing,
    /// There may be more, and others may have their turn first.
    More,
    /// There will be nothing any more.
    End,
}

async fn watch(fd: OwnedFd, mut ready: impl FnMut(BorrowedFd<'_>) -> Found) -> std::io::Result<()> {
    let interest = Interest::READABLE | Interest::ERROR;
    // SAFETY: an `OwnedFd` keeps its descriptor open until it is dropped.
    let fd = unsafe { AsyncFd::register_with_interest(fd, interest) }?;
    loop {
        let mut guard = fd.ready(interest).await?;
        loop {
            match ready(fd.get_ref().as_fd()) {
                Found::Nothing => break guard.clear_ready(),
                Found::More => tokio::task::yield_now().await,
                Found::End => return Ok(()),
            }
        }
    }
}

impl Drop for EventLoop {
    fn drop(&mut self) {
        drop(self.tasks.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the loop has been printed.
            let _ = thread.join();
        }
    }
}

fn prepare<N>(
    spec: NodeSpec,
    make: impl FnOnce() -> N,
    inbox: Inbox<N::Request, N::Reply>,
    metrics: Metrics,
    on_ready: Box<dyn FnOnce() + Send>,
) -> Result<(Driver<N>, Option<JoinHandle<()>>), String>
where
    N: Node + 'static,
    N::Request: Send + 'static,
    N::Reply: Send + 'static,
{
    let admin = match &spec.admin_socket {
        Some(path) => {
            Some(AdminSocket::bind(path).map_err(|e| format!("cannot make {}: {e}", path.display()))?)
        }
        None => None,
    };
    let admin_inbox = inbox.clone();
    let net = {
        let inbox = inbox.clone();
        let sink = Box::new(move |event| inbox.send(Event::Net(event)));
        let spec = NetSpec {
            name: spec.name.clone(),
            number: spec.number,
            nonce: spec.nonce,
            listener: spec.listener,
            limits: spec.limits,
            metrics: metrics.clone(),
        };
        Net::start(spec, sink)?
    };
    let driver = Driver::new(make(), spec.name.to_string(), net, spec.disks, inbox, metrics, on_ready)
        .map_err(|e| format!("cannot watch the disks: {e}"))?;
    let driver = if spec.gets_load { driver.with_load() } else { driver };
    Ok((driver, admin.map(|socket| spawn_local(socket.serve(admin_inbox)))))
}
