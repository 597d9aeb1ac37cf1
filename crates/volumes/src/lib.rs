//! What Ceph's manager modules `volumes` and `snap_schedule` do: groups, subvolumes, their snapshots and
//! clones, and scheduled snapshots of directories, in Ceph's layout below `/volumes`.
//!
//! [`Volumes`] carries commands out one after the other, as plain blocking code on the [`client`] library.
//! Two threads work in the background: one deletes removed trees, one copies clones. Everything that must
//! outlive a process is in the file system, or in objects beside its metadata.
//!
//! Entry points: [`Volumes::run`], then `service.rs`, which names the code of each command.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "this crate is layer 5: blocking code with threads and clocks"
)]

mod access;
mod attributes;
mod background;
mod clones;
mod cluster;
mod copying;
mod evict;
mod failure;
mod groups;
mod info;
mod lifecycle;
mod meta;
mod outcome;
mod output;
mod place;
mod schedule;
mod service;
mod snapshots;
mod subvolume;
mod trash;
mod tree;
mod volume;

pub use evict::Tell;
pub use outcome::Outcome;
pub use service::Volumes;
