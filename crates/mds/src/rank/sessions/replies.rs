//! How long clients waited for answers.

use decl::Mean;
use msgs::MdsOp;
use std::collections::BTreeMap;
use stdx::Instant;

/// A request whose answer is on its way: what it asks for, and when it came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::rank) struct Asked {
    pub op: MdsOp,
    pub at: Instant,
}

/// The answers that have left since the start.
#[derive(Default, Debug)]
pub(in crate::rank) struct Replies {
    all: Mean,
    by_op: BTreeMap<MdsOp, Mean>,
}

impl Replies {
    /// An answer leaves.
    pub fn left(&mut self, asked: Asked, now: Instant) {
        let took = now.since(asked.at);
        self.all.add(took);
        self.by_op.entry(asked.op).or_default().add(took);
    }

    /// All of them.
    pub fn all(&self) -> Mean {
        self.all
    }

    /// Those to requests of a kind.
    pub fn of(&self, op: MdsOp) -> Mean {
        self.by_op.get(&op).copied().unwrap_or_default()
    }
}
