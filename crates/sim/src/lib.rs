//! A whole cluster in one thread: nodes, network, disks and clocks, from one seed.
//!
//! The roles are those that `runtime` runs. Here they meet lost connections, delays, torn sectors, power loss
//! and skewed clocks, faster than real time. A failing run is a number that anyone can replay: `cargo xtask
//! sim SEED`.

mod any;
mod audit;
pub mod builds;
pub mod cluster;
mod disk;
mod faults;
mod handshake;
mod host;
mod image_audit;
mod image_calls;
mod kind;
mod link;
mod linux_like;
mod machines;
pub mod metadata;
mod nemesis;
pub mod objects;
pub mod oracle;
mod processors;
mod run;
pub mod scale;
pub mod scaling;
mod trace;
pub mod workload;
mod world;

pub use any::Daemon;
pub use disk::{Crash, Decay, SECTOR, SimDisk};
pub use faults::Faults;
pub use host::HostId;
pub use kind::Kind;
pub use machines::{Carried, Done, Flows, Hardware, Machines, Work};
pub use nemesis::Profile;
pub use processors::Processor;
pub use run::{Failure, Stats, run_profile, run_seed, run_traced};
pub use trace::Trace;
pub use world::{Boot, HostSpec, Maker, Observer, World};
