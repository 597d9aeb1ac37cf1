//! The outcome of a command, as its sender gets it.

/// The outcome of a command.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// 0 or a negative errno.
    pub code: i32,
    /// The status line: an error, or what was done.
    pub status: String,
    /// The output.
    pub output: String,
}
