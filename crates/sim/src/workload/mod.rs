//! What clients do to a cluster during a run, and the record of it that the oracles judge.

mod commands;
mod files;
mod filling;
mod objects;
mod snapshots;
mod watches;

pub use commands::CommandLoad;
pub use files::FileLoad;
pub use filling::FillLoad;
pub use objects::{ObjectLoad, object_request};
pub use snapshots::SnapshotLoad;
pub use watches::WatchLoad;

use crate::oracle::linear::Judgement;
use crate::world::{HostId, World};
use fsclient::{Reply, Request};
use node::RequestId;
use std::collections::BTreeSet;
use stdx::Instant;

/// A world of clients that take file system, object and monitor requests.
pub type ClientWorld = World<Request, Reply>;

/// A load on a cluster. Clients are known by their place in the list that the load was made with.
pub trait Load {
    /// When it wants to issue something next; `None` where nothing is left to ask.
    fn wants_at(&self) -> Option<Instant>;
    /// Issues what is due.
    fn issue(&mut self, world: &mut ClientWorld);
    /// An answer; `false` where the request was not of this load.
    fn answered(&mut self, world: &mut ClientWorld, host: HostId, id: RequestId, reply: &Reply) -> bool;
    /// A client is gone, with everything that it was asked.
    fn died(&mut self, host: HostId, now: Instant);
    /// Nothing fails from now on, and nothing should.
    fn faults_ended(&mut self) {}
    /// Nothing more is asked, but for one look at everything.
    fn finish(&mut self, world: &ClientWorld);
    /// Requests without an answer yet, and what they are.
    fn in_flight(&self) -> Vec<String>;
    /// Answered calls.
    fn answered_calls(&self) -> usize;
    /// The names of its checkers, and what each found.
    fn verdicts(&self) -> Vec<(&'static str, Judgement)>;
    /// Snapshots of the pool [`crate::cluster::SNAPSHOTS`] that were removed.
    fn removed_snaps(&self) -> Option<&BTreeSet<u64>> {
        None
    }
}
