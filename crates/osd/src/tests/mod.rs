//! Scenarios of several OSDs.

mod ahead;
mod answers;
mod backoffs;
mod balanced;
mod classes;
mod cluster;
mod copies;
mod disk;
mod full;
mod heartbeats;
mod hostile;
mod levels;
mod lost;
mod map_sharing;
mod merge;
mod perf;
mod reservations;
mod scenarios;
mod scrub;
mod shards;
mod snapshots;
mod split;
mod storm;
mod suspended;
mod watches;
