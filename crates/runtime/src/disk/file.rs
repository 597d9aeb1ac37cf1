//! A disk: a device behind a ring, or behind threads where the host forbids rings.

use super::device::{Device, Discards};
use super::kept::Kept;
use super::ring::Ring;
use super::{DiskBackend, DiskDone, DiskPool};
use node::{DiskInfo, DiskOp};
use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// An open, locked device.
pub struct FileDisk {
    device: Arc<Device>,
    engine: Engine,
    /// Threads for operations that the ring does not support.
    pool: DiskPool,
    /// What may answer reads.
    kept: Option<Arc<Kept>>,
    /// Bytes read and written.
    bytes: Cell<(u64, u64)>,
}

enum Engine {
    Ring(Box<Ring>),
    Threads,
}

impl FileDisk {
    /// With `io_uring` if that is `wanted` and the host allows it.
    pub(super) fn new(device: Device, pool: DiskPool, wanted: bool) -> Self {
        let device = Arc::new(device);
        let ring = wanted.then(|| Ring::new(device.clone())).and_then(|ring| {
            let path = device.path.display();
            ring.inspect_err(|error| tracing::info!(%path, %error, "no io_uring: disk calls on threads")).ok()
        });
        let engine = ring.map_or(Engine::Threads, |ring| Engine::Ring(Box::new(ring)));
        Self { device, engine, pool, kept: None, bytes: Cell::default() }
    }

    /// Keeps at most so many bytes of what is read, in memory that the kernel may take back; nothing if the
    /// host can't do that, or does it already because access to the device is through its page cache.
    pub fn keep(&mut self, bytes: u64) {
        self.kept = if self.device.direct { Kept::new(bytes).map(Arc::new) } else { None };
    }

    /// Answers an operation from what is kept, or has what it reads kept. Returns what is left to be done.
    fn consult(&self, kept: &Arc<Kept>, op: &DiskOp, done: DiskDone) -> Option<DiskDone> {
        match op {
            DiskOp::Read { offset, len, cached, .. } => {
                let (kept, offset, cached) = (kept.clone(), *offset, *cached);
                if cached && let Some(found) = kept.read(offset, *len) {
                    done(Ok(found));
                    return None;
                }
                Some(Box::new(move |result| {
                    match &result {
                        Ok(content) if cached => kept.fill(offset, content),
                        Ok(content) => kept.correct(offset, content),
                        Err(_) => {}
                    }
                    done(result);
                }))
            }
            DiskOp::Write { offset, data, .. } => {
                kept.forget(*offset, data.len() as u64);
                Some(done)
            }
            DiskOp::Discard { offset, len, .. } => {
                kept.forget(*offset, *len);
                Some(done)
            }
            DiskOp::Flush { .. } => Some(done),
        }
    }

    /// The access to the device, in a few words.
    pub fn describe(&self) -> &'static str {
        match (&self.engine, self.device.direct) {
            (Engine::Ring(_), _) => "direct, io_uring",
            (Engine::Threads, true) => "direct, threads",
            (Engine::Threads, false) => "page cache, threads",
        }
    }

    /// The way to give space back to the host, in a few words.
    pub fn describe_discards(&self) -> &'static str {
        match self.device.discards {
            Discards::Holes => "free space becomes holes",
            Discards::Block => "free space is discarded",
            Discards::Never => "free space stays allocated",
        }
    }

    /// For a caller without an event loop: submits the started operations and, if results come by
    /// [`DiskBackend::reap`], waits for at least one and reaps. To be called only while operations are in
    /// flight.
    pub fn wait(&self) {
        if let Engine::Ring(ring) = &self.engine {
            ring.wait();
        }
    }
}

impl DiskBackend for FileDisk {
    fn info(&self) -> DiskInfo {
        self.device.info
    }

    fn start(&self, op: DiskOp, done: DiskDone) {
        if let Err(error) = self.device.check(&op) {
            return done(Err(error));
        }
        let done = match &self.kept {
            Some(kept) => match self.consult(kept, &op, done) {
                Some(done) => done,
                None => return,
            },
            None => done,
        };
        let (read, written) = self.bytes.get();
        match &op {
            DiskOp::Read { len, .. } => self.bytes.set((read + *len as u64, written)),
            DiskOp::Write { data, .. } => self.bytes.set((read, written + data.len() as u64)),
            DiskOp::Flush { .. } | DiskOp::Discard { .. } => {}
        }
        let by_ring = !matches!(op, DiskOp::Discard { .. }) || self.device.discards != Discards::Block;
        match &self.engine {
            Engine::Ring(ring) if by_ring => ring.start(op, done),
            _ => {
                if let DiskOp::Read { offset, len, .. } = op
                    && let Some(found) = self.device.read_cached(offset, len)
                {
                    return done(Ok(found));
                }
                let device = self.device.clone();
                self.pool.run(move || {
                    let result = device.carry_out(op);
                    // A caller that learns of the end may open the device again.
                    drop(device);
                    done(result);
                });
            }
        }
    }

    fn bytes(&self) -> (u64, u64) {
        self.bytes.get()
    }

    fn submit(&self) {
        if let Engine::Ring(ring) = &self.engine {
            ring.submit();
        }
    }

    fn reap(&self) {
        if let Engine::Ring(ring) = &self.engine {
            ring.reap();
        }
    }

    fn completions(&self) -> std::io::Result<Option<OwnedFd>> {
        match &self.engine {
            Engine::Ring(ring) => ring.event().try_clone_to_owned().map(Some),
            Engine::Threads => Ok(None),
        }
    }
}
