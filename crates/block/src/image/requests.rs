//! Requests that have not been answered.

use super::api::{Output, Reply};
use crate::error::Error;
use std::collections::BTreeMap;

#[derive(Debug)]
struct Open {
    /// The caller's number.
    id: u64,
    /// Changes that have not ended; a flush has none.
    left: usize,
    error: Option<Error>,
    is_change: bool,
}

/// Requests that change something, and flushes, in the order in which they came.
///
/// Invariant: a flush is answered once no change that came before it is left.
#[derive(Debug, Default)]
pub(super) struct Requests {
    open: BTreeMap<u64, Open>,
    last: u64,
}

impl Requests {
    /// Adds a request of `changes` changes. Returns its number here.
    pub(super) fn add(&mut self, id: u64, changes: usize) -> u64 {
        self.last += 1;
        self.open.insert(self.last, Open { id, left: changes, error: None, is_change: true });
        self.last
    }

    /// Adds a flush.
    pub(super) fn add_flush(&mut self, id: u64, out: &mut Vec<Output>) {
        self.last += 1;
        self.open.insert(self.last, Open { id, left: 0, error: None, is_change: false });
        self.answer_flushes(out);
    }

    /// A change of a request has ended. The first error is the request's.
    pub(super) fn end(&mut self, number: u64, error: Option<Error>, out: &mut Vec<Output>) {
        let Some(request) = self.open.get_mut(&number) else { return };
        request.left -= 1;
        request.error = request.error.take().or(error);
        if request.left == 0 {
            self.answer(number, out);
            self.answer_flushes(out);
        }
    }

    /// True if every change has been answered.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    fn answer(&mut self, number: u64, out: &mut Vec<Output>) {
        if let Some(request) = self.open.remove(&number) {
            let reply = request.error.map_or(Ok(Reply::Done), Err);
            out.push(Output::Reply { id: request.id, reply });
        }
    }

    fn answer_flushes(&mut self, out: &mut Vec<Output>) {
        while let Some((number, request)) = self.open.first_key_value()
            && !request.is_change
        {
            let number = *number;
            self.answer(number, out);
        }
    }
}
