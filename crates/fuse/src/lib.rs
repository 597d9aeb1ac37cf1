//! The mount: hands the kernel's FUSE requests to the client and the answers back.
//!
//! `fuser` brings its own threads: each turns a request into a [`client::FsRequest`] and returns; the answer
//! is given from the client's event loop. The kernel checks permissions (`default_permissions`).
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

/// A mounted file system, served by [`Mount::wait`]. Dropping it unmounts.
pub struct Mount {
    session: Session<ops::Kernel>,
}

/// Mount options.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Refuse writes.
    pub read_only: bool,
    /// Admit other users (needs root or `user_allow_other`).
    pub allow_other: bool,
}

impl Mount {
    /// Mounts `fs` at `path`, which must be an existing directory. Requests wait until [`Mount::wait`] serves
    /// them.
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
        // Notices to the kernel may block on locks that requests hold, so they leave from a thread of their
        // own.
        let (tx, rx) = mpsc::channel::<(Invalidate, client::Invalidated)>();
        std::thread::Builder::new().name("fuse-notify".into()).spawn(move || {
            for (what, done) in rx {
                // The kernel refuses what it does not know: then there is nothing to forget.
                let _ = match what {
                    Invalidate::Inode { ino, offset, len } => {
                        notifier.inval_inode(INodeNo(ino), offset as i64, len as i64)
                    }
                    Invalidate::Attributes { ino } => notifier.inval_inode(INodeNo(ino), -1, 0),
                    Invalidate::Entry { parent, name } => {
                        notifier.inval_entry(INodeNo(parent), OsStr::from_bytes(&name))
                    }
                };
                drop(done);
            }
        })?;
        fs.on_invalidate(move |what, done| {
            // The thread lives as long as the session; after that there is nothing to invalidate.
            let _ = tx.send((what, done));
        });
        Ok(Self { session })
    }

    /// Serves until somebody unmounts it by umount(2) or `fusermount3 -u`.
    pub fn wait(self) -> io::Result<()> {
        self.session.spawn()?.join()
    }
}
