//! The client's side of RADOS: object operations in, answers out, whatever happens to OSDs and maps in
//! between.
//!
//! [`Rados`] is a sub-machine: it computes each operation's OSD with CRUSH on its map, keeps a connection to
//! each OSD in use, and sends operations again that a new map directs elsewhere or a broken connection lost.
//! [`Cluster`] combines it with a session to the monitors, which most owners want.
//!
//! An accepted operation ends in exactly one [`RadosTold::Done`] or [`RadosTold::Listed`], or is cancelled;
//! it may wait without limit for a map, a monitor or an OSD. Operations on one object are carried out in the
//! order of their submission, except that writes that wait for space or an administrator are overtaken by
//! operations that need neither. A write is applied once however often it is sent: the OSD knows it by client
//! and tid.
//!
//! Watches and notifications linger: `linger/mod.rs`.
//!
//! Absent: redirects, reads from replicas, snapshot contexts from pool snapshots.

mod backoff;
mod cluster;
mod engine;
mod linger;
mod list;
mod maps_in;
mod op;
mod out;
mod request;
mod session;
mod target;

pub use cluster::{Cluster, ClusterOut};
pub use engine::{Rados, RadosConfig};
pub use list::{Listing, cursor_start};
pub use out::{Completion, RadosOut, RadosTold};
pub use request::{ALL_NAMESPACES, Request, SnapContext};
