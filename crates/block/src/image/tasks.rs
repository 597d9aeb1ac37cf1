//! Running scripts, and which call belongs to which of them.

use super::api::{Output, Reply};
use crate::call::{Answer, Call};
use crate::error::Error;
use crate::header::Header;
use crate::layer::Layer;
use crate::lock::Attempt;
use crate::map::ObjectMap;
use crate::notify::AsyncId;
use crate::script::{Progress, Script};
use std::collections::BTreeMap;
use std::sync::Arc;
use stdx::Bufs;

/// The use of a script.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Purpose {
    /// Opens the image.
    Open,
    /// Reads for a request.
    Read(Reading),
    /// Changes a data object for a request.
    Change { object: u64, request: u64 },
    /// Tries to take the lock.
    TryLock,
    /// Reads the header, and the object map if the lock is held.
    Load,
    /// Gives the lock back.
    GiveBack,
    /// Begins another watch for one that was lost.
    Rewatch { cookie: u64 },
    /// Carries out an operation.
    Maintain,
    /// Asks the lock's owner to carry out an operation.
    Ask(AsyncId),
    /// Tells the header's watchers of an operation that has ended.
    Announce(u64),
    /// Ends the watch and the lock, for this request.
    Close(u64),
    /// Nobody waits for it.
    Detached,
}

/// A read that is under way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Reading {
    /// The caller's number.
    pub(super) id: u64,
    pub(super) offset: u64,
    pub(super) len: u64,
    /// Bytes that the image shared with its parent when the read began.
    pub(super) overlap: u64,
}

/// What a script gives.
#[derive(Debug)]
pub(super) enum Done {
    Nothing,
    Data(Bufs),
    /// State of the object in the object map.
    Changed(u8),
    Loaded(Box<Loaded>),
    Attempted(Attempt),
    Maintained(Reply),
    /// Objects before the first number need nothing of the parent's any more; these exist by that, in
    /// this state of the object map.
    CopiedUp(u64, Vec<(u64, u8)>),
    /// The answer of the lock's owner to a request, if there was one.
    Asked(Option<Result<(), wire::Errno>>),
    /// The image shares less with its parent, and others know of it.
    SharesLess,
}

/// What was read of an image.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) header: Header,
    pub(super) parent: Option<Arc<Layer>>,
    pub(super) map: Option<ObjectMap>,
    /// The number by which other clients know this one.
    pub(super) client: Option<u64>,
}

/// A script that has ended.
pub(super) type Ended = (Purpose, Result<Done, Error>);

/// Running scripts.
///
/// Invariant: a token is in the table from its call to its answer.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    running: BTreeMap<u64, (Purpose, Script<Done>)>,
    /// The script of a call, and the call's position in its step.
    calls: BTreeMap<u64, (u64, usize)>,
    last: u64,
}

impl Tasks {
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Starts a script. Returns it if it has ended at once.
    pub(super) fn start(
        &mut self,
        purpose: Purpose,
        mut script: Script<Done>,
        out: &mut Vec<Output>,
    ) -> Option<Ended> {
        match script.start() {
            Progress::Ended(result) => Some((purpose, result)),
            Progress::Waits => unreachable!("a script begins with calls"),
            Progress::Calls(calls) => {
                let task = self.next();
                self.running.insert(task, (purpose, script));
                self.send(task, calls, out);
                None
            }
        }
    }

    /// Makes a call whose answer nobody waits for.
    pub(super) fn detach(&mut self, call: Call, out: &mut Vec<Output>) {
        let mut call = Some(call);
        let script = Script::new(move |cx| {
            cx.call(|| call.take().expect("a step is asked for once"))?;
            Ok(Done::Nothing)
        });
        self.start(Purpose::Detached, script, out);
    }

    fn send(&mut self, task: u64, calls: Vec<Call>, out: &mut Vec<Output>) {
        for (i, call) in calls.into_iter().enumerate() {
            let token = self.next();
            self.calls.insert(token, (task, i));
            out.push(Output::Call { token, call });
        }
    }

    /// Takes an answer. Returns the script if it has ended with it.
    pub(super) fn answer(&mut self, token: u64, answer: Answer, out: &mut Vec<Output>) -> Option<Ended> {
        let (task, i) = self.calls.remove(&token)?;
        let (_, script) = self.running.get_mut(&task)?;
        match script.answer(i, answer) {
            Progress::Waits => None,
            Progress::Calls(calls) => {
                self.send(task, calls, out);
                None
            }
            Progress::Ended(result) => self.running.remove(&task).map(|(purpose, _)| (purpose, result)),
        }
    }

    /// True while a read is under way.
    pub(super) fn is_reading(&self) -> bool {
        self.running.values().any(|(purpose, _)| matches!(purpose, Purpose::Read(_)))
    }

    /// True while a script of this use runs.
    pub(super) fn is_running(&self, purpose: &Purpose) -> bool {
        self.running.values().any(|(other, _)| other == purpose)
    }
}
