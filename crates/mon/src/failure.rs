//! The one error of commands and of the rules behind them: an error number and a sentence for the user.

use wire::Errno;

/// The reason why a command failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Failure {
    /// The error number.
    pub errno: Errno,
    /// One sentence for the user.
    pub text: String,
}

impl Failure {
    pub fn new(errno: Errno, text: impl Into<String>) -> Self {
        Self { errno, text: text.into() }
    }
}

/// Fails with `EINVAL`.
pub(crate) fn invalid<T>(text: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::new(Errno::EINVAL, text))
}

/// Fails with `ENOENT`.
pub(crate) fn missing<T>(text: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::new(Errno::ENOENT, text))
}
