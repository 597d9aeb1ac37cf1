//! A file or block device through `preadv2`, `pwritev`, `fdatasync` and hole punching.

use super::{DiskBackend, DiskPool};
use node::{DiskError, DiskInfo, DiskOp, DiskResult};
use std::fs::File;
use std::io::IoSlice;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use stdx::{Buf, BufMut, Bufs};

/// Reads up to this size are tried on the event loop, without blocking, before a thread is asked; above it the copy
/// alone would keep other connections waiting.
const INLINE_READ_MAX: usize = 128 << 10;
/// Holes smaller than this are not worth a metadata change of the host's file system.
const DISCARD_MIN: u64 = 256 << 10;
/// The host's limit of segments in one vectored call.
const IOV_MAX: usize = 1024;

/// An open, locked device.
pub struct FileDisk {
    shared: Arc<Shared>,
    pool: DiskPool,
}

struct Shared {
    file: File,
    path: PathBuf,
    info: DiskInfo,
    regular: bool,
    /// Whether the file system can read without blocking; learned at the first refusal.
    nowait: AtomicBool,
}

impl FileDisk {
    pub(super) fn new(file: File, path: PathBuf, info: DiskInfo, regular: bool, pool: DiskPool) -> Self {
        let shared = Shared { file, path, info, regular, nowait: AtomicBool::new(true) };
        Self { shared: Arc::new(shared), pool }
    }
}

impl DiskBackend for FileDisk {
    fn info(&self) -> DiskInfo {
        self.shared.info
    }

    fn start(&self, op: DiskOp, done: Box<dyn FnOnce(DiskResult) + Send>) {
        if let DiskOp::Read { offset, len, .. } = op
            && len <= INLINE_READ_MAX
            && let Some(found) = self.shared.read_cached(offset, len)
        {
            return done(Ok(found));
        }
        let shared = self.shared.clone();
        self.pool.run(move || done(shared.carry_out(op)));
    }
}

impl Shared {
    fn carry_out(&self, op: DiskOp) -> DiskResult {
        match op {
            DiskOp::Read { offset, len, .. } => self.read(offset, len),
            DiskOp::Write { offset, data, .. } => self.write(offset, &data).map(|()| Buf::empty()),
            DiskOp::Flush { .. } => self
                .file
                .sync_data()
                .map(|()| Buf::empty())
                .map_err(|e| self.error(&e, || "flush".to_owned())),
            DiskOp::Discard { offset, len, .. } => {
                self.discard(offset, len);
                Ok(Buf::empty())
            }
        }
    }

    /// The bytes if all of them are in the page cache.
    fn read_cached(&self, offset: u64, len: usize) -> Option<Buf> {
        if !self.nowait.load(Ordering::Relaxed) {
            return None;
        }
        let mut buf = BufMut::zeroed(len);
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
        self.check_range("read", offset, len as u64)?;
        let mut buf = BufMut::zeroed(len);
        self.file
            .read_exact_at(buf.as_mut_slice(), offset)
            .map_err(|e| self.error(&e, || format!("read of {len} bytes at {offset}")))?;
        Ok(buf.freeze())
    }

    fn write(&self, offset: u64, data: &Bufs) -> Result<(), DiskError> {
        self.check_range("write", offset, data.len() as u64)?;
        let failed =
            |e: &std::io::Error| self.error(e, || format!("write of {} bytes at {offset}", data.len()));
        let mut slices: Vec<IoSlice<'_>> = data.parts().iter().map(|part| IoSlice::new(part)).collect();
        let mut rest = &mut slices[..];
        let mut at = offset;
        while !rest.is_empty() {
            let count = rest.len().min(IOV_MAX);
            // SAFETY: IoSlice has iovec's layout, and the slices it borrows outlive the call.
            let n = unsafe {
                libc::pwritev(
                    self.file.as_raw_fd(),
                    rest.as_ptr().cast(),
                    count as libc::c_int,
                    at as libc::off_t,
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

    /// Gives space back to the host. Only a hint: what the host refuses stays allocated, which harms nobody.
    fn discard(&self, offset: u64, len: u64) {
        if self.regular && len >= DISCARD_MIN && self.check_range("discard", offset, len).is_ok() {
            let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
            let _ = rustix::fs::fallocate(&self.file, flags, offset, len);
        }
    }

    fn check_range(&self, what: &str, offset: u64, len: u64) -> Result<(), DiskError> {
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.info.size);
        let einval = std::io::Error::from_raw_os_error(libc::EINVAL);
        inside.then_some(()).ok_or_else(|| {
            self.error(&einval, || format!("{what} of {len} bytes at {offset}, beyond the end"))
        })
    }

    fn error(&self, error: &std::io::Error, what: impl FnOnce() -> String) -> DiskError {
        DiskError {
            errno: error.raw_os_error().unwrap_or(libc::EIO),
            what: format!("{}: {}", self.path.display(), what()),
        }
    }
}
