//! Events: a node's reports about itself, each a trace line and a counter.

/// Severity of an event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// Something is broken; an unlisted one fails a test.
    Error,
    /// Something is wrong that heals by itself or degrades service; an unlisted one fails a test.
    Warn,
    /// A milestone of the node.
    Info,
    /// Detail for debugging.
    Debug,
}

/// An event that a node reports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// Severity of the event.
    pub level: Level,
    /// The counter's name, `snake_case`, past tense: `pg_peered`, `slow_disk_seen`.
    pub name: &'static str,
    /// Details, for people.
    pub detail: String,
    /// True if strangers can cause any number of them: the world counts all and logs some.
    pub may_flood: bool,
}

impl Event {
    /// Creates an event that is logged each time.
    pub fn new(level: Level, name: &'static str, detail: impl Into<String>) -> Self {
        Self { level, name, detail: detail.into(), may_flood: false }
    }

    /// A refusal. `detail` names the peer, its address and the request.
    pub fn refusal(name: &'static str, detail: impl Into<String>) -> Self {
        Self { may_flood: true, ..Self::new(Level::Info, name, detail) }
    }
}
