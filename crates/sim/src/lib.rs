//! A whole cluster in one thread: nodes, network, disks and clocks, from one seed.
//!
//! The roles are those that `runtime` runs; here they meet lost connections, delays, torn sectors, power loss and skewed clocks
//! faster than real time. A failing run is a number that anyone can replay: `cargo xtask sim SEED`.

mod any;
mod disk;
mod faults;
mod handshake;
mod link;
mod trace;
mod world;

pub use any::Daemon;
pub use disk::{Crash, SECTOR, SimDisk};
pub use faults::Faults;
pub use trace::Trace;
pub use world::{Boot, Maker, Slot, SlotSpec, World};
