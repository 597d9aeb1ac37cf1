//! The mount: hands the kernel's FUSE requests to the client and the answers back.
//!
//! `fuser` mounts and agrees with the kernel on a protocol (`handshake.rs`). From then on the requests are
//! read on the client's event loop and answered from it (ADR 0016): a request that the client answers by
//! itself costs no change of threads. The kernel checks permissions (`default_permissions`).

#![expect(clippy::disallowed_types, reason = "utimes(2) with UTIME_NOW means the caller's clock")]

mod abi;
mod handshake;
mod identity;
mod notices;
mod options;
mod places;
mod reply;
mod request;
mod root;
mod syncs;
mod truncations;

pub use identity::ServerProcess;
pub use options::{Flags, Options};

use client::{Answer, Cluster, FileClock, Found, FsRequest, Ino};
use fuser::Session;
use handshake::{Handshake, MAX_IO};
use notices::{Held, Notices};
use places::{Naming, Places};
use reply::Device;
use request::{Form, Request, RequestForm, What};
use root::Root;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use syncs::Syncs;

/// Requests that are read before the client gets its turn.
const BATCH: usize = 16;
/// Bytes of the largest request.
const MAX_REQUEST: usize = MAX_IO as usize + (64 << 10);

/// A mounted file system. Dropping it unmounts.
pub struct Mount {
    ended: mpsc::Receiver<io::Result<()>>,
    _session: Session<Handshake>,
}

impl Mount {
    /// Mounts the file system of `cluster` at `path`, which must be an existing directory, and serves it on
    /// the event loop of `cluster`.
    pub fn new(cluster: &Cluster, path: &Path, options: &Options) -> io::Result<Self> {
        let fs = cluster.fs();
        let root = Root::find(&fs, &options.root)?;
        let handshake = Handshake::default();
        let session = Session::new(handshake.clone(), path, &options.config())?;
        let expires_names = handshake.expires_names();
        let fd = session.as_fd().try_clone_to_owned()?;
        rustix::io::ioctl_fionbio(&fd, true)?;
        let device = Arc::new(Device {
            fd: session.as_fd().try_clone_to_owned()?,
            fs,
            expires_names,
            root,
            places: Mutex::new(Places::default()),
        });
        let mut server = Server {
            notices: notices::forward(&device, session.notifier())?,
            device,
            form: handshake.request_form(root),
            clock: FileClock::new()?,
            identity: identity::of_this_process()?,
            syncs: Syncs::default(),
            buffer: vec![0; MAX_REQUEST],
        };
        let (tx, ended) = mpsc::channel();
        cluster.watch(fd, move |fd| {
            server.serve(fd).unwrap_or_else(|end| {
                // Nobody waits any more.
                let _ = tx.send(end);
                Found::End
            })
        });
        Ok(Self { ended, _session: session })
    }

    /// Waits until somebody unmounts it by umount(2) or `fusermount3 -u`. Fails if it can't be served.
    pub fn wait(self) -> io::Result<()> {
        let gone = || io::Error::other("nobody serves the mount: the client's event loop has given it up");
        self.ended.recv().unwrap_or_else(|_| Err(gone()))
    }
}

/// Serves the kernel's requests.
struct Server {
    device: Arc<Device>,
    /// Takes answers that wait for a notice.
    notices: Notices,
    form: RequestForm,
    clock: FileClock,
    /// The value of [`identity::XATTR`].
    identity: Vec<u8>,
    syncs: Syncs,
    buffer: Vec<u8>,
}

impl Server {
    /// Reads some requests and hands them to the client. The error is the end of the mount.
    fn serve(&mut self, fd: BorrowedFd<'_>) -> Result<Found, io::Result<()>> {
        use rustix::io::Errno;
        for _ in 0..BATCH {
            match rustix::io::read(fd, &mut self.buffer) {
                Ok(len) => self.handle(len)?,
                Err(Errno::AGAIN) => return Ok(Found::Nothing),
                // The caller was killed before its request was read.
                Err(Errno::NOENT | Errno::INTR) => {}
                Err(Errno::NODEV) => return Err(Ok(())),
                Err(error) => return Err(Err(error.into())),
            }
        }
        Ok(Found::More)
    }

    fn handle(&self, len: usize) -> Result<(), io::Result<()>> {
        let Some(Request { unique, caller, what }) = Request::decode(&self.buffer[..len], self.form) else {
            return Err(Err(io::Error::new(io::ErrorKind::InvalidData, "the kernel's request is cut off")));
        };
        match what {
            What::Ask(FsRequest::Sync, form) => {
                self.syncs.begin(unique);
                let (device, syncs) = (self.device.clone(), self.syncs.clone());
                let answer = move |answer| {
                    if syncs.end(unique) {
                        device.answer(unique, form, answer);
                    }
                };
                self.device.fs.submit(caller, FsRequest::Sync, answer);
            }
            What::Ask(request, form) => {
                if matches!(request, FsRequest::Write { .. } | FsRequest::CopyRange { .. }) {
                    // The kernel has just given the file its time, and will compare it with ours.
                    self.clock.look();
                }
                let (device, notices) = (self.device.clone(), self.notices.clone());
                let truncated = truncated(&request);
                if let Some(ino) = truncated {
                    notices.truncation_begins(ino);
                }
                let naming = Naming::of(&request);
                let answer = move |answer| {
                    match naming.and_then(|naming| device.places().take(naming, &answer)) {
                        None => device.answer(unique, form, answer),
                        Some(former) => notices.hold(Held { former, unique, form, answer }),
                    }
                    if let Some(ino) = truncated {
                        notices.truncation_ended(ino);
                    }
                };
                self.device.fs.submit(caller, request, answer);
            }
            What::Forget(items) => {
                for (ino, count) in items {
                    self.device.places().forget(ino);
                    self.device.forget(ino, count);
                }
            }
            What::Interrupt(token) if self.syncs.end(token) => self.device.refuse(token, libc::EINTR),
            // Else only a lock is waited for without an end.
            What::Interrupt(token) => {
                self.device.fs.submit(caller, FsRequest::Interrupt { token }, |_| {});
            }
            What::WhoServes { size } => {
                let identity = Answer::Data(self.identity.clone().into());
                self.device.answer(unique, Form::Xattr(size), Ok(identity));
            }
            What::Refuse(errno) => self.device.refuse(unique, errno),
            What::Destroy => {
                self.device.answer(unique, Form::Plain, Ok(Answer::Done));
                return Err(Ok(()));
            }
        }
        Ok(())
    }
}

/// The file of which a request sets the size.
fn truncated(request: &FsRequest) -> Option<Ino> {
    match request {
        FsRequest::Setattr { ino, set } => set.size.map(|_| *ino),
        _ => None,
    }
}
