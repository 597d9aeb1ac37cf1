//! What a node says about itself: one trace line and one counter each.

/// How loud.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// Something is broken; an unlisted one fails a test.
    Error,
    /// Something is wrong that heals by itself or degrades service; an unlisted one fails a test.
    Warn,
    /// A milestone.
    Info,
    /// Detail.
    Debug,
}

/// One event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// How loud.
    pub level: Level,
    /// The counter's name, `snake_case`, past tense: `pg_peered`, `slow_disk_seen`.
    pub name: &'static str,
    /// What exactly, for people.
    pub detail: String,
    /// Whether strangers can cause as many as they like: the world counts all and writes some.
    pub may_flood: bool,
}

impl Event {
    /// An event.
    pub fn new(level: Level, name: &'static str, detail: impl Into<String>) -> Self {
        Self { level, name, detail: detail.into(), may_flood: false }
    }

    /// Somebody was refused something: who, from where, what.
    pub fn refusal(name: &'static str, detail: impl Into<String>) -> Self {
        Self { may_flood: true, ..Self::new(Level::Info, name, detail) }
    }
}
