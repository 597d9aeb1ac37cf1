//! Answers that wait until the change that they speak of is committed.

use node::{Never, Output};
use std::collections::VecDeque;

/// Answers by the index of the log entry that they wait for. Indexes do not shrink: answers go out in order.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    waiting: VecDeque<(u64, Output<Never>)>,
}

impl Answers {
    /// Adds an answer that waits for `index`, and for all answers before it.
    pub fn push(&mut self, index: u64, answer: Output<Never>) {
        let last = self.waiting.back().map_or(0, |(index, _)| *index);
        self.waiting.push_back((index.max(last), answer));
    }

    /// Takes the next answer if its index is committed.
    pub fn pop_committed(&mut self, committed: u64) -> Option<Output<Never>> {
        self.waiting.pop_front_if(|(index, _)| *index <= committed).map(|(_, answer)| answer)
    }

    /// Drops all answers.
    pub fn clear(&mut self) {
        self.waiting.clear();
    }

    /// The indexes that answers wait for.
    pub fn indexes(&self) -> impl Iterator<Item = u64> {
        self.waiting.iter().map(|(index, _)| *index)
    }
}
