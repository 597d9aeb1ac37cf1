//! The checkers: one property a file, each naming what it protects.
//!
//! A checker knows nothing of how the cluster works, only its promises. A failure carries the checker's name,
//! and the test of the mutants expects it.

pub mod backoffs;
pub mod contents;
pub mod events;
pub mod images;
pub mod late;
pub mod linear;
pub mod maps;
pub mod metadata;
pub mod namespace;
pub mod objects;
mod provenance;
pub mod replicas;
pub mod shown;
pub mod snapped;
pub mod snapshots;
pub mod stores;
pub mod terms;
pub mod watches;
