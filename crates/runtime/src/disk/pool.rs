//! A few threads that carry out blocking disk calls, shared by all disks of a process.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

type Job = Box<dyn FnOnce() + Send>;

/// Threads that take jobs from one queue. Clones share them; they end with the last clone.
#[derive(Clone)]
pub struct DiskPool(Arc<Owner>);

struct Owner(Arc<Queue>);

struct Queue {
    state: Mutex<State>,
    wake: Condvar,
    most: usize,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    /// Threads there are, and how many of them wait for a job.
    threads: usize,
    idle: usize,
    closed: bool,
}

impl DiskPool {
    /// A pool of at most `most` threads, started on demand. A flush occupies one for as long as the device
    /// takes, so there should be more threads than disks.
    pub fn new(most: usize) -> Self {
        let (state, wake) = (Mutex::new(State::default()), Condvar::new());
        Self(Arc::new(Owner(Arc::new(Queue { state, wake, most }))))
    }

    /// Runs `job` on one of the threads.
    pub fn run(&self, job: impl FnOnce() + Send + 'static) {
        let queue = &self.0.0;
        let mut state = queue.lock();
        state.jobs.push_back(Box::new(job));
        if state.jobs.len() <= state.idle {
            drop(state);
            return queue.wake.notify_one();
        }
        if state.threads < queue.most {
            let worker = queue.clone();
            // Disk calls need little stack; small ones keep the resident size of an idle process low.
            let thread =
                std::thread::Builder::new().name(format!("disk-{}", state.threads)).stack_size(256 << 10);
            match thread.spawn(move || work(&worker)) {
                Ok(_) => state.threads += 1,
                // Those there are do it later.
                Err(_) if state.threads > 0 => {}
                Err(error) => {
                    tracing::warn!(%error, "no thread for disk calls: the event loop waits for the disk");
                    let job = state.jobs.pop_back();
                    drop(state);
                    job.into_iter().for_each(|job| job());
                }
            }
        }
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.wake.notify_all();
    }
}

/// Takes jobs until the pool is dropped and its queue is empty.
fn work(queue: &Queue) {
    let mut state = queue.lock();
    loop {
        if let Some(job) = state.jobs.pop_front() {
            drop(state);
            job();
            state = queue.lock();
        } else if state.closed {
            return;
        } else {
            state.idle += 1;
            state = queue.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }
}
