//! The checkers: one property a file, each naming what it protects.
//!
//! A checker knows nothing of how the cluster works, only what it promised. Its name is what a failure carries and what the
//! mutants' test expects.

pub mod backoffs;
pub mod contents;
pub mod events;
pub mod linear;
pub mod maps;
pub mod metadata;
pub mod namespace;
pub mod objects;
pub mod replicas;
pub mod snapshots;
pub mod stores;
pub mod terms;
pub mod watches;
