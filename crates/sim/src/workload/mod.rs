//! The clients' operations during a run, and the histories that the checkers judge.

mod believed;
mod commands;
mod file_draws;
mod file_requests;
mod files;
mod filling;
mod images;
mod locks;
mod objects;
mod snap_walk;
mod snapshots;
mod watches;

pub use commands::CommandLoad;
pub use files::FileLoad;
pub use filling::FillLoad;
pub use images::ImageLoad;
pub use locks::LockLoad;
pub use objects::ObjectLoad;
pub use snapshots::SnapshotLoad;
pub use watches::WatchLoad;

use crate::host::HostId;
use crate::image_audit::Expected;
use crate::oracle::late::Told;
use crate::oracle::linear::Judgement;
use crate::world::World;
use fsclient::{Invalidate, Reply, Request};
use node::RequestId;
use std::collections::BTreeSet;
use stdx::Instant;

/// A world of clients that take file system, object and monitor requests.
pub type ClientWorld = World<Request, Reply>;

/// A load on a cluster. Clients are known by their index in the list that the load was made with.
pub trait Load {
    /// The time of its next call; `None` if it has no more.
    fn wants_at(&self) -> Option<Instant>;
    /// Makes the calls that are due.
    fn issue(&mut self, world: &mut ClientWorld);
    /// Handles an answer; `false` if the request was not of this load.
    fn answered(&mut self, world: &mut ClientWorld, host: HostId, id: RequestId, reply: &Reply) -> bool;
    /// Handles a client's death: its requests get no answer.
    fn died(&mut self, host: HostId, now: Instant);
    /// A client's callers have to forget something.
    fn invalidated(&mut self, _host: HostId, _what: &Invalidate) {}
    /// An event says this of a client that came late after a metadata server had restarted.
    fn heard(&mut self, _host: HostId, _told: &Told) {}
    /// The phase without faults begins.
    fn faults_ended(&mut self) {}
    /// Makes no more calls, except for one last look at everything.
    fn finish(&mut self, world: &ClientWorld);
    /// Descriptions of unanswered requests.
    fn in_flight(&self) -> Vec<String>;
    /// Number of answered calls.
    fn answered_calls(&self) -> usize;
    /// The results of its checkers, by name.
    fn verdicts(&self) -> Vec<(&'static str, Judgement)>;
    /// Files that got a further name at some time: of these, the server may keep the inode elsewhere.
    fn linked_files(&self) -> BTreeSet<u64> {
        BTreeSet::new()
    }
    /// Removed snapshots of the pool [`crate::cluster::SNAPSHOTS`], or [`crate::cluster::IMAGES`].
    fn removed_snaps(&self) -> Option<&BTreeSet<u64>> {
        None
    }
    /// The images that exist at the end.
    fn expected_images(&self) -> Option<Vec<Expected>> {
        None
    }
}
