//! A file system of a cluster.

use crate::{Answer, Caller, Errno, FsRequest, Invalidate, Reply, Request};
use runtime::Handle;
use std::sync::Arc;

/// ENOTCONN: the client has ended.
const GONE: Errno = Errno(107);

/// A mounted file system; clones are the same one.
#[derive(Clone)]
pub struct Fs {
    handle: Handle<Request, Reply>,
}

/// To be told when the kernel's cache has been invalidated: the client gives the capability back only then.
#[must_use]
pub struct Invalidated(Option<Box<dyn FnOnce() + Send>>);

impl Invalidated {
    /// It is done.
    pub fn done(mut self) {
        if let Some(done) = self.0.take() {
            done();
        }
    }
}

impl Drop for Invalidated {
    fn drop(&mut self) {
        // Whoever had caches is gone, and its caches with it.
        if let Some(done) = self.0.take() {
            done();
        }
    }
}

impl Fs {
    /// The file system that a running client node serves.
    pub fn new(handle: Handle<Request, Reply>) -> Self {
        Self { handle }
    }

    /// Asks; `done` is called once, on the client's event loop: it must not block.
    pub fn submit(&self, caller: Caller, request: FsRequest, done: impl FnOnce(Reply) + Send + 'static) {
        self.handle.submit(Request::Fs(caller, request), move |reply| done(reply.unwrap_or(Err(GONE))));
    }

    /// Asks and waits. Not to be called on the client's event loop.
    pub fn call(&self, caller: Caller, request: FsRequest) -> Reply {
        self.handle.call(Request::Fs(caller, request)).unwrap_or(Err(GONE))
    }
}
