//! Outputs of the present input: messages and events, and their counters.

use node::{ConnId, Event, Level, Msg, Never, Output};
use std::collections::BTreeMap;

/// The outputs of an OSD.
pub type Out = Output<Never>;

/// The outputs of this input in their order, and how often each event happened.
#[derive(Debug, Default)]
pub struct Outbox {
    out: Vec<Out>,
    counters: BTreeMap<&'static str, u64>,
}

impl Outbox {
    /// Appends an output.
    pub fn push(&mut self, output: Out) {
        self.out.push(output);
    }

    /// Sends on a connection.
    pub fn send(&mut self, conn: ConnId, msg: Msg) {
        self.out.push(Out::Send { conn, msg });
    }

    /// Counts and reports an event.
    pub fn event(&mut self, level: Level, name: &'static str, detail: impl Into<String>) {
        self.count(name, 1);
        self.out.push(Out::Event(Event::new(level, name, detail)));
    }

    /// Increments a counter without an event.
    pub fn count(&mut self, name: &'static str, by: u64) {
        *self.counters.entry(name).or_default() += by;
    }

    /// Hands out all outputs.
    pub fn drain(&mut self, into: &mut Vec<Out>) {
        into.append(&mut self.out);
    }

    /// All counters by name.
    pub fn counters(&self) -> &BTreeMap<&'static str, u64> {
        &self.counters
    }
}
