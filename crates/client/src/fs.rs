//! A file system of a cluster.

use crate::{Answer, Caller, Errno, FsRequest, Invalidate, Reply, Request};
use runtime::Handle;

/// The error of every request after the client has ended.
const GONE: Errno = Errno::ENOTCONN;

/// A file system session; clones are the same one.
#[derive(Clone)]
pub struct Fs {
    handle: Handle<Request, Reply>,
}

/// A pending invalidation. It is to be dropped when caches have forgotten its subject: only then does the
/// client give the capability back.
#[must_use]
pub struct Invalidated {
    handle: Handle<Request, Reply>,
    id: u64,
}

impl Drop for Invalidated {
    fn drop(&mut self) {
        self.handle.submit(Request::Invalidated { id: self.id }, |_| {});
    }
}

impl Fs {
    pub(crate) fn new(handle: Handle<Request, Reply>) -> Self {
        Self { handle }
    }

    /// Sends a request; `done` is called once, on the client's event loop: it must not block.
    pub fn submit(&self, caller: Caller, request: FsRequest, done: impl FnOnce(Reply) + Send + 'static) {
        self.handle.submit(Request::Fs(caller, request), move |reply| done(reply.unwrap_or(Err(GONE))));
    }

    /// Sends a request and waits. Not to be called on the client's event loop.
    pub fn call(&self, caller: Caller, request: FsRequest) -> Reply {
        self.handle.call(Request::Fs(caller, request)).unwrap_or(Err(GONE))
    }

    /// Has `forget` called, on the client's event loop, with each thing that caches must forget. It must not
    /// block.
    pub fn on_invalidate(&self, mut forget: impl FnMut(Invalidate, Invalidated) + Send + 'static) {
        let handle = self.handle.clone();
        self.handle.listen(move |reply| {
            if let Ok(Answer::Invalidate { id, what }) = reply {
                forget(what, Invalidated { handle: handle.clone(), id });
            }
        });
    }
}
