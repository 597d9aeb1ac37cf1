//! A few threads that carry out blocking disk calls, shared by all disks of a process.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

type Job = Box<dyn FnOnce() + Send>;

/// Threads that take jobs from one queue. Clones share them; they end with the last clone.
#[derive(Clone)]
pub struct DiskPool(Arc<Owner>);

struct Owner(Arc<Queue>);

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    closed: bool,
}

impl DiskPool {
    /// A pool of `threads` threads. A flush holds one for as long as the device takes, so there should be more
    /// than there are disks.
    pub fn new(threads: usize) -> std::io::Result<Self> {
        let queue = Arc::new(Queue::default());
        for i in 0..threads {
            let queue = queue.clone();
            // Disk calls need little stack; small ones keep the resident size of an idle process low.
            std::thread::Builder::new()
                .name(format!("disk-{i}"))
                .stack_size(256 << 10)
                .spawn(move || work(&queue))?;
        }
        Ok(Self(Arc::new(Owner(queue))))
    }

    /// Runs `job` on one of the threads.
    pub fn run(&self, job: impl FnOnce() + Send + 'static) {
        self.0.0.lock().jobs.push_back(Box::new(job));
        self.0.0.wake.notify_one();
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
            state = queue.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
