//! The kernel's FUSE requests, handed to the client and answered when it answers.
//!
//! `fuser` brings its own threads: each only turns a request into a [`FsRequest`] and returns, the answer is given from the
//! client's event loop. Permissions are the kernel's to check (`default_permissions`).
#![expect(clippy::disallowed_types, reason = "fuser speaks SystemTime and brings its own threads")]

mod convert;
mod ops;

use client::{Fs, Invalidate};
use fuser::{Config, INodeNo, MountOption, Session, SessionACL};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::mpsc;

/// A file system that is mounted and, once waited for, served. Dropping it unmounts.
pub struct Mount {
    session: Session<ops::Kernel>,
}

/// How to mount.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Refuse writes.
    pub read_only: bool,
    /// Let other users in (needs root or `user_allow_other`).
    pub allow_other: bool,
}

impl Mount {
    /// Mounts `fs` at `path`, which must be an existing directory. Requests wait until [`Mount::wait`] serves them.
    pub fn new(fs: Fs, path: &Path, options: &Options) -> io::Result<Self> {
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName("nacre".into()),
            MountOption::Subtype("nacre".into()),
            MountOption::DefaultPermissions,
            MountOption::NoAtime,
            MountOption::Suid,
            MountOption::Dev,
            if options.read_only { MountOption::RO } else { MountOption::RW },
        ];
        config.acl = if options.allow_other { SessionACL::All } else { SessionACL::Owner };
        let session = Session::new(ops::Kernel::new(fs.clone()), path, &config)?;
        let notifier = session.notifier();
        // Notices to the kernel may block on locks that requests hold, so they leave from a thread of their own.
        let (tx, rx) = mpsc::channel::<(Invalidate, client::Invalidated)>();
        std::thread::Builder::new().name("fuse-notify".into()).spawn(move || {
            for (what, done) in rx {
                // An inode or name that the kernel does not have is nothing to forget.
                let _ = match what {
                    Invalidate::Inode { ino, offset, len } => {
                        notifier.inval_inode(INodeNo(ino), offset as i64, len as i64)
                    }
                    Invalidate::Entry { parent, name } => {
                        notifier.inval_entry(INodeNo(parent), OsStr::from_bytes(&name))
                    }
                };
                drop(done);
            }
        })?;
        fs.on_invalidate(move |what, done| {
            // The thread lives as long as the session; after it there is nothing to invalidate.
            let _ = tx.send((what, done));
        });
        Ok(Self { session })
    }

    /// Serves until somebody unmounts it, with umount(2) or `fusermount3 -u`.
    pub fn wait(self) -> io::Result<()> {
        self.session.spawn()?.join()
    }
}
