//! Each health code from its real cause: the cause is made, the code appears in `ceph health detail`, what
//! its line `to do:` says is done word for word, and the code is gone.
//!
//! docs/health.md lists the codes and their tests; `crates/xtask/src/guards/health.rs` holds it to that.

mod clients;
mod descriptions;
mod flags;
mod network;
mod operator;
mod osds;
mod pgs;
mod pools;
mod scrubs;
mod servers;
mod space;
mod upgrades;
