//! Snapshot schedules of directories: what was asked for ([`book`]), when it is due, which snapshots are kept
//! ([`prune`]), and taking and removing them ([`runner`]). Time is always an argument, in seconds since 1970.

pub(crate) mod book;
mod calendar;
pub(crate) mod commands;
mod prune;
pub(crate) mod runner;
mod spec;
