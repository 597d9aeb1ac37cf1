//! Requests of PGs to objects of this or of other OSDs: sources of copies, and the answers of our own PGs.

use crate::ops::CopySource;
use maps::Spg;
use msgs::OsdOpReply;

/// A request that waits for a source: its PG, its number and attempt, and the operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CopyFor {
    /// The PG of the copy.
    pub pgid: Spg,
    /// Number of the request.
    pub op: u64,
    /// Attempt of the request.
    pub attempt: u32,
    /// Index of the operation in the request's vector.
    pub at: usize,
}

/// Requests not sent yet, and answers not handled yet.
#[derive(Debug, Default)]
pub struct OwnRequests {
    wanted: Vec<(CopyFor, CopySource)>,
    answers: Vec<(u64, Box<OsdOpReply>)>,
}

impl OwnRequests {
    /// Notes that a request needs the contents of an object.
    pub fn want(&mut self, wanted: CopyFor, source: CopySource) {
        self.wanted.push((wanted, source));
    }

    /// Takes the answer of our own PG to our own question.
    pub fn answered(&mut self, tid: u64, reply: OsdOpReply) {
        self.answers.push((tid, Box::new(reply)));
    }

    /// Takes the sources that PGs asked for.
    pub fn take_wanted(&mut self) -> Vec<(CopyFor, CopySource)> {
        std::mem::take(&mut self.wanted)
    }

    /// Takes the answers, with the numbers of the questions.
    pub fn take_answers(&mut self) -> Vec<(u64, Box<OsdOpReply>)> {
        std::mem::take(&mut self.answers)
    }
}
