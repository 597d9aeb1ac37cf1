//! The file system client role.

mod api;

pub use api::*;
