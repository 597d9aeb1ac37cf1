//! The metadata server role.

mod config;

pub use config::{MdsConfig, MdsOptions};
