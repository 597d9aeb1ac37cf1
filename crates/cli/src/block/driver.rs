//! An open image with a cluster's client: inputs come from any thread, and are taken one after another.

use super::lock;
use super::world::carry_out;
use anyhow::{Context, Result, anyhow};
use block::{
    Call, Cx, Error, Flow, Image, Input, Opened, Output, ParentSpec, Progress, Reply, Request, Script, Spec,
};
use client::{Cluster, Requests};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

/// The longest time that a timer of an image is late.
const TICK: Duration = Duration::from_millis(100);

/// Called with the answer to a request, on any thread; it must not block.
type Done = Box<dyn FnOnce(Result<Reply, Error>) + Send>;

/// Something that its owner is told of an image.
#[derive(Debug)]
pub(crate) enum News {
    Opened(Box<Result<Opened, Error>>),
    Resized(u64),
    Lost(Error),
    Event(String),
    /// A request has got so far: objects, of all.
    Progress(u64, u64),
    /// This snapshot in the trash has lost its last clone by what was done for others.
    Unused(ParentSpec),
}

struct Core {
    image: Image,
    waiting: BTreeMap<u64, Done>,
    news: mpsc::Sender<News>,
}

struct Shared {
    requests: Requests,
    /// Inputs that were not taken yet. Whoever adds one takes them all, unless another does so already: an
    /// answer may come while a call is being made.
    inputs: Mutex<VecDeque<Given>>,
    core: Mutex<Core>,
    /// The time at which the image wants to be woken; the highest number for never. Looked at without the
    /// lock: who holds that must take the inputs that come meanwhile.
    deadline: AtomicU64,
}

enum Given {
    Input(Input),
    Request(Request, Done),
}

/// An open image.
#[derive(Clone)]
pub(crate) struct Driver(Arc<Shared>);

impl Driver {
    /// Opens an image. The news begin with [`News::Opened`], and say everything that befalls it.
    pub(crate) fn open(cluster: &Cluster, spec: Spec) -> (Self, mpsc::Receiver<News>) {
        let (news, told) = mpsc::channel();
        let core = Core { image: Image::new(spec), waiting: BTreeMap::new(), news };
        let requests = cluster.requests();
        let shared = Shared {
            requests: requests.clone(),
            inputs: Mutex::default(),
            core: Mutex::new(core),
            deadline: AtomicU64::new(u64::MAX),
        };
        let driver = Self(Arc::new(shared));
        let weak = Arc::downgrade(&driver.0);
        requests.listen(move |answer| {
            let Some(shared) = weak.upgrade() else { return };
            let input = match answer {
                client::Answer::Notified { cookie, notify_id, payload, .. } => {
                    Input::Notified { cookie, notify_id, payload }
                }
                client::Answer::WatchBroken { cookie, .. } => Input::WatchBroken { cookie },
                _ => return,
            };
            give(&shared, Given::Input(input));
        });
        let weak = Arc::downgrade(&driver.0);
        std::thread::spawn(move || {
            // Nothing is ever sent here: this waits for the time, and ends with the image.
            let (_open, never) = mpsc::channel::<()>();
            while let Some(shared) = weak.upgrade() {
                if shared.deadline.load(Ordering::Relaxed) <= runtime::now().mono.0 {
                    give(&shared, Given::Input(Input::Timer));
                }
                drop(shared);
                let _ = never.recv_timeout(TICK);
            }
        });
        give(&driver.0, Given::Input(Input::Start));
        (driver, told)
    }

    /// Makes a request; `done` is called once with the answer, on any thread: it must not block.
    pub(crate) fn submit(&self, request: Request, done: impl FnOnce(Result<Reply, Error>) + Send + 'static) {
        give(&self.0, Given::Request(request, Box::new(done)));
    }

    /// Makes a request and waits for its answer.
    pub(crate) fn call(&self, request: Request) -> Result<Reply> {
        let (tx, answer) = mpsc::channel();
        self.submit(request, move |reply| {
            // The caller waits below.
            let _ = tx.send(reply);
        });
        Ok(answer.recv().context("the image has gone")??)
    }
}

fn give(shared: &Arc<Shared>, given: Given) {
    lock(&shared.inputs).push_back(given);
    loop {
        // Who holds it takes this input too.
        let Ok(mut core) = shared.core.try_lock() else { return };
        loop {
            let next = lock(&shared.inputs).pop_front();
            let Some(next) = next else { break };
            core.take(shared, next);
        }
        let deadline = core.image.deadline().map_or(u64::MAX, |at| at.0);
        shared.deadline.store(deadline, Ordering::Relaxed);
        drop(core);
        // One that was added after the last look found the lock taken.
        if lock(&shared.inputs).is_empty() {
            return;
        }
    }
}

impl Core {
    fn take(&mut self, shared: &Arc<Shared>, given: Given) {
        let input = match given {
            Given::Input(input) => input,
            Given::Request(request, done) => {
                let id = self.waiting.last_key_value().map_or(1, |(last, _)| last + 1);
                self.waiting.insert(id, done);
                Input::Request { id, request }
            }
        };
        let mut out = Vec::new();
        self.image.handle(runtime::now().mono, input, &mut out);
        for output in out {
            match output {
                Output::Call { token, call } => {
                    let shared_too = shared.clone();
                    carry_out(&shared.requests, call, move |answer| {
                        give(&shared_too, Given::Input(Input::Answer { token, answer }));
                    });
                }
                Output::Reply { id, reply } => {
                    if let Some(done) = self.waiting.remove(&id) {
                        done(reply);
                    }
                }
                Output::Opened(opened) => self.tell(News::Opened(opened)),
                Output::Resized(size) => self.tell(News::Resized(size)),
                Output::Lost(error) => self.tell(News::Lost(error)),
                Output::Event(text) => self.tell(News::Event(text)),
                Output::Progress { done, total, .. } => self.tell(News::Progress(done, total)),
                Output::Unused(parent) => self.tell(News::Unused(parent)),
            }
        }
    }

    fn tell(&self, news: News) {
        // Nobody listens to an image that is being closed.
        let _ = self.news.send(news);
    }
}

/// Runs a flow to its end.
pub(crate) fn run_script<T>(
    cluster: &Cluster,
    run: impl FnMut(&mut Cx<'_>) -> Flow<T> + Send + 'static,
) -> Result<T> {
    let requests = cluster.requests();
    let mut script = Script::new(run);
    let (tx, answers) = mpsc::channel();
    let mut progress = script.start();
    loop {
        match progress {
            Progress::Ended(result) => return result.map_err(|error| anyhow!(error)),
            Progress::Calls(calls) => {
                calls.into_iter().enumerate().for_each(|(i, call)| send(&requests, call, i, tx.clone()));
            }
            Progress::Waits => {}
        }
        let (i, answer) = answers.recv().context("the cluster's client has stopped")?;
        progress = script.answer(i, answer);
    }
}

fn send(requests: &Requests, call: Call, i: usize, answers: mpsc::Sender<(usize, block::Answer)>) {
    carry_out(requests, call, move |answer| {
        // The script waits for it.
        let _ = answers.send((i, answer));
    });
}
