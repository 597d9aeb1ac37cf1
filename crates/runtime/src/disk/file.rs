//! A file or block device, and the blocking calls on it: `preadv2`, `pwritev`, `fdatasync` and hole punching.

use super::ring::Ring;
use super::{DiskBackend, DiskDone, DiskPool};
use node::{DiskError, DiskInfo, DiskOp, DiskResult};
use std::fs::File;
use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use stdx::{BLOCK, Buf, BufMut, Bufs};

/// Buffered reads up to this size are tried on the event loop, without blocking, before a thread is used.
/// Copying more would delay other connections.
const INLINE_READ_MAX: usize = 128 << 10;
/// Holes smaller than this are not worth a metadata change of the host's file system.
const DISCARD_MIN: u64 = 256 << 10;
/// The host's limit of segments in one vectored call.
const IOV_MAX: usize = 1024;

/// An open, locked device.
pub struct FileDisk {
    device: Arc<Device>,
    engine: Engine,
    /// Threads for operations that the ring does not support.
    pool: DiskPool,
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
        Self { device, engine, pool }
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

/// The way in which a device gives space back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Discards {
    /// Holes in a sparse file.
    Holes,
    /// The block device's own.
    Block,
    /// Not at all: it can't, or its space was allocated so that it stays.
    Never,
}

/// The open file, and what was found out about it.
pub(super) struct Device {
    pub file: File,
    pub path: PathBuf,
    pub info: DiskInfo,
    /// The way to give space back to the host.
    pub discards: Discards,
    /// Past the page cache.
    pub direct: bool,
    /// Required alignment of memory for direct access.
    pub memory_align: usize,
    /// True if the file system can read without blocking; cleared at the first refusal.
    pub nowait: AtomicBool,
}

impl Device {
    /// Refuses what lies outside or is not made of whole blocks.
    fn check(&self, op: &DiskOp) -> Result<(), DiskError> {
        let (what, offset, len) = match op {
            DiskOp::Read { offset, len, .. } => ("read", *offset, *len as u64),
            DiskOp::Write { offset, data, .. } => ("write", *offset, data.len() as u64),
            DiskOp::Discard { offset, len, .. } => ("discard", *offset, *len),
            DiskOp::Flush { .. } => return Ok(()),
        };
        let whole = (offset | len).is_multiple_of(BLOCK as u64);
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.info.size);
        if whole && inside {
            return Ok(());
        }
        let why = if inside { "not of whole blocks" } else { "beyond the end" };
        Err(self.error(libc::EINVAL, || format!("{what} of {len} bytes at {offset}, {why}")))
    }

    fn carry_out(&self, op: DiskOp) -> DiskResult {
        match op {
            DiskOp::Read { offset, len, .. } => self.read(offset, len),
            DiskOp::Write { offset, data, through, .. } => {
                self.write(offset, &self.reachable(data), through).map(|()| Buf::empty())
            }
            DiskOp::Flush { .. } => {
                self.file.sync_data().map(|()| Buf::empty()).map_err(|e| self.flush_error(&e))
            }
            DiskOp::Discard { offset, len, .. } => {
                // Only a hint: space that the host does not take back stays allocated, which does no harm.
                if let Some(flags) = self.punches(len) {
                    let _ = rustix::fs::fallocate(&self.file, flags, offset, len);
                } else if self.discards == Discards::Block && len >= DISCARD_MIN {
                    let _ = self.discard_blocks(offset, len);
                }
                Ok(Buf::empty())
            }
        }
    }

    /// The bytes if all of them are in the page cache.
    fn read_cached(&self, offset: u64, len: usize) -> Option<Buf> {
        if self.direct || len > INLINE_READ_MAX || !self.nowait.load(Ordering::Relaxed) {
            return None;
        }
        let mut buf = BufMut::uncleared(len);
        let slice = buf.as_mut_slice();
        let iov = libc::iovec { iov_base: slice.as_mut_ptr().cast(), iov_len: len };
        // SAFETY: the one iovec describes `buf`, which outlives the call; the descriptor is open.
        let n = unsafe {
            libc::preadv2(self.file.as_raw_fd(), &raw const iov, 1, offset as libc::off_t, libc::RWF_NOWAIT)
        };
        if n == len as isize {
            return Some(buf.freeze());
        }
        if n < 0 && std::io::Error::last_os_error().raw_os_error() != Some(libc::EAGAIN) {
            self.nowait.store(false, Ordering::Relaxed);
        }
        None
    }

    fn read(&self, offset: u64, len: usize) -> DiskResult {
        let mut buf = BufMut::uncleared(len);
        self.file.read_exact_at(buf.as_mut_slice(), offset).map_err(|e| self.read_error(&e, offset, len))?;
        Ok(buf.freeze())
    }

    fn write(&self, offset: u64, data: &Bufs, through: bool) -> Result<(), DiskError> {
        let failed = |e: &std::io::Error| self.write_error(e, offset, data.len());
        let mut slices: Vec<IoSlice<'_>> = data.parts().iter().map(|part| IoSlice::new(part)).collect();
        let mut rest = &mut slices[..];
        let mut at = offset;
        while !rest.is_empty() {
            let count = rest.len().min(IOV_MAX);
            // SAFETY: IoSlice has iovec's layout, and the slices it borrows outlive the call.
            let n = unsafe {
                libc::pwritev2(
                    self.file.as_raw_fd(),
                    rest.as_ptr().cast(),
                    count as libc::c_int,
                    at as libc::off_t,
                    if through { libc::RWF_DSYNC } else { 0 },
                )
            };
            if n < 0 {
                let error = std::io::Error::last_os_error();
                if error.kind() == std::io::ErrorKind::Interrupted {
                    continue;
                }
                return Err(failed(&error));
            }
            if n == 0 {
                return Err(failed(&std::io::Error::from_raw_os_error(libc::ENOSPC)));
            }
            at += n as u64;
            IoSlice::advance_slices(&mut rest, n as usize);
        }
        Ok(())
    }

    /// The same bytes in memory that direct access can use: a copy if the address or length of a part is not
    /// aligned, or if there are more parts than one call takes.
    pub fn reachable(&self, data: Bufs) -> Bufs {
        let suits = |part: &Buf| {
            (part.as_ptr() as usize).is_multiple_of(self.memory_align) && part.len().is_multiple_of(BLOCK)
        };
        if !self.direct || data.parts().len() <= IOV_MAX && data.parts().iter().all(suits) {
            return data;
        }
        BufMut::concat(data.parts().iter().map(|part| &part[..]), data.len()).freeze().into()
    }

    /// The call that gives a range of this length back to the host, if any.
    pub fn punches(&self, len: u64) -> Option<rustix::fs::FallocateFlags> {
        use rustix::fs::FallocateFlags as Flags;
        (self.discards == Discards::Holes && len >= DISCARD_MIN)
            .then_some(Flags::PUNCH_HOLE | Flags::KEEP_SIZE)
    }

    /// Discards a range of a block device. That may block, so it is never called on an event loop.
    fn discard_blocks(&self, offset: u64, len: u64) -> std::io::Result<()> {
        const BLKDISCARD: libc::c_ulong = 0x1277;
        let range = [offset, len];
        // SAFETY: the call reads two numbers, which outlive it; the descriptor is open.
        match unsafe { libc::ioctl(self.file.as_raw_fd(), BLKDISCARD as _, range.as_ptr()) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    }

    pub fn read_error(&self, error: &std::io::Error, offset: u64, len: usize) -> DiskError {
        self.error(errno(error), || format!("read of {len} bytes at {offset}"))
    }

    pub fn write_error(&self, error: &std::io::Error, offset: u64, len: usize) -> DiskError {
        self.error(errno(error), || format!("write of {len} bytes at {offset}"))
    }

    pub fn flush_error(&self, error: &std::io::Error) -> DiskError {
        self.error(errno(error), || "flush".to_owned())
    }

    fn error(&self, errno: i32, what: impl FnOnce() -> String) -> DiskError {
        DiskError { errno, what: format!("{}: {}", self.path.display(), what()) }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // The host may close the file a moment later, when it has torn down a ring that used it. An error is
        // harmless then.
        let _ = rustix::fs::flock(self.file.as_fd(), rustix::fs::FlockOperation::Unlock);
    }
}

fn errno(error: &std::io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}
