//! The client's side of RADOS: object operations in, answers out, whatever happens to OSDs and maps in between.
//!
//! [`Rados`] is a sub-machine: it computes each operation's OSD with CRUSH on its map, keeps a connection to each OSD in
//! use, and sends again what a new map sends elsewhere or a broken connection lost. [`Cluster`] is it together with a
//! session to the monitors, which is what most owners want.
//!
//! An operation that was accepted ends in exactly one [`RadosTold::Done`] or [`RadosTold::Listed`], or is cancelled; there is no
//! limit on how long it may wait for a map, a monitor or an OSD. Operations on one object are carried out in the order in
//! which they were submitted, except that what may go on overtakes writes that wait for space or an administrator. A
//! write is applied once however often it is sent: the OSD knows it by client and tid.
//!
//! Watches and notifications linger: `linger.rs`.
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
