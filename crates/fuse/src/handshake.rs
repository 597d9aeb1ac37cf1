//! What is agreed with the kernel when the file system is mounted.

use crate::request::RequestForm;
use crate::root::Root;
use fuser::{Filesystem, InitFlags, KernelConfig, Request};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The size of writes and of read-ahead that we ask the kernel for, in bytes.
pub(crate) const MAX_IO: u32 = 1 << 20;

/// Answers the kernel's first request; all others are ours (`request.rs`).
#[derive(Clone, Default)]
pub(crate) struct Handshake {
    expires_names: Arc<AtomicBool>,
    long_setxattr: Arc<AtomicBool>,
    parallel_direct: Arc<AtomicBool>,
}

impl Handshake {
    /// True if the kernel can be told to ask for a name again.
    pub(crate) fn expires_names(&self) -> bool {
        self.expires_names.load(Ordering::Relaxed)
    }

    /// The form of the kernel's requests to a mount of a directory.
    pub(crate) fn request_form(&self, root: Root) -> RequestForm {
        let long_setxattr = self.long_setxattr.load(Ordering::Relaxed);
        RequestForm { long_setxattr, parallel_direct: self.parallel_direct.load(Ordering::Relaxed), root }
    }
}

impl Filesystem for Handshake {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Each is an optimisation: an older kernel that lacks it is served without. Entries come with their
        // attributes always: `READDIRPLUS_AUTO` brings them for the first page only, if a program lists a
        // directory before it looks at the files. What the kernel has of a file that others change, it checks
        // by the time of the last change (`AUTO_INVAL_DATA`). By `EXPORT_SUPPORT` it looks `.` and `..` up in
        // inodes that it has forgotten, of which somebody has a handle.
        let wanted = InitFlags::FUSE_POSIX_LOCKS
            | InitFlags::FUSE_FLOCK_LOCKS
            | InitFlags::FUSE_ASYNC_READ
            | InitFlags::FUSE_AUTO_INVAL_DATA
            | InitFlags::FUSE_DO_READDIRPLUS
            | InitFlags::FUSE_PARALLEL_DIROPS
            | InitFlags::FUSE_ASYNC_DIO
            | InitFlags::FUSE_ATOMIC_O_TRUNC
            | InitFlags::FUSE_POSIX_ACL
            | InitFlags::FUSE_SETXATTR_EXT
            | InitFlags::FUSE_HANDLE_KILLPRIV_V2
            | InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP
            | InitFlags::FUSE_EXPORT_SUPPORT
            | InitFlags::FUSE_DONT_MASK;
        let expires_names = config.capabilities().contains(InitFlags::FUSE_HAS_EXPIRE_ONLY);
        self.expires_names.store(expires_names, Ordering::Relaxed);
        // By then (Linux 6.6) direct writes are taken in parallel too, if the answer to an open says so.
        let parallel_direct = config.capabilities().contains(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP);
        self.parallel_direct.store(parallel_direct, Ordering::Relaxed);
        let long_setxattr = config.capabilities().contains(InitFlags::FUSE_SETXATTR_EXT);
        self.long_setxattr.store(long_setxattr, Ordering::Relaxed);
        let _ = config.add_capabilities(wanted & config.capabilities());
        let _ = config.set_max_write(MAX_IO);
        let _ = config.set_max_readahead(MAX_IO);
        let _ = config.set_max_background(64);
        Ok(())
    }
}
