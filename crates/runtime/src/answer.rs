//! The answer to a local caller's request, or word that there will be none.

/// Called once with the answer, on the node's event loop: it must not block.
pub type Completion<Rep> = Box<dyn FnOnce(Result<Rep, Gone>) + Send>;

/// The node has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the node has stopped")]
pub struct Gone;

/// A completion that reports [`Gone`] when it is dropped unused.
pub(crate) struct Answer<Rep>(Option<Completion<Rep>>);

impl<Rep> Answer<Rep> {
    pub(crate) fn new(done: impl FnOnce(Result<Rep, Gone>) + Send + 'static) -> Self {
        Self(Some(Box::new(done)))
    }

    pub(crate) fn give(mut self, reply: Rep) {
        if let Some(done) = self.0.take() {
            done(Ok(reply));
        }
    }
}

impl<Rep> Drop for Answer<Rep> {
    fn drop(&mut self) {
        if let Some(done) = self.0.take() {
            done(Err(Gone));
        }
    }
}
