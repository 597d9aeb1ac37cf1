//! The object store: a state machine over disk operations.

mod api;

pub use api::*;
