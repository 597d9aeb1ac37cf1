//! A thread that works on file systems, one after the other, when it is told that there is work.

use crate::cluster::Cluster;
use crate::failure::Done;
use crate::tree::{Io, Tree};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use wire::Errno;

/// What all threads share.
pub(crate) struct Shared {
    pub cluster: Cluster,
    /// Held while `.meta` files are read and written.
    pub files: Mutex<()>,
    is_active: AtomicBool,
}

impl Shared {
    pub fn new(cluster: Cluster) -> Self {
        Self { cluster, files: Mutex::new(()), is_active: AtomicBool::new(false) }
    }

    /// True while this manager is the active one.
    pub fn is_active(&self) -> bool {
        self.is_active.load(Ordering::SeqCst)
    }

    pub fn set_active(&self, is_active: bool) {
        self.is_active.store(is_active, Ordering::SeqCst);
    }

    /// The error that ends what must not go on.
    fn go_on(&self) -> Io<()> {
        if self.is_active() { Ok(()) } else { Err(Errno::ENOTCONN) }
    }
}

/// The work of a thread on one file system. It asks the last argument whether to go on.
pub(crate) type Work = fn(&Shared, &Tree, &mut dyn FnMut() -> Io<()>) -> Done<()>;

/// A thread with work.
pub(crate) struct Background {
    name: &'static str,
    wake: Sender<String>,
    /// The file systems on which work is not done.
    pending: Arc<Mutex<BTreeSet<String>>>,
}

impl Background {
    /// Starts a thread. It ends when this is dropped.
    pub fn start(name: &'static str, shared: Arc<Shared>, work: Work) -> std::io::Result<Self> {
        let (wake, woken) = mpsc::channel::<String>();
        let pending = Arc::new(Mutex::new(BTreeSet::new()));
        let left = Arc::clone(&pending);
        std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            for fs in woken {
                if !shared.is_active() || !pending_of(&left).remove(&fs) {
                    continue;
                }
                let done =
                    shared.cluster.tree(&fs).and_then(|tree| work(&shared, &tree, &mut || shared.go_on()));
                match done {
                    Ok(()) => {}
                    // A file system that was removed.
                    Err(failure) if failure.errno == Errno::ENOENT => {
                        tracing::debug!(fs, error = failure.text, "{name} has ended");
                    }
                    Err(failure) => {
                        tracing::warn!(fs, error = failure.text, "{name} is tried again");
                        pending_of(&left).insert(fs);
                    }
                }
            }
        })?;
        Ok(Self { name, wake, pending })
    }

    /// Says that a file system has work.
    pub fn begin(&self, fs: &str) {
        pending_of(&self.pending).insert(fs.to_owned());
        self.wake(fs);
    }

    /// Begins again with what failed.
    pub fn retry(&self) {
        let pending = pending_of(&self.pending).clone();
        pending.iter().for_each(|fs| self.wake(fs));
    }

    fn wake(&self, fs: &str) {
        if self.wake.send(fs.to_owned()).is_err() {
            tracing::error!("{} has ended", self.name);
        }
    }
}

fn pending_of(pending: &Mutex<BTreeSet<String>>) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
    pending.lock().unwrap_or_else(PoisonError::into_inner)
}
