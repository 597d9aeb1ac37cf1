//! Scenarios of several OSDs.

mod cluster;
mod disk;
mod scenarios;
mod storm;
