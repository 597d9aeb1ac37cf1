//! Operations in progress: the table of them, and one attempt at one of them.

use crate::api::{Answer, Caller, FsRequest, Ino, Reply, Request};
use crate::key::OpId;
use crate::search::Search;
use crate::transfer::Transfer;
use maps::MdsRank;
use msgs::ClientReply;
use node::{Output, RequestId};
use std::collections::{BTreeMap, VecDeque};
use stdx::{Bufs, Now};
use wire::Errno;

pub(crate) type Outs = Vec<Output<Reply>>;

/// The outcome of an attempt.
#[derive(Debug)]
pub(crate) enum Step {
    /// The operation has its answer.
    Done(Reply),
    /// Something that it waits for will wake it.
    Wait,
}

/// An error as an outcome.
pub(crate) fn fail(errno: Errno) -> Step {
    Step::Done(Err(errno))
}

/// An answer as an outcome.
pub(crate) fn done(answer: Answer) -> Step {
    Step::Done(Ok(answer))
}

/// The progress of an operation.
#[derive(Debug, Default)]
pub(crate) enum Stage {
    /// Nobody was asked yet, or the operation starts over.
    #[default]
    New,
    /// An MDS was asked.
    AtMds,
    /// The MDS has answered.
    Answered(Box<ClientReply>),
    /// An MDS was asked to free a flock that is to get another kind.
    Freeing,
    /// It has freed the flock.
    Freed(Box<ClientReply>),
    /// The MDS told the file's size after the operation began.
    Sized,
    /// File data are being read or zeroed.
    Transfer(Transfer),
    /// Objects are being looked at for data or holes.
    Search(Search),
    /// These data of a snapshot were read; an MDS is asked if that still exists.
    Confirming(Bufs),
    /// The MDS has answered with this result.
    Confirmed(Bufs, i32),
    /// This range was buffered; the writer waits for the buffer to shrink, or for its data to arrive.
    Written {
        /// Its first byte.
        offset: u64,
        /// Its bytes.
        len: u32,
    },
    /// A monitor or an OSD was asked; its answer is the operation's.
    Elsewhere,
    /// The answer is known.
    Ready(Reply),
    /// Everything is written back; the sessions close.
    Leaving,
}

/// How far a copy is.
#[derive(Debug, Default)]
pub(crate) struct Copied {
    /// Bytes that were written.
    pub(crate) bytes: u64,
    /// The next ones, which were read.
    pub(crate) read: Option<Bufs>,
}

/// An operation in progress.
#[derive(Debug)]
struct Op {
    id: RequestId,
    request: Request,
    stage: Stage,
    copied: Copied,
    /// The rank of the last answer.
    answered_by: MdsRank,
    /// An MDS was sent the request more than once: it may have carried it out long ago, and others something
    /// else since.
    is_repeat: bool,
    /// Its caller does not want to wait any longer.
    is_interrupted: bool,
}

/// One attempt at an operation: its progress and the world as it is now.
pub(crate) struct Attempt<'a> {
    now: Now,
    op: OpId,
    request: &'a Request,
    stage: Stage,
    copied: Copied,
    answered_by: MdsRank,
    is_repeat: bool,
    is_interrupted: bool,
    out: &'a mut Outs,
}

impl<'a> Attempt<'a> {
    pub(crate) fn now(&self) -> Now {
        self.now
    }

    pub(crate) fn op(&self) -> OpId {
        self.op
    }

    pub(crate) fn request(&self) -> &'a Request {
        self.request
    }

    /// The caller of a file system operation; that of other requests has no user and no group.
    pub(crate) fn caller(&self) -> Caller {
        match self.request {
            Request::Fs(caller, _) => caller.clone(),
            _ => Caller::default(),
        }
    }

    /// The rank that gave the answer at hand.
    pub(crate) fn answered_by(&self) -> MdsRank {
        self.answered_by
    }

    /// True if the answer at hand may be to a request that was carried out long ago.
    pub(crate) fn is_repeat(&self) -> bool {
        self.is_repeat
    }

    /// True if the caller does not want to wait any longer.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.is_interrupted
    }

    /// How far this is, if it copies.
    pub(crate) fn copied(&mut self) -> &mut Copied {
        &mut self.copied
    }

    pub(crate) fn out(&mut self) -> &mut Outs {
        self.out
    }

    /// Takes the progress; an attempt that waits sets it again.
    pub(crate) fn take_stage(&mut self) -> Stage {
        std::mem::take(&mut self.stage)
    }

    /// Ends the attempt: the operation waits with this progress.
    pub(crate) fn wait_at(&mut self, stage: Stage) -> Step {
        self.stage = stage;
        Step::Wait
    }
}

/// The table of operations.
///
/// Invariant: an operation is in the table from its request to its answer, except during its own attempt.
#[derive(Debug, Default)]
pub(crate) struct Ops {
    ops: BTreeMap<OpId, Op>,
    last: u64,
    runnable: VecDeque<OpId>,
}

impl Ops {
    /// Adds an operation, which may run.
    pub(crate) fn start(&mut self, id: RequestId, request: Request) {
        self.last += 1;
        let op = OpId::new(self.last);
        let (stage, answered_by) = (Stage::New, MdsRank::default());
        let copied = Copied::default();
        let entry = Op { id, request, stage, copied, answered_by, is_repeat: false, is_interrupted: false };
        self.ops.insert(op, entry);
        self.wake(op);
    }

    /// True if local callers wait for answers.
    pub(crate) fn is_any_waiting(&self) -> bool {
        !self.ops.is_empty()
    }

    /// Lets an operation try again.
    pub(crate) fn wake(&mut self, op: OpId) {
        self.runnable.push_back(op);
    }

    /// The caller that waits for the lock of this token does not want to wait any longer.
    pub(crate) fn interrupt(&mut self, asked: u64) {
        let is_meant = |op: &Op| {
            let Request::Fs(_, FsRequest::Setlk { wait: true, token, .. }) = &op.request else {
                return false;
            };
            *token == asked
        };
        if let Some((op, entry)) = self.ops.iter_mut().find(|(_, op)| is_meant(op)) {
            entry.is_interrupted = true;
            self.runnable.push_back(*op);
        }
    }

    /// The next operation that may run.
    pub(crate) fn next_runnable(&mut self) -> Option<OpId> {
        self.runnable.pop_front()
    }

    /// Attempts an operation, if it is still in progress.
    pub(crate) fn attempt(
        &mut self,
        now: Now,
        op: OpId,
        out: &mut Outs,
        step: impl FnOnce(&mut Attempt<'_>) -> Step,
    ) {
        let Some(Op { id, request, stage, copied, answered_by, is_repeat, is_interrupted }) =
            self.ops.remove(&op)
        else {
            return;
        };
        if let Stage::Ready(reply) = stage {
            return out.push(Output::Reply { id, reply });
        }
        let whole = &request;
        let mut attempt =
            Attempt { now, op, request: whole, stage, copied, answered_by, is_repeat, is_interrupted, out };
        let step = step(&mut attempt);
        let (stage, copied) = (attempt.stage, attempt.copied);
        match step {
            Step::Done(reply) => out.push(Output::Reply { id, reply }),
            Step::Wait => {
                let left = Op { id, request, stage, copied, answered_by, is_repeat, is_interrupted };
                self.ops.insert(op, left);
            }
        }
    }

    /// The directory that an operation is the statfs(2) of.
    pub(crate) fn statfs_root(&self, op: OpId) -> Option<Ino> {
        match &self.ops.get(&op)?.request {
            Request::Fs(_, FsRequest::Statfs { root }) => Some(*root),
            _ => None,
        }
    }

    /// A rank has answered.
    pub(crate) fn answered(&mut self, op: OpId, rank: MdsRank, reply: Box<ClientReply>, is_repeat: bool) {
        if let Some(entry) = self.ops.get_mut(&op) {
            entry.is_repeat |= is_repeat;
            entry.answered_by = rank;
            entry.stage = match std::mem::take(&mut entry.stage) {
                Stage::Confirming(data) => Stage::Confirmed(data, reply.result),
                Stage::Freeing => Stage::Freed(reply),
                _ => Stage::Answered(reply),
            };
            self.wake(op);
        }
    }

    /// The answer is known: the operation gives it at its next attempt.
    pub(crate) fn resolve(&mut self, op: OpId, reply: Reply) {
        if let Some(entry) = self.ops.get_mut(&op) {
            entry.stage = Stage::Ready(reply);
            self.wake(op);
        }
    }

    /// A piece of a transfer is done.
    pub(crate) fn piece_done(&mut self, op: OpId, piece: usize, result: Result<Bufs, Errno>) {
        match self.ops.get_mut(&op).map(|op| &mut op.stage) {
            Some(Stage::Transfer(transfer)) => transfer.piece_done(piece, result),
            Some(Stage::Search(search)) => search.piece_done(piece, result),
            _ => return,
        }
        self.wake(op);
    }

    /// The sessions are closed: ends the operations that waited for it.
    pub(crate) fn left(&mut self, out: &mut Outs) {
        let leaving = |op: &mut Op| matches!(op.stage, Stage::Leaving);
        for (_, op) in self.ops.extract_if(.., |_, op| leaving(op)) {
            out.push(Output::Reply { id: op.id, reply: Ok(Answer::Done) });
        }
    }

    /// Asserts the invariant after an input: what may run has run.
    pub(crate) fn check(&self) {
        assert!(self.runnable.is_empty(), "the client settled with operations that may run");
        assert!(
            self.ops.keys().all(|op| *op <= OpId::new(self.last)),
            "an operation of a number that was not given"
        );
    }
}
