//! Errors, in words for users.

use wire::Errno;

/// A failure: its number, for protocols, and one line that says what was found and what to do.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{text}")]
pub struct Error {
    /// The number.
    pub errno: Errno,
    /// The line.
    pub text: String,
}

impl Error {
    /// An error with its own words.
    pub fn new(errno: Errno, text: impl Into<String>) -> Self {
        Self { errno, text: text.into() }
    }

    /// An error of the cluster while `what` was done.
    pub fn of(errno: Errno, what: &str) -> Self {
        let hint = match errno {
            Errno::EBLOCKLISTED => {
                ": the cluster has put this client on its blocklist, because another one has taken over the \
                 image; what was not flushed may be lost"
            }
            Errno::EPERM | Errno::EACCES => {
                ": the key lacks the capabilities; it needs `mon 'profile rbd' osd 'profile rbd'`"
            }
            Errno::EOPNOTSUPP | Errno::EINVAL if what.contains("snapshot id") => {
                ": a pool with snapshots of its own (`ceph osd pool mksnap`) cannot have images' snapshots"
            }
            _ => "",
        };
        Self::new(errno, format!("{what}: {}{hint}", errno.text()))
    }
}
