//! The events of a run, as a running hash (two runs of one seed must agree) and, on request, as text.

use std::fmt::Arguments;
use std::hash::Hasher as _;
use stdx::Instant;

/// The trace of a run.
#[derive(Debug, Default)]
pub struct Trace {
    hash: u64,
    events: u64,
    /// The last lines, if text is kept.
    lines: Option<std::collections::VecDeque<String>>,
}

/// Lines kept: enough to see the cause of a failure.
const KEPT_LINES: usize = 20_000;

impl Trace {
    /// A trace that also keeps text.
    pub fn with_text() -> Self {
        Self { lines: Some(Default::default()), ..Self::default() }
    }

    /// Records an event: numbers that identify it, and a text.
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

    /// The hash, equal for two equal runs.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// The number of recorded events.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The text, oldest line first; empty unless text is kept.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().flatten().map(String::as_str)
    }
}
