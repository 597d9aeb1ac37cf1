//! Drives one node: takes events from its inbox, passes them on one input at a time, and carries out the
//! outputs.

use crate::answer::Answer;
use crate::clock;
use crate::disk::DiskBackend;
use crate::inbox::{Event, Events, Inbox, Listener};
use crate::limit::LineLimit;
use crate::load::Gauge;
use crate::metrics::Metrics;
use crate::net::Net;
use node::{AdminId, Body, DiskId, DiskOp, DiskOpId, Input, Level, Msg, Node, Output, RequestId};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;
use stdx::{FastMap, Instant};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::oneshot;
use tokio::time::Sleep;

/// A driver's report to the one who started the node.
pub(crate) type OnReady = Box<dyn FnOnce() + Send>;

/// The way in which a node has ended.
pub(crate) enum End {
    /// It was asked to.
    Done,
    /// It can't go on.
    Failed(String),
    /// It wants to be restarted.
    Restart(String),
}

/// A node with all that the world holds for it.
pub(crate) struct Driver<N: Node> {
    node: N,
    name: String,
    net: Net,
    disks: Vec<Disk>,
    inbox: Inbox<N::Request, N::Reply>,
    metrics: Metrics,
    on_ready: Option<OnReady>,
    requests: FastMap<RequestId, Answer<N::Reply>>,
    /// Commands without an answer; true for one that is answered with the world's counters too.
    admins: FastMap<AdminId, (oneshot::Sender<(i32, String)>, bool)>,
    listener: Option<Listener<N::Reply>>,
    next_id: u64,
    /// Rate limits by name of the event.
    floods: BTreeMap<&'static str, LineLimit>,
    outputs: Vec<Output<N::Reply>>,
    stopped: Option<End>,
    /// It was asked to end, and is ended by this time.
    patience: Option<Instant>,
    /// Time of the next search for unused memory.
    release_at: Instant,
    /// Measures this thread, if the node wants to know.
    gauge: Option<Gauge>,
}

/// A disk, and the descriptor that signals completions.
struct Disk {
    backend: Box<dyn DiskBackend>,
    completions: Option<AsyncFd<OwnedFd>>,
}

impl Disk {
    fn new(backend: Box<dyn DiskBackend>) -> std::io::Result<Self> {
        let completions = match backend.completions()? {
            // SAFETY: an `OwnedFd` keeps its descriptor open until it is dropped.
            Some(fd) => Some(unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }?),
            None => None,
        };
        Ok(Self { completions, backend })
    }
}

/// Reaps what has ended, when something has.
async fn disks_ended(disks: &[Disk]) {
    std::future::poll_fn(|cx| {
        let mut any = Poll::Pending;
        for disk in disks {
            let Some(completions) = &disk.completions else { continue };
            if let Poll::Ready(Ok(mut ready)) = completions.poll_read_ready(cx) {
                // Each completion signals again, so earlier signals may be cleared without being read.
                ready.clear_ready();
                disk.backend.reap();
                any = Poll::Ready(());
            }
        }
        any
    })
    .await;
}

/// Events handled before other tasks of the loop get their turn.
const BATCH: usize = 64;
/// Interval of the search for unused memory.
const RELEASE_EVERY: Duration = Duration::from_secs(1);
/// Time in which a node must shut down its disks once it is asked to end.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(3);

impl<N: Node> Driver<N>
where
    N::Request: Send + 'static,
    N::Reply: Send + 'static,
{
    pub(crate) fn new(
        node: N,
        name: String,
        net: Net,
        disks: Vec<Box<dyn DiskBackend>>,
        inbox: Inbox<N::Request, N::Reply>,
        metrics: Metrics,
        on_ready: OnReady,
    ) -> std::io::Result<Self> {
        Ok(Self {
            node,
            name,
            net,
            disks: disks.into_iter().map(Disk::new).collect::<Result<_, _>>()?,
            inbox,
            metrics,
            on_ready: Some(on_ready),
            requests: FastMap::default(),
            admins: FastMap::default(),
            listener: None,
            next_id: 0,
            floods: BTreeMap::new(),
            outputs: Vec::new(),
            stopped: None,
            patience: None,
            release_at: Instant(0),
            gauge: None,
        })
    }

    /// Tells the node from time to time how busy it is.
    pub(crate) fn with_load(self) -> Self {
        Self { gauge: Some(Gauge::new()), ..self }
    }

    /// Runs until the node stops or is stopped.
    pub(crate) async fn run(mut self, mut events: Events<N::Request, N::Reply>) -> End {
        self.step(Input::Start);
        self.end_batch();
        let mut timer = Timer::new();
        while self.stopped.is_none() {
            timer.arm(self.node.deadline().into_iter().chain(self.patience).min());
            tokio::select! {
                event = events.recv() => match event {
                    Some(event) => self.take(event),
                    None => break,
                },
                () = timer.passed() => {}
                () = disks_ended(&self.disks) => {}
            }
            let mut more = BATCH;
            while more > 0 && self.stopped.is_none() {
                let Some(event) = events.try_recv() else { break };
                self.take(event);
                more -= 1;
            }
            // After the events, so that a late timer sees what had already arrived.
            if self.stopped.is_none() && self.node.deadline().is_some_and(|at| at <= clock::now().mono) {
                self.measure();
                self.step(Input::Timer);
                self.release_memory();
            }
            if self.stopped.is_none() && self.patience.is_some_and(|at| at <= clock::now().mono) {
                tracing::warn!(node = self.name, "ended before its disks were shut down");
                self.stopped = Some(End::Done);
            }
            self.end_batch();
            if more == 0 {
                tokio::task::yield_now().await;
            }
        }
        self.net.shut_down().await;
        self.stopped.unwrap_or(End::Done)
    }

    /// Tells the node how busy it is, if it wants to know and it is time.
    fn measure(&mut self) {
        let Some(mut load) = self.gauge.as_mut().and_then(|gauge| gauge.measure(clock::now().mono)) else {
            return;
        };
        load.total.net_bytes = self.net.bytes();
        for disk in &self.disks {
            let (read, written) = disk.backend.bytes();
            load.total.disk_bytes.0 += read;
            load.total.disk_bytes.1 += written;
        }
        self.step(Input::Load(load));
    }

    /// Frees large buffers that were not used for a while.
    fn release_memory(&mut self) {
        let now = clock::now().mono;
        if now >= self.release_at {
            crate::memory::give_back();
            self.release_at = now + RELEASE_EVERY;
        }
    }

    /// Does what is done once for many inputs.
    fn end_batch(&mut self) {
        let mut more = true;
        while more {
            more = self.with_node(|node, outputs| {
                node.batch_ended(clock::now(), outputs);
                !outputs.is_empty()
            });
            self.net.after_batch();
            self.disks.iter().for_each(|disk| disk.backend.submit());
        }
    }

    fn take(&mut self, event: Event<N::Request, N::Reply>) {
        match event {
            Event::Net(event) => {
                if let Some((input, _held)) = self.net.to_input(event) {
                    if let Input::Message { conn, msg } = &input {
                        tracing::trace!(node = self.name, %conn, tid = msg.tid, "gets {}", msg_name(msg));
                    }
                    self.step(input);
                }
            }
            Event::Disk(id, result) => {
                if let Err(error) = &result {
                    self.metrics.count("disk_errors");
                    tracing::error!(node = self.name, %error, "disk");
                }
                self.step(Input::Disk { id, result });
            }
            Event::Admin(command, answer) if asks_to_exit(&command) => {
                // The caller may have gone.
                let _ = answer.send((0, "{}\n".to_owned()));
                self.take(Event::Stop);
            }
            Event::Admin(command, answer) => match self.own_admin(&command) {
                Some(output) => drop(answer.send((0, output))),
                None => {
                    let id = AdminId(self.next_id());
                    let with_counters = asks(&command, "perf dump");
                    self.admins.insert(id, (answer, with_counters));
                    self.step(Input::Admin { id, command });
                }
            },
            Event::Request(request, answer) => {
                let id = RequestId(self.next_id());
                self.requests.insert(id, answer);
                self.step(Input::Request { id, request });
            }
            Event::Listen(listener) => self.listener = Some(listener),
            // Asked once more: at once.
            Event::Stop if self.patience.is_some() => self.stopped = Some(End::Done),
            Event::Stop => {
                self.patience = Some(clock::now().mono + SHUTDOWN_GRACE);
                self.with_node(|node, outputs| node.shut_down(clock::now(), outputs));
            }
        }
    }

    fn next_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Commands that the world answers itself, because only it knows.
    fn own_admin(&self, command: &str) -> Option<String> {
        asks(command, "connections").then(|| self.net.to_json())
    }

    fn step(&mut self, input: Input<N::Request>) {
        self.with_node(|node, outputs| node.handle(clock::now(), input, outputs));
    }

    fn with_node<R>(&mut self, act: impl FnOnce(&mut N, &mut Vec<Output<N::Reply>>) -> R) -> R {
        let mut outputs = std::mem::take(&mut self.outputs);
        let result = act(&mut self.node, &mut outputs);
        for output in outputs.drain(..) {
            self.carry_out(output);
        }
        self.outputs = outputs;
        result
    }

    fn carry_out(&mut self, output: Output<N::Reply>) {
        match output {
            Output::Connect { conn, to } => self.net.connect(conn, *to),
            Output::Send { conn, msg } => {
                tracing::trace!(node = self.name, %conn, tid = msg.tid, "sends {}", msg_name(&msg));
                self.net.send(conn, msg);
            }
            Output::Close { conn } => self.net.close(conn),
            Output::Renew { conn, auth } => self.net.renew(conn, *auth),
            Output::Rebind => self.net.rebind(),
            Output::Disk { id, op } => self.start_disk(id, op),
            Output::AdminReply { id, code, output } => {
                if let Some((answer, with_counters)) = self.admins.remove(&id) {
                    let answered = (code, output);
                    // The caller may have gone.
                    let _ = answer.send(if with_counters {
                        (0, self.metrics.beside(&answered))
                    } else {
                        answered
                    });
                }
            }
            Output::Reply { id: RequestId(0), reply } => {
                if let Some(listener) = &mut self.listener {
                    listener(reply);
                }
            }
            Output::Reply { id, reply } => {
                let answer = self.requests.remove(&id);
                answer.expect("a node answers each request once").give(reply);
            }
            Output::Number(number) => self.net.set_number(number),
            Output::Keys(keys) => self.net.set_keys(keys),
            Output::GlobalIds(range) => self.net.add_global_ids(range),
            Output::Event(event) => self.report(&event),
            Output::Ready => {
                if let Some(ready) = self.on_ready.take() {
                    ready();
                }
            }
            Output::Stop(result) => self.stopped = Some(result.map_or_else(End::Failed, |()| End::Done)),
            Output::Restart(why) => self.stopped = Some(End::Restart(why)),
            Output::ShutDown => self.inbox.send(Event::Stop),
        }
    }

    fn start_disk(&mut self, id: DiskOpId, op: DiskOp) {
        let (DiskOp::Read { disk: DiskId(disk), .. }
        | DiskOp::Write { disk: DiskId(disk), .. }
        | DiskOp::Flush { disk: DiskId(disk) }
        | DiskOp::Discard { disk: DiskId(disk), .. }) = op;
        let inbox = self.inbox.clone();
        let disk = self.disks.get(usize::from(disk)).expect("a node uses only the disks it was given");
        disk.backend.start(op, Box::new(move |result| inbox.send(Event::Disk(id, result))));
    }

    fn report(&mut self, event: &node::Event) {
        self.metrics.count(event.name);
        if event.may_flood {
            let Some(dropped) = self.floods.entry(event.name).or_default().take(clock::now().mono) else {
                return;
            };
            if dropped > 0 {
                tracing::info!(node = self.name, name = event.name, dropped, "lines left out");
            }
        }
        let (node, name, detail) = (&self.name, event.name, &event.detail);
        match event.level {
            Level::Error => tracing::error!(node, name, "{detail}"),
            Level::Warn => tracing::warn!(node, name, "{detail}"),
            Level::Info => tracing::info!(node, name, "{detail}"),
            Level::Debug => tracing::debug!(node, name, "{detail}"),
        }
    }
}

/// True for a command in JSON with this prefix.
fn asks(command: &str, prefix: &str) -> bool {
    command.contains(&format!("\"{prefix}\""))
}

/// True if a command of the admin socket asks the daemon to exit. Quotes within values are escaped, so no
/// value looks like this.
fn asks_to_exit(command: &str) -> bool {
    let dense: String = command.chars().filter(|c| !c.is_whitespace()).collect();
    dense.contains("\"prefix\":\"exit\"") || dense == "exit"
}

fn msg_name(msg: &Msg) -> &'static str {
    match &msg.body {
        Body::Client(body) => body.name(),
        Body::Peer(body) => body.name(),
    }
}

/// One timer, moved only when the deadline moves.
struct Timer {
    sleep: Pin<Box<Sleep>>,
    armed: Option<Instant>,
}

impl Timer {
    fn new() -> Self {
        Self { sleep: Box::pin(tokio::time::sleep_until(tokio::time::Instant::now())), armed: None }
    }

    fn arm(&mut self, deadline: Option<Instant>) {
        if let Some(at) = deadline
            && (self.armed != deadline || self.sleep.is_elapsed())
        {
            self.sleep.as_mut().reset(clock::to_host(at));
        }
        self.armed = deadline;
    }

    async fn passed(&mut self) {
        match self.armed {
            Some(_) => self.sleep.as_mut().await,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::asks_to_exit;

    #[test]
    fn only_the_command_itself_ends_a_daemon() {
        assert!(
            asks_to_exit(r#"{"prefix": "exit"}"#) && asks_to_exit(r#"{"format":"json","prefix":"exit"}"#)
        );
        assert!(asks_to_exit("exit"));
        let values = [
            r#"{"prefix":"config set","key":"exit","value":"exit"}"#,
            r#"{"prefix":"config set","key":"a","value":"{\"prefix\":\"exit\"}"}"#,
            "exit now",
        ];
        assert!(!values.into_iter().any(asks_to_exit));
    }
}
