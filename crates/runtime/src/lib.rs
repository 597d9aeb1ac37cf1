//! The world of a running node, and the only place with sockets, files, clocks, threads and entropy.
//!
//! Entry points: [`EventLoop::spawn`] runs a [`node::Node`] from its [`NodeSpec`]; [`open_disk`] and
//! [`Listener::bind`] make what a node must know before it is made; [`Handle`] is how local callers reach it.
//!
//! ```text
//! socket tasks ─┐                                   ┌─ connections (net)
//! disk threads ─┼─ inbox ─ Driver ─ Node::handle ─ outputs ─┼─ disks (disk)
//! admin, calls ─┘                                   └─ answers
//! ```
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "this is the layer that the lints keep everybody else out of"
)]

mod admin;
mod answer;
mod clock;
mod disk;
mod driver;
mod entropy;
mod handle;
mod inbox;
mod limit;
mod load;
mod loops;
mod memory;
mod metrics;
mod net;

pub use admin::ask as ask_admin;
pub use answer::{Completion, Gone};
pub use clock::{FileClock, now};
pub use disk::{
    Access, DiskBackend, DiskDone, DiskOpenError, DiskPool, DiskSpec, FileDisk, forget_partitions, in_use,
    kernel_use, lock_shared, open as open_disk, open_alone, partitions,
};
pub use entropy::{nonce, rng};
pub use handle::Handle;
pub use loops::{EventLoop, Found, NodeSpec, Notice};
pub use memory::{give_back, give_back_by, of_host as memory_of_host};
pub use metrics::Metrics;
pub use net::{Limits, ListenError, Listener};
