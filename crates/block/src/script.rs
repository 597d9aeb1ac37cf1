//! Flows of several steps, written straight down.
//!
//! A script is a function that is run from its beginning each time that an answer has arrived: the calls that
//! it has had answered return at once, the next one stops it ([`Stop::Calls`]). So a flow reads like blocking
//! code and holds nothing half done, as an operation of a metadata server does (`mds/src/ops`). What it
//! depends on is fixed at its start, or comes from answers: otherwise it would not take the same way again.

use crate::call::{Answer, Call, ObjectCall};
use crate::error::Error;
use wire::{Decode, Errno, Reader};

/// Why a script does not go on.
#[derive(Debug)]
pub enum Stop {
    /// It waits for the answers to these, all at once.
    Calls(Vec<Call>),
    /// It has failed.
    Fail(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Fail(error)
    }
}

/// The outcome of a part of a script.
pub type Flow<T> = Result<T, Stop>;

/// The answers that a script has got so far.
#[derive(Debug)]
pub struct Cx<'a> {
    log: &'a [Vec<Answer>],
    at: usize,
}

impl<'a> Cx<'a> {
    /// Makes calls at the same time. `calls` is only run if they have not been answered yet.
    pub fn all(&mut self, calls: impl FnOnce() -> Vec<Call>) -> Flow<&'a [Answer]> {
        let Some(answers) = self.log.get(self.at) else { return Err(Stop::Calls(calls())) };
        self.at += 1;
        Ok(answers)
    }

    /// Makes one call.
    pub fn call(&mut self, call: impl FnOnce() -> Call) -> Flow<&'a Answer> {
        Ok(&self.all(|| vec![call()])?[0])
    }

    /// Runs a vector on an object. Returns its answer, which may be an error.
    pub fn object(&mut self, call: impl FnOnce() -> ObjectCall) -> Flow<&'a Answer> {
        self.call(|| Call::Object(call()))
    }

    /// Runs a vector on an object, which must succeed: `what` describes it for the error.
    pub fn object_ok(&mut self, what: &str, call: impl FnOnce() -> ObjectCall) -> Flow<&'a Answer> {
        let answer = self.object(call)?;
        answer.result().map_err(|errno| Error::of(errno, what))?;
        Ok(answer)
    }
}

/// Decodes an answer; one that is none is an I/O error.
pub(crate) fn decode<T: Decode>(what: &str, data: &stdx::Bufs) -> Flow<T> {
    let data = data.to_buf();
    Reader::new(&data).get().map_err(|_| {
        Error::new(Errno::EIO, format!("{what}: the cluster's answer makes no sense; is the image damaged?"))
            .into()
    })
}

/// What a script does next.
#[derive(Debug)]
pub enum Progress<T> {
    /// It makes these calls; the answer to each is given to [`Script::answer`] by its position.
    Calls(Vec<Call>),
    /// It waits for more answers.
    Waits,
    /// It has ended.
    Ended(Result<T, Error>),
}

/// What a script runs.
type Run<T> = Box<dyn FnMut(&mut Cx<'_>) -> Flow<T> + Send>;

/// A running script.
pub struct Script<T> {
    run: Run<T>,
    log: Vec<Vec<Answer>>,
    /// Answers of the present step.
    pending: Vec<Option<Answer>>,
}

impl<T> std::fmt::Debug for Script<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Script(step {}, {} calls)", self.log.len(), self.pending.len())
    }
}

impl<T> Script<T> {
    /// Begins a script; it must be run with [`Self::start`].
    pub fn new(run: impl FnMut(&mut Cx<'_>) -> Flow<T> + Send + 'static) -> Self {
        Self { run: Box::new(run), log: Vec::new(), pending: Vec::new() }
    }

    /// Runs it up to its first calls.
    pub fn start(&mut self) -> Progress<T> {
        loop {
            let mut cx = Cx { log: &self.log, at: 0 };
            match (self.run)(&mut cx) {
                Ok(value) => return Progress::Ended(Ok(value)),
                Err(Stop::Fail(error)) => return Progress::Ended(Err(error)),
                // There was nothing to do in this step.
                Err(Stop::Calls(calls)) if calls.is_empty() => self.log.push(Vec::new()),
                Err(Stop::Calls(calls)) => {
                    self.pending = vec![None; calls.len()];
                    return Progress::Calls(calls);
                }
            }
        }
    }

    /// Takes the answer to call `i` of the present step.
    pub fn answer(&mut self, i: usize, answer: Answer) -> Progress<T> {
        assert!(self.pending[i].replace(answer).is_none(), "one answer for each call");
        if self.pending.iter().any(Option::is_none) {
            return Progress::Waits;
        }
        self.log.push(std::mem::take(&mut self.pending).into_iter().flatten().collect());
        self.start()
    }
}
