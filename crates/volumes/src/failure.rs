//! The one error of this crate: an error number and a sentence for the user.

use wire::Errno;

/// The reason why a command failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Failure {
    /// The error number.
    pub errno: Errno,
    /// One sentence for the user, in Ceph's words if Ceph has the error.
    pub text: String,
}

/// The outcome of a step.
pub(crate) type Done<T> = Result<T, Failure>;

impl Failure {
    pub fn new(errno: Errno, text: impl Into<String>) -> Self {
        Self { errno, text: text.into() }
    }
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        Self::new(errno, errno.text())
    }
}

/// Fails with `EINVAL`.
pub(crate) fn invalid<T>(text: impl Into<String>) -> Done<T> {
    Err(Failure::new(Errno::EINVAL, text))
}

/// Fails with `ENOENT`.
pub(crate) fn missing<T>(text: impl Into<String>) -> Done<T> {
    Err(Failure::new(Errno::ENOENT, text))
}

/// Says `what` is missing if it is, and else what the file system said.
pub(crate) fn if_missing(text: impl Into<String>) -> impl FnOnce(Errno) -> Failure {
    move |errno| match errno {
        Errno::ENOENT => Failure::new(errno, text),
        other => other.into(),
    }
}
