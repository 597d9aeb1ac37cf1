//! Scenarios of several OSDs.

mod cluster;
mod disk;
mod hostile;
mod scenarios;
mod storm;
