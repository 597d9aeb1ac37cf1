//! What happened, as a running hash (two runs of one seed must agree) and, where asked for, as text.

use std::fmt::Arguments;
use std::hash::Hasher as _;
use stdx::Instant;

/// The record of a run.
#[derive(Debug, Default)]
pub struct Trace {
    hash: u64,
    events: u64,
    /// The last lines, kept where text is wanted.
    lines: Option<std::collections::VecDeque<String>>,
}

/// Lines kept; enough to see what led to a failure.
const KEPT_LINES: usize = 20_000;

impl Trace {
    /// A record that also keeps text.
    pub fn with_text() -> Self {
        Self { lines: Some(Default::default()), ..Self::default() }
    }

    /// Notes one event: numbers that identify it, and its text.
    pub fn note(&mut self, at: Instant, numbers: &[u64], text: Arguments<'_>) {
        let mut hasher = stdx::FoldHasher::default();
        hasher.write_u64(self.hash);
        hasher.write_u64(at.0);
        numbers.iter().for_each(|n| hasher.write_u64(*n));
        self.hash = hasher.finish();
        self.events += 1;
        if let Some(lines) = &mut self.lines {
            if lines.len() == KEPT_LINES {
                lines.pop_front();
            }
            lines.push_back(format!("{at:?} {text}"));
        }
    }

    /// Equal for two runs that did the same.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Events noted.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The text, oldest first; empty where none was wanted.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().flatten().map(String::as_str)
    }
}
